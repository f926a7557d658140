"""`linoss demo`: untrained oscillators and a trained model on generated data."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from linoss.cli._options import Json


def demo(
    out: Annotated[Path | None, typer.Option(metavar="RUN", help="Directory of the run.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Number of updates.")] = 600,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    json: Json = False,
) -> None:
    """Learn to classify the sounds of three bells in noise; takes about half a minute.

    A recording has 1500 samples; in its first half a bell of glass, bronze or wood is struck once.
    Untrained oscillators have a score after seconds; then a model is trained. --out keeps the run
    of the training, with its report.html.
    """
    import linoss.data
    from linoss._stderr import duration, say
    from linoss.cli import _bells
    from linoss.cli._results import finish
    from linoss.cli._run_settings import ColumnNames, holds_a_run, write_column_names
    from linoss.cli._runs import Run
    from linoss.cli._scores import score_on
    from linoss.estimators import LinOSSClassifier, OscillatorClassifier

    if out is not None and holds_a_run(out):
        raise ValueError(f"{out}: already holds a run, which is not overwritten; choose another")
    training = linoss.data.sequences(*_bells.bells(seed, 480)[:2])
    recordings, names, struck = _bells.bells(seed + 1, 240)
    test = linoss.data.sequences(recordings, names)
    classifier = LinOSSClassifier(
        hidden_size=16,
        state_size=32,
        num_blocks=2,
        steps=steps,
        batch_size=16,
        learning_rate=3e-3,
        dropout=0.1,
        validation_fraction=0.2,
        random_state=seed,
        verbose=1,
    )
    say("480 recordings of three bells, 1500 samples each, in noise.")
    begun = time.monotonic()
    untrained = OscillatorClassifier(random_state=seed).fit(training)
    took = duration(time.monotonic() - begun)
    scores = {"leave_one_out_accuracy": untrained.held_out_score_}
    scores["test_accuracy"] = score_on(Run.of(untrained), test).headline[1]
    if not json:
        say(
            f"Untrained oscillators, after {took}: accuracy "
            f"{scores['leave_one_out_accuracy']:.4f} by leave-one-out, "
            f"{scores['test_accuracy']:.4f} on 240 test recordings."
        )
    say("Training a model ...")
    if out is not None:
        write_column_names(out, ColumnNames())
    classifier.fit(training, directory=out)
    run = Run.of(classifier)
    score = score_on(run, test)
    if not json:
        _show(classifier, test, struck)
    if out is not None:
        finish(classifier, out, training, test, json=json)
    elif json:
        from linoss.cli._output import show_json

        show_json({"untrained": scores, "steps": run.n_steps, "test": score.record()})
    else:
        score.show()


def _show(classifier: Any, test: Any, struck: Any, count: int = 3) -> None:
    """Excerpts of some test series with the model's predictions, and the learning curve."""
    import numpy as np
    from rich.console import Console

    from linoss.cli._output import number

    console = Console(highlight=False)
    width = max(20, min(console.width, 100) - 4)
    shares = classifier.predict_proba(test.select(np.arange(count)))
    for i in range(count):
        said, truth = classifier.classes_[np.argmax(shares[i])], test.labels[i]
        start = max(int(struck[i]) - 2 * width // 5, 0)
        excerpt = test.values[i][start : start + 2 * width, 0]
        title = f"A bell of {truth} among 1500 samples; the model predicts {said}"
        _panel(console, excerpt, f"{title} ({shares[i].max():.0%})", said == truth)
    losses = [record["loss"] for record in classifier.fitted_.trained.history]
    curve = np.interp(np.linspace(0, len(losses) - 1, 2 * width), np.arange(len(losses)), losses)
    title = f"Learning curve: the loss falls from {number(losses[0])} to {number(losses[-1])}"
    _panel(console, curve, title, True)


def _panel(console: Any, values: Any, title: str, good: bool) -> None:
    from rich.panel import Panel
    from rich.text import Text

    from linoss.cli._braille import braille

    width = len(values) // 2
    text, name = Text("\n".join(braille(values, width, height=5))), Text(title, "bold")
    color = "green" if good else "red"
    console.print(Panel(text, title=name, title_align="left", border_style=color, width=width + 4))
