"""From one step to a whole sequence: engines, the adjoint, carrying state."""

from linoss.scan._scan import engines, oscillator_scan, resolve_engine

__all__ = ["engines", "oscillator_scan", "resolve_engine"]
