"""`linoss predict`, `evaluate` and `stream`: predictions of a run, and their score."""

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from linoss._files import write_text
from linoss.cli._options import Drop, Id, Json, Label
from linoss.cli._output import csv_text, json_line, show_json, show_line
from linoss.cli._runs import (
    Data,
    Out,
    RunArgument,
    check_there,
    given_roles,
    load_fitted,
    load_run,
    read_roles,
    read_test_cases,
    read_test_table,
)

if TYPE_CHECKING:
    from linoss.data import Sequences
    from linoss.fitted import Fitted, Outputs


def predict(
    run: RunArgument,
    data: Data,
    out: Out = None,
    label: Label = None,
    id: Id = None,
    drop: Drop = None,
    json: Json = False,
) -> None:
    """Predict for each sequence of data.

    Writes the name of the case, the prediction and, for classes, their probabilities; a regressor
    with every writes a row for each output. A directory must have a test part, which is used. If
    a prediction is not a number, its cells are empty, and the exit code is 3.
    """
    check_there(data)
    fitted = load_fitted(run, instead="use linoss forecast")
    roles = {**read_roles(run), **given_roles(label, id, drop)}
    cases = read_test_cases(data, {**roles, "may_lack": True})
    header, rows = _table(fitted, cases)
    if out is not None:
        write_text(out, csv_text([header, *rows]))
    if json:
        predictions = [dict(zip(header, row, strict=True)) for row in rows]
        show_json(
            {"cases": len(cases), **({"out": str(out)} if out else {"predictions": predictions})}
        )
    elif out is None:
        sys.stdout.write(csv_text([header, *rows]))
    else:
        show_line(f"{len(rows)} predictions for {len(cases)} cases in {out}")


def evaluate(
    run: RunArgument,
    data: Data,
    label: Label = None,
    id: Id = None,
    drop: Drop = None,
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

    Prints accuracy and recall of each class; or mean absolute error, R² and RMSE; or the errors of
    forecasts, as linoss backtest does. A directory must have a test part, which is used.
    """
    check_there(data)
    loaded = load_run(run)
    from linoss.cli._scores import evaluate_run, show_score

    if loaded.is_forecaster:
        cases = read_test_table(data, loaded.model.static)
    else:
        roles = {**read_roles(run), **given_roles(label, id, drop)}
        cases = read_test_cases(data, roles)
    evaluation = evaluate_run(loaded, None, cases)
    score = evaluation.score
    assert score is not None
    if report is not None:
        from linoss.cli._report import About, write_report

        write_report(report, loaded, evaluation, About(data, cases), with_model=False)
    if json:
        show_json(score.record() | ({} if report is None else {"report": str(report)}))
        return
    show_score(score)
    if report is not None:
        show_line(f"See {report}")


def stream(
    run: RunArgument,
    json: Annotated[
        bool, typer.Option("--json", help="Write JSON lines, also for CSV input.")
    ] = False,
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
    loaded = load_run(run)
    model: Any = loaded.model
    if loaded.is_forecaster:
        lines: Any = _ForecastLines(model)
        names, channels, timed = model.names, model.n_channels, model.needs_times
    else:
        lines = _PredictionLines(model.outputs)
        names, channels = model.channels, model.n_channels
        timed = model.needs_times
    source: Any = sys.stdin.buffer
    samples = SampleReader(source, channels, names, needs_times=timed)
    predictor = model.stream()
    is_first = True
    for values, times in samples:
        as_json = json or samples.is_json
        if is_first and samples.has_header and not as_json:
            sys.stdout.write(csv_text([lines.header]))
        is_first = False
        predictions = predictor.many(values, times)
        line_of = lines.json if as_json else lines.csv
        sys.stdout.write("".join(map(line_of, predictions)))
        sys.stdout.flush()


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
    if outputs.every is None:
        rows = [[case, *_cells(outputs, each)] for case, each in zip(ids, predictions, strict=True)]
        return ["case", *_header(outputs)], rows
    rows = [
        [case, i * outputs.every, *_cells(outputs, each)]
        for case, several in zip(ids, predictions, strict=True)
        for i, each in enumerate(several.reshape(len(several), -1), 1)
    ]
    return ["case", "step", *_header(outputs)], rows


class _PredictionLines:
    """Formats predictions as lines."""

    def __init__(self, outputs: "Outputs"):
        self._outputs = outputs
        self.header = _header(outputs)

    def csv(self, prediction: Any) -> str:
        return _csv_line(_cells(self._outputs, prediction))

    def json(self, prediction: Any) -> str:
        cells = _cells(self._outputs, prediction)
        if self._outputs.classes is None:
            return json_line({"prediction": cells[0] if len(cells) == 1 else cells})
        shares = dict(zip(self._outputs.classes.tolist(), cells[1:], strict=True))
        return json_line({"prediction": cells[0], "probabilities": shares})


class _ForecastLines:
    """Formats forecasts `(horizon, variables)` as lines."""

    def __init__(self, forecaster: Any):
        self._names = [str(name) for name in forecaster.names]
        steps = range(1, forecaster.horizon + 1)
        self.header = [f"{name}+{step}" for step in steps for name in self._names]

    def csv(self, forecast: Any) -> str:
        return _csv_line(forecast.ravel().tolist())

    def json(self, forecast: Any) -> str:
        return json_line({"forecast": dict(zip(self._names, forecast.T, strict=True))})


def _csv_line(cells: list[Any]) -> str:
    """A line of CSV, with 9 digits; numbers that are not finite are empty."""
    for i, cell in enumerate(cells):
        if isinstance(cell, float):
            cells[i] = f"{cell:.9g}" if math.isfinite(cell) else None
    return csv_text([cells])
