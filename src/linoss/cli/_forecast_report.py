"""The part of a report about forecasts."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from linoss.cli._html import table
from linoss.cli._output import number
from linoss.cli._pictures import _INK, _LINES, _RC, _short, legend_below, svg
from linoss.cli._scores import Evaluation, Forecast, backtest_rows, backtest_windows

_CYCLES = 4  # horizons of past in a figure
_WORST = 3
_MOST_VARIABLES = 12  # in tables


def forecast_sections(forecaster: Any, evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    """Title and content of each section; none for other tasks."""
    forecasts, where = evaluation.forecasts, backtest_windows(evaluation.kind)
    if forecasts:
        note = "<p>Forecasts of the last steps of the data"
        note += (
            ", with 80 and 95 % prediction intervals.</p>" if forecasts[0].intervals else ".</p>"
        )
        yield "Forecast", note + svg(forecast_plot(forecasts), "Forecast")
    found = evaluation.backtest
    if found is not None:
        yield "Errors", _errors(where, found)
        yield "Errors by horizon", _by_horizon(found)
        yield "Worst windows", _worst(found)
    if forecaster.known_:
        yield "Variables known in advance", _effects(forecaster.known_effects())


def forecast_summary(evaluation: Evaluation) -> str:
    """How far forecasts are ahead of repeating the last season, and what intervals contain."""
    where, found = backtest_windows(evaluation.kind), evaluation.backtest
    if found is None:
        return ""
    ours, simple = (found.error("mase", of) for of in ("forecast", "seasonal naive"))
    if simple > 0:
        compared = f"{abs(1 - ours / simple):.0%} {'lower' if ours < simple else 'higher'}"
        words = f"the error is {compared} than that of the value {found.season} steps before"
    else:
        words = f"the mean absolute scaled error is {number(ours)}"
    shares = {level: found.coverage(level) for level in found.intervals}
    covered = [
        f"{np.nanmean(share):.1%} of the values are within intervals of {level:g} %"
        for level, share in shares.items()
        if np.isfinite(share).any()
    ]
    return f"{where}: {'; '.join([words, *covered])}."


def forecast_plot(forecasts: Sequence[Forecast]) -> Figure:
    """For each variable the end of its past, the observed values, the forecast and its
    intervals."""
    with rc_context(_RC):
        figure = Figure(figsize=(8, 0.6 + 1.9 * len(forecasts)), layout="constrained")
        panels = figure.subplots(len(forecasts), 1, squeeze=False, sharex=True)[:, 0]
        for axes, shown in zip(panels, forecasts, strict=True):
            horizon = len(shown.truth)
            before = min(_CYCLES * horizon, len(shown.past))
            past, ahead = shown.times[-horizon - before : -horizon], shown.times[-horizon:]
            blue, orange = _LINES[:2]
            for i, (level, ends) in enumerate(sorted(shown.intervals.items(), reverse=True)):
                look: Any = {"color": orange, "alpha": 0.15 + 0.15 * i, "linewidth": 0}
                axes.fill_between(ahead, *ends.T, label=f"{level:g} %", **look)
            axes.plot(past, shown.past[-before:], color=_INK, linewidth=1, label="past")
            axes.plot(ahead, shown.truth, color=blue, linewidth=1.2, label="what came")
            axes.plot(ahead, shown.forecast, color=orange, linewidth=1.6, label="forecast")
            axes.set_title(_short(shown.name, 60))
        if forecasts[0].times.dtype.kind == "M":
            locator = AutoDateLocator(maxticks=8)
            panels[-1].xaxis.set_major_locator(locator)
            panels[-1].xaxis.set_major_formatter(ConciseDateFormatter(locator))
        else:
            panels[-1].set_xlabel("steps from the last one that was read")
        legend_below(figure, panels[0])
    return figure


def _errors(where: str, found: Any) -> str:
    header, rows = backtest_rows(found)
    shown = _MOST_VARIABLES * len(found.forecasts)
    more = len(found.names) - _MOST_VARIABLES
    rest = f" {more} more variables are not shown." if more > 0 else ""
    note = (
        f'<p class="soft">{where}: {len(found.truth)} of {found.horizon} steps. MAE, RMSE and '
        "pinball are in the unit of the variable; MASE, without a unit, is the MAE by that of the "
        f"value {found.season} steps before.{rest}</p>"
    )
    return note + table(header, rows[:shown])


def _by_horizon(found: Any) -> str:
    """MASE of all forecasts, and coverage, over the forecast horizon."""
    with rc_context(_RC):
        figure = Figure(figsize=(8, 3.2), layout="constrained")
        panels = figure.subplots(1, 2 if found.intervals else 1, squeeze=False)[0]
        ahead = np.arange(1, found.horizon + 1)
        mark = "o" if found.horizon <= 40 else ""
        for i, of in enumerate(found.forecasts):
            errors = _over_variables(found.errors("mase", of))
            name = "this model" if of == "forecast" else of
            width = 2 if of == "forecast" else 1
            look: Any = {"color": _LINES[i], "linewidth": width, "markersize": 3}
            panels[0].plot(ahead, errors, label=name, marker=mark if width == 2 else "", **look)
        panels[0].set(title="MASE, the mean over variables", xlabel="steps ahead")
        panels[0].set_ylim(bottom=0)
        legend_below(figure, panels[0])
        for i, level in enumerate(found.intervals):
            color = _LINES[i]
            covered = 100 * _over_variables(found.coverage(level))
            panels[1].plot(ahead, covered, color=color, marker=mark, markersize=3)
            panels[1].axhline(level, color=color, linestyle="--", linewidth=0.8)
            levels = " and ".join(f"{each:g}" for each in found.intervals)
            panels[1].set(title=f"Coverage of {levels} % intervals", xlabel="steps ahead")
            panels[1].set_ylim(0, 103)
    return svg(figure, "Errors by horizon")


def _worst(found: Any) -> str:
    """The windows with the largest errors: their time and series."""
    header = ("after", *(() if found.ids is None else ("series",)), "MASE", "MASE of all")
    mean = number(found.error("mase"))
    rows = []
    for place in found.worst(_WORST):
        errors = np.abs(found.forecasts["forecast"] - found.truth)[place] / found.scale[place]
        value = float(np.nanmean(errors)) if np.isfinite(errors).any() else float("nan")
        name = () if found.ids is None else (found.ids[place],)
        rows.append((_time(found.times[place]), *name, number(value), mean))
    return table(header, rows)


def _effects(effects: dict[Any, dict[Any, float]]) -> str:
    targets = list(next(iter(effects.values())))[:_MOST_VARIABLES]
    rows = [(name, *(number(row[each], 3) for each in targets)) for name, row in effects.items()]
    note = (
        '<p class="soft">The effect of each variable on each forecast: the standard deviation of '
        "its contribution to the linear part, in the unit of the target.</p>"
    )
    return note + table(("known", *targets), rows)


def _over_variables(values: np.ndarray) -> np.ndarray:
    there = np.isfinite(values)
    total = np.where(there, values, 0).sum(axis=1)
    return np.where(there.any(axis=1), total / np.maximum(there.sum(axis=1), 1), np.nan)


def _time(value: Any) -> str:
    if np.asarray(value).dtype.kind != "M":
        return str(value)
    return str(np.datetime_as_string(value, unit="m")).replace("T", " ")
