"""From one step to a whole sequence: engines, the adjoint, carrying state."""

from linoss.scan._scan import oscillator_scan

__all__ = ["oscillator_scan"]
