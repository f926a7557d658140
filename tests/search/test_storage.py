"""Storages: reached, out of reach, and shared."""

import socket
import threading
from urllib.parse import quote

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
    assert f"the storage postgresql://me:***@127.0.0.1:{port}/studies cannot be" in message
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


def test_a_password_among_the_options(postgresql):
    found = sqlalchemy.engine.make_url(postgresql)
    who = f"user={found.username}&password={quote(found.password)}"
    storage = Storage(f"postgresql://{found.host}:{found.port}/{found.database}?{who}", 60)
    assert storage.name == f"postgresql://{found.host}:{found.port}/{found.database}?***"
    storage.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("studies", "the storage is invalid, expected sqlite:///FILE or postgresql://"),
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
        pytest.raises(StorageError, match="another worker does not release it"),
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
        ("postgresql://me:sesame@host/x", "postgresql://me:***@host/x"),
        (
            "postgresql://me:sesame@host:5432/x?sslmode=require",
            "postgresql://me:***@host:5432/x?***",
        ),
        ("postgresql+psycopg://me:sesame@[::1]:5432/x", "postgresql+psycopg://me:***@[::1]:5432/x"),
        ("postgresql://host/x?user=me&password=sesame", "postgresql://host/x?***"),
        ("postgresql://host/x?user=me&password=ses@me", "***"),
        ("postgresql://host?password=ses@me", "***"),
        ("postgresql://me:ses@me@host/x", "***"),
        ("postgresql://me@work:sesame@host/x", "***"),
        ("postgresql://me:ses/ame@host/x", "***"),
        ("postgresql://me:ses?ame@host/x", "***"),
        ("postgresql://me:sesame", "***"),
        ("host=host password=sesame", "***"),
        ("postgresql://me@host/x", "postgresql://me@host/x"),
        ("sqlite:///study@home.db", "sqlite:///study@home.db"),
        ("sqlite:////study.db?password=sesame", "sqlite:////study.db?***"),
    ],
)
def test_a_password_is_not_shown(url, shown):
    assert without_password(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://127.0.0.1:{port}/x?user=me&password=sesame",
        "postgresql://127.0.0.1:{port}/x?user=me&pasword=sesame",
        "postgresql://me:ses@me@127.0.0.1:{port}/x",
        "postgresql://127.0.0.1:{port}/x?user=me&password=sesame@me",
        "postgresql://me:sesame?@127.0.0.1:{port}/x",
        "host=127.0.0.1 port={port} password=sesame",
    ],
)
def test_no_form_of_a_password_is_in_an_error(url):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    message = refused(url.format(port=port), (StorageError, ValueError))
    assert "ses" not in message.replace("password", "")
    assert "me@" not in message
