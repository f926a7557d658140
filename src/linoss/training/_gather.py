"""Exchange of host values between processes."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils


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
    found = multihost_utils.process_allgather(np.atleast_1d(numbers).view(np.uint8))
    return np.ascontiguousarray(found).view(np.float64).reshape(-1, *numbers.shape)


def from_first(facts: Any) -> Any:
    """Broadcast a JSON value from the first process; the argument of the others is ignored."""
    if jax.process_count() == 1:
        return facts
    text = np.frombuffer(json.dumps(facts).encode(), np.uint8)
    size = int(multihost_utils.broadcast_one_to_all(np.int32(len(text))))
    text = text if jax.process_index() == 0 else np.zeros(size, np.uint8)
    return json.loads(np.asarray(multihost_utils.broadcast_one_to_all(text)).tobytes())
