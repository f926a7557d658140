"""Hyperparameter search for an estimator."""

import inspect
import json
import math
import os
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sklearn.base import clone

from linoss import _checks
from linoss._files import copy_directory, locked, make_directory, write_text
from linoss._stderr import ProgressBar, say
from linoss.data import Table
from linoss.search._space import default_ranges, extra, grid_points, make_space
from linoss.search._study import NUMBER, RUN, Study
from linoss.search._worker import Worker, opened
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
    _checks.one_of("the estimator", kind.__name__, _METRICS)
    metric, higher_is_better = _METRICS[kind.__name__]
    estimator = _prepared(estimator, seed)
    chosen, defaults = estimator.get_params(deep=False), inspect.signature(kind).parameters
    if space is None:
        fixed = {name for name, value in chosen.items() if value != defaults[name].default}
        space = default_ranges(kind, "paper" if grid == "paper" else None, fixed)
    elif grid == "paper":
        raise ValueError("grid is 'paper' and there are ranges, expected one of the two")
    ranges = make_space(space, kind)
    points = grid_points(ranges, seed) if grid else None
    if trials is not None:
        _checks.positive_integer("trials", trials)
    number = trials or _NUMBER_OF_TRIALS
    if points is not None:
        number = min(trials or len(points), len(points))
    if silence is not None:
        _checks.number("silence", silence, "at least 2 seconds", lambda s: s >= 2)
    settings = {n: x for n, x in chosen.items() if n not in {"verbose", "devices", *ranges}}
    settings |= {"estimator": kind.__name__, "cases": len(X.series if isinstance(X, Table) else X)}
    bar, data = ProgressBar(), (X,) if y is None else (X, y)
    shown = bar if verbose and bar.is_live else None
    trainer = _Trainer(estimator, data, folder, metric, finish, shown)
    make_directory(folder)
    prune_after = max(estimator.steps // 5, 1) if prune else None
    with opened(storage or f"sqlite:///{folder / DATABASE}", int(silence or _SILENCE)) as database:
        empty = Study(study, metric, higher_is_better)
        worker = Worker(database, empty, settings, ranges, points, seed, prune_after)

        def tell(line: str) -> None:
            if verbose:
                say(f"{line}; {worker.record().progress(number)}")

        worker.work(trainer.run, number, tell)
        with locked(folder, wait=True):
            result = worker.record()
            best = result.best
            if best and best.run and (folder / best.run / "config.json").exists():
                copy_directory(folder / best.run, folder / BEST)
                result = replace(result, directory=str(folder / BEST))
            record = {"format": "linoss-study", **result.record()}
            write_text(folder / "study.json", json.dumps(record, indent=1, allow_nan=False) + "\n")
        return result


@dataclass(frozen=True, eq=False)
class _Trainer:
    """Runs a trial: trains an estimator in a directory."""

    estimator: Any
    data: tuple[Any, ...]
    """X, or X and y."""
    folder: Path
    metric: str
    finish: Callable[[Any, Path], None] | None
    bar: ProgressBar | None
    """Where to show the progress."""

    def run(self, trial: Any) -> float:
        """The metric of the best evaluation of one of Optuna's trials."""
        run = f"{TRIALS}/{trial.user_attrs[NUMBER]}"
        try:
            estimator = self._train(trial, run)
        except (CheckpointError, BlockingIOError):  # in use, damaged, or left by another study
            run = f"{run}-{trial.number}"
            estimator = self._train(trial, run)
        trained = estimator.fitted_.trained
        for record in trained.history if trained else ():  # also those of an earlier attempt
            if record["metric"] is not None:
                trial.report(record["metric"], record["step"])
        if not trained or trained.best_metric is None or not math.isfinite(trained.best_metric):
            raise ValueError(
                "trials cannot be compared: no model was trained, or nothing is held out; use more "
                "steps, longer series, base=False, or a larger validation_fraction, such as 0.2"
            )
        if self.finish is not None:
            self.finish(estimator, self.folder / run)
        return trained.best_metric

    def _train(self, trial: Any, run: str) -> Any:
        trial.set_user_attr(RUN, run)
        estimator: Any = clone(self.estimator)
        estimator.set_params(**trial.params)
        every, number = estimator.evaluate_every, trial.user_attrs[NUMBER]

        def progress(state: Progress) -> None:
            if self.bar is not None:
                text = f"trial {number}: {state.text(self.metric)}"
                self.bar.show(state.step, state.steps, text)
            if state.metric is not None and state.step % every == 0 and state.step < state.steps:
                trial.report(state.metric, state.step)
                if trial.should_prune():
                    raise extra("optuna").TrialPruned

        with nullcontext() if self.bar is None else closing(self.bar):
            options = {"directory": self.folder / run, "resume": True, "on_progress": progress}
            return estimator.fit(*self.data, **options)


def _prepared(estimator: Any, seed: int) -> Any:
    """A copy with the common settings of all trials."""
    given = estimator.get_params(deep=False)
    if given["epochs"] is not None:
        raise ValueError(
            f"epochs is {given['epochs']}, but trials are compared by steps; set these"
        )
    steps = _STEPS if given["steps"] is None else given["steps"]
    defaults = {
        "random_state": seed, "validation_fraction": _HELD_OUT, "steps": steps,
        "evaluate_every": max(steps // 20, 1),
    }  # fmt: skip
    changes = {name: value for name, value in defaults.items() if given[name] is None}
    fixed = {name: value for name, value in _ALONE.items() if name in given}
    another: Any = clone(estimator)
    return another.set_params(verbose=0, **changes, **fixed)
