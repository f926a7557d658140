"""Which periods, channels and parts of a sequence speak for an answer.

A readout's answer is its intercept and a sum over features, each of which is a sum over samples. A
sample above an oscillator's threshold adds its time to the share of time, to the longest stretch if
it lies in that, and, weighted by how late it is, to the lateness; the first sample of a stretch
adds 1 to the number of stretches. So an answer is a sum over oscillators and samples, which is
shown by period and time. The features' means, which the readout subtracts, are spread evenly over
time; of the lateness, so is the share of time that is usual, each part of it with its weight.
"""

from dataclasses import dataclass

import numpy as np

from linoss.estimators._ridge import Ridge
from linoss.features import LANES, STATISTICS, Response

_AT_ONCE = 2**24  # outputs
_SHARE, _LATENESS = STATISTICS.index("share"), STATISTICS.index("lateness")


@dataclass(frozen=True, eq=False)
class Evidence:
    """What speaks for the answers for one sequence.

    For each answer, `evidence.sum(axis=(1, 2)) + intercept` is what the readout says, and
    `channels` sums to the same as `evidence`.
    """

    evidence: np.ndarray
    """(answers, periods, times): positive where it speaks for an answer, negative where against."""
    periods: np.ndarray
    """Edges of the periods, from short to long, in samples or, with times, in their unit."""
    times: np.ndarray
    """Edges of the times, from the first sample on."""
    channels: np.ndarray
    """(answers, channels): the evidence that comes through each channel."""
    intercept: np.ndarray
    """(answers,)"""


def find_evidence(
    response: Response, ridge: Ridge, unit: float, *, periods: int, times: int
) -> Evidence:
    """The evidence in one sequence. `unit` is the usual interval between samples."""
    bank, steps = response.bank, response.steps
    clock = np.cumsum(steps)  # the end of each sample's time
    time_edges = np.linspace(0, clock[-1], times + 1)
    place = np.clip(np.searchsorted(time_edges, clock - steps / 2) - 1, 0, times - 1)
    frequency = np.where(bank.chained, np.sqrt(bank.frequency.prod(axis=0)), bank.frequency[0])
    period_edges = np.geomspace(1 / frequency.max(), 1 / frequency.min() * (1 + 1e-9), periods + 1)
    row = np.clip(np.searchsorted(period_edges, 1 / frequency) - 1, 0, periods - 1)
    weights = (ridge.scale[:, None] * ridge.coefficients).reshape(len(STATISTICS), bank.size, -1)
    means = ridge.mean.reshape(len(STATISTICS), bank.size)
    answers = weights.shape[2]
    evidence, channels = np.zeros((answers, periods, times)), np.zeros((answers, len(bank.mean)))
    mixture = np.abs(bank.mixture) / np.abs(bank.mixture).sum(axis=1, keepdims=True)
    back = np.r_[1, steps[:0:-1]], times - 1 - place[::-1]
    for lanes, backwards, outputs in response.outputs(_AT_ONCE):
        up = np.pad(outputs > bank.threshold[lanes].astype(np.float32), ((0, 0), (0, 1)))
        up[:, -1] = True  # always: the time itself, and its lateness
        parts = (
            _binned(up, *back, times)[:, ::-1] if backwards else _binned(up, steps, place, times)
        )
        parts, always = np.split(parts / clock[-1], [-1], axis=2)
        parts -= means[:, None, lanes] * always[0]
        parts[_LATENESS] -= means[_SHARE, lanes] * always[_LATENESS]
        found = np.einsum("stn,sna->nat", parts, weights[:, lanes])
        np.add.at(evidence.transpose(1, 0, 2), row[lanes], found)
        channels += found.sum(axis=2).T @ mixture[bank.drive[lanes // LANES]]
    return Evidence(
        evidence, period_edges * unit, time_edges * unit, channels, np.asarray(ridge.intercept)
    )


def _binned(up: np.ndarray, steps: np.ndarray, place: np.ndarray, times: int) -> np.ndarray:
    """(4, times, n): the statistics, taken apart by time."""
    clock, sample = np.cumsum(steps), np.arange(len(up))[:, None]
    down = np.maximum.accumulate(np.where(up, -1, sample), axis=0)  # the last sample below
    running = np.where(up, clock[:, None] - np.where(down >= 0, clock[down], 0), 0)
    end = running.argmax(axis=0)
    inside = up & (sample > down[end, np.arange(up.shape[1])]) & (sample <= end)
    begins = up & ~np.concatenate([np.zeros_like(up[:1]), up[:-1]])
    starts = np.searchsorted(place, np.arange(times))

    def binned(values: np.ndarray) -> np.ndarray:
        total = np.concatenate([np.zeros((1, up.shape[1])), np.cumsum(values, axis=0)])
        return np.diff(total[np.append(starts, len(up))], axis=0)

    late = (clock - steps / 2) / clock[-1] - 0.5
    weights = np.stack([steps, steps * late])[:, :, None]
    share, lateness = (binned(up * weight) for weight in weights)
    return np.stack([share, binned(inside * weights[0]), binned(begins), lateness])
