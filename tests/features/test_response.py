"""Responses of a bank against independent computations, and of all paths against each other."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

import linoss.data
from linoss import kernels
from linoss.features import LANES, FeatureStream, moves

needs_kernels = pytest.mark.skipif(not kernels.usable(), reason="the kernels were not built")


def walks(lengths, channels=1, missing=0.0, seed=1):
    """Random walks `(channels, time)` in single precision, and irregular times."""
    random = np.random.default_rng(seed)
    cases = [random.normal(size=(channels, n)).cumsum(axis=1) / 4 for n in lengths]
    for case in cases:
        case[random.random(case.shape) < missing] = np.nan
    times = [np.cumsum(np.r_[1, random.exponential(size=n - 1) + 0.05]) for n in lengths]
    return [case.astype(np.float32) for case in cases], times


def fitted(channels=1, size=96, longest=200, *, timed=False, **options):
    """Features of oscillators with thresholds near the middle of outputs."""
    cases, times = walks([longest] * 4, channels, seed=2)
    features = linoss.OscillatorFeatures(n_oscillators=size, random_state=0, **options)
    return features.fit(cases, times=times if timed else None)


def intervals_of(features, times):
    return np.diff(times / features.interval_, prepend=times[0] / features.interval_ - 1)


def outputs_of(features, case, times=None):
    """Outputs `(steps, n)`, each in the order of reading."""
    cases = linoss.data.sequences([case], times=None if times is None else [times])
    response = features.response(cases)
    outputs = np.full((len(response.steps), features.bank_.size), np.nan)
    for lanes, backwards, some in response.outputs(40 * LANES):
        ways = features.bank_.backwards[features.bank_.drive[lanes // LANES]]
        assert np.all(ways == backwards)
        outputs[:, lanes] = some
    assert not np.isnan(outputs).any()
    return outputs


def statistics_of(features, cases, times=None, rows=range(4)):
    sequences = linoss.data.sequences(cases, times=times)
    table = features.transform_cases(sequences, rows=rows)
    return table.reshape(len(cases), len(rows), -1)


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
    return outputs, counted(outputs > bank.threshold, steps)


def counted(up, steps):
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


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
def test_equals_a_loop_in_double_precision(channels, timed):
    features = fitted(channels, timed=timed)
    (case,), (times,) = walks([150], channels)
    intervals = intervals_of(features, times) if timed else np.ones(150)
    outputs, expected = loop(features.bank_, *in_parts(case.T, intervals))
    result = outputs_of(features, case, times if timed else None)
    np.testing.assert_allclose(result, outputs, rtol=1e-4, atol=2e-5 * np.abs(outputs).max())
    close = np.abs(outputs - features.bank_.threshold).min(axis=0) < 1e-5  # may be on either side
    table = statistics_of(features, [case], [times] if timed else None)[0]
    np.testing.assert_allclose(table[:, ~close], expected[:, ~close], atol=1e-6)
    assert close.mean() < 0.2


@pytest.mark.parametrize("timed", [False, True])
def test_windows_are_cut_from_the_outputs(timed):
    """Statistics of halves and quarters, each by a loop over the outputs inside it."""
    features = fitted(2, timed=timed)
    bank, (cases, all_times) = features.bank_, walks([2, 3, 150], 2)
    times = all_times if timed else None
    table = statistics_of(features, cases, times, range(28))
    chosen = statistics_of(features, cases, times, [2, 9, 21])
    np.testing.assert_array_equal(chosen, table[:, [2, 9, 21]])
    backwards = np.repeat(bank.backwards[bank.drive], LANES)
    for case, clock, result in zip(cases, all_times, table, strict=True):
        h = intervals_of(features, clock) if timed else np.ones(case.shape[1])
        steps, outputs = (
            in_parts(case.T, h)[1],
            outputs_of(features, case, clock if timed else None),
        )
        for way, lanes in ((1, ~backwards), (-1, backwards)):
            own = np.r_[1, steps[:0:-1]] if way < 0 else steps
            middle, row = (own.cumsum() - own / 2) / own.sum(), 0
            up = outputs[:, lanes] > bank.threshold[lanes]
            for count in (1, 2, 4):
                for part in range(count)[::way]:
                    inside = np.minimum((middle * count + 1e-9).astype(int), count - 1) == part
                    expected = np.zeros((4, lanes.sum()))
                    if inside.any():
                        each = np.repeat(own[inside, None], lanes.sum(), axis=1)
                        expected = counted(up[inside], each)
                    np.testing.assert_allclose(result[row : row + 4, lanes], expected, atol=1e-5)
                    row += 4


def test_a_single_oscillator_is_the_exact_scheme():
    """With a force that is held, s' = mu s + b is what `discretize("exact")` steps."""
    bank = fitted(size=48).bank_
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


def test_a_step_solves_the_differential_equation():
    bank = fitted(size=16).bank_
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


def without_kernels(function, *arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "usable", lambda: False)
        return function(*arguments)


