"""A study of given points, whose trials are run by a function."""

from collections.abc import Callable, Sequence
from typing import Any

from linoss.search._shared import Claim, Definition, SharedStudy
from linoss.search._space import Space, Values
from linoss.search._storage import Storage
from linoss.search._summary import Silence
from linoss.search._worker import summary_of, work

Report = Callable[[int, float], None]
"""Called with a step and the validation metric there."""


def search_grid(
    trial: Callable[[int, Report], float],
    points: Sequence[dict[str, Any]],
    *,
    storage: str,
    study: str,
    metric: str,
    higher_is_better: bool,
    settings: dict[str, Any],
    on_end: Callable[[str], None],
    wait: bool = True,
) -> None:
    """Run the trials of a grid. Processes that call this with the same arguments share the work.

    A trial whose process died is run by another.

    **Arguments:**

    - `trial`: called with the number of a point and a function to report evaluations to; returns
      the validation metric. A [`linoss.training.TrainingError`][] counts as a failed trial.
    - `points`: the values of every parameter, for each trial.
    - `storage`, `study`: as for [`linoss.search.search`][].
    - `metric`, `higher_is_better`: the metric for comparing trials.
    - `settings`: all other settings of the trials; must be equal in all processes.
    - `on_end`: called with a line about each trial that this process has finished.
    - `wait`: whether to wait for the trials of other processes.

    ```python
    >>> import tempfile
    >>> from linoss.search import search_grid
    >>> points, lines = [{"size": 8}, {"size": 16}], []
    >>> names = {"study": "sizes", "metric": "accuracy", "higher_is_better": True, "settings": {}}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     url = f"sqlite:///{folder}/study.db"
    ...     search_grid(
    ...         lambda i, _: (1 + i) / 2, points, storage=url, on_end=lines.append, **names
    ...     )
    >>> [line.partition(";")[0] for line in lines]
    ['trial 0: accuracy 0.5', 'trial 1: accuracy 1']

    ```
    """
    space: Space = {
        name: Values(tuple(dict.fromkeys(point[name] for point in points))) for name in points[0]
    }
    definition = Definition(
        metric=metric,
        higher_is_better=higher_is_better,
        grid=True,
        settings={**settings, "points": list(points)},
    )

    def objective(claim: Claim) -> float:
        return trial(claim.number, lambda step, value: claim.report(step, value, judge=False))

    place = Storage(storage)
    try:
        shared = SharedStudy(place, study, definition, space, points)
        work(shared, objective, len(points), _Lines(shared, len(points), on_end), wait=wait)
    finally:
        place.close()


class _Lines(Silence):
    """A line for each trial that this process has finished."""

    def __init__(self, study: SharedStudy, trials: int, on_end: Callable[[str], None]):
        self._study, self._trials, self._on_end = study, trials, on_end

    def ended(self, what: str) -> None:
        """Report the trial, and the progress of the study."""
        summary = summary_of(self._study, self._trials)
        self._on_end(f"{what}; {summary.text(self._study.definition.metric)}")
