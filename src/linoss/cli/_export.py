"""`linoss export`: convert a run for use in other programs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from linoss.cli._evaluate import RunArgument
from linoss.cli._options import Json
from linoss.cli._output import show_json, show_line
from linoss.cli._run_settings import read_column_names


def export(
    run: RunArgument,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Output file, with the suffix .onnx, .h or .stablehlo."
        ),
    ],
    int8: Annotated[bool, typer.Option("--int8", help="C: quantise matrices to 8 bits.")] = False,
    series: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Forecasting: with several series, the one whose trend and seasons are exported.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Write a run as ONNX, C or StableHLO, for other programs.

    model.onnx takes whole sequences, and model_step.onnx one sample at a time; model.h with
    model_weights.c is C99 without memory allocation; model.stablehlo can be loaded with jax.export.
    Scaling, missing values and class names are included; for a forecaster also trend, seasons, the
    linear forecast and intervals, and all formats take whole windows with their times.
    """
    import linoss.estimators
    from linoss.export import write

    estimator: Any = linoss.estimators.load(run)
    names = None if estimator.task == "forecasting" else read_column_names(run).channels
    written = write(estimator, file, names=names, int8=int8, series=series)
    sizes = {path: path.stat().st_size for path in written.files}
    if json:
        record: dict[str, Any] = {"files": {str(path): size for path, size in sizes.items()}}
        record |= {"notes": list(written.notes)}
        show_json(
            record | ({} if written.ram is None else {"flash": written.flash, "ram": written.ram})
        )
        return
    for path, size in sizes.items():
        show_line(f"Wrote {path}, {size:,} bytes")
    for note in written.notes:
        show_line(f"Note: {note}")
    if written.ram is not None:
        show_line(f"Flash: {written.flash:,} bytes of constants, plus the code")
        show_line(f"RAM: {written.ram:,} bytes of state")
