"""The split of a batch over a mesh of devices: sequences along one axis, time along another.

Inside `jax.shard_map` a model has one shard of the batch. A `Split` identifies the shard and
computes quantities that depend on all shards: statistics, means over time, intervals between
shards.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Bool, Float, Int, UInt32

from linoss.scan import last_nonzero, nearest_before

BATCH, TIME = "batch", "time"


class Split(NamedTuple):
    """The mesh axes along which batch and time are split; None if they are not."""

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

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes of the split."""
        return tuple(axis for axis in self if axis is not None)

    def sum(self, x: Any) -> Any:
        """Sum over all devices."""
        return jax.lax.psum(x, self.axes) if self.axes else x

    def sum_over_time(self, x: Any) -> Any:
        """Sum over the shards of the same sequences."""
        return x if self.time is None else jax.lax.psum(x, self.time)

    def max_over_time(self, x: Array) -> Array:
        """Maximum over the shards of the same sequences."""
        if self.time is None:
            return x
        largest = jax.lax.pmax(jax.lax.stop_gradient(x), self.time)
        here = (x == largest) & jnp.isfinite(x)  # the device that receives the gradient
        zero = self.sum_over_time(jnp.where(here, x - jax.lax.stop_gradient(x), 0))
        return largest + zero / jnp.maximum(self.sum_over_time(here.astype(x.dtype)), 1)

    def cut(self, tree: Any) -> Any:
        """This device's shard of arrays `(batch, time, ...)` that are whole along time."""
        if self.time is None:
            return tree
        here, shards = jax.lax.axis_index(self.time), jax.lax.axis_size(self.time)

        def shard(x: Array) -> Array:
            size = x.shape[1] // shards
            return jax.lax.dynamic_slice_in_dim(x, here * size, size, axis=1)

        return jax.tree.map(shard, tree)

    def first_sample(self, batch: int, time: int) -> UInt32[Array, "2"]:
        """The index of this shard's first sample in the whole batch, and the number of samples from
        one sequence to the next."""
        start, steps = self.steps_before(time)
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
        if not self.axes:
            return moments
        mean, variance = moments
        count = jnp.asarray(count, mean.dtype)
        share = count / jnp.maximum(self.sum(count), 1)
        center = self.sum(share * mean)
        return jnp.stack([center, self.sum(share * (variance + (mean - center) ** 2))])

    def time_means(
        self, means: Float[Array, "*batch hidden"], count: Int[Array, "*batch"] | int
    ) -> Float[Array, "*batch hidden"]:
        """Means over whole sequences, from those of this shard's `count` samples."""
        if self.time is None:
            return means
        count = jnp.asarray(count, means.dtype)
        share = count / jnp.maximum(self.sum_over_time(count), 1)
        return self.sum_over_time(jnp.expand_dims(share, -1) * means)

    def is_last(self, present: Bool[Array, "..."]) -> Bool[Array, "..."]:
        """Where `present` on this shard and on no later one."""
        if self.time is None:
            return present
        later = nearest_before(self.time, present.astype(jnp.int32), reverse=True)
        return present & (later == 0)

    def first_after(self, value: Array, otherwise: Array) -> Array:
        """The first nonzero value on a later shard, else on any shard, else `otherwise`."""
        if self.time is None:
            return otherwise
        after = nearest_before(self.time, value, reverse=True)
        first = last_nonzero(self.time, value, reverse=True)
        return jnp.where(after != 0, after, jnp.where(first != 0, first, otherwise))


WHOLE = Split()
