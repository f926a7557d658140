"""Damaged directories of runs: the same weights, or a clear error; never other weights."""

import contextlib
import hashlib
import json
import shutil
import signal
import tempfile
import warnings
from pathlib import Path

import numpy as np
import safetensors.numpy
from drivers import Finding
from files import mutated

from linoss import LinOSSClassifier, LinOSSForecaster, OscillatorRegressor, load
from linoss.cli._runs import read_roles, write_roles
from linoss.training import CheckpointError

SMALL = {"hidden_size": 4, "state_size": 4, "num_blocks": 1, "steps": 4, "random_state": 0}
ROLES = {"label": "kind", "drop": ["day"]}


@contextlib.contextmanager
def _runs():
    """Directories of runs, what they predict, and a directory for a damaged copy."""
    with tempfile.TemporaryDirectory() as folder:
        runs = [Path(folder) / name for name in ("classifier", "forecaster", "oscillators")]
        waves = np.random.default_rng(0).normal(size=(20, 2, 20))
        several = LinOSSClassifier(**SMALL, n_models=2)
        several.fit(waves, np.arange(20) % 2, directory=runs[0])
        series = waves.swapaxes(1, 2).reshape(-1, 2)
        ahead = LinOSSForecaster(**SMALL, horizon=2, past=8, levels=(80,), base=True)
        ahead.fit(series, directory=runs[1])
        quick = OscillatorRegressor(n_oscillators=16, random_state=0)
        quick.fit(waves, waves.mean((1, 2))).save(runs[2])

        for run in runs:
            write_roles(run, ROLES)
        yield runs, waves, Path(folder) / "damaged"


def _damaged(draw, runs, damaged):
    """A copy of one of the runs, and the path of a file in it."""
    run = draw.choice(runs)
    shutil.rmtree(damaged, ignore_errors=True)
    shutil.copytree(run, damaged)
    return run, draw.choice(sorted(p for p in damaged.rglob("*") if p.is_file()))


@contextlib.contextmanager
def driver():
    """Damage a file of a run, and load it."""
    with _runs() as (runs, waves, damaged):
        whole = {run: _content(load(run), waves) for run in runs}

        def case(draw):
            run, path = _damaged(draw, runs, damaged)
            path.write_bytes(mutated(path.read_bytes(), draw))
            try:
                found, roles = _content(load(damaged), waves), read_roles(damaged)
            except CheckpointError as error:
                if not str(error).startswith(str(damaged)):
                    raise Finding(f"an error that names no file: {error}") from None
                return "refused"
            if roles != ROLES:
                raise Finding(f"{path.name}: other names of columns, {roles}")
            if found[0] != whole[run][0]:
                raise Finding(f"{path.name}: another model")
            if found[1] not in ([], whole[run][1]):
                raise Finding(f"{path.name}: another history")
            return "the same model"

        yield case


def _content(estimator, waves):
    """What must not change unnoticed, settings and answers; and the history."""
    if estimator.task == "forecasting":
        said = estimator.predict(level=[80])
    else:
        said = getattr(estimator, "predict_proba", estimator.predict)(waves)
    trained = estimator.fitted_.trained
    history = [] if trained is None else trained.history
    return (np.asarray(said).tobytes(), estimator.get_params()), history


# ---- With a checksum that fits ----

STRANGE = (None, True, -1, 0, 1, 3, 2**31, 10**9, 10**30, 0.5, -1e300, "", "im", "s5", [], {}, [[]])
DTYPES = {"F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8", "BOOL": "|b1"}


@contextlib.contextmanager
def signed():
    """Change values in a file of a run as somebody would who knows how to make a checksum.

    It is loaded or refused by name, without a pause and without much memory.
    """

    def stop(*_):
        raise Finding("it takes more than a minute of the processor")

    signal.signal(signal.SIGVTALRM, stop)
    with _runs() as (runs, waves, damaged):

        def case(draw):
            _, path = _damaged(draw, runs, damaged)
            if path.suffix == ".json":
                record = json.loads(path.read_text())
                record.pop("sha256", None)
                _strange(record, draw)
                record["sha256"] = hashlib.sha256(_canonical(record)).hexdigest()
                path.write_text(json.dumps(record))
            else:
                path.write_bytes(_resigned(path.read_bytes(), draw))
            signal.setitimer(signal.ITIMER_VIRTUAL, 60)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    _content(load(damaged), waves)
                    read_roles(damaged)
            except CheckpointError as error:
                if not str(error).startswith(str(damaged)):
                    raise Finding(f"an error that names no file: {error}") from None
                return "refused"
            except ValueError:
                return "refused in use"
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            return "loaded"

        yield case


def _strange(record, draw):
    """Replace or remove one of the values at any depth."""
    while True:
        place = draw.choice(list(record) if isinstance(record, dict) else range(len(record)))
        inner = record[place]
        if not isinstance(inner, dict | list) or not inner or draw.random() < 0.1:
            break
        record = inner
    if draw.random() < 0.1:
        del record[place]
    else:
        record[place] = draw.choice(STRANGE)


def _resigned(content, draw):
    """Arrays of another type, shape or name, with strange numbers, or with strange facts."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    facts = json.loads(header.pop("__metadata__")["linoss"])
    arrays = {}
    for name, entry in header.items():
        start, end = entry["data_offsets"]
        part = content[8 + length + start : 8 + length + end]
        arrays[name] = np.frombuffer(part, DTYPES[entry["dtype"]]).reshape(entry["shape"])
    name, kind = draw.choice(sorted(arrays)), draw.randrange(5)
    if kind == 0:
        arrays[name] = arrays[name].astype(draw.choice(sorted(DTYPES.values())))
    elif kind == 1:
        arrays[name] = np.resize(arrays[name], (draw.randrange(4), *arrays[name].shape))
    elif kind == 2:
        arrays[draw.choice(["more", "encoder.weight"])] = arrays.pop(name)
    elif kind == 3:
        value = draw.choice([np.nan, np.inf, -1, 0, 1e38])
        with np.errstate(all="ignore"):
            arrays[name] = np.full_like(arrays[name], value)
    else:
        _strange(facts, draw)
    facts.pop("sha256", None)
    digest = hashlib.sha256(_canonical(facts))
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\0{name}\0{array.dtype.str}\0{array.shape}\0".encode() + array.tobytes())
    facts["sha256"] = digest.hexdigest()
    return safetensors.numpy.save(arrays, {"linoss": _canonical(facts).decode()})


def _canonical(record):
    return json.dumps(record, sort_keys=True, separators=(",", ":")).encode()
