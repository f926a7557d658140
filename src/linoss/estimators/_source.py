"""Initial weights from another estimator."""

import os
from dataclasses import dataclass
from typing import Any

from linoss._stderr import say
from linoss.nn import LinOSS, adopt
from linoss.training import Objective


@dataclass(frozen=True)
class Source:
    """A fitted estimator whose weights initialise new models."""

    estimator: Any
    verbose: int | bool

    @classmethod
    def of(cls, start_from: Any, kind: type[Any], verbose: int | bool) -> "Source":
        """From a fitted estimator, or the directory of one of this kind."""
        if isinstance(start_from, str | os.PathLike):
            start_from = kind.load(start_from)
        if not hasattr(start_from, "models_"):
            raise ValueError(
                f"start_from is {start_from!r}, expected the directory of a run, or a fitted "
                f"{kind.__name__}"
            )
        return cls(start_from, verbose)

    def __call__(self, k: int, model: LinOSS, objective: Objective) -> LinOSS:
        """Initialise the k-th new model with all parts of the k-th source model that fit."""
        models, before = self.estimator.models_, self.estimator.objective_
        same = getattr(before, "classes", None) == getattr(objective, "classes", None)
        started, kept, new = adopt(model, models[k % len(models)], head=same)
        if not kept:
            raise ValueError(
                f"no part of the model of start_from fits: its settings are {models[0].config}, "
                f"now they are {model.config}"
            )
        if self.verbose and k == 0:
            say(f"Reused weights: {', '.join(kept)}")
            say(f"New: {', '.join(new) or 'nothing'}")
        return started
