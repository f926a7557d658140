"""Responses of a bank against independent computations, and of all paths against each other."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

import linoss
from linoss import kernels
from linoss.features._bank import LANES, draw, moves
from linoss.features._response import (
    Response,
    ResponseStream,
    _in_jax,
    native,
    respond,
    trace,
)

needs_kernels = pytest.mark.skipif(not kernels.usable(), reason="the kernels were not built")


@pytest.fixture
def make_bank():
    """A bank with thresholds near the middle of outputs."""

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


def drive_of(bank, case, intervals, group):
    """What drives a group, and the intervals, in the order of reading, written out anew."""
    values = (case.astype(np.float64) - bank.mean) * bank.scale
    drive = bank.drive[group]
    if bank.backwards[drive]:
        values, intervals = values[::-1], np.r_[1, intervals[:0:-1]]
    mixed = values @ bank.mixture[drive]
    if bank.order[drive]:
        mixed = np.diff(mixed, prepend=mixed[0]) / intervals
        return np.r_[0, mixed], intervals
    return np.r_[mixed[0], mixed], intervals


def in_parts(case, intervals):
    """A case with samples at most about 1 apart, by straight lines; at most 8 in an interval."""
    rows, steps = [case[0].astype(np.float64)], [1.0]
    for before, after, h in zip(case[:-1], case[1:], intervals[1:], strict=True):
        count = int(min(max(np.floor(h + 0.4), 1), 8))
        rows += [before + (after.astype(np.float64) - before) * k / count for k in range(1, count)]
        rows.append(after)
        steps += [h / count] * count
    return np.array(rows, np.float32), np.array(steps)


def loop(bank, case, intervals):
    """Outputs `(time, n)` and statistics `(4, n)` by a loop in double precision."""
    outputs = np.zeros((len(case), bank.size))
    steps = np.zeros((len(case), bank.size))
    for group in range(bank.size // LANES):
        lanes = slice(group * LANES, (group + 1) * LANES)
        force, h = drive_of(bank, case, intervals, group)
        steps[:, lanes] = h[:, None]
        for stage in range(1 + int(bank.chained[lanes][0])):
            force = np.broadcast_to(np.reshape(force, (len(h) + 1, -1)), (len(h) + 1, LANES))
            s, x = np.zeros(LANES, complex), []
            for n in range(len(h)):
                l_, p, q = moves(bank.rates[stage, lanes], bank.readouts[stage, lanes], h[n])
                s = l_ * s + p * force[n] + q * force[n + 1]
                x.append(s.real)
            outputs[:, lanes] = x
            force = np.concatenate([np.zeros((1, LANES)), x])
    return outputs, statistics(outputs > bank.threshold, steps)


def statistics(up, steps):
    found, total = np.zeros((4, up.shape[1])), steps.sum(axis=0)
    late = (steps.cumsum(axis=0) - steps / 2) / total - 0.5
    for j in range(up.shape[1]):
        running = longest = stretches = 0.0
        for n in range(len(up)):
            stretches += up[n, j] and (n == 0 or not up[n - 1, j])
            running = running + steps[n, j] if up[n, j] else 0.0
            longest = max(longest, running)
        lateness = (steps * late)[up[:, j], j].sum()
        found[:, j] = [steps[up[:, j], j].sum(), longest, stretches, lateness]
    return found / total


@pytest.mark.parametrize("regular", [True, False])
@pytest.mark.parametrize("channels", [1, 3])
def test_equals_a_loop_in_double_precision(make_bank, make_cases, channels, regular):
    bank = make_bank(channels)
    (case,), (intervals,) = make_cases([150], channels)
    intervals = np.ones(150) if regular else intervals
    outputs, expected = loop(bank, *in_parts(case, intervals))
    given_intervals = None if regular else [intervals]
    found = trace(bank, [case], given_intervals, 1, len(outputs))[0]
    np.testing.assert_allclose(found, outputs, rtol=1e-4, atol=2e-5 * np.abs(outputs).max())
    close = np.abs(outputs - bank.threshold).min(axis=0) < 1e-5  # may be on either side
    np.testing.assert_allclose(
        respond(bank, [case], given_intervals)[0][:, ~close], expected[:, ~close], atol=1e-6
    )
    assert close.mean() < 0.2


@pytest.mark.parametrize("regular", [True, False])
def test_windows_are_cut_from_the_outputs(make_bank, make_cases, regular):
    """Statistics of halves and quarters, each by a loop over the outputs inside it."""
    bank, lengths = make_bank(2), [1, 2, 3, 150]
    cases, intervals = make_cases(lengths, 2)
    statistics_of = respond(bank, cases, None if regular else intervals, range(28))
    chosen = respond(bank, cases, None if regular else intervals, [2, 9, 21])
    np.testing.assert_array_equal(chosen, statistics_of[:, [2, 9, 21]])
    for case, h, result in zip(cases, intervals, statistics_of, strict=True):
        h = np.ones(len(case)) if regular else h
        steps = in_parts(case, h)[1]
        outputs = trace(bank, [case], None if regular else [h], 1, len(steps))[0]
        backwards = np.repeat(bank.backwards[bank.drive], LANES)
        for way, lanes in ((1, ~backwards), (-1, backwards)):
            own = np.r_[1, steps[:0:-1]] if way < 0 else steps
            middle = (own.cumsum() - own / 2) / own.sum()
            up = outputs[:, lanes] > bank.threshold[lanes]
            row = 0
            for count in (1, 2, 4):
                for part in range(count)[::way]:
                    inside = np.minimum((middle * count + 1e-9).astype(int), count - 1) == part
                    expected = np.zeros((4, lanes.sum()))
                    if inside.any():
                        each = np.repeat(own[inside, None], lanes.sum(), axis=1)
                        expected = statistics(up[inside], each)
                    np.testing.assert_allclose(result[row : row + 4, lanes], expected, atol=1e-5)
                    row += 4


def test_a_single_oscillator_is_the_exact_scheme(make_bank):
    """With a force that is held, s' = mu s + b is what `discretize("exact")` steps."""
    bank = make_bank(size=48)
    rates, readouts = bank.rates[0], bank.readouts[0]
    force = np.random.default_rng(0).normal(size=60)
    step = linoss.discretize(
        "exact",
        stiffness=jnp.asarray(np.abs(rates) ** 2),
        damping=jnp.asarray(-2 * rates.real),
        timestep=0.7,
    )
    y, _ = linoss.oscillator_scan(step, jnp.tile(force[:, None], (1, bank.size)))
    l_, p, q = moves(rates, readouts, 0.7)
    s, outputs = np.zeros(bank.size, complex), []
    for b in force:
        s = l_ * s + (p + q) * b
        outputs.append((s / readouts).imag / rates.imag)
    np.testing.assert_allclose(outputs, y, rtol=1e-6, atol=1e-9)


