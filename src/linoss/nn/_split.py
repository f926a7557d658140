"""How a batch lies on a mesh of devices: sequences along one axis, time along another.

A model that runs inside `jax.shard_map` sees a piece of the batch. This says which, and joins what
has to be known of all of it: statistics, means over time, the states between pieces.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Bool, Float, Int, UInt32

from linoss.scan import nearest_before

BATCH, TIME = "batch", "time"


class Split(NamedTuple):
    """The mesh's axes along which the batch and time are split; None where they are whole."""

    batch: str | None = None
    time: str | None = None

    @classmethod
    def of(cls, mesh: Mesh | None) -> "Split":
        """That of a mesh, whose axes are called "batch" and "time"."""
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
        """Of arrays with the axes batch and time, and others after them."""
        return P(self.batch, self.time)

    @property
    def sequences(self) -> P:
        """Of arrays with the axis batch, and others after it."""
        return P(self.batch)

    @property
    def axes(self) -> tuple[str, ...]:
        """Those along which something is split."""
        return tuple(axis for axis in self if axis is not None)

    def sum(self, x: Any) -> Any:
        """Over all devices."""
        return jax.lax.psum(x, self.axes) if self.axes else x

    def sum_over_time(self, x: Any) -> Any:
        """Over the pieces of the same sequences."""
        return x if self.time is None else jax.lax.psum(x, self.time)

    def cut(self, tree: Any) -> Any:
        """This device's piece of arrays (batch, time, ...) that are whole along time."""
        if self.time is None:
            return tree
        here, pieces = jax.lax.axis_index(self.time), jax.lax.axis_size(self.time)

        def piece(x: Array) -> Array:
            size = x.shape[1] // pieces
            return jax.lax.dynamic_slice_in_dim(x, here * size, size, axis=1)

        return jax.tree.map(piece, tree)

    def first_sample(self, batch: int, time: int) -> UInt32[Array, "2"]:
        """The number of this piece's first sample, counted through the whole batch, and of the
        samples from one sequence to the next."""
        start, steps = self.steps_before(time)
        row = 0 if self.batch is None else batch * jax.lax.axis_index(self.batch)
        start, steps, row = (jnp.asarray(n, jnp.uint32) for n in (start, steps % 2**32, row))
        return jnp.stack([row * steps + start, steps])

    def steps_before(self, time: int) -> tuple[Any, int]:
        """Steps before this piece of `time` steps, and those of whole sequences."""
        if self.time is None:
            return 0, time
        return jax.lax.axis_index(self.time) * time, jax.lax.axis_size(self.time) * time

    def moments(
        self, moments: Float[Array, "2 hidden"], count: Int[Array, ""] | int
    ) -> Float[Array, "2 hidden"]:
        """Mean and variance over all devices, from those over `count` samples of this one."""
        if not self.axes:
            return moments
        mean, variance = moments
        total = self.sum(jnp.asarray(count, mean.dtype))
        share = count / jnp.maximum(total, 1)
        center = self.sum(share * mean)
        return jnp.stack([center, self.sum(share * (variance + (mean - center) ** 2))])

    def time_means(
        self, means: Float[Array, "*batch hidden"], count: Int[Array, "*batch"] | int
    ) -> Float[Array, "*batch hidden"]:
        """Means over whole sequences, from those over `count` samples of this piece of each."""
        if self.time is None:
            return means
        count = jnp.asarray(count, means.dtype)
        share = count / jnp.maximum(self.sum_over_time(count), 1)
        return self.sum_over_time(jnp.expand_dims(share, -1) * means)

    def before(self, value: Array, otherwise: Array, *, reverse: bool = False) -> Array:
        """The nearest value before this piece that is not 0, or `otherwise` if there is none."""
        if self.time is None:
            return otherwise
        found = nearest_before(self.time, value, reverse=reverse)
        return jnp.where(found != 0, found, otherwise)

    def first_of_all(self, value: Array, otherwise: Array) -> Array:
        """The first piece's value that is not 0, or `otherwise` if there is none."""
        if self.time is None:
            return jnp.where(value != 0, value, otherwise)
        offers = jax.lax.all_gather(value, self.time)
        first = jnp.argmax(offers != 0, axis=0)[None]
        found = jnp.take_along_axis(offers, first, axis=0)[0]
        return jnp.where(found != 0, found, otherwise)


WHOLE = Split()


def present(mask: Bool[Array, "*batch time"] | None, samples: tuple[int, ...]) -> Any:
    """How many samples are there."""
    if mask is not None:
        return jnp.sum(jnp.broadcast_to(mask, samples))
    count = 1
    for size in samples:
        count *= size
    return count
