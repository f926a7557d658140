"""The directory of a fitted thing: one format for all, as JSON and safetensors.

`config.json` describes the estimator (its name and parameters) and, once the fit has ended, what
was fitted; `arrays.safetensors` holds the oscillators and their readout; each trained model has a
directory of its own, `model-1`, `model-2`, ..., which is that of its training.
"""

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import jax
import numpy as np
from sklearn.base import BaseEstimator

from linoss._files import make_directory, replaced_directory, restore_directory
from linoss._plain import first_difference, plain
from linoss.fitted._ensemble import Choice
from linoss.fitted._fitted import Fitted, HeldOut, Outputs
from linoss.fitted._members import Trained, Untrained
from linoss.fitted._train import drawn_seed
from linoss.training import (
    CheckpointError,
    Saved,
    holds_files,
    load_arrays,
    load_model,
    save_arrays,
    save_model,
)

Description = dict[str, Any]
"""The name of an estimator, its parameters, outputs, and the seed of its fit, as plain values."""
Estimator = TypeVar("Estimator", bound=BaseEstimator)

_MAY_DIFFER = ("devices", "memory", "verbose", "steps", "epochs")  # when a run is resumed
_PAIRS = "pairs"


class Storable(Protocol):
    """What a directory stores: trained models, and the rest as plain values and arrays."""

    @property
    def trained(self) -> Trained | None:
        """The trained models."""
        ...

    def facts(self) -> dict[str, Any]:
        """Everything but arrays, as plain values."""
        ...

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays by name."""
        ...


def describe(estimator: BaseEstimator, **facts: Any) -> Description:
    """The description of an estimator, with other plain values; draws the seed of its fit."""
    parameters = {name: _named(value) for name, value in estimator.get_params(deep=False).items()}
    seed = drawn_seed(parameters["random_state"])
    if not isinstance(parameters["random_state"], int | np.integer | None):
        parameters["random_state"] = None  # its state has changed since
    name = type(estimator).__name__
    return {"estimator": name, "parameters": plain(parameters), "seed": seed, **facts}


def described(
    kind: type[Estimator], description: Description, directory: str | os.PathLike[str]
) -> Estimator:
    """The estimator of a description, not yet fitted. Raises ValueError for another class."""
    name = description.get("estimator")
    if name != kind.__name__:
        raise ValueError(
            f"{os.fspath(directory)} holds {f'a {name}' if name else 'no estimator'}, "
            f"expected a {kind.__name__}"
        )
    with understanding(directory):
        parameters = description["parameters"].items()
        return kind(**{name: _unnamed(value) for name, value in parameters})


def begin(
    directory: str | os.PathLike[str] | None,
    description: Description,
    fitted: Storable | None = None,
    *,
    resume: bool = False,
) -> int:
    """Begin a run in a directory, or resume it. Returns the seed of the run.

    `fitted` is what a new run already has before its models are trained.
    """
    if directory is None:
        if resume:
            raise ValueError("resume is True, but directory is None; pass the directory of the run")
        return description["seed"]
    folder = Path(directory)
    if not (resume and holds_files(folder)):
        save_arrays(folder, *_content(description, fitted))
        return description["seed"]
    before, _ = load_arrays(folder)
    with understanding(folder):
        seed = int(before["seed"])
        parameters = (before["parameters"], plain(description["parameters"]))
    kept = [{n: v for n, v in each.items() if n not in _MAY_DIFFER} for each in parameters]
    difference = first_difference(kept[0], kept[1])
    if before.get("estimator") != description["estimator"] or difference is not None:
        what = "the estimator" if difference is None else ".".join(difference.path)
        old, new = (
            (before.get("estimator"), description["estimator"])
            if difference is None
            else (difference.before, difference.now)
        )
        raise CheckpointError(
            f"{folder}: {what} is {old!r} in the run, but {new!r} now; resume with the settings of "
            "the run, or train in another directory"
        )
    return seed


def finish(directory: str | os.PathLike[str], description: Description, fitted: Storable) -> None:
    """Write what was fitted to the directory of a run, which already has its trained models."""
    save_arrays(directory, *_content(description, fitted), replace=True)


def _content(
    description: Description, fitted: Storable | None
) -> tuple[Description, dict[str, np.ndarray]]:
    """The content of both files of a directory."""
    if fitted is None:
        return plain({**description, "fitted": None}), {}
    trained, facts = fitted.trained, fitted.facts()
    facts["models"] = 0 if trained is None else len(trained.models)
    facts["n_steps"] = 0 if trained is None else trained.n_steps
    return plain({**description, "fitted": facts}), fitted.arrays()


def save(
    directory: str | os.PathLike[str],
    description: Description,
    fitted: Storable,
    *,
    overwrite: bool,
) -> None:
    """Write a fitted thing to a directory, which appears complete or not at all."""
    with saved_into(directory, overwrite) as folder:
        begin(folder, description)
        trained = fitted.trained
        for k, model in enumerate(() if trained is None else trained.models, 1):
            assert trained is not None
            save_model(folder / f"model-{k}", model, trained.inputs, trained.objective)
        finish(folder, description, fitted)


def read(
    directory: str | os.PathLike[str],
) -> tuple[Description, dict[str, Any] | None, dict[str, np.ndarray]]:
    """The description in a directory, the plain values (None before a first result) and arrays."""
    description, arrays = load_arrays(directory)
    with understanding(directory):
        facts = description.pop("fitted")
        return description, None if facts is None else dict(facts), arrays


def read_trained(directory: str | os.PathLike[str], facts: dict[str, Any]) -> Trained | None:
    """The trained models in a directory, with the plain values of its `read`."""
    folder, count = Path(directory), int(facts["models"])
    models = [_load_model(folder / f"model-{k}") for k in range(1, count + 1)]
    return _trained(folder, models, int(facts["n_steps"])) if models else None


def load(directory: str | os.PathLike[str]) -> tuple[Fitted, Description]:
    """Load what `save` or a run wrote, and the description of its estimator.

    Loading executes no code. An unfinished run is loaded with what it has, and a warning.
    """
    folder = Path(directory)
    description, facts, arrays = read(folder)
    with understanding(folder):
        outputs = Outputs.from_dict(description["outputs"])
    if facts is None:
        return _unfinished(folder, outputs), description
    with understanding(folder):
        oscillators = None
        if facts["oscillators"] is not None:
            oscillators = Untrained.from_files(facts["oscillators"], arrays)
        held_out = None
        if facts["held_out"] is not None:
            kind, score = facts["held_out"]
            held_out = HeldOut(str(kind), np.zeros(0, int), None, float(score))
        channels, choice = facts["channels"], facts["choice"]
        fitted = Fitted(
            outputs,
            read_trained(folder, facts),
            oscillators,
            _checked_weights(facts["weights"]),
            held_out,
            None if choice is None else Choice(**choice),
            None if channels is None else tuple(channels),
        )
        if not fitted.members:
            raise ValueError("it has no member")
    sizes = {member.n_channels for member in fitted.members.values()}
    if len(sizes) > 1:
        raise CheckpointError(f"{folder}: its members are of different data")
    return fitted, description


def _unfinished(folder: Path, outputs: Outputs) -> Fitted:
    """What a stopped run has: its models so far."""
    models = []
    while holds_files(place := folder / f"model-{len(models) + 1}"):
        try:
            models.append(_load_model(place))
        except CheckpointError:
            if not models:
                raise
            break
    if not models:
        raise CheckpointError(
            f"{folder}: was stopped before its first result; continue it with resume=True"
        )
    warnings.warn(
        f"{folder}: was stopped before its end, and only its first "
        f"{f'{len(models)} models are' if models[1:] else 'model is'} used; continue it with "
        "resume=True",
        stacklevel=4,
    )
    steps = sum(saved.history[-1]["step"] if saved.history else 0 for saved in models)
    return Fitted(outputs, _trained(folder, models, steps))


def _load_model(folder: Path) -> Saved:
    with jax.enable_x64(False):
        return load_model(folder)


def _trained(folder: Path, models: list[Saved], n_steps: int) -> Trained:
    """The models of a directory, which must have equal settings, inputs and targets."""
    first = models[0]
    for k, saved in enumerate(models, 1):
        same = saved.model.config == first.model.config
        same = same and saved.inputs.to_dict() == first.inputs.to_dict()
        if not same or saved.objective.to_dict() != first.objective.to_dict():
            raise CheckpointError(f"{folder / f'model-{k}'}: is not one of the models of {folder}")
    best = first.history[-1]["best"] if first.history else None
    return Trained(
        [saved.model for saved in models],
        first.inputs,
        first.objective,
        first.history,
        n_steps,
        best,
    )


def _checked_weights(weights: Any) -> np.ndarray | None:
    if weights is None:
        return None
    numbers = np.array(weights, np.float64)
    if numbers.ndim != 1 or not (np.isfinite(numbers) & (numbers >= 0)).all():
        raise ValueError(f"weights are {weights}, expected numbers >= 0")
    return numbers


@contextmanager
def saved_into(directory: str | os.PathLike[str], overwrite: bool) -> Iterator[Path]:
    """Yield the directory to save into.

    A new directory appears complete at the end; with `overwrite` it replaces an existing one.
    """
    folder = Path(directory)
    restore_directory(folder.absolute())
    if os.path.lexists(folder) and not (overwrite and holds_files(folder)):
        yield folder
        return
    fresh = folder
    try:
        make_directory(folder.absolute().parent)
        with replaced_directory(folder.absolute()) as fresh:
            yield fresh
    except (CheckpointError, OSError) as error:
        raise CheckpointError(str(error).replace(str(fresh), str(folder))) from error


@contextmanager
def understanding(directory: str | os.PathLike[str]) -> Iterator[None]:
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
