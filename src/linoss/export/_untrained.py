"""Untrained oscillators as part of a program: inputs, bank, statistics, readout.

A sample one interval after the previous one advances an oscillator by s_n = l s_{n-1} + p b_{n-1} +
q b_n, see `linoss.features`. Single oscillators come before chains.
"""

from typing import Any

import numpy as np

from linoss.export._program import Part, Term, another
from linoss.features import LANES, mirrored, moves
from linoss.fitted import Untrained

_SUMS = ("above", "longest", "stretches", "moment")


def add_untrained(parts: list[Part], answer: Part, member: Untrained, label: str) -> Term:
    """Add untrained oscillators and their readout; returns their output."""
    if member.needs_times:
        raise ValueError(
            "the times of the data are irregular, and untrained oscillators of irregular times are "
            "not exported; fit LinOSSClassifier or LinOSSRegressor"
        )
    bank, ridge = member.features.bank_, member.readout
    ways = bank.backwards[bank.drive]
    weights, means = member.readout_by_window()
    constant = ridge.intercept - np.einsum("wsn,wsna->a", means, weights)
    windows = [w for w in range(len(weights)) if weights[w].any()]
    output = answer.constant(constant)
    for name, groups in (("", ~ways), ("back_", ways)):
        if groups.any():
            left = _counted(another(parts, backwards=not name), bank) if max(windows) else None
            part = another(parts, backwards=bool(name)) if name or left else parts[0]
            lanes = np.repeat(groups, LANES)
            order = np.argsort(bank.chained[lanes], kind="stable")
            up = _walk(part, bank.part(groups), order, f"{label}{name}")
            for window in windows:
                chosen, own = weights[window][:, lanes][:, order], f"{label}{name}window{window}_"
                place = mirrored(window) if name else window
                _count(part, up, f"{label}{name}elapsed", own, left if place else None, place)
                output = _read(answer, chosen, own, is_whole=not place) + output
    seen = answer.input(f"{label}{'' if not ways.all() else 'back_'}elapsed", 1) > 0.0
    decision = answer.apply("where", seen, output, ridge.intercept)
    if member.sharpness is None:
        return decision
    if decision.size == 1:
        decision = answer.matmul([[-1.0], [1.0]], decision)
    return answer.softmax(decision * member.sharpness)


def _walk(part: Part, bank: Any, order: np.ndarray, label: str) -> Term:
    """Advance by one sample; returns which outputs are above their thresholds."""
    n, second = bank.size, int(bank.chained.sum())
    single = n - second

    def state(name: str, size: int) -> Term:
        return part.input(label + name, size)

    sample = part.input("sample", len(bank.mean))
    missing, held = _missing(part, bank), state("held", sample.size)
    present = _present(part, bank)
    elapsed = state("elapsed", 1)
    begun = elapsed > 0.0
    values = part.apply("where", missing, held, (sample - bank.mean) * bank.scale)
    before = part.apply("where", begun, held, values)  # at first, the first value
    force = _driven(part, bank, values, before)
    last = part.apply("where", begun, state("force", force.size), force)
    lanes = np.repeat(bank.drive, LANES)[order]
    drive, driven = part.take(force, lanes), part.take(last, lanes)
    rates = np.where(bank.rates == 0, -1, bank.rates)
    rows = [np.stack(row)[:, order] for row in moves(rates, bank.readouts, 1.0)]
    first = _turned(part, [row[0] for row in rows], state, "first", n, driven, drive)
    outputs = first[0][:single]
    new = {"held": values, "force": force, "first_real": first[0], "first_imaginary": first[1]}
    if second:
        x = state("first_real", n)[single:], first[0][single:]
        chain = _turned(part, [row[1, single:] for row in rows], state, "second", second, *x)
        new |= {"second_real": chain[0], "second_imaginary": chain[1]}
        outputs = part.join([outputs, chain[0]]) if single else chain[0]
    new["elapsed"] = elapsed + 1.0
    for name, term in new.items():
        part.outputs[label + name] = part.apply("where", present, term, state(name, term.size))
    return part.apply("both", outputs > bank.threshold[order], present)


