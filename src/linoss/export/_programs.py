"""Conversion of any fitted estimator to a program."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import jax
from sklearn.utils.validation import check_is_fitted

from linoss.export._program import Part, Program, Term
from linoss.export._trained import add_trained
from linoss.export._untrained import add_untrained
from linoss.export._windows import window_of


def _together(parts: list[Part], answer: Part, estimator: Any) -> Term:
    """Add the members of an ensemble that have a weight; returns the combined output."""
    members, found = dict(estimator.members_), {}
    weights = getattr(estimator, "weights_", None)
    if weights is not None and len(members) > 1 and weights[0] == 0:
        del members["linoss"]
    for name, member in members.items():
        label = f"{name}_" if len(members) > 1 else ""
        if name == "oscillators":
            found[name] = add_untrained(parts, answer, member, label)
        else:
            models = getattr(member, "models_", [member.model_])
            labels = [f"{label}model{k}_" if len(models) > 1 else label for k in range(len(models))]
            each = zip(models, labels, strict=True)
            found[name] = _mean([add_trained(parts, answer, member, *one) for one in each])
    if weights is None:
        return _mean(list(found.values()))
    sources = [found[name] for name in ("linoss", "oscillators") if name in found]
    if estimator.task == "classification":
        sources = [answer.apply("log", source + estimator.floor) for source in sources]
    total = _sum(
        [s * float(weight) for s, weight in zip(sources, weights[-len(sources) :], strict=True)]
    )
    return answer.softmax(total) if estimator.task == "classification" else total


def _mean(terms: list[Term]) -> Term:
    return _sum(terms) / float(len(terms)) if terms[1:] else terms[0]


def _sum(terms: list[Term]) -> Term:
    total = terms[0]
    for other in terms[1:]:
        total = total + other
    return total


def _of_one_series(estimator: Any, series: Any) -> Any:
    """A forecaster restricted to trend and seasons of one of its series."""
    foundation = getattr(estimator, "foundation_", None)
    names = [] if foundation is None else [str(name) for name in foundation.adjustment.ids or ()]
    if series is not None and str(series) not in names:
        known = ", ".join(names[:5]) or "none, for it has no names of series"
        raise ValueError(f"series is {series!r}, expected one of the fit: {known}")
    if foundation is None:
        return estimator
    adjustment = foundation.adjustment
    if series is None and len(names) > 1 and estimator.base:
        raise ValueError(
            f"the forecaster has {len(names)} series, each with its own trend and seasons; choose "
            f"one with series= (--series), such as {names[0]!r}"
        )
    place = 0 if series is None else names.index(str(series))
    one = {"seasons": [adjustment.seasons[place]], "deviation": adjustment.deviation[[place]]}
    estimator = copy(estimator)
    estimator.foundation_ = replace(foundation, adjustment=replace(adjustment, ids=None, **one))
    return estimator


def program_of(estimator: Any, names: Sequence[Any] | None = None, series: Any = None) -> Program:
    """The program of a fitted estimator; `names` are those of its channels.

    Raises `ValueError` for estimators that cannot be exported.
    """
    check_is_fitted(estimator)
    static = getattr(estimator, "static", ())
    if len(static):
        raise ValueError(
            f"static is {list(static)!r}, expected none: forecasters with static features are not "
            "exported"
        )
    estimator = _of_one_series(getattr(estimator, "estimator_", estimator), series)
    members = estimator.members_
    parts, answer = [Part("p0")], Part("a")
    with jax.enable_x64(False):
        answer.outputs["answer"] = _together(parts, answer, estimator)
    states = {name for part in parts for name in part.outputs}
    horizon = getattr(estimator, "horizon", None)
    every = getattr(estimator, "every", None)
    classes = getattr(estimator, "classes_", None)
    names = getattr(estimator, "names_", names)
    return Program(
        task=estimator.task,
        channels=estimator.n_channels_,
        parts=tuple(part for part in parts if part.nodes),
        answer=answer,
        precise="oscillators" in members,
        steps=tuple(name for name in (*answer.inputs, "relative") if name in states)
        if horizon or every
        else (),
        every=every or 1,
        horizon=horizon or 0,
        known=tuple(getattr(estimator, "known_", ())),
        classes=() if classes is None else tuple(classes.tolist()),
        names=tuple(str(name) for name in names or ()),
        window=window_of(estimator) if horizon else None,
    )
