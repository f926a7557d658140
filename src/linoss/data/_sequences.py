"""Sequences of any length with labels and times, in memory or on disk, and padded batches."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from linoss.data._raw_files import DataError, listed, positions

_FAITHFUL = 1e-4  # largest rounding error of float32, relative to a channel's range in a case


def as_values(array: np.ndarray) -> np.ndarray:
    """Values (..., time, channels) in C order, in float32 if that preserves the signal.

    float32 would lose a small signal with a large offset; values then stay in float64. Overflow
    gives infinite values without a warning.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.ascontiguousarray(array, np.float32)
        if array.dtype.itemsize < 4 or array.dtype == np.float32 or np.isinf(values).any():
            return values
        wide = np.ascontiguousarray(array, np.float64)
        change = np.fmax.reduce(np.abs(wide - values), axis=-2)
        extent = np.fmax.reduce(wide, axis=-2) - np.fmin.reduce(wide, axis=-2)
    return wide if (change > _FAITHFUL * extent)[extent > 0].any() else values


def as_case(where: str, array: np.ndarray) -> np.ndarray:
    """Convert (channels, length) to (length, channels), see `as_values`; raise for infinite
    values."""
    values = as_values(array.T)
    infinite = np.isinf(values)
    if infinite.any():
        position, channel = np.argwhere(infinite)[0]
        raise DataError(
            f"{where}: the value of channel {channel} at position {position} is "
            f"{array[channel, position]}, expected a finite number below 3.4e38; remove it, or "
            "write NaN for a missing value"
        )
    return values


class StoredCases(Sequence[np.ndarray]):
    """The cases of a memory-mapped array (cases, channels, time).

    A case is read, converted and checked on access.
    """

    def __init__(self, array: np.ndarray, source: str, indices: Any = None):
        self._array, self._source = array, source
        self._indices = np.arange(len(array)) if indices is None else indices
        self.lengths = np.full(len(self), array.shape[2])
        self.num_channels = array.shape[1]

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.pick(np.arange(len(self))[index])
        case = self._indices[index]
        return as_case(f"{self._source}, case {case}", np.asarray(self._array[case]))

    def pick(self, indices: np.ndarray) -> "StoredCases":
        """Some of the cases, still on disk."""
        return StoredCases(self._array, self._source, self._indices[indices])


@dataclass(frozen=True, eq=False)
class Batch:
    """Sequences as one array, padded at the end.

    ```python
    >>> import numpy as np
    >>> import linoss.data
    >>> short, long = np.ones((1, 3)), np.array([[1.0, np.nan, 3.0, 4.0]])
    >>> batch = linoss.data.sequences([short, long]).batch([0, 1])
    >>> batch.values[:, :, 0].tolist()
    [[1.0, 1.0, 1.0, 0.0], [1.0, 0.0, 3.0, 4.0]]
    >>> batch.observed[:, :, 0].tolist()
    [[True, True, True, False], [True, False, True, True]]

    ```
    """

    values: np.ndarray
    """(batch, time, channels), 0 for missing values and padding; float64 if a case is."""
    lengths: np.ndarray
    """(batch,), int32, the number of samples of each sequence without padding."""
    observed: np.ndarray | None = None
    """(batch, time, channels), False for missing values and padding; None if none are missing."""
    times: np.ndarray | None = None
    """(batch, time), float64; the padding continues with the last time + 1, + 2, ..."""
    labels: np.ndarray | list | None = None
    """As in `Sequences`; a list only if the numbers of outputs of the cases differ."""
    weights: np.ndarray | None = None
    """As in `Sequences`."""


