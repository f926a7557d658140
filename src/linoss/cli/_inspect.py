"""`linoss inspect`: the model of a run, and the spectrum of its oscillators."""

from pathlib import Path
from typing import Annotated, Any

import typer

from linoss.cli._evaluate import RunArgument
from linoss.cli._options import Json
from linoss.cli._output import number, show_json, show_line, show_table
from linoss.cli._run_settings import load_run


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
    estimator = load_run(run)
    from linoss.cli._spectrum import banks, untrained_facts

    trained, untrained = (estimator.members_.get(name) for name in ("linoss", "oscillators"))
    found = [] if trained is None else banks(trained.model_)
    if plot is not None:
        from linoss.cli._pictures import save, spectrum

        if not found:
            raise ValueError(f"{run}: holds no trained oscillators, which --plot needs")
        save(spectrum(found), plot)
    facts: dict[str, Any] = {"estimator": type(estimator).__name__, "task": estimator.task}
    if getattr(estimator, "choice_", None) is not None:
        facts["kept"] = estimator.choice_.kept
    if untrained is not None:
        facts |= untrained_facts(untrained)
    if trained is not None:
        facts |= _facts(trained)
    if json:
        record = {**facts, **estimator.own_scores_}
        if trained is not None:
            record["blocks"] = [_record(bank) for bank in found]
        show_json({**record, **({} if plot is None else {"plot": str(plot)})})
        return
    spans = {n: _span(value) if isinstance(value, dict) else value for n, value in facts.items()}
    scores = {name: number(value) for name, value in estimator.own_scores_.items()}
    rows = [(name.replace("_", " "), value) for name, value in (spans | scores).items()]
    show_table("Model", ("", ""), rows)
    if found:
        title = "Oscillators: minimum / median / maximum, in samples"
        show_table(title, _HEADER, [_row(bank) for bank in found])
    if plot is not None:
        show_line(f"The spectrum is in {plot}")


def _facts(trained: Any) -> dict[str, Any]:
    from linoss.nn import MIXERS, count_parameters

    config = trained.model_.config
    shown = [name for name in _SHOWN if name not in MIXERS[config.mixer].foreign]
    facts = {name: getattr(config, name) for name in shown}
    return {"parameters": count_parameters(trained.model_), **facts}


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
_HEADER = ("", "oscillators", "period", "decay time", "no decay", "free")


def _row(bank: Any) -> tuple[str, ...]:
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


def _record(bank: Any) -> dict[str, Any]:
    return {
        **bank.summary(),
        "stiffness": bank.stiffness,
        "periods": bank.periods,
        "decay_times": bank.decay_times,
    }
