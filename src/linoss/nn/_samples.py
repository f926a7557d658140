"""The sequences of a batch as they pass through a model, validated once, and their split over
devices: sequences along one axis of a mesh, time along another."""

from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Bool, Float, Int, UInt32

from linoss import _checks
from linoss._arrays import steps
from linoss._settings import GapsName, PrecisionName
from linoss.kernels import Timing
from linoss.scan import resolve_engine

BATCH, TIME = "batch", "time"


class Split(NamedTuple):
    """The mesh axes along which batch and time are split; None if they are not.

    Inside `jax.shard_map` a model has one shard of the batch. A `Split` identifies the shard and
    computes quantities that depend on all shards: statistics, means over time, intervals between
    shards.
    """

    batch: str | None = None
    time: str | None = None

    @classmethod
    def of(cls, mesh: Mesh | None) -> "Split":
        """The split over a mesh with axes named "batch" and "time"."""
        if mesh is None:
            return cls()
        if not isinstance(mesh, Mesh):
            raise ValueError(f"mesh is a {type(mesh).__name__}, expected a jax.sharding.Mesh")
        if not mesh.axis_names or not set(mesh.axis_names) <= {BATCH, TIME}:
            raise ValueError(
                f"mesh has the axes {mesh.axis_names}, expected 'batch', 'time', or both: "
                "jax.make_mesh((2, 4), ('batch', 'time'))"
            )
        return cls(*(name if mesh.shape.get(name, 1) > 1 else None for name in (BATCH, TIME)))

    @property
    def samples(self) -> P:
        """Partition of arrays `(batch, time, ...)`."""
        return P(self.batch, self.time)

    @property
    def sequences(self) -> P:
        """Partition of arrays `(batch, ...)`."""
        return P(self.batch)

    def first_sample(self, batch: int, time: int, *, shared: bool = False) -> UInt32[Array, "2"]:
        """The index of this shard's first sample in the whole batch, and the number of samples from
        one sequence to the next. If `shared`, all sequences have the indices of the first."""
        start, steps = self.steps_before(time)
        if shared:
            return jnp.stack([jnp.asarray(start, jnp.uint32), jnp.uint32(0)])
        row = 0 if self.batch is None else batch * jax.lax.axis_index(self.batch)
        start, steps, row = (jnp.asarray(n, jnp.uint32) for n in (start, steps % 2**32, row))
        return jnp.stack([row * steps + start, steps])

    def steps_before(self, time: int) -> tuple[Any, int]:
        """The number of steps before this shard of `time` steps, and in whole sequences."""
        if self.time is None:
            return 0, time
        return jax.lax.axis_index(self.time).astype(int) * time, jax.lax.axis_size(self.time) * time

    def moments(
        self, moments: Float[Array, "2 hidden"], count: Int[Array, ""] | int
    ) -> Float[Array, "2 hidden"]:
        """Mean and variance over all devices, from those of this device's `count` samples."""
        axes = tuple(axis for axis in self if axis is not None)
        if not axes:
            return moments
        mean, variance = moments
        count = jnp.asarray(count, mean.dtype)
        share = count / jnp.maximum(jax.lax.psum(count, axes), 1)
        center = jax.lax.psum(share * mean, axes)
        spread = share * (variance + (mean - center) ** 2)
        return jnp.stack([center, jax.lax.psum(spread, axes)])


WHOLE = Split()