@dataclass(frozen=True, eq=False)
class Sequences:
    """Cases, each a sequence of its own length, with labels, times and names.

    Made by [`linoss.data.sequences`][] and [`linoss.data.read`][], which validate their input.

    ```python
    >>> import numpy as np
    >>> import linoss.data
    >>> cases = linoss.data.sequences([np.zeros((2, 5)), np.zeros((2, 7))], y=["up", "down"])
    >>> len(cases), cases.num_channels, cases.lengths.tolist()
    (2, 2, [5, 7])
    >>> cases.batch([0, 1]).values.shape
    (2, 7, 2)

    ```
    """

    values: Sequence[np.ndarray]
    """For each case (length, channels), NaN where missing; float32, or float64 if float32 would
    lose a signal with a large offset. May be read from disk on access."""
    labels: np.ndarray | list | None = None
    """(cases,) classes or numbers, (cases, outputs), or for each case (steps, outputs)."""
    times: Sequence[np.ndarray] | None = None
    """For each case (length,), float64, increasing."""
    names: tuple[str, ...] | None = None
    """Names of the channels."""
    ids: tuple[str, ...] | None = None
    """Names of the cases."""
    weights: np.ndarray | None = None
    """(cases,), the weight of each case in the loss; None if all are equal."""
    groups: np.ndarray | None = None
    """(cases,), the group of each case, such as a subject; cases of a group are never separated
    into fitted and held-out ones."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What was read as `time`, `label` and `groups`, what was `dropped`, and the number of cases
    that were left out as `unlabelled`."""

    def __post_init__(self) -> None:
        for name in ("labels", "times", "ids", "weights", "groups"):
            several = getattr(self, name)
            if several is not None and len(several) != len(self.values):
                raise DataError(
                    f"{name} has {len(several)} entries, expected {len(self.values)}, one a case"
                )

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int]:
        """(cases,), so that functions of scikit-learn select cases."""
        return (len(self),)

    def __getitem__(self, index: Any) -> "Sequences":
        """Some cases: an index, a slice, several indices, or a boolean for each case."""
        if isinstance(index, tuple) and index[1:] == (...,):  # as scikit-learn asks
            index = index[0]
        if isinstance(index, slice):
            index = np.arange(len(self))[index]
        return self.select(np.atleast_1d(index))

    def __iter__(self) -> Iterator["Sequences"]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        first, *others = self.summary.split("; ")
        lines = ["; ".join(others[:2]), "; ".join(others[2:])]
        return "\n    ".join([f"Sequences: {first}", *filter(None, lines)])

    @property
    def summary(self) -> str:
        """A line on cases, channels, times, labels, groups, and what was left out."""
        about = dict.fromkeys(("time", "label", "groups"), "as given")
        about |= {name: value for name, value in self.about.items() if value}
        shortest, longest = self.lengths.min(), self.lengths.max()
        first = f"{_count(len(self), 'case')} of {_count(self.num_channels, 'channel')}"
        first += f" ({listed(self.names)})" if self.names else ""
        shorter = f"{shortest} to " if shortest < longest else ""
        parts = [f"{first}, {shorter}{_count(longest, 'sample')}"]
        if self.times is not None:
            parts.append(f"time: {about['time']}")
        if self.labels is not None:
            parts.append(f"label: {about['label']}, {_kinds(self.labels)}")
        if self.groups is not None:
            parts.append(f"groups: {about['groups']}, {len(set(self.groups.tolist()))}")
        if dropped := about.get("dropped"):
            parts.append(f"dropped: {listed(dropped)}")
        if unlabelled := about.get("unlabelled"):
            parts.append(f"left out: {_count(unlabelled, 'case')} without a label")
        return "; ".join(parts)

    @property
    def lengths(self) -> np.ndarray:
        """(cases,), the number of samples of each case."""
        return self._lengths

    @cached_property
    def _lengths(self) -> np.ndarray:
        if isinstance(self.values, StoredCases):
            return self.values.lengths
        return np.array([len(case) for case in self.values], int)

    @property
    def num_channels(self) -> int:
        """Number of channels."""
        if isinstance(self.values, StoredCases):
            return self.values.num_channels
        return self.values[0].shape[1]

    def select(self, indices: Any) -> "Sequences":
        """The cases at `indices`: integers, in their order, or a boolean for each case."""
        chosen = self._positions(indices)
        if isinstance(self.values, StoredCases):
            values: Sequence[np.ndarray] = self.values.pick(chosen)
        else:
            values = [self.values[i] for i in chosen]
        return replace(
            self,
            values=values,
            labels=_chosen(self.labels, chosen),
            times=None if self.times is None else [self.times[i] for i in chosen],
            ids=None if self.ids is None else tuple(self.ids[i] for i in chosen),
            weights=_chosen(self.weights, chosen),
            groups=_chosen(self.groups, chosen),
        )

    def ordered(self, names: tuple[str, ...] | None, source: str = "X") -> "Sequences":
        """The channels in the order of these names, which must be those of the cases.

        Without names, here or there, channels are matched by position.

        ```python
        >>> import numpy as np
        >>> from linoss.data import Sequences
        >>> cases = Sequences([np.array([[1.0, 2.0]])], names=("x", "z"))
        >>> cases.ordered(("z", "x")).values[0].tolist()
        [[2.0, 1.0]]

        ```
        """
        if names is None or self.names is None or self.names == names:
            return self
        remedy = "rename channels, or leave a column out with drop=NAME"
        order = positions(f"{source}, channels:", self.names, names, remedy)
        return replace(self, values=[case[:, order] for case in self.values], names=names)

    def batch(self, indices: Any, length: int | None = None) -> Batch:
        """The cases at `indices` as one padded array.

        **Arguments:**

        - `indices`: as for `select`.
        - `length`: the padded length; by default that of the longest of these cases.
        """
        chosen = self._positions(indices)
        lengths = self.lengths[chosen].astype(np.int32)
        longest = int(lengths.max())
        length = longest if length is None else length
        if length < longest:
            raise DataError(f"length is {length}, expected at least {longest}, the longest case")
        cases = [self.values[i] for i in chosen]
        dtype = np.result_type(np.float32, *{case.dtype for case in cases})
        values = np.zeros((len(chosen), length, self.num_channels), dtype)
        observed = np.zeros(values.shape, bool)
        for row, case in enumerate(cases):
            present = ~np.isnan(case)
            observed[row, : len(case)] = present
            np.copyto(values[row, : len(case)], case, where=present)
        complete = np.count_nonzero(observed) == int(lengths.sum()) * self.num_channels
        labels = _chosen(self.labels, chosen)
        if isinstance(labels, list) and len({np.shape(label) for label in labels}) == 1:
            labels = np.stack(labels)
        times = None if self.times is None else [self.times[i] for i in chosen]
        return Batch(
            values,
            lengths,
            None if complete else observed,
            None if times is None else np.stack([_prolonged(t, length) for t in times]),
            labels,
            _chosen(self.weights, chosen),
        )

    def _positions(self, indices: Any) -> np.ndarray:
        chosen = np.asarray(indices)
        if chosen.dtype == bool and chosen.shape == (len(self),):
            chosen = np.flatnonzero(chosen)
        if chosen.ndim != 1 or not len(chosen) or chosen.dtype.kind not in "iu":
            raise DataError(
                f"indices has shape {chosen.shape} and dtype {chosen.dtype}, expected (n,) "
                "integers, at least one"
            )
        outside = (chosen < -len(self)) | (chosen >= len(self))
        if outside.any():
            raise DataError(f"indices has {chosen[outside][0]}, expected below {len(self)}")
        return chosen


