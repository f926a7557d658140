"""One way into all experiments, for Python and for the command line."""

import importlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from linoss import _checks
from linoss.experiments import _data_sets
from linoss.experiments._figures import Figures
from linoss.experiments._protocol import MODELS, Options, as_path, chosen, numbers
from linoss.experiments._results import read_results, write_text

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


def module_of(experiment: str) -> Any:
    """The module of an experiment; each has `run`, `report` and `expected`."""
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
    protocol: str = "paper",
    max_steps: int | None = None,
    resume: bool = False,
    processes: int = 1,
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
    - `data_sets`: of the UEA archive; by default those of the paper that are there.
    - `protocol`: `"paper"`, or `"quick"`: the same models and splits, with evaluations twenty
      times as often, and an end twenty times as soon.
    - `max_steps`: fewer training steps than the protocol has.
    - `resume`: go on with what is in `out`, without repeating what is finished.
    - `processes`: runs at a time.
    """
    module = module_of(experiment)
    options = Options(
        out=Path(out),
        data_dir=as_path(data_dir),
        seeds=chosen(seeds),
        models=chosen(models),
        data_sets=chosen(data_sets),
        protocol=protocol,
        max_steps=max_steps,
        resume=resume,
        processes=processes,
    )
    module.run(options)
    folder = options.out / experiment
    text = module.report(read_results(folder), Figures(folder))
    write_text(folder / "table.md", f"# {module.TITLE}\n\n{text.rstrip()}\n")
    return folder / "table.md"


def command(
    experiment: Annotated[Experiment, typer.Argument(help="Which of the paper's experiments.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Directory to keep results in.")],
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", envvar=_data_sets.VARIABLE, help="Directory of data sets."),
    ] = None,
    data_set: Annotated[
        list[str] | None,
        typer.Option(help="A set of the UEA archive; may be repeated. By default those there."),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help=f"One of {', '.join(MODELS)}; may be repeated. By default the paper's."),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="With commas; by default those of the published runs.")
    ] = None,
    protocol: Annotated[
        Literal["paper", "quick"],
        typer.Option(help="quick: the same models and splits, looked at more often, ended sooner."),
    ] = "paper",
    max_steps: Annotated[int | None, typer.Option(help="Training steps of a run, at most.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with what is in DIR; repeat nothing finished.")
    ] = False,
    processes: Annotated[int, typer.Option(help="Runs at a time.")] = 1,
) -> None:
    """Reproduce an experiment of the paper, and put its table beside the paper's numbers."""
    table = reproduce(
        experiment,
        out=out,
        data_dir=data_dir,
        seeds=None if seeds is None else numbers(seeds, "--seeds"),
        models=model,
        data_sets=data_set,
        protocol=protocol,
        max_steps=max_steps,
        resume=resume,
        processes=processes,
    )
    print(table.read_text())
    print(f"Results are in {table.parent}")
