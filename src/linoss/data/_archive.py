"""The files of the UEA and UCR archives, .ts and .arff, read line by line: errors name the line."""

from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from linoss.data._arrays import as_labels
from linoss.data._raw_files import DataError, listed, shown, text_lines
from linoss.data._sequences import Sequences, as_case

_FLAGS = ("timestamps", "missing", "univariate", "equallength", "targetlabel", "classlabel")


def read_ts(path: Path) -> Sequences:
    """Read the cases of a .ts file."""
    numbered = _numbered(path)
    return _cases(path, numbered, *_header(numbered))


def read_arff(path: Path) -> Sequences:
    """Read the cases of an .arff file, each a line that is that of a .ts file otherwise written."""
    numbered, label = _numbered(path), ""
    for where, line in numbered:
        tag, *words = line.lower().split(None, 2) or "%"
        if tag[0] not in "@%":
            raise DataError(f"{where}: found {shown(line.strip())}, expected a header until @data")
        if tag == "@data":
            break
        if tag == "@attribute":
            label = line.split(None, 2)[2].strip() if words[1:] else ""
    names = label.strip("{}").split(",") if label.startswith("{") else []
    classes = {name.strip(" '\"").lower(): name.strip(" '\"") for name in names}
    rows = ((where, _as_ts(line.strip())) for where, line in numbered if line.strip())
    return _cases(path, rows, {"targetlabel": not classes}, classes)


def _as_ts(line: str) -> str:
    """The line of an .arff file, `'1,2\\n3,4',a` or `1,2,a`, as that of a .ts file, `1,2:3,4:a`."""
    values, _, label = line.rpartition("'," if line.startswith("'") else ",")
    label = label.strip(" '\"")
    return values.lstrip("'").replace("\\n", ":") + f":{label}"


def _numbered(path: Path) -> Iterator[tuple[str, str]]:
    lines = text_lines(path, (b"#", b"%"))
    return ((f"{path}, line {number}", line) for number, line in enumerate(lines, start=1))


def _cases(
    path: Path, numbered: Iterator[tuple[str, str]], flags: dict[str, bool], classes: dict[str, str]
) -> Sequences:
    values: list[np.ndarray] = []
    labels: list[str | float] = []
    is_numeric = flags.get("targetlabel", False)
    is_labelled = is_numeric or flags.get("classlabel", True)
    for where, line in numbered:
        channels = line.strip().split(":")
        label = channels.pop().strip() if is_labelled else ""
        if not channels or not line.strip():
            raise DataError(
                f"{where}: found {shown(line.strip())}, expected the values of a case, a colon "
                "and its label; for cases without labels write '@classLabel false'"
            )
        first = values[0].shape if values else None
        case = _case(where, channels, first, is_equal=flags.get("equallength", True))
        values.append(as_case(where, case))
        if is_numeric:
            labels.append(_numbers(where, "target", label)[0])
        elif is_labelled and classes.get(label.lower()) is None:
            raise DataError(
                f"{where}: the class is {shown(label)}, expected one of the header's: "
                f"{listed(classes.values())}"
            )
        else:
            labels.append(classes.get(label.lower(), ""))
    if not values:
        raise DataError(
            f"{path}: found no line '@data' with cases after it, expected a header, '@data' and a "
            "line for each case; the file is incomplete or of another kind"
        )
    source = f"{path}, the labels:"
    return Sequences(values, as_labels(source, labels, len(labels)) if is_labelled else None)


def _header(numbered: Iterator[tuple[str, str]]) -> tuple[dict[str, bool], dict[str, str]]:
    """The flags of the header, and the names of the classes by their lower case."""
    flags: dict[str, bool] = {}
    classes: dict[str, str] = {}
    for where, line in numbered:
        words = line.split()
        if not words or words[0][0] != "@":  # a comment, or text
            continue
        tag, values = words[0][1:].lower(), words[1:]
        expected = None
        if tag == "data":
            expected = "'@data' alone before the first case" if values else None
        elif tag in _FLAGS:
            flag = values[0].lower() if values else ""
            if flag not in ("true", "false") or (tag != "classlabel" and len(values) > 1):
                expected = "true or false"
            flags[tag] = flag == "true"
        if flags.get("timestamps"):
            expected = "no time stamps, which are not read from .ts files; write a long .csv file"
        elif tag == "classlabel" and flags[tag]:
            classes = {name.lower(): name for name in values[1:]}
            if not classes or len(classes) < len(values) - 1:
                expected = "names of classes after 'true' that differ in more than capitals"
        if expected is not None:
            raise DataError(f"{where}: found {shown(' '.join(words))}, expected {expected}")
        if tag == "data":
            break
    return flags, classes


def _case(
    where: str, channels: list[str], first: tuple[int, ...] | None, *, is_equal: bool
) -> np.ndarray:
    """(channels, length), which must agree with the first case (length, channels)."""
    numbers = [_numbers(where, f"channel {i}", text) for i, text in enumerate(channels)]
    length, count = first or (len(numbers[0]), len(numbers))
    expected = [length if is_equal else len(numbers[0])] * count
    if (lengths := [len(values) for values in numbers]) != expected:
        raise DataError(
            f"{where}: has {len(lengths)} channels of {lengths} values, expected {count} of "
            f"{expected[0]}; write ? for missing values, or '@equalLength false'"
        )
    return np.stack(numbers)


def _numbers(where: str, what: str, text: str) -> np.ndarray:
    try:
        return np.frombuffer(array("d", map(float, text.replace("?", "nan").split(","))))
    except ValueError as error:
        raise DataError(
            f"{where}: {what} has a value that is no number ({error}); write ? for a missing value"
        ) from None
