"""`linoss inspect` and `linoss export`: the model of a run, and its conversion."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from linoss.cli._options import Json
from linoss.cli._output import number, show_json, show_line, show_table
from linoss.cli._run_settings import read_column_names
from linoss.cli._runs import RunArgument, load_run

_SHOWN = (
    "mixer",
    "scheme",
    "damped",
    "in_size",
    "hidden_size",
    "state_size",
    "num_blocks",
    "out_size",
)


def inspect(
    run: RunArgument,
    plot: Annotated[
        Path | None, typer.Option(help="File for a figure of the spectrum (.png, .svg, .pdf).")
    ] = None,
    json: Json = False,
) -> None:
    """Show a run's size, scheme and spectrum.

    For each block: periods and decay times in samples, and the numbers of free particles (A = 0)
    and of undamped oscillators. With --json, those of every oscillator. For untrained oscillators:
    their number, periods and quality factors.
    """
    loaded = load_run(run)
    from linoss.cli._spectrum import SPECTRUM_COLUMNS, banks, span, spectrum_row, untrained_facts

    spectra = banks(loaded.trained[0]) if loaded.trained else []
    if plot is not None:
        from linoss.cli._figures import save, spectrum

        if not spectra:
            raise ValueError(f"{run}: holds no trained oscillators, which --plot needs")
        save(spectrum(spectra), plot)
    facts: dict[str, Any] = {"estimator": loaded.estimator, "task": loaded.task}
    scores = loaded.scores
    if not loaded.is_forecaster:
        fitted = loaded.model
        facts |= {} if fitted.choice is None else {"kept": fitted.choice.kept}
        facts |= {} if fitted.oscillators is None else untrained_facts(fitted.oscillators)
    if loaded.trained:
        facts |= _model_facts(loaded.trained)
    if json:
        record = {**facts, **scores}
        if loaded.trained:
            record["blocks"] = [_record(each) for each in spectra]
        show_json({**record, **({} if plot is None else {"plot": str(plot)})})
        return
    shown = {n: span(value) if isinstance(value, dict) else value for n, value in facts.items()}
    shown |= {name: number(value) for name, value in scores.items()}
    show_table("Model", ("", ""), [(name.replace("_", " "), v) for name, v in shown.items()])
    if spectra:
        title = "Oscillators: minimum / median / maximum, in samples"
        show_table(title, SPECTRUM_COLUMNS, [spectrum_row(each) for each in spectra])
    if plot is not None:
        show_line(f"The spectrum is in {plot}")


def _model_facts(models: Sequence[Any]) -> dict[str, Any]:
    from linoss.nn import MIXERS, count_parameters

    config = models[0].config
    shown = [name for name in _SHOWN if name not in MIXERS[config.mixer].foreign]
    count = {} if len(models) == 1 else {"models": len(models)}
    facts = {name: getattr(config, name) for name in shown}
    return {**count, "parameters": sum(map(count_parameters, models)), **facts}


def _record(spectrum: Any) -> dict[str, Any]:
    return {
        **spectrum.summary(),
        "stiffness": spectrum.stiffness,
        "periods": spectrum.periods,
        "decay_times": spectrum.decay_times,
    }


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
    from linoss.export import write

    loaded = load_run(run)
    names = None if loaded.is_forecaster else read_column_names(run).channels
    written = write(loaded.model, file, names=names, int8=int8, series=series)
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
