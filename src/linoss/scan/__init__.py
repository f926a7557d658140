"""The recurrence over a whole sequence: engines, the adjoint, initial and final states.

Each part of a sequence has its own term: a *tile* fits in a core's cache, a *chunk* is computed in
parallel with others, a *segment* is recomputed in the backward pass, a *shard* belongs to a device,
and a *piece* is one part of a stream.
"""

from linoss.scan._diagonal import as_complex, as_pairs, diagonal_scan, loop_over_time
from linoss.scan._engines import engines, resolve_engine
from linoss.scan._scan import (
    OscillatorState,
    at_rest,
    oscillator_scan,
    scan_forces,
    weights_of_forces,
)
from linoss.scan._shards import last_nonzero, nearest_before

__all__ = [
    "OscillatorState",
    "as_complex",
    "as_pairs",
    "at_rest",
    "diagonal_scan",
    "engines",
    "last_nonzero",
    "loop_over_time",
    "nearest_before",
    "oscillator_scan",
    "resolve_engine",
    "scan_forces",
    "weights_of_forces",
]
