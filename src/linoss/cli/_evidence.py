"""What speaks for each class, on average over some of its cases: for the report."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

_CASES, _CLASSES, _PARTS = 6, 6, 48  # at most; cases are of each class


@dataclass(frozen=True, eq=False)
class AverageEvidence:
    """Evidence for one answer, averaged over cases."""

    name: str
    evidence: np.ndarray
    """(periods, parts of the sequence)"""
    periods: np.ndarray
    """Edges of the periods."""
    channels: np.ndarray
    """(channels,)"""


def average_evidence(estimator: Any, cases: Any) -> list[AverageEvidence]:
    """For each class, the evidence for it in cases of it; for numbers, its size."""
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        return [_average(estimator, cases, np.arange(len(cases)), "the answer", 0, np.abs)]
    labels = np.asarray(cases.labels).astype(str)
    found = []
    for place, name in enumerate(classes.tolist()[:_CLASSES]):
        chosen = np.flatnonzero(labels == str(name))
        if len(chosen):
            sign = -1.0 if len(classes) == 2 and place == 0 else 1.0
            answer = 0 if len(classes) == 2 else place
            found.append(
                _average(estimator, cases, chosen, str(name), answer, partial(np.multiply, sign))
            )
    return found


def _average(
    estimator: Any, cases: Any, chosen: np.ndarray, name: str, answer: int, change: Any
) -> AverageEvidence:
    some = chosen[np.linspace(0, len(chosen) - 1, min(len(chosen), _CASES)).astype(int)]
    length = int(cases.lengths[some].min())
    parts = length // -(-length // _PARTS)  # of nearly as many samples each
    found = [estimator.explain(cases.select([i]), parts=parts) for i in some]
    evidence = np.mean([change(one.evidence[answer]) for one in found], axis=0)
    channels = np.mean([change(one.channels[answer]) for one in found], axis=0)
    return AverageEvidence(name, evidence, found[0].periods, channels)
