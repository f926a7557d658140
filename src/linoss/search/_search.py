"""Hyperparameter search for an estimator."""

import filecmp
import inspect
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from linoss import _checks
from linoss._files import copy_directory, make_directory
from linoss.data import Sequences, Table
from linoss.search._records import Study, refuse_other, write_study
from linoss.search._shared import Claim, Definition, SharedStudy
from linoss.search._space import default_ranges, grid_points, make_space
from linoss.search._storage import SILENCE, Storage
from linoss.search._summary import Silence, StudyLine
from linoss.search._worker import summary_of, work
from linoss.training import CheckpointError, Progress

TRIALS, BEST, DATABASE = "trials", "best", "study.db"
_NUMBER_OF_TRIALS = 30
_HELD_OUT, _STEPS = 0.2, 1000
_ALONE = {"n_models": 1, "n_oscillators": None, "min_loss": 0.0}
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
    `out/best`; [`linoss.estimators.load`][] loads them. Any number of processes, on one or several
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
    >>> from linoss.estimators import load
    >>> labels = np.arange(40) % 2
    >>> waves = np.sin(np.outer(1 + labels, np.arange(30)) / 3)
    >>> small = LinOSSClassifier(steps=10, hidden_size=8, state_size=8, num_blocks=1)
    >>> with tempfile.TemporaryDirectory() as out:
    ...     found = linoss.search.search(
    ...         small, waves, labels, out=out, space={"learning_rate": (1e-3, 1e-1)}, trials=2
    ...     )
    ...     best = load(found.directory)
    >>> len(found.trials), best.learning_rate == found.best.parameters["learning_rate"]
    (2, True)

    ```
    """
    kind, folder = type(estimator), Path(out)
    name = kind.__name__
    _checks.one_of("the estimator", name, _METRICS)
    metric, higher_is_better = _METRICS[name]
    estimator = _prepared(estimator, seed)
    if space is None:
        space = default_ranges("paper" if grid == "paper" else None, _changed(estimator))
    elif grid == "paper":
        raise ValueError("grid is 'paper' and there are ranges, expected one of the two")
    ranges = make_space(space, kind)
    points = grid_points(ranges, seed) if grid else None
    number = _number_of(trials, points)
    if silence is not None:
        _checks.number("silence", silence, "at least 2 seconds", lambda s: s >= 2)
    definition = Definition(
        metric=metric,
        higher_is_better=higher_is_better,
        seed=seed,
        grid=bool(grid),
        prune_after=max(estimator.steps // 5, 1) if prune else None,
        settings={"estimator": name, **_settings(estimator, ranges), **_facts(X)},
    )
    make_directory(folder)
    place = Storage(storage or f"sqlite:///{folder / DATABASE}", int(silence or SILENCE))
    try:
        shared = SharedStudy(place, study, definition, ranges, points)
        with place.alone():
            refuse_other(folder, shared.identity)
            write_study(folder, shared.record(), shared.identity)
        show = StudyLine(lambda: summary_of(shared, number), metric) if verbose else Silence()
        trainer = _Trainer(estimator, X, y, folder, show, begin, finish)
        try:
            work(shared, trainer, number, show)
        finally:
            show.close()
        with place.alone():
            result = _with_best(shared.record(), folder)
            write_study(folder, result, shared.identity)
        return result
    finally:
        place.close()


class _Trainer:
    """Runs a trial: trains an estimator in a directory."""

    def __init__(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        folder: Path,
        show: Silence,
        begin: Callable[[Path], None] | None,
        finish: Callable[[Any, Path], None] | None,
    ):
        self.estimator, self.X, self.y, self.folder = estimator, X, y, folder
        self.show, self.begin, self.finish = show, begin, finish

    def __call__(self, claim: Claim) -> float:
        """The metric of the best evaluation."""
        run = f"{TRIALS}/{claim.number}"
        try:
            estimator = self._train(claim, run)
        except CheckpointError:  # in use, damaged, or left by another study
            run = f"{run}-{claim.attempts + 1}"
            estimator = self._train(claim, run)
        for record in estimator.history_:  # also those of an earlier attempt
            if record["metric"] is not None:
                claim.report(record["step"], record["metric"], judge=False)
        best = estimator.best_metric_
        if estimator.n_steps_ == 0:
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

    def _train(self, claim: Claim, run: str) -> Any:
        folder = self.folder / run
        claim.note_run(run)
        if self.begin is not None:
            self.begin(folder)
        estimator = _changed_to(self.estimator, claim.parameters)
        every, metric = estimator.evaluate_every, claim.study.definition.metric

        def progress(state: Progress) -> None:
            self.show.live(f"trial {claim.number}: {state.text(metric)}")
            if state.metric is not None and state.step % every == 0 and state.step < state.steps:
                claim.report(state.step, state.metric)

        options = {"directory": folder, "resume": True, "on_progress": progress}
        if self.y is None:
            return estimator.fit(self.X, **options)
        return estimator.fit(self.X, self.y, **options)


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
    for name, value in _ALONE.items():  # one model, with evaluations during its training
        if name in given:
            changes[name] = value
    return _changed_to(estimator, changes)


def _changed_to(estimator: Any, changes: Mapping[str, Any]) -> Any:
    """An unfitted copy with other parameters."""
    another: Any = clone(estimator)
    return another.set_params(**changes)


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


def _settings(estimator: Any, ranges: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the trials that are not searched."""
    left_out = {"verbose", "devices", *ranges}
    found = estimator.get_params(deep=False)
    return {name: value for name, value in found.items() if name not in left_out}


def _facts(X: Any) -> dict[str, Any]:
    """Sizes of the data, to detect a worker with other data."""
    if isinstance(X, Sequences):
        return {"cases": len(X), "samples": int(np.sum(X.lengths))}
    if isinstance(X, Table):
        return {"series": len(X.series), "samples": sum(len(series) for series in X.series)}
    if isinstance(X, list | tuple):
        return {"cases": len(X), "samples": sum(np.size(case) for case in X)}
    return {"shape": list(np.shape(X))}


def _with_best(study: Study, folder: Path) -> Study:
    """Copy the best run to `best` atomically, if it is on this machine."""
    best, copy = study.best, folder / BEST
    if best is None or best.run is None or not (folder / best.run / "config.json").exists():
        return study
    source = folder / best.run
    if not _same(source, copy):
        copy_directory(source, copy)
    return replace(study, directory=str(copy))


def _same(source: Path, copy: Path) -> bool:
    names, others = (
        sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        for folder in (source, copy)
    )
    return names == others and filecmp.cmpfiles(source, copy, names, shallow=False)[0] == names
