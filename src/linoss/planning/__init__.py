"""What a training step costs on a mesh of devices, by formulas: memory, work, communication."""

from linoss.planning._plan import Plan, plan, smallest_mesh

__all__ = ["Plan", "plan", "smallest_mesh"]
