"""The devices of a run: one device, or a mesh in one or several processes.

Batches are split over the mesh; every device has all weights. Several processes are joined by
`jax.distributed.initialize`; each reads whole batches and keeps the shards of its own devices.
"""

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from linoss import _checks
from linoss.nn import LinOSS, Split

Shape = int | tuple[int, int]


def make_mesh(devices: Shape | None) -> Mesh | None:
    """A mesh with that many devices along the batch, or `(batch, time)`; None for the default
    device.

    ```python
    >>> from linoss.training import make_mesh
    >>> dict(make_mesh((1, 1)).shape)
    {'batch': 1, 'time': 1}

    ```
    """
    if devices is None:
        return None
    batch, time = devices if isinstance(devices, tuple | list) else (devices, 1)
    _checks.positive_integer("devices", batch)
    _checks.positive_integer("devices", time)
    available, count = jax.devices(), str(batch) if time == 1 else f"{batch} x {time}"
    if batch * time > len(available):
        raise ValueError(
            f"devices is {count}, but JAX has {len(available)} of kind "
            f"{available[0].platform!r}; ask for no more, or, on a CPU, begin the program with "
            f"jax.config.update('jax_num_cpu_devices', {batch * time})"
        )
    chosen = np.array(available[: batch * time]).reshape(batch, time)
    return Mesh(chosen, ("batch", "time"))


@dataclass(frozen=True)
class Devices:
    """The devices of a run."""

    mesh: Mesh | None = None

    @cached_property
    def split(self) -> Split:
        """The split of batches over the mesh."""
        return Split.of(self.mesh)

    @property
    def along_batch(self) -> int:
        """Number of devices along the batch."""
        return 1 if self.mesh is None else self.mesh.shape.get("batch", 1)

    @property
    def several_processes(self) -> bool:
        """Whether there are several processes."""
        return self.mesh is not None and jax.process_count() > 1

    @property
    def writes(self) -> bool:
        """Whether this is the process that writes files."""
        return not self.several_processes or jax.process_index() == 0

    def padded(self, length: int, config: Any) -> int:
        """The smallest length >= `length` that can be split over the mesh."""
        shards = 1 if self.mesh is None else self.mesh.shape.get("time", 1)
        unit, ahead = shards * (config.every or 1), config.horizon or 0
        return length if shards == 1 else -(-(length + ahead) // unit) * unit - ahead

    def check_batch(self, size: int, cases: int) -> None:
        """Raise for batches that cannot be split."""
        if size % self.along_batch:
            all_of_them = f", which is all {cases} cases" if size == cases else ""
            raise ValueError(
                f"batch_size is {size}{all_of_them}, expected a multiple of {self.along_batch}, "
                "the devices along the batch"
            )

    def place(self, tree: Any, *, time: bool = False) -> Any:
        """Split the cases of arrays over the mesh, and their samples, if `time`."""
        return self._put(tree, self.split.samples if time else self.split.sequences)

    def place_arguments(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Place the arguments of a model on the mesh.

        For forecasting they are not split along time: the model first appends the forecast horizon.
        """
        along_time = ("u", "mask", "intervals") if arguments["future"] is None else ()
        return {name: self.place(x, time=name in along_time) for name, x in arguments.items()}

    def everywhere(self, tree: Any) -> Any:
        """Copy arrays to every device."""
        return self._put(tree, P())

    def _put(self, tree: Any, spec: P) -> Any:
        if self.mesh is None:
            return tree
        sharding = NamedSharding(self.mesh, spec)

        def put(x: Any) -> jax.Array:
            values = np.asarray(x)
            return jax.make_array_from_callback(values.shape, sharding, lambda i: values[i])

        return jax.tree.map(put, tree)

    def key(self, seed: int) -> Any:
        """A random key, on every device."""
        numbers = jax.random.key_data(jax.random.key(seed))
        return jax.random.wrap_key_data(self.everywhere(numbers))

    def at_home(self, model: LinOSS) -> LinOSS:
        """Copy a model from the mesh to this process's default device."""
        if self.mesh is None:
            return model
        return jax.tree.map(lambda x: jnp.asarray(np.asarray(x)), model)

    def from_first(self, tree: Any, facts: Any) -> tuple[Any, Any]:
        """Arrays and JSON values of the first process, with the arrays on every device.

        The other processes pass arrays of the same shapes, whose values are ignored.
        """
        if self.several_processes:
            text = np.frombuffer(json.dumps(facts).encode(), np.uint8)
            size = int(multihost_utils.broadcast_one_to_all(np.int32(len(text))))
            text = np.resize(text, size)
            arrays = jax.tree.map(np.asarray, tree), text
            tree, text = multihost_utils.broadcast_one_to_all(arrays)
            facts = json.loads(np.asarray(text).tobytes())
        return self.everywhere(tree), facts
