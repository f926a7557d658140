"""Saving and loading a model: its description in config.json, its weights in
weights.safetensors."""

import json
import os
import warnings
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from linoss import __version__
from linoss._files import make_directory, write_file
from linoss._plain import plain
from linoss.nn import LinOSS, LinOSSConfig
from linoss.training._config import TrainingConfig
from linoss.training._inputs import Inputs
from linoss.training._objectives import Objective, objective_from_dict
from linoss.training._result import RECORD, CheckpointError, Record
from linoss.training._verified_files import (
    NOT_UNDERSTOOD,
    named,
    read_facts,
    read_json,
    read_tensors,
    restored,
    tensor_bytes,
    write_json,
    write_tensors,
)

CONFIG, WEIGHTS = "config.json", "weights.safetensors"
STATE, HISTORY = "state.safetensors", "history.jsonl"
ARRAYS = "arrays.safetensors"
FILES = (CONFIG, STATE, HISTORY, WEIGHTS)
FORMAT, _WEIGHTS_FORMAT, _ARRAYS_FORMAT = "linoss", "linoss-weights", "linoss-arrays"


@dataclass(frozen=True, eq=False)
class Saved:
    """A model loaded from a directory."""

    model: LinOSS
    """The model, with the best weights."""
    inputs: Inputs
    """The conversion of data to the model's inputs."""
    objective: Objective
    """The objective of its training."""
    training: TrainingConfig | None
    """The training settings; None if the model was saved by `save_model`."""
    extra: dict[str, Any]
    """JSON values saved with it."""
    arrays: dict[str, np.ndarray]
    """Arrays saved with it."""
    history: list[Record]
    """For each evaluation of its training: step, loss, metric, best, learning_rate, seconds."""


def save_model(
    directory: str | os.PathLike[str],
    model: LinOSS,
    inputs: Inputs,
    objective: Objective,
    extra: dict[str, Any] | None = None,
    arrays: dict[str, np.ndarray] | None = None,
) -> None:
    """Write a model, and everything needed to use it, to a directory.

    **Arguments:**

    - `directory`: created if it does not exist. Raises if it holds a model or a run.
    - `model`, `inputs`, `objective`: as in [`linoss.training.train`][].
    - `extra`: JSON values to save with the model.
    - `arrays`: arrays of numbers to save with the model, by name.

    ```python
    >>> import jax, linoss, numpy as np, tempfile
    >>> import linoss.data
    >>> from linoss.training import Classification, Inputs, load_model, save_model
    >>> cases = linoss.data.sequences(np.ones((4, 2, 50)), y=["a", "b", "a", "b"])
    >>> config = linoss.LinOSSConfig(in_size=2, out_size=2, hidden_size=8, state_size=8)
    >>> model = linoss.LinOSS(config, key=jax.random.key(0))
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     save_model(
    ...         directory + "/model",
    ...         model,
    ...         Inputs.from_sequences(cases),
    ...         Classification.from_labels(cases.labels),
    ...     )
    ...     saved = load_model(directory + "/model")
    >>> saved.objective.classes
    ('a', 'b')

    ```
    """
    description = describe(model, inputs, objective, extra, arrays)
    folder = Path(directory)
    make_directory(folder)
    refuse_files(folder)
    write_arrays(folder, arrays)
    write_weights(folder, model)
    write_json(folder / CONFIG, FORMAT, description)


