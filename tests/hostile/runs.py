"""Damaged directories of runs: the same weights, or a clear error; never other weights."""

import contextlib
import shutil
import tempfile
import warnings
from pathlib import Path

import jax
import numpy as np
from drivers import Finding
from files import mutated

from linoss.cli._run_settings import ColumnNames, read_column_names, write_column_names
from linoss.estimators import LinOSSClassifier, LinOSSForecaster, load
from linoss.training import CheckpointError

SMALL = {"hidden_size": 4, "state_size": 4, "num_blocks": 1, "steps": 4, "random_state": 0}
NAMES = ColumnNames(("pressure", "speed"), {"label": "kind", "drop": ["day"]})


@contextlib.contextmanager
def driver():
    """Damage a file of a run, and load it."""
    with tempfile.TemporaryDirectory() as folder:
        runs = [Path(folder) / name for name in ("classifier", "forecaster")]
        waves = np.random.default_rng(0).normal(size=(8, 2, 20))
        several = LinOSSClassifier(**SMALL, n_models=2, n_oscillators=16)
        several.fit(waves, np.arange(8) % 2, directory=runs[0])
        LinOSSForecaster(**SMALL, horizon=2, past=8).fit(waves[0].T, directory=runs[1])
        for run in runs:
            write_column_names(run, NAMES)
        whole = {run: _content(load(run)) for run in runs}
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
                    found, names = _content(load(damaged)), read_column_names(damaged)
                except CheckpointError as error:
                    if not str(error).startswith(str(damaged)):
                        raise Finding(f"an error that names no file: {error}") from None
                    return "refused"
            if names != NAMES:
                raise Finding(f"{path.name}: other names of columns, {names}")
            if found[0] != whole[run][0]:
                raise Finding(f"{path.name}: another model")
            if found[1] not in ([], whole[run][1]):
                raise Finding(f"{path.name}: another history")
            return "the same model"

        yield case


def _content(estimator):
    """What must not change unnoticed, and the history."""
    models = getattr(estimator, "models_", [estimator.model_])
    leaves = [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(models)]
    parts = [estimator.inputs_.to_dict(), estimator.objective_.to_dict(), estimator.get_params()]
    if getattr(estimator, "oscillators_", None) is not None:
        leaves += [
            estimator.weights_.tobytes(),
            estimator.oscillators_.ridge_.coefficients.tobytes(),
        ]
    return (leaves, str(parts)), estimator.history_
