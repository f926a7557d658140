"""What each value of a sequence adds to the answers of trained models."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from linoss.data import Sequences
from linoss.nn import LinOSS
from linoss.training import Inputs, Objective, integrated_gradients

_TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class Contributions:
    """What speaks for the answers for one sequence, value by value.

    For each answer, `evidence.sum(axis=(1, 2)) + intercept` is what the models say: for classes
    their mean logit, less the mean of all classes; numbers in the units of the targets.
    """

    evidence: np.ndarray
    """(answers, channels, samples): positive where it speaks for an answer, negative where against;
    0 for what is missing."""
    times: np.ndarray
    """(samples,), from the first sample on, in samples or, with times, in their unit."""
    intercept: np.ndarray
    """(answers,), what the models say where every channel is at its mean."""
    error: float
    """The largest part of an answer's change that is not accounted for, by the largest change."""

    @property
    def channels(self) -> np.ndarray:
        """(answers, channels): the evidence that comes through each channel."""
        return self.evidence.sum(axis=2)


def find_contributions(
    models: Sequence[LinOSS], inputs: Inputs, objective: Objective, cases: Sequences
) -> Contributions:
    """The contributions in one sequence, the mean of several models."""
    if len(cases) != 1:
        raise ValueError(f"X has {len(cases)} cases, expected one, such as X[:1]")
    with jax.enable_x64(False):
        found = [
            integrated_gradients(model, inputs, cases, tolerance=_TOLERANCE) for model in models
        ]
    evidence = np.mean([one.contributions for one in found], axis=0).transpose(0, 2, 1)
    start = np.mean([one.start for one in found], axis=0)
    error = max(one.error for one in found)
    if not error <= 10 * _TOLERANCE:
        warnings.warn(
            f"{error:.2g} of the change of an answer is not accounted for by the contributions",
            stacklevel=3,
        )
    if objective.task == "classification":
        evidence, start = evidence - evidence.mean(axis=0), start - start.mean()
    else:
        scaling: Any = getattr(objective, "scaling", None)
        if scaling is not None:
            evidence, start = evidence * scaling.deviation[:, None, None], scaling.undo(start)
    times = np.arange(evidence.shape[2], dtype=float)
    if cases.times is not None:
        times = np.asarray(cases.times[0], float) - float(cases.times[0][0])
    return Contributions(evidence, times, start, error)
