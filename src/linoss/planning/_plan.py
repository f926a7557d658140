"""The cost of a training step, and the smallest mesh on which it fits."""

from dataclasses import dataclass
from typing import Any

from linoss import _checks
from linoss._settings import MEMORY
from linoss.nn import LinOSSConfig
from linoss.planning._communication import Communication, communication
from linoss.planning._memory import Memory, memory
from linoss.planning._sizes import Sizes
from linoss.planning._work import Flops, Traffic, flops, traffic


@dataclass(frozen=True)
class Plan:
    """The cost of one training step (forward, backward, Adam) on each device of a mesh."""

    devices: tuple[int, int]
    """Number of parts of the batch, and of shards of time."""
    parameters: int
    """Number of trained weights; every device has all of them."""
    sequences: int
    """Number of sequences on each device."""
    steps: int
    """Steps of each sequence on each device, including padding."""
    memory: Memory
    """Bytes."""
    flops: Flops
    """Operations."""
    bytes_moved: Traffic
    """Bytes to and from main memory."""
    bytes_communicated: Communication
    """Bytes sent to other devices."""
    outside_kernels: str | None
    """The reason why native kernels do not cover whole blocks; None if they do."""


def plan(
    config: LinOSSConfig,
    *,
    length: int,
    batch: int,
    devices: int | tuple[int, int] = 1,
    engine: str = "native",
    keep: int = MEMORY,
) -> Plan:
    """The cost of a training step on each device, by formulas: nothing is computed or compiled.

    **Arguments:**

    - `config`: the model.
    - `length`: steps of a sequence, at regular times without missing samples.
    - `batch`: sequences of a step, on all devices.
    - `devices`: number along the batch, or `(batch, time)`; they need not exist.
    - `engine`: `"native"` or `"sequential"`.
    - `keep`: bytes of intermediate results that an update may keep, `memory` of
      [`linoss.training.train`][].

    ```python
    >>> import linoss
    >>> from linoss.planning import plan
    >>> config = linoss.LinOSSConfig(in_size=4, out_size=2, hidden_size=64, state_size=64)
    >>> plan(config, length=100_000_000, batch=8, devices=(8, 512)).steps
    195313

    ```
    """
    if not isinstance(config, LinOSSConfig):
        raise ValueError(f"config is a {type(config).__name__}, expected a linoss.LinOSSConfig")
    if config.mixer != "linoss":
        raise ValueError(
            f"mixer is {config.mixer!r}, expected 'linoss': the cost of others has no formula here"
        )
    shape = (devices[0], devices[1]) if isinstance(devices, tuple) else (devices, 1)
    sizes = Sizes(config, length, batch, shape, engine, keep)
    return Plan(
        devices=shape,
        parameters=sizes.parameters,
        sequences=sizes.sequences,
        steps=sizes.steps,
        memory=memory(sizes),
        flops=flops(sizes),
        bytes_moved=traffic(sizes),
        bytes_communicated=communication(sizes),
        outside_kernels=sizes.outside_kernels,
    )


def smallest_mesh(
    config: LinOSSConfig,
    *,
    length: int,
    batch: int,
    memory: float,
    engine: str = "native",
) -> Plan | None:
    """The plan with the fewest devices on which a step needs at most `memory` bytes each.

    No product is kept for the backward pass. Among meshes with the same number of devices, it has
    the most parts of the batch, which cost least. Time is split by powers of two, down to a shard
    of one step; None if that does not fit either.

    ```python
    >>> import linoss
    >>> from linoss.planning import smallest_mesh
    >>> config = linoss.LinOSSConfig(in_size=4, out_size=2, hidden_size=64, state_size=64)
    >>> smallest_mesh(config, length=1_000_000, batch=8, memory=2e9).devices
    (8, 1)

    ```
    """
    _checks.positive_number("memory", memory)
    found = None
    for parts in (n for n in range(batch, 0, -1) if batch % n == 0):
        shards = 1
        while shards <= length and (found is None or parts * shards < _number(found)):
            mesh: dict[str, Any] = {"devices": (parts, shards), "engine": engine, "keep": 0}
            here = plan(config, length=length, batch=batch, **mesh)
            if here.memory.total <= memory:
                found = here
                break
            shards *= 2
    return found


def _number(plan: Plan) -> int:
    return plan.devices[0] * plan.devices[1]
