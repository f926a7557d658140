"""From data to the arguments of a model."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import linoss.data
from linoss.training import Inputs

NAN = np.nan


@pytest.fixture
def gappy():
    """Two channels; the first case misses a value, the second a whole sample."""
    first = [[1.0, NAN, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0]]
    second = [[5.0, NAN, 7.0], [50.0, NAN, 70.0]]
    return linoss.data.sequences([np.array(first), np.array(second)])


def test_values_are_scaled_and_missing_ones_zero(gappy):
    inputs = Inputs.from_sequences(gappy, indicators=False)
    u = inputs(gappy.batch([0, 1]), dtype=np.float64)["u"]
    np.testing.assert_allclose(
        u[0, :, 1], (np.array([10, 20, 30, 40]) - 220 / 6) / inputs.scaling.deviation[1]
    )
    assert u[0, 1, 0] == 0
    assert not u[1, 1].any()
    assert not u[1, 3].any()


def test_a_sample_of_which_nothing_is_there_is_masked(gappy):
    arguments = Inputs.from_sequences(gappy)(gappy.batch([0, 1], 5))
    assert arguments["mask"].tolist() == [
        [True, True, True, True, False],
        [True, False, True, False, False],
    ]
    assert arguments["lengths"].tolist() == [4, 3]


def test_time_is_first_and_counts_in_longest_lengths(gappy):
    inputs = Inputs.from_sequences(gappy, time_channel=True)
    u = inputs(gappy.batch([0, 1]))["u"]
    assert inputs.in_size == 5
    assert u[0, :, 0].tolist() == u[1, :, 0].tolist() == [0, 0.25, 0.5, 0.75]


TIMES = [[0.0, 2.0, 3.0, 9.0], [5.0, 7.0, 11.0]]


def test_intervals_count_from_the_last_sample_that_is_there(gappy):
    cases = linoss.data.sequences([x.T for x in gappy.values], times=TIMES)
    inputs = Inputs.from_sequences(cases)
    assert inputs.irregular
    assert inputs.interval == 2.5  # the median of 2 and 3
    arguments = inputs(cases.batch([0, 1], 6), dtype=np.float64)
    np.testing.assert_allclose(arguments["intervals"][0], [1, 2 / 2.5, 1 / 2.5, 6 / 2.5, 1, 1])
    np.testing.assert_allclose(arguments["intervals"][1], [1, 1, 6 / 2.5, 1, 1, 1])


def test_even_times_are_regular_sampling():
    even = linoss.data.sequences(np.zeros((2, 1, 5)), times=np.arange(5) * 0.1)
    assert not Inputs.from_sequences(even).irregular
    assert Inputs.from_sequences(even, irregular=True).interval == pytest.approx(0.1)


def test_times_that_go_back_are_refused(gappy):
    inputs = Inputs(channels=2, lengths=(3, 4), interval=1.0)
    cases = linoss.data.Sequences(gappy.values, times=[np.array([0, 1, 1, 2.0]), np.arange(3.0)])
    with pytest.raises(ValueError, match="times do not increase at step 2 of case 0"):
        inputs(cases.batch([0]))


@pytest.mark.parametrize("options", [{}, {"scale": False, "time_channel": True}])
def test_json_round_trip(gappy, options):
    cases = linoss.data.sequences([x.T for x in gappy.values], times=TIMES)
    inputs = Inputs.from_sequences(cases, **options)
    again = Inputs.from_dict(json.loads(json.dumps(inputs.to_dict())))
    assert again.to_dict() == inputs.to_dict()
    one, other = (x(cases.batch([0, 1])) for x in (inputs, again))
    assert all(np.array_equal(one[k], other[k]) for k in ("u", "mask", "intervals"))


@given(length=st.integers(1, 10**6), shortest=st.integers(1, 1000), more=st.integers(0, 10**5))
def test_padding_is_at_most_half_of_the_length(length, shortest, more):
    inputs = Inputs(channels=1, lengths=(shortest, shortest + more))
    padded = inputs.padded_length(length)
    assert length <= padded <= max(1.5 * length, 16)
    if length <= shortest + more:
        assert padded <= shortest + more


def test_equal_lengths_are_not_padded_and_not_masked(waves):
    cases = waves(4, 0, (37, 37))
    inputs = Inputs.from_sequences(cases)
    assert inputs.padded_length(37) == 37
    assert not inputs.masked(cases.batch([0, 1])).any()
    arguments = inputs(cases.batch([0, 1]), masked=False)
    assert arguments["lengths"] is None
    assert arguments["mask"] is None


def test_whether_a_case_is_masked_is_its_own_matter(gappy):
    inputs = Inputs(channels=2, lengths=(4, 4))
    whole = linoss.data.sequences([np.ones((2, 4)), *(x.T for x in gappy.values)])
    assert inputs.masked(whole.batch([0, 1, 2])).tolist() == [False, False, True]
    assert inputs.masked(whole.batch([2, 0])).tolist() == [True, False]
    assert inputs.masked(whole.batch([0, 1, 2], 5)).all()
