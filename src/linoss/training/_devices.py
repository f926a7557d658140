"""The devices of a run: one device, or a mesh in one or several processes.

Batches are split over the mesh; every device has all weights. Each process reads the sequences of
its own devices. If a process ends, the next sum over all devices fails in the others, or JAX's
runtime ends them once its heartbeats stop; a resumed run continues from its last checkpoint.
"""

import atexit
import json
import os
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
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
    available = jax.devices()
    if batch * time > len(available):
        raise ValueError(
            f"devices is {_words(batch, time)}, but JAX has {len(available)} of kind "
            f"{available[0].platform!r}; ask for no more, or, on a CPU, begin the program with "
            f"jax.config.update('jax_num_cpu_devices', {batch * time})"
        )
    if jax.process_count() > 1 and batch * time < len(available):
        raise ValueError(
            f"devices is {_words(batch, time)}, expected all {len(available)} devices of the "
            f"{jax.process_count()} processes"
        )
    chosen = np.array(available[: batch * time]).reshape(batch, time)
    return Mesh(chosen, ("batch", "time"))


def _words(batch: int, time: int) -> str:
    return str(batch) if time == 1 else f"{batch} x {time}"


@dataclass(frozen=True)
class Devices:
    """The devices of a run."""

    mesh: Mesh | None = None
    memory: int = 0
    """Bytes on each device that an update may store, see [`linoss.LinOSS.training_pass`][]."""

    def __post_init__(self) -> None:
        Split.of(self.mesh)

    @cached_property
    def split(self) -> Split:
        """The split of batches over the mesh."""
        return Split.of(self.mesh)

    @property
    def along_batch(self) -> int:
        """Number of devices along the batch."""
        return 1 if self.mesh is None else self.mesh.shape.get("batch", 1)

    @property
    def along_time(self) -> int:
        """Number of devices along time."""
        return 1 if self.mesh is None else self.mesh.shape.get("time", 1)

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
        unit, ahead = self.along_time * (config.every or 1), config.horizon or 0
        return length if self.along_time == 1 else -(-(length + ahead) // unit) * unit - ahead

    def check_batch(self, size: int, cases: int) -> None:
        """Raise for batches that cannot be split."""
        if size % self.along_batch:
            all_of_them = f", which is all {cases} cases" if size == cases else ""
            raise ValueError(
                f"batch_size is {size}{all_of_them}, expected a multiple of {self.along_batch}, "
                "the devices along the batch"
            )

    def rows(self, count: int, *, first_shard: bool = False) -> np.ndarray:
        """The rows of a batch of which this process has a shard, or the `first_shard`, which only
        one process has."""
        if self.mesh is None or not self.several_processes:
            return np.arange(count)
        is_here = [d.process_index == jax.process_index() for d in self.mesh.devices.flat]
        shards = np.array(is_here).reshape(self.along_batch, self.along_time)
        chosen = shards[:, 0] if first_shard else shards.any(axis=1)
        return np.flatnonzero(np.repeat(chosen, count // self.along_batch))

    def connect(self) -> None:
        """Connect the devices of several processes, at a point that all reach at about the same
        time.

        On CPUs, the first sum over a group of devices fails if one of them is 30 s late, for
        example after compiling a program; later sums wait.
        """
        if not self.several_processes:
            return
        assert self.mesh is not None
        for axes in ("batch", "time", ("batch", "time")):
            total = partial(jax.lax.psum, axis_name=axes)
            meet = jax.shard_map(total, mesh=self.mesh, in_specs=P(), out_specs=P())
            jax.block_until_ready(jax.jit(meet)(self.everywhere(np.zeros(1, np.float32))))

    def place(self, tree: Any, rows: np.ndarray, count: int, *, time: bool = False) -> Any:
        """Place arrays with `count` rows on the mesh, from the `rows` that this process has."""
        if self.mesh is None:
            return tree
        spec = self.split.samples if time else self.split.sequences
        sharding = NamedSharding(self.mesh, spec)

        def put(x: np.ndarray) -> jax.Array:
            def shard(index: Any) -> np.ndarray:
                start, stop, _ = index[0].indices(count)
                first = int(np.searchsorted(rows, start))
                return x[(slice(first, first + stop - start), *index[1:])]

            return jax.make_array_from_callback((count, *x.shape[1:]), sharding, shard)

        return jax.tree.map(lambda x: put(np.asarray(x)), tree)

    def place_arguments(
        self, arguments: dict[str, Any], rows: np.ndarray, count: int
    ) -> dict[str, Any]:
        """Place the arguments of a model on the mesh.

        For forecasting they are not split along time: the model first appends the forecast horizon.
        """
        along_time = ("u", "mask", "intervals") if arguments["future"] is None else ()
        return {
            name: self.place(x, rows, count, time=name in along_time)
            for name, x in arguments.items()
        }

    def everywhere(self, tree: Any) -> Any:
        """Copy arrays that all processes have to every device."""
        if self.mesh is None:
            return tree
        sharding = NamedSharding(self.mesh, P())

        def put(x: Any) -> jax.Array:
            values = np.asarray(x)
            return jax.make_array_from_callback(values.shape, sharding, lambda i: values[i])

        return jax.tree.map(put, tree)

    def key(self, seed: int) -> Any:
        """A random key, on every device."""
        if self.mesh is None:
            return jax.random.key(seed)
        make = jax.jit(
            jax.random.key, static_argnums=0, out_shardings=NamedSharding(self.mesh, P())
        )
        return make(seed)

    def at_home(self, model: LinOSS) -> LinOSS:
        """Copy a model from the mesh to this process's default device."""
        if self.mesh is None:
            return model
        return jax.tree.map(lambda x: jnp.asarray(np.asarray(x)), model)

    def total(self, *numbers: float) -> tuple[float, ...]:
        """Sums over all processes, in double precision."""
        if not self.several_processes:
            return numbers
        return tuple(gather(np.array(numbers)).sum(axis=0).tolist())

    def any_of(self, flag: bool) -> bool:
        """Whether `flag` is True in any process."""
        return self.total(float(flag))[0] > 0

    def from_first(self, tree: Any, facts: Any) -> tuple[Any, Any]:
        """Broadcast arrays and JSON values from the first process.

        The other processes pass arrays of the same shapes, whose values are ignored.
        """
        if not self.several_processes:
            return tree, facts
        facts, arrays = from_first(facts), jax.tree.map(np.asarray, tree)
        return jax.tree.map(np.asarray, multihost_utils.broadcast_one_to_all(arrays)), facts


# ---- Values on the host ----


def share(items: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """Yield (index, item) for the items of this process: every n-th, with n processes."""
    processes = jax.process_count()
    if processes == 1:
        yield from enumerate(items)
        return
    several: Any = items
    for i in range(jax.process_index(), len(several), processes):
        yield i, several[i]


def channels_of(items: Iterable[Any]) -> int:
    """The number of channels, also in a process without items; 1 for a single process."""
    several: Any = items
    return 1 if jax.process_count() == 1 else int(np.shape(several[0])[-1])


def gather(numbers: np.ndarray) -> np.ndarray:
    """Gather the numbers of every process, `(processes, ...)`, in double precision."""
    numbers = np.ascontiguousarray(numbers, np.float64)
    if jax.process_count() == 1:
        return numbers[None]
    each = multihost_utils.process_allgather(np.atleast_1d(numbers).view(np.uint8))
    return np.ascontiguousarray(each).view(np.float64).reshape(-1, *numbers.shape)


def from_first(facts: Any) -> Any:
    """Broadcast a JSON value from the first process; the argument of the others is ignored."""
    if jax.process_count() == 1:
        return facts
    text = np.frombuffer(json.dumps(facts).encode(), np.uint8)
    size = int(multihost_utils.broadcast_one_to_all(np.int32(len(text))))
    text = text if jax.process_index() == 0 else np.zeros(size, np.uint8)
    return json.loads(np.asarray(multihost_utils.broadcast_one_to_all(text)).tobytes())


# ---- Several processes ----


_HEARTBEAT = 30  # seconds without a heartbeat after which a process is lost
FAILED, INTERRUPTED = 1, 130


def join_processes(
    coordinator: str,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    timeout: int = 120,
) -> None:
    """Join several processes, whose devices form one mesh. Call it before any use of JAX.

    **Arguments:**

    - `coordinator`: `"HOST:PORT"` of the first process; or `"auto"`, to detect all of these under
      Slurm, Kubernetes or Open MPI.
    - `num_processes`, `process_id`: the number of processes, and the index of this one, from 0.
    - `timeout`: seconds to wait for the others; JAX's runtime then ends the process.
    """
    options: dict[str, Any] = {}
    if coordinator != "auto":
        host, port = _address(coordinator)
        if num_processes is None or process_id is None:
            missing = "num_processes" if num_processes is None else "process_id"
            raise ValueError(f"coordinator is {coordinator!r}, but {missing} is missing")
        _checks.positive_integer("num_processes", num_processes)
        expected = f"a number from 0 to {num_processes - 1}"
        _checks.number("process_id", process_id, expected, lambda i: 0 <= i < num_processes)
        if process_id == 0:
            _refuse_used_port(coordinator, port)
        else:
            _wait_for(coordinator, host, port, timeout)
        options = {
            "coordinator_address": coordinator,
            "num_processes": num_processes,
            "process_id": process_id,
        }
    try:
        jax.distributed.initialize(
            **options, initialization_timeout=timeout, heartbeat_timeout_seconds=_HEARTBEAT
        )
    except (ValueError, RuntimeError) as error:
        raise ValueError(_why_not(coordinator, error)) from None
    with watched():  # on CPUs, a first connection fails after 30 s; later ones wait
        multihost_utils.sync_global_devices("linoss")


def _why_not(coordinator: str, error: Exception) -> str:
    if coordinator == "auto":
        return (
            "coordinator is 'auto', but neither Slurm, Kubernetes nor Open MPI was found "
            f"({_first_line(error)}); pass coordinator='HOST:PORT', num_processes and process_id"
        )
    return f"the processes cannot be joined at {coordinator}: {_first_line(error)}"


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0][:300]


def _address(coordinator: str) -> tuple[str, int]:
    host, colon, port = coordinator.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(
            f"coordinator is {coordinator!r}, expected HOST:PORT, such as 10.0.0.1:1234, or 'auto'"
        )
    return host.strip("[]"), int(port)


def _refuse_used_port(coordinator: str, port: int) -> None:
    with socket.socket(socket.AF_INET6 if socket.has_ipv6 else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            raise ValueError(
                f"coordinator is {coordinator!r}, but this machine cannot listen there "
                f"({error.strerror}); choose another port"
            ) from None


def _wait_for(coordinator: str, host: str, port: int, timeout: int) -> None:
    deadline = time.monotonic() + timeout
    while True:
        try:
            socket.create_connection((host, port), timeout=5).close()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise ValueError(
                    f"the coordinator {coordinator} did not answer within {timeout} s "
                    f"({error.strerror or error}); is process 0 running, and can it be reached?"
                ) from None
            time.sleep(0.2)


def _is_of_connections(error: BaseException) -> bool:
    """Whether a connection between devices was lost, for which JAX raises several types."""
    if isinstance(error, jax.errors.JaxRuntimeError):
        return "RESOURCE_EXHAUSTED" not in str(error)
    return "Gloo" in str(error)


@contextmanager
def watched() -> Iterator[None]:
    """Context manager: end this process if there are several and an error is raised, so that the
    others do not wait for it."""
    try:
        yield
    except BaseException as error:
        if not jax.distributed.is_initialized():
            raise
        interrupted = isinstance(error, KeyboardInterrupt)
        atexit.register(_leave, INTERRUPTED if interrupted else FAILED)
        if _is_of_connections(error):
            raise ConnectionError(
                f"the connection to another process was lost ({_first_line(error)}): see its "
                "output, and restart all processes; a resumed run continues from its last "
                "checkpoint"
            ) from None
        raise


def _leave(code: int) -> None:
    """Exit at once: JAX would wait for the other processes."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)
