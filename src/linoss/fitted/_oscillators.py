"""Untrained oscillators: a bank, and the ridge readout of its features.

Features are in groups, one for each statistic over each window of time: the whole, a half or a
quarter. Those of group g are multiplied by sqrt(a_g), its importance, so that the kernel matrix of
all features is the sum of a_g K_g. Beginning with the whole sequence, each a_g in turn is set to 0,
divided or multiplied by 4, if this lowers the squared leave-one-out errors by more than a standard
error of the mean difference. A few hundred cases and a part of the oscillators decide.
"""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from linoss import _checks
from linoss.data import Sequences
from linoss.features import STATISTICS, Bank, FeatureStream, OscillatorFeatures
from linoss.fitted._attribution import Attribution, attribute_to_periods, of_all_windows
from linoss.fitted._ensemble import AbstractPredictionStream, fit_pool, pool
from linoss.fitted._ridge import (
    PENALTIES,
    Ridge,
    centred,
    fit_kernel,
    fit_ridge,
    leave_one_out_errors,
    one_thread,
    standardise,
    with_constant,
)
from linoss.training import Scaling

_WINDOWS = 4  # the shortest windows are quarters
_DECIDING, MOST_CASES, _FEWEST_CASES = 2048, 256, 10  # oscillators and cases that decide
_START = {"lateness": 0.25}  # the beginning of many recordings is arbitrary
_FACTOR, _FIRST = 4.0, 1.0
_SWEEPS, _WORTH = 3, 0.005  # sweeps go on while they lower the error by this part of it
_FOLDS = 4
_PREFIXES, _HELD_OUT = 8, 64  # of cases, which calibrate streams
_FEATURES = 2**28  # numbers for all cases: 1 GB
_AT_ONCE = 512  # cases whose features are converted to double precision at a time
_FEATURES_OF = ("interval_", "even_", "wide_", "rows_")
_RIDGE = ("mean", "scale", "coefficients", "intercept")


