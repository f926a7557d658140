"""The paper's experiments: `python -m paper EXPERIMENT`, from a clone of the repository.

Writes a result.json for each run, and a table with the paper's numbers and ours, to OUT/EXPERIMENT.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from linoss.data import DataError
from paper import (
    data,
    efficiency,
    harmonic_motion,
    page,
    parameters,
    ppg,
    runs,
    search,
    troika,
    uea,
    weather,
)
from paper.numbers import published_runs

EXPERIMENTS = {
    "uea": uea.EXPERIMENT,
    "search": search.EXPERIMENT,
    "ppg": ppg.EXPERIMENT,
    "troika": troika.EXPERIMENT,
    "weather": weather.EXPERIMENT,
    "harmonic-motion": harmonic_motion.EXPERIMENT,
    "parameterization": uea.PARAMETERIZATION,
    "timestep": uea.TIMESTEP,
    "parameters": parameters.EXPERIMENT,
    "efficiency": efficiency.EXPERIMENT,
}


def main(words: Sequence[str] | None = None) -> int:
    """Run an experiment, or rewrite the page of results. Returns the exit code."""
    words = sys.argv[1:] if words is None else list(words)
    chosen = vars(_parser().parse_args(words))
    name = chosen.pop("experiment")
    try:
        if name == "page":
            page.rewrite(chosen["page"], chosen["results"])
        else:
            given: dict[str, Any] = {
                option: tuple(dict.fromkeys(value)) if isinstance(value, list) else value
                for option, value in chosen.items()
                if value is not None
            }
            given.setdefault("models", EXPERIMENTS[name].models)
            given.setdefault("variants", EXPERIMENTS[name].variants or (None,))
            run(name, runs.Options(experiment=name, command=runs.command(words), **given))
    except (DataError, ValueError) as error:
        runs.say(f"Error: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def run(name: str, options: runs.Options) -> None:
    """Run an experiment; write and print its table, made of all results that exist."""
    experiment = EXPERIMENTS[name]
    experiment.run(options)
    folder = options.out / name
    published = published_runs(options.data_dir)
    text = experiment.report(runs.read_results(folder), folder, published)
    text = f"# {experiment.title}\n\n{text.rstrip()}\n"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "table.md").write_text(text, encoding="utf-8")
    print(text)
    runs.say(f"Results are in {folder}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m paper", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="experiment", required=True, metavar="EXPERIMENT")
    for name, experiment in EXPERIMENTS.items():
        one = commands.add_parser(name, help=experiment.title, description=experiment.title)
        _add_options(one, experiment)
    one = commands.add_parser("page", help="rewrite the tables of docs/results.md")
    root = Path(__file__).parent
    one.add_argument("--page", type=Path, default=root.parent / "docs" / "results.md")
    one.add_argument("--results", type=Path, default=root / "results")
    return parser


def _add_options(parser: argparse.ArgumentParser, experiment: runs.Experiment) -> None:
    def several(option: str, choices: Sequence[str], text: str) -> None:
        parser.add_argument(
            f"--{option}",
            dest=f"{option.replace('-', '_')}s",
            metavar=option.upper(),
            action="append",
            choices=choices,
            help=f"{text}; repeatable. One of {', '.join(choices)}",
        )

    models = (*experiment.models, *experiment.others)
    parser.add_argument("--out", type=Path, default=Path("results"), help="directory of results")
    several("model", models, "a model; by default those of the paper")
    if experiment.data_sets:
        several("data-set", experiment.data_sets, "a data set; by default all available ones")
    if variants := (*experiment.variants, *experiment.on_request):
        several("variant", variants, "a variant; by default all of the paper's")
    if experiment.seeds:
        parser.add_argument(
            "--seeds",
            type=_seeds,
            default=experiment.seeds,
            help="comma-separated; by default those of the published runs",
        )
        parser.add_argument(
            "--data-dir",
            type=Path,
            default=os.environ.get(data.VARIABLE),
            help=f"directory of data sets, by default the variable {data.VARIABLE}",
        )
    parser.add_argument(
        "--protocol",
        choices=tuple(runs.PROTOCOLS),
        default="paper",
        help="quick: the same models and splits, with more frequent evaluations",
    )
    parser.add_argument(
        "--max-steps", type=_positive, help="maximum number of steps of a run, or of repeats"
    )
    parser.add_argument(
        "--resume", action="store_true", help="continue; finished runs are not repeated"
    )


def _seeds(text: str) -> tuple[int, ...]:
    parts = text.replace(",", " ").split()
    seeds = tuple(int(part) for part in parts if part.isdecimal() and int(part) < 2**32)
    if not seeds or len(seeds) < len(parts):
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected comma-separated integers below 2**32, such as 2345,3456"
        )
    return tuple(dict.fromkeys(seeds))


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected an integer >= 1")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
