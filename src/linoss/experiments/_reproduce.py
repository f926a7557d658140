"""Running any experiment."""

import importlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from linoss import _checks
from linoss._files import write_text
from linoss.experiments._figures import Figures
from linoss.experiments._protocol import Options, as_path, chosen
from linoss.experiments._published import read_published
from linoss.experiments._results import read_results

Experiment = Literal[
    "uea",
    "uea-search",
    "ppg",
    "weather",
    "harmonic-motion",
    "parameterization",
    "timestep",
    "parameters",
    "efficiency",
]
EXPERIMENTS: tuple[str, ...] = Experiment.__args__
"""The names of all experiments."""


class ChoiceError(ValueError):
    """A choice that an experiment does not have; nothing was run."""


def module_of(experiment: str) -> Any:
    """The module of an experiment; each has `SCOPE`, `run` and `report`."""
    _checks.one_of("experiment", experiment, EXPERIMENTS)
    return importlib.import_module(f"linoss.experiments.{experiment.replace('-', '_')}")


def reproduce(
    experiment: str,
    *,
    out: str | os.PathLike[str],
    data_dir: str | os.PathLike[str] | None = None,
    seeds: Iterable[int] | None = None,
    models: Iterable[str] | None = None,
    data_sets: Iterable[str] | None = None,
    variants: Iterable[str] | None = None,
    protocol: str = "paper",
    max_steps: int | None = None,
    resume: bool = False,
    processes: int = 1,
    storage: str | None = None,
) -> Path:
    """Run an experiment of the paper. Returns the file with its table.

    `out/EXPERIMENT` then holds a directory for each run, with its `result.json`, and `table.md`
    with figures beside it, made of all results that are there.

    ```python
    >>> import tempfile
    >>> from linoss.experiments import reproduce
    >>> with tempfile.TemporaryDirectory() as out:
    ...     table = reproduce("parameters", out=out, data_sets=["EigenWorms"])
    ...     print(table.read_text().splitlines()[-2])
    | Worms | LinOSS-IM | 134,279 | 134,279 | yes | 133,765 |

    ```

    **Arguments:**

    - `experiment`: one of `linoss.experiments.EXPERIMENTS`.
    - `out`: the directory for all results.
    - `data_dir`: where the data sets are; by default what the variable `LINOSS_DATA` says.
    - `seeds`: by default those of the published runs; where the paper has one run, the first.
    - `models`: `"im"`, `"imex"`, `"verlet"`, `"exact"`, `"damped"` (IMEX), `"damped-im"`,
      `"damped-exact"`; by default those of the paper.
    - `data_sets`: of those that the experiment has; by default all that are there.
    - `variants`: of those that the experiment has; by default all of the paper's. `"uea"` has
      `"scaled"`, values scaled to mean 0 and deviation 1 by the training part, and
      `"log-softmax"`, trained without the constant that the published loss adds to probabilities.
    - `protocol`: `"paper"`, or `"quick"`: the same models and splits, with evaluations twenty
      times as often (weather: ten times), of which as many in a row without a gain end a run.
    - `max_steps`: after so many training steps a run ends, instead of after the protocol's.
    - `resume`: go on with what is in `out`, without repeating what is finished; with more
      `max_steps` than before, also with runs that ended there.
    - `processes`: runs at a time.
    - `storage`: for `"uea-search"` on several machines that share `out`, the URL of a PostgreSQL
      where they meet.

    Raises a `ChoiceError` (a `ValueError`) for what the experiment does not have.
    """
    try:
        module = module_of(experiment)
        options = Options(
            out=Path(out),
            data_dir=as_path(data_dir),
            seeds=chosen(seeds),
            models=chosen(models),
            data_sets=chosen(data_sets),
            variants=chosen(variants),
            protocol=protocol,
            max_steps=max_steps,
            resume=resume,
            processes=processes,
            storage=storage,
        )
        module.SCOPE.refuse(experiment, options)
    except ValueError as error:
        raise ChoiceError(str(error)) from None
    module.run(options)
    folder = options.out / experiment
    figures = Figures(folder, published=read_published(data_dir))
    text = module.report(read_results(folder), figures)
    write_text(folder / "table.md", f"# {module.TITLE}\n\n{text.rstrip()}\n")
    return folder / "table.md"
