"""The windows of a forecaster as part of a program.

As in the library, the input of a model is z = (f(y) - e(t)) / d(t) for each target, normalised by
its window, and its output is relative to this and to a linear forecast. e(t) is computed without
its constant, which is subtracted from values first, so that the difference of two large numbers is
exact.
"""

from collections.abc import Callable

import numpy as np

from linoss.export._program import Moments, Part, Term, WholeWindow
from linoss.forecasting import Components, Decomposition, FittedForecaster, SeasonalTrend
from linoss.training import Forecasting

_UNITS = {
    "seconds": "seconds since 1970 began",
    "months": "months since 1970 began, and days beyond the first as shares of 30.4369",
    "steps": "numbers as in the index of the data of the fit",
}


def window_of(fitted: FittedForecaster) -> WholeWindow:
    """The computations on a window, without those that `read` and `forecasts` add to parts."""
    components = fitted.components
    survey, linear = _survey(components), components.linear
    blocks, weights = np.zeros(0, np.int64), np.zeros((0, fitted.horizon * fitted.n_outputs))
    if linear is not None:
        lengths = [stop - start for start, stop in linear.blocks]
        blocks, weights = np.repeat(np.arange(len(lengths)), lengths), linear.weights[:-1]
    return WholeWindow(
        fitted.past,
        _clock(components.decomposition),
        survey,
        blocks,
        weights.astype(np.float64),
        _tables(fitted),
    )


def _tables(fitted: FittedForecaster) -> dict[str, np.ndarray]:
    linear, calibration, tables = fitted.components.linear, fitted.calibration, {}
    if linear is not None:
        tables["constant"] = linear.weights[-1].reshape(fitted.horizon, -1)
    if calibration is not None:
        if np.any(calibration.share != 1):
            tables["share"] = calibration.share
        outer = [i for i, level in enumerate(calibration.levels) if level != 0.5]
        tables |= {f"factor{i}": calibration.factors[..., i] for i in outer}
        tables |= {f"offset{i}": calibration.offsets[..., i] for i in outer}
    return tables


def _clock(decomposition: Decomposition) -> Moments | None:
    one = decomposition.series[0]
    if not one.has_trend and not decomposition.clock.periods:
        return None
    frequencies = [k / period for period, k in _harmonics(one)]
    unit = _UNITS[decomposition.clock.unit]
    return Moments(unit, one.start, one.span, np.array(frequencies, np.float64))


def _harmonics(one: SeasonalTrend) -> list[tuple[float, int]]:
    """Period and number of all harmonics of a moment: the fitted ones, and the first of each
    period."""
    pairs = zip(one.clock.periods, one.counts, strict=True)
    return [(period, k) for period, count in pairs for k in range(1, max(count, 1) + 1)]


# ---- Inputs ----


def read(part: Part, components: Components) -> Term:
    """The model's input for a sample: normalised residuals, known variables, the calendar."""
    decomposition = components.decomposition
    relative = _relative(part, components.normalize, _residual(part, decomposition))
    if components.linear is not None:
        missing = part.apply("isnan", relative)
        part.outputs["relative"] = part.apply("where", missing, 0.0, relative)
    channels = [relative]
    if decomposition.known:
        channels.append(_columns(part, decomposition.known))
    if decomposition.clock.periods:
        harmonics = _harmonics(decomposition.series[0])
        first = [1 + i for i, (_, k) in enumerate(harmonics) if k == 1]
        moment = part.input("moment", 1 + len(harmonics))
        angles = part.take(moment, np.array(first)) * (2 * np.pi)
        channels += [part.apply("sin", angles), part.apply("cos", angles)]
    order = np.argsort([*decomposition.targets, *decomposition.known], kind="stable")
    joined = part.join(channels)
    if np.array_equal(order, np.arange(len(order))):
        return joined
    return part.take(joined, np.concatenate([order, np.arange(len(order), joined.size)]))


