"""What commands work on: a run, which holds a fitted thing or a forecaster, and data."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from linoss.cli._run_settings import holds_a_run

RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="Directory of a run, written by linoss fit.")
]
Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="A file, or a directory with a test part.")
]
Label = Annotated[
    str | None,
    typer.Option(help="Label column of a table.", show_default="as for fit"),
]
Id = Annotated[
    str | None, typer.Option(help="Column with the names of cases.", show_default="as for fit")
]
Drop = Annotated[
    list[str] | None,
    typer.Option(help="Column to ignore; repeatable.", show_default="as for fit"),
]
Out = Annotated[
    Path | None, typer.Option(help="CSV file for the predictions.", show_default="stdout")
]
Levels = Annotated[
    list[float] | None,
    typer.Option(
        help="Prediction interval in percent, such as 80; repeatable.", show_default=False
    ),
]


@dataclass(frozen=True, eq=False)
class Run:
    """What was fitted, and the settings of its estimator."""

    estimator: str
    """The name of the estimator."""
    parameters: dict[str, Any]
    model: Any
    """A [`linoss.fitted.Fitted`][], or a [`linoss.forecasting.FittedForecaster`][]."""

    @classmethod
    def of(cls, estimator: Any) -> "Run":
        """The run of an estimator that was just fitted."""
        parameters = estimator.get_params(deep=False)
        return cls(type(estimator).__name__, parameters, estimator.fitted_)

    @property
    def is_forecaster(self) -> bool:
        """Whether it forecasts tables; otherwise it predicts for sequences."""
        return self.model.task == "forecasting"

    @property
    def trained(self) -> list[Any]:
        """The trained models."""
        return [] if self.model.trained is None else self.model.trained.models


def load_run(directory: str | os.PathLike[str]) -> Run:
    """Load a run."""
    directory = Path(directory)
    if not holds_a_run(directory):
        raise ValueError(f"{directory}: holds no run, expected a directory that linoss fit wrote")
    from linoss.fitted import load
    from linoss.forecasting import FittedForecaster, LinOSSForecaster
    from linoss.training import read_extra

    is_forecaster = read_extra(directory).get("estimator") == LinOSSForecaster.__name__
    model, description = (FittedForecaster.load if is_forecaster else load)(directory)
    return Run(description.estimator, description.parameters, model)


def load_forecaster(directory: Path) -> Run:
    """Load a run that holds a forecaster."""
    run = load_run(directory)
    if not run.is_forecaster:
        raise ValueError(f"{directory}: holds a {run.estimator}; use linoss predict")
    return run


def load_fitted(directory: Path, instead: str = "") -> Any:
    """Load a run that holds a [`linoss.fitted.Fitted`][]."""
    run = load_run(directory)
    if run.is_forecaster:
        hint = instead or "expected a classifier or regressor"
        raise ValueError(f"{directory}: holds a forecaster{'; ' if instead else ', '}{hint}")
    return run.model
