"""Learning case by case: the readout of a bank that does not change.

The first cases draw the bank, its thresholds and scaling, and choose the windows. Afterwards the
readout is always that of a fit to all cases: of few, which are kept, by fitting again; of more
cases than features from sums over cases, to which a case is added and from which it is taken.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from linoss.data import DataError, Sequences
from linoss.fitted._fit import fit_oscillators
from linoss.fitted._fitted import Fitted, HeldOut, Outputs
from linoss.fitted._oscillators import Untrained, encoded
from linoss.fitted._ridge import fit_ridge, fit_sums

_OSCILLATORS, _FEATURES = 1024, 8192  # of n_oscillators="auto"; most, whose products take 512 MB
_KEPT = 2**26  # most numbers of the cases that are kept: 256 MB
_HELD_OUT = 4096  # cases with leave-one-out predictions
_AT_ONCE = 512


class Learner:
    """Cases are added by `add`, taken away by `forget`; `fitted` is the result so far."""

    fitted: Fitted
    _kept: Sequences
    _products: np.ndarray | None
    """Sums over all cases of v v', v = (1, features, targets); None while they are few."""

    def __init__(self, settings: dict[str, Any]):
        if settings["n_oscillators"] == "auto":
            settings = settings | {"n_oscillators": _OSCILLATORS}
        self._settings, self._count, self._named = settings, 0, 0

    def add(self, cases: Sequences, outputs: Outputs, ids: Any, *, solve: bool) -> None:
        """Add cases, with names by which they can be forgotten."""
        names = range(self._named, self._named + len(cases)) if ids is None else ids
        cases = replace(cases, ids=tuple(map(str, names)), weights=None)
        known = self._kept.ids if self._count else ()
        if len({*(known or ()), *(cases.ids or ())}) < len(known or ()) + len(cases):
            raise ValueError("ids has a name twice, or that of a case that was added before")
        if not self._count:
            self._draw(cases, outputs)
        else:
            self._extend(self._checked(cases, outputs), solve)
        self._named += len(cases)

    def forget(self, ids: Sequence[Any], *, redraw: bool) -> None:
        """Take cases away; with `redraw`, also from what the first cases decided."""
        place = {name: i for i, name in enumerate(self._kept.ids or ())}
        unknown = [name for name in ids if str(name) not in place]
        if unknown or (redraw and self._count > len(self._kept)):
            which = f"ids has {unknown[0]!r}, expected" if unknown else "redraw is True, and needs"
            raise ValueError(
                f"{which} cases that are kept, which are {len(self._kept)} of {self._count}; fit "
                "again, without those to be forgotten"
            )
        gone = np.unique([place[str(name)] for name in ids])
        rest = self._kept.select(np.setdiff1d(np.arange(len(self._kept)), gone))
        if self._count == len(self._kept):
            self._outputs(rest.labels)  # raises if only one class is left
        if redraw:
            self._draw(rest, self._outputs(rest.labels))
            return
        if self._products is not None:
            self._sum(self._kept.select(gone), -1)
        self._kept, self._count = rest, self._count - len(gone)
        self.solve()

    def solve(self) -> None:
        """The readout of all cases, and leave-one-out predictions of those that are kept."""
        member, part, products = self._member, np.arange(len(self._kept)), self._products
        assert member.importance is not None
        if products is None:
            outputs = self._outputs(self._kept.labels)
            targets = outputs.encode(self._kept.labels)
            table = member.features.transform_cases(self._kept)
            readout, part, held_out = fit_ridge(table, encoded(targets), None, member.importance)
        else:
            p = 1 + len(member.importance)
            part = np.linspace(0, len(part) - 1, min(len(part), _HELD_OUT)).astype(int)
            squares, products = products.diagonal()[p:] / self._count, products[:p]
            outputs = self._outputs(np.array(self._labels)[products[0, p:] > 0])
            if (classes := outputs.classes) is not None:
                chosen = [p + self._labels.index(x) for x in classes.tolist()]
                signs = 2 * products[:, chosen[len(chosen) == 2 :]] - products[:, :1]
                squares, products = np.ones(signs.shape[1]), np.hstack([products[:, :p], signs])
            targets = outputs.encode(self._kept.labels)
            table = member.features.transform_cases(self._kept.select(part)).astype(np.float64)
            columns = encoded(targets, outputs.size)[part]
            readout, held_out = fit_sums(products, squares, member.importance, table, columns)
        is_paced = member.frequencies is not None and len(member.frequencies) == outputs.size
        member = replace(member, readout=readout, pace=member.pace if is_paced else None)
        member = member.calibrated(targets[part], held_out)
        predictions = member.decode(held_out)
        score = outputs.score(predictions, np.asarray(self._kept.labels)[part])
        held_out = HeldOut("leave-one-out", part, predictions, score)
        self.fitted = replace(self.fitted, outputs=outputs, oscillators=member, held_out=held_out)

    @property
    def _member(self) -> Untrained:
        assert self.fitted.oscillators is not None
        return self.fitted.oscillators

    def _outputs(self, labels: Any) -> Outputs:
        own = self.fitted.outputs
        return own if own.classes is None else Outputs.of_classes(labels)

    def _draw(self, cases: Sequences, outputs: Outputs) -> None:
        """Fit to the first cases."""
        self.fitted = fit_oscillators(cases, outputs, **self._settings, most_features=_FEATURES)
        self._kept, self._count, self._products, self._labels = cases, len(cases), None, []

    def _checked(self, cases: Sequences, outputs: Outputs) -> Sequences:
        """Further cases, with the channels of the first."""
        own, kept = self.fitted.outputs, self._kept
        if own.size != outputs.size and own.classes is None:
            raise DataError(f"y has {outputs.size} targets, expected {own.size}, as before")
        if (cases.times is None) != (kept.times is None):
            raise DataError("times must be given for all cases, or for none")
        for i, case in enumerate(cases.values):
            if np.isnan(case).all():
                raise DataError(f"case {i} of X has no value at all; leave it out")
        return self.fitted.aligned(cases)

    def _extend(self, cases: Sequences, solve: bool) -> None:
        """Add further cases, and keep those for which there is memory."""
        kept, features = self._kept, len(self._member.readout.mean)
        values = [*kept.values, *cases.values]
        times = None if kept.times is None else [*kept.times, *(cases.times or ())]
        labels = np.concatenate([np.asarray(kept.labels), np.asarray(cases.labels)])
        ids = (*(kept.ids or ()), *(cases.ids or ()))
        together = replace(kept, values=values, times=times, labels=labels, ids=ids)
        self._count += len(cases)
        room = int(np.sum(np.cumsum([case.size for case in values]) <= _KEPT))
        if self._products is not None:
            self._sum(cases)
        elif self._count > features or room < len(values):
            self._products = np.zeros((1 + features, 1 + features))
            self._sum(together)
        self._kept = together.select(np.arange(max(room, len(kept))))
        if solve:
            self.solve()

    def _sum(self, cases: Sequences, sign: int = 1) -> None:
        """Add the products of cases, or subtract them."""
        assert self._products is not None
        outputs, is_class = self.fitted.outputs, self.fitted.classes is not None
        names = np.asarray(cases.labels).tolist() if is_class else range(outputs.size)
        new = sorted(set(names) - set(self._labels))
        self._labels += new
        self._products = np.pad(self._products, (0, len(new)))
        for start in range(0, len(cases), _AT_ONCE):
            some = cases.select(np.arange(start, min(start + _AT_ONCE, len(cases))))
            columns = np.asarray(some.labels).reshape(len(some), -1)
            columns = columns == np.array(self._labels) if is_class else columns
            table = self._member.features.transform_cases(some)
            v = np.hstack([np.ones((len(some), 1)), table, columns])
            self._products += sign * v.T @ v
