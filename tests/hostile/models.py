"""Whole models, streams and untrained oscillators against loops in NumPy, in float64."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from drivers import Finding, compare, load, numbers
from recurrences import SCHEMES

import linoss
from linoss.features import LANES, FeatureStream
from linoss.nn._operations import key_words

# ---- Models: the kernels of encoder, block and mix ----


def models(draw):
    """Answers in evaluation or in training, and their slope in a drawn direction of all numbers."""
    shared, random = draw.shared, numbers(draw)
    settings = _settings(shared, SCHEMES)
    settings |= {"bidirectional": shared.random() < 0.3, "dropout": shared.choice([0.0, 0.3])}
    settings["precision"] = shared.choice(["float32", "float32", "bfloat16"])
    batch, time = shared.choice([1, 3]), _time(shared, settings)
    irregular, training = shared.random() < 0.4, shared.random() < 0.5
    memory = shared.choice([0, 10**9])
    model = _model(draw, settings)
    u = np.asarray(random.normal(size=(batch, time, settings["in_size"])), np.float32)
    intervals = random.uniform(0.3, 1.5, (batch, time)).astype(np.float32) if irregular else None
    lengths = random.integers(1, time, batch, endpoint=True)
    weight = np.asarray(random.normal(size=(batch, settings["out_size"])), np.float32)
    weights, rest = eqx.partition(model, linoss.trainable(model))
    moving, key = (weights, u, intervals), jax.random.key(draw.randrange(2**31))
    key = key if training else None
    answers, slopes = _with_slopes(moving, rest, lengths, weight, key, memory)
    ways = jax.tree.map(lambda x: random.normal(size=x.shape) * max(np.abs(x).mean(), 1e-3), moving)
    wide = jax.tree.map(lambda x: np.asarray(x, np.float64), moving)

    def loop(shift):
        weights, u, intervals = jax.tree.map(lambda x, way: x + shift * way, wide, ways)
        return _model_loop(eqx.combine(weights, rest), u, lengths, intervals, key)

    what = f"model, {settings}, training={training}, irregular={irregular}"
    tolerance = 2e-3 if settings["precision"] == "float32" else 0.1
    compare(what, answers, loop(0.0), tolerance)
    distance = 1e-6
    expected = np.sum(weight * (loop(distance) - loop(-distance)) / (2 * distance))
    products = [
        np.asarray(slope, np.float64) * way
        for slope, way in zip(*map(jax.tree.leaves, (slopes, ways)), strict=True)
    ]
    found, size = (sum(part.sum() for part in parts) for parts in (products, map(np.abs, products)))
    if not abs(found - expected) <= tolerance * size + 1e-6:
        raise Finding(f"{what}: a slope is {found}, expected {expected}, of {size}")
    if batch > 1 and (key is None or settings["norm"] in ("layer", None)):
        u[0, 0] = draw.choice([np.nan, np.inf, 3e38])
        others, _ = _with_slopes((weights, u, intervals), rest, lengths, weight, key, memory)
        compare(f"{what}, beside a case that is spoilt", others[1:], answers[1:], 0.0)
    return "models"


def _settings(shared, schemes):
    return {
        "in_size": shared.randint(1, 3),
        "out_size": shared.randint(1, 4),
        "hidden_size": shared.choice([1, 3, 8, 17, 33]),
        "state_size": shared.choice([1, 2, 4, 9]),
        "num_blocks": shared.randint(1, 2),
        "scheme": shared.choice(schemes),
        "norm": shared.choice(["layer", "batch", "running", None]),
        "feedthrough": shared.choice(["vector", "dense", "none"]),
        "bias": shared.random() < 0.5,
        "glu_bias": shared.random() < 0.5,
    }


def _time(shared, settings):
    if settings["scheme"] != "exact":
        return shared.choice([1, 5, 24, 64, 65, 130])
    settings |= {"state_size": min(settings["state_size"], 4), "num_blocks": 1}
    return shared.choice([1, 5, 24])  # its loop is very slow


def _model(draw, settings):
    """A model in single precision whose norms have drawn statistics."""
    key, loops = jax.random.key(draw.randrange(2**31)), load("nn/conftest.py")
    model = linoss.LinOSS(linoss.LinOSSConfig(**settings), key=key)
    stirred = tuple(loops._stirred(b.norm, draw.randrange(99)) for b in model.blocks)
    return jax.tree.map(
        lambda x: x.astype(jnp.float32) if eqx.is_inexact_array(x) else x, model.with_norms(stirred)
    )


@eqx.filter_jit
def _with_slopes(moving, rest, lengths, weight, key, memory):
    def total(moving):
        weights, u, intervals = moving
        model = eqx.combine(weights, rest)
        options = {"lengths": lengths, "intervals": intervals, "engine": "native"}
        if key is None:
            answers = model(u, **options)
        else:
            answers, _ = model.training_pass(u, key=key, memory=memory, **options)
        return jnp.sum(weight * answers), answers

    (_, answers), slopes = eqx.filter_value_and_grad(total, has_aux=True)(moving)
    return answers, slopes


def _model_loop(model, u, lengths, intervals, key):
    """Answers `(batch, out)`; with a key those in training, with dropout and the batch's norms."""
    loops = load("nn/conftest.py")
    between = [None if intervals is None else intervals[i, :n] for i, n in enumerate(lengths)]
    cases = [u[i, :n] for i, n in enumerate(lengths)]
    if key is None:
        answers = map(loops._model_loop, [model] * len(cases), cases, between)
        return np.stack(list(answers))
    encoder, decoder = model.encoder, model.head.decoder
    cases = [case @ np.asarray(encoder.weight).T + np.asarray(encoder.bias) for case in cases]
    for block, block_key in zip(
        model.blocks, jax.random.split(key, len(model.blocks)), strict=True
    ):
        norm = _norm_in_training(block.norm, np.concatenate(cases))
        drops = [
            _drops(block, np.asarray(key_words(block_key)), i * u.shape[1]) for i in range(len(u))
        ]
        cases = [
            loops._block_loop(block, case, h, norm=norm, drop=drop)
            for case, h, drop in zip(cases, between, drops, strict=True)
        ]
    pooled = np.stack([case.mean(0) for case in cases])
    return pooled @ np.asarray(decoder.weight).T + np.asarray(decoder.bias)


