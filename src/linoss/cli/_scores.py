"""Predictions compared with labels: scores of classes, of numbers and of forecasts."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from linoss.cli._output import number, show_line, show_table
from linoss.cli._runs import Run
from linoss.data import DataError, Sequences, Table
from linoss.fitted import Outputs
from linoss.forecasting import Backtest

_METRICS = {"mae": "MAE", "rmse": "RMSE", "mase": "MASE", "pinball": "pinball"}
_CASES = {
    "test": "the test part",
    "held-out": "held-out training cases",
    "validation": "the validation part",
    "training": "the training cases",
}
_TEST_WINDOWS, _TEST_NUMBERS = 200, 3 * 10**6  # windows of the backtest of a test part


@dataclass(frozen=True, eq=False)
class ClassScore:
    """The score of predicted classes."""

    classes: tuple[str, ...]
    truth: np.ndarray
    """(cases,): the index of the true class of each case."""
    probabilities: np.ndarray
    """(cases, classes)."""
    header = ("class", "precision", "recall", "cases")

    @cached_property
    def predicted(self) -> np.ndarray:
        """(cases,): the index of the predicted class; -1 if its probabilities are not numbers."""
        is_number = np.isfinite(self.probabilities).all(axis=1)
        return np.where(is_number, np.argmax(self.probabilities, axis=1), -1)

    @cached_property
    def confusion(self) -> np.ndarray:
        """(classes, classes): cases by true class (rows) and predicted class (columns)."""
        known, labels = self.predicted >= 0, range(len(self.classes))
        return confusion_matrix(self.truth[known], self.predicted[known], labels=labels)

    @cached_property
    def by_class(self) -> tuple[np.ndarray, ...]:
        """Precision, recall and number of cases of each class; NaN where there are none."""
        options: Any = {"labels": range(len(self.classes)), "zero_division": np.nan}
        values: Any = precision_recall_fscore_support(self.truth, self.predicted, **options)
        return values[0], values[1], values[3]

    @property
    def headline(self) -> tuple[str, float]:
        """The name and value of the main metric."""
        return "accuracy", float(np.mean(self.predicted == self.truth))

    @property
    def line(self) -> str:
        """The score as a line."""
        return f"accuracy {self.headline[1]:.4f} on {len(self.truth)} cases"

    def mistakes(self, most: int) -> np.ndarray:
        """The wrongly classified cases with the highest confidence."""
        wrong = np.flatnonzero((self.predicted != self.truth) & (self.predicted >= 0))
        confidence = self.probabilities[wrong, self.predicted[wrong]]
        return wrong[np.argsort(-confidence, kind="stable")][:most]

    def record(self) -> dict[str, Any]:
        """The score for JSON."""
        precision, recall, _ = self.by_class
        return {
            "accuracy": self.headline[1],
            "precision": dict(zip(self.classes, precision, strict=True)),
            "recall": dict(zip(self.classes, recall, strict=True)),
            "confusion": self.confusion,
            "not_numbers": int((self.predicted < 0).sum()),
            "cases": len(self.truth),
        }

    def rows(self) -> list[tuple[str, ...]]:
        """The rows of a table of classes."""
        return [
            (name, *("–" if np.isnan(share) else f"{share:.4f}" for share in shares), str(n))
            for name, *shares, n in zip(self.classes, *self.by_class, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class NumberScore:
    """The score of predicted numbers."""

    truth: np.ndarray
    """(rows, outputs), the concatenated labels; NaN where unknown."""
    predicted: np.ndarray
    """(rows, outputs)."""
    cases: int
    header = ()

    @property
    def errors(self) -> np.ndarray:
        """(known labels,)."""
        known = ~np.isnan(self.truth)
        return self.predicted[known] - self.truth[known]

    @property
    def headline(self) -> tuple[str, float]:
        """The name and value of the main metric."""
        return "MAE", float(np.mean(np.abs(self.errors)))

    @property
    def rmse(self) -> float:
        """The root mean squared error."""
        return float(np.sqrt(np.mean(self.errors**2)))

    @property
    def r2(self) -> float:
        """R², averaged over outputs; NaN if the labels of one are constant."""
        variance = np.nanvar(self.truth, axis=0)
        error = np.nanmean((self.predicted - self.truth) ** 2, axis=0)
        share = error / np.where(variance > 0, variance, np.nan)
        return float(np.mean(1 - share))

    @property
    def line(self) -> str:
        """The score as a line."""
        values = {"MAE": self.headline[1], "R²": self.r2, "RMSE": self.rmse}
        shown = ", ".join(f"{name} {number(value)}" for name, value in values.items())
        return f"{shown} on {self.cases} cases"

    def record(self) -> dict[str, Any]:
        """The score for JSON."""
        return {"mae": self.headline[1], "r2": self.r2, "rmse": self.rmse, "cases": self.cases}

    def rows(self) -> list[tuple[str, ...]]:
        """No table."""
        return []


@dataclass(frozen=True, eq=False)
class ForecastScore:
    """The score of forecasts from past origins."""

    backtest: Backtest

    @property
    def headline(self) -> tuple[str, float]:
        """The name and value of the main metric."""
        return "MASE", self.backtest.error("mase")

    @property
    def line(self) -> str:
        """What is scored, and how."""
        return (
            f"{len(self.backtest.truth)} windows of {self.backtest.horizon} steps. MAE, RMSE and "
            "pinball are in the unit of the variable; MASE is the MAE by that of the value "
            f"{self.backtest.season} steps before."
        )

    def record(self) -> dict[str, Any]:
        """The score for JSON."""
        backtest = self.backtest
        return {
            "mase": backtest.error("mase"),
            "mae": {str(name): backtest.error("mae", variable=name) for name in backtest.names},
            "windows": len(backtest.truth),
            "horizon": backtest.horizon,
            "errors": backtest.rows(),
        }

    @property
    def header(self) -> tuple[str, ...]:
        """The header of a table of errors."""
        levels = [f"in {level:g} %" for level in self.backtest.intervals]
        return ("variable", "forecast by", *_METRICS.values(), *levels)

    def rows(self) -> list[tuple[str, ...]]:
        """The rows of a table of errors, of each variable in its unit."""
        rows = []
        for row in self.backtest.rows():
            is_own = row["model"] == "forecast"
            name, model = (str(row["variable"]), "this model") if is_own else ("", row["model"])
            shares = [row.get(f"coverage-{x:g}", np.nan) for x in self.backtest.intervals]
            covered = ["–" if np.isnan(share) else f"{100 * share:.1f} %" for share in shares]
            rows.append((name, model, *(number(row.get(metric)) for metric in _METRICS), *covered))
        return rows


Score = ClassScore | NumberScore | ForecastScore


def show_score(score: Score) -> None:
    """Print a score."""
    show_line(score.line)
    if score.header:
        show_table(None, score.header, score.rows())


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Predictions for some cases, and their score."""

    kind: str
    """The cases: `"test"`, `"held-out"`, `"validation"` or `"training"`."""
    cases: Sequences | Table
    score: Score | None
    """None if nothing could be scored: a short series without a test part."""

    @property
    def of(self) -> str:
        """The cases, as words."""
        return _CASES[self.kind]

    @property
    def is_test(self) -> bool:
        """Whether the cases are a test part."""
        return self.kind == "test"


