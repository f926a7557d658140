"""Atomic writes: a file holds its old content or its new content, whenever the process dies."""

import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_REMAINS = re.compile(r".+(\.[0-9a-f]{16}|\.jsonl?|\.safetensors)\.tmp")
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def write_file(path: Path, content: bytes) -> None:
    """Replace the content of a file. An `OSError` names the file and the reason.

    The content is first written to a new file in the same directory. Its name is random and it is
    created exclusively, so that an existing file or symbolic link is never opened.
    """
    temporary = _temporary(path)
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except (KeyboardInterrupt, OSError) as error:
        with suppress(OSError):  # it may not have been created
            temporary.unlink()
        if isinstance(error, KeyboardInterrupt):
            raise
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


@contextmanager
def replaced_directory(target: Path) -> Iterator[Path]:
    """The name of a directory to write, which then takes the place of `target`.

    `target` never holds a part of it, and stays as it is if writing fails. One process at a time.
    """
    temporary, old = _temporary(target), _temporary(target)
    try:
        yield temporary
        if target.exists() or target.is_symlink():
            os.replace(target, old)
        try:
            os.replace(temporary, target)
        except BaseException:
            if old.exists():
                os.replace(old, target)
            raise
    except (OSError, shutil.Error) as error:
        raise _cannot_write(target, error) from error
    finally:
        remove_remains(target.parent, target.name)


def copy_directory(source: Path, target: Path) -> None:
    """Replace a directory by a copy of another one, as `replaced_directory` does."""
    with replaced_directory(target) as temporary:
        shutil.copytree(source, temporary)


def remove_file(path: Path) -> None:
    """Remove a file, if it is there."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _cannot_write(path, error) from error


def remove_remains(folder: Path, name: str = "") -> None:
    """Remove temporary files and directories that killed writes to such a name have left."""
    for path in folder.iterdir():
        if not path.name.startswith(name) or not _REMAINS.fullmatch(path.name):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            remove_file(path)


def open_lock(path: Path) -> int:
    """Open a file to lock it, created if it is not there; a symbolic link is refused."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o666)
    except OSError as error:
        raise _cannot_write(path, error) from error


def _temporary(path: Path) -> Path:
    return path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")


def _cannot_write(path: Path, error: OSError | shutil.Error) -> OSError:
    """The error to raise when the system refuses a write."""
    reason = getattr(error, "strerror", None) or error
    if error.errno == errno.ELOOP and path.is_symlink():
        reason = "it is a symbolic link, and links are not followed; remove it"
    return OSError(f"{path}: cannot be written ({reason})")


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | _NO_LINK, 0o666)


def _sync_directory(path: Path) -> None:
    """Wait until the new name is on the disk, where the system allows it."""
    if os.name == "posix":
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
