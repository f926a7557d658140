"""The cost of a training step on a mesh of devices: memory, operations, communication."""

from linoss.planning._plan import Plan, plan

__all__ = ["Plan", "plan"]
