"""The cost of a training step on a mesh of devices: memory, operations, communication."""

from linoss.planning._plan import Plan, plan, smallest_mesh

__all__ = ["Plan", "plan", "smallest_mesh"]
