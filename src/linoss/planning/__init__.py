"""The memory of a training step on a mesh of devices."""

from linoss.planning._plan import Plan, plan

__all__ = ["Plan", "plan"]
