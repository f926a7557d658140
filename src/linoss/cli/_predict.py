"""`linoss predict`, `evaluate`, `forecast`, `backtest` and `stream`: predictions of a run."""

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from linoss._files import write_text
from linoss.cli._options import Json, with_columns
from linoss.cli._output import csv_cell, csv_text, json_line, show_json, show_line
from linoss.cli._runs import Data, Out, RunArgument, load_run, read_cases

if TYPE_CHECKING:
    from linoss.data import Sequences
    from linoss.fitted import Fitted, Outputs

Levels = Annotated[
    list[float] | None,
    Option(help="Prediction interval in percent, such as 80; repeatable.", show_default=False),
]


@with_columns
def predict(
    run: RunArgument,
    data: Data,
    out: Out = None,
    json: Json = False,
    *,
    roles: dict[str, Any],
) -> None:
    """Predict for each sequence of data.

    Writes the name of the case, the prediction and, for classes, their probabilities; a regressor
    with every writes a row for each output. A directory must have a test part, which is used. If
    a prediction is not a number, its cells are empty, and the exit code is 3.
    """
    estimator, cases = read_cases(run, data, roles, may_lack=True)
    header, rows = _table(estimator.fitted_, cases)
    record = {"cases": len(cases), "predictions": [dict(zip(header, r, strict=True)) for r in rows]}
    line = f"{len(rows)} predictions for {len(cases)} cases in {out}"
    _write(csv_text([header, *rows]), out, record if json else None, line)


def _write(text: str, out: Path | None, record: dict[str, Any] | None, line: str) -> None:
    """Write a table to a file or stdout; if there is a record, print it instead of the table."""
    if out is not None:
        write_text(out, text)
    if record is not None:
        shown = record if out is None else {next(iter(record)): next(iter(record.values()))}
        show_json(shown | ({} if out is None else {"out": str(out)}))
    elif out is None:
        sys.stdout.write(text)
    else:
        show_line(line)


def _header(outputs: "Outputs") -> list[str]:
    """The columns of a prediction."""
    if outputs.classes is not None:
        return ["prediction", *(f"probability_{name}" for name in outputs.classes.tolist())]
    numbered = [f"prediction_{i}" for i in range(outputs.size)]
    return ["prediction"] if outputs.size == 1 else numbered


def _cells(outputs: "Outputs", prediction: Any) -> list[Any]:
    """The cells of a prediction. A prediction that is not a number has no class."""
    row = prediction.tolist()
    if outputs.classes is None:
        return row
    is_number = all(map(math.isfinite, row))
    return [outputs.classes.tolist()[row.index(max(row))] if is_number else None, *row]


def _table(fitted: "Fitted", cases: "Sequences") -> tuple[list[str], list[list[Any]]]:
    """Header and rows of the predictions for cases."""
    outputs, predictions = fitted.outputs, fitted.predict(cases)
    ids = range(len(cases)) if cases.ids is None else cases.ids
    named = list(zip(ids, predictions, strict=True))
    if outputs.every is None:
        rows = [[case, *_cells(outputs, each)] for case, each in named]
        return ["case", *_header(outputs)], rows
    rows = [
        [case, i * outputs.every, *_cells(outputs, each)]
        for case, several in named
        for i, each in enumerate(several.reshape(len(several), -1), 1)
    ]
    return ["case", "step", *_header(outputs)], rows


@with_columns
def evaluate(
    run: RunArgument,
    data: Data,
    report: Annotated[
        Path | None,
        Option(
            help="Write a page: confusion matrix, recall and the worst errors, or forecasts, "
            "their errors and the coverage of intervals."
        ),
    ] = None,
    json: Json = False,
    *,
    roles: dict[str, Any],
) -> None:
    """Score the predictions of a run on labelled data.

    Prints accuracy and recall of each class; or mean absolute error, R² and RMSE; or the errors of
    forecasts, as linoss backtest does. A directory must have a test part, which is used.
    """
    estimator, cases = read_cases(run, data, roles, forecasts=None)
    from linoss.cli._scores import score_of

    score = score_of(estimator.fitted_, None, cases)
    if report is not None:
        from linoss.cli._report import write_report

        write_report(report, estimator, score, cases, data=data, with_model=False)
    if json:
        show_json(score.record() | ({} if report is None else {"report": str(report)}))
        return
    score.show()
    if report is not None:
        show_line(f"See {report}")


# ---- Forecasts ----


