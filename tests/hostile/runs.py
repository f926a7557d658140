"""Damaged directories of runs: the same weights, or a clear error; never other weights."""

import contextlib
import shutil
import tempfile
import warnings
from pathlib import Path

import numpy as np
from drivers import Finding
from files import mutated

from linoss import LinOSSClassifier, LinOSSForecaster, OscillatorRegressor, load
from linoss.cli._runs import read_roles, write_roles
from linoss.training import CheckpointError

SMALL = {"hidden_size": 4, "state_size": 4, "num_blocks": 1, "steps": 4, "random_state": 0}
ROLES = {"label": "kind", "drop": ["day"]}


@contextlib.contextmanager
def driver():
    """Damage a file of a run, and load it."""
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
        whole = {run: _content(load(run), waves) for run in runs}
        damaged = Path(folder) / "damaged"

        def case(draw):
            run = draw.choice(runs)
            shutil.rmtree(damaged, ignore_errors=True)
            shutil.copytree(run, damaged)
            path = draw.choice(sorted(p for p in damaged.rglob("*") if p.is_file()))
            path.write_bytes(mutated(path.read_bytes(), draw))
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", r".*history\.jsonl: is damaged")
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
