"""The directory of a fitted thing: one format for all, as JSON and safetensors.

`config.json` describes the estimator (its name and parameters) and, once the fit has ended, what
was fitted; `arrays.safetensors` holds the oscillators and their readout; each trained model has a
directory of its own, `model-1`, `model-2`, ..., which is that of its training.
"""

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from linoss._files import make_directory, replaced_directory, restore_directory
from linoss._imports import as_paths, check_writable, from_paths
from linoss._plain import first_difference, plain
from linoss.fitted._ensemble import Choice
from linoss.fitted._fitted import Fitted, HeldOut, Outputs
from linoss.fitted._models import Trained
from linoss.fitted._oscillators import Untrained
from linoss.training import (
    CheckpointError,
    Saved,
    holds_files,
    load_arrays,
    load_model,
    save_arrays,
    save_model,
)

Estimator = TypeVar("Estimator", bound=BaseEstimator)

_MACHINE = ("devices", "memory")  # parameters of a machine, which are not stored
_MAY_DIFFER = ("verbose", "steps", "epochs")  # when a run is resumed
_PAIRS = "pairs"


@dataclass(frozen=True)
class Description:
    """The estimator of a directory, as plain values."""

    estimator: str
    """The name of its class."""
    parameters: dict[str, Any]
    seed: int
    """The seed of its fit."""
    facts: dict[str, Any]
    """What is known before the first model is trained, such as the classes."""

    @classmethod
    def of(cls, estimator: BaseEstimator, **facts: Any) -> "Description":
        """Describe an estimator; draws the seed of its fit."""
        chosen = estimator.get_params(deep=False).items()
        parameters = {name: _named(value) for name, value in chosen if name not in _MACHINE}
        seed = parameters["random_state"]
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31)
            parameters["random_state"] = None  # the state of a generator has changed since
        parameters = plain(as_paths(parameters))
        return cls(type(estimator).__name__, parameters, int(seed), plain(facts))

    def create(self, kind: type[Estimator], directory: str | os.PathLike[str]) -> Estimator:
        """The estimator, not yet fitted. Raises ValueError if it is of another class."""
        if self.estimator != kind.__name__:
            raise ValueError(
                f"{os.fspath(directory)} holds a {self.estimator}, expected a {kind.__name__}"
            )
        with reading(directory):
            parameters = from_paths(self.parameters).items()
            return kind(**{name: _unnamed(value) for name, value in parameters})

    # ---- Writing ----

    def begin(
        self,
        directory: str | os.PathLike[str] | None,
        fitted: Any = None,
        *,
        resume: bool = False,
    ) -> "Description":
        """Begin a run in a directory, or resume it; returns the description with its seed.

        `fitted` is what a new run already has before its models are trained: a `Fitted`, or what
        else has `trained` models, `facts()` as plain values and `arrays()`.
        """
        if directory is None:
            if resume:
                raise ValueError(
                    "resume is True, but directory is None; pass the directory of the run"
                )
            return self
        if not (resume and holds_files(directory)):
            save_arrays(directory, *self._content(fitted))
            return self
        before = Stored.read(directory).description
        old, new = (
            {name: value for name, value in each.parameters.items() if name not in _MAY_DIFFER}
            for each in (before, self)
        )
        difference = first_difference(old, new)
        if before.estimator != self.estimator or difference is not None:
            what, old, new = "the estimator", before.estimator, self.estimator
            if difference is not None:
                what, old, new = ".".join(difference.path), difference.before, difference.now
            raise CheckpointError(
                f"{os.fspath(directory)}: {what} is {old!r} in the run, but {new!r} now; resume "
                "with the settings of the run, or train in another directory"
            )
        return replace(self, seed=before.seed)

    def finish(self, directory: str | os.PathLike[str], fitted: Any) -> None:
        """Write what was fitted to the directory of a run, which has its trained models."""
        save_arrays(directory, *self._content(fitted), replace=True)

    def save(self, directory: str | os.PathLike[str], fitted: Any, *, overwrite: bool) -> None:
        """Write a fitted thing to a directory, which appears complete or not at all."""
        with _new_directory(directory, overwrite) as folder:
            self.begin(folder)
            if (trained := fitted.trained) is not None:
                for k, model in enumerate(trained.models, 1):
                    save_model(folder / f"model-{k}", model, trained.inputs, trained.objective)
            self.finish(folder, fitted)

    def _content(self, fitted: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The content of both files of a directory."""
        check_writable(self.parameters)
        if fitted is None:
            return {**asdict(self), "fitted": None}, {}
        trained, facts = fitted.trained, fitted.facts()
        facts["models"] = 0 if trained is None else len(trained.models)
        facts["n_steps"] = 0 if trained is None else trained.n_steps
        return {**asdict(self), "fitted": plain(facts)}, fitted.arrays()


@dataclass(frozen=True, eq=False)
class Stored:
    """The content of a directory, but for its trained models."""

    folder: Path
    description: Description
    facts: dict[str, Any] | None
    """What was fitted as plain values; None if a run has no result yet."""
    arrays: dict[str, np.ndarray]

    @classmethod
    def read(cls, directory: str | os.PathLike[str]) -> "Stored":
        """Read and verify a directory."""
        values, arrays = load_arrays(directory)
        if "estimator" not in values:
            raise ValueError(f"{os.fspath(directory)} holds a model, but no estimator")
        with reading(directory):
            facts = values.pop("fitted")
            description = Description(**values)
            description = replace(description, seed=int(description.seed))
            return cls(Path(directory), description, None if facts is None else dict(facts), arrays)

    def trained(self) -> Trained | None:
        """Load the trained models."""
        assert self.facts is not None
        with reading(self.folder):
            count, steps = int(self.facts["models"]), int(self.facts["n_steps"])
        with jax.enable_x64(False):
            models = [load_model(self.folder / f"model-{k}") for k in range(1, count + 1)]
        return _trained(self.folder, models, steps) if models else None


def load(directory: str | os.PathLike[str]) -> tuple[Fitted, Description]:
    """Load what `save` or a run wrote, and the description of its estimator.

    Loading executes no code. An unfinished run is loaded with what it has, and a warning.
    """
    stored = Stored.read(directory)
    folder, facts = stored.folder, stored.facts
    with reading(folder):
        outputs = Outputs.from_dict(stored.description.facts["outputs"])
    if facts is None:
        return _unfinished(folder, outputs), stored.description
    with reading(folder):
        oscillators, held_out = facts["oscillators"], facts["held_out"]
        choice, channels = facts["choice"], facts["channels"]
        fitted = Fitted(
            outputs,
            stored.trained(),
            None if oscillators is None else Untrained.from_files(oscillators, stored.arrays),
            None if facts["weights"] is None else np.array(facts["weights"], np.float64),
            held_out and HeldOut(str(held_out[0]), np.zeros(0, int), None, float(held_out[1])),
            None if choice is None else Choice(**choice),
            None if channels is None else tuple(channels),
        )
        w = np.zeros(1) if fitted.weights is None else fitted.weights
        if not fitted.members or w.ndim != 1 or not (np.isfinite(w) & (w >= 0)).all():
            raise ValueError(f"weights are {w.tolist()} of members {list(fitted.members)}")
    if len({member.n_channels for member in fitted.members.values()}) > 1:
        raise CheckpointError(f"{folder}: its members are of different data")
    return fitted, stored.description


def _unfinished(folder: Path, outputs: Outputs) -> Fitted:
    """What a stopped run has: its models so far."""
    models: list[Saved] = []
    with jax.enable_x64(False), suppress(CheckpointError):
        while holds_files(place := folder / f"model-{len(models) + 1}"):
            models.append(load_model(place))
    if not models:
        raise CheckpointError(
            f"{folder}: was stopped before its first result; continue it with resume=True"
        )
    several = f"{len(models)} models are" if models[1:] else "model is"
    warnings.warn(
        f"{folder}: was stopped before its end, and only its first {several} used; continue it "
        "with resume=True",
        stacklevel=4,
    )
    steps = sum(saved.history[-1]["step"] if saved.history else 0 for saved in models)
    return Fitted(outputs, _trained(folder, models, steps))


def _trained(folder: Path, models: list[Saved], n_steps: int) -> Trained:
    """The models of a directory, which must have equal settings, inputs and targets."""
    first, *others = [
        (saved.model.config, saved.inputs.to_dict(), saved.objective.to_dict()) for saved in models
    ]
    for k, other in enumerate(others, 2):
        if other != first:
            raise CheckpointError(f"{folder / f'model-{k}'}: is not one of the models of {folder}")
    saved, history = models[0], models[0].history
    best = history[-1]["best"] if history else None
    each = [saved.model for saved in models]
    return Trained(each, saved.inputs, saved.objective, history, n_steps, best)


@contextmanager
def _new_directory(directory: str | os.PathLike[str], overwrite: bool) -> Iterator[Path]:
    """Yield the directory to save into.

    A new directory appears complete at the end; with `overwrite` it replaces an existing one.
    """
    folder = fresh = Path(directory)
    restore_directory(folder.absolute())
    if os.path.lexists(folder) and not (overwrite and holds_files(folder)):
        yield folder
        return
    try:
        make_directory(folder.absolute().parent)
        with replaced_directory(folder.absolute()) as fresh:
            yield fresh
    except (CheckpointError, OSError) as error:
        raise CheckpointError(str(error).replace(str(fresh), str(folder))) from error


@contextmanager
def reading(directory: str | os.PathLike[str]) -> Iterator[None]:
    """Convert errors from unexpected content of a directory to `CheckpointError`."""
    try:
        yield
    except CheckpointError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{os.fspath(directory)}: the estimator in it is invalid: {error!r}"
        ) from None


def _named(value: Any) -> Any:
    """A mapping as pairs unless its keys are strings, the only keys that JSON supports."""
    if isinstance(value, Mapping) and not all(isinstance(key, str) for key in value):
        return {_PAIRS: [[key, entry] for key, entry in value.items()]}
    return value


def _unnamed(value: Any) -> Any:
    """The inverse of `_named`."""
    pairs = value.get(_PAIRS) if isinstance(value, dict) else None
    return dict(pairs) if isinstance(pairs, list) else value
