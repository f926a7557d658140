"""Small problems that a small model solves in a second or two."""

import numpy as np
import pytest

# Compiled in half the time of the default scheme, which other tests train.
SMALL = {
    "scheme": "im",
    "damped": False,
    "hidden_size": 16,
    "state_size": 16,
    "num_blocks": 1,
    "steps": 100,
    "learning_rate": 1e-2,
    "random_state": 0,
}


@pytest.fixture(scope="session")
def small():
    """Settings of a small model."""
    return dict(SMALL)


@pytest.fixture(scope="session")
def alone(small):
    """Settings of a classifier or regressor of one small model."""
    return {**small, "n_models": 1}


@pytest.fixture(scope="session")
def waves():
    """Slow and fast waves, (cases, 2, time), and which they are."""
    labels = np.array(["slow", "fast"])[np.arange(48) % 2]
    speed = np.where(labels == "slow", 1.0, 2.0)
    values = np.sin(np.outer(speed, np.arange(40)) / 4)
    noise = np.random.default_rng(0).normal(size=(48, 2, 40))
    return np.stack([values, -values], axis=1) + 0.1 * noise, labels


@pytest.fixture(scope="session")
def tide():
    """Two waves, (time, variables)."""
    time = np.arange(400)
    return np.stack([np.sin(time / 5), 3 + np.cos(time / 8)], axis=1)
