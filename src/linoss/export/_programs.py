"""Conversion of any fitted estimator to a program."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
from sklearn.utils.validation import check_is_fitted

from linoss.export._program import Part, Program, Term
from linoss.export._trained import add_trained
from linoss.export._untrained import add_untrained
from linoss.export._windows import window_of
from linoss.fitted import FLOOR, Fitted, Untrained
from linoss.forecasting import FittedForecaster


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


def _of_one_series(fitted: FittedForecaster, series: Any) -> FittedForecaster:
    """A forecaster restricted to trend and seasons of one of its series."""
    decomposition = fitted.components.decomposition
    names = [str(name) for name in decomposition.ids or ()]
    if series is None and len(names) > 1 and not decomposition.is_identity:
        raise ValueError(
            f"the forecaster has {len(names)} series, each with its own trend and seasons; choose "
            f"one with series= (--series), such as {names[0]!r}"
        )
    place = 0 if series is None else names.index(str(series))
    one = replace(decomposition, ids=None, series=[decomposition.series[place]])
    return replace(fitted, components=replace(fitted.components, decomposition=one))


def _refuse_series(fitted: Fitted | FittedForecaster, series: Any) -> None:
    """Raise for a series that is not one of the fit."""
    is_forecaster = isinstance(fitted, FittedForecaster)
    ids = fitted.components.decomposition.ids if is_forecaster else None
    names = [str(name) for name in ids or ()]
    if series is not None and str(series) not in names:
        known = ", ".join(names[:5]) or "none, for it has no names of series"
        raise ValueError(f"series is {series!r}, expected one of the fit: {known}")


def program_of(estimator: Any, names: Sequence[Any] | None = None, series: Any = None) -> Program:
    """The program of an estimator or its `fitted_`; `names` are those of its channels.

    Raises `ValueError` for estimators that cannot be exported.
    """
    fitted = estimator
    if not isinstance(fitted, Fitted | FittedForecaster):
        check_is_fitted(estimator)
        fitted = estimator.fitted_
    _refuse_series(fitted, series)
    if isinstance(fitted, FittedForecaster):
        return _program_of_forecaster(fitted, series)
    parts, answer = [Part("p0")], Part("a")
    with jax.enable_x64(False):
        answer.outputs["answer"] = _ensemble(parts, answer, fitted)
    every, classes = fitted.outputs.every, fitted.classes
    return Program(
        task=fitted.task,
        channels=fitted.n_channels,
        parts=tuple(part for part in parts if part.nodes),
        answer=answer,
        precise=fitted.oscillators is not None,
        steps=_states(parts, answer) if every else (),
        every=every or 1,
        classes=() if classes is None else tuple(classes.tolist()),
        names=tuple(str(name) for name in names or ()),
    )


def _program_of_forecaster(fitted: FittedForecaster, series: Any) -> Program:
    if fitted.static:
        raise ValueError(
            f"static is {list(fitted.static)!r}, expected none: forecasters with static features "
            "are not exported"
        )
    fitted = _of_one_series(fitted, series)
    assert fitted.trained is not None
    trained, parts, answer = fitted.trained, [Part("p0")], Part("a")
    with jax.enable_x64(False):
        of = (trained.models[0], "", trained.inputs, trained.objective, fitted)
        answer.outputs["answer"] = add_trained(parts, answer, *of)
    return Program(
        task=fitted.task,
        channels=fitted.n_channels,
        parts=tuple(part for part in parts if part.nodes),
        answer=answer,
        steps=_states(parts, answer),
        horizon=fitted.horizon,
        known=fitted.known,
        names=tuple(str(name) for name in fitted.names),
        window=window_of(fitted),
    )


def _states(parts: list[Part], answer: Part) -> tuple[str, ...]:
    """The states that a step hands to the answer."""
    states = {name for part in parts for name in part.outputs}
    return tuple(name for name in (*answer.inputs, "relative") if name in states)