@pytest.mark.integration
@needs_kernels
@settings(max_examples=settings.default.max_examples // 5)
@given(data=st.data())
def test_the_kernel_equals_numpy(data):
    channels, kind = (
        data.draw(st.integers(1, 4)),
        data.draw(st.sampled_from(["even", "gaps", "odd"])),
    )
    lengths = data.draw(st.lists(st.sampled_from([2, 63, 64, 65, 130]), min_size=1, max_size=3))
    features = fitted(channels, 48, 100, timed=kind != "even", causal=data.draw(st.booleans()))
    missing, seed = data.draw(st.sampled_from([0, 0.3])), data.draw(st.integers(0, 1000))
    cases, times = walks(lengths, channels, missing, seed)
    for case in cases:
        case[:, 0] = 1  # at least one value
    if kind == "gaps":
        random = np.random.default_rng(seed)
        times = [features.interval_ * random.integers(1, 5, n).cumsum() for n in lengths]
    times = None if kind == "even" else times
    table = statistics_of(features, cases, times)
    expected = without_kernels(statistics_of, features, cases, times)
    for i, case in enumerate(cases):
        own = None if times is None else times[i]
        outputs = outputs_of(features, case, own)
        in_float64 = without_kernels(outputs_of, features, case, own)
        size = max(1, np.abs(in_float64).max())
        np.testing.assert_allclose(outputs, in_float64, atol=3e-6 * size)
        close = (np.abs(in_float64 - features.bank_.threshold) < 1e-5 * size).any(axis=0)
        np.testing.assert_allclose(table[i][:, ~close], expected[i][:, ~close], atol=1e-6)


def test_a_stream_without_kernels_equals_the_batch(monkeypatch):
    monkeypatch.setattr(kernels, "usable", lambda: False)
    features = fitted(2, 48, timed=True, causal=True)
    (case,), (times,) = walks([80], 2, missing=0.4)
    case[:, 0] = 1
    stream = FeatureStream(features)
    for n in range(80):
        result = stream(case[:, n], times[n])
        if n in (0, 40, 79):
            batch = features.transform([case[:, : n + 1]], times=[times[: n + 1]])
            np.testing.assert_allclose(result, batch, rtol=1e-6, atol=2e-7)


@needs_kernels
def test_a_sample_without_values_is_a_longer_step():
    features = fitted(2, timed=True)
    (case,), _ = walks([100], 2)
    gone = np.random.default_rng(0).random(100) < 0.4
    gone[0] = False
    holes, kept, clock = np.where(gone, np.nan, case), np.flatnonzero(~gone), np.arange(100.0)
    result = features.transform([holes], times=[clock])
    expected = features.transform([case[:, kept]], times=[clock[kept]])
    np.testing.assert_allclose(result, expected, atol=1e-6)


@needs_kernels
def test_neither_other_cases_nor_strides_matter():
    """Few cases are split over threads by oscillators, many by cases."""
    features = fitted(3, 16 * 70)
    cases, _ = walks([90, 7, 30, 90, 60] * 16, 3)
    table = features.transform(cases)
    np.testing.assert_array_equal(features.transform(linoss.data.sequences(cases)), table)
    for i, case in enumerate(cases[:5]):
        strided = np.asfortranarray(np.repeat(case, 2, axis=1))[:, ::2]
        np.testing.assert_array_equal(features.transform([case])[0], table[i])
        np.testing.assert_array_equal(features.transform([strided])[0], table[i])


@needs_kernels
@pytest.mark.slow
def test_a_million_steps_stay_exact():
    """To 1e-4 of the largest output; slow oscillators are carried in double precision."""
    case = np.random.default_rng(0).normal(size=(1, 10**6)).astype(np.float32)
    features = linoss.OscillatorFeatures(n_oscillators=96, random_state=0).fit([case])
    outputs, expected = outputs_of(features, case), without_kernels(outputs_of, features, case)
    largest = np.abs(expected).max(axis=0)
    assert np.all(np.abs(outputs - expected).max(axis=0) < 1e-4 * largest)


@needs_kernels
def test_the_kernel_refuses_what_does_not_fit(monkeypatch):
    made, make = [], kernels.native.Bank
    monkeypatch.setattr(kernels.native, "Bank", lambda *rows: made.append(make(*rows)) or made[-1])
    features = fitted(2)
    (case,), (times,) = walks([10], 2)
    features.transform([case])
    bank, case = made[-1], case.T
    out, rows = np.zeros((1, 4, 96), np.float32), np.arange(4, dtype=np.int32)
    for arguments, message in (
        (([case[:, :1]], [], rows, out), "channels"),
        (([case], [times[:5]], rows, out), "intervals: wrong shape"),
        (([case], [times, times], rows, out), "intervals: wrong number"),
        (([case], [], rows, out[:, :2].copy()), "rows or out: wrong shape"),
        (([case], [], rows[:3], out), "rows or out: wrong shape"),
        (([case], [], rows + 1, out), "rows or out: wrong shape"),
    ):
        with pytest.raises(ValueError, match=message):
            bank.respond(*arguments)
    with pytest.raises(ValueError, match="backwards"):
        kernels.native.FeatureStream(bank)
