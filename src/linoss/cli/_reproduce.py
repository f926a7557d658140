"""`linoss reproduce`: the paper's experiments, compared with the paper's numbers."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from linoss import experiments
from linoss.cli._options import Json
from linoss.cli._output import show_json, show_line


def reproduce(
    experiment: Annotated[
        experiments.Experiment, typer.Argument(help="Which of the paper's experiments.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Directory to keep results in.")] = Path(
        "results"
    ),
    data_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", show_default="what LINOSS_DATA says", help="Directory of data sets."
        ),
    ] = None,
    data_set: Annotated[
        list[str] | None,
        typer.Option(help="One of the experiment's; repeatable. By default those there."),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help=f"One of {', '.join(experiments.NAMES)}; repeatable. By default the paper's."
        ),
    ] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option(
            help="One of the experiment's; repeatable. By default the paper's; uea also has scaled "
            "and log-softmax."
        ),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="With commas; by default those of the published runs.")
    ] = None,
    protocol: Annotated[
        Literal["paper", "quick"],
        typer.Option(help="quick: the same models and splits, looked at more often, ended sooner."),
    ] = "paper",
    max_steps: Annotated[
        int | None, typer.Option(help="End a run after so many training steps.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with what is in DIR; repeat nothing finished.")
    ] = False,
    processes: Annotated[int, typer.Option(help="Runs at a time.")] = 1,
    storage: Annotated[
        str | None,
        typer.Option(
            help="uea-search on several machines that share DIR: postgresql://USER:PASSWORD@HOST/"
            "DATABASE, where they meet.",
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


def _record(result: experiments.ExperimentResult) -> dict[str, Any]:
    """A result without its history, which is in its file."""
    return {name: value for name, value in asdict(result).items() if name != "history"}


def _numbers(text: str, name: str) -> tuple[int, ...]:
    """Parse integers separated by commas."""
    parts = text.replace(",", " ").split()
    if not parts or not all(part.isdecimal() for part in parts):
        raise typer.BadParameter(
            f"{name} is {text!r}, expected integers with commas, such as 2345,3456"
        )
    return tuple(int(part) for part in parts)