def _norm_in_training(norm, samples):
    """By the statistics of all samples; None where a sample has its own."""
    if not hasattr(norm, "kind"):
        return None
    mean, variance = samples.mean(0), samples.var(0)
    if norm.kind == "running":
        mean = 0.99 * np.asarray(norm.mean) + 0.01 * mean
        variance = 0.99 * np.asarray(norm.variance) + 0.01 * variance
    return lambda x: (x - mean) / np.sqrt(variance + 1e-5)


def _drops(block, words, sample):
    """Both dropouts of a sequence that begins at such a sample of the batch."""
    by_hand = load("nn/test_operations.py")

    def drop(words, x):
        position = np.arange(x.size) + sample * x.shape[1]
        bits = by_hand.bits_by_hand(words, position.astype(np.uint32))
        return np.where(
            (bits / 2**32 >= block.dropout).reshape(x.shape), x / (1 - block.dropout), 0
        )

    return [lambda x, w=w: drop(w, x) for w in (words, words ^ by_hand.SECOND_PLACE)]


# ---- Streams ----


def streams(draw):
    """`linoss.Stream`, sample by sample, with missing samples and irregular times."""
    loops, shared, random = load("nn/conftest.py"), draw.shared, numbers(draw)
    settings = _settings(shared, ("im", "imex", "exact")) | {
        "pooling": draw.choice(["mean", "last"])
    }
    time, irregular, several = _time(shared, settings), draw.random() < 0.5, draw.randint(1, 3)
    model = _model(draw, settings)
    listen = linoss.Stream(model, (several,))
    u = np.asarray(random.normal(size=(time, several, settings["in_size"])), np.float32)
    intervals = random.uniform(0.3, 1.5, time) if irregular else None
    there = random.random(time) < 0.9
    there[0] = True
    checked = {time - 1, draw.randrange(time)}
    for n in range(time):
        interval = None if intervals is None else float(intervals[n])
        answer = listen(u[n] if there[n] else np.nan * u[n], interval=interval, present=there[n])
        if n in checked:
            seen = np.flatnonzero(there[: n + 1]) if irregular else np.arange(n + 1)
            between = None if intervals is None else intervals[seen]
            cases = np.moveaxis(u[seen].astype(np.float64), 1, 0)
            options = {"intervals": between, "there": there[seen]}
            expected = [loops._model_loop(model, case, **options) for case in cases]
            compare(f"stream, {settings}, after {n}", answer, expected, 2e-3)
    return "streams"


