"""Predictions compared with labels: scores of classes, of numbers and of forecasts."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support, roc_auc_score

from linoss.cli._output import number, show_line, show_table
from linoss.data import DataError, Sequences, Table
from linoss.fitted import Outputs
from linoss.forecasting import Backtest

NAMES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "f1": "F1",
    "auc": "AUC",
    "mae": "MAE",
    "r2": "R²",
    "rmse": "RMSE",
    "mase": "MASE",
    "pinball": "pinball",
}
"""Metrics as people see them."""
_ERRORS = ("mae", "rmse", "mase", "pinball")
_CASES = {
    "test": "the test part",
    "held-out": "held-out training cases",
    "validation": "the validation part",
    "training": "the training cases",
}
_TEST_WINDOWS, _TEST_NUMBERS = 200, 3 * 10**6  # windows of the backtest of a test part


@dataclass(frozen=True, eq=False)
class Score:
    """Predictions for some cases, compared with their labels."""

    kind: str
    """The cases: `"test"`, `"held-out"`, `"validation"` or `"training"`."""
    cases: Any
    metrics: dict[str, float] = field(default_factory=dict)
    """The main one first; empty if nothing could be scored: a short series without a test part."""
    line: str = ""
    """The metrics as a line."""
    header: tuple[str, ...] = ()
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    """A table of classes or variables."""
    details: dict[str, Any] = field(default_factory=dict)
    """Further values for JSON."""
    classes: tuple[str, ...] = ()
    truth: Any = None
    """(cases,) for classes their indices; (rows, outputs) for numbers, NaN where unknown."""
    predicted: Any = None
    """The same; for classes -1 where probabilities are not numbers."""
    confidence: Any = None
    """(cases,): the largest probabilities."""
    confusion: Any = None
    """(classes, classes): cases by true class (rows) and predicted class (columns)."""
    backtest: Backtest | None = None

    @property
    def of(self) -> str:
        """The cases, as words."""
        return _CASES[self.kind]

    @property
    def headline(self) -> tuple[str, float]:
        """The name and value of the main metric."""
        name, value = next(iter(self.metrics.items()))
        return NAMES[name], value

    def record(self) -> dict[str, Any]:
        """The score for JSON."""
        return {**self.metrics, **self.details}

    def show(self) -> None:
        """Print it."""
        show_line(self.line)
        if self.header:
            show_table(None, self.header, self.rows)

    def mistakes(self, most: int) -> np.ndarray:
        """The wrongly classified cases with the highest confidence."""
        wrong = np.flatnonzero((self.predicted != self.truth) & (self.predicted >= 0))
        return wrong[np.argsort(-self.confidence[wrong], kind="stable")][:most]


def score_of(fitted: Any, training: Any, test: Any) -> Score:
    """The score on the test part; without one, on held-out or else on the training cases."""
    held_out = None if test is not None else fitted.held_out
    if fitted.task == "forecasting" and test is not None:
        numbers = fitted.horizon * fitted.n_outputs * len(test.series)
        windows = max(1, min(_TEST_WINDOWS, _TEST_NUMBERS // numbers))
        return forecast_score("test", test, fitted.backtest(test, windows=windows))
    if fitted.task == "forecasting":
        score = Score("validation", training)
        return score if held_out is None else forecast_score("validation", training, held_out)
    if held_out is not None and held_out.predictions is not None:
        kind = "validation" if held_out.kind == "validation" else "held-out"
        cases, predictions = training.select(held_out.cases), held_out.predictions
    else:
        kind, cases = ("training", training) if test is None else ("test", test)
        if cases.labels is None:
            raise DataError("the data have no labels, expected labels for the score; see --label")
        predictions = fitted.predict(cases)
    compare = _number_score if fitted.classes is None else _class_score
    return compare(kind, cases, fitted.outputs, predictions)


def _line(metrics: dict[str, float], cases: int) -> str:
    shown = ", ".join(f"{NAMES[name]} {number(value)}" for name, value in metrics.items())
    return f"{shown} on {cases} cases"


def _class_score(kind: str, cases: Sequences, outputs: Outputs, probabilities: Any) -> Score:
    """The score of probabilities `(cases, classes)`."""
    assert outputs.classes is not None
    classes = tuple(str(name) for name in outputs.classes.tolist())
    indices = {name: i for i, name in enumerate(classes)}
    labels = [str(label) for label in np.asarray(cases.labels).tolist()]
    unknown = next((label for label in labels if label not in indices), None)
    if unknown is not None:
        known = ", ".join(classes[:10]) + (", ..." if len(classes) > 10 else "")
        raise DataError(f"a label is {unknown[:80]!r}, expected one of the training's: {known}")
    truth = np.array([indices[label] for label in labels])
    is_number = np.isfinite(probabilities).all(axis=1)
    predicted = np.where(is_number, np.argmax(probabilities, axis=1), -1)
    every: Any = {"labels": range(len(classes))}
    confusion = confusion_matrix(truth[is_number], predicted[is_number], **every)
    every["zero_division"] = np.nan
    by_class: Any = precision_recall_fscore_support(truth, predicted, **every)
    precision, recall, f1, counts = by_class
    metrics = {
        "accuracy": float(np.mean(predicted == truth)),
        "balanced_accuracy": float(np.mean(recall[counts > 0])),
        "f1": float(np.mean(np.nan_to_num(f1[counts > 0]))),
    }
    if counts.all() and is_number.all():
        is_class = truth[:, None] == np.arange(len(classes))
        metrics["auc"] = float(roc_auc_score(is_class, probabilities))
    rows = [
        (name, *map(number, shares), str(count))
        for name, *shares, count in zip(classes, *by_class, strict=True)
    ]
    details = {
        "precision": dict(zip(classes, precision, strict=True)),
        "recall": dict(zip(classes, recall, strict=True)),
        "confusion": confusion,
        "not_numbers": int(np.sum(~is_number)),
        "cases": len(truth),
    }
    return Score(
        kind, cases, metrics, _line(metrics, len(truth)),
        ("class", "precision", "recall", "F1", "cases"), rows, details,
        classes, truth, predicted, np.max(probabilities, axis=1), confusion,
    )  # fmt: skip


def _number_score(kind: str, cases: Sequences, outputs: Outputs, predictions: Any) -> Score:
    """The score of numbers; R² is averaged over outputs, NaN if the labels of one are constant."""
    labels, rows = [], [np.asarray(p, np.float64).reshape(-1, outputs.size) for p in predictions]
    assert cases.labels is not None
    for i, (label, row) in enumerate(zip(cases.labels, rows, strict=True)):
        try:
            labels.append(np.asarray(label, np.float64).reshape(row.shape))
        except ValueError:
            raise DataError(
                f"case {i} has the label {str(label)[:80]!r}, expected {row.size} numbers"
            ) from None
    truth, predicted = np.concatenate(labels), np.concatenate(rows)
    if not np.isfinite(truth).any():
        raise DataError("no label is known, expected labels for the score")
    errors, variance = predicted - truth, np.nanvar(truth, axis=0)
    share = np.nanmean(errors**2, axis=0) / np.where(variance > 0, variance, np.nan)
    metrics = {
        "mae": float(np.nanmean(np.abs(errors))),
        "r2": float(np.mean(1 - share)),
        "rmse": float(np.sqrt(np.nanmean(errors**2))),
    }
    details, line = {"cases": len(cases)}, _line(metrics, len(cases))
    return Score(kind, cases, metrics, line, details=details, truth=truth, predicted=predicted)


def forecast_score(kind: str, table: Table, backtest: Backtest) -> Score:
    """The score of forecasts from past origins, with the errors of each variable in its unit."""
    levels, rows = list(backtest.intervals), []
    for row in backtest.rows():
        is_own = row["model"] == "forecast"
        name, model = (str(row["variable"]), "this model") if is_own else ("", row["model"])
        shares = [row.get(f"coverage-{level:g}", np.nan) for level in levels]
        covered = ["–" if np.isnan(share) else f"{100 * share:.1f} %" for share in shares]
        rows.append((name, model, *(number(row.get(metric)) for metric in _ERRORS), *covered))
    line = (
        f"{len(backtest.truth)} windows of {backtest.horizon} steps. MAE, RMSE and pinball are in "
        "the unit of the variable; MASE is the MAE by that of the value "
        f"{backtest.season} steps before."
    )
    header = (
        "variable",
        "forecast by",
        *(NAMES[each] for each in _ERRORS),
        *(f"in {x:g} %" for x in levels),
    )
    details = {
        "mae": {str(name): backtest.error("mae", variable=name) for name in backtest.names},
        "windows": len(backtest.truth),
        "horizon": backtest.horizon,
        "errors": backtest.rows(),
    }
    metrics = {"mase": backtest.error("mase")}
    return Score(kind, table, metrics, line, header, rows, details, backtest=backtest)


def errors_by_series(backtest: Backtest) -> list[tuple[str, int, str]]:
    """Name, number of windows and MASE of each series, the worst first; none for a single one."""
    if backtest.ids is None:
        return []
    of = np.array([str(name) for name in backtest.ids])
    rows = []
    for name in dict.fromkeys(of.tolist()):
        chosen = of == name
        one = replace(
            backtest,
            truth=backtest.truth[chosen],
            forecasts={"forecast": backtest.forecasts["forecast"][chosen]},
            scale=backtest.scale[chosen],
        )
        rows.append((name, int(chosen.sum()), one.error("mase")))
    rows.sort(key=lambda row: -np.nan_to_num(row[2], nan=-1.0))
    return [(name, windows, number(error)) for name, windows, error in rows]
