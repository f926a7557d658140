"""`linoss backtest`: errors of forecasts from past origins."""

from typing import Annotated

import typer

from linoss._files import write_text
from linoss.cli._evaluate import Data, RunArgument
from linoss.cli._forecast import Levels, forecaster_of
from linoss.cli._options import Json
from linoss.cli._output import csv_cell, show_json, show_line
from linoss.cli._predict import Out
from linoss.cli._sources import check_there, read_test_table


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
    estimator = forecaster_of(run)
    from linoss.cli._forecast_scores import show_backtest

    table = read_test_table(data, estimator.static)
    found = estimator.backtest(
        table, windows=windows, stride=stride, refit=refit, level=level or None
    )
    if out is not None:
        frame = found.frame("step")
        frame["variable"] = frame["variable"].map(csv_cell)
        write_text(out, frame.to_csv(index=False, lineterminator="\n"))
    if json:
        units = {"mae": "variable", "rmse": "variable", "pinball": "variable", "mase": "none"}
        show_json({"windows": len(found.truth), "units": units, "errors": found.rows()})
        return
    show_backtest(found)
    if out is not None:
        show_line(f"Errors of each forecast step are in {out}")
