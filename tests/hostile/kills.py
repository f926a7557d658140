"""Processes killed with SIGKILL at any moment of a run: what they leave ends as it would have.

A case kills once and starts again; when a run or a study is done, it is compared, byte by byte,
with one that was never killed, and the next one begins.
"""

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from drivers import Finding, load

SMALL = (
    "--task classification --set hidden_size=4 --set state_size=4 --set num_blocks=1 "
    "--set batch_size=4 --set validation_fraction=0.25 --set norm=layer --random-state 1"
)
ENVIRONMENT = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "0"}
_KILLS = 3  # of one study: after four deaths in one trial, it counts as failed


class Place:
    """A directory with data, and the processes that were started in it."""

    def __init__(self, folder):
        self.folder, self.started = Path(folder), []
        labels = np.arange(24) % 2
        values = np.random.default_rng(0).normal(size=(24, 1, 20)) + labels[:, None, None]
        np.savez(self.folder / "waves.npz", X=values, y=labels)

    def linoss(self, line, name):
        """Start a command; what it says is in a file."""
        log = (self.folder / f"{name}.log").open("w")
        words = [sys.executable, "-m", "linoss", *shlex.split(line)]
        options = {"stdout": log, "stderr": log, "env": ENVIRONMENT, "start_new_session": True}
        process = subprocess.Popen(words, cwd=self.folder, **options)
        process.log = Path(log.name)
        log.close()
        self.started.append(process)
        return process

    def end(self):
        """End whatever still runs."""
        for process in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def _place():
    with tempfile.TemporaryDirectory() as folder:
        place = Place(folder)
        try:
            yield place
        finally:
            place.end()


def _must_end(process):
    if process.wait() != 0:
        raise Finding(process.log.read_text()[-2000:])


def kill(process, seconds):
    """Kill after so many seconds; returns whether it was still running."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return True
    return False


def content(run):
    """All that must not depend on how a run went, of all its models."""
    if not (run / "report.html").read_text().rstrip().endswith("</html>"):
        raise Finding("the report is truncated")
    paths = sorted(path for path in run.rglob("*") if path.is_file())
    held = {}
    for path in paths:
        if path.name not in ("state.safetensors", "report.html"):  # which know the time
            held[path] = path.read_bytes()
    return {path.relative_to(run): held.get(path) for path in paths}


def _timed(start):
    """The seconds that some processes take."""
    begin = time.monotonic()
    for process in start():
        _must_end(process)
    return time.monotonic() - begin


def one():
    """`linoss fit` of several models in one process."""
    return _runs(f"{SMALL} --steps 60 --set evaluate_every=5")


def auto():
    """`linoss fit --model auto`: oscillators, a training, and the choice."""
    settings = "--set n_oscillators=64 --minutes 30 --random-state 1"
    return _runs(f"--task classification --model auto {settings}")


@contextlib.contextmanager
def _runs(options):
    with _place() as place:

        def start(run):
            return place.linoss(f"fit waves.npz --out {run} {options} --resume", run)

        seconds = _timed(lambda: [start("whole")])
        expected, run = content(place.folder / "whole"), place.folder / "run"

        def end(process):
            _must_end(process)
            if content(run) != expected:
                raise Finding("the run differs from that which was not killed")

        def case(draw):
            process = start("run")
            if kill(process, draw.uniform(0, seconds)):
                return "killed"
            end(process)
            shutil.rmtree(run)
            return "ended, the same"

        yield case
        end(start("run"))


@contextlib.contextmanager
def search():
    """Two workers of a search that meet in PostgreSQL; the one that is killed is started again."""
    with _place() as place, load("search/conftest.py").server() as url:
        if url is None:
            raise SystemExit("there is no PostgreSQL on this machine")

        def start(name, study):
            line = (
                f"search waves.npz --out {study} {SMALL} --steps 30 --set evaluate_every=5 "
                "--no-prune --grid ranges --range learning_rate=0.001,0.003,0.01 "
                "--range weight_decay=0,0.1 "
                f"--silence 4 --storage {url} --study {study}"
            )
            return place.linoss(line, name)

        def trials(study):
            held = json.loads((place.folder / study / "study.json").read_text())["trials"]
            if {trial["state"] for trial in held} != {"complete"}:
                raise Finding(f"trials are lost: {held}")
            runs = [place.folder / study / trial["run"] for trial in held]
            results = [(t["number"], t["value"], t["parameters"]) for t in held]
            return results, [content(run) for run in runs]

        seconds = _timed(lambda: [start("first", "whole"), start("second", "whole")])
        expected, now = trials("whole"), {"study": 0, "kills": 0, "workers": None}

        def begin():
            now["study"] += 1
            now["kills"], name = 0, f"study{now['study']}"
            now["workers"] = [start(f"{name}-{i}", name) for i in (0, 1)]

        def end():
            for worker in now["workers"]:
                _must_end(worker)
            if trials(f"study{now['study']}") != expected:
                raise Finding("the search differs from that which was not killed")
            now["workers"] = None

        def case(draw):
            if now["workers"] is None:
                begin()
            which = draw.randrange(2)
            killed = kill(now["workers"][which], draw.uniform(0, seconds / 2))
            if killed:
                now["kills"] += 1
                name = f"study{now['study']}"
                now["workers"][which] = start(f"{name}-{which}", name)
            if not killed or now["kills"] == _KILLS:
                end()
            return "killed" if killed else "ended"

        yield case
        if now["workers"] is not None:
            end()
