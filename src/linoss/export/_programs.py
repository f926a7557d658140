"""From a fitted estimator, of whatever kind, to its program."""

from collections.abc import Sequence
from typing import Any

import jax
from sklearn.utils.validation import check_is_fitted

from linoss.export._program import Part, Program, Term
from linoss.export._trained import add_trained
from linoss.export._untrained import add_untrained


def program_of(estimator: Any, names: Sequence[Any] | None = None) -> Program:
    """The program of a fitted estimator; `names` are those of its channels.

    What has no program raises a `ValueError` that says why.
    """
    check_is_fitted(estimator)
    members = estimator.members_
    forwards, backwards, answer = Part("f"), Part("b"), Part("a")
    found: list[Term] = []
    with jax.enable_x64(False):
        for name, member in members.items():
            label = f"{name}_" if len(members) > 1 else ""
            if name == "oscillators":
                found.append(add_untrained(forwards, backwards, answer, member, label))
            else:
                found.append(add_trained(forwards, answer, member, label))
    total = found[0]
    for other in found[1:]:
        total = total + other
    answer.outputs["answer"] = total / float(len(found))
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
        steps="features" if horizon or every else None,
        every=every or 1,
        horizon=horizon or 0,
        known=tuple(getattr(estimator, "known_", ())),
        classes=() if classes is None else tuple(classes.tolist()),
        names=tuple(str(name) for name in names or ()),
    )
