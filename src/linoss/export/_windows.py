"""The windows of a forecaster as part of a program.

As in the library, the input of a model is z = (f(y) - e(t)) / d(t) for each target, normalised by
its window, and its output is relative to this and to a linear forecast. e(t) is computed without
its constant, which is subtracted from values first, so that the difference of two large numbers is
exact.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from linoss.export._program import Moments, Part, Term, WholeWindow

_UNITS = {
    "seconds": "seconds since 1970 began",
    "months": "months since 1970 began, and days beyond the first as shares of 30.4369",
    "steps": "numbers as in the index of the data of the fit",
}


def window_of(estimator: Any) -> WholeWindow:
    """The computations on a window, without those that `read` and `forecasts` add to parts."""
    foundation, targets = estimator.foundation_, estimator.n_outputs_
    survey, direct = _survey(estimator), foundation.direct
    blocks, weights = np.zeros(0, np.int64), np.zeros((0, estimator.horizon * targets))
    if direct is not None:
        lengths = [stop - start for start, stop in direct.blocks]
        blocks, weights = np.repeat(np.arange(len(lengths)), lengths), direct.weights[:-1]
    return WholeWindow(
        estimator.past_,
        _clock(foundation.adjustment),
        survey,
        blocks,
        weights.astype(np.float64),
        _tables(estimator),
    )


def _tables(estimator: Any) -> dict[str, np.ndarray]:
    direct, calibration, found = estimator.foundation_.direct, estimator.calibration_, {}
    if direct is not None:
        found["constant"] = direct.weights[-1].reshape(estimator.horizon, -1)
    if calibration is not None:
        if np.any(calibration.share != 1):
            found["share"] = calibration.share
        outer = [i for i, level in enumerate(calibration.levels) if level != 0.5]
        found |= {f"factor{i}": calibration.factors[..., i] for i in outer}
        found |= {f"offset{i}": calibration.offsets[..., i] for i in outer}
    return found


def _clock(adjustment: Any) -> Moments | None:
    seasons = adjustment.seasons[0]
    if not seasons.trend and not adjustment.clock.periods:
        return None
    frequencies = [k / period for period, k in _harmonics(seasons)]
    unit = _UNITS[adjustment.clock.unit]
    return Moments(unit, seasons.start, seasons.span, np.array(frequencies, np.float64))


def _harmonics(seasons: Any) -> list[tuple[float, int]]:
    """Period and number of all harmonics of a moment: the fitted ones, and the first of each
    period."""
    pairs = zip(seasons.clock.periods, seasons.counts, strict=True)
    return [(period, k) for period, count in pairs for k in range(1, max(count, 1) + 1)]


# ---- Inputs ----


def read(part: Part, estimator: Any) -> Term:
    """The model's input for a sample: adjusted and normalised targets, known variables, the
    calendar."""
    foundation = estimator.foundation_
    adjustment = foundation.adjustment
    relative = _relative(part, foundation.normalize, _adjusted(part, adjustment))
    if foundation.direct is not None:
        missing = part.apply("isnan", relative)
        part.outputs["relative"] = part.apply("where", missing, 0.0, relative)
    channels = [relative]
    if adjustment.known:
        channels.append(_columns(part, adjustment.known))
    if adjustment.clock.periods:
        harmonics = _harmonics(adjustment.seasons[0])
        first = [1 + i for i, (_, k) in enumerate(harmonics) if k == 1]
        moment = part.input("moment", 1 + len(harmonics))
        angles = part.take(moment, np.array(first)) * (2 * np.pi)
        channels += [part.apply("sin", angles), part.apply("cos", angles)]
    order = np.argsort([*adjustment.targets, *adjustment.known], kind="stable")
    found = part.join(channels)
    if np.array_equal(order, np.arange(len(order))):
        return found
    return part.take(found, np.concatenate([order, np.arange(len(order), found.size)]))


def _columns(part: Part, columns: tuple[int, ...]) -> Term:
    """A subset of the variables of a sample."""
    sample = part.inputs["sample"]
    if columns == tuple(range(sample.size)):
        return sample
    return part.take(sample, np.array(columns))


def _adjusted(part: Part, adjustment: Any) -> Term:
    """z, NaN where a target is missing."""
    part.input("sample", len(adjustment.targets) + len(adjustment.known))
    values = _columns(part, adjustment.targets)
    if any(adjustment.logarithm):
        log = part.apply("log", part.apply("where", values > 0.0, values, -1.0))
        taken = part.constant(adjustment.logarithm) > 0.5
        values = part.apply("where", taken, log, values)
    level, rest = _expected(part, adjustment)
    return (values - level - rest) / _deviation(part, adjustment)


def _deviation(part: Part, adjustment: Any) -> Term:
    """d(t)."""
    seasons, deviation = adjustment.seasons[0], part.constant(adjustment.deviation[0])
    if not len(seasons.spreads):
        return deviation
    harmonics = _harmonics(seasons)
    most = dict(zip(seasons.clock.periods, seasons.counts, strict=True))
    places = [
        1 + i
        for i, (period, k) in enumerate(harmonics)
        if k <= min(most[period], seasons.spread_harmonics)
    ]
    angles = part.take(part.input("moment", 1 + len(harmonics)), np.array(places)) * (2 * np.pi)
    waves = part.join([part.apply("sin", angles), part.apply("cos", angles)])
    spread = part.matmul(seasons.spreads[1:].T, waves) + seasons.spreads[0]
    return part.apply("maximum", spread, seasons.least_spread) * deviation


def _expected(part: Part, adjustment: Any) -> tuple[np.ndarray, Term]:
    """e(t): its constant, and the rest."""
    seasons = adjustment.seasons[0]
    coefficients = seasons.coefficients
    level = coefficients[0].astype(np.float32).astype(np.float64)
    rest = part.constant(coefficients[0] - level)
    if not coefficients[1:].any():
        return level, rest
    terms: list[Term] = []
    clock = _clock(adjustment)
    moment = None if clock is None else part.input("moment", clock.size)
    if seasons.trend:
        assert moment is not None
        beyond, bend = part.apply("maximum", moment[:1] - 1.0, 0.0), seasons.flattening
        after = part.apply("exp", beyond * (-1 / bend)) * -bend + bend
        terms.append(moment[:1] - beyond + after - 0.5)
    if any(seasons.counts):
        assert moment is not None
        angles = moment[1:] * (2 * np.pi)
        waves = part.join([part.apply("sin", angles), part.apply("cos", angles)])
        places, start = [], 0
        for count in seasons.counts:
            places.append([start + k + angles.size * i for k in range(count) for i in (0, 1)])
            start += max(count, 1)
        flat = [place for each in places for place in each]
        terms.append(part.take(waves, np.array(flat)))
        if seasons.products:
            long, short = (np.array(places[i][: 2 * seasons.products_of]) for i in (0, -1))
            both = np.repeat(long, len(short)), np.tile(short, len(long))
            terms.append(part.take(waves, both[0]) * part.take(waves, both[1]))
    if adjustment.known:
        known = _columns(part, adjustment.known)
        terms.append(part.apply("where", part.apply("isnan", known), 0.0, known))
    assert 1 + sum(term.size for term in terms) == len(coefficients)
    return level, part.matmul(coefficients[1:].T, part.join(terms), exact=True) + rest


# ---- Normalisation of a window ----


def _survey(estimator: Any) -> Part | None:
    """The last value, or mean and squared deviations of all values, of each target."""
    normalize, part = estimator.foundation_.normalize, Part("s")
    if normalize == "none":
        return None
    z = _adjusted(part, estimator.foundation_.adjustment)
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


def forecasts(part: Part, estimator: Any, answers: Term) -> Term:
    """The forecast of a step, from the outputs of the model; adds intervals as outputs."""
    objective, foundation = estimator.objective_, estimator.foundation_
    calibration, levels = estimator.calibration_, len(objective.levels)
    middle, size, scaling = levels // 2, objective.variables, objective.scaling
    tables = {name: part.input(name, size) for name in _tables(estimator)}

    def quantile(level: int) -> Term:
        return answers if levels == 1 else part.take(answers, np.arange(size) * levels + level)

    relative = quantile(middle)
    if scaling is not None:
        relative = relative * scaling.deviation + scaling.mean
    relative = relative * tables["share"] if "share" in tables else relative
    first = part.constant(0.0)
    if foundation.direct is not None:
        first = part.input("first", size) + tables["constant"]
    restored = _restoring(part, foundation, size)
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
                if calibration.seen >= calibration.needs(percent):
                    ends[f"{word}_{percent:g}"] = restored(relative + reach * side + first)
        part.outputs |= dict(sorted(ends.items(), key=lambda end: float(end[0][3:])))
    return restored(relative + first)


def _restoring(part: Part, foundation: Any, size: int) -> Callable[[Term], Term]:
    """Convert normalised values to the units of the data."""
    adjustment = foundation.adjustment
    part.input("sample", size + len(adjustment.known))
    offset, unit = _known(part, foundation.normalize, size)
    level, rest = _expected(part, adjustment)
    deviation = _deviation(part, adjustment)
    taken = part.constant(adjustment.logarithm)

    def restored(relative: Term) -> Term:
        found = (relative * unit + offset) * deviation + rest + level
        if not any(adjustment.logarithm):
            return found
        return part.apply("where", taken > 0.5, part.apply("exp", found), found)

    return restored
