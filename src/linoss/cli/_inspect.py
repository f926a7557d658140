"""`linoss inspect`: what a run's model is, and what its oscillators have learned."""

from pathlib import Path
from typing import Annotated, Any

import typer

from linoss.cli._evaluate import RunArgument
from linoss.cli._options import Json
from linoss.cli._output import number, show_json, show_line, show_table
from linoss.cli._spectrum import BlockSpectrum, banks


def inspect(
    run: RunArgument,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the spectrum into this file (.png, .svg, .pdf).")
    ] = None,
    json: Json = False,
) -> None:
    """Show a run's size, scheme and spectrum.

    For each block: periods and decay times in samples, and how many oscillators are free particles
    (A = 0) or keep what they have heard without decay. With --json, those of every oscillator.
    """
    import linoss.estimators
    from linoss.nn import count_parameters

    estimator = linoss.estimators.load(run)
    config, found = estimator.model_.config, banks(estimator.model_)
    parameters = count_parameters(estimator.model_)
    if plot is not None:
        from linoss.cli._pictures import save, spectrum

        save(spectrum(found), plot)
    if json:
        record = {
            "estimator": type(estimator).__name__,
            "parameters": parameters,
            **{name: getattr(config, name) for name in _SHOWN},
            "blocks": [_record(bank) for bank in found],
            **({} if plot is None else {"plot": str(plot)}),
        }
        show_json(record)
        return
    facts = [(name.replace("_", " "), getattr(config, name)) for name in _SHOWN]
    rows = [("estimator", type(estimator).__name__), ("parameters", f"{parameters:,}"), *facts]
    show_table("Model", ("", ""), rows)
    title = "Oscillators: smallest / median / largest, in samples"
    show_table(title, _HEADER, [_row(bank) for bank in found])
    if plot is not None:
        show_line(f"The spectrum is in {plot}")


_SHOWN = (
    "task",
    "scheme",
    "damped",
    "in_size",
    "hidden_size",
    "state_size",
    "num_blocks",
    "out_size",
)
_HEADER = ("", "oscillators", "period", "decay time", "no decay", "free")


def _row(bank: BlockSpectrum) -> tuple[str, ...]:
    facts = bank.summary()
    return (
        bank.name,
        str(facts["oscillators"]),
        _span(facts["period"]),
        _span(facts["decay_time"]),
        str(facts["without_decay"]),
        str(facts["free_particles"]),
    )


def _span(quantiles: dict[str, float] | None) -> str:
    if quantiles is None:
        return "–"
    return " / ".join(number(quantiles[name], 3) for name in ("min", "median", "max"))


def _record(bank: BlockSpectrum) -> dict[str, Any]:
    return {
        **bank.summary(),
        "stiffness": bank.stiffness,
        "periods": bank.periods,
        "decay_times": bank.decay_times,
    }
