"""Writes are atomic, and neither follow links nor leave anything behind."""

import shutil
import subprocess
import sys

import pytest

from linoss._files import (
    copy_directory,
    locked,
    make_directory,
    remove_remains,
    restore_directory,
    write_file,
)


@pytest.fixture
def victim(tmp_path):
    """A file outside of the directory that is written to."""
    path = tmp_path / "victim"
    path.write_bytes(b"mine")
    return path


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_content_is_replaced_and_nothing_else_is_left(folder):
    for content in (b"old", b"new"):
        write_file(folder / "state.json", content)
        assert (folder / "state.json").read_bytes() == content
    assert names(folder) == ["state.json"]


def test_a_link_in_place_of_the_file_is_replaced_not_followed(folder, victim):
    (folder / "state.json").symlink_to(victim)
    write_file(folder / "state.json", b"new")
    assert victim.read_bytes() == b"mine"
    assert not (folder / "state.json").is_symlink()


def test_a_prepared_link_at_a_temporary_name_is_not_followed(folder, victim, monkeypatch):
    monkeypatch.setattr("secrets.token_hex", lambda size: "0" * 2 * size)
    (folder / f"state.json.{'0' * 16}.tmp").symlink_to(victim)
    with pytest.raises(OSError, match=r"state\.json: cannot be written \(File exists\)"):
        write_file(folder / "state.json", b"new")
    assert victim.read_bytes() == b"mine"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_a_write_that_fails_leaves_the_old_content_alone(folder, error, monkeypatch):
    write_file(folder / "state.json", b"old")

    def fails(_):
        raise error

    monkeypatch.setattr("os.fsync", fails)
    with pytest.raises(type(error)):
        write_file(folder / "state.json", b"new")
    assert names(folder) == ["state.json"]
    assert (folder / "state.json").read_bytes() == b"old"


def test_remains_of_killed_writes_are_removed_and_other_files_are_not(folder, monkeypatch):
    class Killed(BaseException):
        pass

    def killed(_):
        raise Killed

    for name in ("report.html", "state.safetensors"):
        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", killed)
            with pytest.raises(Killed):
                write_file(folder / name, b"new")
    assert len(names(folder)) == 2
    (folder / "config.json.tmp").symlink_to(folder / "notes.tmp")
    (folder / "notes.tmp").touch()
    remove_remains(folder)
    assert names(folder) == ["notes.tmp"]


def test_a_directory_that_cannot_be_made_is_named(victim):
    with pytest.raises(OSError, match=f"{victim / 'run'}: cannot be written"):
        make_directory(victim / "run")


def test_a_lock_excludes_others(folder):
    busy = pytest.raises(BlockingIOError, match="another process is training in it")
    with locked(folder), busy, locked(folder):
        pass
    with locked(folder, wait=True):
        pass


def test_a_directory_is_copied_and_links_are_replaced(folder, tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "config.json").write_text("new")
    for remains in (f"best.{'0' * 16}.tmp", f"best.{'1' * 16}.tmp"):
        (folder / remains).mkdir()
    (folder / f"other.{'0' * 16}.tmp").touch()
    (folder / "best").symlink_to(tmp_path / "kept")
    for _ in range(2):
        copy_directory(tmp_path / "source", folder / "best")
        assert (folder / "best" / "config.json").read_text() == "new"
    assert names(folder) == ["best", f"other.{'0' * 16}.tmp"]
    assert names(tmp_path / "kept") == []


KILLED = """
import os, signal, sys
from pathlib import Path
from linoss import _files
renames, moment, replace = [], int(sys.argv[2]), os.replace
def replace_or_die(*names):
    if len(renames) == moment:
        os.kill(os.getpid(), signal.SIGKILL)
    renames.append(replace(*names))
os.replace = replace_or_die
with _files.replaced_directory(Path(sys.argv[1])) as fresh:
    fresh.mkdir()
    (fresh / "config.json").write_text("new")
"""


@pytest.mark.parametrize("moment", [0, 1])
def test_a_kill_leaves_the_old_directory(folder, tmp_path, moment):
    """Before the first of two renames, and between them."""
    best, source = folder / "best", tmp_path / "source"
    for place, text in ((best, "old"), (source, "again")):
        place.mkdir()
        (place / "config.json").write_text(text)
    (folder / f"best2.{'0' * 16}.old").mkdir()  # of another one
    words = [sys.executable, "-c", KILLED, str(best), str(moment)]
    assert subprocess.run(words, check=False).returncode == -9
    assert best.exists() == (moment == 0)
    assert restore_directory(best) == (moment == 1)
    assert (best / "config.json").read_text() == "old"
    copy_directory(source, best)
    assert names(folder) == ["best", f"best2.{'0' * 16}.old"]


def test_a_read_only_file_system_is_named(folder):
    """In a name space of its own, where anybody may mount."""
    code = """
from pathlib import Path
import sys
from linoss._files import *
from linoss._files import remove_file
folder = Path(sys.argv[1])
for write in (
    lambda: write_file(folder / "state.json", b"new"),
    lambda: make_directory(folder / "run"),
    lambda: remove_file(folder / "state.json"),
):
    try:
        write()
    except OSError as error:
        print(error)
"""
    if shutil.which("unshare") is None:
        pytest.skip("there are no name spaces")
    inner = 'mount -t tmpfs -o ro tmpfs "$1" && exec "$2" -c "$3" "$1"'
    words = ["unshare", "-rm", "sh", "-c", inner, "sh", str(folder), sys.executable, code]
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    if result.returncode:
        pytest.skip(f"nothing can be mounted: {result.stderr}")
    files = ("state.json", "run", "state.json")
    assert result.stdout.splitlines() == [
        f"{folder / name}: cannot be written (Read-only file system)" for name in files
    ]
