"""A training that is limited in minutes: a whole one, with fewer updates."""

import jax
import numpy as np
import pytest

import linoss
from linoss.data import sequences
from linoss.training import Classification, Inputs, TrainingConfig, train

pytestmark = pytest.mark.usefixtures("single_precision")


def trained(config, **more):
    labels = np.arange(16) % 2
    cases = sequences(np.random.default_rng(0).normal(size=(16, 1, 20)), y=labels)
    sizes = {"in_size": 1, "out_size": 2, "hidden_size": 4, "state_size": 4, "num_blocks": 1}
    model = linoss.LinOSS(linoss.LinOSSConfig(**sizes), key=jax.random.key(0))
    objective = Classification.from_labels(labels)
    return train(model, Inputs.from_sequences(cases), objective, cases, cases, config, **more)


@pytest.mark.integration
def test_time_ends_it_with_a_schedule_and_evaluations_of_its_own(tmp_path):
    steps = 10**7
    limits = {"steps": steps, "warmup": steps // 10, "evaluate_every": steps // 20}
    config = TrainingConfig(**limits, batch_size=8, learning_rate=1e-3, minutes=0.05)
    trained(TrainingConfig(steps=1, batch_size=8))  # compiles
    result = trained(config, directory=tmp_path)
    assert 0 < result.steps < steps
    assert result.history[-1]["step"] == result.steps
    assert result.best_metric is not None
    rates = [record["learning_rate"] for record in result.history]
    assert len(rates) > 3
    assert 0.5e-3 < max(rates) <= 1e-3
    assert rates[-1] < 0.2e-3
    again = trained(config, directory=tmp_path, resume=True)
    assert again.history == result.history


def test_without_need_it_changes_nothing():
    """Enough time for all updates: the same weights, bit for bit."""
    config = {"steps": 12, "warmup": 3, "evaluate_every": 4}
    ample, unlimited = (trained(TrainingConfig(**config, minutes=m)) for m in (1e9, None))
    assert [r["step"] for r in ample.history] == [4, 8, 12]
    for mine, other in zip(
        jax.tree.leaves(ample.model), jax.tree.leaves(unlimited.model), strict=True
    ):
        np.testing.assert_array_equal(mine, other)


def test_no_time_at_all_is_one_update():
    assert trained(TrainingConfig(steps=50, minutes=0)).steps == 1