def _columns(part: Part, columns: tuple[int, ...]) -> Term:
    """A subset of the variables of a sample."""
    sample = part.inputs["sample"]
    if columns == tuple(range(sample.size)):
        return sample
    return part.take(sample, np.array(columns))


def _residual(part: Part, decomposition: Decomposition) -> Term:
    """z, NaN where a target is missing."""
    part.input("sample", len(decomposition.targets) + len(decomposition.known))
    values = _columns(part, decomposition.targets)
    if any(decomposition.logarithm):
        log = part.apply("log", part.apply("where", values > 0.0, values, -1.0))
        is_logarithm = part.constant(decomposition.logarithm) > 0.5
        values = part.apply("where", is_logarithm, log, values)
    level, away = _expected(part, decomposition)
    return (values - level - away) / _deviation(part, decomposition)


def _deviation(part: Part, decomposition: Decomposition) -> Term:
    """d(t)."""
    one = decomposition.series[0]
    deviation = part.constant(one.deviation)
    if not len(one.spreads):
        return deviation
    harmonics = _harmonics(one)
    most = dict(zip(one.clock.periods, one.counts, strict=True))
    places = [
        1 + i
        for i, (period, k) in enumerate(harmonics)
        if k <= min(most[period], one.spread_harmonics)
    ]
    angles = part.take(part.input("moment", 1 + len(harmonics)), np.array(places)) * (2 * np.pi)
    waves = part.join([part.apply("sin", angles), part.apply("cos", angles)])
    spread = part.matmul(one.spreads[1:].T, waves) + one.spreads[0]
    return part.apply("maximum", spread, one.least_spread) * deviation


def _expected(part: Part, decomposition: Decomposition) -> tuple[np.ndarray, Term]:
    """e(t): its constant, and the rest."""
    one = decomposition.series[0]
    coefficients = one.coefficients
    level = coefficients[0].astype(np.float32).astype(np.float64)
    constant = part.constant(coefficients[0] - level)
    if not coefficients[1:].any():
        return level, constant
    terms: list[Term] = []
    clock = _clock(decomposition)
    moment = None if clock is None else part.input("moment", clock.size)
    if one.has_trend:
        assert moment is not None
        beyond, bend = part.apply("maximum", moment[:1] - 1.0, 0.0), one.flattening
        after = part.apply("exp", beyond * (-1 / bend)) * -bend + bend
        terms.append(moment[:1] - beyond + after - 0.5)
    if any(one.counts):
        assert moment is not None
        angles = moment[1:] * (2 * np.pi)
        waves = part.join([part.apply("sin", angles), part.apply("cos", angles)])
        places, start = [], 0
        for count in one.counts:
            places.append([start + k + angles.size * i for k in range(count) for i in (0, 1)])
            start += max(count, 1)
        flat = [place for each in places for place in each]
        terms.append(part.take(waves, np.array(flat)))
        if one.has_products:
            long, short = (np.array(places[i][: 2 * one.product_harmonics]) for i in (0, -1))
            first, second = np.repeat(long, len(short)), np.tile(short, len(long))
            terms.append(part.take(waves, first) * part.take(waves, second))
    if decomposition.known:
        known = _columns(part, decomposition.known)
        terms.append(part.apply("where", part.apply("isnan", known), 0.0, known))
    assert 1 + sum(term.size for term in terms) == len(coefficients)
    return level, part.matmul(coefficients[1:].T, part.join(terms), exact=True) + constant


# ---- Normalisation of a window ----


def _survey(components: Components) -> Part | None:
    """The last value, or mean and squared deviations of all values, of each target."""
    normalize, part = components.normalize, Part("s")
    if normalize == "none":
        return None
    z = _residual(part, components.decomposition)
    missing, size = part.apply("isnan", z), z.size
    if normalize != "deviation":
        level = part.input("level", size)
        part.outputs["level"] = part.apply("where", missing, level, z)
        return part
    count, mean, squares = (part.input(name, size) for name in ("count", "mean", "squares"))
    more = count + 1.0
    change = part.apply("where", missing, 0.0, z - mean)
    part.outputs["count"] = part.apply("where", missing, count, more)
    part.outputs["mean"] = after = mean + change / more
    part.outputs["squares"] = squares + part.apply("where", missing, 0.0, change * (z - after))
    return part


