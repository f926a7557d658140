"""What tricks that the library does not have bring: `python benchmarks/tricks.py`.

On development sets, with their official splits: accuracy of the four models of `LinOSSClassifier`
for the test part, without oscillators beside them, trained as the library does it, and with each
trick. The updates are written out here, so that a trick is a line or two of them.

Needs what benchmarks/archive.py needs.
"""

import argparse
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from archive import AEON, UCR, read
from sklearn.model_selection import StratifiedKFold

import linoss.data
from linoss import LinOSS, LinOSSClassifier
from linoss.training import Classification, Inputs

SETS = ("ECG200", "Car", "ArrowHead", "Beef", "DistalPhalanxTW")
# Defaults of LinOSSClassifier; updates are for each root of a case.
UPDATES, BATCH, RATE, DECAY, CLIP, MIN_LOSS, LEARNED = 20, 32, 3e-3, 0.01, 1.0, 1e-3, 40

Changed = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Values (cases, time, channels), places of other cases of the batch, and their weights."""


# ---- Changes of the cases of a batch ----


def as_they_are(values: np.ndarray, draw: np.random.Generator) -> Changed:
    """No change."""
    return values, np.arange(len(values)), np.zeros(len(values))


def mixup(values: np.ndarray, draw: np.random.Generator) -> Changed:
    """Each case mixed with another one, and its label likewise."""
    others, weights = draw.permutation(len(values)), draw.beta(0.2, 0.2, len(values))
    mixed = values + weights[:, None, None] * (values[others] - values)
    return mixed, others, weights


def cutout(values: np.ndarray, draw: np.random.Generator) -> Changed:
    """A quarter of each case replaced by its mean."""
    time = values.shape[1]
    begin = draw.integers(time, size=len(values))[:, None]
    inside = (np.arange(time) - begin) % time < time // 4
    means = values.mean(axis=1, keepdims=True)
    return as_they_are(np.where(inside[..., None], means, values), draw)


def warp(values: np.ndarray, draw: np.random.Generator) -> Changed:
    """A quarter of each case at half or twice its speed, and the whole at the length it had."""
    time, window = values.shape[1], values.shape[1] // 4
    found = np.empty_like(values)
    for case, series in enumerate(values):
        begin = int(draw.integers(time - window + 1))
        pace = np.ones(time)
        pace[begin : begin + window] = draw.choice([0.5, 2.0])
        place = np.cumsum(pace) - pace[0]
        place *= (time - 1) / place[-1]
        for channel in range(values.shape[2]):
            found[case, :, channel] = np.interp(place, np.arange(time), series[:, channel])
    return as_they_are(found, draw)


CHANGES = {"mixup": mixup, "cutout": cutout, "window warping": warp}


# ---- Changes of the model ----


def share(model: LinOSS) -> LinOSS:
    """The model with the first block in place of all, each with its own norm."""
    first = model.blocks[0]
    blocks = tuple(eqx.tree_at(lambda b: b.norm, first, block.norm) for block in model.blocks)
    return eqx.tree_at(lambda m: m.blocks, model, blocks)


def tune(model: LinOSS, values: np.ndarray, patch: int) -> LinOSS:
    """The model with initial frequencies drawn from the mean amplitude spectrum of the cases."""
    spectrum = np.abs(np.fft.rfft(values - values.mean(axis=1, keepdims=True), axis=1))
    amplitudes = spectrum.mean(axis=(0, 2))
    frequencies = np.fft.rfftfreq(values.shape[1])
    below = np.cumsum(amplitudes) / amplitudes.sum()
    draw = np.random.default_rng(0)

    def drawn(bank: Any) -> Any:
        per_sample = np.interp(draw.uniform(size=bank.state_size), below, frequencies)
        angles = np.minimum(2 * np.pi * patch * per_sample, np.pi)
        stiffness = (angles / np.asarray(bank.timestep)) ** 2
        return jnp.asarray(stiffness, bank.raw_stiffness.dtype)

    mixers: list[Any] = [block.mixer for block in model.blocks]
    return eqx.tree_at(
        lambda m: [block.mixer.oscillators.raw_stiffness for block in m.blocks],
        model,
        [drawn(mixer.oscillators) for mixer in mixers],
    )


# ---- Training ----


@dataclass(frozen=True)
class Run:
    """Number of updates, cases of each, and the seed."""

    steps: int
    batch: int
    seed: int


def decays(weights: Any) -> Any:
    """The matrices outside the oscillators, which have weight decay."""

    def decays(path: Any, _: Any) -> bool:
        names = {getattr(part, "name", "") for part in path}
        return names.isdisjoint({"oscillators", "norm", "bias"})

    return jax.tree_util.tree_map_with_path(decays, weights)


@cache
def make_update(
    steps: int, shared: bool
) -> tuple[optax.GradientTransformation, Callable[..., Any]]:
    """The optimizer of so many updates, and a compiled update."""
    rates = optax.warmup_cosine_decay_schedule(0.0, RATE, min(100, steps // 10), steps)
    adam = optax.adamw(rates, weight_decay=DECAY, mask=decays)
    optimizer = optax.chain(optax.clip_by_global_norm(CLIP), adam)

    @eqx.filter_jit
    def update(model: Any, state: Any, u: Any, targets: Any, key: Any) -> Any:
        weights, rest = eqx.partition(model, eqx.is_inexact_array)

        def loss(weights: Any) -> Any:
            model = eqx.combine(weights, rest)
            logits, norms = (share(model) if shared else model).training_pass(u, key=key)
            places, others, shares = targets
            entropy = optax.softmax_cross_entropy_with_integer_labels
            mixed = (1 - shares) * entropy(logits, places) + shares * entropy(logits, others)
            return jnp.mean(mixed), norms

        (value, norms), gradient = jax.value_and_grad(loss, has_aux=True)(weights)
        changes, state = optimizer.update(gradient, state, weights)
        after = eqx.combine(eqx.apply_updates(weights, changes), rest)
        return after.with_norms(norms), state, value

    return optimizer, update


def train(
    model: LinOSS, inputs: Inputs, values: np.ndarray, places: np.ndarray, trick: str, run: Run
) -> LinOSS:
    """Train one model; `places` are the classes of the cases."""
    shared = trick == "shared blocks"
    if trick == "frequencies of the spectrum":
        model = tune(model, values, inputs.patch)
    change = CHANGES.get(trick, as_they_are)
    optimizer, update = make_update(run.steps, shared)
    state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))
    draw, key = np.random.default_rng(run.seed), jax.random.key(run.seed)
    order, late, losses, learned = np.zeros(0, int), [], [], 0
    for step in range(run.steps):
        if len(order) < run.batch:
            order = draw.permutation(len(values))
        chosen, order = order[: run.batch], order[run.batch :]
        changed, others, weights = change(values[chosen], draw)
        batch = linoss.data.sequences(np.moveaxis(changed, 1, 2)).batch(np.arange(run.batch))
        u = inputs(batch, masked=False)["u"]
        targets = places[chosen], places[chosen][others], weights.astype(np.float32)
        model, state, loss = update(model, state, u, targets, jax.random.fold_in(key, step))
        losses.append(float(loss))
        if trick == "weight averaging" and step >= run.steps // 2:
            late.append(eqx.filter(model, eqx.is_inexact_array))
        every = max(run.steps // 20, 1)
        if (step + 1) % every == 0:
            learned = learned + every if np.mean(losses[-every:]) < MIN_LOSS else 0
            if learned >= LEARNED:
                break
    if late:
        mean = jax.tree.map(lambda *several: sum(several) / len(several), *late)
        model = eqx.combine(mean, model)
    return share(model) if shared else model


def measure(name: str, trick: str, seed: int, data_dir: Path | None) -> dict[str, Any]:
    """The accuracy of four models trained with a trick, each without another quarter."""
    training, test = read(name, data_dir)
    classifier = LinOSSClassifier(steps=0, n_oscillators=None, random_state=seed)
    classifier.fit(training.cases, training.labels)
    inputs, objective = classifier.inputs_, Classification.from_labels(training.labels)
    values = np.stack(linoss.data.sequences(training.cases).values)
    places = objective.encode(training.labels)
    models = classifier.models_
    splitter = StratifiedKFold(len(models), shuffle=True, random_state=seed)
    folds = [rest for rest, _ in splitter.split(values, places)]
    fewest = min(map(len, folds))
    steps = max(round(UPDATES * math.sqrt(fewest)), 100)
    runs = [Run(steps, min(BATCH, fewest), len(models) * seed + k) for k in range(len(models))]
    models = [
        train(model, inputs, values[rest], places[rest], trick, run)
        for model, rest, run in zip(models, folds, runs, strict=True)
    ]
    cases = linoss.data.sequences(test.cases)
    found = [classifier._decoded(model, cases) for model in models]

    def accuracy(answers: np.ndarray) -> float:
        return float(np.mean(classifier.classes_[answers.argmax(axis=1)] == test.labels))

    scores = {"one model": float(np.mean([accuracy(each) for each in found]))}
    scores["models"] = accuracy(np.mean(found, axis=0))
    return {"set": name, "trick": trick, "seed": seed, **scores}


TRICKS = ("none", *CHANGES, "weight averaging", "shared blocks", "frequencies of the spectrum")


def table(records: list[dict[str, Any]]) -> str:
    """A row for each trick: the accuracy of all models on each set, their mean, that of one."""
    sets = list(dict.fromkeys(record["set"] for record in records))
    lines = ["", "| | " + " | ".join([*sets, "mean", "one model"]) + " |"]
    lines.append("|---" * (3 + len(sets)) + "|")
    for trick in dict.fromkeys(record["trick"] for record in records):
        own = [record for record in records if record["trick"] == trick]
        each = [np.mean([r["models"] for r in own if r["set"] == name]) for name in sets]
        one = np.mean([np.mean([r["one model"] for r in own if r["set"] == s]) for s in sets])
        lines.append(f"| {trick} | " + " | ".join(f"{x:.3f}" for x in [*each, np.mean(each), one]))
        lines[-1] += " |"
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", choices=(*UCR, *AEON), default=SETS, metavar="SET")
    parser.add_argument("--tricks", nargs="+", choices=TRICKS, default=TRICKS, metavar="TRICK")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("LINOSS_DATA"))
    options = parser.parse_args()
    data_dir = None if options.data_dir is None else Path(options.data_dir)
    records = []
    for name in options.sets:
        for seed in options.seeds:
            for trick in options.tricks:
                records.append(measure(name, trick, seed, data_dir))
                print(records[-1], flush=True)
    print(table(records))


if __name__ == "__main__":
    main()