def forecast(
    run: RunArgument,
    horizon: Annotated[
        int | None, Option(min=1, help="Steps ahead.", show_default="that of the run")
    ] = None,
    out: Out = None,
    data: Annotated[
        Path | None,
        Option(help="Table to continue.", show_default="that of the training"),
    ] = None,
    future: Annotated[
        Path | None,
        Option(help="Table with future values of the variables known in advance."),
    ] = None,
    level: Levels = None,
    samples: Annotated[
        int | None,
        Option(min=1, help="Number of sample paths instead of a forecast.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Forecast the next steps, as a table like the data with its times continued.

    With --level 80 there are additional columns NAME-lo-80 and NAME-hi-80.
    """
    from linoss.data import read_table

    forecaster = load_run(run, forecasts=True).fitted_
    table = None if data is None else read_table(data)
    context = forecaster.context if table is None else table
    steps = forecaster.horizon if horizon is None else horizon
    known = None if future is None else _ahead(future, read_table(future), context, steps)
    options = {"level": level or None, "samples": samples}
    frame = forecaster.predict(steps, data=table, future=known, **options)
    if context.in_index:
        frame = frame.rename_axis(context.time_name or "step").reset_index()
    shown = frame.rename(columns=csv_cell)
    if context.ids is not None:
        shown[csv_cell(context.id_name)] = frame[context.id_name].map(csv_cell)
    record = {"horizon": steps, "forecast": frame.to_dict("list")} if json else None
    text = shown.to_csv(index=False, lineterminator="\n")
    _write(text, out, record, f"{steps} steps in {out}")


def _ahead(path: Path, future: Any, context: Any, steps: int) -> Any:
    """The rows of a table for the forecast horizon, by times and series."""
    import pandas

    from linoss.data import DataError

    if future.ids is not None and context.ids is None:
        raise DataError(f"{path}: has several series, expected one")
    frames = []
    for i, times in enumerate(context.continued(steps)):
        name = None if context.ids is None else context.ids[i]
        if name is not None and name not in (future.ids or ()):
            raise DataError(f"{path}: has no rows for series {name!r}")
        place = (future.ids or (None,)).index(name)
        frame = pandas.DataFrame(future.series[place], future.index[place], list(future.names))
        if future.time_name is not None and context.time_name is not None:
            absent = times[~pandas.Index(times).isin(frame.index)]
            if len(absent):
                raise DataError(f"{path}: has no row for {absent[0]}, expected {steps} steps ahead")
            frame = frame.loc[times]
        frames.append(
            frame
            if name is None
            else frame.assign(**{context.id_name: name, context.time_name: times})
        )
    return pandas.concat(frames, ignore_index=True)


def backtest(
    run: RunArgument,
    data: Data,
    windows: Annotated[int, Option(min=1, help="Number of forecast origins in each series.")] = 20,
    stride: Annotated[
        int | None,
        Option(min=1, help="Steps between origins.", show_default="the horizon"),
    ] = None,
    refit: Annotated[
        bool, Option("--refit", help="Refit before each origin, on the data up to it.")
    ] = False,
    level: Levels = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Forecast from past origins, and compare with the observed values.

    Prints the errors of each variable in its unit, those of naive, seasonal naive and drift
    forecasts on the same windows, and the coverage of prediction intervals. --out gets them for
    each forecast step. Without --refit, use data that the run was not fitted to.
    """
    forecaster, table = read_cases(run, data, {}, forecasts=True)
    from linoss.cli._scores import forecast_score

    def again(part: Any) -> Any:
        return type(forecaster)(**{**forecaster.get_params(), "verbose": 0}).fit(part).fitted_

    options = {"windows": windows, "stride": stride, "level": level or None}
    result = forecaster.fitted_.backtest(table, **options, refit=again if refit else None)
    score = forecast_score("test", table, result)
    if out is not None:
        frame = result.frame("step")
        frame["variable"] = frame["variable"].map(csv_cell)
        write_text(out, frame.to_csv(index=False, lineterminator="\n"))
    if json:
        show_json(score.record())
        return
    score.show()
    if out is not None:
        show_line(f"Errors of each forecast step are in {out}")


# ---- Streams ----


def stream(
    run: RunArgument,
    json: Annotated[bool, Option("--json", help="Write JSON lines, also for CSV input.")] = False,
) -> None:
    """Predict after each sample of a stream, in constant memory.

    Reads one sample per line from stdin: comma-separated numbers, or a JSON array or object. A
    header, or the keys of the objects, may name the channels. Empty, NaN, NA, ? and null are
    missing values. If the training had irregular times, each sample begins with a time, or has a
    column time. Writes one line per sample, in the format of the samples: the result of linoss
    predict for the sequence so far. If a sample is too large, cells are empty, oscillators that
    overflowed are reset with a message on stderr, and the exit code is 3.
    """
    from linoss.cli._samples import SampleReader

    if sys.stdin is None:
        raise ValueError("stdin is closed, expected samples in it")
    model = load_run(run).fitted_
    names = model.names if model.task == "forecasting" else model.channels
    source: Any = sys.stdin.buffer
    samples = SampleReader(source, model.n_channels, names, needs_times=model.needs_times)
    header, cells, record = _formats(model)
    predictor, is_first = model.stream(), True
    for values, times in samples:
        as_json = json or samples.is_json
        if is_first and samples.has_header and not as_json:
            sys.stdout.write(csv_text([header]))
        is_first = False
        predictions = predictor.many(values, times)
        lines = (json_line(record(p)) if as_json else _csv_line(cells(p)) for p in predictions)
        sys.stdout.write("".join(lines))
        sys.stdout.flush()


def _formats(model: Any) -> tuple[list[str], Callable[[Any], list[Any]], Callable[[Any], Any]]:
    """The header, and functions of a prediction: its cells, and its record for JSON."""
    if model.task == "forecasting":
        names = [str(name) for name in model.names]
        header = [f"{n}+{step}" for step in range(1, model.horizon + 1) for n in names]
        return (
            header,
            lambda forecast: forecast.ravel().tolist(),
            lambda forecast: {"forecast": dict(zip(names, forecast.T, strict=True))},
        )
    outputs = model.outputs

    def cells(prediction: Any) -> list[Any]:
        return _cells(outputs, prediction)

    def record(prediction: Any) -> dict[str, Any]:
        first, *shares = cells(prediction)
        if outputs.classes is None:
            return {"prediction": [first, *shares] if shares else first}
        shares = dict(zip(outputs.classes.tolist(), shares, strict=True))
        return {"prediction": first, "probabilities": shares}

    return _header(outputs), cells, record


def _csv_line(cells: list[Any]) -> str:
    """A line of CSV, with 9 digits; numbers that are not finite are empty."""
    for i, cell in enumerate(cells):
        if isinstance(cell, float):
            cells[i] = f"{cell:.9g}" if math.isfinite(cell) else None
    return csv_text([cells])
