"""`linoss inspect` and `linoss export`: the model of a run and its spectrum; other formats."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from linoss.cli._options import Json
from linoss.cli._output import number, show_json, show_line, show_table
from linoss.cli._runs import RunArgument, load_run

if TYPE_CHECKING:
    import numpy as np

    from linoss.fitted import Untrained
    from linoss.nn import LinOSS

SPECTRUM_COLUMNS = ("", "oscillators", "period", "decay time", "no decay", "free")
_LASTING = 1e-9  # a radius this close to 1 equals 1 up to rounding
_SHOWN = (
    "mixer", "scheme", "damped", "in_size", "hidden_size", "state_size", "num_blocks", "out_size",
)  # fmt: skip


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
    spectra = spectra_of(loaded.trained[0]) if loaded.trained else []
    if plot is not None:
        from linoss.cli._figures import save, spectrum

        if not spectra:
            raise ValueError(f"{run}: holds no trained oscillators, which --plot needs")
        save(spectrum(spectra), plot)
    facts: dict[str, Any] = {"estimator": loaded.estimator, "task": loaded.model.task}
    if not loaded.is_forecaster:
        fitted = loaded.model
        facts |= {} if fitted.choice is None else {"kept": fitted.choice.kept}
        facts |= {} if fitted.oscillators is None else bank_facts(fitted.oscillators)
    if loaded.trained:
        facts |= _model_facts(loaded.trained)
    facts |= loaded.model.scores
    if json:
        blocks = [{**each.summary(), **asdict(each)} for each in spectra]
        for block in blocks:
            del block["eigenvalues"]
        plotted = {} if plot is None else {"plot": str(plot)}
        show_json({**facts, **({"blocks": blocks} if loaded.trained else {}), **plotted})
        return
    show_table("Model", ("", ""), [(name.replace("_", " "), word(v)) for name, v in facts.items()])
    if spectra:
        title = "Oscillators: minimum / median / maximum, in samples"
        show_table(title, SPECTRUM_COLUMNS, [each.row() for each in spectra])
    if plot is not None:
        show_line(f"The spectrum is in {plot}")


def word(value: Any) -> str:
    """A fact as text: a number, or minimum, median and maximum."""
    if value is None:
        return "–"
    if isinstance(value, dict):
        return " / ".join(number(value[name], 3) for name in ("min", "median", "max"))
    return number(value) if isinstance(value, float) else str(value)


def _model_facts(models: "Sequence[LinOSS]") -> dict[str, Any]:
    from linoss.nn import MixerKind, count_parameters

    config = models[0].config
    shown = [name for name in _SHOWN if name not in MixerKind.of(config.mixer).foreign]
    count = {} if len(models) == 1 else {"models": len(models)}
    facts = {name: getattr(config, name) for name in shown}
    return {**count, "parameters": sum(map(count_parameters, models)), **facts}


def bank_facts(oscillators: "Untrained") -> dict[str, Any]:
    """Number, periods in samples and quality factors of untrained oscillators."""
    bank = oscillators.features.bank_
    is_used = bank.frequency > 0
    return {
        "channels": len(bank.mean),
        "oscillators": bank.size,
        "chains_of_two": int(bank.chained.sum()),
        "period": _quantiles(1 / bank.frequency[is_used]),
        "quality": _quantiles(bank.quality[is_used]),
    }


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The oscillators of one layer."""

    name: str
    stiffness: "np.ndarray"
    """(m,), A; 0 for free particles."""
    eigenvalues: "np.ndarray"
    """(m, 2), of one step."""
    periods: "np.ndarray"
    """(m,), samples of one oscillation; infinite if it does not oscillate."""
    decay_times: "np.ndarray"
    """(m,), samples in which the state decays to 1/e; infinite without decay."""

    def summary(self) -> dict[str, Any]:
        """Counts and quantiles."""
        import numpy as np

        is_oscillating, is_decaying = np.isfinite(self.periods), np.isfinite(self.decay_times)
        return {
            "name": self.name,
            "oscillators": len(self.stiffness),
            "oscillating": int(is_oscillating.sum()),
            "free_particles": int((self.stiffness == 0).sum()),
            "without_decay": int((~is_decaying).sum()),
            "period": _quantiles(self.periods[is_oscillating]),
            "decay_time": _quantiles(self.decay_times[is_decaying]),
        }

    def row(self) -> tuple[str, ...]:
        """The row of a table."""
        facts = self.summary()
        shown = ("oscillators", "period", "decay_time", "without_decay", "free_particles")
        return (self.name, *(word(facts[name]) for name in shown))


def spectra_of(model: "LinOSS") -> list[Spectrum]:
    """The oscillators of every layer of a model, in double precision; none for other mixers."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from linoss.dynamics import eigenvalues

    if model.config.mixer != "linoss":
        return []
    layers: dict[str, Any] = {}
    for i, block in enumerate(model.blocks, 1):
        layers |= {f"block {i}": block.mixer, f"block {i}, backward": block.backward_mixer}
    spectra = []
    with jax.enable_x64(True):
        for name, layer in layers.items():
            if layer is None:
                continue
            bank: Any = jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), layer.oscillators)
            values = np.asarray(eigenvalues(bank.transition()))
            angle, radius = np.abs(np.angle(values)).max(axis=1), np.abs(values).max(axis=1)
            with np.errstate(divide="ignore"):
                is_turning = np.abs(np.imag(values)).max(axis=1) > 0
                periods = np.where(is_turning, 2 * np.pi / angle, np.inf)
                decays = np.where(radius < 1 - _LASTING, -1 / np.log(radius), np.inf)
            spectra.append(Spectrum(name, np.asarray(bank.stiffness), values, periods, decays))
    return spectra


def _quantiles(values: "np.ndarray") -> dict[str, float] | None:
    """Minimum, median and maximum, if there are any values."""
    import numpy as np

    if not len(values):
        return None
    low, middle, high = np.quantile(values, [0, 0.5, 1]).tolist()
    return {"min": low, "median": middle, "max": high}


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
    linear forecast and intervals: ONNX and StableHLO take whole windows with their times.
    """
    from linoss.export import write

    loaded = load_run(run)
    written = write(loaded.model, file, int8=int8, series=series)
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
