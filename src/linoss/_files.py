"""Atomic writes: a file holds its old content or its new content, whenever the process dies."""

import errno
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

_REMAINS = re.compile(r".+(\.[0-9a-f]{16}|\.jsonl?|\.safetensors)\.tmp")


def write_file(path: Path, content: bytes) -> None:
    """Replace the content of a file. An `OSError` names the file and the reason.

    The content is first written to a new file in the same directory. Its name is random and it is
    created exclusively, so that an existing file or symbolic link is never opened.
    """
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except KeyboardInterrupt:
        temporary.unlink(missing_ok=True)
        raise
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _cannot_write(path, error) from error
    _sync_directory(path.parent)


def write_text(path: Path, text: str) -> None:
    """Replace the content of a file by text in UTF-8, as `write_file` does."""
    write_file(path, text.encode())


def write_after(path: Path, size: int, content: bytes) -> None:
    """Keep the first `size` bytes of a file, or create it, and append `content`.

    A symbolic link is refused with an `OSError`.
    """
    try:
        with open(path, "ab", opener=_open_no_link) as file:
            file.truncate(size)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise _cannot_write(path, error) from error


def make_directory(path: Path) -> None:
    """Create a directory and its parents, where they do not exist."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_write(path, error) from error


def remove_remains(folder: Path) -> None:
    """Remove the temporary files of writes that were killed."""
    for path in folder.iterdir():
        if _REMAINS.fullmatch(path.name):
            path.unlink()


def _cannot_write(path: Path, error: OSError) -> OSError:
    """The error to raise when the system refuses a write."""
    reason = error.strerror or error
    if error.errno == errno.ELOOP and path.is_symlink():
        reason = "it is a symbolic link, and links are not followed; remove it"
    return OSError(f"{path}: cannot be written ({reason})")


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _sync_directory(path: Path) -> None:
    """Wait until the new name is on the disk, where the system allows it."""
    if os.name == "posix":
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
