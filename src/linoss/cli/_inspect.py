"""`linoss inspect`, `explain` and `export`: the model of a run, its reasons, other formats."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from linoss._stderr import ProgressBar
from linoss.cli._options import Json, with_columns
from linoss.cli._output import number, show_json, show_line, show_table, word
from linoss.cli._runs import Data, RunArgument, load_run, models_of, read_cases, time_unit

if TYPE_CHECKING:
    import numpy as np

    from linoss.data import Sequences
    from linoss.fitted import Attribution, Fitted, Untrained
    from linoss.nn import LinOSS

SPECTRUM_COLUMNS = ("", "oscillators", "period", "decay time", "no decay", "free")
_LASTING = 1e-9  # a radius this close to 1 equals 1 up to rounding
_SHOWN = (
    "mixer", "scheme", "damped", "in_size", "hidden_size", "state_size", "num_blocks", "out_size",
)  # fmt: skip
_MOST = 6  # cases that are explained by default


# ---- inspect ----


def inspect(run: RunArgument, json: Json = False) -> None:
    """Show a run's size, scheme and spectrum.

    For each block: periods and decay times in samples, and the numbers of free particles (A = 0)
    and of undamped oscillators. With --json, those of every oscillator. For untrained oscillators:
    their number, periods and quality factors.
    """
    estimator = load_run(run)
    fitted, models = estimator.fitted_, models_of(estimator.fitted_)
    spectra = spectra_of(models[0]) if models else []
    facts: dict[str, Any] = {"estimator": type(estimator).__name__, "task": fitted.task}
    if getattr(fitted, "choice", None) is not None:
        facts["kept"] = fitted.choice.kept
    if getattr(fitted, "oscillators", None) is not None:
        facts |= bank_facts(fitted.oscillators)
    if models:
        facts |= _model_facts(models)
    facts |= fitted.scores
    if json:
        blocks = {"blocks": [each.record() for each in spectra]} if models else {}
        show_json({**facts, **blocks})
        return
    show_table("Model", ("", ""), [(name.replace("_", " "), span(v)) for name, v in facts.items()])
    if spectra:
        title = "Oscillators: minimum / median / maximum, in samples"
        show_table(title, SPECTRUM_COLUMNS, [each.row() for each in spectra])


def span(value: Any) -> str:
    """A fact as text: a number, or minimum, median and maximum."""
    if isinstance(value, dict):
        return " / ".join(number(each, 3) for each in value.values())
    return "–" if value is None else word(value)


def _model_facts(models: "list[LinOSS]") -> dict[str, Any]:
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
            "period": _quantiles(self.periods[is_oscillating]),
            "decay_time": _quantiles(self.decay_times[is_decaying]),
            "without_decay": int((~is_decaying).sum()),
            "free_particles": int((self.stiffness == 0).sum()),
        }

    def row(self) -> tuple[str, ...]:
        """The row of a table."""
        return tuple(span(value) for value in self.summary().values())

    def record(self) -> dict[str, Any]:
        """The values of every oscillator, for JSON."""
        every = {name: value for name, value in vars(self).items() if name != "eigenvalues"}
        return every | self.summary()


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
    return dict(
        zip(("min", "median", "max"), np.quantile(values, [0, 0.5, 1]).tolist(), strict=True)
    )


# ---- explain ----


@with_columns
def explain(
    run: RunArgument,
    data: Data,
    out: Annotated[Path, Option(help="Page of the figures (.html).")],
    only: Annotated[
        list[str] | None,
        Option(metavar="CASE", help="Name or number of a case; repeatable.", show_default="some"),
    ] = None,
    json: Json = False,
    *,
    roles: dict[str, Any],
) -> None:
    """Show which parts of a sequence support a run's predictions.

    For each case, by default one for each prediction, draws the attribution of the output of
    trained models to each value (integrated gradients), and that of untrained oscillators to
    periods and times. Blue supports the prediction, orange opposes it. With --json, the sums by
    channel and their error.
    """
    estimator, cases = read_cases(run, data, roles, may_lack=True)
    from linoss.cli._report import write_explained

    fitted = estimator.fitted_
    chosen = _some(fitted, cases) if only is None else [_index_of(cases, name) for name in only]
    records, drawn, bar = [], [], ProgressBar()
    for done, i in enumerate(chosen):
        one, case = cases.select([i]), str(i if cases.ids is None else cases.ids[i])
        bar.show(done, len(chosen), f"case {case}, {done + 1}/{len(chosen)}")
        record = {"case": case, "prediction": fitted.outputs.decode(fitted.predict(one))[0]}
        for member in fitted.members:
            shown = Explained.of(fitted, member, one, f"case {case}")
            sums, drawn = shown.attribution.channels.tolist(), [*drawn, shown]
            record[f"channels_{member}"] = dict(zip(shown.names, sums, strict=True))
            record |= {"error": shown.attribution.error} if member == "linoss" else {}
        records.append(record)
    bar.close()
    write_explained(out, drawn)
    if json:
        show_json({"out": str(out), "cases": records})
        return
    for record in records:
        show_line(f"Case {record['case']}, prediction {record['prediction']}")
    show_line(f"See {out}")


def _some(fitted: "Fitted", cases: "Sequences") -> list[int]:
    """Cases of different predictions, for regression from the lowest to the highest."""
    import numpy as np

    predictions = np.asarray(fitted.outputs.decode(fitted.predict(cases)))
    first = np.unique(predictions.reshape(len(cases), -1)[:, 0], return_index=True)[1]
    places = np.linspace(0, len(first) - 1, min(len(first), _MOST)).astype(int)
    return first[places].tolist()


def _index_of(cases: "Sequences", name: str) -> int:
    """The index of a case by its name or number."""
    ids = [] if cases.ids is None else [str(i) for i in cases.ids]
    if name in ids:
        return ids.index(name)
    if name.isdigit() and int(name) < len(cases):
        return int(name)
    raise ValueError(f"--only is {name}, expected the name of a case, or 0 to {len(cases) - 1}")


def channel_names(fitted: "Fitted") -> list[str]:
    """The names of the channels, or their numbers."""
    numbered = [f"channel {i}" for i in range(fitted.n_channels)]
    return numbered if fitted.channels is None else [str(name) for name in fitted.channels]


@dataclass(frozen=True, eq=False)
class Explained:
    """The attribution of the prediction for a case."""

    title: str
    unit: str
    """That of times."""
    names: list[str]
    """The channels."""
    samples: "np.ndarray"
    """(channels, samples): the case."""
    attribution: "Attribution"
    """Of the predicted output alone: `values` are (periods or channels, times)."""

    @classmethod
    def of(cls, fitted: "Fitted", member: str, case: "Sequences", name: str) -> "Explained":
        """That of the prediction by a member."""
        import numpy as np

        unit, case = time_unit(case), fitted.aligned(case)
        classes, prediction = fitted.classes, np.ravel(fitted.predict(case)[0])
        output = 0 if classes is None else int(np.argmax(prediction))
        title = f"{name}: {f'{prediction[0]:.4g}' if classes is None else classes[output]}"
        whole = fitted.explain(case, member=member)
        is_single = classes is not None and len(whole.values) == 1  # that of the second class
        sign, row = (-1.0 if output == 0 else 1.0, 0) if is_single else (1.0, output)
        own = replace(whole, values=sign * whole.values[row], channels=sign * whole.channels[row])
        return cls(title, unit, channel_names(fitted), np.asarray(case.values[0], float).T, own)


# ---- export ----


def export(
    run: RunArgument,
    file: Annotated[
        Path,
        Argument(metavar="FILE", help="Output file, with the suffix .onnx, .h or .stablehlo."),
    ],
    int8: Annotated[bool, Option("--int8", help="C: quantise matrices to 8 bits.")] = False,
    series: Annotated[
        str | None,
        Option(
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

    written = write(load_run(run).fitted_, file, int8=int8, series=series)
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
