"""The command `linoss` and its subcommands."""

import signal
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperGroup

from linoss._stderr import say
from linoss.cli._demo import demo
from linoss.cli._doctor import doctor
from linoss.cli._fit import fit
from linoss.cli._inspect import explain, export, inspect
from linoss.cli._options import settings
from linoss.cli._output import FAILED, INTERRUPTED, MISUSED, guarded, leave, message_of
from linoss.cli._plan import plan
from linoss.cli._predict import backtest, evaluate, forecast, predict, stream
from linoss.cli._search import search

EXAMPLES = {
    fit: (
        "linoss fit Bells --task classification --out runs/bells",
        "linoss fit Bells --out runs/bells --resume",
        "linoss fit load.csv --task forecasting --horizon 24 --out runs/load",
    ),
    search: (
        "linoss search Bells --task classification --trials 20 --out runs/search",
        "linoss search Bells --task classification --range learning_rate=1e-4..1e-2 "
        "--range dropout=0,0.2 --trials 20 --out runs/few",
    ),
    evaluate: ("linoss evaluate runs/bells Bells",),
    predict: ("linoss predict runs/bells Bells --out predictions.csv",),
    forecast: (
        "linoss forecast runs/load --horizon 48 --out forecast.csv",
        "linoss forecast runs/load --level 80 --level 95",
    ),
    backtest: ("linoss backtest runs/load later.csv --windows 30",),
    stream: ("linoss stream runs/bells < samples.csv",),
    inspect: ("linoss inspect runs/bells",),
    explain: ("linoss explain runs/bells Bells --out why.html",),
    export: ("linoss export runs/bells bells.onnx", "linoss export runs/bells bells.h"),
    plan: (
        "linoss plan --length 1000000 --batch-size 8 --devices 8 --device-memory 16e9",
        "linoss plan --length 100000000 --batch-size 64 --devices 64x64 --json",
    ),
    settings: ("linoss settings linoss",),
    demo: ("linoss demo --out runs/demo",),
    doctor: ("linoss doctor",),
}
"""All commands, in the order of the help, with examples."""


class _Commands(TyperGroup):
    """A group whose help only is drawn by rich, which takes longer to import than typer."""

    def main(self, args: Sequence[str] | None = None, *others: Any, **options: Any) -> Any:
        given = sys.argv[1:] if args is None else args
        if given and {"-h", "--help", "--help-all"}.isdisjoint(given):
            self.rich_markup_mode = None
        return super().main(args, *others, **options)


app = typer.Typer(
    name="linoss",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _command, _examples in EXAMPLES.items():
    _title = "Example:" if len(_examples) == 1 else "Examples:"
    app.command(epilog="\n\n".join([_title, *_examples]))(guarded(_command))


def _version(asked: bool) -> None:
    if asked:
        from linoss import __version__

        print(f"linoss {__version__}")
        raise typer.Exit


@app.callback()
def _linoss(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Show the version.")
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
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)  # a KeyboardInterrupt may be lost in an import
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
