"""Statistics of a bank's outputs for sequences, by the native kernel or without kernels by NumPy.

For each oscillator, with x its output, theta its threshold and h_n the interval before sample n:

    share      of the time that x > theta: the sum of h_n where x_n > theta
    longest    stretch of time with x > theta: the largest sum of h_n over samples in a row
    stretches  number of them
    lateness   of the time that x > theta: the sum of h_n (t_n / T - 1/2) where x_n > theta

each divided by T, the sum of all h_n; t_n is the middle of the interval before sample n. The same
over windows: the halves of the sequence, its quarters, and so on, in which a sample is if t_n is.

A sample without any value is skipped: the next interval is longer. A long interval is divided into
up to 8 steps of about 1, with linear interpolation between its ends, so that outputs within it are
counted. A missing channel keeps its last value; before its first value it has its mean.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from linoss import kernels
from linoss.features._bank import LANES, Bank, moves

STATISTICS = ("share", "longest", "stretches", "lateness")
WHOLE = tuple(range(len(STATISTICS)))
"""Rows of statistics over the whole sequence."""
_PRECISE = 1e-3  # cycles per interval; slower oscillators use double precision
_ROUNDING = 1e-9  # of a place in time, the same as in the kernel
_MOST_PARTS = 8  # steps of an interval; the same as in the kernel

Cases = Sequence[np.ndarray]
"""Arrays (time, channels), float32."""
Intervals = Sequence[np.ndarray] | None
"""Arrays (time,), float64: the interval before each sample, 1 for the first; None if all are 1."""


def respond(bank: Bank, cases: Cases, intervals: Intervals = None, rows: Any = WHOLE) -> np.ndarray:
    """Statistics `(cases, rows, n)`; NaN for a case without any value.

    Row 4 w + s is statistic s of window w: the whole, the first and the second half, the quarters.
    """
    out = np.empty((len(cases), len(rows), bank.size), np.float32)
    if kernels.usable():
        place = np.full(len(STATISTICS) * (2 * windows_of(rows) - 1), -1, np.int32)
        place[list(rows)] = np.arange(len(rows))
        native(bank).respond(list(cases), list(intervals or ()), place, out)
        return out
    for table, case, h in zip(out, cases, intervals or [None] * len(cases), strict=True):
        for lanes, backwards, steps, outputs in _read(bank, case, h):
            up = outputs > bank.threshold[lanes]
            table[:, lanes] = _statistics(up, steps, rows, backwards)
    return out


def windows_of(rows: Any) -> int:
    """The number of the shortest windows of the statistics in these rows: 1, 2, 4, ..."""
    return 1 << (max(rows) // len(STATISTICS) + 1).bit_length() - 1


def mirrored(window: int) -> int:
    """The window of the same length as far from the end as this one is from the beginning."""
    first = 2 ** ((window + 1).bit_length() - 1) - 1
    return 3 * first - window


def divided(steps: np.ndarray, windows: int) -> list[slice]:
    """The samples of the whole, of its halves, of its quarters, and so on, in reading order."""
    middle = (np.cumsum(steps) - steps / 2) / steps.sum() + _ROUNDING
    ends = np.searchsorted(middle, np.arange(windows + 1) / windows)
    ends[-1] = len(steps)
    halvings = range(windows.bit_length())
    return [slice(a, b) for k in halvings for a, b in pairwise(ends[:: windows >> k])]


def trace(bank: Bank, cases: Cases, intervals: Intervals, every: int, samples: int) -> np.ndarray:
    """Outputs `(cases, samples, n)` at every `every`-th sample, NaN after the end of a case.

    Oscillators that read backwards begin at the last sample.
    """
    out = np.full((len(cases), samples, bank.size), np.nan, np.float32)
    if kernels.usable():
        native(bank).trace(list(cases), list(intervals or ()), every, out)
        return out
    for table, case, h in zip(out, cases, intervals or [None] * len(cases), strict=True):
        for lanes, _, _, outputs in _read(bank, case, h):
            chosen = outputs[::every][:samples]
            table[: len(chosen), lanes] = chosen
    return out


@lru_cache(maxsize=4)
def native(bank: Bank) -> Any:
    """The bank in the layout of the kernel."""
    groups = bank.size // LANES

    def grouped(*rows: np.ndarray) -> np.ndarray:
        """(groups, rows, LANES)."""
        return np.stack(rows).reshape(len(rows), groups, LANES).transpose(1, 0, 2).copy()

    described, stepped = [], []
    for rates, readouts in zip(bank.rates, bank.readouts, strict=True):
        described += [-rates.real, rates.imag / (2 * np.pi), readouts.real, readouts.imag]
        rates = np.where(rates == 0, -1, rates)
        stepped += [part for row in moves(rates, readouts, 1.0) for part in (row.real, row.imag)]
    mixed, channel = np.nonzero(bank.mixture)
    chained = bank.chained.reshape(groups, LANES)[:, 0]
    slowest = np.where(bank.chained, bank.frequency.min(axis=0), bank.frequency[0])
    is_slow = slowest.reshape(groups, LANES).min(axis=1) < _PRECISE
    return kernels.native.Bank(
        grouped(*described, bank.threshold),
        grouped(*stepped),
        np.stack([1 + chained, is_slow]).astype(np.uint8),
        bank.drive.astype(np.int32),
        np.stack([bank.order, bank.backwards]).astype(np.uint8),
        np.searchsorted(mixed, np.arange(len(bank.mixture) + 1)).astype(np.int32),
        channel.astype(np.int32),
        bank.mixture[mixed, channel].astype(np.float32),
        np.stack([bank.mean, bank.scale]).astype(np.float64),
    )


@dataclass(frozen=True, eq=False)
class Response:
    """The outputs of a bank for one sequence."""

    bank: Bank
    case: np.ndarray
    """(time, channels)"""
    intervals: np.ndarray | None

    @cached_property
    def steps(self) -> np.ndarray:
        """The steps, 1 for the first."""
        there = ~np.isnan(self.case).all(axis=1)
        h = np.ones(len(self.case)) if self.intervals is None else self.intervals
        clock = np.cumsum(h)[there]
        intervals = np.diff(clock, prepend=clock[:1] - 1)
        counts = _parts(intervals)
        return np.repeat(intervals / counts, counts)

    def outputs(self, at_once: int) -> Iterator[tuple[np.ndarray, bool, np.ndarray]]:
        """Yield oscillators, whether they read backwards, and their outputs `(samples, n)`.

        Samples are in reading order; about `at_once` numbers are computed at a time.
        """
        length = len(self.steps)
        count = max(at_once // (LANES * length), 1)
        ways = self.bank.backwards[self.bank.drive]
        for backwards in (False, True):
            groups = np.flatnonzero(ways == backwards)
            for start in range(0, len(groups), count):
                some = groups[start : start + count]
                h = None if self.intervals is None else [self.intervals]
                lanes = (some[:, None] * LANES + np.arange(LANES)).ravel()
                yield lanes, backwards, trace(self.bank.part(some), [self.case], h, 1, length)[0]


def _parts(intervals: Any) -> np.ndarray:
    """The number of steps of each interval: 1 up to 1.5, 2 up to 2.5, and so on."""
    return np.clip(np.floor(intervals + 0.4), 1, _MOST_PARTS).astype(int)


def streamed(bank: Bank) -> Any:
    """A function that advances a causal bank by a piece of a sequence.

    It takes samples `(time, channels)`, the intervals before them, and an array `(4, n)` that
    receives the statistics of the sequence so far.
    """
    return kernels.native.FeatureStream(native(bank)) if kernels.usable() else _Stream(bank)


# ---- Without kernels, in double precision ----


def _read(
    bank: Bank, case: np.ndarray, intervals: np.ndarray | None
) -> Iterator[tuple[np.ndarray, bool, np.ndarray, np.ndarray]]:
    """Yield oscillators, whether they read backwards, steps, and outputs `(steps, n)`."""
    h = np.ones(len(case)) if intervals is None else intervals
    for backwards in (False, True):
        lanes = np.repeat(groups := bank.backwards[bank.drive] == backwards, LANES)
        if groups.any():
            samples = zip(case[::-1], np.r_[1, h[:0:-1]]) if backwards else zip(case, h)  # noqa: B905
            walk = _Walk(bank.part(groups))
            read = [each for sample in samples for each in walk(*sample)]
            outputs = np.array([x for _, x in read]).reshape(len(read), lanes.sum())
            yield lanes, backwards, np.array([step for step, _ in read]), outputs


def _statistics(up: np.ndarray, steps: np.ndarray, rows: Any, backwards: bool) -> np.ndarray:
    """Statistics `(rows, n)` of outputs above their thresholds, in reading order."""
    if not len(steps):
        return np.full((len(rows), up.shape[1]), np.nan)
    table = np.zeros((2 * windows_of(rows) - 1, len(STATISTICS), up.shape[1]))
    for window, piece in enumerate(divided(steps, windows_of(rows))):
        if piece.start < piece.stop:
            sums = _Sums(up.shape[1])
            for each, step in zip(up[piece], steps[piece], strict=True):
                sums.add(each, step)
            table[mirrored(window) if backwards else window] = sums.statistics
    return table.reshape(-1, up.shape[1])[list(rows)]


class _Sums:
    """The statistics of a window, step by step."""

    def __init__(self, size: int):
        self._sums, self._elapsed = np.zeros((5, size)), 0.0

    def add(self, up: np.ndarray, step: float) -> None:
        above, longest, stretches, moment, running = self._sums
        stretches += up & (running == 0)
        running[:] = np.where(up, running + step, 0)
        longest[:] = np.maximum(longest, running)
        above += step * up
        moment += step * (self._elapsed + step / 2) * up
        self._elapsed += step

    @property
    def statistics(self) -> np.ndarray:
        """Statistics `(4, n)` of all steps so far."""
        with np.errstate(invalid="ignore"):
            share, longest, stretches, moment = self._sums[:4] / self._elapsed
            return np.stack([share, longest, stretches, moment / self._elapsed - share / 2])


class _Stream:
    """As the kernel's."""

    def __init__(self, bank: Bank):
        self._walk, self._threshold, self._sums = _Walk(bank), bank.threshold, _Sums(bank.size)

    def __call__(self, piece: np.ndarray, intervals: np.ndarray, out: np.ndarray) -> None:
        for sample in zip(piece, intervals, strict=True):
            for step, outputs in self._walk(*sample):
                self._sums.add(outputs > self._threshold, step)
        out[:] = self._sums.statistics


