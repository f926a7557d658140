"""Which cases are together, and in which order."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import linoss.data
from linoss.training import Inputs
from linoss.training._predict import Order, evaluation_batches, make_buckets


def pad_of(lengths):
    return Inputs(channels=1, lengths=(min(lengths), max(lengths))).padded_length


def order(lengths, batch_size=4, seed=0):
    return Order(np.array(lengths), pad_of(lengths), batch_size, seed)


some_lengths = st.lists(st.integers(1, 300), min_size=1, max_size=60)


@given(lengths=some_lengths, least=st.integers(1, 40))
def test_buckets_hold_every_case_once_and_small_ones_join_longer_ones(lengths, least):
    pad = pad_of(lengths)
    buckets = make_buckets(np.array(lengths), pad, least)
    assert sorted(np.concatenate([cases for _, cases in buckets])) == list(range(len(lengths)))
    assert len(buckets) == 1 or min(len(cases) for _, cases in buckets) >= least
    for length, cases in buckets:
        assert max(pad(lengths[i]) for i in cases) == length


@given(lengths=some_lengths, batch_size=st.integers(1, 40), seed=st.integers(0, 9))
def test_batches_are_full_and_a_function_of_seed_and_epoch(lengths, batch_size, seed):
    one, other = (order(lengths, batch_size, seed) for _ in range(2))
    for number in (3, 0):
        epoch = one.epoch(number)
        assert len(epoch) == one.batches_per_epoch
        for (cases, length), (again, same) in zip(epoch, other.epoch(number), strict=True):
            assert (cases.tolist(), length) == (again.tolist(), same)
        drawn = np.concatenate([cases for cases, _ in epoch])
        assert len(np.unique(drawn)) == len(drawn)
        assert {len(cases) for cases, _ in epoch} == {min(batch_size, len(lengths))}


@given(step=st.integers(0, 40))
def test_one_can_begin_at_any_step(step):
    batches = order([20] * 10 + [50] * 9)
    start, late = batches.from_step(0), batches.from_step(step)
    for _ in range(step):
        next(start)
    for _ in range(6):
        assert next(start)[0].tolist() == next(late)[0].tolist()


def test_epochs_and_seeds_differ_and_so_does_what_is_left_out():
    drawn = [
        np.concatenate([cases for cases, _ in order([9] * 10, seed=seed).epoch(epoch)])
        for seed in (0, 1)
        for epoch in range(40)
    ]
    assert len({tuple(x) for x in drawn}) == 80
    left = [set(range(10)) - set(x) for x in drawn[:40]]
    assert all(len(x) == 2 for x in left)
    assert set.union(*left) == set(range(10))


@given(lengths=some_lengths, batch_size=st.one_of(st.none(), st.integers(1, 9)))
def test_evaluation_takes_each_case_once_in_batches_of_constant_size(lengths, batch_size):
    cases = linoss.data.Sequences([np.zeros((n, 1), np.float32) for n in lengths])
    seen, sizes = [], {}
    for chosen, filled, length in evaluation_batches(cases, pad_of(lengths), batch_size):
        seen += chosen.tolist()
        assert filled[: len(chosen)].tolist() == chosen.tolist()
        assert set(filled) == set(chosen)
        assert sizes.setdefault(length, len(filled)) == len(filled)
    assert sorted(seen) == list(range(len(lengths)))
