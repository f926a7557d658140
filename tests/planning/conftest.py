"""A small model, of any settings."""

import pytest

import linoss


@pytest.fixture(scope="session")
def make_config():
    def make(**changes):
        sizes = {"in_size": 2, "out_size": 3, "hidden_size": 32, "state_size": 16, "num_blocks": 2}
        return linoss.LinOSSConfig(**{**sizes, "norm": "batch", "dropout": 0.1, **changes})

    return make