def load_model(directory: str | os.PathLike[str]) -> Saved:
    """Load a model of [`linoss.training.save_model`][] or [`linoss.training.train`][].

    Loading executes no code. Raises [`linoss.training.CheckpointError`][], which names the file,
    for files that are damaged, of a newer version, or inconsistent.

    ```python
    >>> from linoss.training import CheckpointError, load_model
    >>> try:
    ...     load_model("no/such/directory")
    ... except CheckpointError as error:
    ...     print(error)
    no/such/directory/config.json: does not exist, expected a directory of save_model or train

    ```
    """
    folder = Path(directory)
    record = read_json(folder / CONFIG, FORMAT)
    if record.get("model") is None:
        raise CheckpointError(
            f"{folder / CONFIG}: belongs to an estimator without a trained model; load it with "
            "linoss.estimators.load"
        )
    path = folder / WEIGHTS
    if not path.exists() and record.get("training") is not None:
        raise CheckpointError(
            f"{path}: does not exist: the run was stopped before its first evaluation; continue "
            "it with resume=True"
        )
    tensors, _ = read_tensors(path, _WEIGHTS_FORMAT)
    try:
        config = LinOSSConfig(**record["model"])
        training = record["training"]
        saved = (
            Inputs.from_dict(record["inputs"]),
            objective_from_dict(record["objective"]),
            None if training is None else TrainingConfig.from_dict(training),
            dict(record["extra"]),
            _read_arrays(folder, record["arrays"]),
            _read_history(folder),
        )
        if config.num_blocks > len(tensors):
            raise ValueError(f"num_blocks is {config.num_blocks}, more than {WEIGHTS} has")
        hollow = eqx.filter_eval_shape(LinOSS, config, key=jax.random.key(0))
    except NOT_UNDERSTOOD as error:
        raise CheckpointError(f"{folder / CONFIG}: is invalid: {error!r}") from None
    return Saved(restored(path, hollow, tensors, exact=False), *saved)


def save_arrays(
    directory: str | os.PathLike[str],
    extra: dict[str, Any],
    arrays: dict[str, np.ndarray],
    *,
    replace: bool = False,
) -> None:
    """Save an estimator without a trained model: JSON values and arrays.

    Raises if the directory already holds one, unless `replace`.

    ```python
    >>> import numpy as np, tempfile
    >>> from linoss.training import load_arrays, save_arrays
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     save_arrays(directory + "/new", {"answer": 42}, {"ones": np.ones(3)})
    ...     load_arrays(directory + "/new")
    ({'answer': 42}, {'ones': array([1., 1., 1.])})

    ```
    """
    folder = Path(directory)
    make_directory(folder)
    if not replace:
        refuse_files(folder)
    write_arrays(folder, arrays)
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    record = {"linoss": __version__, "model": None, "extra": extra, "arrays": shapes}
    write_json(folder / CONFIG, FORMAT, plain(record))


