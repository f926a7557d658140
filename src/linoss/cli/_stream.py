"""`linoss stream`: samples from stdin, predictions to stdout, as they arrive."""

import math
import sys
from typing import Annotated, Any

import typer

from linoss.cli._evaluate import RunArgument
from linoss.cli._output import csv_text, json_line
from linoss.cli._run_settings import load_run, read_column_names


def stream(
    run: RunArgument,
    json: Annotated[
        bool, typer.Option("--json", help="Write JSON lines, also for CSV input.")
    ] = False,
) -> None:
    """Predict after each sample of a stream, in constant memory.

    Reads one sample per line from stdin: comma-separated numbers, or a JSON array or object. A
    header, or the keys of the objects, may name the channels. Empty, NaN, NA, ? and null are
    missing values. If the training had irregular times, each sample begins with a time, or has a
    column time. Writes one line per sample, in the format of the samples: the result of linoss
    predict for the sequence so far. If a sample is too large, cells are empty, oscillators that
    overflowed are reset with a message on stderr, and the exit code is 3.
    """
    from linoss.cli._sample_reader import SampleReader

    if sys.stdin is None:
        raise ValueError("stdin is closed, expected samples in it")
    estimator = load_run(run)
    forecaster: Any = estimator if estimator.task == "forecasting" else None
    names = read_column_names(run).channels if forecaster is None else forecaster.names_
    source: Any = sys.stdin.buffer
    samples = SampleReader(source, estimator.n_channels_, names, timed=estimator.timed_)
    listen: Any = estimator.stream()
    answers = _Answers(estimator)
    begun = False
    for values, times in samples:
        as_json = json or samples.is_json
        if not begun and samples.has_header and not as_json:
            sys.stdout.write(csv_text([answers.names]))
        begun = True
        found = listen.many(values, times)
        sys.stdout.write("".join(map(answers.json, found)) if as_json else answers.csv(found))
        sys.stdout.flush()


class _Answers:
    """Formats predictions as lines."""

    def __init__(self, estimator: Any):
        self.classes: list[Any] | None = None
        self.horizon = getattr(estimator, "horizon", None)
        outputs = estimator.n_outputs_
        if hasattr(estimator, "classes_"):
            classes = self.classes = estimator.classes_.tolist()
            self.names = ["prediction", *(f"probability_{name}" for name in classes)]
            self._texts = [csv_text([[str(name)]]).rstrip("\n") for name in classes]
        elif self.horizon is not None:
            self.variables = [str(name) for name in estimator.names_]
            steps = range(1, self.horizon + 1)
            self.names = [f"{name}+{step}" for step in steps for name in self.variables]
        else:
            numbered = [f"prediction_{i}" for i in range(outputs)]
            self.names = ["prediction"] if outputs == 1 else numbered

    def csv(self, answers: Any) -> str:
        lines = []
        for row in answers.reshape(len(answers), -1).tolist():
            cells = [f"{v:.9g}" if math.isfinite(v) else "" for v in row]
            if self.classes is not None:
                cells = [self._texts[row.index(max(row))] if cells[0] else "", *cells]
            lines.append(",".join(cells) + "\n")
        return "".join(lines)

    def json(self, answer: Any) -> str:
        if self.classes is not None:
            shares = dict(zip(self.classes, answer.tolist(), strict=True))
            finite = all(map(math.isfinite, shares.values()))
            best = max(shares, key=shares.__getitem__) if finite else None
            return json_line({"prediction": best, "probabilities": shares})
        if self.horizon is not None:
            return json_line({"forecast": dict(zip(self.variables, answer.T, strict=True))})
        return json_line({"prediction": answer[0] if len(answer) == 1 else answer})
