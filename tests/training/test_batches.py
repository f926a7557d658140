"""Which cases are together, and in which order."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import linoss.data
from linoss.training import Inputs
from linoss.training._predict import Order, evaluation_batches, make_buckets, merge_small


def cases_of(lengths):
    return linoss.data.Sequences([np.zeros((n, 1), np.float32) for n in lengths])


def order(lengths, batch_size=4, seed=0):
    inputs = Inputs(channels=1, lengths=(min(lengths), max(lengths)))
    return Order.of(cases_of(lengths), inputs.padded_length, batch_size, seed), inputs


some_lengths = st.lists(st.integers(1, 300), min_size=1, max_size=60)


@given(lengths=some_lengths)
def test_buckets_hold_every_case_once(lengths):
    _, inputs = order(lengths)
    buckets = make_buckets(np.array(lengths), inputs.padded_length)
    assert sorted(np.concatenate([b.cases for b in buckets])) == list(range(len(lengths)))
    for bucket in buckets:
        assert all(inputs.padded_length(lengths[i]) == bucket.length for i in bucket.cases)


@given(lengths=some_lengths, least=st.integers(1, 40))
def test_small_buckets_join_longer_ones(lengths, least):
    _, inputs = order(lengths)
    buckets = merge_small(make_buckets(np.array(lengths), inputs.padded_length), least)
    assert sorted(np.concatenate([b.cases for b in buckets])) == list(range(len(lengths)))
    assert len(buckets) == 1 or min(len(b.cases) for b in buckets) >= least
    assert all(lengths[i] <= b.length for b in buckets for i in b.cases)


@given(lengths=some_lengths, batch_size=st.integers(1, 40), seed=st.integers(0, 9))
def test_an_epoch_is_a_function_of_seed_and_number(lengths, batch_size, seed):
    one, _ = order(lengths, batch_size, seed)
    other, _ = order(lengths, batch_size, seed)
    for number in (3, 0):
        epoch = one.epoch(number)
        assert len(epoch) == one.batches_per_epoch
        for (cases, length), (again, same) in zip(epoch, other.epoch(number), strict=True):
            assert cases.tolist() == again.tolist()
            assert length == same


@given(lengths=some_lengths, batch_size=st.integers(1, 40))
def test_batches_are_full_and_no_case_comes_twice_an_epoch(lengths, batch_size):
    batches, _ = order(lengths, batch_size)
    epoch = batches.epoch(0)
    drawn = np.concatenate([cases for cases, _ in epoch])
    assert len(np.unique(drawn)) == len(drawn)
    assert len(lengths) - len(drawn) < batch_size * len(batches.buckets)
    assert {len(cases) for cases, _ in epoch} == {min(batch_size, len(lengths))}


@given(step=st.integers(0, 40))
def test_one_can_begin_at_any_step(step):
    batches, _ = order([20] * 10 + [50] * 9)
    start, late = batches.from_step(0), batches.from_step(step)
    for _ in range(step):
        next(start)
    for _ in range(6):
        assert next(start)[0].tolist() == next(late)[0].tolist()


def test_epochs_and_seeds_differ():
    drawn = [
        np.concatenate([cases for cases, _ in order([9] * 40, seed=seed)[0].epoch(epoch)]).tolist()
        for seed, epoch in [(0, 0), (0, 1), (1, 0), (1, 1)]
    ]
    assert len({tuple(x) for x in drawn}) == 4


def test_what_is_left_out_changes():
    drawn, _ = order([9] * 10, batch_size=4)
    left = [set(range(10)) - set(np.concatenate([c for c, _ in drawn.epoch(e)])) for e in range(40)]
    assert all(len(x) == 2 for x in left)
    assert set.union(*left) == set(range(10))


@given(lengths=some_lengths, batch_size=st.one_of(st.none(), st.integers(1, 9)))
def test_evaluation_takes_each_case_once_in_batches_of_constant_size(lengths, batch_size):
    _, inputs = order(lengths)
    cases = cases_of(lengths)
    seen, sizes = [], {}
    for chosen, filled, length in evaluation_batches(cases, inputs.padded_length, batch_size):
        seen += chosen.tolist()
        assert filled[: len(chosen)].tolist() == chosen.tolist()
        assert set(filled) == set(chosen)
        assert sizes.setdefault(length, len(filled)) == len(filled)
    assert sorted(seen) == list(range(len(lengths)))
