"""Small banks, and sequences of all kinds."""

import numpy as np
import pytest

from linoss.features._bank import draw


@pytest.fixture
def make_bank():
    """A bank with thresholds near the middle of outputs."""
    from dataclasses import replace

    def make(channels=1, size=96, longest=200, causal=False, seed=0):
        random = np.random.default_rng(seed)
        mean, scale = random.normal(size=channels), random.uniform(0.5, 2, channels)
        bank = draw(random, size, longest=longest, causal=causal, mean=mean, scale=scale)
        return replace(bank, threshold=0.1 * random.normal(size=bank.size))

    return make


@pytest.fixture
def make_cases():
    """Random walks `(time, channels)`, and intervals between their samples."""

    def make(lengths, channels=1, missing=0.0, seed=1):
        random = np.random.default_rng(seed)
        cases = [random.normal(size=(n, channels)).cumsum(axis=0) / 4 for n in lengths]
        for case in cases:
            case[random.random(case.shape) < missing] = np.nan
        intervals = [np.r_[1, random.exponential(size=n - 1) + 0.05] for n in lengths]
        return [case.astype(np.float32) for case in cases], intervals

    return make
