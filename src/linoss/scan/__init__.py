"""From one step to a whole sequence: engines, the adjoint, carrying state."""

from linoss.scan._scan import ENGINES, oscillator_scan

__all__ = ["ENGINES", "oscillator_scan"]