def evaluate_run(run: Run, training: Any, test: Any) -> Evaluation:
    """The evaluation on the test part; without one, on held-out or else on the training cases."""
    if test is not None:
        return Evaluation("test", test, score_on(run, test))
    held_out = run.model.held_out
    if run.is_forecaster:
        score = None if held_out is None else ForecastScore(held_out)
        return Evaluation("validation", training, score)
    if held_out is None or held_out.predictions is None:
        return Evaluation("training", training, score_on(run, training))
    cases = training.select(held_out.cases)
    kind = "validation" if held_out.kind == "validation" else "held-out"
    return Evaluation(kind, cases, _compared(run.model.outputs, cases, held_out.predictions))


def score_on(run: Run, cases: Any) -> Score:
    """Score predictions for labelled sequences, or forecasts of the last windows of a table."""
    if run.is_forecaster:
        numbers = run.model.horizon * run.model.n_outputs * len(cases.series)
        windows = max(1, min(_TEST_WINDOWS, _TEST_NUMBERS // numbers))
        return ForecastScore(run.model.backtest(cases, windows=windows))
    if cases.labels is None:
        raise DataError("the data have no labels, expected labels for the score; see --label")
    return _compared(run.model.outputs, cases, run.model.predict(cases))


def _compared(outputs: Outputs, cases: Any, predictions: Any) -> ClassScore | NumberScore:
    """Compare predictions with the labels of their cases."""
    if outputs.classes is not None:
        names = tuple(str(name) for name in outputs.classes.tolist())
        indices = {name: i for i, name in enumerate(names)}
        labels = [str(label) for label in np.asarray(cases.labels).tolist()]
        unknown = next((label for label in labels if label not in indices), None)
        if unknown is not None:
            known = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
            raise DataError(f"a label is {unknown[:80]!r}, expected one of the training's: {known}")
        return ClassScore(names, np.array([indices[label] for label in labels]), predictions)
    predicted = [np.asarray(each, np.float64).reshape(-1, outputs.size) for each in predictions]
    truth = []
    for i, (label, rows) in enumerate(zip(cases.labels, predicted, strict=True)):
        try:
            truth.append(np.asarray(label, np.float64).reshape(rows.shape))
        except ValueError:
            raise DataError(
                f"case {i} has the label {str(label)[:80]!r}, expected {rows.size} numbers"
            ) from None
    score = NumberScore(np.concatenate(truth), np.concatenate(predicted), len(cases))
    if not np.isfinite(score.truth).any():
        raise DataError("no label is known, expected labels for the score")
    return score
