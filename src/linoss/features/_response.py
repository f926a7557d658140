"""Statistics of a bank's outputs for sequences, by the native kernel or in JAX.

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
from functools import cached_property
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from linoss import kernels
from linoss.features._bank import LANES, Bank, moves

STATISTICS = ("share", "longest", "stretches", "lateness")
WHOLE = tuple(range(len(STATISTICS)))
"""Rows of statistics over the whole sequence."""
_PRECISE = 1e-3  # cycles per interval; slower oscillators use double precision
_ROUNDING = 1e-9  # of a place in time, the same as in the kernel
_PIECE = 1024  # samples that JAX processes at a time
_MOST_PARTS = 8  # steps of an interval; the same as in the kernel

Cases = Sequence[np.ndarray]
"""Arrays (time, channels), float32."""
Intervals = Sequence[np.ndarray] | None
"""Arrays (time,), float64: the interval before each sample, 1 for the first; None if all are 1."""


def respond(bank: Bank, cases: Cases, intervals: Intervals = None, rows: Any = WHOLE) -> np.ndarray:
    """Statistics `(cases, rows, n)`; NaN for a case without any value.

    Row 4 w + s is statistic s of window w: the whole, the first and the second half, the quarters.
    """
    if not kernels.usable():
        return np.stack([each for each, _ in _in_jax(bank, cases, intervals, rows)])
    windows = windows_of(rows)
    place = np.full(len(STATISTICS) * (2 * windows - 1), -1, np.int32)
    place[list(rows)] = np.arange(len(rows))
    out = np.empty((len(cases), len(rows), bank.size), np.float32)
    native(bank).respond(list(cases), list(intervals or ()), place, out)
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
    for row, (_, outputs) in zip(out, _in_jax(bank, cases, intervals), strict=True):
        chosen = outputs[::every][:samples]
        row[: len(chosen)] = chosen
    return out


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


class ResponseStream:
    """The statistics of a sequence so far, in pieces. The bank must be causal."""

    def __init__(self, bank: Bank):
        usable = kernels.usable()
        self._walk: Any = kernels.native.FeatureStream(native(bank)) if usable else _Walk(bank)
        self._shape = (len(STATISTICS), bank.size)

    def __call__(self, piece: np.ndarray, intervals: np.ndarray) -> np.ndarray:
        """Process samples `(time, channels)` with the intervals before them; return `(4, n)`."""
        if isinstance(self._walk, _Walk):
            self._walk(piece, intervals)
            return self._walk.statistics
        out = np.empty(self._shape, np.float32)
        self._walk(piece, intervals, out)
        return out


# ---- In JAX ----


def _in_jax(
    bank: Bank, cases: Cases, intervals: Intervals, rows: Any = WHOLE
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Statistics `(rows, n)` and outputs `(samples, n)` of each case."""
    for i, case in enumerate(cases):
        h = np.ones(len(case)) if intervals is None else intervals[i]
        parts = []
        for backwards in (False, True):
            groups = bank.backwards[bank.drive] == backwards
            if groups.any():
                walk = _Walk(bank.part(groups))
                outputs = walk(case[::-1], np.r_[1, h[:0:-1]]) if backwards else walk(case, h)
                up = outputs > bank.threshold[np.repeat(groups, LANES)]
                statistics = _statistics(up, walk.steps, rows, backwards)
                parts.append((np.repeat(groups, LANES), statistics, outputs))
        joined = np.empty((len(rows) + len(parts[0][2]), bank.size), np.float32)
        for lanes, statistics, outputs in parts:
            joined[:, lanes] = np.concatenate([statistics, outputs])
        yield joined[: len(rows)], joined[len(rows) :]


def _statistics(up: np.ndarray, steps: np.ndarray, rows: Any, backwards: bool) -> np.ndarray:
    """Statistics `(rows, n)` of outputs above their thresholds, in reading order."""
    if not len(steps):
        return np.full((len(rows), up.shape[1]), np.nan)
    windows, statistics = divided(steps, windows_of(rows)), []
    for first in 2 ** np.arange(windows_of(rows).bit_length()) - 1:
        level = windows[first : 2 * first + 1]
        statistics += [_of_window(up[each], steps[each]) for each in level[:: 1 - 2 * backwards]]
    return np.concatenate(statistics)[list(rows)]