class Samples(eqx.Module):
    """A batch of sequences: values, mask, intervals, lengths, and split over devices.

    Norms, mixers and heads take it together with the features of a block.
    """

    values: Float[Array, "*batch time channel"]
    mask: Bool[Array, "*batch time"] | None = None
    """False where a sample is missing or padding; None if all are present."""
    intervals: Float[Array, "*batch time"] | None = None
    """Time since the previous sample, in regular sampling intervals; None for regular sampling."""
    lengths: Int[Array, "*batch"] | None = None
    """Number of samples of each sequence; None if all are equal."""
    split: Split = eqx.field(static=True, default=WHOLE)
    """The split of the batch over devices."""
    engine: str = eqx.field(static=True, default="auto")
    """The engine of recurrences, see [`linoss.oscillator_scan`][]."""
    precision: PrecisionName = eqx.field(static=True, default="float32")
    """The precision of matrix products in blocks, see [`linoss.LinOSSConfig`][]."""
    memory: int = eqx.field(static=True, default=0)
    """Bytes that a forward pass in training may store, see [`linoss.LinOSS.training_pass`][]."""
    gaps: GapsName = eqx.field(static=True, default="stand")
    """Treatment of states at missing samples, see [`linoss.LinOSSConfig`][]."""
    silent: Bool[Array, "*batch time"] | None = None
    """True where a sample is missing and states advance without forcing; None if nowhere."""

    @classmethod
    def checked(
        cls,
        values: Any,
        channels: int,
        *,
        lengths: Any = None,
        mask: Any = None,
        intervals: Any = None,
        engine: str = "auto",
        precision: PrecisionName = "float32",
        memory: int = 0,
        gaps: GapsName = "stand",
        mesh: Mesh | None = None,
    ) -> "Samples":
        """Validate the arguments of a caller. Of traced values, only shapes are validated."""
        values = _checks.floating("u", values)
        _checks.shape("u", values, ("...", "time", channels))
        *batch, time, _ = values.shape
        if time == 0:
            raise ValueError(f"u has shape {values.shape}, expected at least one step of time")
        if lengths is not None:
            lengths = _check_lengths(lengths, tuple(batch), time)
        if mask is not None:
            _checks.boolean("mask", mask)
            _checks.shape("mask", mask, (*batch, time))
            mask = jnp.asarray(mask)
        if intervals is not None:
            intervals = _checks.floating("intervals", intervals)
            _checks.shape("intervals", intervals, (*batch, time))
            with jax.ensure_compile_time_eval():  # the interval of a missing sample may be NaN
                present = _join(mask, lengths, time)
                intervals = intervals if present is None else jnp.where(present, intervals, 1)
            _checks.nonnegative("intervals", intervals, allow_zero=False)
        split = Split.of(mesh)
        if mesh is not None and values.ndim != 3:
            raise ValueError(
                f"u has shape {values.shape}, expected (batch, time, in_size) for a mesh"
            )
        engine = resolve_engine(engine)
        return cls(values, mask, intervals, lengths, split, engine, precision, memory, gaps)

    def check_mesh(self, mesh: Mesh, *, every: int | None, horizon: int | None) -> None:
        """Raise if the mesh does not divide sequences, or their steps into parts with whole numbers
        of outputs at every k-th step."""
        sequences, steps, _ = self.values.shape
        if self.split.batch is not None and sequences % mesh.shape[BATCH]:
            raise ValueError(
                f"u has {sequences} sequences, expected a multiple of {mesh.shape[BATCH]}, the "
                "mesh's devices along 'batch'"
            )
        if self.split.time is None:
            return
        if horizon is not None:
            raise ValueError("the mesh splits time, which forecasts do not support")
        if steps % (mesh.shape[TIME] * (every or 1)):
            each = "" if every is None else f" times {every}, the steps from output to output"
            raise ValueError(
                f"u has {steps} steps, expected a multiple of {mesh.shape[TIME]}, the mesh's "
                f"devices along 'time'{each}; pad it, and pass lengths"
            )

    def joined(self) -> "Samples":
        """Merge `lengths` into the mask, set missing values to 0 (they may be NaN), and set
        `silent`."""
        time = self.values.shape[-2]
        before, silent = self.split.steps_before(time)[0], None
        mask = _join(self.mask, self.lengths, time, before)
        if mask is None:
            return self
        if self.gaps == "move" and self.mask is not None and self.intervals is None:
            silent = _join(~self.mask, self.lengths, time, before)
        values = jnp.where(mask[..., None], self.values, 0)
        return replace(self, values=values, mask=mask, silent=silent)

    @property
    def moving(self) -> Bool[Array, "*batch time"] | None:
        """False where states keep their value; None if they advance at all samples."""
        if self.silent is None or self.mask is None:
            return self.mask
        return None if self.lengths is None else self.mask | self.silent

    def forces(self, x: Float[Array, "*batch time m"]) -> Float[Array, "*batch time m"]:
        """The forces: `x`, and 0 at silent samples."""
        return x if self.silent is None else jnp.where(self.silent[..., None], 0, x)

    def count(self) -> Any:
        """The number of present samples of all sequences of this device."""
        return int(np.prod(self.values.shape[:-1])) if self.mask is None else jnp.sum(self.mask)

    @property
    def present(self) -> Bool[Array, "*batch time"]:
        """True where a sample is present."""
        return jnp.ones(self.values.shape[:-1], bool) if self.mask is None else self.mask

    def timing(self, *, reverse: bool = False) -> Timing:
        """Mask and intervals for kernels."""
        intervals = self.intervals_after() if reverse else self.intervals
        return Timing(self.mask, self.silent, intervals)

    def intervals_after(self) -> Float[Array, "*batch time"] | None:
        """The time to the next present sample, for a run in reverse.

        The last sample has the interval of the first.
        """
        if self.intervals is None:
            return None
        if self.split.time is not None:
            raise ValueError(
                "time is split over devices, which irregular times in both directions do not "
                "support; split only the batch"
            )
        intervals, time = self.intervals, self.intervals.shape[-1]
        index = jnp.where(self.present, steps(*intervals.shape), time)
        following = jax.lax.cummin(index, axis=index.ndim - 1, reverse=True)
        following = jnp.concatenate(
            [following[..., 1:], jnp.full_like(index[..., :1], time)], axis=-1
        )
        own = jnp.min(index, axis=-1, keepdims=True)
        first = jnp.take_along_axis(intervals, jnp.minimum(own, time - 1), axis=-1)
        known = jnp.take_along_axis(intervals, jnp.minimum(following, time - 1), axis=-1)
        return jnp.where(following < time, known, first)


def _join(mask: Array | None, lengths: Array | None, time: int, before: Any = 0) -> Array | None:
    """The mask of samples within the lengths, from step `before` on; None if all are."""
    if lengths is None:
        return mask
    within = steps(*lengths.shape, time) + before < lengths[..., None]
    return within if mask is None else mask & within


def _check_lengths(lengths: Any, batch: tuple[int, ...], time: int) -> Array:
    with jax.ensure_compile_time_eval():  # a concrete value stays concrete
        lengths = jnp.asarray(lengths)
        if not jnp.issubdtype(lengths.dtype, jnp.integer):
            raise ValueError(f"lengths has dtype {lengths.dtype}, expected integers")
        _checks.shape("lengths", lengths, batch)
        if _checks.is_concrete(lengths):
            seen = np.asarray(lengths)
            for index in np.argwhere((seen < 1) | (seen > time))[:1].tolist():
                raise ValueError(
                    f"lengths is {seen[tuple(index)]} at index {tuple(index)}, expected 1 to "
                    f"{time}, the number of steps in u"
                )
        return lengths.astype(int)
