"""Untrained oscillators: a bank, and the ridge readout of its features."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linoss import _checks
from linoss.data import Sequences
from linoss.features import STATISTICS, OscillatorFeatures, OscillatorSettings
from linoss.fitted._attribution import Attribution, attribute_to_periods
from linoss.fitted._ensemble import fit_pool, pool
from linoss.fitted._ridge import Ridge, fit_ridge
from linoss.fitted._stream import AbstractPredictionStream
from linoss.training import Scaling

_IMPORTANCE = {"lateness": 0.5}  # the beginning of many recordings is arbitrary
_AT_ONCE = 512  # cases whose features are converted to double precision at a time
_RIDGE = ("mean", "scale", "coefficients", "intercept")


@dataclass(frozen=True, eq=False)
class Untrained:
    """A bank of untrained oscillators, and the ridge readout of its features."""

    features: OscillatorFeatures
    readout: Ridge
    sharpness: float | None
    """The factor of decision values before a softmax; None for regression."""

    @classmethod
    def fit(
        cls,
        cases: Sequences,
        targets: np.ndarray,
        weights: np.ndarray | None,
        *,
        n_oscillators: Any,
        causal: bool,
        seed: int,
    ) -> tuple["Untrained", np.ndarray, np.ndarray]:
        """Fit to targets `(cases, outputs)`: numbers, or the index of each class `(cases,)`.

        **Returns:** the member; cases, a subset of very many; and their leave-one-out predictions.
        """
        features = OscillatorFeatures(n_oscillators=n_oscillators, causal=causal, random_state=seed)
        table = features.fit_cases(cases).transform_cases(cases)
        importance = np.array([_IMPORTANCE.get(name, 1.0) for name in STATISTICS])
        importance = importance.repeat(table.shape[1] // len(STATISTICS))
        if targets.ndim == 1:
            count = int(targets.max()) + 1
            columns = np.arange(count) if count > 2 else np.array([1])
            signs = np.where(targets[:, None] == columns, 1.0, -1.0)
            readout, part, held_out = fit_ridge(table, signs, weights, importance)
            decisions = two_sided(held_out)
            sharpness = float(fit_pool([decisions], targets[part])[0])
            member = cls(features, readout, sharpness)
            return member, part, pool([decisions], np.array([sharpness]))
        scaling = Scaling.from_sequences([targets], kind="target")
        readout, part, held_out = fit_ridge(table, scaling.apply(targets), weights, importance)
        readout = replace(
            readout,
            coefficients=readout.coefficients * scaling.deviation,
            intercept=scaling.undo(readout.intercept),
        )
        return cls(features, readout, None), part, scaling.undo(held_out)

    @property
    def n_channels(self) -> int:
        """Number of channels of the data."""
        return len(self.features.bank_.mean)

    @property
    def needs_times(self) -> bool:
        """Whether each sample needs a time."""
        return not self.features.even_

    @property
    def supports_streaming(self) -> bool:
        """Whether the oscillators read sequences forwards only."""
        return bool(self.features.causal)

    def decide(self, cases: Sequences) -> np.ndarray:
        """The outputs of the readout: numbers, or decision values, one column for two classes."""
        parts = []
        for start in range(0, len(cases), _AT_ONCE):
            some = cases.select(np.arange(start, min(start + _AT_ONCE, len(cases))))
            parts.append(self.readout(self.features.transform_cases(some)))
        return np.concatenate(parts)

    def predict(self, cases: Sequences) -> np.ndarray:
        """Probabilities or numbers, `(cases, outputs)`."""
        return self.decode(self.decide(cases))

    def decode(self, decisions: np.ndarray) -> np.ndarray:
        """Probabilities or numbers, from the outputs of the readout."""
        if self.sharpness is None:
            return decisions
        return pool([two_sided(decisions)], np.array([self.sharpness]))

    def stream(self) -> "OscillatorStream":
        """A streaming predictor."""
        return OscillatorStream(self)

    def explain(self, cases: Sequences, *, periods: int, parts: int) -> Attribution:
        """Attribution of the outputs to periods and parts of the only case."""
        _checks.positive_integer("periods", periods)
        _checks.positive_integer("parts", parts)
        unit = 1.0 if self.features.interval_ is None else self.features.interval_
        response = self.features.response(cases)
        return attribute_to_periods(response, self.readout, unit, periods=periods, times=parts)

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of bank and readout, for files."""
        bank = {f"bank.{name}": array for name, array in self.features.fitted()[0].items()}
        return bank | {f"readout.{name}": getattr(self.readout, name) for name in _RIDGE}

    def to_dict(self) -> dict[str, Any]:
        """All else, as plain values."""
        settings, fitted = self.features.get_params(), self.features.fitted()[1]
        penalty = self.readout.penalty
        return {
            "settings": settings,
            "features": fitted,
            "penalty": penalty,
            "sharpness": self.sharpness,
        }

    @classmethod
    def from_files(cls, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> "Untrained":
        """The inverse of `arrays` and `to_dict`."""
        bank, readout = (
            {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
            for prefix in ("bank.", "readout.")
        )
        settings = OscillatorSettings(**facts["settings"])
        features = OscillatorFeatures.restored(settings, bank, facts["features"])
        size = len(STATISTICS) * features.bank_.size
        _checks.shape("readout.coefficients", readout["coefficients"], (size, "outputs"))
        sharpness = facts["sharpness"]
        return cls(
            features,
            Ridge(**readout, penalty=float(facts["penalty"])),
            None if sharpness is None else float(sharpness),
        )


class OscillatorStream(AbstractPredictionStream):
    """A stream of untrained oscillators."""

    def __init__(self, member: Untrained):
        self._member, self._stream = member, member.features.stream()

    def __call__(self, sample: Any, time: float | None = None) -> np.ndarray:
        """Return the prediction after one more sample."""
        return self._member.decode(self._member.readout(self._stream(sample, time)))[0]


def two_sided(decisions: np.ndarray) -> np.ndarray:
    """A column for each of two classes."""
    if decisions.shape[1] > 1:
        return decisions
    return np.concatenate([-decisions, decisions], axis=1)
