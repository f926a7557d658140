"""The settings of a run: checked, written down, and what they mean for rates and decay."""

import json

import jax
import numpy as np
import pytest

from linoss.training import TrainingConfig


@pytest.mark.usefixtures("unchecked")
def test_json_round_trip():
    config = TrainingConfig(
        steps=np.int64(7), learning_rate=np.float64(0.1), clip_norm=None, patience=3, warmup=2
    )
    assert TrainingConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


RISE = 0.2 * np.arange(1, 5) / 5
COSINE = 0.2 * (1 + np.cos(np.pi * np.arange(8) / 8)) / 2


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"schedule": "constant", "steps": 5}, np.full(5, 0.2)),
        ({"steps": 8}, COSINE),
        ({"steps": 12, "warmup": 4}, [*RISE, *COSINE]),
        ({"schedule": "constant", "steps": 5, "warmup": 2}, [0.2 / 3, 0.4 / 3, 0.2, 0.2, 0.2]),
    ],
)
def test_the_learning_rate_of_each_update(make_problem, settings, expected):
    options = {"learning_rate": 0.2, "evaluate_every": 1, "validation_set": None, **settings}
    result = make_problem().train(**options)
    rates = [record["learning_rate"] for record in result.history]
    np.testing.assert_allclose(rates, expected, rtol=1e-6)


@pytest.mark.several
@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_matrices_decay_and_nothing_else(make_problem, norm):
    settings = {"norm": norm, "damped": True, "scheme": "imex", "bias": True}
    one, other = (
        make_problem(**settings).train(steps=1, weight_decay=decay, learning_rate=1e-3).model
        for decay in (0.0, 0.9)
    )
    leaves = zip(jax.tree_util.tree_flatten_with_path(one)[0], jax.tree.leaves(other), strict=True)
    names = {
        jax.tree_util.keystr(path, simple=True, separator=".")
        for (path, mine), yours in leaves
        if not np.array_equal(mine, yours)
    }
    assert names == {
        "encoder.weight",
        "blocks.0.mixer.input_weight",
        "blocks.0.mixer.output_weight",
        "blocks.0.mixer.feedthrough",
        "blocks.0.glu.weight",
        "head.decoder.weight",
    }
