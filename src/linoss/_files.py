"""Atomic writes: if the process dies, a file has either its old or its new content."""

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None

_REMAINS = re.compile(r".+(\.[0-9a-f]{16}|\.jsonl?|\.safetensors)\.tmp")


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


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading. An `OSError` refuses links, directories, pipes and devices."""
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0)
    for name in ("O_NOFOLLOW", "O_NONBLOCK"):  # a pipe would be waited for
        flags |= getattr(os, name, 0)
    try:
        handle = os.open(path, flags)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise OSError(errno.ELOOP, "it is a link, which is not followed") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return open(handle, "rb")


def write_text(path: Path, text: str) -> None:
    """Replace the content of a file by text in UTF-8, as `write_file` does."""
    write_file(path, text.encode())


def make_directory(path: Path) -> None:
    """Create a directory and its parents, if they do not exist."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_write(path, error) from error


@contextmanager
def replaced_directory(target: Path) -> Iterator[Path]:
    """Yield a temporary directory to write, which then replaces `target`.

    `target` never has partial content, and is unchanged if writing fails. For one process at a
    time. The old directory is renamed first; if the process dies before the new one is in place,
    `restore_directory` renames it back.
    """
    temporary = _temporary(target)
    restore_directory(target)
    try:
        yield temporary
        old = temporary.with_suffix(".old")
        if target.exists() or target.is_symlink():
            os.replace(target, old)
        try:
            os.replace(temporary, target)
        except BaseException:
            with suppress(FileNotFoundError):
                os.replace(old, target)
            raise
        _sync_directory(target.parent)
    except (OSError, shutil.Error) as error:
        raise _cannot_write(target, error) from error
    finally:
        _remove(target.parent, _left(target))


def restore_directory(target: Path) -> bool:
    """Rename back a directory that a killed process had renamed to replace it.

    Returns whether there was one.
    """
    if target.exists() or target.is_symlink() or not target.parent.is_dir():
        return False
    for path in target.parent.iterdir():
        if path.suffix == ".old" and _left(target).fullmatch(path.name):
            try:
                os.replace(path, target)
            except OSError as error:
                raise _cannot_write(target, error) from error
            return True
    return False


def copy_directory(source: Path, target: Path) -> None:
    """Replace a directory by a copy of another one, as `replaced_directory` does."""
    with replaced_directory(target) as temporary:
        shutil.copytree(source, temporary)


def remove_file(path: Path) -> None:
    """Remove a file, if it exists."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _cannot_write(path, error) from error


def remove_remains(folder: Path) -> None:
    """Remove the temporary files and directories of killed writes."""
    _remove(folder, _REMAINS)


@contextmanager
def locked(folder: Path, *, wait: bool = False) -> Iterator[Path]:
    """Lock a directory against other processes; the lock is released if the process dies.

    Raises `BlockingIOError` if another process has locked it, unless `wait`.
    """
    if fcntl is None:
        yield folder
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise BlockingIOError(
                f"{folder}: another process is training in it; wait for it, or choose another "
                "directory"
            ) from None
        except OSError:  # a file system without locks
            pass
        yield folder
    finally:
        os.close(handle)


def _temporary(path: Path) -> Path:
    return path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")


def _left(target: Path) -> re.Pattern[str]:
    """The names that a killed `replaced_directory` leaves behind."""
    return re.compile(re.escape(target.name) + r"\.[0-9a-f]{16}\.(tmp|old)")


def _remove(folder: Path, names: re.Pattern[str]) -> None:
    for path in folder.iterdir():
        if not names.fullmatch(path.name):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            remove_file(path)


def _cannot_write(path: Path, error: OSError | shutil.Error) -> OSError:
    """The error for a failed write."""
    reason = getattr(error, "strerror", None) or error
    return OSError(f"{path}: cannot be written ({reason})")


def _sync_directory(path: Path) -> None:
    """Flush the directory to disk, if the system supports it."""
    if os.name == "posix":
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
