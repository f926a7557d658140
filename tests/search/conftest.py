"""Small data, workers in processes of their own, and a PostgreSQL for those that meet there."""

import contextlib
import glob
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

import numpy as np
import psycopg
import pytest

PASSWORD = "sesame@{%}"
SMALL = (
    "--set scheme=im --set damped=no --set hidden_size=8 --set state_size=8 --set num_blocks=1 "
    "--set batch_size=8 --set norm=none"
)


@pytest.fixture(scope="session")
def small():
    """Options of a small model."""
    return SMALL


def _waves(cases, length=30):
    draw = np.random.default_rng(0)
    labels = np.arange(cases) % 2
    x = np.sin(np.arange(length) * (0.3 + 0.5 * labels[:, None]) + draw.uniform(0, 6, (cases, 1)))
    return x + 0.1 * draw.normal(size=x.shape), labels


@pytest.fixture(scope="session")
def waves():
    """(cases, time) of two frequencies, and which it is."""
    return _waves(32)


@pytest.fixture(scope="session")
def data(tmp_path_factory, waves):
    """The same in a file."""
    path = tmp_path_factory.mktemp("data") / "waves.npz"
    np.savez(path, X=waves[0], y=waves[1])
    return path


@pytest.fixture(scope="session")
def environment():
    """Of workers."""
    return {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_X64": "0",
        "COLUMNS": "200",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    }


@pytest.fixture
def worker(start, environment):
    """Start Python with a script, or with `-m linoss ...`, in a process of its own."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return lambda *arguments: start(*arguments, env=environment, **pipes)


def _program(name):
    """Where a program of PostgreSQL is; Debian keeps them out of the way."""
    places = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"))
    return shutil.which(name) or (places[-1] if places else None)


def _who():
    """Somebody to run it as: PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return {}, None
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}, user
    return None, None


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def postgresql():
    """The URL of a database on a server of its own."""
    with server() as url:
        if url is None:
            pytest.skip("there is no PostgreSQL on this machine")
        yield url


@contextlib.contextmanager
def server():
    """The same, or None if there is no PostgreSQL."""
    initdb, postgres = _program("initdb"), _program("postgres")
    who, user = _who()
    if initdb is None or postgres is None or who is None:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="linoss-"))
    (folder / "password").write_text(PASSWORD)
    if user is not None:
        for path in (folder, folder / "password"):
            os.chown(path, user.pw_uid, user.pw_gid)
    port, log = _free_port(), open(folder / "log", "w")  # noqa: SIM115
    options = {"stdout": log, "stderr": log, "cwd": folder, **who}
    server = None
    try:
        make = [initdb, "-D", folder / "data", "-U", "linoss", "-A", "scram-sha-256", "-N"]
        subprocess.run([*make, "--pwfile", folder / "password"], check=True, **options)
        quick = ["-c", "fsync=off", "-c", "shared_buffers=16MB"]
        place = ["-h", "127.0.0.1", "-p", str(port), "-k", folder]
        server = subprocess.Popen([postgres, "-D", folder / "data", *place, *quick], **options)
        url = f"postgresql://linoss:{quote(PASSWORD)}@127.0.0.1:{port}/postgres"
        _wait_for(server, url, folder / "log")
        yield url
    finally:
        if server is not None:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
        log.close()
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(server, url, log):
    for _ in range(600):
        assert server.poll() is None, log.read_text()
        try:
            psycopg.connect(url, connect_timeout=2).close()
            return
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise AssertionError(log.read_text())
