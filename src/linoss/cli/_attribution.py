"""`linoss explain`: attribution of predictions to parts of their sequences."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from linoss._files import make_directory, write_text
from linoss.cli._options import Drop, Id, Json, Label
from linoss.cli._output import json_line, show_json, show_line
from linoss.cli._runs import (
    Data,
    RunArgument,
    check_there,
    given_roles,
    load_fitted,
    read_roles,
    read_test_cases,
)

if TYPE_CHECKING:
    import numpy as np

    from linoss.data import Sequences
    from linoss.fitted import Fitted

_MOST = 6  # cases by default
_SUMMARY = "attribution.json"
_EXPLAINED, _LONGEST = 3, 10_000  # in a report: most cases, and most samples of a case


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

    For each case, by default one for each prediction, draws the attribution of the output of
    trained models to each value (integrated gradients), and that of untrained oscillators to
    periods and times. Blue supports the prediction, orange opposes it. attribution.json has the
    sums by channel and their error.
    """
    check_there(data)
    fitted = load_fitted(run)
    roles = {**read_roles(run), **given_roles(label, id, drop)}
    cases = read_test_cases(data, {**roles, "may_lack": True})
    chosen = _some(fitted, cases) if case is None else [_index_of(cases, name) for name in case]
    make_directory(out)
    records = [_explain_one(fitted, cases, i, out) for i in chosen]
    write_text(out / _SUMMARY, json_line(records))
    if json:
        show_json({"out": str(out), "cases": records})
        return
    for record in records:
        files = " and ".join(record["figures"])
        show_line(f"Case {record['case']}, prediction {record['prediction']}: {files}")
    show_line(f"The figures are in {out}")


def _some(fitted: "Fitted", cases: "Sequences") -> list[int]:
    """The first case of each predicted class; for regression, cases from the lowest to the
    highest."""
    import numpy as np

    predictions = np.asarray(fitted.outputs.decode(fitted.predict(cases)))
    if fitted.classes is not None:
        return sorted(np.unique(predictions, return_index=True)[1].tolist())[:_MOST]
    order = np.argsort(predictions.reshape(len(cases), -1)[:, 0], kind="stable")
    places = np.linspace(0, len(order) - 1, min(len(order), _MOST)).astype(int)
    return order[places].tolist()


def _index_of(cases: "Sequences", name: str) -> int:
    """The index of a case by its name or number."""
    ids = [] if cases.ids is None else [str(i) for i in cases.ids]
    if name in ids:
        return ids.index(name)
    if name.isdigit() and int(name) < len(cases):
        return int(name)
    raise ValueError(f"--case is {name}, expected the name of a case, or 0 to {len(cases) - 1}")


def channel_names(fitted: "Fitted") -> list[str]:
    """The names of the channels, or their numbers."""
    if fitted.channels is None:
        return [f"channel {i}" for i in range(fitted.n_channels)]
    return [str(name) for name in fitted.channels]


def _explain_one(fitted: "Fitted", cases: "Sequences", i: int, out: Path) -> dict[str, Any]:
    """Draw one case, and return its record."""
    from linoss.cli import _figures as figures

    names = channel_names(fitted)
    one, case = cases.select([i]), str(i if cases.ids is None else cases.ids[i])
    prediction = fitted.outputs.decode(fitted.predict(one))[0]
    record: dict[str, Any] = {"case": case, "prediction": prediction, "figures": []}
    for member in fitted.members:
        explained = explained_case(fitted, member, one, f"case {case}")
        file = f"case-{i}-{member}.png"
        figures.save(figures.attribution(explained, names), out / file)
        record["figures"].append(file)
        record[f"channels_{member}"] = dict(zip(names, explained.channels.tolist(), strict=True))
        record |= {"error": explained.error} if member == "linoss" else {}
    return record


@dataclass(frozen=True, eq=False)
class ExplainedCase:
    """The attribution of the prediction for a case."""

    name: str
    values: "np.ndarray"
    """(periods, times) for oscillators, (channels, samples) for trained models."""
    channels: "np.ndarray"
    """(channels,): the sum for each channel."""
    times: "np.ndarray"
    periods: "np.ndarray | None" = None
    """Bin edges of the periods, for oscillators."""
    samples: "np.ndarray | None" = None
    """(channels, samples): the sequence."""
    error: float = 0.0


def explained_case(fitted: "Fitted", member: str, case: "Sequences", name: str) -> ExplainedCase:
    """The attribution of the prediction by a member."""
    import numpy as np

    case = fitted.aligned(case)
    classes, prediction = fitted.classes, np.ravel(fitted.predict(case)[0])
    output = 0 if classes is None else int(np.argmax(prediction))
    name = f"{name}: {f'{prediction[0]:.4g}' if classes is None else classes[output]}"
    whole = fitted.explain(case, member=member)
    is_single = classes is not None and len(whole.values) == 1  # that of the second class
    sign, row = (-1.0 if output == 0 else 1.0, 0) if is_single else (1.0, output)
    values, channels = sign * whole.values[row], sign * whole.channels[row]
    samples = np.asarray(case.values[0], float).T
    return ExplainedCase(name, values, channels, whole.times, whole.periods, samples, whole.error)


def explained_cases(fitted: "Fitted", cases: "Sequences") -> list[ExplainedCase]:
    """The first case of some labels, by each member; none if there are many outputs."""
    import numpy as np

    if fitted.outputs.every is not None:
        return []
    labels = np.asarray(cases.labels).reshape(len(cases), -1)[:, 0]
    first = np.sort(np.unique(labels, return_index=True)[1]).tolist()
    short = [i for i in first if cases.lengths[i] <= _LONGEST][:_EXPLAINED]
    return [
        explained_case(fitted, member, cases.select([i]), f"training case {i}")
        for member in fitted.members
        for i in short
    ]