def load_arrays(
    directory: str | os.PathLike[str],
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Load and verify the files of [`linoss.training.save_arrays`][]."""
    folder = Path(directory)
    record = read_json(folder / CONFIG, FORMAT)
    try:
        return dict(record["extra"]), _read_arrays(folder, dict(record["arrays"]))
    except NOT_UNDERSTOOD as error:
        raise CheckpointError(f"{folder / CONFIG}: is invalid: {error!r}") from None


def replace_arrays(directory: str | os.PathLike[str], arrays: dict[str, np.ndarray]) -> None:
    """Replace the arrays of a model or a run by others with the same names and shapes.

    ```python
    >>> import numpy as np, tempfile
    >>> from linoss.training import load_arrays, replace_arrays, save_arrays
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     save_arrays(directory, {}, {"ones": np.ones(3)})
    ...     replace_arrays(directory, {"ones": np.full(3, 1.5)})
    ...     load_arrays(directory)
    ({}, {'ones': array([1.5, 1.5, 1.5])})

    ```
    """
    folder = Path(directory)
    declared = read_json(folder / CONFIG, FORMAT)["arrays"]
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    if shapes != declared:
        raise ValueError(f"arrays have shapes {shapes}, expected {declared}, as {CONFIG} says")
    write_arrays(folder, arrays)


def read_extra(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """The `extra` of a saved model or run; for a run also before its first weights.

    ```python
    >>> from linoss.training import CheckpointError, read_extra
    >>> try:
    ...     read_extra("no/such/directory")
    ... except CheckpointError as error:
    ...     print(error)
    no/such/directory/config.json: does not exist, expected a directory of save_model or train

    ```
    """
    path = Path(directory) / CONFIG
    extra = read_json(path, FORMAT).get("extra")
    if not isinstance(extra, dict):
        raise CheckpointError(f"{path}: has no extra, expected a file of save_model or train")
    return extra


def read_training(directory: str | os.PathLike[str]) -> TrainingConfig | None:
    """The training settings in a directory; None for a model of `save_model`.

    ```python
    >>> from linoss.training import CheckpointError, read_training
    >>> try:
    ...     read_training("no/such/directory")
    ... except CheckpointError as error:
    ...     print(error)
    no/such/directory/config.json: does not exist, expected a directory of save_model or train

    ```
    """
    path = Path(directory) / CONFIG
    training = read_json(path, FORMAT).get("training")
    try:
        return None if training is None else TrainingConfig.from_dict(training)
    except NOT_UNDERSTOOD as error:
        raise CheckpointError(f"{path}: is invalid: {error!r}") from None


def holds_files(directory: str | os.PathLike[str]) -> bool:
    """Whether a directory holds a model, an estimator or a run, even an incomplete one.

    ```python
    >>> from linoss.training import holds_files
    >>> holds_files("no/such/directory")
    False

    ```
    """
    return (Path(directory) / CONFIG).exists()


def refuse_files(folder: Path) -> None:
    """Raise if a directory holds a model or a run.

    A directory with only arrays is not a run: a killed save leaves it, because config.json is
    written last.
    """
    held = [name for name in (*FILES, ARRAYS) if (folder / name).exists()]
    with suppress(CheckpointError):
        if held == [ARRAYS] and read_facts(folder / ARRAYS).get("format") == _ARRAYS_FORMAT:
            return
    for name in held:
        raise CheckpointError(
            f"{folder / name}: already exists and is not overwritten; choose another "
            "directory, save with overwrite=True, or continue a run with resume=True"
        )


def write_weights(folder: Path, model: LinOSS, **facts: Any) -> None:
    """Write the weights of a model, unless the file has them."""
    content, path = tensor_bytes(_WEIGHTS_FORMAT, named(model), facts), folder / WEIGHTS
    if not path.is_file() or path.read_bytes() != content:
        write_file(path, content)


def describe(
    model: LinOSS,
    inputs: Inputs,
    objective: Objective,
    extra: dict[str, Any] | None,
    arrays: dict[str, np.ndarray] | None = None,
    training: TrainingConfig | None = None,
    data: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The content of config.json as plain values."""
    try:
        json.dumps(extra, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"extra cannot be written as JSON: {error}") from None
    record = plain(
        {
            "linoss": __version__,
            "model": asdict(model.config),
            "inputs": inputs.to_dict(),
            "objective": objective.to_dict(),
            "training": None if training is None else training.to_dict(),
            "data": data,
            "extra": {} if extra is None else extra,
            "arrays": {name: list(array.shape) for name, array in (arrays or {}).items()},
        }
    )
    json.dumps(record, allow_nan=False)  # before any file is written
    return record


def write_arrays(folder: Path, arrays: dict[str, np.ndarray] | None) -> None:
    """Write the arrays of a model."""
    if arrays:
        write_tensors(folder / ARRAYS, _ARRAYS_FORMAT, arrays)


def _read_arrays(folder: Path, shapes: dict[str, list[int]]) -> dict[str, np.ndarray]:
    if not shapes:
        return {}
    arrays, _ = read_tensors(folder / ARRAYS, _ARRAYS_FORMAT)
    if {name: list(array.shape) for name, array in arrays.items()} != shapes:
        raise CheckpointError(f"{folder / ARRAYS}: does not match {CONFIG}")
    return arrays


def _read_history(folder: Path) -> list[Record]:
    """The history of a run, from its state; empty for a model of `save_model`.

    A model is usable without it: if the state is damaged, it is empty, with a warning.
    """
    path = folder / STATE
    if not path.exists():
        return []
    try:
        return history_of(read_facts(path))
    except (CheckpointError, *NOT_UNDERSTOOD) as error:
        warnings.warn(f"the history is lost, but the model is intact ({error})", stacklevel=4)
        return []


def history_of(facts: dict[str, Any]) -> list[Record]:
    """The history in the facts of a state, with the entries of a record in their order."""
    return [{name: record[name] for name in RECORD} for record in facts["history"]]
