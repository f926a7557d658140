"""Hyperparameter search for an estimator."""

import inspect
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sklearn.base import clone

from linoss import _checks
from linoss._files import copy_directory, locked, make_directory
from linoss._stderr import ProgressBar, say
from linoss.data import Table
from linoss.search._space import default_ranges, grid_points, make_space
from linoss.search._storage import opened
from linoss.search._study import Study, write_study
from linoss.search._worker import RunningTrial, SharedStudy
from linoss.training import CheckpointError, Progress

TRIALS, BEST, DATABASE = "trials", "best", "study.db"
_NUMBER_OF_TRIALS = 30
_SILENCE = 60  # seconds
_HELD_OUT, _STEPS = 0.2, 1000
_ALONE = {"n_models": 1, "min_loss": 0.0}  # one model, with evaluations during its training
_METRICS = {
    "LinOSSClassifier": ("accuracy", True),
    "LinOSSRegressor": ("mse", False),
    "LinOSSForecaster": ("mae", False),
}


def search(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    out: str | os.PathLike[str],
    space: Mapping[str, Any] | None = None,
    grid: bool | str = False,
    trials: int | None = None,
    storage: str | None = None,
    study: str = "search",
    seed: int = 0,
    prune: bool = True,
    silence: int | None = None,
    verbose: int = 0,
    begin: Callable[[Path], None] | None = None,
    finish: Callable[[Any, Path], None] | None = None,
) -> Study:
    """Search parameters of an estimator by their score on held-out cases. Returns all trials.

    Each trial is a run in its own directory, `out/trials/NUMBER`, and the best one is copied to
    `out/best`; `linoss.load` loads them. Any number of processes, on one or several
    machines, that call this with the same arguments share the work. If a process dies, another one
    continues its trial, from its last checkpoint if `out` is shared. Call it again to continue a
    search that was stopped.

    **Arguments:**

    - `estimator`: the estimator with all parameters that are not searched. If it has no
      `validation_fraction`, a fifth of the data is held out.
    - `X`, `y`: as for its `fit`.
    - `out`: the directory of the search.
    - `space`: for each parameter a list of values, `(low, high)`, or either as text: `"16,64"`,
      `"1e-4..1e-2"`. A range that spans a decade is logarithmic. By default learning rate, sizes,
      blocks and dropout, if the estimator has them at their defaults.
    - `grid`: True to try every combination of `space`; `"paper"` for the grid of the paper.
    - `trials`: number of trials of all workers together; by default 30, or the whole grid.
    - `storage`: `sqlite:///FILE`, by default in `out`; or, for several machines,
      `postgresql://USER:PASSWORD@HOST/DATABASE`.
    - `study`: the name of the study, if a storage holds several.
    - `seed`: seed of the search, and the `random_state` of an estimator without one.
    - `prune`: stop trials that are worse than the median of others at the same step.
    - `silence`: seconds without a heartbeat after which a worker counts as dead; by default 60.
    - `verbose`: 1 to show progress.
    - `begin`: called with each trial's directory before its training.
    - `finish`: called with each trained estimator and its directory.

    ```python
    >>> import numpy as np, tempfile
    >>> import linoss.search
    >>> from linoss import LinOSSClassifier
    >>> from linoss import load
    >>> labels = np.arange(40) % 2
    >>> waves = np.sin(np.outer(1 + labels, np.arange(30)) / 3)
    >>> small = LinOSSClassifier(steps=10, hidden_size=8, state_size=8, num_blocks=1)
    >>> with tempfile.TemporaryDirectory() as out:
    ...     study = linoss.search.search(
    ...         small, waves, labels, out=out, space={"learning_rate": (1e-3, 1e-1)}, trials=2
    ...     )
    ...     best = load(study.directory)
    >>> len(study.trials), best.learning_rate == study.best.parameters["learning_rate"]
    (2, True)

    ```
    """
    kind, folder = type(estimator), Path(out)
    name = kind.__name__
    _checks.one_of("the estimator", name, _METRICS)
    metric, higher_is_better = _METRICS[name]
    estimator = _prepared(estimator, seed)
    if space is None:
        space = default_ranges(kind, "paper" if grid == "paper" else None, _changed(estimator))
    elif grid == "paper":
        raise ValueError("grid is 'paper' and there are ranges, expected one of the two")
    ranges = make_space(space, kind)
    points = grid_points(ranges, seed) if grid else None
    number = _number_of(trials, points)
    if silence is not None:
        _checks.number("silence", silence, "at least 2 seconds", lambda s: s >= 2)
    fixed = estimator.get_params(deep=False).items()
    settings = {n: value for n, value in fixed if n not in {"verbose", "devices", *ranges}}
    settings |= {"estimator": name, "cases": len(X.series if isinstance(X, Table) else X)}
    bar = ProgressBar()
    shown = bar if verbose and bar.is_live else None
    trainer = _Trainer(estimator, X, y, folder, metric, begin, finish, shown)
    make_directory(folder)
    url = storage or f"sqlite:///{folder / DATABASE}"
    with opened(url, int(silence or _SILENCE)) as database:
        shared = SharedStudy(
            database,
            Study(study, metric, higher_is_better),
            ranges,
            settings,
            points=points,
            seed=seed,
            prune_after=max(estimator.steps // 5, 1) if prune else None,
        )

        def tell(line: str) -> None:
            if verbose:
                say(f"{line}; {shared.record().progress(number)}")

        shared.work(trainer, number, tell)
        with locked(folder, wait=True):
            result = _with_best(shared.record(importance=True), folder)
            write_study(folder, result)
        return result


@dataclass(frozen=True, eq=False)
class _Trainer:
    """Runs a trial: trains an estimator in a directory."""

    estimator: Any
    X: Any
    y: Any
    folder: Path
    metric: str
    begin: Callable[[Path], None] | None
    finish: Callable[[Any, Path], None] | None
    bar: ProgressBar | None
    """Where to show the progress."""

    def __call__(self, trial: RunningTrial) -> float:
        """The metric of the best evaluation."""
        run = f"{TRIALS}/{trial.number}"
        try:
            estimator = self._train(trial, run)
        except (CheckpointError, BlockingIOError):  # in use, damaged, or left by another study
            run = f"{run}-{trial.attempts + 1}"
            estimator = self._train(trial, run)
        trained = estimator.fitted_.trained
        history, steps, best = trained.history, trained.n_steps, trained.best_metric
        for record in history:  # also those of an earlier attempt
            if record["metric"] is not None:
                trial.report(record["step"], record["metric"])
        if steps == 0:
            raise ValueError(
                "trials cannot be compared: they train no model, because steps is 0, or because "
                "the series to forecast are short; use longer series, or base=False"
            )
        if best is None or not math.isfinite(best):
            raise ValueError(
                "trials cannot be compared: nothing is held out; set validation_fraction to a "
                "larger value, such as 0.2"
            )
        if self.finish is not None:
            self.finish(estimator, self.folder / run)
        return best

    def _train(self, trial: RunningTrial, run: str) -> Any:
        folder = self.folder / run
        trial.note_run(run)
        if self.begin is not None:
            self.begin(folder)
        estimator = _with(self.estimator, trial.parameters)
        every = estimator.evaluate_every

        def progress(state: Progress) -> None:
            if self.bar is not None:
                text = f"trial {trial.number}: {state.text(self.metric)}"
                self.bar.show(state.step, state.steps, text)
            if state.metric is not None and state.step % every == 0 and state.step < state.steps:
                trial.report(state.step, state.metric, may_prune=True)

        options = {"directory": folder, "resume": True, "on_progress": progress}
        labels = () if self.y is None else (self.y,)
        try:
            return estimator.fit(self.X, *labels, **options)
        finally:
            if self.bar is not None:
                self.bar.close()


def _prepared(estimator: Any, seed: int) -> Any:
    """A copy with the common settings of all trials."""
    given = estimator.get_params(deep=False)
    changes: dict[str, Any] = {"verbose": 0}
    if given["random_state"] is None:
        changes["random_state"] = seed
    if given["validation_fraction"] is None:
        changes["validation_fraction"] = _HELD_OUT
    if given["epochs"] is not None:
        raise ValueError(
            f"epochs is {given['epochs']}, but trials are compared by steps; set these"
        )
    if given["steps"] is None:
        changes["steps"] = _STEPS
    if given["evaluate_every"] is None:
        changes["evaluate_every"] = max((given["steps"] or _STEPS) // 20, 1)
    for name, value in _ALONE.items():
        if name in given:
            changes[name] = value
    return _with(estimator, changes)


def _with(estimator: Any, parameters: Mapping[str, Any]) -> Any:
    """An unfitted copy with other parameters."""
    another: Any = clone(estimator)
    return another.set_params(**parameters)


def _changed(estimator: Any) -> set[str]:
    """The parameters that are not at their defaults."""
    defaults = inspect.signature(type(estimator)).parameters
    given = estimator.get_params(deep=False)
    return {name for name, value in given.items() if value != defaults[name].default}


def _number_of(trials: int | None, points: list[dict[str, Any]] | None) -> int:
    if trials is not None:
        _checks.positive_integer("trials", trials)
    if points is None:
        return trials or _NUMBER_OF_TRIALS
    return min(trials or len(points), len(points))


def _with_best(study: Study, folder: Path) -> Study:
    """Copy the best run to `best` atomically, if it is on this machine."""
    best, copy = study.best, folder / BEST
    if best is None or best.run is None or not (folder / best.run / "config.json").exists():
        return study
    copy_directory(folder / best.run, copy)
    return replace(study, directory=str(copy))
