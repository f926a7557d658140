"""Mean and deviation of each channel."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linoss.training import Scaling


@given(seed=st.integers(0, 2**32 - 1), cases=st.integers(1, 5), channels=st.integers(1, 3))
def test_one_at_a_time_gives_that_of_all(seed, cases, channels):
    random = np.random.default_rng(seed)
    arrays = [100 + random.normal(size=(random.integers(1, 9), channels)) for _ in range(cases)]
    arrays = [np.where(random.random(x.shape) < 0.2, np.nan, x) for x in arrays]
    arrays.append(random.normal(size=(2, channels)))
    together = np.concatenate(arrays)
    scaling = Scaling.from_sequences(arrays)
    np.testing.assert_allclose(scaling.mean, np.nanmean(together, axis=0))
    np.testing.assert_allclose(scaling.deviation, np.nanstd(together, axis=0))


@pytest.mark.parametrize("value", [0.1, 1e9])
def test_a_channel_that_never_changes_is_not_blown_up(value):
    scaling = Scaling.from_sequences([np.full((7, 1), value, np.float32)] * 3)
    assert scaling.deviation == [1.0]


def test_an_infinite_value_is_named():
    x = np.zeros((3, 2))
    x[1, 1] = np.inf
    with pytest.raises(ValueError, match="case 1 has an infinite value at step 1 in channel 1"):
        Scaling.from_sequences([np.zeros((3, 2)), x])


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("mean", "deviation"), [([np.nan], [1.0]), ([0.0], [0.0]), ([0.0], [np.inf]), ([0.0], [1, 2.0])]
)
def test_bad_numbers_are_refused(mean, deviation):
    with pytest.raises(ValueError, match=r"mean|deviation"):
        Scaling(np.array(mean), np.array(deviation))


def test_nothing_to_learn_from_is_refused():
    with pytest.raises(ValueError, match="every value of every channel is missing, expected some"):
        Scaling.from_sequences([np.full((5, 2), np.nan)] * 3)


def test_a_channel_without_a_value_is_named():
    array = np.stack([np.arange(5.0), np.full(5, np.nan)], axis=1)
    with pytest.warns(UserWarning, match="^channel 'b' has no values; remove it"):
        scaling = Scaling.from_sequences([array], ("a", "b"))
    assert scaling.deviation[1] == 1


@pytest.mark.parametrize("size", [1e300, 1e308])
def test_numbers_too_large_to_square_are_refused(size):
    with pytest.raises(ValueError, match=r"^target 0 has values from \S+ to \S+, expected"):
        Scaling.from_sequences([size * np.array([[0.5], [1.0], [1.5]])], kind="target")


@pytest.mark.parametrize(
    "array",
    [
        1e-300 * np.array([[1.0], [2.0]]),
        1e16 + np.array([[0.0], [2.0]]),
        1e8 + np.array([[0.0], [8.0]], np.float32),
    ],
    ids=["too small to square", "offset", "offset in single precision"],
)
def test_differences_that_are_only_rounding_are_named(array):
    with pytest.warns(UserWarning, match="^channel 0 has values from .* differences are below"):
        assert Scaling.from_sequences([array.astype(array.dtype)]).deviation == 1