def _of_window(up: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The four statistics over all of these samples."""
    if not len(steps):
        return np.zeros((len(STATISTICS), up.shape[1]))
    clock, total = np.cumsum(steps)[:, None], steps.sum()
    below = np.maximum.accumulate(np.where(up, 0.0, clock), axis=0)
    longest = np.where(up, clock - below, 0.0).max(axis=0)
    begins = up & ~np.concatenate([np.zeros_like(up[:1]), up[:-1]])
    late = (clock[:, 0] - steps / 2) / total - 0.5
    return np.stack([steps @ up, longest, begins.sum(axis=0), (steps * late) @ up]) / total


class _Walk:
    """A bank that reads a sequence in one direction, in pieces."""

    def __init__(self, bank: Bank):
        self._bank, self._begun = bank, False
        self._gap = self._elapsed = 0.0
        self.steps = np.zeros(0)  # of the last piece
        self._values, self._step = np.zeros((2, len(bank.mean)), np.float32), 1.0  # the last values
        self._state = np.zeros((2, bank.size), complex), np.zeros((5, bank.size))

    @property
    def statistics(self) -> np.ndarray:
        """Statistics `(4, n)` of all samples so far."""
        with np.errstate(invalid="ignore"):
            found = np.asarray(self._state[1][:4]) / self._elapsed
            found[3] = found[3] / self._elapsed - found[0] / 2
        return found.astype(np.float32)

    def __call__(self, piece: np.ndarray, intervals: np.ndarray) -> np.ndarray:
        """Process samples; return the outputs `(samples, n)` at those with a value."""
        values, steps = self._samples(piece, intervals)
        if not len(values):
            return np.zeros((0, self._bank.size))
        if not self._begun:  # the input before the first sample equals the first value
            self._begun, self._values[:], steps[0] = True, values[0], 1.0
        values, steps = _in_parts(np.concatenate([self._values[-1:], values]), steps)
        self.steps = steps
        bank, past = self._bank, np.concatenate([self._values, values])
        slopes = np.diff(past, axis=0) / np.r_[self._step, steps][:, None]
        forces = np.where(bank.order > 0, slopes @ bank.mixture.T, past[1:] @ bank.mixture.T)
        self._values, self._step = past[-2:].copy(), steps[-1]
        middle = self._elapsed + np.cumsum(steps) - steps / 2
        self._elapsed += steps.sum()
        described, outputs = (bank.rates, bank.readouts, bank.chained, bank.threshold), []
        with jax.enable_x64(True):
            for start in range(0, len(steps), _PIECE):
                chosen = forces[start : start + _PIECE + 1, bank.drive].repeat(LANES, axis=1)
                h, t = steps[start : start + _PIECE], middle[start : start + _PIECE]
                self._state, x = _scan(described, self._state, chosen, h, t)
                outputs.append(np.asarray(x))
        return np.concatenate(outputs)

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
    """Linear interpolation between samples, the first of which is the previous one; and the
    steps."""
    counts = _parts(intervals)
    place = np.repeat(np.arange(len(counts)), counts)
    part = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    share = (part / counts[place])[:, None]
    before, after = values[place].astype(np.float64), values[place + 1]
    found = np.where(share == 1, after, before + (after - before) * share).astype(np.float32)
    return found, (intervals / counts)[place]


@jax.jit
def _scan(described: Any, carry: Any, forces: Any, steps: Any, middle: Any) -> Any:
    """Process one piece of a sequence; `forces` are those at the previous sample and at its
    samples.

    `middle` is the time in the middle of each step.
    """
    rates, readouts, chained, threshold = described
    rates = jnp.where(rates == 0, -1, rates)

    def step(carry: Any, inputs: Any) -> Any:
        (first, second), (above, longest, stretches, moment, running) = carry
        before, now, h, t = inputs
        (l1, l2), (p1, p2), (n1, n2) = moves(rates, readouts, h, jnp)
        x1 = first.real
        first = l1 * first + p1 * before + n1 * now
        second = l2 * second + p2 * x1 + n2 * first.real
        x = jnp.where(chained, second.real, first.real)
        up = x > threshold
        stretches += up & (running == 0)
        running = jnp.where(up, running + h, 0)
        above, moment = above + jnp.where(up, h, 0), moment + jnp.where(up, h * t, 0)
        sums = (above, jnp.maximum(longest, running), stretches, moment, running)
        return (jnp.stack([first, second]), jnp.stack(sums)), x

    return jax.lax.scan(step, carry, (forces[:-1], forces[1:], steps, middle))
