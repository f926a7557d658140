"""The command `linoss` and its parts."""

import sys
from typing import Annotated

import typer

from linoss._stderr import say
from linoss.cli._demo import demo
from linoss.cli._doctor import doctor
from linoss.cli._evaluate import evaluate
from linoss.cli._fit import fit
from linoss.cli._forecast import forecast
from linoss.cli._guard import FAILED, INTERRUPTED, fill_closed_streams, guarded, message_of
from linoss.cli._inspect import inspect
from linoss.cli._plan import plan
from linoss.cli._predict import predict
from linoss.cli._reproduce import reproduce
from linoss.cli._search import search
from linoss.cli._stream import stream

app = typer.Typer(
    name="linoss",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

_EXAMPLES = {
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
    forecast: ("linoss forecast runs/load --horizon 48 --out forecast.csv",),
    stream: ("linoss stream runs/bells < samples.csv",),
    inspect: ("linoss inspect runs/bells --plot spectrum.png",),
    plan: (
        "linoss plan --length 1000000 --batch-size 8 --devices 8 --memory 16",
        "linoss plan --length 100000000 --batch-size 64 --devices 64x64 --json",
    ),
    demo: ("linoss demo --out runs/demo",),
    reproduce: (
        "linoss reproduce parameters --out results",
        "linoss reproduce uea --data-set EigenWorms --protocol quick --data-dir data --out results",
    ),
    doctor: ("linoss doctor",),
}

for command, examples in _EXAMPLES.items():
    title = "Example:" if len(examples) == 1 else "Examples:"
    app.command(epilog="\n\n".join([title, *examples]))(guarded(command))


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

    Begin with `linoss demo`; then `linoss fit` your own data.
    """


def main() -> None:
    """Run the command line."""
    fill_closed_streams()
    for output in (sys.stdout, sys.stderr):
        output.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]
    try:
        app(prog_name="linoss")
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:  # of the help, or the version
        say(f"Error: {message_of(error)}")
        sys.exit(FAILED)
