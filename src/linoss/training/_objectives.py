"""All objectives, and restoring one from plain values."""

from typing import Any

from linoss import _checks
from linoss.training._classification import Classification
from linoss.training._forecasting import Forecasting
from linoss.training._regression import Regression
from linoss.training._scaling import Scaling

Objective = Classification | Regression | Forecasting


def objective_from_dict(plain: dict[str, Any]) -> Objective:
    """The objective whose `to_dict` returned `plain`."""
    kinds = {kind.task: kind for kind in (Classification, Regression, Forecasting)}
    _checks.one_of("task", plain.get("task"), kinds)
    settings = {name: value for name, value in plain.items() if name != "task"}
    if settings.get("scaling") is not None:
        settings["scaling"] = Scaling.from_dict(settings["scaling"])
    for name in ("classes", "class_weights", "levels"):
        if settings.get(name) is not None:
            settings[name] = tuple(settings[name])
    return kinds[plain["task"]](**settings)
