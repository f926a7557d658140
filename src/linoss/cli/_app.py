"""The command `linoss` and its subcommands."""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from linoss._stderr import say
from linoss.cli._output import FAILED, INTERRUPTED, MISUSED, guarded, message_of

_COMMANDS = {
    "fit": (
        "Fit a model to data, and save it to a directory.",
        "linoss fit Bells --task classification --out runs/bells",
        "linoss fit Bells --out runs/bells --resume",
        "linoss fit load.csv --task forecasting --horizon 24 --out runs/load",
    ),
    "search": (
        "Search hyperparameters by the score on held-out cases.",
        "linoss search Bells --task classification --trials 20 --out runs/search",
        "linoss search Bells --task classification --range learning_rate=1e-4..1e-2 "
        "--range dropout=0,0.2 --trials 20 --out runs/few",
    ),
    "evaluate": (
        "Score the predictions of a run on labelled data.",
        "linoss evaluate runs/bells Bells",
    ),
    "predict": (
        "Predict for each sequence of data.",
        "linoss predict runs/bells Bells --out predictions.csv",
    ),
    "forecast": (
        "Forecast the next steps, as a table like the data with its times continued.",
        "linoss forecast runs/load --horizon 48 --out forecast.csv",
        "linoss forecast runs/load --level 80 --level 95",
    ),
    "backtest": (
        "Forecast from past origins, and compare with the observed values.",
        "linoss backtest runs/load later.csv --windows 30",
    ),
    "stream": (
        "Predict after each sample of a stream, in constant memory.",
        "linoss stream runs/bells < samples.csv",
    ),
    "inspect": (
        "Show a run's size, scheme and spectrum.",
        "linoss inspect runs/bells --plot spectrum.png",
    ),
    "explain": (
        "Show which parts of a sequence support a run's predictions.",
        "linoss explain runs/bells Bells --out pictures",
    ),
    "export": (
        "Write a run as ONNX, C or StableHLO, for other programs.",
        "linoss export runs/bells bells.onnx",
        "linoss export runs/bells bells.h",
    ),
    "plan": (
        "Estimate memory, operations and communication of a training step.",
        "linoss plan --length 1000000 --batch-size 8 --devices 8 --memory 16",
        "linoss plan --length 100000000 --batch-size 64 --devices 64x64 --json",
    ),
    "settings": (
        "Show all settings: their meaning, values and defaults.",
        "linoss settings linoss",
    ),
    "demo": (
        "Learn to classify the sounds of three bells in noise; takes about half a minute.",
        "linoss demo --out runs/demo",
    ),
    "doctor": (
        "Show versions, devices and engines, and why the native kernels were not built.",
        "linoss doctor",
    ),
}
"""Maps each command to its summary, the first line of its docstring, and examples."""
MODULES = {
    "evaluate": "predict",
    "stream": "predict",
    "backtest": "forecast",
    "explain": "attribution",
    "export": "inspect",
    "settings": "options",
}
"""The modules of commands that are not in one of their own name."""


class _Commands(TyperGroup):
    """Commands that are imported when they are called: options need JAX, `linoss --help` does
    not."""

    def main(self, args: Sequence[str] | None = None, *others: Any, **options: Any) -> Any:
        """Run a command. Only help is drawn by rich, which takes longer to import than typer."""
        given = sys.argv[1:] if args is None else args
        if given and {"-h", "--help"}.isdisjoint(given):
            self.rich_markup_mode = None
        return super().main(args, *others, **options)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else _imported(name), rest


app = typer.Typer(
    name="linoss",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, (_summary, *_) in _COMMANDS.items():
    app.command(_name, help=_summary)(lambda: None)


def _imported(name: str) -> Any:
    """The command itself."""
    command = getattr(import_module(f"linoss.cli._{MODULES.get(name, name)}"), name)
    _, *examples = _COMMANDS[name]
    title = "Example:" if len(examples) == 1 else "Examples:"
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
    alone.command(name, epilog="\n\n".join([title, *examples]))(guarded(command))
    return typer.main.get_command(alone)


def _version(asked: bool) -> None:
    if asked:
        from linoss import __version__

        print(f"linoss {__version__}")
        raise typer.Exit


@app.callback()
def _linoss(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Learn from very long sequences with oscillatory state-space models.

    Start with `linoss demo`, then run `linoss fit` on your own data.
    """


def main() -> None:
    """Run the command line."""
    if sys.stdout is None:
        say("Error: stdout is closed, expected somewhere to write to, such as /dev/null")
        sys.exit(MISUSED)
    for output in filter(None, (sys.stdout, sys.stderr)):
        output.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]
    try:
        app(prog_name="linoss")
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:  # after --help or --version
        say(f"Error: {message_of(error)}")
        sys.exit(FAILED)
