"""Small problems that a small model learns in a moment."""

import dataclasses
import shutil
from typing import Any

import jax
import numpy as np
import pytest

import linoss.data
from linoss import LinOSS, LinOSSConfig
from linoss.training import Classification, Inputs, TrainingConfig, train


@dataclasses.dataclass
class Problem:
    """The arguments of `train`."""

    model: Any
    inputs: Any
    objective: Any
    training_set: Any
    validation_set: Any
    config: TrainingConfig

    def train(self, **changes):
        """Train with other settings of the config, or other arguments."""
        names = {field.name for field in dataclasses.fields(TrainingConfig)}
        settings = {name: changes.pop(name) for name in names & changes.keys()}
        config = dataclasses.replace(self.config, **settings)
        return train(**{**vars(self), "config": config, **changes})


def _waves(cases, seed, lengths=(30, 30), missing=0.0):
    """Slow and fast waves with a little noise; labels say which."""
    random = np.random.default_rng(seed)
    fast = np.arange(cases) % 2
    series = []
    for one in fast:
        t = np.arange(random.integers(lengths[0], lengths[1] + 1))
        wave = np.sin((0.3 + 0.5 * one) * t + random.uniform(0, 6))
        wave = 5 + 2 * (wave + 0.1 * random.normal(size=len(t)))
        series.append(np.where(random.random(len(t)) < missing, np.nan, wave)[None])
    return linoss.data.sequences(series, y=np.array(["slow", "fast"])[fast])


def _make_model(in_size=1, out_size=2, seed=0, **changes):
    sizes = {"hidden_size": 4, "state_size": 4, "num_blocks": 1}
    config = LinOSSConfig(in_size=in_size, out_size=out_size, **{**sizes, **changes})
    return LinOSS(config, key=jax.random.key(seed))


def _make_problem(lengths=(30, 30), missing=0.0, **model):
    training, validation = _waves(24, 0, lengths, missing), _waves(10, 1, lengths, missing)
    inputs = Inputs.from_sequences(training)
    objective = Classification.from_labels(training.labels)
    return Problem(
        model=_make_model(inputs.in_size, **model),
        inputs=inputs,
        objective=objective,
        training_set=training,
        validation_set=validation,
        config=TrainingConfig(steps=12, batch_size=8, evaluate_every=4, learning_rate=1e-2),
    )


@pytest.fixture(scope="session")
def waves():
    """(cases, seed, lengths, missing) to labelled waves."""
    return _waves


@pytest.fixture(scope="session")
def make_model():
    """Config to a tiny model."""
    return _make_model


@pytest.fixture(scope="session")
def make_problem():
    """(lengths, missing, **model) to a problem of a dozen updates."""
    return _make_problem


@pytest.fixture(scope="session")
def read_run():
    """A directory to what must not depend on how the run went: weights and history."""
    return lambda directory: (directory / "weights.safetensors").read_bytes()


@pytest.fixture(scope="session")
def assert_same_trees():
    """Two trees have the same arrays, bit for bit."""

    def check(one, other):
        for x, y in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
            np.testing.assert_array_equal(x, y, strict=True)

    return check


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory):
    """The directory of a run that was not stopped, to be read only."""
    directory = tmp_path_factory.mktemp("finished") / "run"
    with jax.enable_x64(False):
        _make_problem().train(directory=directory)
    return directory


@pytest.fixture
def finished(finished_run, tmp_path):
    """A copy of it."""
    return shutil.copytree(finished_run, tmp_path / "finished")


@pytest.fixture
def script_metrics(monkeypatch):
    """Let evaluations give these metrics, one after the other."""

    def script(*metrics):
        coming = iter(metrics)
        place = "linoss.training._train.metric_and_loss"
        monkeypatch.setattr(place, lambda *_, **__: (next(coming), 0.5))

    return script
