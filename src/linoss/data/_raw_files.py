"""The error for invalid data, and checks shared by all file formats."""

import os
import stat
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from linoss import _extras

LINE_LIMIT = 64 * 2**20
"""Maximum bytes of a line of text: several million numbers."""

_ALWAYS_READ = 256 * 2**20
_LARGEST_RATIO = 100

_SIGNATURES = {b"PK": ".npz", b"PAR1": ".parquet", b"\x93NUMPY": ".npy", b"\x1f\x8b": ".gz"}


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
    """Check that a file is readable, not empty, and of the format of its suffix; return its
    path."""
    path = Path(path)
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise DataError(
                f"{path}: this is a directory, expected a file; name a file in it, or read a "
                "directory of a training and a test part with linoss.data.read_parts"
            )
        if not stat.S_ISREG(status.st_mode):
            raise DataError(f"{path}: this is a device or a pipe, expected a file; copy it to one")
        with path.open("rb") as file:
            start = file.read(8)
    except DataError:
        raise
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{path}: there is no such file; check the path") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(
            f"{path}: the file cannot be opened ({reason}); check its path and permissions"
        ) from error
    if not start:
        raise DataError(f"{path}: the file is empty, expected data; write it again")
    for signature, suffix in _SIGNATURES.items():
        if start.startswith(signature) and path.suffix.lower() != suffix:
            raise DataError(
                f"{path}: the content is that of a {suffix} file, expected that of a "
                f"{path.suffix} file; rename it, or write it in the other format"
            )
    return path


def text_lines(path: Path, comments: tuple[bytes, ...] = ()) -> Generator[str, None, None]:
    """Yield the lines of a UTF-8 text, of bounded length. Comments may have any encoding.

    Close the generator if you stop before its end.
    """
    with path.open("rb") as file:
        number = 0
        while line := file.readline(LINE_LIMIT + 1):
            number += 1
            where = f"{path}, line {number}"
            if len(line) > LINE_LIMIT:
                raise DataError(
                    f"{where}: the line is longer than {LINE_LIMIT // 2**20} MiB, expected a text "
                    "file with shorter lines; save such data as .npy"
                )
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            if b"\0" in line:
                raise DataError(
                    f"{where}: found a NUL byte, expected text in UTF-8; "
                    + (
                        "this is UTF-16: save it as UTF-8"
                        if line[:2] in (b"\xff\xfe", b"\xfe\xff")
                        else "this is another kind of file, or a damaged one"
                    )
                )
            spared = line.lstrip().startswith(comments)
            try:
                yield line.decode("utf-8", "replace" if spared else "strict")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{where}: byte {error.start + 1} ({line[error.start]:#04x}) is not UTF-8, "
                    "expected text in UTF-8; save the file in that encoding"
                ) from None


def check_expansion(where: str, claimed: int, stored: int) -> None:
    """Raise for a compressed file that would expand beyond a bounded size."""
    if claimed > max(_ALWAYS_READ, _LARGEST_RATIO * stored):
        raise DataError(
            f"{where}: {stored} bytes claim to hold {claimed}, expected at most "
            f"{_LARGEST_RATIO} times as many above {_ALWAYS_READ // 2**20} MiB; if this is "
            "intended, save the array as .npy, which is not read into memory"
        )


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


def positions(source: str, names: Sequence[Any], expected: Sequence[Any], remedy: str) -> list[int]:
    """Where the `expected` names are among `names`; raises unless both have the same names."""
    missing = [name for name in expected if name not in names]
    unknown = [name for name in names if name not in expected]
    if missing or unknown or len(names) != len(expected):
        wrong = [f"lacks {listed(missing)}"] * bool(missing)
        wrong += [f"has {listed(unknown or names)}"] * (bool(unknown) or not missing)
        raise DataError(
            f"{source} {' and '.join(wrong)}, expected {listed(expected)}, in any order; {remedy}",
            ("drop",),
        )
    return [names.index(name) for name in expected]


def shown(text: object) -> str:
    """Format text from a file for a message: quoted, and truncated if long."""
    text = str(text)
    return repr(text if len(text) <= 40 else text[:37] + "...")
