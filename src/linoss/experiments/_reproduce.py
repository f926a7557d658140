"""Running any experiment."""

import importlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

from linoss import _checks
from linoss._files import write_text
from linoss._settings import ExperimentName
from linoss.experiments._figures import Figures
from linoss.experiments._protocol import Options, as_path, chosen
from linoss.experiments._published import read_published
from linoss.experiments._results import read_results

EXPERIMENTS: tuple[str, ...] = get_args(ExperimentName)
"""The names of all experiments."""


class ChoiceError(ValueError):
    """An option that an experiment does not have; nothing was run."""


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
    with figures, generated from all existing results.

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
    - `data_dir`: directory of the data sets; by default the environment variable `LINOSS_DATA`.
    - `seeds`: by default those of the published runs; the first one if the paper has one run.
    - `models`: `"im"`, `"imex"`, `"verlet"`, `"exact"`, `"damped"` (IMEX), `"damped-im"`,
      `"damped-exact"`; by default those of the paper.
    - `data_sets`: data sets of the experiment; by default all that are available.
    - `variants`: variants of the experiment; by default all of the paper's. `"uea"` has `"scaled"`,
      values standardised by the training part, and `"log-softmax"`, trained without the constant
      that the published loss adds to probabilities.
    - `protocol`: `"paper"`, or `"quick"`: the same models and splits, with evaluations twenty times
      as often (weather: ten times), and the same number of evaluations without improvement before a
      run ends.
    - `max_steps`: maximum number of training steps, instead of the protocol's.
    - `resume`: continue the runs in `out`, without repeating finished ones; with a larger
      `max_steps`, also continue runs that ended there.
    - `processes`: number of concurrent runs.
    - `storage`: for `"uea-search"` on several machines that share `out`, the URL of a shared
      PostgreSQL database.

    Raises `ChoiceError` (a `ValueError`) for options that the experiment does not have.
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