# ---- Untrained oscillators ----


def features(draw):
    """Statistics and outputs of a bank, whole and as a stream, with values that are missing."""
    loops, shared, random = load("features/test_response.py"), draw.shared, numbers(draw)
    channels, longest = draw.choice([1, 1, 2, 5, 12]), draw.choice([2, 20, 500])
    timed, causal = draw.random() < 0.5, draw.random() < 0.5
    scale = random.uniform(0.5, 2, (channels, 1)) * (random.random((channels, 1)) < 0.9)
    known = random.normal(size=(3, channels, longest)) * scale + random.normal(size=(channels, 1))
    known_times = (random.exponential(size=longest) + 0.05).cumsum() if timed else None
    features = linoss.OscillatorFeatures(
        n_oscillators=LANES * draw.randint(1, 8), causal=causal, random_state=draw.randrange(2**31)
    ).fit(known.astype(np.float32), times=known_times)
    bank, missing = features.bank_, draw.choice([0, 0, 0.3, 0.9])
    lengths = [shared.choice([1, 2, 9, 40, 150]) for _ in "abc"][: draw.randint(1, 3)]
    cases, times = [], []
    for n in lengths:
        case = random.normal(size=(channels, n)).cumsum(axis=1) / 4
        cases.append(np.where(random.random(case.shape) < missing, np.nan, case).astype(np.float32))
        uneven = random.exponential(size=n) * draw.choice([1, 5]) + 0.05
        times.append(uneven.cumsum() if timed else None)
    found = features.transform(cases, times=times if timed else None)
    for case, clock, statistics in zip(cases, times, found.reshape(len(cases), 4, -1), strict=True):
        if np.isnan(case).all():
            if not np.isnan(statistics).all():
                raise Finding("a case without values has statistics")
            continue
        h = loops.intervals_of(features, clock) if timed else np.ones(case.shape[1])
        outputs, expected = _bank_loop(bank, case.T, h)
        size = max(np.abs(outputs).max(), 1e-2)  # of values near 1, rounded
        sure = (np.abs(outputs - bank.threshold) > 1e-4 * size).all(axis=0)  # on which side
        compare("outputs", loops.outputs_of(features, case, clock), outputs, 1e-4, least=size)
        compare("statistics", statistics[:, sure], expected[:, sure], 1e-4)
        if causal:
            stream = FeatureStream(features)
            for sample, time in zip(case.T, clock if timed else [None] * len(h), strict=True):
                last = stream(sample, time).reshape(4, -1)
            compare("statistics of a stream", last[:, sure], expected[:, sure], 1e-4)
    return "features"


def _bank_loop(bank, case, intervals):
    """Outputs `(time, n)` and statistics `(4, n)`; what reads backwards reads the reversed case."""
    loops, joined = load("features/test_response.py"), None
    for backwards in (False, True):
        groups = bank.backwards[bank.drive] == backwards
        if not groups.any():
            continue
        part = bank.part(groups)
        part = replace(part, backwards=np.zeros_like(part.backwards))
        turned = (case[::-1], np.r_[1, intervals[:0:-1]]) if backwards else (case, intervals)
        found = np.concatenate(loops.loop(part, *loops.in_parts(*_filled(bank, *turned))))
        joined = np.zeros((len(found), bank.size)) if joined is None else joined
        joined[:, np.repeat(groups, LANES)] = found
    return joined[:-4], joined[-4:]


def _filled(bank, case, intervals):
    """Without samples that have no value; a missing value is the last one, or at first the mean."""
    last, gap, rows, steps = bank.mean.copy(), 0.0, [], []
    for row, h in zip(case, intervals, strict=True):
        gap += h
        if not np.isnan(row).all():
            last = np.where(np.isnan(row), last, row)
            rows, steps, gap = [*rows, last], [*steps, gap], 0.0
    return np.array(rows), np.array(steps)
