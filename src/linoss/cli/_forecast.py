"""`linoss forecast`: forecasts after the end of a table."""

from pathlib import Path
from typing import Annotated, Any

import typer

from linoss._files import write_text
from linoss.cli._evaluate import RunArgument
from linoss.cli._options import Json
from linoss.cli._output import csv_cell, show_json, show_line
from linoss.cli._predict import Out
from linoss.cli._run_settings import load_run

Levels = Annotated[
    list[float] | None,
    typer.Option(
        help="Prediction interval in percent, such as 80; repeatable.", show_default=False
    ),
]


def forecaster_of(run: Path) -> Any:
    """The forecaster in a directory."""
    estimator = load_run(run)
    if estimator.task != "forecasting":
        raise ValueError(f"{run}: holds a {type(estimator).__name__}; use linoss predict")
    return estimator


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

    estimator = forecaster_of(run)
    table = None if data is None else read_table(data, static=estimator.static)
    context = estimator.context_ if table is None else table
    steps = estimator.horizon if horizon is None else horizon
    ahead = None if future is None else _ahead(future, read_table(future), context, steps)
    frame = estimator.predict(steps, data=table, future=ahead, level=level or None, samples=samples)
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
        print(text, end="")
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
