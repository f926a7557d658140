"""The spectrum of a model's oscillators: periods and decay times, in samples."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from linoss.cli._output import number

_LASTING = 1e-9  # a radius this close to 1 equals 1 up to rounding
SPECTRUM_COLUMNS = ("", "oscillators", "period", "decay time", "no decay", "free")


@dataclass(frozen=True, eq=False)
class BlockSpectrum:
    """The oscillators of one layer."""

    name: str
    stiffness: np.ndarray
    """(m,), A."""
    eigenvalues: np.ndarray
    """(m, 2), of one step."""

    @property
    def periods(self) -> np.ndarray:
        """(m,), samples of one oscillation; infinite if it does not oscillate."""
        angle = np.abs(np.angle(self.eigenvalues)).max(axis=1)
        turning = np.abs(np.imag(self.eigenvalues)).max(axis=1) > 0
        return np.where(turning, 2 * np.pi / np.where(turning, angle, 1), np.inf)

    @property
    def decay_times(self) -> np.ndarray:
        """(m,), samples in which the state decays to 1/e; infinite without decay."""
        radius = np.abs(self.eigenvalues).max(axis=1)
        falling = radius < 1 - _LASTING
        with np.errstate(divide="ignore"):
            return np.where(falling, -1 / np.log(np.where(falling, radius, 0.5)), np.inf)

    @property
    def free(self) -> np.ndarray:
        """(m,), True for free particles, A = 0."""
        return self.stiffness == 0

    def summary(self) -> dict[str, Any]:
        """Summary statistics."""
        oscillating = np.isfinite(self.periods)
        decaying = np.isfinite(self.decay_times)
        return {
            "name": self.name,
            "oscillators": len(self.stiffness),
            "oscillating": int(oscillating.sum()),
            "free_particles": int(self.free.sum()),
            "without_decay": int((~decaying).sum()),
            "period": _quantiles(self.periods[oscillating]),
            "decay_time": _quantiles(self.decay_times[decaying]),
        }


def banks(model: Any) -> list[BlockSpectrum]:
    """The oscillators of every layer of a model, in double precision; none for other mixers."""
    import jax
    import jax.numpy as jnp

    from linoss.dynamics import eigenvalues

    spectra = []
    if model.config.mixer != "linoss":
        return spectra
    with jax.enable_x64(True):
        for i, block in enumerate(model.blocks, 1):
            layers = {f"block {i}": block.mixer, f"block {i}, backward": block.backward_mixer}
            for name, layer in layers.items():
                if layer is None:
                    continue
                bank = jax.tree.map(
                    lambda x: jnp.asarray(np.asarray(x, np.float64)), layer.oscillators
                )
                values = eigenvalues(bank.transition())
                spectra.append(BlockSpectrum(name, np.asarray(bank.stiffness), np.asarray(values)))
    return spectra


def untrained_facts(oscillators: Any) -> dict[str, Any]:
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


def _quantiles(values: np.ndarray) -> dict[str, float] | None:
    """Minimum, median and maximum, if there are any values."""
    if not len(values):
        return None
    return {
        "min": float(values.min()),
        "median": float(np.median(values)),
        "max": float(values.max()),
    }


def spectrum_row(spectrum: "BlockSpectrum") -> tuple[str, ...]:
    """The row of a layer in a table."""
    facts = spectrum.summary()
    spans = (span(facts["period"]), span(facts["decay_time"]))
    counts = (str(facts["without_decay"]), str(facts["free_particles"]))
    return (spectrum.name, str(facts["oscillators"]), *spans, *counts)


def span(quantiles: dict[str, float] | None) -> str:
    """Minimum, median and maximum as text."""
    if quantiles is None:
        return "–"
    return " / ".join(number(quantiles[name], 3) for name in ("min", "median", "max"))
