"""Untrained oscillators as part of a function of one sample: inputs, bank, statistics, readout.

A sample one interval after the previous one advances an oscillator by s_n = l s_{n-1} + p b_{n-1} +
q b_n, see `linoss.features`. Single oscillators come before chains.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from linoss.export._program import Recording, added
from linoss.features import LANES, mirrored, moves
from linoss.fitted import Untrained

_SUMS = ("above", "longest", "stretches", "moment")


def add_untrained(record: Recording, member: Untrained, label: str) -> Array:
    """The output of untrained oscillators and their readout."""
    if member.needs_times:
        raise ValueError(
            "the times of the data are irregular, and untrained oscillators of irregular times are "
            "not exported; fit LinOSSClassifier or LinOSSRegressor"
        )
    bank, ridge = member.features.bank_, member.readout
    ways = bank.backwards[bank.drive]
    weights, means = member.readout_by_window()
    output = jnp.asarray(ridge.intercept - np.einsum("wsn,wsna->a", means, weights))
    windows = [w for w in range(len(weights)) if weights[w].any()]
    for name, groups in (("", ~ways), ("back_", ways)):
        if not groups.any():
            continue
        left, level, own = None, 0, label + name
        if max(windows):
            left = _counted(record, bank, f"{own}left", record.another(backwards=not name))
        if name or left is not None:
            level = record.another(backwards=bool(name))
        lanes = np.repeat(groups, LANES)
        order = np.argsort(bank.chained[lanes], kind="stable")
        up, elapsed, here = _walk(record, bank.part(groups), order, own, level)
        for window in windows:
            place, each = mirrored(window) if name else window, f"{own}window{window}_"
            part = None if left is None or not place else (left, place)
            _count(*record.named(each, level), up, elapsed, here, part)
            chosen = weights[window][:, lanes][:, order]
            output = output + _read(record, chosen, each, is_whole=not place)
    seen = record.final(f"{label}{'back_' if ways.all() else ''}elapsed", 1) > 0
    decision = jnp.where(seen, output, ridge.intercept)
    if member.sharpness is None:
        return decision
    if decision.size == 1:
        decision = jnp.concatenate([-decision, decision])
    return jax.nn.softmax(decision * member.sharpness)


def _walk(
    record: Recording, bank: Any, order: np.ndarray, label: str, level: int
) -> tuple[Array, Array, Array]:
    """Advance by one sample: which outputs are above their thresholds, the number of samples
    before, and 1 if this one has a value."""
    n, second = bank.size, int(bank.chained.sum())
    single, new = n - second, {}
    state, keep = record.named(label, level)

    def turned(name: str, rows: list[Any], before: Array, now: Array) -> Array:
        """The real part of l s + p before + q now."""
        (turn, past, present), size = rows, len(rows[0])
        real, imaginary = state(f"{name}_real", size), state(f"{name}_imaginary", size)
        driven = before * past.imag + now * present.imag
        new[f"{name}_imaginary"] = real * turn.imag + imaginary * turn.real + driven
        driven = before * past.real + now * present.real
        new[f"{name}_real"] = real * turn.real - imaginary * turn.imag + driven
        return new[f"{name}_real"]

    sample, missing = _missing(record, bank)
    present, elapsed = _present(missing), state("elapsed", 1)
    held, begun = state("held", sample.size), elapsed > 0
    values = jnp.where(missing, held, (sample - bank.mean) * bank.scale)
    before = jnp.where(begun, held, values)  # at first, the first value
    slopes = bank.order[:, None] > 0
    force = np.where(slopes, 0.0, bank.mixture) @ values
    force = force + np.where(slopes, bank.mixture, 0.0) @ (values - before)
    last = jnp.where(begun, state("force", force.size), force)
    lanes = np.repeat(bank.drive, LANES)[order]
    drive, driven = (jnp.take(x, lanes, mode="clip") for x in (force, last))
    rates = np.where(bank.rates == 0, -1, bank.rates)
    rows = [np.stack(row)[:, order] for row in moves(rates, bank.readouts, 1.0)]
    first = turned("first", [row[0] for row in rows], driven, drive)
    outputs = first
    if second:
        x = state("first_real", n)[single:], first[single:]
        chain = turned("second", [row[1, single:] for row in rows], *x)
        outputs = jnp.concatenate([first[:single], chain])
    new |= {"held": values, "force": force, **added(state, "elapsed", jnp.ones(1))}
    for name, after in new.items():
        keep(name, jnp.where(present, after, state(name, after.size)))
    return (outputs > bank.threshold[order]) & present, elapsed, jnp.where(present, 1.0, 0.0)


def _missing(record: Recording, bank: Any) -> tuple[Array, Array]:
    """A sample, and which of its values are missing, or outside of the bank's limits."""
    sample, (low, high) = record.input("sample", len(bank.mean)), bank.limits
    return sample, jnp.isnan(sample) | (sample > high) | (sample < low)


def _present(missing: Array) -> Array:
    """Whether a sample has any value."""
    return jnp.sum(jnp.where(missing, 0.0, 1.0), keepdims=True) > 0


def _counted(record: Recording, bank: Any, name: str, level: int) -> Array:
    """The number of samples with a value, up to and with this one."""
    present = _present(_missing(record, bank)[1])
    state, keep = record.named(name, level)
    new = added(state, "", jnp.where(present, 1.0, 0.0))
    for each, value in new.items():
        keep(each, value)
    return new[""]


def _count(state: Any, keep: Any, up: Array, elapsed: Array, here: Array, left: Any) -> None:
    """Advance the sums over a window by one sample; `left`, for a part of the sequence, is the
    number of samples from the end, and the window's number."""
    present, new = here > 0, {}
    if left is not None:
        left, window = left
        count = 2 ** ((window + 1).bit_length() - 1)
        place = (elapsed + 0.5) / jnp.maximum(elapsed + left, 1.0)
        begun = place >= (window + 1 - count) / count
        inside = begun & (place < (window + 2 - count) / count)
        new |= added(state, "before", jnp.where(begun, 0.0, here))
        here, up = jnp.where(inside, here, 0.0), up & inside
    one, run = jnp.where(up, 1.0, 0.0), state("running", up.size)
    new |= added(state, "above", one) | added(state, "time", here)
    new |= added(state, "stretches", jnp.where(run < 0.5, one, 0.0))
    new |= added(state, "moment", one * (elapsed + 0.5))
    new |= added(state, "running", one, jnp.where(up | ~present, 1.0, 0.0))
    new["longest"] = jnp.maximum(state("longest", up.size), new["running"])
    for name, value in new.items():
        keep(name, value)


def _read(record: Recording, weights: np.ndarray, label: str, *, is_whole: bool) -> Array:
    """The readout of the statistics of a subset of the oscillators."""
    time = jnp.maximum(record.final(f"{label}time", 1), 1.0)
    sums = (record.final(label + name, weights.shape[1]) / time for name in _SUMS)
    share, longest, stretches, moment = sums
    if not is_whole:
        moment = moment - share * record.final(f"{label}before", 1)
    statistics = (share, longest, stretches, moment / time - share * 0.5)
    return jnp.asarray(weights.reshape(-1, weights.shape[2]).T) @ jnp.concatenate(statistics)
