"""The selection of the closed-form part of a forecaster.

Options (seasons, logarithms, a trend, the normalisation of windows) and the linear forecast are
selected by the error on the held-out end of each series. If it is short, forecasts from rolling
origins over the second half of the series are used instead, each by a fit to the data before it.
Selections without the origins around a forecast have unbiased errors on it.
"""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linoss.data import Table
from linoss.estimators._adjustment import refuse_logarithm
from linoss.estimators._direct import LinearTrial, choose, relative_errors
from linoss.estimators._foundation import Foundation, FoundationOptions, cut, positive
from linoss.estimators._known import known_mean
from linoss.estimators._seasons import Clock

_SERIES, _WINDOWS = 32, 128  # most series and windows for selecting options
_FEW_WINDOWS = 64  # a held-out part with fewer windows is short
_WORTH = 0.02  # minimum relative improvement of the error by an option
_DIVISIONS = 8  # fits of rolling origins
_HELD_OUT = 0.2  # fraction of each series

Make = Callable[[Table, FoundationOptions], Foundation]
Parts = tuple[Table, Table]


@dataclass(frozen=True, eq=False)
class Founded:
    """The selected closed-form part, fitted to all data and to a training part."""

    foundation: Foundation
    """Fitted to all data."""
    before: Foundation
    """Fitted to the training part."""
    parts: tuple[Table, Table | None]
    """A training and a held-out part."""
    errors: np.ndarray | None
    """(windows, horizon, targets): for short series, cross-fitted errors from rolling origins, in
    the units of `foundation`; otherwise None."""

    @classmethod
    def fit(
        cls, data: Table, make: Make, candidates: list[FoundationOptions], fraction: float | None
    ) -> "Founded":
        """Select one of the candidates; the first unless another one is better by a margin."""
        bare = make(data, candidates[0])
        sizes = bare.past, bare.horizon
        parts = divide(data, *sizes, fraction)
        several, short = [parts], False
        if fraction != 0 and (parts[1] is None or len(bare.windows(parts[1])) < _FEW_WINDOWS):
            several, short = rolling(data, *sizes), True
        several = [(training, held_out) for training, held_out in several if held_out is not None]
        if not several:
            return cls(bare, bare, parts, None)
        options, trials = _best(several, make, candidates, mean=short)
        choice = choose(trials, mean=short)
        before, foundation = make(parts[0], options), make(data, options)
        before = before.with_answer(choice, before.sums(parts[0]))
        foundation = foundation.with_answer(choice, foundation.sums(data))
        if not short:
            return cls(foundation, before, parts, None)
        errors = []
        for place, (training, held_out) in enumerate(several):
            without = choose(_far(trials, place), mean=True)
            made = make(training, options).with_answer(without, trials[place].sums)
            errors.append(_errors(made, held_out, foundation))
        return cls(foundation, before, parts, np.concatenate(errors))


def _best(
    several: list[Parts], make: Make, candidates: list[FoundationOptions], *, mean: bool
) -> tuple[FoundationOptions, list[LinearTrial]]:
    """The best candidate, and its trials on each of the held-out parts."""
    if len(candidates) > 1:
        some = [(_some(training), _some(held_out)) for training, held_out in several]
        cache: dict[Any, Foundation] = {}

        def made(part: Table, options: FoundationOptions) -> Foundation:
            key = (id(part), replace(options, normalize="none"))
            if key not in cache:
                cache[key] = make(part, options)
            return replace(cache[key], normalize=options.normalize)

        errors = np.array([_errors_of(each, some, made, mean=mean) for each in candidates])
        errors = relative_errors(errors.T)
        best = int(np.nanargmin(errors)) if np.isfinite(errors).any() else 0
        good = [i for i, e in enumerate(errors) if e <= (1 + _WORTH) * errors[best]]
        candidates = [candidates[min(good, default=0)]]
    (options,) = candidates
    return options, [make(parts[0], options).trial(*parts) for parts in several]


