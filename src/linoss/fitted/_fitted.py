"""What every fit ends with: members, how they are combined, and how outputs are decoded."""

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import r2_score

from linoss import _checks
from linoss._plain import scalar
from linoss.data import DataError, Sequences
from linoss.fitted._attribution import Attribution
from linoss.fitted._ensemble import (
    AbstractPredictionStream,
    Choice,
    EnsembleStream,
    fit_mean,
    fit_pool,
    is_better,
    logarithms,
    mean_losses,
    pool,
    pool_losses,
)
from linoss.fitted._models import Trained, warn_of_nan
from linoss.fitted._oscillators import Untrained


@dataclass(frozen=True, eq=False)
class Outputs:
    """How outputs are decoded: as classes, or as numbers in the shape of the targets."""

    classes: np.ndarray | None = None
    """The classes, in the order of the probabilities; None for regression."""
    size: int = 1
    """Number of classes or targets."""
    is_scalar: bool = False
    """Whether the targets of `fit` were numbers, without an axis for several."""
    every: int | None = None
    """Outputs at every k-th step; None for one output for each case."""

    @classmethod
    def of_classes(cls, labels: Any, known: np.ndarray | None = None) -> "Outputs":
        """The classes of some labels. Raises ValueError for labels that files cannot hold."""
        labels = np.asarray(labels)
        is_plain = labels.dtype.kind in "biufU" or (
            labels.dtype.kind == "O"
            and all(isinstance(scalar(x), str | int | float) for x in labels.tolist())
        )
        if not is_plain:
            example = labels.reshape(-1)[0]
            raise ValueError(
                f"y has labels such as {example!r}, expected text, numbers or booleans; convert "
                "them, for example with y.astype(str)"
            )
        classes = np.unique(labels)
        if known is not None:
            if (classes.dtype.kind == "U") != (known.dtype.kind == "U"):
                new, old = classes.tolist()[0], known.tolist()[0]
                raise ValueError(f"y has {new!r}, expected a class such as {old!r}")
            classes = np.union1d(classes, known)
        if len(classes) < 2:
            raise ValueError(f"y has one class, {classes.tolist()[0]!r}, expected at least two")
        return cls(classes, len(classes))

    @property
    def task(self) -> str:
        """`"classification"` or `"regression"`."""
        return "regression" if self.classes is None else "classification"

    @property
    def metric(self) -> str:
        """The name of the metric of `score`."""
        return "R²" if self.classes is None else "accuracy"

    def decode(self, predictions: Any) -> Any:
        """The most probable classes, or numbers in the shape of the targets.

        Raises ValueError for probabilities that are NaN, of which no class is the most probable.
        """
        if self.classes is not None:
            unknown = np.flatnonzero(np.isnan(predictions).any(axis=1))
            if len(unknown):
                raise ValueError(
                    f"the probabilities of case {unknown[0]} are NaN, so that it has no class: "
                    "values of the data or the weights are too large; leave the case out"
                )
            return self.classes[np.argmax(predictions, axis=1)]
        if not self.is_scalar:
            return predictions
        if isinstance(predictions, list):
            return [each[..., 0] for each in predictions]
        return predictions[..., 0]

    def encode(self, labels: Any) -> np.ndarray:
        """The index of each class, or targets `(cases, outputs)`."""
        if self.classes is not None:
            return np.searchsorted(self.classes, labels)
        return np.asarray(labels, np.float64).reshape(len(labels), -1)

    def score(self, predictions: Any, labels: Any, weights: Any = None) -> float:
        """Accuracy, for which NaN is never right, or R² over all known targets."""
        if self.classes is not None:
            known = ~np.isnan(predictions).any(axis=1)
            decoded = self.classes[np.argmax(predictions, axis=1)]
            return float(np.average(known & (decoded == np.asarray(labels)), weights=weights))
        if self.every is None:
            truth, numbers = np.asarray(labels, float), np.asarray(self.decode(predictions))
        else:
            truth, numbers = (
                np.concatenate([np.reshape(np.asarray(x, float), (-1, self.size)) for x in parts])
                for parts in (labels, predictions)
            )
        known = np.isfinite(truth.reshape(len(truth), -1)).all(axis=1)
        weights = None if weights is None else np.asarray(weights)[known]
        return float(r2_score(truth[known], numbers[known], sample_weight=weights))

    def combine(self, predictions: list[Any], weights: np.ndarray | None) -> Any:
        """The prediction of an ensemble, from those of its members."""
        if weights is None:
            (only,) = predictions
            return only
        if self.classes is not None:
            return pool([logarithms(each) for each in predictions], weights)
        return np.tensordot(weights, np.asarray(predictions), 1)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values, for JSON."""
        dtype = None if self.classes is None else self.classes.dtype.str
        classes = None if self.classes is None else self.classes.tolist()
        return {**vars(self), "is_scalar": bool(self.is_scalar), "classes": classes, "dtype": dtype}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "Outputs":
        """The inverse of `to_dict`."""
        classes, every = plain["classes"], plain["every"]
        if classes is not None:
            classes = np.array(classes, np.dtype(plain["dtype"]))
            _checks.shape("classes", classes, (int(plain["size"]),))
        return cls(
            classes,
            int(plain["size"]),
            bool(plain["is_scalar"]),
            None if every is None else int(every),
        )


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Predictions for training cases by models that were fitted without them."""

    kind: str
    """`"leave-one-out"`, `"cross-validation"`, or `"validation"` for one held-out part."""
    cases: np.ndarray
    """Indices of the cases."""
    predictions: Any
    """Probabilities or numbers, `(cases, outputs)`; with `every` a list."""
    score: float
    """Accuracy or R²."""

    def of(self, cases: np.ndarray) -> np.ndarray:
        """The predictions for some of the cases."""
        order = np.argsort(self.cases)
        places = order[np.searchsorted(self.cases, cases, sorter=order)]
        return np.asarray(self.predictions)[places]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted classifier or regressor: prepared inputs, models, decoded outputs.

    Every estimator has one as `fitted_`; commands, exports and reports use nothing else.

    ```python
    >>> import numpy as np
    >>> from linoss import OscillatorClassifier
    >>> waves = np.random.default_rng(0).normal(size=(20, 2, 50))
    >>> classifier = OscillatorClassifier(n_oscillators=64, random_state=0)
    >>> fitted = classifier.fit(waves, np.arange(20) % 2).fitted_
    >>> fitted.task, fitted.n_channels, fitted.held_out.kind
    ('classification', 2, 'leave-one-out')

    ```
    """

    outputs: Outputs
    trained: Trained | None = None
    oscillators: Untrained | None = None
    weights: np.ndarray | None = None
    """Ensemble weights of the trained models and the oscillators; for classes of trained models
    alone, the factor of their log-probabilities; None if predictions are not changed."""
    held_out: HeldOut | None = None
    """Predictions for held-out training cases; not stored in files, but for their score."""
    choice: Choice | None = None
    """Which members were kept, and the reason; None if there was no choice."""
    channels: tuple[str, ...] | None = None
    """Names of the channels, if the data had names."""

    @property
    def members(self) -> dict[str, Trained | Untrained]:
        """The members by name, `"linoss"` and `"oscillators"`."""
        members = {"linoss": self.trained, "oscillators": self.oscillators}
        return {name: member for name, member in members.items() if member is not None}

    @property
    def task(self) -> str:
        """`"classification"` or `"regression"`."""
        return self.outputs.task

    @property
    def classes(self) -> np.ndarray | None:
        """The classes, in the order of the probabilities; None for regression."""
        return self.outputs.classes

    @property
    def n_outputs(self) -> int:
        """Number of classes or targets."""
        return self.outputs.size

    @property
    def n_channels(self) -> int:
        """Number of channels of the data."""
        return next(iter(self.members.values())).n_channels

    @property
    def needs_times(self) -> bool:
        """Whether each sample needs a time."""
        return any(member.needs_times for member in self.members.values())

    @property
    def supports_streaming(self) -> bool:
        """Whether predictions can be made sample by sample."""
        return all(member.supports_streaming for member in self.members.values())

    @property
    def scores(self) -> dict[str, float]:
        """Scores without a test part, by name."""
        if self.held_out is not None:
            return {f"{self.held_out.kind} {self.outputs.metric}": self.held_out.score}
        trained = self.trained
        if trained is None or trained.best_metric is None:
            return {}
        return {f"validation {trained.objective.metric}": trained.best_metric}

    def predict(self, cases: Sequences) -> Any:
        """Probabilities `(cases, classes)` or numbers `(cases, outputs)`; with `every` a list."""
        cases = self.aligned(cases)
        if self.trained is not None:
            self.trained.check(cases)
        predictions = self.outputs.combine(
            [member.predict(cases) for member in self.members.values()], self.weights
        )
        warn_of_nan("case", predictions)
        return predictions

    def aligned(self, cases: Sequences) -> Sequences:
        """The cases with the channels of the fit: by name, or by position if there are no names."""
        cases = cases.ordered(self.channels)
        if cases.num_channels != self.n_channels:
            raise DataError(
                f"X has {cases.num_channels} channels, expected {self.n_channels}, as in fit"
            )
        return cases

    def stream(self) -> AbstractPredictionStream:
        """A function that processes one sample at a time, in constant memory.

        It returns the prediction for the sequence so far: probabilities, or numbers.
        """
        streams = [member.stream() for member in self.members.values()]
        return EnsembleStream(streams, partial(self.outputs.combine, weights=self.weights))

    def explain(
        self, cases: Sequences, *, member: str | None = None, periods: int = 24, parts: int = 48
    ) -> Attribution:
        """Attribution of the outputs to parts of the only case.

        **Arguments:**

        - `cases`: one case.
        - `member`: `"oscillators"`, by period and time, or `"linoss"`, by channel and sample; by
          default the oscillators, if they are a member.
        - `periods`, `parts`: number of bins of periods and of times, for oscillators.
        """
        cases = self.aligned(cases)
        name = member or ("linoss" if self.oscillators is None else "oscillators")
        if name not in self.members:
            raise ValueError(f"member is {member!r}, expected one of {list(self.members)}")
        return self.members[name].explain(cases, periods=periods, parts=parts)

    # ---- Ensembles ----

    def calibrated(self, cases: Sequences) -> "Fitted":
        """Trained models, with probabilities calibrated on the held-out of these cases."""
        held_out, outputs = self.held_out, self.outputs
        if held_out is None or outputs.classes is None:
            return self
        truth, logs = cases.select(held_out.cases), [logarithms(held_out.predictions)]
        weights = fit_pool(logs, outputs.encode(truth.labels), truth.weights)
        predictions = pool(logs, weights)
        score = outputs.score(predictions, truth.labels)
        held_out = replace(held_out, predictions=predictions, score=score)
        return replace(self, weights=weights, held_out=held_out)

    def composed(self, trained: "Fitted", cases: Sequences) -> "Fitted":
        """Oscillators composed with trained models, or alone, by predictions for held-out cases.

        Trained models get a weight only if they lower the loss of held-out cases by more than a
        standard error of the mean difference.
        """
        outputs, first, second = self.outputs, trained.held_out, self.held_out
        assert second is not None
        if first is None or not len(common := np.intersect1d(first.cases, second.cases)):
            choice = Choice.because("no cases were held out for a comparison", "ensemble")
            return replace(self, trained=trained.trained, weights=np.full(2, 0.5), choice=choice)
        predictions = [each.of(common) for each in (first, second)]
        if not np.isfinite(predictions[0]).all():
            reason = "predictions of the trained models are not finite"
            return replace(self, choice=Choice.because(reason, "oscillators"))
        chosen = cases.select(common)
        truth = outputs.encode(chosen.labels)
        if outputs.classes is not None:
            logs = [logarithms(each) for each in predictions]
            weights = fit_pool(logs, truth, chosen.weights)
            alone = fit_pool(logs[1:], truth, chosen.weights)[0]
            losses = [pool_losses(logs, truth, w) for w in (weights, np.array([0, alone]))]
        else:
            weights = fit_mean(predictions, truth, chosen.weights)
            losses = [mean_losses(predictions, truth, w) for w in (weights, np.array([0, 1.0]))]
        ensemble = outputs.combine(predictions, weights)
        named = {"oscillators": predictions[1], "linoss": predictions[0], "ensemble": ensemble}
        scores = {name: outputs.score(each, chosen.labels) for name, each in named.items()}
        helps = is_better(*losses)
        kept = weights if helps else np.array([0, 1])
        choice = Choice.by_weights(kept, scores, len(common), outputs.metric)
        if not helps:
            return replace(self, choice=choice)
        held_out = replace(first, cases=common, predictions=ensemble, score=scores["ensemble"])
        return replace(
            self, trained=trained.trained, weights=weights, held_out=held_out, choice=choice
        )

    # ---- Files ----

    def facts(self) -> dict[str, Any]:
        """Everything but arrays and trained models, as plain values."""
        held_out = self.held_out
        return {
            "oscillators": None if self.oscillators is None else self.oscillators.to_dict(),
            "weights": None if self.weights is None else self.weights.tolist(),
            "held_out": None if held_out is None else [held_out.kind, held_out.score],
            "choice": None if self.choice is None else asdict(self.choice),
            "channels": self.channels,
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """The oscillators and their readout."""
        return {} if self.oscillators is None else self.oscillators.arrays()
