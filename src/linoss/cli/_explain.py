"""`linoss explain`: figures of the evidence for a run's predictions."""

from pathlib import Path
from typing import Annotated, Any

import typer

from linoss._files import make_directory, write_text
from linoss.cli._evaluate import Data, Drop, Id, Label, RunArgument
from linoss.cli._options import Json, roles_of
from linoss.cli._output import json_line, show_json, show_line
from linoss.cli._run_settings import load_run, read_column_names
from linoss.cli._sources import check_there, read_unlabelled_cases

_MOST = 6  # cases by default
_SUMMARY = "evidence.json"


def explain(
    run: RunArgument,
    data: Data,
    out: Annotated[Path, typer.Option(help="Directory for the figures.")],
    case: Annotated[
        list[str] | None,
        typer.Option(help="Name or number of a case; repeatable.", show_default="some"),
    ] = None,
    label: Label = None,
    id: Id = None,
    drop: Drop = None,
    json: Json = False,
) -> None:
    """Show which parts of a sequence support a run's predictions.

    For each case, by default one for each prediction, draws the contribution of each value to the
    output of trained models (integrated gradients), and for untrained oscillators the evidence by
    period and time. Blue supports the prediction, orange opposes it. evidence.json has the sums by
    channel and their error.
    """
    check_there(data)
    estimator = load_run(run)
    if estimator.task == "forecasting":
        raise ValueError(f"{run}: holds a forecaster, expected a classifier or regressor")
    columns = read_column_names(run)
    cases = read_unlabelled_cases(data, {**columns.roles, **roles_of(label, id, drop)})
    chosen = _some(estimator, cases) if case is None else [_find(cases, name) for name in case]
    numbered = [f"channel {i}" for i in range(estimator.n_channels_)]
    names = [str(name) for name in columns.channels or numbered]
    make_directory(out)
    records = [_explain_one(estimator, cases, i, names, out) for i in chosen]
    write_text(out / _SUMMARY, json_line(records))
    if json:
        show_json({"out": str(out), "cases": records})
        return
    for record in records:
        files = " and ".join(record["pictures"])
        show_line(f"Case {record['case']}, prediction {record['answer']}: {files}")
    show_line(f"The figures are in {out}")


def _some(estimator: Any, cases: Any) -> list[int]:
    """The first case of each predicted class; for regression, cases from the lowest to the
    highest."""
    import numpy as np

    answers = np.asarray(estimator.predict(cases))
    if hasattr(estimator, "classes_"):
        return sorted(np.unique(answers, return_index=True)[1].tolist())[:_MOST]
    order = np.argsort(answers.reshape(len(cases), -1)[:, 0], kind="stable")
    places = np.linspace(0, len(order) - 1, min(len(order), _MOST)).astype(int)
    return order[places].tolist()


def _find(cases: Any, name: str) -> int:
    """The index of a case by its name or number."""
    if cases.ids is not None:
        ids = [str(i) for i in cases.ids]
        if name in ids:
            return ids.index(name)
    if name.isdigit() and int(name) < len(cases):
        return int(name)
    raise ValueError(f"--case is {name}, expected the name of a case, or 0 to {len(cases) - 1}")


def _explain_one(estimator: Any, cases: Any, i: int, names: list[str], out: Path) -> dict[str, Any]:
    """Draw one case, and return its record."""
    from linoss.cli import _pictures as pictures
    from linoss.cli._evidence import explained_case

    one = cases.select([i])
    case = str(i if cases.ids is None else cases.ids[i])
    classes = getattr(estimator, "classes_", None)
    record: dict[str, Any] = {"case": case, "answer": estimator.predict(one)[0], "pictures": []}
    for kind, member in estimator.members_.items():
        explained = explained_case(estimator, member, one, f"case {case}")
        found, row = explained.found, min(explained.answer, len(explained.found.evidence) - 1)
        only = len(found.evidence) == 1 and classes is not None  # of the second class
        sign = -1.0 if only and explained.answer == 0 else 1.0
        if kind == "linoss":
            figure = pictures.contributions_plot(explained, names)
            record["unaccounted_for"] = found.error
        else:
            figure = pictures.evidence_of_case(found, sign * found.evidence[row], explained.name)
        file = f"case-{i}-{kind}.png"
        pictures.save(figure, out / file)
        record["pictures"].append(file)
        sums = (sign * found.channels[row]).tolist()
        record[f"channels_{kind}"] = dict(zip(names, sums, strict=True))
    return record
