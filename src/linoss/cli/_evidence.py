"""Evidence for predictions: averages for each class, and contributions of values in some cases."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

_CASES, _CLASSES, _PARTS = 6, 6, 48  # most classes, and cases of each
_EXPLAINED, _LONGEST = 3, 10_000  # most cases, and most samples of a case


@dataclass(frozen=True, eq=False)
class AverageEvidence:
    """Evidence for one output, averaged over cases."""

    name: str
    evidence: np.ndarray
    """(periods, parts of the sequence)"""
    periods: np.ndarray
    """Bin edges of the periods."""
    channels: np.ndarray
    """(channels,)"""


def average_evidence(estimator: Any, cases: Any) -> list[AverageEvidence]:
    """The evidence for each class in its cases; for regression, the mean absolute evidence."""
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


@dataclass(frozen=True, eq=False)
class ExplainedCase:
    """The contribution of each value of a case to its prediction."""

    name: str
    values: np.ndarray
    """(channels, samples)"""
    found: Any
    answer: int
    """The explained output."""


def explained_case(estimator: Any, member: Any, case: Any, name: str) -> ExplainedCase:
    """Explain one case by a trained member of an estimator."""
    answer, classes = estimator.predict(case)[0], getattr(estimator, "classes_", None)
    place = 0 if classes is None else classes.tolist().index(answer)
    text = format(float(np.ravel(answer)[0]), ".4g") if classes is None else answer
    values = np.asarray(case.values[0], float).T
    return ExplainedCase(f"{name}: {text}", values, member.explain(case), place)


def explained_cases(estimator: Any, cases: Any) -> list[ExplainedCase]:
    """The first case of some labels, if trained models count and have one output a sequence."""
    member, choice = estimator.members_.get("linoss"), getattr(estimator, "choice_", None)
    if member is None or estimator.task == "forecasting" or getattr(member, "every", None):
        return []
    if choice is not None and choice.kept == "oscillators":
        return []
    labels = np.asarray(cases.labels).reshape(len(cases), -1)[:, 0]
    _, first = np.unique(labels, return_index=True)
    short = [int(i) for i in np.sort(first) if cases.lengths[i] <= _LONGEST]
    return [
        explained_case(estimator, member, cases.select([i]), f"training case {i}")
        for i in short[:_EXPLAINED]
    ]


def _average(
    estimator: Any, cases: Any, chosen: np.ndarray, name: str, answer: int, change: Any
) -> AverageEvidence:
    some = chosen[np.linspace(0, len(chosen) - 1, min(len(chosen), _CASES)).astype(int)]
    length = int(cases.lengths[some].min())
    parts = length // -(-length // _PARTS)  # parts of nearly equal size
    found = [estimator.explain(cases.select([i]), parts=parts) for i in some]
    evidence = np.mean([change(one.evidence[answer]) for one in found], axis=0)
    channels = np.mean([change(one.channels[answer]) for one in found], axis=0)
    return AverageEvidence(name, evidence, found[0].periods, channels)
