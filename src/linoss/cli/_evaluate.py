"""`linoss evaluate`: the score of a run on labelled data."""

from pathlib import Path
from typing import Annotated

import typer

from linoss.cli._options import Json, roles_of
from linoss.cli._output import show_json, show_line
from linoss.cli._run_settings import load_run, read_column_names
from linoss.cli._sources import check_there, read_test_cases, read_test_table

RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="Directory of a run, written by linoss fit.")
]
Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="A file, or a directory with a test part.")
]
Label = Annotated[
    str | None,
    typer.Option(help="Label column of a table.", show_default="as for fit"),
]
Id = Annotated[
    str | None, typer.Option(help="Column with the names of cases.", show_default="as for fit")
]
Drop = Annotated[
    list[str] | None,
    typer.Option(help="Column to ignore; repeatable.", show_default="as for fit"),
]


def evaluate(
    run: RunArgument,
    data: Data,
    label: Label = None,
    id: Id = None,
    drop: Drop = None,
    stride: Annotated[int, typer.Option(min=1, help="Forecasting: steps between windows.")] = 1,
    scaled: Annotated[
        bool,
        typer.Option(
            help="Forecasting: errors in standard deviations of each variable in training."
        ),
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Write a page: confusion matrix, recall and the worst errors, or forecasts, "
            "their errors and the coverage of intervals."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Score the predictions of a run on labelled data.

    Prints accuracy and recall of each class; or mean absolute error, R² and RMSE; or the mean
    absolute error of forecasts of each variable, in its unit and in standard deviations. A
    directory must have a test part, which is used.
    """
    check_there(data)
    estimator = load_run(run)
    from linoss.cli._forecast_scores import Forecast, score_table, with_backtest
    from linoss.cli._scores import Score, score_cases

    score: Score
    forecasts: list[Forecast] = []
    if estimator.task == "forecasting":
        table = read_test_table(data, estimator.static)
        score, cases = score_table(estimator, table, stride=stride, scaled=scaled), table
        if report is not None:
            score, forecasts = with_backtest(estimator, table, score)
    else:
        roles = {**read_column_names(run).roles, **roles_of(label, id, drop)}
        cases = read_test_cases(data, roles)
        score = score_cases(estimator, cases)
    if report is not None:
        from linoss.cli._data_report import About
        from linoss.cli._report import write_evaluation

        about = About(data, cases, score, answered=cases)
        write_evaluation(report, estimator, about, forecasts)
    if json:
        show_json(score.record() | ({} if report is None else {"report": str(report)}))
        return
    score.show()
    if report is not None:
        show_line(f"See {report}")
