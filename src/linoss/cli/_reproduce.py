"""`linoss reproduce`: the paper's experiments, compared with the paper's numbers."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from linoss._settings import ExperimentName
from linoss.cli._options import Json
from linoss.cli._output import show_json, show_line


def reproduce(
    experiment: Annotated[ExperimentName, typer.Argument(help="Experiment of the paper.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Directory of the results.")] = Path(
        "results"
    ),
    data_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", show_default="the variable LINOSS_DATA", help="Directory of data sets."
        ),
    ] = None,
    data_set: Annotated[
        list[str] | None,
        typer.Option(help="Data set of the experiment; repeatable. By default all available ones."),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="One of im, imex, verlet, exact, damped, damped-im, damped-exact, lru, s5, s6, "
            "mamba, ncde, nrde, log-ncde, oscillators; repeatable. By default those of the paper."
        ),
    ] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option(
            help="Variant of the experiment; repeatable. By default those of the paper; uea also "
            "has scaled and log-softmax."
        ),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Comma-separated; by default those of the published runs.")
    ] = None,
    protocol: Annotated[
        Literal["paper", "quick"],
        typer.Option(
            help="quick: the same models and splits, with more frequent evaluations and "
            "earlier stopping."
        ),
    ] = "paper",
    max_steps: Annotated[
        int | None, typer.Option(help="Maximum number of training steps of a run.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue the runs in DIR; finished ones are not repeated."),
    ] = False,
    processes: Annotated[int, typer.Option(help="Number of concurrent runs.")] = 1,
    storage: Annotated[
        str | None,
        typer.Option(
            help="For uea-search on several machines that share DIR: "
            "postgresql://USER:PASSWORD@HOST/DATABASE.",
            show_default=False,
            envvar="LINOSS_STORAGE",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Reproduce an experiment of the paper.

    Writes a result.json for each run, a table with the paper's numbers and ours, and figures to
    DIR/EXPERIMENT.
    """
    from linoss import experiments

    numbers = None if seeds is None else _numbers(seeds, "--seeds")
    try:
        table = experiments.reproduce(
            experiment,
            out=out,
            data_dir=data_dir,
            seeds=numbers,
            models=model,
            data_sets=data_set,
            variants=variant,
            protocol=protocol,
            max_steps=max_steps,
            resume=resume,
            processes=processes,
            storage=storage,
        )
    except experiments.ChoiceError as error:
        raise typer.BadParameter(str(error)) from None
    if json:
        results = [_record(result) for result in experiments.read_results(table.parent)]
        show_json({"table": table, "results": results})
    else:
        show_line(table.read_text(encoding="utf-8"))
        show_line(f"Results are in {table.parent}")


def _record(result: Any) -> dict[str, Any]:
    """A result without its history, which is in its file."""
    return {name: value for name, value in asdict(result).items() if name != "history"}


def _numbers(text: str, name: str) -> tuple[int, ...]:
    """Parse integers separated by commas."""
    parts = text.replace(",", " ").split()
    if not parts or not all(part.isdecimal() for part in parts):
        raise typer.BadParameter(
            f"{name} is {text!r}, expected comma-separated integers, such as 2345,3456"
        )
    return tuple(int(part) for part in parts)
