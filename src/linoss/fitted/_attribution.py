"""Attribution of a prediction to the values, channels and periods of a sequence.

For trained models by integrated gradients, with channels at their means as the baseline.

For untrained oscillators exactly: the output of a readout is its intercept plus a sum over
features, each of which is a sum over samples. A sample above an oscillator's threshold contributes
its time to the total time, to the longest interval if it lies in it, and, weighted by its position,
to the lateness; the first sample of an interval contributes 1 to the number of intervals. An output
is therefore a sum over oscillators and samples, which is shown by period and time. The feature
means, which the readout subtracts, are spread evenly over time; for the lateness, the mean total
time is, with the weight of each position.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from linoss.data import Sequences
from linoss.features import LANES, STATISTICS, Response, divided, mirrored, windows_of
from linoss.fitted._ridge import Ridge
from linoss.nn import LinOSS
from linoss.training import Inputs, Objective, integrated_gradients

_AT_ONCE = 2**24  # outputs of oscillators
_SHARE, _LATENESS = STATISTICS.index("share"), STATISTICS.index("lateness")
_TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class Attribution:
    """How much each part of one sequence contributes to each output.

    For each output, `values.sum(axis=(1, 2)) + intercept` is the output: for classes the decision
    value of a readout, or the mean logit of trained models, centred over the classes; for
    regression in the units of the targets. `channels` has the same sum as `values`.

    ```python
    >>> import numpy as np
    >>> from linoss import OscillatorClassifier
    >>> waves = np.random.default_rng(0).normal(size=(20, 1, 100))
    >>> classifier = OscillatorClassifier(n_oscillators=64, random_state=0)
    >>> attribution = classifier.fit(waves, np.arange(20) % 2).explain(waves[:1], periods=8)
    >>> attribution.values.shape
    (1, 8, 48)

    ```
    """

    values: np.ndarray
    """(outputs, periods, times) for oscillators, (outputs, channels, samples) for trained models:
    positive where a part supports an output, negative where it opposes it."""
    channels: np.ndarray
    """(outputs, channels): the sum for each channel."""
    times: np.ndarray
    """Bin edges for oscillators, the time of each sample for trained models: since the first
    sample, in samples or, with times, in their unit."""
    intercept: np.ndarray
    """(outputs,): of a readout; for trained models the output with every channel at its mean."""
    periods: np.ndarray | None = None
    """Bin edges of the periods, from short to long, in the unit of `times`; None for trained
    models."""
    error: float = 0.0
    """The largest error of the sums, relative to the largest change of an output."""


def attribute_to_values(
    models: Sequence[LinOSS], inputs: Inputs, objective: Objective, cases: Sequences
) -> Attribution:
    """Integrated gradients of one sequence, averaged over several models."""
    if len(cases) != 1:
        raise ValueError(f"X has {len(cases)} cases, expected one, such as X[:1]")
    with jax.enable_x64(False):
        parts = [
            integrated_gradients(model, inputs, cases, tolerance=_TOLERANCE) for model in models
        ]
    values = np.mean([part.attributions for part in parts], axis=0).transpose(0, 2, 1)
    start = np.mean([part.baseline for part in parts], axis=0)
    error = max(part.error for part in parts)
    if not error <= 10 * _TOLERANCE:
        warnings.warn(
            f"{error:.2g} of the change of an output is not explained by the attribution",
            stacklevel=4,
        )
    if objective.task == "classification":
        values, start = values - values.mean(axis=0), start - start.mean()
    else:
        scaling: Any = getattr(objective, "scaling", None)
        if scaling is not None:
            values, start = values * scaling.deviation[:, None, None], scaling.undo(start)
    times = np.arange(values.shape[2], dtype=float)
    if cases.times is not None:
        times = np.asarray(cases.times[0], float) - float(cases.times[0][0])
    return Attribution(values, values.sum(axis=2), times, start, error=error)


def of_all_windows(ridge: Ridge, rows: Sequence[int], size: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights `(windows, 4, size, outputs)` of unscaled features and means `(windows, 4, size)`,
    0 for statistics that are not among `rows`."""
    count = 2 * windows_of(rows) - 1
    weights = np.zeros((count * len(STATISTICS), size, ridge.coefficients.shape[1]))
    means = np.zeros((count * len(STATISTICS), size))
    chosen = ridge.scale[:, None].astype(np.float64) * ridge.coefficients
    weights[list(rows)] = chosen.reshape(len(rows), size, -1)
    means[list(rows)] = ridge.mean.reshape(len(rows), size)
    shape = (count, len(STATISTICS), size)
    return weights.reshape(*shape, -1), means.reshape(shape)


def attribute_to_periods(
    response: Response, ridge: Ridge, rows: Sequence[int], unit: float, *, periods: int, times: int
) -> Attribution:
    """The exact attribution of one sequence. `unit` is the median sampling interval."""
    bank, steps = response.bank, response.steps
    clock = np.cumsum(steps)  # the end of each sample's interval
    time_edges = np.linspace(0, clock[-1], times + 1)
    place = np.clip(np.searchsorted(time_edges, clock - steps / 2) - 1, 0, times - 1)
    frequency = np.where(bank.chained, np.sqrt(bank.frequency.prod(axis=0)), bank.frequency[0])
    period_edges = np.geomspace(1 / frequency.max(), 1 / frequency.min() * (1 + 1e-9), periods + 1)
    row = np.clip(np.searchsorted(period_edges, 1 / frequency) - 1, 0, periods - 1)
    weights, means = of_all_windows(ridge, rows, bank.size)
    outputs = weights.shape[3]
    values, channels = np.zeros((outputs, periods, times)), np.zeros((outputs, len(bank.mean)))
    mixture = np.abs(bank.mixture) / np.abs(bank.mixture).sum(axis=1, keepdims=True)
    ways = (steps, place), (np.r_[1, steps[:0:-1]], times - 1 - place[::-1])
    pieces = [divided(way[0], windows_of(rows)) for way in ways]
    for lanes, backwards, positions in response.outputs(_AT_ONCE):
        up = np.pad(positions > bank.threshold[lanes].astype(np.float32), ((0, 0), (0, 1)))
        up[:, -1] = True  # independent of the sequence: the time, and its lateness
        h, at = ways[backwards]
        for window, piece in enumerate(pieces[backwards]):
            own = mirrored(window) if backwards else window
            if not weights[own].any() or piece.start == piece.stop:
                continue
            parts = _binned(up[piece], h[piece], at[piece], times)
            parts = parts[:, ::-1] if backwards else parts
            parts, always = np.split(parts / h[piece].sum(), [-1], axis=2)
            parts -= means[own][:, None, lanes] * always[0]
            parts[_LATENESS] -= means[own, _SHARE, lanes] * always[_LATENESS]
            by_lane = np.einsum("stn,sna->nat", parts, weights[own][:, lanes])
            np.add.at(values.transpose(1, 0, 2), row[lanes], by_lane)
            channels += by_lane.sum(axis=2).T @ mixture[bank.drive[lanes // LANES]]
    intercept = np.asarray(ridge.intercept)
    return Attribution(values, channels, time_edges * unit, intercept, period_edges * unit)


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
