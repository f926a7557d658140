"""Small data, workers in processes of their own, and a PostgreSQL for those that meet there."""

import contextlib
import glob
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import quote

import numpy as np
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


@pytest.fixture(scope="session")
def postgresql():
    """The URL of a database on a server of its own."""
    with server() as url:
        if url is None:
            pytest.skip("there is no PostgreSQL on this machine")
        yield url


@contextlib.contextmanager
def server():
    """The same, or None if there is no PostgreSQL; Debian keeps it out of the way."""
    places = [shutil.which("pg_ctl"), *sorted(glob.glob("/usr/lib/postgresql/*/bin/pg_ctl"))]
    programs = [Path(place).resolve().parent for place in places if place]
    if not programs:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="linoss-"))
    (folder / "password").write_text(PASSWORD)
    who = {}
    if os.geteuid() == 0:  # whom PostgreSQL refuses
        user = pwd.getpwnam("nobody")
        who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        for path in (folder, folder / "password"):
            os.chown(path, user.pw_uid, user.pw_gid)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def run(program, *arguments):
        words = [programs[-1] / program, "-D", folder / "data", *arguments]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, cwd=folder, **who)

    run("initdb", "-U", "linoss", "-A", "scram-sha-256", "-N", "--pwfile", folder / "password")
    options = f"-h 127.0.0.1 -p {port} -k {folder} -c fsync=off -c shared_buffers=16MB"
    run("pg_ctl", "start", "-w", "-l", folder / "log", "-o", options)
    try:
        yield f"postgresql://linoss:{quote(PASSWORD)}@127.0.0.1:{port}/postgres"
    finally:
        run("pg_ctl", "stop", "-m", "immediate")
        shutil.rmtree(folder, ignore_errors=True)
