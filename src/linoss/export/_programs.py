"""From a fitted estimator, of whatever kind, to its program."""

from collections.abc import Sequence
from typing import Any

import jax
from sklearn.utils.validation import check_is_fitted

from linoss.export._program import Part, Program, Term
from linoss.export._trained import add_trained
from linoss.export._untrained import add_untrained


def _together(
    forwards: Part, backwards: Part, answer: Part, estimator: Any, prefix: str = ""
) -> Term:
    """Add the members of an estimator; returns the answer of all."""
    members, found = estimator.members_, {}
    for name, member in members.items():
        label = f"{prefix}{name}_" if len(members) > 1 else prefix
        if name == "oscillators":
            found[name] = add_untrained(forwards, backwards, answer, member, label)
        elif member is not estimator:
            found[name] = _together(forwards, backwards, answer, member, label)
        else:
            models = getattr(member, "models_", [member.model_])
            labels = [f"{label}model{k}_" if len(models) > 1 else label for k in range(len(models))]
            each = zip(models, labels, strict=True)
            found[name] = _mean([add_trained(forwards, answer, member, *one) for one in each])
    weights = getattr(estimator, "weights_", None)
    if weights is None:
        return _mean(list(found.values()))
    sources = [found[name] for name in ("linoss", "oscillators") if name in found]
    if estimator.task == "classification":
        sources = [answer.apply("log", source + estimator.floor) for source in sources]
    total = _sum([s * float(weight) for s, weight in zip(sources, weights, strict=True)])
    return answer.softmax(total) if estimator.task == "classification" else total


def _mean(terms: list[Term]) -> Term:
    return _sum(terms) / float(len(terms)) if terms[1:] else terms[0]


def _sum(terms: list[Term]) -> Term:
    total = terms[0]
    for other in terms[1:]:
        total = total + other
    return total


def program_of(estimator: Any, names: Sequence[Any] | None = None) -> Program:
    """The program of a fitted estimator; `names` are those of its channels.

    What has no program raises a `ValueError` that says why.
    """
    check_is_fitted(estimator)
    if len(getattr(estimator, "static", ())):
        raise ValueError("static is not empty, and a program does not know of series; export none")
    members = estimator.members_
    forwards, backwards, answer = Part("f"), Part("b"), Part("a")
    with jax.enable_x64(False):
        answer.outputs["answer"] = _together(forwards, backwards, answer, estimator)
    states = forwards.outputs | backwards.outputs
    horizon = getattr(estimator, "horizon", None)
    every = getattr(estimator, "every", None)
    classes = getattr(estimator, "classes_", None)
    names = getattr(estimator, "names_", names)
    return Program(
        task=estimator.task,
        channels=estimator.n_channels_,
        states={name: term.size for name, term in states.items()},
        forwards=forwards,
        backwards=backwards if backwards.nodes else None,
        answer=answer,
        precise="oscillators" in members,
        steps=tuple(answer.inputs) if horizon or every else (),
        every=every or 1,
        horizon=horizon or 0,
        known=tuple(getattr(estimator, "known_", ())),
        classes=() if classes is None else tuple(classes.tolist()),
        names=tuple(str(name) for name in names or ()),
    )
