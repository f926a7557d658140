"""Predictions compared with labels: scores of classes, of numbers and of forecasts."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from linoss.cli._output import number, show_line, show_table
from linoss.cli._runs import Run
from linoss.data import DataError, Sequences, Table
from linoss.fitted import Outputs

CLASS_COLUMNS = ("class", "precision", "recall", "cases")
_METRICS = {"mae": "MAE", "rmse": "RMSE", "mase": "MASE", "pinball": "pinball"}
_CASES = {
    "test": "the test part",
    "held-out": "held-out training cases",
    "validation": "the validation part",
    "training": "the training cases",
}
_MOST_SHOWN = 4  # variables in the figure of a forecast
_TEST_WINDOWS, _TEST_NUMBERS = 200, 3 * 10**6  # windows of the backtest of a test part


@dataclass(frozen=True, eq=False)
class ClassScore:
    """The score of predicted classes."""

    classes: tuple[str, ...]
    truth: np.ndarray
    """(cases,): the index of the true class of each case."""
    probabilities: np.ndarray
    """(cases, classes)."""

    @cached_property
    def predicted(self) -> np.ndarray:
        """(cases,): the index of the predicted class; -1 if its probabilities are not numbers."""
        is_number = np.isfinite(self.probabilities).all(axis=1)
        return np.where(is_number, np.argmax(self.probabilities, axis=1), -1)

    @cached_property
    def confusion(self) -> np.ndarray:
        """(classes, classes): cases by true class (rows) and predicted class (columns)."""
        counts = np.zeros((len(self.classes), len(self.classes)), int)
        known = self.predicted >= 0
        np.add.at(counts, (self.truth[known], self.predicted[known]), 1)
        return counts

    @property
    def cases(self) -> np.ndarray:
        """(classes,): the number of cases of each class."""
        return np.bincount(self.truth, minlength=len(self.classes))

    @property
    def headline(self) -> tuple[str, float]:
        """The name and value of the main metric."""
        return "accuracy", float(np.trace(self.confusion) / max(len(self.truth), 1))

    @property
    def recall(self) -> np.ndarray:
        """(classes,); NaN for a class without cases."""
        return _ratio(np.diag(self.confusion), self.cases)

    @property
    def precision(self) -> np.ndarray:
        """(classes,); NaN for a class without predictions."""
        return _ratio(np.diag(self.confusion), self.confusion.sum(axis=0))

    def mistakes(self, most: int) -> np.ndarray:
        """The wrongly classified cases with the highest confidence."""
        wrong = np.flatnonzero((self.predicted != self.truth) & (self.predicted >= 0))
        confidence = self.probabilities[wrong, self.predicted[wrong]]
        return wrong[np.argsort(-confidence, kind="stable")][:most]

    def record(self) -> dict[str, Any]:
        """The score for JSON."""
        name, value = self.headline
        return {
            name: value,
            "precision": dict(zip(self.classes, self.precision, strict=True)),
            "recall": dict(zip(self.classes, self.recall, strict=True)),
            "confusion": self.confusion,
            "not_numbers": int((self.predicted < 0).sum()),
            "cases": len(self.truth),
        }

    def rows(self) -> list[tuple[str, ...]]:
        """The rows of a table of classes."""
        columns = zip(self.classes, self.precision, self.recall, self.cases, strict=True)
        return [
            (name, *("–" if np.isnan(share) else f"{share:.4f}" for share in shares), str(n))
            for name, *shares, n in columns
        ]

    def show(self) -> None:
        """Print it."""
        name, value = self.headline
        show_line(f"{name} {value:.4f} on {len(self.truth)} cases")
        show_table(None, CLASS_COLUMNS, self.rows())


@dataclass(frozen=True, eq=False)
class NumberScore:
    """The score of predicted numbers."""

    truth: np.ndarray
    """(rows, outputs), the concatenated labels; NaN where unknown."""
    predicted: np.ndarray
    """(rows, outputs)."""
    cases: int

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
        shares = []
        for truth, predicted in zip(self.truth.T, self.predicted.T, strict=True):
            known = np.isfinite(truth)
            spread = np.sum((truth[known] - truth[known].mean()) ** 2) if known.any() else 0
            error = np.sum((predicted - truth)[known] ** 2)
            shares.append(1 - error / spread if spread else np.nan)
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


@dataclass(frozen=True, eq=False)
class ForecastScore:
    """The score of forecasts from past origins."""

    backtest: Any
    """A [`linoss.estimators.Backtest`][]."""

    @property
    def headline(self) -> tuple[str, float]:
        """The name and value of the main metric."""
        return "MASE", self.backtest.error("mase")

    def record(self) -> dict[str, Any]:
        """The score for JSON."""
        backtest = self.backtest
        units = {"mae": "variable", "rmse": "variable", "pinball": "variable", "mase": "none"}
        return {
            "mase": backtest.error("mase"),
            "mae": {str(n): backtest.error("mae", variable=n) for n in backtest.names},
            "windows": len(backtest.truth),
            "horizon": backtest.horizon,
            "units": units,
            "errors": backtest.rows(),
        }

    def header(self) -> tuple[str, ...]:
        """The header of a table of errors."""
        return ("variable", "forecast by", *_METRICS.values(), *map(_interval, self._levels))

    def rows(self) -> list[tuple[str, ...]]:
        """The rows of a table of errors, of each variable in its unit."""
        rows = []
        for row in self.backtest.rows():
            is_own = row["model"] == "forecast"
            name, model = (str(row["variable"]), "this model") if is_own else ("", row["model"])
            shares = [row.get(f"coverage-{level:g}", np.nan) for level in self._levels]
            covered = ["–" if np.isnan(share) else f"{100 * share:.1f} %" for share in shares]
            rows.append((name, model, *(number(row.get(metric)) for metric in _METRICS), *covered))
        return rows

    @property
    def note(self) -> str:
        """What the errors are."""
        backtest = self.backtest
        return (
            f"{len(backtest.truth)} windows of {backtest.horizon} steps. MAE, RMSE and pinball are "
            "in the unit of the variable; MASE is the MAE by that of the value "
            f"{backtest.season} steps before."
        )

    @property
    def _levels(self) -> list[float]:
        return list(self.backtest.intervals)

    def show(self) -> None:
        """Print it."""
        show_table(None, self.header(), self.rows())
        show_line(self.note)


Score = ClassScore | NumberScore | ForecastScore


@dataclass(frozen=True, eq=False)
class Forecast:
    """The end of a variable, and its forecast."""

    name: str
    past: np.ndarray
    truth: np.ndarray
    forecast: np.ndarray
    times: np.ndarray
    """Times of the past, then of the forecast: dates, or steps relative to the last input."""
    intervals: dict[float, np.ndarray]
    """Maps levels in percent to (horizon, 2)."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Predictions for some cases, and their score."""

    kind: str
    """The cases: `"test"`, `"held-out"`, `"validation"` or `"training"`."""
    cases: Sequences | Table
    score: Score | None
    """None if nothing could be scored: a short series without a test part."""
    forecasts: tuple[Forecast, ...] = ()
    """Forecasts of the last steps."""

    @property
    def of(self) -> str:
        """The cases, as words."""
        return _CASES[self.kind]

    @property
    def test(self) -> Score | None:
        """The score, if it is that of a test part."""
        return self.score if self.kind == "test" else None


