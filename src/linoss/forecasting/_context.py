"""The end of each series, where forecasts begin: future times and values, and files."""

from dataclasses import replace
from typing import Any

import numpy as np

from linoss import _checks
from linoss.data import DataError, Frequency, Table, lay


def last_of(data: Table, past: int) -> Table:
    """Keep the last `past` steps of each series."""
    return replace(
        data,
        series=[array[-past:] for array in data.series],
        index=[index[-past:] for index in data.index],
    )


def conform(data: Table, fit: Table) -> Table:
    """Lay the series of data on the grids of those of the fit.

    Gaps become missing values. Raises for data of another frequency; irregular data and series that
    the fit did not see stay as they are.
    """
    if data.kind == "array":
        return data
    places = {None: 0} if fit.ids is None else {name: i for i, name in enumerate(fit.ids)}
    index, series, frequencies = list(data.index), list(data.series), list(data.frequencies)
    for i, name in enumerate([None] * len(index) if data.ids is None else data.ids):
        own, place = frequencies[i], places.get(name)
        expected = None if place is None else fit.frequencies[place]
        if expected is None or not expected.is_regular or (own and own.matches(expected)):
            continue
        grid = lay(expected, index[i], series[i])
        if grid is not None:
            (index[i], series[i]), frequencies[i] = grid, expected
        elif own is not None and own.is_regular:
            raise DataError(f"{data.title(i)} has {own}, expected {expected}, as in fit")
    return replace(data, index=index, series=series, frequencies=tuple(frequencies))


def continued(context: Table, given: list[np.ndarray], known: tuple[int, ...], steps: int) -> Table:
    """The series extended by `steps`, with values of known variables only."""
    series = []
    for past, future in zip(context.series, given, strict=True):
        after = np.full((steps, past.shape[1]), np.nan)
        after[: len(future), list(known)] = future
        series.append(np.concatenate([past, after]))
    after = context.continued(steps)
    index = [np.concatenate(pair) for pair in zip(context.index, after, strict=True)]
    return replace(context, series=series, index=index)


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


def table_facts(data: Table) -> dict[str, Any]:
    """Everything but values and times, as plain values."""
    index = np.concatenate(data.index)
    return {
        "names": list(data.names),
        "kind": data.kind,
        "ids": None if data.ids is None else list(data.ids),
        "time_name": data.time_name,
        "id_name": data.id_name,
        "in_index": data.in_index,
        "timezone": None if data.timezone is None else str(data.timezone),
        "frequencies": [
            each and [each.unit, _plain(each.step), each.pattern, each.zone]
            for each in data.frequencies
        ],
        "index": index.dtype.str,
        "lengths": [len(array) for array in data.series],
    }


def _plain(step: Any) -> int | float:
    """A step as a number, in the unit of the index."""
    return float(step) if isinstance(step, np.floating) else int(np.int64(step))


def _frequency(facts: Any, dtype: np.dtype) -> Frequency | None:
    """A frequency of an index with a dtype."""
    if facts is None:
        return None
    unit, step, pattern, zone = facts
    if unit not in ("fixed", "days", "months", "irregular") or not step > 0:
        raise ValueError(f"a frequency is {facts}, which is not one")
    if unit in ("fixed", "irregular"):
        step = np.array(step).astype(dtype.str.replace("M", "m"))[()]
    return Frequency(unit, step, str(pattern), None if zone is None else str(zone))


def restored_table(facts: dict[str, Any], values: np.ndarray, index: np.ndarray) -> Table:
    """The inverse of `table_facts`. Raises for inconsistent values."""
    ids, names = facts["ids"], tuple(facts["names"])
    lengths = [int(length) for length in facts["lengths"]]
    count, index = 1 if ids is None else len(ids), index.astype(facts["index"])
    _checks.shape("series", values, (sum(lengths), len(names)))
    _checks.shape("index", index, (sum(lengths),))
    if (
        min(lengths) < 1
        or len(lengths) != count
        or len(facts["frequencies"]) != count
        or facts["kind"] not in ("array", "wide", "long")
        or index.dtype.kind not in "ifM"
    ):
        raise ValueError("the ends of the series do not fit their names")
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
        frequencies=tuple(_frequency(each, index.dtype) for each in facts["frequencies"]),
    )
