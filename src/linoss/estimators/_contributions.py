"""Attribution of the predictions of trained models to the values of a sequence."""

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
    """The contribution of each value of one sequence to the outputs.

    For each output, `evidence.sum(axis=(1, 2)) + intercept` is the output of the models: for
    classes the mean logit, centred over the classes; for regression in the units of the targets.
    """

    evidence: np.ndarray
    """(outputs, channels, samples): positive where a value supports an output, negative where it
    opposes it; 0 for missing values."""
    times: np.ndarray
    """(samples,), times since the first sample, in samples or, with times, in their unit."""
    intercept: np.ndarray
    """(outputs,), the output with every channel at its mean."""
    error: float
    """The largest error of the sums, relative to the largest change of an output."""

    @property
    def channels(self) -> np.ndarray:
        """(outputs, channels): the evidence of each channel."""
        return self.evidence.sum(axis=2)


def find_contributions(
    models: Sequence[LinOSS], inputs: Inputs, objective: Objective, cases: Sequences
) -> Contributions:
    """The contributions of one sequence, averaged over several models."""
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
            f"{error:.2g} of the change of an output is not explained by the contributions",
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
