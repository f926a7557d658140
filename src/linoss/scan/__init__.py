"""From one step to a whole sequence: engines, the adjoint, carrying state."""

from linoss.scan._pieces import nearest_before
from linoss.scan._scan import (
    engines,
    oscillator_scan,
    resolve_engine,
    state_before_piece,
    state_before_regular_piece,
)
from linoss.scan._segments import end_of_segments

__all__ = [
    "end_of_segments",
    "engines",
    "nearest_before",
    "oscillator_scan",
    "resolve_engine",
    "state_before_piece",
    "state_before_regular_piece",
]
