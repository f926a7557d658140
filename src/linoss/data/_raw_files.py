"""The error for invalid data, and checks shared by all file formats."""

import gzip
import io
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from linoss import _extras

LINE_LIMIT = 64 * 2**20
"""Maximum bytes of a line of text: several million numbers."""

_ALWAYS_READ = 256 * 2**20
_LARGEST_RATIO = 100


class DataError(ValueError):
    """Invalid data. The message has the location, what was found and expected, and a remedy.

    ```python
    >>> import linoss.data
    >>> try:
    ...     linoss.data.read("absent.csv")
    ... except linoss.data.DataError as error:
    ...     print(error)
    absent.csv: there is no such file; check the path

    ```
    """


optional = partial(_extras.optional, extra="data")


def regular_file(path: str | os.PathLike[str]) -> Path:
    """Check that a file is readable and not empty; return its path."""
    path, wrong = Path(path), None
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            wrong = "this is a directory, expected a file; name a file in it"
        elif not stat.S_ISREG(mode):
            wrong = "this is a device or a pipe, expected a file; copy it to one"
        else:
            with path.open("rb") as file:
                wrong = None if file.read(1) else "the file is empty, expected data; write it again"
    except (FileNotFoundError, NotADirectoryError):
        wrong = "there is no such file; check the path"
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        wrong = f"the file cannot be opened ({reason}); check its path and permissions"
    if wrong is not None:
        raise DataError(f"{path}: {wrong}")
    return path


@contextmanager
def open_text(path: Path) -> Iterator[Any]:
    """Open a file, which may be compressed, for reading bytes."""
    if path.suffix.lower() != ".gz":
        with path.open("rb") as file:
            yield file
        return
    with gzip.open(path) as file, refusing(str(path), "expected a .gz file"):
        limit = _most_bytes(path.stat().st_size)
        content = file.read(limit + 1)
    if len(content) > limit:
        check_expansion(str(path), len(content), path.stat().st_size)
    yield io.BytesIO(content)


def text_lines(path: Path, comments: tuple[bytes, ...] = ()) -> Iterator[str]:
    """Yield the lines of a UTF-8 text, of bounded length. Comments may have any encoding."""
    with open_text(path) as file:
        lines = iter(lambda: file.readline(LINE_LIMIT + 1), b"")
        for number, line in enumerate(lines, 1):
            if len(line) > LINE_LIMIT:
                raise DataError(
                    f"{path}, line {number}: the line is longer than {LINE_LIMIT // 2**20} MiB, "
                    "expected a text file with shorter lines; save such data as .npy"
                )
            errors = "replace" if line.lstrip().startswith(comments) else "strict"
            try:
                yield line.decode("utf-8" if number > 1 else "utf-8-sig", errors)
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{path}, line {number}: byte {error.start + 1} ({line[error.start]:#04x}) is "
                    "not UTF-8, expected text in UTF-8; save the file in that encoding"
                ) from None


def check_expansion(where: str, claimed: int, stored: int) -> None:
    """Raise for a compressed file that would expand beyond a bounded size."""
    if claimed > _most_bytes(stored):
        raise DataError(
            f"{where}: {stored} bytes claim to hold {claimed}, expected at most "
            f"{_LARGEST_RATIO} times as many above {_ALWAYS_READ // 2**20} MiB; if this is "
            "intended, save the array as .npy, which is not read into memory"
        )


def _most_bytes(stored: int) -> int:
    return max(_ALWAYS_READ, _LARGEST_RATIO * stored)


@contextmanager
def refusing(where: str, expected: str) -> Iterator[None]:
    """Context manager: convert any exception of another library to a `DataError`."""
    try:
        yield
    except (DataError, ImportError):
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataError(
            f"{where}: {expected} ({said}); the file is damaged or of another kind, write it again"
        ) from error


def listed(names: Iterable[object]) -> str:
    """Format names for a message, at most the first ten."""
    names = list(names)
    return ", ".join(str(name)[:40] for name in names[:10]) + (", ..." if len(names) > 10 else "")


def suffix_of(path: Path, known: Iterable[str]) -> str:
    """Which of the known suffixes a file has."""
    known = list(known)
    for suffix in known:
        if path.name.lower().endswith(suffix):
            return suffix
    raise DataError(f"{path}: the suffix is {shown(path.suffix)}, expected one of {listed(known)}")


def positions(source: str, names: Sequence[Any], expected: Sequence[Any], remedy: str) -> list[int]:
    """Where the `expected` names are among `names`; raises unless both have the same names."""
    missing = [name for name in expected if name not in names]
    unknown = [name for name in names if name not in expected]
    if missing or len(names) != len(expected):
        wrong = [f"lacks {listed(missing)}"] * bool(missing)
        wrong += [f"has {listed(unknown or names)}"] * (bool(unknown) or not missing)
        raise DataError(
            f"{source} {' and '.join(wrong)}, expected {listed(expected)}, in any order; {remedy}",
        )
    return [names.index(name) for name in expected]


def shown(text: object) -> str:
    """Format text from a file for a message: quoted, and truncated if long."""
    text = str(text)
    return repr(text if len(text) <= 40 else text[:37] + "...")
