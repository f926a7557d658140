"""Storages: reached, out of reach, and shared."""

import socket
import threading

import pytest
import sqlalchemy

from linoss.search import StorageError
from linoss.search._storage import Storage, within, without_password


def refused(url, kind=StorageError):
    """What is said of a storage that cannot be used."""
    with pytest.raises(kind) as caught:
        Storage(url, 60)
    return str(caught.value)


def test_nobody_is_there():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    message = refused(f"postgresql://me:sesame@127.0.0.1:{port}/studies")
    assert f"the storage postgresql+psycopg://me:***@127.0.0.1:{port}/studies cannot be" in message
    assert "sesame" not in message
    assert "\n" not in message


def test_somebody_is_there_who_does_not_answer(monkeypatch):
    monkeypatch.setattr("linoss.search._storage._CONNECT", 2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        message = refused(f"postgresql://me:sesame@127.0.0.1:{server.getsockname()[1]}/studies")
    assert "timeout" in message
    assert "sesame" not in message


def test_what_takes_forever_is_left():
    forever = threading.Event()
    with pytest.raises(StorageError, match="late"):
        within(0.05, forever.wait, lambda: StorageError("late"))
    forever.set()


def test_a_wrong_password(postgresql):
    message = refused(postgresql.replace("sesame", "secret"))
    assert "password authentication failed" in message
    assert "secret" not in message


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("studies", "the storage cannot be understood, expected sqlite:///FILE or postgresql://"),
        ("mysql://me:sesame@host/studies", "the storage is one of mysql, expected sqlite:///FILE"),
        ("sqlite://", "the storage is in memory"),
        ("sqlite:///:memory:", "the storage is in memory"),
    ],
)
def test_a_url_that_cannot_be(url, message):
    found = refused(url, ValueError)
    assert message in found
    assert "sesame" not in found


def test_a_directory_that_is_not_there(tmp_path):
    assert "there is no" in refused(f"sqlite:///{tmp_path / 'absent' / 'study.db'}")


def test_a_file_that_is_no_database(tmp_path):
    (tmp_path / "study.db").write_text("a letter")
    assert "file is not a database" in refused(f"sqlite:///{tmp_path / 'study.db'}")


def test_one_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("linoss.search._storage._TURN", 0.1)
    storage = Storage(f"sqlite:///{tmp_path / 'a {strange} name.db'}", 60)
    with (
        storage.alone(),
        pytest.raises(StorageError, match="another worker does not let it go"),
        storage.alone(),
    ):
        pass
    storage.close()


def test_it_is_asked_again_before_it_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("linoss.search._storage._TRIES", (0, 0))
    storage = Storage(f"sqlite:///{tmp_path / 'study.db'}", 60)
    calls = []

    def answer(times):
        calls.append(times)
        if len(calls) < times:
            raise sqlalchemy.exc.TimeoutError("gone")
        return "here"

    assert storage.patiently(lambda: answer(3)) == "here"
    calls.clear()
    with pytest.raises(StorageError, match=r"study.db cannot be reached: gone"):
        storage.patiently(lambda: answer(4))
    storage.close()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:a@b@host/x", "postgresql://me:***@host/x"),
        ("--storage=postgresql://me:a:b@host/x", "--storage=postgresql://me:***@host/x"),
        ("postgresql://me@host/x", "postgresql://me@host/x"),
        ("sqlite:///study.db", "sqlite:///study.db"),
        ("--trials", "--trials"),
    ],
)
def test_a_password_is_not_shown(url, shown):
    assert without_password(url) == shown