def _errors_of(
    options: FoundationOptions, several: list[Parts], make: Make, *, mean: bool
) -> list[float]:
    """The mean absolute error on each held-out part, in deviations of each series."""
    bare = [make(training, options) for training, _ in several]
    trials = [each.trial(*parts) for each, parts in zip(bare, several, strict=True)]
    choice = choose(trials, mean=mean)
    means = []
    for each, trial, (_, held_out) in zip(bare, trials, several, strict=True):
        made = each.with_answer(choice, trial.sums)
        windows, targets = made.windows(held_out), list(made.adjustment.targets)
        chosen = np.unique(np.linspace(0, len(windows) - 1, _WINDOWS).astype(int))
        nothing = np.zeros((len(chosen), made.horizon, len(targets)))
        found = made.restore(held_out, windows, chosen, nothing)
        which, ends = windows.locate(chosen)
        errors = []
        for answer, i, end in zip(found, which.tolist(), ends.tolist(), strict=True):
            values = held_out.series[i][:, targets]
            unit = known_mean(np.abs(values - known_mean(values, 0)), 0)
            error = np.abs(answer - values[end : end + made.horizon]) / np.maximum(unit, 1e-12)
            errors.append(np.minimum(error, 1e6))
        means.append(float(known_mean(np.array(errors))))
    return means


def _far(trials: list[LinearTrial], place: int) -> list[LinearTrial]:
    """The trials that are not adjacent to one."""
    far = [each for i, each in enumerate(trials) if abs(i - place) > 1]
    return far or [each for i, each in enumerate(trials) if i != place] or trials


def _errors(made: Foundation, held_out: Table, final: Foundation) -> np.ndarray:
    """Errors on a held-out part, in the units of the final fit."""
    windows = made.windows(held_out)
    every = np.arange(len(windows))
    own, last = (
        np.stack([deviation for _, deviation in each.adjustment.place(held_out)])
        for each in (made, final)
    )
    return windows.batch(every).labels * (own / last)[windows.locate(every)[0]][:, None]


def candidates_of(
    data: Table, clock: Clock, known: tuple[int, ...], asked: dict[str, Any]
) -> list[FoundationOptions]:
    """All options where `asked` has `"auto"`, the simplest first."""
    targets = [i for i in range(len(data.names)) if i not in known]
    if asked["logarithm"] is True:
        refuse_logarithm(data, targets)
    choices: dict[str, Iterable[Any]] = {
        "seasonal": (True, False) if clock.periods else (True,),
        "logarithm": (False, True) if all(positive(data, i) for i in targets) else (False,),
        "trend": (False, True) if clock.periods or clock.unit != "steps" else (False,),
        "normalize": ("none", "level"),
    }
    asked = {"seasonal": "auto", **asked}
    lists = [choices[name] if asked[name] == "auto" else (asked[name],) for name in choices]
    return [FoundationOptions(*each) for each in itertools.product(*lists)]


def _some(data: Table) -> Table:
    """An evenly spaced subset of the series of a table."""
    if data.ids is None or len(data.series) <= _SERIES:
        return data
    kept = np.linspace(0, len(data.series) - 1, _SERIES).astype(int)
    return data.pick(kept)


def divide(
    data: Table, past: int, horizon: int, fraction: float | None
) -> tuple[Table, Table | None]:
    """Split off the end of each series, with its past; None if all are too short."""
    fraction = _HELD_OUT if fraction is None else fraction
    if fraction == 0:
        return data, None
    first, second, kept = [], [], []
    for i, array in enumerate(data.series):
        part = max(round(fraction * len(array)), 2 * horizon)
        if len(array) < 2 * part + past:
            part = max(round(fraction * len(array)), horizon)
        if len(array) < 2 * part + past:  # too short to divide
            first.append(slice(None))
            continue
        first.append(slice(None, -part))
        second.append(slice(-part - past, None))
        kept.append(i)
    if not second:
        return data, None
    return cut(data, range(len(first)), first), cut(data, kept, second)


def rolling(data: Table, past: int, horizon: int) -> list[Parts]:
    """Pairs of a training part and the windows after it, over the second half of each series."""
    steps = []
    for array in data.series:
        last = len(array) - horizon
        first = min(max(len(array) // 2, horizon + 1), last + 1)
        steps.append(np.linspace(first, last + 1, _DIVISIONS + 1).astype(int))
    found = []
    for d in range(_DIVISIONS):
        kept = [i for i, each in enumerate(steps) if each[d] < each[d + 1]]
        if kept:
            ends = [(int(steps[i][d]), int(steps[i][d + 1])) for i in kept]
            before = [slice(0, start) for start, _ in ends]
            after = [slice(max(0, start - past), end - 1 + horizon) for start, end in ends]
            found.append((cut(data, kept, before), cut(data, kept, after)))
    return found