@dataclass(frozen=True, eq=False)
class Untrained:
    """A bank of untrained oscillators, and the ridge readout of its features."""

    features: OscillatorFeatures
    readout: Ridge
    sharpness: float | None
    """The factor of decision values before a softmax; None for regression."""

    importance: np.ndarray | None = None
    """The importance of each feature; None if it is from a file."""
    pace: np.ndarray | None = None
    """For streams of classes, rows of: median intervals seen, and the factors of decisions and of
    the logarithms of frequencies; the last row is for the longest case."""
    frequencies: np.ndarray | None = None
    """Of the classes, for streams."""

    @classmethod
    def fit(
        cls,
        cases: Sequences,
        targets: np.ndarray,
        weights: np.ndarray | None,
        *,
        n_oscillators: Any,
        causal: bool,
        seed: int,
        most_features: int = _FEATURES,
    ) -> tuple["Untrained", np.ndarray, np.ndarray]:
        """Fit to targets `(cases, outputs)`: numbers, or the index of each class `(cases,)`.

        **Returns:** the member; cases, a subset of very many; and their leave-one-out predictions.
        """
        features = OscillatorFeatures(n_oscillators=n_oscillators, causal=causal, random_state=seed)
        features.fit_cases(cases)
        columns = encoded(targets)
        most = min(most_features, _FEATURES // len(cases)) // features.bank_.size
        importance, crossed = _choose(features, cases, columns, weights, most)
        table = features.transform_cases(cases)
        readout, *held_out = fit_ridge(table, columns, weights, importance)
        part, held_out = held_out if crossed is None else crossed
        member = cls(features, readout, None, importance).calibrated(targets[part], held_out)
        if causal and targets.ndim == 1:
            with warnings.catch_warnings(action="ignore"):  # of beginnings without a value
                member = member._paced(cases, targets, columns, weights, table)
        return member, part, member.decode(held_out)

    def calibrated(self, targets: np.ndarray, held_out: np.ndarray) -> "Untrained":
        """With probabilities by held-out decisions, if targets are classes."""
        if targets.ndim > 1:
            return self
        return replace(self, sharpness=float(fit_pool([two_sided(held_out)], targets)[0]))

    def _paced(
        self,
        cases: Sequences,
        classes: np.ndarray,
        columns: np.ndarray,
        weights: Any,
        z: np.ndarray,
    ) -> "Untrained":
        """With calibration of streams, by prefixes of cases that the readout is fitted without.

        `z` are the standardised features of the cases.
        """
        counts, longest = np.bincount(classes, weights) + 1, self.features.longest(cases)
        frequencies, seen = counts / counts.sum(), np.geomspace(1, longest, _PREFIXES)
        folds = _FOLDS if len(cases) <= MOST_CASES else 1
        size = min(_HELD_OUT // folds, len(cases) // _FOLDS)
        groups = np.arange(len(cases)) if cases.groups is None else cases.groups
        names, of_case = np.unique(groups, return_inverse=True)
        order = np.argsort(np.random.default_rng(0).permutation(len(names))[of_case])
        decisions = []
        for held_out in np.split(order[: size * folds], folds):
            others = np.setdiff1d(order, held_out)
            apart = np.flatnonzero(~np.isin(groups, groups[held_out]))
            others = apart if len(apart) else others
            own = None if weights is None else weights[others]
            penalty = np.array([self.readout.penalty])
            readout = fit_ridge(z[others], columns[others], own, self.importance, penalty)[0]
            for length in seen[:-1]:
                part = self.features.beginning(cases.select(held_out), length)
                table = self.features.transform_cases(part)
                decisions.append(readout((table - self.readout.mean) * self.readout.scale))
        pace, truth = np.zeros((len(seen), 3)), classes[order[: size * folds]]
        pace[:, 0], pace[:, 1] = seen, self.sharpness
        for i, row in enumerate(pace[:-1] if size else ()):
            each = two_sided(np.concatenate(decisions[i :: len(seen) - 1]))
            row[1:] = fit_pool([each, np.broadcast_to(np.log(frequencies), each.shape)], truth)
        return replace(self, pace=pace, frequencies=frequencies)

    @property
    def n_channels(self) -> int:
        """Number of channels of the data."""
        return len(self.features.bank_.mean)

    @property
    def needs_times(self) -> bool:
        """Whether each sample needs a time."""
        return not self.features.even_

    @property
    def supports_streaming(self) -> bool:
        """Whether the oscillators read sequences forwards only."""
        return bool(self.features.causal)

    def decide(self, cases: Sequences) -> np.ndarray:
        """The outputs of the readout: numbers, or decision values, one column for two classes."""
        parts = []
        for start in range(0, len(cases), _AT_ONCE):
            some = cases.select(np.arange(start, min(start + _AT_ONCE, len(cases))))
            parts.append(self.readout(self.features.transform_cases(some)))
        return np.concatenate(parts)

    def predict(self, cases: Sequences) -> np.ndarray:
        """Probabilities or numbers, `(cases, outputs)`."""
        return self.decode(self.decide(cases))

    def decode(self, decisions: np.ndarray) -> np.ndarray:
        """Probabilities or numbers, from the outputs of the readout."""
        if self.sharpness is None:
            return decisions
        return pool([two_sided(decisions)], np.array([self.sharpness]))

    def decode_so_far(self, decisions: np.ndarray, seen: float) -> np.ndarray:
        """As `decode`, of a sequence of which so many median intervals have been seen."""
        if self.pace is None or self.frequencies is None or seen >= self.pace[-1, 0]:
            return self.decode(decisions)
        lengths = np.log(self.pace[:, 0])
        weights = [np.interp(np.log(max(seen, 1)), lengths, each) for each in self.pace[:, 1:].T]
        prior = np.broadcast_to(np.log(self.frequencies), (len(decisions), len(self.frequencies)))
        return pool([two_sided(decisions), prior], np.array(weights))

    def readout_by_window(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights `(windows, 4, n, outputs)` of the statistics, and their means."""
        return of_all_windows(self.readout, self.features.rows_, self.features.bank_.size)

    def stream(self) -> "OscillatorStream":
        """A streaming predictor."""
        return OscillatorStream(self)

    def explain(self, cases: Sequences, *, periods: int, parts: int) -> Attribution:
        """Attribution of the outputs to periods and parts of the only case."""
        _checks.positive_integer("periods", periods)
        _checks.positive_integer("parts", parts)
        unit = 1.0 if self.features.interval_ is None else self.features.interval_
        response = self.features.response(cases)
        return attribute_to_periods(
            response, self.readout, self.features.rows_, unit, periods=periods, times=parts
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of bank and readout, for files."""
        bank = {f"bank.{name}": array for name, array in self.features.bank_.arrays().items()}
        readout = {f"readout.{name}": getattr(self.readout, name) for name in _RIDGE}
        stream = {name: getattr(self, name) for name in ("pace", "frequencies")}
        return bank | readout | {name: x for name, x in stream.items() if x is not None}

    def to_dict(self) -> dict[str, Any]:
        """All else, as plain values."""
        return {
            "settings": self.features.get_params(),
            "features": {name: getattr(self.features, name) for name in _FEATURES_OF},
            "penalty": self.readout.penalty,
            "sharpness": self.sharpness,
        }

    @classmethod
    def from_files(cls, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> "Untrained":
        """The inverse of `arrays` and `to_dict`."""
        bank, readout = (
            {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
            for prefix in ("bank.", "readout.")
        )
        features = OscillatorFeatures(**facts["settings"])
        features.bank_ = Bank(**bank)
        vars(features).update({name: facts["features"][name] for name in _FEATURES_OF})
        size = len(features.rows_) * features.bank_.size
        _checks.shape("readout.coefficients", readout["coefficients"], (size, "outputs"))
        ridge, sharpness = Ridge(**readout, penalty=float(facts["penalty"])), facts["sharpness"]
        sharpness = None if sharpness is None else float(sharpness)
        stream = {name: arrays.get(name) for name in ("pace", "frequencies")}
        return cls(features, ridge, sharpness, **stream)


class OscillatorStream(AbstractPredictionStream):
    """A stream of untrained oscillators."""

    def __init__(self, member: Untrained):
        self._member, self._stream = member, FeatureStream(member.features)

    def __call__(self, sample: Any, time: float | None = None) -> np.ndarray:
        """Return the prediction after one more sample."""
        decisions = self._member.readout(self._stream(sample, time))
        return self._member.decode_so_far(decisions, self._stream.seen)[0]

    def __deepcopy__(self, memo: dict[int, Any]) -> "OscillatorStream":
        """Refuse: a native stream gives no access to its state."""
        raise TypeError("a stream of oscillators cannot be copied; begin another with stream()")


def encoded(targets: np.ndarray, classes: int = 0) -> np.ndarray:
    """Targets of a ridge: 1 or -1 for each class, one column for two; or numbers."""
    if targets.ndim == 1:
        count = classes or int(targets.max()) + 1
        return np.where(targets[:, None] == (np.arange(count) if count > 2 else [1]), 1.0, -1.0)
    Scaling.from_sequences([targets], kind="target")  # raises for those that cannot be learned
    return targets


def _choose(
    features: OscillatorFeatures,
    cases: Sequences,
    targets: np.ndarray,
    weights: np.ndarray | None,
    most: int,
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray] | None]:
    """The importance of each feature, and cases with predictions by those of other folds.

    A stream does not know where it ends, so that it has no windows. Cases that decided what matters
    would have too small errors: of few cases, each is predicted with what the other folds decided.
    """
    size, count = features.bank_.size, len(cases)
    rows = len(STATISTICS) * (1 if features.causal else 2 * _WINDOWS - 1)
    some = np.linspace(0, count - 1, min(count, MOST_CASES)).astype(int)
    every = -(-size // _DECIDING)
    table = features.transform_cases(cases.select(some), rows=range(rows), every=every)
    w = np.ones(len(some)) if weights is None else weights[some]
    decide = _Deciding.of(table.reshape(len(some), rows, -1), targets[some], w)
    importance = decide.importance()
    importance[np.argsort(-importance, kind="stable")[max(len(STATISTICS), most) :]] = 0
    features.rows_ = np.flatnonzero(importance).tolist()
    own = importance[features.rows_]
    groups = None if cases.groups is None else np.asarray(cases.groups)[some]
    is_crossed = count <= MOST_CASES or groups is not None
    crossed = (some, decide.crossed(groups)) if is_crossed else None
    return np.sqrt(own / own.mean()).repeat(size), crossed


def two_sided(decisions: np.ndarray) -> np.ndarray:
    """A column for each of two classes."""
    if decisions.shape[1] > 1:
        return decisions
    return np.concatenate([-decisions, decisions], axis=1)


@dataclass(frozen=True, eq=False)
class _Deciding:
    """Cases that decide, and their squared leave-one-out errors by importance and penalty."""

    kernels: np.ndarray
    """(groups, cases, cases), of rows times the roots of the weights of cases."""
    targets: np.ndarray
    """(cases, outputs)"""
    weights: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> "_Deciding":
        """From features `(cases, groups, n)`."""
        w, kernels = weights / weights.mean(), []
        with one_thread():
            for group in range(features.shape[1]):
                z = np.ascontiguousarray(features[:, group])
                standardise(z, w, 1.0)
                kernels.append((z @ z.T / z.shape[1]).astype(float) * np.sqrt(np.outer(w, w)))
        return cls(np.stack(kernels), targets, w)

    def importance(self) -> np.ndarray:
        """The importance of each group."""
        start = np.zeros(len(self.kernels))
        start[: len(STATISTICS)] = [_START.get(name, 1.0) for name in STATISTICS]
        if len(self.targets) < _FEWEST_CASES:
            return start
        with one_thread():
            return self._descend(start)

    def crossed(self, groups: np.ndarray | None) -> np.ndarray:
        """Predictions of each case without its group, with the importance by the other folds.

        Without groups a prediction is without its case alone.
        """
        single = np.arange(len(self.targets)) if groups is None else groups
        names, of_case = np.unique(single, return_inverse=True)
        fold = np.random.default_rng(0).permutation(len(names))[of_case] % _FOLDS
        predictions = np.empty(self.targets.shape)
        for own in (fold == k for k in np.unique(fold)):
            others = np.flatnonzero(~own)
            w = self.weights[others] / self.weights[others].mean()
            some = _Deciding(self.kernels[:, others[:, None], others], self.targets[others], w)
            importance = some.importance()
            shares = importance / importance.sum()
            kernel, chosen = (
                np.tensordot(shares, self.kernels, 1),
                np.tensordot(shares, some.kernels, 1),
            )
            with one_thread():
                if groups is None:
                    predictions[own] = fit_kernel(kernel, self.targets, self.weights)[2][own]
                    continue
                c = fit_kernel(chosen, some.targets, w)[0]
            outputs = kernel[own][:, others] @ c / np.sqrt(self.weights[own, None])
            predictions[own] = w @ some.targets / len(w) + outputs
        return predictions

    def _descend(self, importance: np.ndarray) -> np.ndarray:
        """Change one importance after the other while this lowers the errors."""
        target = centred(self.targets, self.weights)[0]
        total = np.tensordot(importance, self.kernels, 1)

        def errors(kernel: np.ndarray, penalty: float) -> np.ndarray:
            """Squared errors of the cases."""
            gram = with_constant(kernel, self.weights)
            try:
                errors = leave_one_out_errors(gram, target, self.weights, penalty)[1]
            except LinAlgError:  # penalty below the rounding error of the matrix
                return np.full(len(gram), np.inf)
            return self.weights * np.sum(errors**2, axis=1)

        for _ in range(_SWEEPS):
            kernel = total / importance.sum()
            penalty = min(PENALTIES[::2], key=lambda each: errors(kernel.copy(), each).mean())
            before = now = errors(kernel, penalty)
            for group, kernel in enumerate(self.kernels):
                a = importance[group]
                best = now, a
                for value in {0.0, a / _FACTOR, a * _FACTOR or _FIRST} - {a}:
                    if (size := importance.sum() + value - a) <= 0:
                        continue
                    loss = errors((total + (value - a) * kernel) / size, penalty)
                    gain = now - loss
                    is_worth = gain.mean() > gain.std() / np.sqrt(len(gain))
                    if is_worth and loss.mean() < best[0].mean():
                        best = loss, value
                now, importance[group] = best
                total += (importance[group] - a) * kernel
            if now.mean() > (1 - _WORTH) * before.mean():
                break
        return importance
