"""Scores of a trained estimator on labelled data."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from linoss.cli._forecast_scores import Forecast, ForecastScore, score_forecasts
from linoss.cli._output import number, show_line, show_table


@dataclass(frozen=True, eq=False)
class ClassScore:
    """The score of a classifier."""

    classes: tuple[str, ...]
    confusion: np.ndarray
    """(classes, classes): cases by true class (rows) and predicted class (columns)."""
    unanswered: np.ndarray
    """(classes,): cases whose prediction is not a number, by true class."""
    truth: np.ndarray | None = None
    """(cases,): the index of the true class of each case."""
    shares: np.ndarray | None = None
    """(cases, classes): probabilities; `truth` and `shares` are None if only counts are known."""

    @property
    def cases(self) -> np.ndarray:
        """(classes,): the number of cases of each class."""
        return self.confusion.sum(axis=1) + self.unanswered

    @property
    def headline(self) -> tuple[str, float]:
        """The name and value of the main metric."""
        return "accuracy", float(np.trace(self.confusion) / max(self.cases.sum(), 1))

    @property
    def recall(self) -> np.ndarray:
        """(classes,), recall; NaN for a class without cases."""
        found = np.diag(self.confusion) / np.maximum(self.cases, 1)
        return np.where(self.cases, found, np.nan)

    @property
    def precision(self) -> np.ndarray:
        """(classes,), precision; NaN for a class without predictions."""
        answers = self.confusion.sum(axis=0)
        return np.where(answers, np.diag(self.confusion) / np.maximum(answers, 1), np.nan)

    def record(self) -> dict[str, Any]:
        """The score for JSON."""
        name, value = self.headline
        return {
            name: value,
            "precision": dict(zip(self.classes, self.precision, strict=True)),
            "recall": dict(zip(self.classes, self.recall, strict=True)),
            "confusion": self.confusion,
            "unanswered": int(self.unanswered.sum()),
            "cases": int(self.cases.sum()),
        }

    def rows(self) -> list[tuple[str, ...]]:
        """The rows of a table of classes."""
        columns = zip(self.classes, self.precision, self.recall, self.cases, strict=True)
        return [(name, *map(_share, shares), str(n)) for name, *shares, n in columns]

    def show(self) -> None:
        """Print it."""
        name, value = self.headline
        show_line(f"{name} {value:.4f} on {int(self.cases.sum())} cases")
        show_table(None, CLASS_COLUMNS, self.rows())


CLASS_COLUMNS = ("class", "precision", "recall", "cases")


def _share(share: float) -> str:
    return "–" if np.isnan(share) else f"{share:.4f}"


@dataclass(frozen=True, eq=False)
class NumberScore:
    """The score of a regressor."""

    truth: np.ndarray
    """(rows, outputs), the concatenated labels; NaN where unknown."""
    found: np.ndarray
    """(rows, outputs), the predictions."""
    cases: int

    @property
    def errors(self) -> np.ndarray:
        """(rows, outputs)."""
        return self.found - self.truth

    @property
    def headline(self) -> tuple[str, float]:
        """The name and value of the main metric."""
        return "MAE", float(np.mean(np.abs(self.errors), where=~np.isnan(self.truth)))

    @property
    def rmse(self) -> float:
        """The root mean squared error."""
        return float(np.sqrt(np.mean(self.errors**2, where=~np.isnan(self.truth))))

    @property
    def r2(self) -> float:
        """R², averaged over outputs; NaN if there is none."""
        shares = []
        for truth, errors in zip(self.truth.T, self.errors.T, strict=True):
            known = np.isfinite(truth)
            spread = np.sum((truth[known] - truth[known].mean()) ** 2) if known.any() else 0
            shares.append(1 - np.sum(errors[known] ** 2) / spread if spread else np.nan)
        return float(np.mean(shares))

    def record(self) -> dict[str, Any]:
        """The score for JSON."""
        return {"mae": self.headline[1], "r2": self.r2, "rmse": self.rmse, "cases": self.cases}

    def show(self) -> None:
        """Print it."""
        name, value = self.headline
        show_line(
            f"{name} {number(value)}, R² {number(self.r2)}, RMSE {number(self.rmse)} "
            f"on {self.cases} cases"
        )


Score = ClassScore | NumberScore | ForecastScore


def score_of(
    estimator: Any, task: str, training: Any, test: Any
) -> tuple[Score | None, list[Forecast]]:
    """The score on the test part, if there is one, and forecasts to show."""
    if task == "forecasting":
        return score_forecasts(estimator, training, test)
    return None if test is None else score_cases(estimator, test), []


def score_cases(estimator: Any, cases: Any) -> ClassScore | NumberScore:
    """Score a classifier or regressor on labelled sequences."""
    from linoss.data import DataError

    if cases.labels is None:
        raise DataError("the data have no labels, expected labels for the score; see --label")
    classes = hasattr(estimator, "classes_")
    return _compared(
        estimator, cases, (estimator.predict_proba if classes else estimator.predict)(cases)
    )


def own_score(estimator: Any, cases: Any) -> tuple[str, ClassScore | NumberScore, Any]:
    """The score without a test part: its kind, its value, and its cases.

    It is the score on held-out training cases; if there are none, that on all training cases, with
    another kind.
    """
    if getattr(estimator, "left_out_", None) is None:
        return "training", score_cases(estimator, cases), cases
    places, answers = estimator.left_out_
    cases = cases.select(places)
    kind = "left-out" if getattr(estimator, "crossed_", True) else "validation"
    return kind, _compared(estimator, cases, answers), cases


def _compared(estimator: Any, cases: Any, answers: Any) -> ClassScore | NumberScore:
    if hasattr(estimator, "classes_"):
        return _score_classes(estimator, cases, answers)
    return _score_numbers(estimator, cases, answers)


def _score_classes(estimator: Any, cases: Any, shares: np.ndarray) -> ClassScore:
    from linoss.data import DataError

    names = tuple(str(name) for name in estimator.classes_.tolist())
    places = {name: i for i, name in enumerate(names)}
    labels = [str(label) for label in np.asarray(cases.labels).tolist()]
    unknown = next((label for label in labels if label not in places), None)
    if unknown is not None:
        known = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
        raise DataError(f"a label is {unknown[:80]!r}, expected one of the training's: {known}")
    found = np.argmax(shares, axis=1)
    found[np.isnan(shares).any(axis=1)] = len(names)
    truth = np.array([places[label] for label in labels])
    counts = np.zeros((len(names), len(names) + 1), int)
    np.add.at(counts, (truth, found), 1)
    return ClassScore(names, counts[:, :-1], counts[:, -1], truth, shares)


def _score_numbers(estimator: Any, cases: Any, answers: Any) -> NumberScore:
    from linoss.data import DataError

    outputs = estimator.n_outputs_
    found = [np.asarray(a, np.float64).reshape(-1, outputs) for a in answers]
    truth = []
    for i, (label, answer) in enumerate(zip(cases.labels, found, strict=True)):
        try:
            truth.append(np.asarray(label, np.float64).reshape(answer.shape))
        except ValueError:
            raise DataError(
                f"case {i} has the label {str(label)[:80]!r}, expected {answer.size} numbers"
            ) from None
    score = NumberScore(np.concatenate(truth), np.concatenate(found), len(cases))
    if not np.isfinite(score.truth).any():
        raise DataError("no label is known, expected labels for the score")
    return score
