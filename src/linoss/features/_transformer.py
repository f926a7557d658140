"""Features of sequences: statistics of untrained oscillators."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from linoss._declare import COUNT, check_settings, documented, setting
from linoss._settings import RandomStateLike
from linoss.data import DataError, Sequences, as_sequences
from linoss.features._bank import Bank, draw
from linoss.features._response import (
    STATISTICS,
    WHOLE,
    Response,
    respond,
    streamed,
    trace,
)
from linoss.training import Scaling, usual_interval

_CASES, _SAMPLES = 32, 32  # most cases, and most outputs of each, that determine the thresholds
_QUANTILES = (0.05, 0.95)
_FEWEST, _MOST = 1024, 8192  # oscillators
_FEATURES = 2**28  # numbers for all cases: 1 GB


@dataclass(kw_only=True, eq=False, repr=False)
class OscillatorSettings:
    """Settings of untrained oscillators."""

    n_oscillators: int | Literal["auto"] = setting(
        "auto",
        "Number of untrained oscillators, rounded up to a multiple of 16. auto: 8192, or fewer, "
        "but at least 1024, so that the features of all cases take at most 1 GB.",
        COUNT,
    )
    causal: bool = setting(
        False,
        "Use only untrained oscillators that read forwards in time, as needed for streaming.",
    )
    random_state: int | RandomStateLike | None = setting(
        None,
        "Seed for reproducible results.",
        "[0, 4294967296)",
        none="a different one in each fit",
        other="a RandomState",
    )


@documented
class OscillatorFeatures(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, OscillatorSettings, BaseEstimator
):
    """A scikit-learn transformer: features of sequences by untrained oscillators.

    The bank consists of damped oscillators with random frequency, quality factor and phase. Each is
    driven by the sequence or by its differences, forwards or backwards in time; with several
    channels, by a random mixture of a few. Its four features describe when its output exceeds a
    threshold, a random quantile of its outputs for training cases: the total time, the longest
    interval, the number of intervals, and the lateness, each divided by the length of the sequence.
    One pass over a sequence computes them.

    Sequences may differ in length. A sample without any value is skipped: the input is linear
    between its neighbours. A missing channel keeps its last value. With `times`, sampling may be
    irregular.

    ```python
    >>> import numpy as np
    >>> from linoss import OscillatorFeatures
    >>> waves = np.random.default_rng(0).normal(size=(10, 2, 100))  # 10 cases of 2 channels
    >>> features = OscillatorFeatures(n_oscillators=64, random_state=0)
    >>> features.fit_transform(waves).shape
    (10, 256)

    ```
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def fit(self, X: Any, y: Any = None, *, times: Any = None) -> "OscillatorFeatures":
        """Draw a bank, and compute its thresholds.

        **Arguments:**

        - `X`: `(cases, channels, time)`, `(cases, time)`, a list of `(channels, length)` arrays, or
          [`linoss.data.Sequences`][]. NaN marks a missing value.
        - `y`: not used.
        - `times`: sampling times, for irregular sampling: `(time,)`, `(cases, time)` or a list of
          `(length,)` arrays.
        """
        check_settings(self)
        return self.fit_cases(as_sequences(self, X, None, times, reset=True)[0])

    def fit_cases(self, cases: Sequences) -> "OscillatorFeatures":
        """As `fit`, to sequences that are validated already."""
        self.interval_, self.even_, self.rows_ = None, True, list(WHOLE)
        self.wide_ = any(case.dtype == np.float64 for case in cases.values)
        if cases.times is not None:
            self.interval_, self.even_ = usual_interval(cases.times)
        random, size = check_random_state(self.random_state), self.n_oscillators
        random = np.random.default_rng(random.randint(2**31))
        if size == "auto":
            size = int(np.clip(_FEATURES // (len(STATISTICS) * len(cases)), _FEWEST, _MOST))
        self.bank_ = draw(
            random,
            size,
            longest=self.longest(cases),
            causal=self.causal,
            **_standardisation(cases),
        )
        self.bank_ = replace(self.bank_, threshold=self._thresholds(random, cases))
        return self

    def transform(self, X: Any, *, times: Any = None) -> np.ndarray:
        """Features `(cases, 4 n)` of n oscillators, float32.

        A case without any value has NaN.
        """
        check_is_fitted(self)
        return self.transform_cases(as_sequences(self, X, None, times, reset=False)[0])

    def transform_cases(
        self, cases: Sequences, *, rows: Sequence[int] | None = None, every: int = 1
    ) -> np.ndarray:
        """As `transform`, of sequences that are validated already.

        `rows` are those of `respond`, by default those of the fit; of the groups of oscillators,
        `every`-th are used.
        """
        bank, values, intervals = self._samples(cases)
        rows = self.rows_ if rows is None else rows
        bank = bank if every == 1 else bank.part(slice(None, None, every))
        table = respond(bank, values, intervals, rows)
        return table.reshape(len(cases), -1)

    def fit_transform(self, X: Any, y: Any = None, *, times: Any = None) -> np.ndarray:  # pyright: ignore[reportIncompatibleMethodOverride]
        """As `fit` and `transform`."""
        return self.fit(X, times=times).transform(X, times=times)

    @property
    def _n_features_out(self) -> int:
        return len(self.rows_) * self.bank_.size

    def response(self, cases: Sequences) -> Response:
        """Return the outputs of the oscillators for the only case, which is validated already."""
        if len(cases) != 1:
            raise ValueError(f"X has {len(cases)} cases, expected one, such as X[:1]")
        if np.isnan(cases.values[0]).all():
            raise DataError("the case of X has no value at all, expected some")
        bank, values, intervals = self._samples(cases)
        return Response(bank, values[0], None if intervals is None else intervals[0])

    def beginning(self, cases: Sequences, length: float) -> Sequences:
        """The samples of the first so many median intervals, at least one of each case."""
        counts, times = [int(length)] * len(cases), cases.times
        if times is not None and self.interval_ is not None:
            counts = [int(np.sum(t - t[0] < length * self.interval_)) for t in times]
            times = [t[:n] for t, n in zip(times, counts, strict=True)]
        values = [case[:n] for case, n in zip(cases.values, counts, strict=True)]
        return replace(cases, values=values, times=times)

    def longest(self, cases: Sequences) -> int:
        """Length of the longest case, in median intervals."""
        if cases.times is None or self.interval_ is None:
            return int(cases.lengths.max())
        return int(max((t[-1] - t[0]) / self.interval_ for t in cases.times)) + 1

    # ---- Implementation ----

    def _samples(self, cases: Sequences) -> tuple[Bank, list[np.ndarray], list[np.ndarray] | None]:
        """The bank, the values of the cases in its precision, and the intervals."""
        bank, center = self._centred()
        if cases.num_channels != len(bank.mean):
            raise DataError(
                f"X has {cases.num_channels} channels, expected {len(bank.mean)}, as in fit"
            )
        values, ignored = zip(*map(center, cases.values), strict=True)
        if any(ignored):
            warnings.warn(
                _far(sum(ignored), f"X, first in case {np.flatnonzero(ignored)[0]}"), stacklevel=4
            )
        empty = [i for i, case in enumerate(values) if np.isnan(case).all()]
        if empty:
            warnings.warn(
                f"case {empty[0]} of X has no value, and its features are NaN", stacklevel=4
            )
        if cases.times is not None and self.interval_ is None:
            raise DataError(
                "times are given, but fit had none, so their unit is unknown; fit with times"
            )
        if cases.times is None or self.interval_ is None:
            if not self.even_:
                raise DataError("times are not given, but those of fit were uneven, expected times")
            return bank, list(values), None
        unit = self.interval_
        return bank, list(values), [np.diff(t / unit, prepend=t[0] / unit - 1) for t in cases.times]

    def _centred(self) -> tuple[Bank, Callable[[np.ndarray], tuple[np.ndarray, int]]]:
        """The bank, and a function that converts its inputs to single precision.

        Channels with a large offset (`wide_`) are centred first. Values outside of the bank's
        limits become NaN; the function also returns their number.
        """
        mean, (low, high) = self.bank_.mean, self.bank_.limits
        bank = replace(self.bank_, mean=np.zeros_like(mean)) if self.wide_ else self.bank_

        def single(values: np.ndarray) -> tuple[np.ndarray, int]:
            rows, ignored = np.atleast_2d(values), 0
            lowest = np.fmin.reduce(rows, axis=0, initial=np.inf)
            highest = np.fmax.reduce(rows, axis=0, initial=-np.inf)
            if (lowest < low).any() or (highest > high).any():
                is_far = (values < low) | (values > high)
                values, ignored = values.copy(), int(is_far.sum())
                values[is_far] = np.nan
            if values.dtype == np.float32 and not self.wide_:
                return values, ignored  # not copied, because it may be long
            return (values - mean if self.wide_ else values).astype(np.float32), ignored

        return bank, single

    def _thresholds(self, random: np.random.Generator, cases: Sequences) -> np.ndarray:
        """A random quantile of each oscillator's outputs for a subset of the cases."""
        some = cases.select(random.permutation(len(cases))[:_CASES])
        every = -(-max(int(some.lengths.max()), self.longest(some)) // _SAMPLES)
        found = trace(*self._samples(some), every, _SAMPLES)
        n = self.bank_.size
        outputs = np.sort(found.reshape(-1, n).T.copy())  # NaN sorts last
        known = outputs.shape[1] - np.isnan(outputs).sum(axis=1)
        low, high = _QUANTILES
        quantile = low + (high - low) * (random.permutation(n) + random.random(n)) / n
        place = (quantile * (known - 1)).astype(int)  # between an output and the next larger one
        beside = np.minimum(place + 1, known - 1)
        return (outputs[np.arange(n), place].astype(np.float64) + outputs[np.arange(n), beside]) / 2


class FeatureStream:
    """Features of the sequence so far, sample by sample, in constant memory."""

    def __init__(self, features: OscillatorFeatures):
        if not features.causal:
            raise ValueError(
                "causal is False: some oscillators read sequences backwards, which a stream cannot "
                "do; fit with causal=True"
            )
        bank, self._center = features._centred()
        self._interval, self._rows = features.interval_, features.rows_
        self._stream, self._size, self._channels = streamed(bank), bank.size, len(bank.mean)
        self._before = -np.inf
        self.seen = 0.0
        """Median intervals so far; the first sample counts as one."""
        self.ignored = 0
        """Number of values that were treated as missing, because they are far from those of fit."""

    def __call__(self, sample: Any, time: float | None = None) -> np.ndarray:
        """Return the features `(1, n)` of the sequence so far.

        **Arguments:**

        - `sample`: one number for each channel; NaN if it is missing.
        - `time`: the sampling time, if `fit` had times; by default one median interval after the
          last.
        """
        values = np.asarray(sample)
        if values.shape != (self._channels,):
            raise ValueError(f"sample has shape {values.shape}, expected ({self._channels},)")
        values, ignored = self._center(values if values.dtype.kind == "f" else values.astype(float))
        if ignored and not self.ignored:
            warnings.warn(_far(ignored, "a sample"), stacklevel=2)
        interval = 1.0
        if time is not None:
            if self._interval is None:
                raise ValueError(f"time is {time}, expected None: fit had no times")
            if not self._before < time < np.inf:
                raise ValueError(f"time is {time}, expected a finite one after {self._before}")
            if self._before > -np.inf:
                interval = (time - self._before) / self._interval
            self._before = time
        self.ignored += ignored
        self.seen += interval
        statistics = np.empty((len(STATISTICS), self._size), np.float32)
        self._stream(values[None], np.array([interval]), statistics)
        return statistics[self._rows].reshape(1, -1)


def _far(count: int, place: str) -> str:
    are = "value is" if count == 1 else "values are"
    return (
        f"{count} {are} more than 1e6 standard deviations from those of fit, and treated as "
        f"missing: in {place}; check for fill values and units"
    )


def _standardisation(cases: Sequences) -> dict[str, np.ndarray]:
    """Mean of each channel, and the factor that gives it a standard deviation of 1.

    The factor of a constant or empty channel is 0.
    """
    scaling = Scaling.from_sequences(cases.values)
    with np.errstate(invalid="ignore"):
        low, high = (
            extreme.reduce([extreme.reduce(case, axis=0) for case in cases.values])
            for extreme in (np.fmin, np.fmax)
        )
    if not (high > low).any():
        warnings.warn(
            f"no channel of X ever changes (channel 0 is always {low[0]:.6g}), so that nothing can "
            "be learned from it; check that the right columns were read",
            stacklevel=4,
        )
    return {"mean": scaling.mean, "scale": np.where(high > low, 1 / scaling.deviation, 0.0)}