def _missing(part: Part, bank: Any) -> Term:
    """Which values of a sample are missing, or outside of the bank's limits."""
    sample, (low, high) = part.input("sample", len(bank.mean)), bank.limits
    is_far = part.apply("either", sample > high, part.constant(low) > sample)
    return part.apply("either", part.apply("isnan", sample), is_far)


def _present(part: Part, bank: Any) -> Term:
    """Whether a sample has any value."""
    return part.sum(part.apply("where", _missing(part, bank), 0.0, 1.0)) > 0.0


def _counted(part: Part, bank: Any) -> Term:
    """The number of samples with a value, up to and with this one."""
    name = f"{part.label}_left"
    count = part.input(name, 1) + part.apply("where", _present(part, bank), 1.0, 0.0)
    part.outputs[name] = count
    return count


def _count(part: Part, up: Term, clock: str, label: str, left: Term | None, window: int) -> None:
    """Advance the sums over a window by one sample; `left` counts samples from the end."""
    n, elapsed, present = up.size, part.input(clock, 1), part.outputs[clock] > part.input(clock, 1)
    here = part.apply("where", present, 1.0, 0.0)
    if left is not None:
        count = 2 ** ((window + 1).bit_length() - 1)
        place = (elapsed + 0.5) / part.apply("maximum", elapsed + left, 1.0)
        begun = part.apply("not", part.constant((window + 1 - count) / count) > place)
        inside = part.apply("both", begun, part.constant((window + 2 - count) / count) > place)
        before = part.apply("where", begun, 0.0, here)
        part.outputs[f"{label}before"] = part.input(f"{label}before", 1) + before
        here = part.apply("where", inside, here, 0.0)
        up = part.apply("both", up, inside)
    sums = {name: part.input(label + name, n) for name in (*_SUMS, "running")}
    running = part.apply("where", up, sums["running"] + 1.0, 0.0)
    begins = part.apply("where", sums["running"] > 0.0, 0.0, 1.0)
    new = {
        "above": sums["above"] + part.apply("where", up, 1.0, 0.0),
        "longest": part.apply("maximum", sums["longest"], running),
        "stretches": sums["stretches"] + part.apply("where", up, begins, 0.0),
        "moment": sums["moment"] + part.apply("where", up, elapsed + 0.5, 0.0),
        "running": part.apply("where", present, running, sums["running"]),
        "time": part.input(f"{label}time", 1) + here,
    }
    part.outputs |= {label + name: term for name, term in new.items()}


def _driven(part: Part, bank: Any, values: Term, before: Term) -> Term:
    """The inputs of the oscillators: mixtures of values, or of their differences."""
    slopes = bank.order[:, None] > 0
    force = part.matmul(np.where(slopes, 0.0, bank.mixture), values)
    return force + part.matmul(np.where(slopes, bank.mixture, 0.0), values - before)


def _turned(
    part: Part, rows: list[Any], state: Any, name: str, size: int, before: Term, now: Term
) -> tuple[Term, Term]:
    """Real and imaginary part of l s + p before + q now."""
    turn, past, present = rows
    real, imaginary = (state(f"{name}_{which}", size) for which in ("real", "imaginary"))
    return (
        real * turn.real - imaginary * turn.imag + before * past.real + now * present.real,
        real * turn.imag + imaginary * turn.real + before * past.imag + now * present.imag,
    )


def _read(answer: Part, weights: np.ndarray, label: str, *, is_whole: bool) -> Term:
    """The readout of the statistics of a subset of the oscillators."""
    n = weights.shape[1]
    time = answer.apply("maximum", answer.input(f"{label}time", 1), 1.0)
    share, longest, stretches, moment = (answer.input(label + name, n) / time for name in _SUMS)
    if not is_whole:
        moment = moment - share * answer.input(f"{label}before", 1)
    late = moment / time
    statistics = (share, longest, stretches, late - share * 0.5)
    return answer.matmul(weights.reshape(-1, weights.shape[2]).T, answer.join(statistics))
