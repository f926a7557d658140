"""Attribution of a prediction to periods, channels and parts of a sequence.

The output of a readout is its intercept plus a sum over features, each of which is a sum over
samples. A sample above an oscillator's threshold contributes its time to the total time, to the
longest interval if it lies in it, and, weighted by its position, to the lateness; the first sample
of an interval contributes 1 to the number of intervals. An output is therefore a sum over
oscillators and samples, which is shown by period and time. The feature means, which the readout
subtracts, are spread evenly over time; for the lateness, the mean total time is, with the weight of
each position.
"""

from dataclasses import dataclass

import numpy as np

from linoss.estimators._ridge import Ridge
from linoss.features import LANES, STATISTICS, Response

_AT_ONCE = 2**24  # outputs
_SHARE, _LATENESS = STATISTICS.index("share"), STATISTICS.index("lateness")


@dataclass(frozen=True, eq=False)
class Evidence:
    """The evidence for the outputs for one sequence.

    For each output, `evidence.sum(axis=(1, 2)) + intercept` is the decision value, and `channels`
    has the same sum as `evidence`.
    """

    evidence: np.ndarray
    """(outputs, periods, times): positive where it supports an output, negative where it opposes
    it."""
    periods: np.ndarray
    """Bin edges of the periods, from short to long, in samples or, with times, in their unit."""
    times: np.ndarray
    """Bin edges of the times since the first sample."""
    channels: np.ndarray
    """(outputs, channels): the evidence of each channel."""
    intercept: np.ndarray
    """(outputs,)"""


def find_evidence(
    response: Response, ridge: Ridge, unit: float, *, periods: int, times: int
) -> Evidence:
    """The evidence of one sequence. `unit` is the median sampling interval."""
    bank, steps = response.bank, response.steps
    clock = np.cumsum(steps)  # the end of each sample's interval
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
        up[:, -1] = True  # independent of the sequence: the time, and its lateness
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
    """(4, times, n): the statistics, decomposed over time."""
    clock, sample = np.cumsum(steps), np.arange(len(up))[:, None]
    down = np.maximum.accumulate(np.where(up, -1, sample), axis=0)  # last one below
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