def test_a_step_solves_the_differential_equation(make_bank):
    bank = make_bank(size=16)
    rates, readouts = bank.rates[0], bank.readouts[0]
    before, now, h = 0.3, -1.2, 2.5
    start = np.linspace(-1, 1, bank.size) + 0.5j
    solved = solve_ivp(
        lambda t, s: rates * s + readouts * (before + (now - before) * t / h),
        (0, h),
        start,
        rtol=1e-10,
        atol=1e-12,
    )
    l_, p, q = moves(rates, readouts, h)
    np.testing.assert_allclose(l_ * start + p * before + q * now, solved.y[:, -1], rtol=1e-7)


@pytest.mark.integration
@needs_kernels
@settings(max_examples=settings.default.max_examples // 5)
@given(data=st.data())
def test_the_kernel_equals_jax(data):
    channels = data.draw(st.integers(1, 4))
    lengths = data.draw(st.lists(st.sampled_from([1, 2, 63, 64, 65, 130]), min_size=1, max_size=3))
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    mean, scale = random.normal(size=channels), random.uniform(0.5, 2, channels)
    bank = draw(random, 48, longest=100, causal=data.draw(st.booleans()), mean=mean, scale=scale)
    bank = replace(bank, threshold=0.1 * random.normal(size=bank.size))
    cases = [random.normal(size=(n, channels)).cumsum(axis=0).astype(np.float32) for n in lengths]
    for case in cases:
        case[random.random(case.shape) < data.draw(st.sampled_from([0, 0.3]))] = np.nan
    kind = data.draw(st.sampled_from(["regular", "gaps", "irregular"]))
    intervals = None
    if kind == "gaps":
        intervals = [np.r_[1, random.integers(1, 5, n - 1)].astype(float) for n in lengths]
    elif kind == "irregular":
        intervals = [np.r_[1, random.exponential(size=n - 1) + 1e-3] for n in lengths]
    found = respond(bank, cases, intervals)
    traced = trace(bank, cases, intervals, 1, 8 * max(lengths))
    for i, (expected, outputs) in enumerate(_in_jax(bank, cases, intervals)):
        size = max(1, np.abs(outputs).max(initial=0))
        np.testing.assert_allclose(traced[i, : len(outputs)], outputs, atol=3e-6 * size)
        assert np.isnan(traced[i, len(outputs) :]).all()
        close = (np.abs(outputs - bank.threshold) < 1e-5 * size).any(axis=0)
        np.testing.assert_allclose(found[i][:, ~close], expected[:, ~close], atol=1e-6)


@pytest.mark.parametrize("plain", [False, True])
def test_a_stream_equals_the_batch(make_bank, make_cases, monkeypatch, plain):
    if plain:
        monkeypatch.setattr(kernels, "usable", lambda: False)
    bank = make_bank(2, causal=True, size=48)
    (case,), (intervals,) = make_cases([80], 2, missing=0.4)
    stream = ResponseStream(bank)
    for n in range(80):
        found = stream(case[n : n + 1], intervals[n : n + 1])
        if n in (0, 40, 79) and not np.isnan(case[: n + 1]).all():
            batch = respond(bank, [case[: n + 1]], [intervals[: n + 1]])[0]
            np.testing.assert_allclose(found, batch, rtol=1e-6, atol=2e-7)


@needs_kernels
def test_a_sample_without_values_is_a_longer_step(make_bank, make_cases):
    bank = make_bank(2)
    (case,), _ = make_cases([100], 2)
    gone = np.random.default_rng(0).random(100) < 0.4
    gone[0] = False
    holes = np.where(gone[:, None], np.nan, case)
    kept = np.flatnonzero(~gone)
    found = respond(bank, [holes])
    expected = respond(bank, [case[kept]], [np.diff(kept, prepend=-1).astype(float)])
    np.testing.assert_array_equal(found, expected)


@needs_kernels
def test_a_case_alone_equals_the_case_among_others(make_bank, make_cases):
    """Few cases are split over threads by oscillators, many by cases."""
    bank = make_bank(size=16 * 70)
    cases, _ = make_cases([90] * 80)
    together = respond(bank, cases)
    alone = np.concatenate([respond(bank, [case]) for case in cases[:5]])
    np.testing.assert_array_equal(together[:5], alone)


@needs_kernels
def test_layout_and_strides_do_not_matter(make_bank, make_cases):
    bank = make_bank(3)
    (case,), _ = make_cases([90], 3)
    strided = np.asfortranarray(np.repeat(case, 2, axis=0))[::2]
    np.testing.assert_array_equal(respond(bank, [case]), respond(bank, [strided]))


@needs_kernels
@pytest.mark.slow
def test_a_million_steps_stay_exact(make_bank):
    """To 1e-4 of the largest output; slow oscillators are carried in double precision."""
    bank = make_bank(size=96, longest=10**6)
    case = np.random.default_rng(0).normal(size=(10**6, 1)).astype(np.float32)
    found = trace(bank, [case], None, 1000, 1000)[0]
    expected = next(iter(_in_jax(bank, [case], None)))[1][::1000]
    largest = np.abs(expected).max(axis=0)
    assert np.all(np.abs(found - expected).max(axis=0) < 1e-4 * largest)


def test_outputs_of_one_case_in_the_order_of_reading(make_bank, make_cases):
    bank = make_bank()
    (case,), (intervals,) = make_cases([40])
    response = Response(bank, case, intervals)
    whole = trace(bank, [case], [intervals], 1, len(response.steps))[0]
    np.testing.assert_allclose(response.steps, in_parts(case, intervals)[1])
    seen = np.zeros(bank.size, bool)
    for lanes, backwards, outputs in response.outputs(40 * LANES):
        assert np.all(bank.backwards[bank.drive[lanes // LANES]] == backwards)
        np.testing.assert_array_equal(outputs, whole[:, lanes])
        seen[lanes] = True
    assert seen.all()


@needs_kernels
def test_the_kernel_refuses_what_does_not_fit(make_bank, make_cases):
    bank = native(make_bank(2))
    (case,), (intervals,) = make_cases([10], 2)
    out, rows = np.zeros((1, 4, 96), np.float32), np.arange(4, dtype=np.int32)
    with pytest.raises(ValueError, match="channels"):
        bank.respond([case[:, :1]], [], rows, out)
    with pytest.raises(ValueError, match="intervals: wrong shape"):
        bank.respond([case], [intervals[:5]], rows, out)
    with pytest.raises(ValueError, match="intervals: wrong number"):
        bank.respond([case], [intervals, intervals], rows, out)
    for wrong, place in ((out[:, :2].copy(), rows), (out, rows[:3]), (out, rows + 1)):
        with pytest.raises(ValueError, match="rows or out: wrong shape"):
            bank.respond([case], [], place, wrong)
    with pytest.raises(ValueError, match="backwards"):
        kernels.native.FeatureStream(bank)