def _chosen(labels: Any, chosen: np.ndarray) -> Any:
    if isinstance(labels, list):
        return [labels[i] for i in chosen]
    return None if labels is None else labels[chosen]


def _prolonged(times: np.ndarray, length: int) -> np.ndarray:
    return np.concatenate([times, times[-1] + np.arange(1, length - len(times) + 1)])


def joined(several: Iterable[Sequences], ids: Sequence[str]) -> Sequences:
    """Sequences of one case each, with names, as one."""
    cases = list(several)
    first = cases[0]
    for i, each in enumerate(cases):
        if (each.times is None) != (first.times is None) or (
            each.num_channels != first.num_channels
        ):
            times = "no times" if each.times is None else "times"
            raise DataError(
                f"{ids[i]} has {_count(each.num_channels, 'channel')} and {times}, expected those "
                f"of {ids[0]}"
            )
        cases[i] = each.ordered(first.names, ids[i])
    return replace(
        first,
        values=[each.values[0] for each in cases],
        times=None if first.times is None else [each.times[0] for each in cases if each.times],
        ids=tuple(ids),
    )


def _count(number: Any, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _kinds(labels: np.ndarray | list) -> str:
    """What labels are: the number of classes, or a range."""
    if isinstance(labels, list) or labels.ndim > 1:
        return "several numbers"
    if labels.dtype.kind == "f":
        return f"{labels.min():.6g} to {labels.max():.6g}"
    count = len(set(labels.tolist()))
    return f"{count} class{'es' * (count > 1)}"
