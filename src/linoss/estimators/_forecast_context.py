"""The end of each series, where forecasts begin: known future values, and files."""

from dataclasses import replace
from typing import Any

import numpy as np

from linoss import _checks
from linoss.data import DataError, Table

_STEPS_OF_A_FREQUENCY = 3


def last_of(data: Table, past: int) -> Table:
    """Keep the last `past` steps of each series, and enough to determine the step."""
    past = max(past, _STEPS_OF_A_FREQUENCY)
    return replace(
        data,
        series=[array[-past:] for array in data.series],
        index=[index[-past:] for index in data.index],
    )


def future_of(context: Table, future: Any, names: list[Any], horizon: int) -> list[np.ndarray]:
    """Variables known in advance, `(horizon, variables)` for each series."""
    if not names:
        if future is not None:
            raise ValueError("future was given, but known_in_advance is empty")
        return [np.zeros((horizon, 0))] * len(context.series)
    if future is None:
        raise ValueError(
            f"future is None, expected the variables known in advance, {names}, for {horizon} steps"
        )
    if isinstance(future, np.ndarray | list | tuple):
        parts = [np.asarray(future, float)] * len(context.series)
    elif context.ids is None:
        parts = [_columns(future, names)]
    else:
        if context.id_name not in future:
            raise DataError(f"future has no column {context.id_name!r}, expected one")
        groups = dict(list(future.groupby(context.id_name, sort=False)))
        missing = [name for name in context.ids if name not in groups]
        if missing:
            raise DataError(f"future has no rows for series {missing[0]!r}")
        parts = [
            _columns(groups[name].sort_values(context.time_name), names) for name in context.ids
        ]
    for part in parts:
        _checks.shape("future", part, (horizon, len(names)))
    return parts


def _columns(frame: Any, names: list[Any]) -> np.ndarray:
    missing = [name for name in names if name not in frame]
    if missing:
        raise DataError(f"future has no column {missing[0]!r}, expected {names}")
    return frame[names].to_numpy(float)


# ---- Files ----


def context_facts(context: Table) -> dict[str, Any]:
    """Everything but arrays, as plain values."""
    return {
        "names": list(context.names),
        "kind": context.kind,
        "ids": None if context.ids is None else list(context.ids),
        "time_name": context.time_name,
        "id_name": context.id_name,
        "in_index": context.in_index,
        "index": np.concatenate(context.index).dtype.str,
        "timezone": None if context.timezone is None else str(context.timezone),
        "static": [[name, *_static(values)] for name, values in context.static.items()],
        "steps": None if context.steps is None else [_plain(step) for step in context.steps],
        "lengths": [len(array) for array in context.series],
    }


def _static(values: tuple[Any, ...]) -> list[Any]:
    """Values with None instead of NaN."""
    return [None if value != value else value for value in values]


def _plain(step: Any) -> int | float | None:
    """A step as a number, in the unit of the index."""
    if step is None or isinstance(step, np.floating):
        return None if step is None else float(step)
    return int(step.astype(np.int64))


def context_arrays(context: Table) -> dict[str, np.ndarray]:
    """All series concatenated, and their index."""
    index = np.concatenate(context.index)
    return {
        "series": np.concatenate(context.series),
        "index": index if index.dtype.kind == "f" else index.astype(np.int64),
    }


def restored_context(facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> Table:
    """The inverse of `context_facts` and `context_arrays`. Raises for inconsistent values."""
    ids, names = facts["ids"], tuple(facts["names"])
    lengths = [int(length) for length in facts["lengths"]]
    rows = sum(lengths)
    count = 1 if ids is None else len(ids)
    values, index = arrays["series"], arrays["index"].astype(facts["index"])
    if min(lengths) < 1 or len(lengths) != count or facts["kind"] not in ("array", "wide", "long"):
        raise ValueError("the ends of the series do not fit their names")
    if (
        values.shape != (rows, len(names))
        or index.shape != (rows,)
        or index.dtype.kind not in "ifM"
    ):
        raise ValueError("the ends of the series do not fit their lengths")
    steps = facts["steps"]
    if steps is not None and (len(steps) != count or any(s is not None and s <= 0 for s in steps)):
        raise ValueError("the steps do not fit the series")
    unit = index.dtype.str.replace("M", "m")
    cuts = np.cumsum(lengths)[:-1]
    return Table(
        series=np.split(values, cuts),
        index=np.split(index, cuts),
        names=names,
        kind=facts["kind"],
        ids=None if ids is None else tuple(ids),
        time_name=facts["time_name"],
        id_name=facts["id_name"],
        in_index=facts["in_index"],
        timezone=facts["timezone"],
        static={
            name: tuple(np.nan if value is None else value for value in values)
            for name, *values in facts["static"]
        },
        steps=None
        if steps is None
        else tuple(None if s is None else np.array(s).astype(unit)[()] for s in steps),
    )