class _Walk:
    """A bank that reads samples one after the other."""

    def __init__(self, bank: Bank):
        self._bank, self._gap, self._values = bank, 0.0, np.zeros(len(bank.mean), np.float32)
        self._force: np.ndarray | None = None  # after the last step
        self._state = np.zeros((2, bank.size), complex)

    def __call__(self, sample: np.ndarray, interval: float) -> Iterator[tuple[float, np.ndarray]]:
        """Yield the steps to a sample with any value, and the outputs after them."""
        bank, self._gap = self._bank, self._gap + interval
        values = ((sample - bank.mean) * bank.scale).astype(np.float32)
        if np.isnan(values).all():
            return
        values = np.where(np.isnan(values), self._values, values)
        if self._force is None:  # the input before the first sample equals the first value
            self._force, self._values = self._forces(values, 0 * values), values
            self._gap = 1.0
        count, before = int(_parts(self._gap)), self._values
        step = self._gap / count
        for part in range(1, count + 1):
            now = (before + (values - before.astype(float)) * part / count).astype(np.float32)
            force = self._forces(now, (now - self._values) / step)
            yield step, self._advance(force, step)
            self._force, self._values = force, now
        self._values, self._gap = values, 0.0

    def _forces(self, values: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        bank = self._bank
        forces = np.where(bank.order > 0, bank.mixture @ slopes, bank.mixture @ values)
        return forces[bank.drive].repeat(LANES)

    def _advance(self, force: np.ndarray, step: float) -> np.ndarray:
        bank, state = self._bank, self._state
        l_, p, q = _moves(bank, step)
        before = state[0].real.copy()
        state[0] = l_[0] * state[0] + p[0] * self._force + q[0] * force
        state[1] = l_[1] * state[1] + p[1] * before + q[1] * state[0].real
        return np.where(bank.chained, state[1].real, state[0].real)


@lru_cache(maxsize=8)
def _moves(bank: Bank, step: float) -> Any:
    return moves(np.where(bank.rates == 0, -1, bank.rates), bank.readouts, step)