def evaluate_run(run: Run, training: Any, test: Any) -> Evaluation:
    """The evaluation on the test part; without one, on held-out or else on the training cases."""
    if run.is_forecaster:
        if test is not None:
            return Evaluation("test", test, score_on(run, test), _last_forecasts(run.model, test))
        held_out = run.model.held_out
        score = None if held_out is None else ForecastScore(held_out)
        return Evaluation("validation", training, score, _last_forecasts(run.model, training))
    if test is not None:
        return Evaluation("test", test, score_on(run, test))
    held_out = run.model.held_out
    if held_out is None or held_out.predictions is None:
        return Evaluation("training", training, score_on(run, training))
    cases = training.select(held_out.cases)
    kind = "validation" if held_out.kind == "validation" else "held-out"
    return Evaluation(kind, cases, _compared(run.model.outputs, cases, held_out.predictions))


def score_on(run: Run, cases: Any) -> Score:
    """Score predictions for labelled sequences, or forecasts of the last windows of a table."""
    if run.is_forecaster:
        forecaster = run.model
        numbers = forecaster.horizon * forecaster.n_outputs * len(cases.series)
        windows = max(1, min(_TEST_WINDOWS, _TEST_NUMBERS // numbers))
        return ForecastScore(forecaster.backtest(cases, windows=windows))
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


def _last_forecasts(forecaster: Any, table: Table) -> tuple[Forecast, ...]:
    """Forecasts of the last steps of the first series that is long enough."""
    horizon = forecaster.horizon
    chosen = next((i for i, s in enumerate(table.series) if len(s) > horizon), None)
    if chosen is None:
        return ()
    series, index = table.series[chosen], table.index[chosen]
    backtest = forecaster.backtest(table.pick([chosen]), windows=1)
    past = slice(-horizon - forecaster.past, -horizon)
    is_dated = index.dtype.kind == "M"
    times = index if is_dated else np.arange(len(index)) - (len(index) - horizon) + 1
    return tuple(
        Forecast(
            str(name),
            series[past, table.names.index(name)],
            backtest.truth[0, :, i],
            backtest.forecasts["forecast"][0, :, i],
            np.concatenate([times[past], times[-horizon:]]),
            {level: ends[0, :, i] for level, ends in backtest.intervals.items()},
        )
        for i, name in enumerate(backtest.names[:_MOST_SHOWN])
    )


def _ratio(numbers: np.ndarray, totals: np.ndarray) -> np.ndarray:
    return np.where(totals, numbers / np.maximum(totals, 1), np.nan)


def _interval(level: float) -> str:
    return f"in {level:g} %"
