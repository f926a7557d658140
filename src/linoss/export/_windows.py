"""The windows of a forecaster as part of a program.

As in the library, the input of a model is z = (f(y) - e(t)) / d for each target, normalised by
its window, and its output is relative to this and to a linear forecast. e(t) is computed without
its constant, which is subtracted from values first, so that the difference of two large numbers is
exact.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import Array

from linoss.export._program import Recording, WholeWindow, record
from linoss.forecasting import Components, Decomposition, FittedForecaster, SeasonalTrend
from linoss.training import Forecasting


def window_of(fitted: FittedForecaster) -> WholeWindow:
    """The computations on a window, without those that `read` and `forecasts` record."""
    components = fitted.components
    survey, clock = None, None
    if components.normalize != "none":
        (survey,), _ = record(lambda recording: _survey(recording, components))
    if _has_clock(components.decomposition):
        _, clock = record(lambda r: _clock(r, components.decomposition), double=True)
    linear = np.zeros(0) if components.linear is None else components.linear.weights
    return WholeWindow(fitted.past, clock, survey, linear, _tables(fitted))


def _tables(fitted: FittedForecaster) -> dict[str, np.ndarray]:
    """The share of the model and the distances of both ends of intervals, at each step."""
    calibration = fitted.calibration
    if calibration is None:
        return {}
    tables = {
        f"to_{side}_{percent:g}": distances[i]
        for side, distances in zip(("lo", "hi"), calibration.distances, strict=True)
        for i, percent in enumerate(calibration.levels)
        if calibration.is_calibrated(percent)
    }
    has_share = fitted.trained is not None and np.any(calibration.share != 1)
    return tables | ({"share": calibration.share} if has_share else {})


# ---- Times ----


def _has_clock(decomposition: Decomposition) -> bool:
    return decomposition.series[0].has_trend or bool(decomposition.clock.periods)


def _clock(recording: Recording, decomposition: Decomposition) -> None:
    """From a time to its moment: the place in the data of the fit, 0 to 1, and phases.

    A phase is the fraction of a cycle of a harmonic.
    """
    one, time = decomposition.series[0], recording.final("time", 1)
    turns = time * np.array([k / period for period, k in _harmonics(one)])
    place = (time - one.start) / one.span
    recording.outputs["moment"] = jnp.concatenate([place, turns - jnp.floor(turns)])


def _harmonics(one: SeasonalTrend) -> list[tuple[float, int]]:
    """Period and number of all harmonics of a moment: the fitted ones, and the first of each
    period."""
    pairs = zip(one.clock.periods, one.counts, strict=True)
    return [(period, k) for period, count in pairs for k in range(1, max(count, 1) + 1)]


def _moment(recording: Recording, one: SeasonalTrend) -> Array:
    return recording.input("moment", 1 + len(_harmonics(one)))


def _waves(moment: Array, places: list[int]) -> Array:
    """Sines, then cosines, of phases of a moment."""
    angles = _take(moment, [1 + place for place in places]) * (2 * np.pi)
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)])


def _take(x: Array, places: list[int] | tuple[int, ...]) -> Array:
    if list(places) == list(range(x.size)):
        return x
    return jnp.take(x, np.array(places), mode="clip")


# ---- Inputs ----


def read(recording: Recording, components: Components) -> Array:
    """The model's input for a sample: normalised residuals, known variables, the calendar."""
    decomposition, known = components.decomposition, components.decomposition.known
    relative = _relative(recording, components.normalize, _residual(recording, decomposition))
    if components.linear is not None:
        recording.keep("relative", jnp.where(jnp.isnan(relative), 0.0, relative))
    channels = [relative]
    if known:
        channels.append(_take(_sample(recording, decomposition), known))
    if decomposition.clock.periods:
        one = decomposition.series[0]
        first = [i for i, (_, k) in enumerate(_harmonics(one)) if k == 1]
        channels.append(_waves(_moment(recording, one), first))
    joined = jnp.concatenate(channels)
    order = np.argsort([*decomposition.targets, *known], kind="stable")
    return _take(joined, [*order.tolist(), *range(len(order), joined.size)])


def _sample(recording: Recording, decomposition: Decomposition) -> Array:
    return recording.input("sample", len(decomposition.targets) + len(decomposition.known))


def _residual(recording: Recording, decomposition: Decomposition) -> Array:
    """z, NaN where a target is missing."""
    values = _take(_sample(recording, decomposition), decomposition.targets)
    if any(decomposition.logarithm):
        log = jnp.log(jnp.where(values > 0, values, -1.0))
        values = jnp.where(np.array(decomposition.logarithm, bool), log, values)
    level, away = _expected(recording, decomposition)
    return (values - level - away) / decomposition.series[0].deviation


