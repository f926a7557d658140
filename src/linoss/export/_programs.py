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
from linoss.fitted import FLOOR, Fitted, Untrained


def _ensemble(parts: list[Part], answer: Part, fitted: Fitted) -> Term:
    """Add the members of a fitted thing; returns the combined output."""
    outputs = []
    for name, member in fitted.members.items():
        label = f"{name}_" if len(fitted.members) > 1 else ""
        if isinstance(member, Untrained):
            outputs.append(add_untrained(parts, answer, member, label))
            continue
        several = len(member.models) > 1
        each = [
            add_trained(
                parts,
                answer,
                model,
                f"{label}model{k}_" if several else label,
                member.inputs,
                member.objective,
            )
            for k, model in enumerate(member.models)
        ]
        outputs.append(_mean(each))
    if fitted.weights is None:
        return _mean(outputs)
    if fitted.classes is not None:
        outputs = [answer.apply("log", output + FLOOR) for output in outputs]
    weighted = zip(outputs, fitted.weights, strict=True)
    total = _sum([output * float(weight) for output, weight in weighted])
    return answer.softmax(total) if fitted.classes is not None else total


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
    if not isinstance(estimator, Fitted):
        check_is_fitted(estimator)
    static = getattr(estimator, "static", ())
    if len(static):
        raise ValueError(
            f"static is {list(static)!r}, expected none: forecasters with static features are not "
            "exported"
        )
    estimator = _of_one_series(estimator, series)
    fitted: Fitted | None = getattr(estimator, "fitted_", None)
    fitted = estimator if isinstance(estimator, Fitted) else fitted
    parts, answer = [Part("p0")], Part("a")
    with jax.enable_x64(False):
        if fitted is None:  # a forecaster
            of = (estimator.model_, "", estimator.inputs_, estimator.objective_, estimator)
            answer.outputs["answer"] = add_trained(parts, answer, *of)
        else:
            answer.outputs["answer"] = _ensemble(parts, answer, fitted)
    states = {name for part in parts for name in part.outputs}
    horizon = getattr(estimator, "horizon", None)
    every = None if fitted is None else fitted.outputs.every
    classes = None if fitted is None else fitted.classes
    names = getattr(estimator, "names_", names)
    return Program(
        task=estimator.task,
        channels=estimator.n_channels_ if fitted is None else fitted.n_channels,
        parts=tuple(part for part in parts if part.nodes),
        answer=answer,
        precise=fitted is not None and fitted.oscillators is not None,
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
