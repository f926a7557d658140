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


def name_of_row(row: int) -> str:
    """Such as "share of the whole", or "longest of quarter 2"."""
    window, statistic = divmod(row, len(STATISTICS))
    level = (window + 1).bit_length() - 1
    parts = {0: "", 1: " of half", 2: " of quarter"}.get(level, f" of part of {2**level}:")
    return STATISTICS[statistic] + (f"{parts} {window + 2 - 2**level}" if level else "")


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


def _parts(intervals: np.ndarray) -> np.ndarray:
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
        groups = bank.backwards[bank.drive] == backwards
        if groups.any():
            walk = _Walk(bank.part(groups))
            read = (case[::-1], np.r_[1, h[:0:-1]]) if backwards else (case, h)
            yield np.repeat(groups, LANES), backwards, *walk(*read)


def _statistics(up: np.ndarray, steps: np.ndarray, rows: Any, backwards: bool) -> np.ndarray:
    """Statistics `(rows, n)` of outputs above their thresholds, in reading order."""
    if not len(steps):
        return np.full((len(rows), up.shape[1]), np.nan)
    table = np.zeros((2 * windows_of(rows) - 1, len(STATISTICS), up.shape[1]))
    for window, piece in enumerate(divided(steps, windows_of(rows))):
        if piece.start < piece.stop:
            sums = _Sums(up.shape[1])
            sums.add(up[piece], steps[piece])
            table[mirrored(window) if backwards else window] = sums.statistics
    return table.reshape(-1, up.shape[1])[list(rows)]


class _Sums:
    """The statistics of a window, sample by sample."""

    def __init__(self, size: int):
        self._sums, self._elapsed = np.zeros((5, size)), 0.0

    def add(self, up: np.ndarray, steps: np.ndarray) -> None:
        above, longest, stretches, moment, running = self._sums
        for is_up, h in zip(up, steps, strict=True):
            stretches += is_up & (running == 0)
            running[:] = np.where(is_up, running + h, 0)
            longest[:] = np.maximum(longest, running)
            above += h * is_up
            moment += h * (self._elapsed + h / 2) * is_up
            self._elapsed += h

    @property
    def statistics(self) -> np.ndarray:
        """Statistics `(4, n)` of all samples so far."""
        with np.errstate(invalid="ignore"):
            share, longest, stretches, moment = self._sums[:4] / self._elapsed
            return np.stack([share, longest, stretches, moment / self._elapsed - share / 2])


class _Stream:
    """As the kernel's."""

    def __init__(self, bank: Bank):
        self._walk, self._threshold, self._sums = _Walk(bank), bank.threshold, _Sums(bank.size)

    def __call__(self, piece: np.ndarray, intervals: np.ndarray, out: np.ndarray) -> None:
        steps, outputs = self._walk(piece, intervals)
        self._sums.add(outputs > self._threshold, steps)
        out[:] = self._sums.statistics


class _Walk:
    """A bank that reads a sequence in one direction, in pieces."""

    def __init__(self, bank: Bank):
        self._bank, self._begun, self._gap = bank, False, 0.0
        self._values, self._step = np.zeros((2, len(bank.mean)), np.float32), 1.0  # the last ones
        self._state = np.zeros((2, bank.size), complex)

    def __call__(self, piece: np.ndarray, intervals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Process samples; return steps, and the outputs `(steps, n)` after them."""
        bank, (values, steps) = self._bank, self._samples(piece, intervals)
        if not len(values):
            return steps, np.zeros((0, bank.size))
        if not self._begun:  # the input before the first sample equals the first value
            self._begun, self._values[:], steps[0] = True, values[0], 1.0
        values, steps = _in_parts(np.concatenate([self._values[-1:], values]), steps)
        past = np.concatenate([self._values, values])
        slopes = np.diff(past, axis=0) / np.r_[self._step, steps][:, None]
        forces = np.where(bank.order > 0, slopes @ bank.mixture.T, past[1:] @ bank.mixture.T)
        self._values, self._step = past[-2:].copy(), steps[-1]
        return steps, self._advance(forces[:, bank.drive].repeat(LANES, axis=1), steps)

    def _advance(self, forces: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Outputs `(steps, n)`; `forces` are those before the first step and after each one."""
        bank, first, second = self._bank, self._state[0], self._state[1]
        rates, outputs = np.where(bank.rates == 0, -1, bank.rates), []
        last, (l_, p, q) = 1.0, moves(rates, bank.readouts, 1.0)
        for before, now, h in zip(forces[:-1], forces[1:], steps, strict=True):
            if h != last:
                last, (l_, p, q) = h, moves(rates, bank.readouts, h)
            before_second = first.real
            first = l_[0] * first + p[0] * before + q[0] * now
            second = l_[1] * second + p[1] * before_second + q[1] * first.real
            outputs.append(np.where(bank.chained, second.real, first.real))
        self._state = np.stack([first, second])
        return np.stack(outputs)

    def _samples(self, piece: np.ndarray, intervals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Standardised values of the samples with any value, and the intervals before them."""
        scaled = ((piece - self._bank.mean) * self._bank.scale).astype(np.float32)
        scaled = np.concatenate([self._values[-1:], scaled])  # before the first value, the mean
        there = ~np.isnan(scaled)
        last = np.maximum.accumulate(np.where(there, np.arange(len(scaled))[:, None], 0), axis=0)
        chosen = np.flatnonzero(there[1:].any(axis=1))
        times = self._gap + np.cumsum(intervals)
        self._gap = times[-1] - (times[chosen[-1]] if len(chosen) else 0.0)
        values = np.take_along_axis(scaled, last, axis=0)[1:][chosen]
        return values, np.diff(times[chosen], prepend=0.0)


def _in_parts(values: np.ndarray, intervals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values between samples, the first of which is the previous one, and the steps."""
    counts = _parts(intervals)
    place = np.repeat(np.arange(len(counts)), counts)
    part = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    share = (part / counts[place])[:, None]
    before, after = values[place].astype(np.float64), values[place + 1]
    between = np.where(share == 1, after, before + (after - before) * share).astype(np.float32)
    return between, (intervals / counts)[place]
