"""From one step to a whole sequence: engines, the adjoint, carrying state."""

from linoss.scan._pieces import nearest_before
from linoss.scan._scan import (
    engines,
    oscillator_scan,
    resolve_engine,
    state_before_piece,
)

__all__ = ["engines", "nearest_before", "oscillator_scan", "resolve_engine", "state_before_piece"]
