"""LinOSS the textbook way, to measure against. The method itself is part of the package."""

from linoss.experiments._textbook import block, combine, layer, model

__all__ = ["block", "combine", "layer", "model"]
