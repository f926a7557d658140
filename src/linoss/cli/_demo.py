"""`linoss demo`: untrained oscillators and a trained model on generated data."""

import time
from pathlib import Path
from typing import Annotated, Any

from typer import Option


def demo(
    out: Annotated[Path | None, Option(metavar="RUN", help="Directory of the run.")] = None,
    steps: Annotated[int, Option(min=1, help="Number of updates.")] = 600,
    random_state: Annotated[int, Option(min=0, help="Seed.")] = 0,
) -> None:
    """Learn to classify the sounds of three bells in noise; takes about two minutes.

    A recording has 1500 samples; in its first half a bell of glass, bronze or wood is struck once.
    Untrained oscillators have a score after seconds; then a model is trained. --out keeps the run
    of the training, with its report.html.
    """
    import linoss.data
    from linoss._stderr import duration, say
    from linoss.cli._report import finish
    from linoss.cli._runs import holds_a_run
    from linoss.cli._scores import score_of
    from linoss.estimators import LinOSSClassifier, OscillatorClassifier

    if out is not None and holds_a_run(out):
        raise ValueError(f"{out}: already holds a run, which is not overwritten; choose another")
    training = linoss.data.sequences(*bells(random_state, 480))
    test = linoss.data.sequences(*bells(random_state + 1, 240))
    sizes = {"hidden_size": 16, "state_size": 32, "num_blocks": 2, "batch_size": 16}
    how = {"learning_rate": 3e-3, "dropout": 0.1, "validation_fraction": 0.2, "verbose": 1}
    classifier = LinOSSClassifier(**sizes, **how, steps=steps, random_state=random_state)
    say("480 recordings of three bells, 1500 samples each, in noise.")
    begun = time.monotonic()
    untrained = OscillatorClassifier(random_state=random_state).fit(training)
    took = duration(time.monotonic() - begun)
    say(
        f"Untrained oscillators, after {took}: accuracy {untrained.held_out_score_:.4f} by "
        f"leave-one-out, {score_of(untrained.fitted_, None, test).headline[1]:.4f} on 240 others."
    )
    say("Training a model ...")
    classifier.fit(training, directory=out)
    if out is None:
        score_of(classifier.fitted_, None, test).show()
    else:
        finish(classifier, out, training, test, json=False)


def bells(seed: int, cases: int, length: int = 1500) -> tuple[Any, Any]:
    """Recordings `(cases, 1, length)` of noise with one stroke of a bell, and the kinds of bells.

    The sound of each kind has its own period and decay time, in samples.
    """
    import numpy as np

    kinds = {"glass": (11.0, 160.0), "bronze": (27.0, 160.0), "wood": (27.0, 35.0)}
    draw = np.random.default_rng(seed)
    names = np.array(list(kinds))[np.arange(cases) % len(kinds)]
    period, decay = np.array([kinds[name] for name in names]).T
    period = period * draw.uniform(0.93, 1.07, cases)
    stroke = draw.integers(length // 10, length // 2, cases)
    time = np.arange(length) - stroke[:, None]
    turns = time / period[:, None] + draw.uniform(size=(cases, 1))
    sound = np.sin(2 * np.pi * turns) * np.exp(-np.maximum(time, 0) / decay[:, None])
    loudness = draw.uniform(1.0, 2.0, (cases, 1))
    noise = 0.6 * draw.normal(size=(cases, length))
    recordings = noise + loudness * np.where(time >= 0, sound, 0)
    return recordings[:, None].astype(np.float32), names