def _expected(recording: Recording, decomposition: Decomposition) -> tuple[np.ndarray, Array]:
    """e(t): its constant, and the rest."""
    one, coefficients = decomposition.series[0], decomposition.series[0].coefficients
    level = coefficients[0].astype(np.float32).astype(np.float64)
    constant = jnp.asarray(coefficients[0] - level)
    if not coefficients[1:].any():
        return level, constant
    terms: list[Array] = []
    if one.has_trend:
        place, bend = _moment(recording, one)[:1], one.flattening
        beyond = jnp.maximum(place - 1, 0.0)
        terms.append(place - beyond + bend * (1 - jnp.exp(beyond * (-1 / bend))) - 0.5)
    if any(one.counts):
        waves = _waves(_moment(recording, one), list(range(len(_harmonics(one)))))
        places, start = [], 0
        for count in one.counts:
            pairs = [start + k + waves.size // 2 * i for k in range(count) for i in (0, 1)]
            places.append(pairs)
            start += max(count, 1)
        terms.append(_take(waves, [place for each in places for place in each]))
        if one.has_products:
            long, short = (places[i][: 2 * one.product_harmonics] for i in (0, -1))
            first, second = np.repeat(long, len(short)), np.tile(short, len(long))
            terms.append(_take(waves, first.tolist()) * _take(waves, second.tolist()))
    if decomposition.known:
        known = _take(_sample(recording, decomposition), decomposition.known)
        terms.append(jnp.where(jnp.isnan(known), 0.0, known))
    joined = jnp.concatenate(terms)
    assert 1 + joined.size == len(coefficients)
    return level, jnp.asarray(coefficients[1:].T) @ joined + constant


# ---- Normalisation of a window ----

_SUMS = ("count", "mean", "squares")


def _survey(recording: Recording, components: Components) -> None:
    """The last value, or mean and squared deviations of all values, of each target."""
    z = _residual(recording, components.decomposition)
    missing = jnp.isnan(z)
    if components.normalize != "deviation":
        recording.keep("level", jnp.where(missing, recording.input("level", z.size, 0), z))
        return
    count, mean, squares = (recording.input(name, z.size, 0) for name in _SUMS)
    change = jnp.where(missing, 0.0, z - mean)
    after = mean + change / (count + 1)
    recording.keep("count", jnp.where(missing, count, count + 1))
    recording.keep("mean", after)
    recording.keep("squares", squares + jnp.where(missing, 0.0, change * (z - after)))


def _known(recording: Recording, normalize: str, size: int) -> tuple[Array, Array]:
    """The offset and the unit of a window."""
    if normalize != "deviation":
        offset = jnp.zeros(1) if normalize == "none" else recording.input("level", size)
        return offset, jnp.ones(1)
    count, mean, squares = (recording.input(name, size) for name in _SUMS)
    square, floor = squares / jnp.maximum(count, 1.0), (jnp.abs(mean) + 1) * 1e-6
    return mean, jnp.where(square > floor * floor, jnp.sqrt(square), 1.0)


def _relative(recording: Recording, normalize: str, z: Array) -> Array:
    """z, normalised by its window."""
    if normalize != "difference":
        offset, unit = _known(recording, normalize, z.size)
        return (z - offset) / unit
    begun, before = (recording.input(n, s, 0) for n, s in (("begun_window", 1), ("before", z.size)))
    recording.keep("begun_window", jnp.maximum(begun, 1.0))
    recording.keep("before", z)
    return z - jnp.where(begun > 0, before, z)


# ---- Forecasts ----


def forecasts(
    recording: Recording,
    fitted: FittedForecaster,
    objective: Forecasting | None = None,
    outputs: Array | None = None,
) -> Array:
    """The forecast of a step, with the outputs of a model, if any; adds intervals as outputs."""
    components, size = fitted.components, fitted.n_outputs
    tables = {name: recording.final(name, size) for name in _tables(fitted)}
    middle = jnp.zeros(1) if components.linear is None else recording.final("first", size)
    if objective is not None and outputs is not None:
        scaling, levels = objective.scaling, len(objective.levels)
        median = _take(outputs, [i * levels + levels // 2 for i in range(size)])
        if scaling is not None:
            median = median * scaling.deviation + scaling.mean
        middle = middle + median * tables.pop("share", 1.0)
    restored = _restoring(recording, components, size)
    for name, distance in tables.items():
        side = -1 if name.startswith("to_lo") else 1
        recording.outputs[name.removeprefix("to_")] = restored(middle + side * distance)
    return restored(middle)


def _restoring(recording: Recording, components: Components, size: int) -> Callable[[Array], Array]:
    """Convert normalised values to the units of the data."""
    decomposition = components.decomposition
    offset, unit = _known(recording, components.normalize, size)
    level, away = _expected(recording, decomposition)
    deviation = decomposition.series[0].deviation

    def restored(relative: Array) -> Array:
        values = (relative * unit + offset) * deviation + away + level
        if not any(decomposition.logarithm):
            return values
        return jnp.where(np.array(decomposition.logarithm, bool), jnp.exp(values), values)

    return restored
