"""Small problems that a small model solves in a second or two."""

import numpy as np
import pandas
import pytest

from linoss import LinOSSForecaster

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
    "horizon": 8,
    "past": 32,
}


@pytest.fixture(scope="session")
def small():
    """Makes a small forecaster."""
    return lambda **options: LinOSSForecaster(**{**SMALL, **options})


@pytest.fixture(scope="session")
def tide():
    """Two waves, (time, variables)."""
    time = np.arange(400)
    return np.stack([np.sin(time / 5), 3 + np.cos(time / 8)], axis=1)


@pytest.fixture(scope="session")
def noisy(small):
    """A forecaster of a daily wave with noise, and the wave."""
    hours = pandas.date_range("2024-01-01", periods=2400, freq="h")
    random = np.random.default_rng(0)
    load = 50 + 10 * np.sin(2 * np.pi * np.arange(2400) / 24) + random.normal(size=2400)
    frame = pandas.DataFrame({"load": load}, index=hours)
    return small().fit(frame[:1800]), frame
