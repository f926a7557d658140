"""`linoss forecast` and `backtest`: forecasts after the end of a table, and from past origins."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from linoss._files import write_text
from linoss.cli._options import Json
from linoss.cli._output import csv_cell, show_json, show_line
from linoss.cli._runs import (
    Data,
    Levels,
    Out,
    RunArgument,
    check_there,
    load_forecaster,
    read_test_table,
)


def forecast(
    run: RunArgument,
    horizon: Annotated[
        int | None, typer.Option(min=1, help="Steps ahead.", show_default="that of the run")
    ] = None,
    out: Out = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Table to continue.", show_default="that of the training"),
    ] = None,
    future: Annotated[
        Path | None,
        typer.Option(
            help="Table with future values of the variables known in advance (--known of fit)."
        ),
    ] = None,
    level: Levels = None,
    samples: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of sample paths instead of a forecast.", show_default=False
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Forecast the next steps, as a table like the data with its times continued.

    With --level 80 there are additional columns NAME-lo-80 and NAME-hi-80.
    """
    from linoss.data import read_table

    forecaster = load_forecaster(run).model
    table = None if data is None else read_table(data, static=forecaster.static)
    context = forecaster.context if table is None else table
    steps = forecaster.horizon if horizon is None else horizon
    known = None if future is None else _ahead(future, read_table(future), context, steps)
    frame = forecaster.predict(
        steps, data=table, future=known, level=level or None, samples=samples
    )
    if context.in_index:
        frame = frame.rename_axis(context.time_name or "step").reset_index()
    shown = frame.rename(columns=csv_cell)
    if context.ids is not None:
        shown[csv_cell(context.id_name)] = frame[context.id_name].map(csv_cell)
    text = shown.to_csv(index=False, lineterminator="\n")
    if out is not None:
        write_text(out, text)
    if json:
        rows = frame.to_dict("list")
        show_json({"horizon": steps, **({"forecast": rows} if out is None else {"out": str(out)})})
    elif out is None:
        sys.stdout.write(text)
    else:
        show_line(f"{steps} steps in {out}")


def _ahead(path: Path, future: Any, context: Any, steps: int) -> Any:
    """The rows of a table for the forecast horizon, by times and series."""
    import numpy as np
    import pandas

    from linoss.data import DataError

    if (future.ids is None) != (context.ids is None):
        missing = "a column of series, as the data" if future.ids is None else "one series"
        raise DataError(f"{path}: expected {missing}")
    timed = future.time_name is not None and context.time_name is not None
    frames = []
    for i, times in enumerate(context.continued(steps)):
        name = None if context.ids is None else context.ids[i]
        if name is not None and name not in future.ids:
            raise DataError(f"{path}: has no rows for series {name!r}")
        place = 0 if name is None else future.ids.index(name)
        values, index = future.series[place], future.index[place]
        if timed:
            if index.dtype.kind != times.dtype.kind:
                raise DataError(f"{path}: has the time {index[0]}, expected such as {times[0]}")
            index = index.astype(times.dtype)
            absent = times[~np.isin(times, index)]
            if len(absent):
                raise DataError(f"{path}: has no row for {absent[0]}, expected {steps} steps ahead")
            values = values[np.searchsorted(index, times)]
        frame = pandas.DataFrame(values, columns=pandas.Index(future.names))
        if name is not None:
            frame[context.id_name], frame[context.time_name] = name, times
        frames.append(frame)
    return pandas.concat(frames, ignore_index=True)


def backtest(
    run: RunArgument,
    data: Data,
    windows: Annotated[
        int, typer.Option(min=1, help="Number of forecast origins in each series.")
    ] = 20,
    stride: Annotated[
        int | None,
        typer.Option(min=1, help="Steps between origins.", show_default="the horizon"),
    ] = None,
    refit: Annotated[
        bool, typer.Option("--refit", help="Refit before each origin, on the data up to it.")
    ] = False,
    level: Levels = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Forecast from past origins, and compare with the observed values.

    Prints the errors of each variable in its unit, those of naive, seasonal naive and drift
    forecasts and of trend and seasons alone on the same windows, and the coverage of prediction
    intervals. --out gets them for each forecast step. Without --refit, use data that the run was
    not fitted to.
    """
    check_there(data)
    loaded = load_forecaster(run)
    from linoss.cli._scores import ForecastScore, show_score
    from linoss.forecasting import LinOSSForecaster

    forecaster = loaded.model
    table = read_test_table(data, forecaster.static)

    def again(part: Any) -> Any:
        return LinOSSForecaster(**{**loaded.parameters, "verbose": 0}).fit(part).fitted_

    options = {"windows": windows, "stride": stride, "level": level or None}
    result = forecaster.backtest(table, **options, refit=again if refit else None)
    score = ForecastScore(result)
    if out is not None:
        frame = result.frame("step")
        frame["variable"] = frame["variable"].map(csv_cell)
        write_text(out, frame.to_csv(index=False, lineterminator="\n"))
    if json:
        show_json(score.record())
        return
    show_score(score)
    if out is not None:
        show_line(f"Errors of each forecast step are in {out}")