def _known(part: Part, normalize: str, size: int) -> tuple[Term, Term]:
    """The offset and the unit of a window."""
    if normalize == "none":
        return part.constant(0.0), part.constant(1.0)
    if normalize != "deviation":
        return part.input("level", size), part.constant(1.0)
    count, mean, squares = (part.input(name, size) for name in ("count", "mean", "squares"))
    square = squares / part.apply("maximum", count, 1.0)
    floor = (part.apply("maximum", mean, mean * -1.0) + 1.0) * 1e-6
    unit = part.apply("where", square > floor * floor, part.apply("sqrt", square), 1.0)
    return mean, unit


def _relative(part: Part, normalize: str, z: Term) -> Term:
    """z, normalised by its window."""
    if normalize != "difference":
        offset, unit = _known(part, normalize, z.size)
        return (z - offset) / unit
    begun, before = part.input("begun_window", 1), part.input("before", z.size)
    part.outputs |= {"begun_window": part.apply("maximum", begun, 1.0), "before": z}
    return z - part.apply("where", begun > 0.0, before, z)


# ---- Forecasts ----


def forecasts(part: Part, fitted: FittedForecaster, objective: Forecasting, outputs: Term) -> Term:
    """The forecast of a step, from the outputs of the model; adds intervals as outputs."""
    components, calibration, levels = fitted.components, fitted.calibration, len(objective.levels)
    middle, size, scaling = levels // 2, objective.variables, objective.scaling
    tables = {name: part.input(name, size) for name in _tables(fitted)}

    def quantile(level: int) -> Term:
        return outputs if levels == 1 else part.take(outputs, np.arange(size) * levels + level)

    relative = quantile(middle)
    if scaling is not None:
        relative = relative * scaling.deviation + scaling.mean
    relative = relative * tables["share"] if "share" in tables else relative
    first = part.constant(0.0)
    if components.linear is not None:
        first = part.input("first", size) + tables["constant"]
    restored = _restoring(part, components, size)
    if calibration is not None:
        ends: dict[str, Term] = {}
        for side, word in ((-1, "lo"), (1, "hi")):
            width, reach = part.constant(0.0), part.constant(0.0)
            for level in range(middle + side, -1 if side < 0 else levels, side):
                x = quantile(level)
                less = part.apply("exp", part.apply("maximum", x, x * -1.0) * -1.0)
                width = part.apply("maximum", x, 0.0) + part.apply("log", less + 1.0) + width
                wide = width if scaling is None else width * scaling.deviation
                wide = part.apply("maximum", wide, calibration.narrowest)
                wide = wide * tables[f"factor{level}"] + tables[f"offset{level}"]
                reach = part.apply("maximum", wide, reach)
                percent = round(100 * abs(2 * objective.levels[level] - 1), 6)
                if calibration.is_calibrated(percent):
                    ends[f"{word}_{percent:g}"] = restored(relative + reach * side + first)
        part.outputs |= dict(sorted(ends.items(), key=lambda end: float(end[0][3:])))
    return restored(relative + first)


def _restoring(part: Part, components: Components, size: int) -> Callable[[Term], Term]:
    """Convert normalised values to the units of the data."""
    decomposition = components.decomposition
    part.input("sample", size + len(decomposition.known))
    offset, unit = _known(part, components.normalize, size)
    level, away = _expected(part, decomposition)
    deviation = _deviation(part, decomposition)
    is_logarithm = part.constant(decomposition.logarithm)

    def restored(relative: Term) -> Term:
        values = (relative * unit + offset) * deviation + away + level
        if not any(decomposition.logarithm):
            return values
        return part.apply("where", is_logarithm > 0.5, part.apply("exp", values), values)

    return restored
