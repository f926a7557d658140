"""`linoss predict`: predictions of a run for sequences."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from linoss._files import write_text
from linoss.cli._evaluate import Data, Drop, Id, Label, RunArgument
from linoss.cli._options import Json, roles_of
from linoss.cli._output import csv_text, show_json, show_line
from linoss.cli._run_settings import load_run, read_column_names
from linoss.cli._sources import check_there, read_unlabelled_cases

Out = Annotated[
    Path | None, typer.Option(help="CSV file for the predictions.", show_default="stdout")
]


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
    with --every writes a row for each output. A directory must have a test part, which is used. If
    a prediction is not a number, its cells are empty, and the exit code is 3.
    """
    check_there(data)
    estimator = load_run(run)
    if estimator.task == "forecasting":
        raise ValueError(f"{run}: holds a forecaster; use linoss forecast")
    roles = {**read_column_names(run).roles, **roles_of(label, id, drop)}
    cases = read_unlabelled_cases(data, roles)
    header, rows = _table(estimator, cases)
    if out is not None:
        write_text(out, csv_text([header, *rows]))
    if json:
        answers = None if out else [dict(zip(header, row, strict=True)) for row in rows]
        found = {"out": str(out)} if out else {"predictions": answers}
        show_json({"cases": len(cases), **found})
    elif out is None:
        print(csv_text([header, *rows]), end="")
    else:
        show_line(f"{len(rows)} predictions for {len(cases)} cases in {out}")


def _table(estimator: Any, cases: Any) -> tuple[list[str], list[list[Any]]]:
    import numpy as np

    ids = range(len(cases)) if cases.ids is None else cases.ids
    if hasattr(estimator, "classes_"):
        classes = estimator.classes_.tolist()
        header = ["case", "prediction", *(f"probability_{name}" for name in classes)]
        shares = estimator.predict_proba(cases)
        return header, [
            [case, None if np.isnan(row).any() else classes[int(np.argmax(row))], *row.tolist()]
            for case, row in zip(ids, shares, strict=True)
        ]
    outputs, every = estimator.n_outputs_, getattr(estimator, "every", None)
    names = ["prediction"] if outputs == 1 else [f"prediction_{i}" for i in range(outputs)]
    answers = [np.reshape(answer, (-1, outputs)) for answer in estimator.predict(cases)]
    if every is None:
        return ["case", *names], [
            [case, *answer[0].tolist()] for case, answer in zip(ids, answers, strict=True)
        ]
    return ["case", "step", *names], list(_every_answer(ids, answers, every))


def _every_answer(ids: Any, answers: list[Any], every: int) -> Iterator[list[Any]]:
    for case, rows in zip(ids, answers, strict=True):
        for i, row in enumerate(rows, 1):
            yield [case, i * every, *row.tolist()]
