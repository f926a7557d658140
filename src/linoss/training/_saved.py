"""Saving and loading a model: its description in config.json, its weights in
weights.safetensors. All files have a format, a version and a checksum.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import safetensors
import safetensors.numpy

from linoss import __version__
from linoss._files import make_directory, restore_directory, write_file
from linoss._imports import ImportRefusedError, as_paths, check_writable, from_paths
from linoss._plain import canonical, plain, with_checksum, without_checksum
from linoss.nn import LinOSS, LinOSSConfig
from linoss.training._config import TrainingConfig
from linoss.training._inputs import Inputs
from linoss.training._objectives import Objective, objective_from_dict
from linoss.training._result import RECORD, CheckpointError, Record

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
    history: list[Record]
    """For each evaluation of its training: step, loss, metric, best, learning_rate, seconds."""


def save_model(
    directory: str | os.PathLike[str],
    model: LinOSS,
    inputs: Inputs,
    objective: Objective,
) -> None:
    """Write a model, and everything needed to use it, to a directory.

    **Arguments:**

    - `directory`: created if it does not exist. Raises if it holds a model or a run.
    - `model`, `inputs`, `objective`: as in [`linoss.training.train`][].

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
    folder = Path(directory)
    make_directory(folder)
    refuse_files(folder)
    write_weights(folder, model)
    write_json(folder / CONFIG, FORMAT, describe(model, inputs, objective))


def load_model(directory: str | os.PathLike[str]) -> Saved:
    """Load a model of [`linoss.training.save_model`][] or [`linoss.training.train`][].

    Loading executes no code. Raises [`linoss.training.CheckpointError`][], which names the file,
    for files that are damaged, of a newer version, or inconsistent.
    """
    folder = Path(directory)
    record = read_json(folder / CONFIG, FORMAT)
    if record.get("model") is None:
        raise CheckpointError(
            f"{folder / CONFIG}: belongs to an estimator; load it with linoss.load"
        )
    path = folder / WEIGHTS
    if not path.exists() and record.get("training") is not None:
        raise CheckpointError(
            f"{path}: does not exist: the run was stopped before its first evaluation; continue "
            "it with resume=True"
        )
    tensors, _ = read_tensors(path, _WEIGHTS_FORMAT)
    try:
        config = LinOSSConfig(**from_paths(record["model"]))
        training = record["training"]
        saved = (
            Inputs.from_dict(record["inputs"]),
            objective_from_dict(record["objective"]),
            None if training is None else TrainingConfig.from_dict(training),
            _read_history(folder),
        )
        if config.num_blocks > len(tensors):
            raise ValueError(f"num_blocks is {config.num_blocks}, more than {WEIGHTS} has")
        hollow = eqx.filter_eval_shape(LinOSS, config, key=jax.random.key(0))
    except ImportRefusedError as error:
        raise CheckpointError(f"{folder / CONFIG}: {error}") from None
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
    """Save JSON values and arrays, such as the description of an estimator.

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
    if arrays:
        write_tensors(folder / ARRAYS, _ARRAYS_FORMAT, arrays)
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


def read_extra(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON values of [`linoss.training.save_arrays`][]; of an estimator, its description."""
    path = Path(directory) / CONFIG
    extra = read_json(path, FORMAT).get("extra")
    if not isinstance(extra, dict):
        raise CheckpointError(f"{path}: is not that of an estimator")
    return extra


def read_training(directory: str | os.PathLike[str]) -> TrainingConfig | None:
    """The training settings in a directory; None for a model of `save_model`."""
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
    training: TrainingConfig | None = None,
    data: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The content of config.json as plain values."""
    config = as_paths(vars(model.config))
    check_writable(config)
    return plain(
        {
            "linoss": __version__,
            "model": config,
            "inputs": inputs.to_dict(),
            "objective": objective.to_dict(),
            "training": None if training is None else training.to_dict(),
            "data": data,
        }
    )


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


# ---- Files with a checksum ----

VERSION = 1
NOT_UNDERSTOOD = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""Exceptions that unexpected content of a file can raise."""
_REPAIR = "restore it from a backup, or train again in another directory"


def read_file(path: Path) -> bytes:
    """The content of a file, which must exist."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        if restore_directory(path.parent.absolute()):
            return read_file(path)
        raise CheckpointError(
            f"{path}: does not exist, expected a directory of save_model or train"
        ) from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error})") from error


def write_json(path: Path, format: str, plain: dict[str, Any]) -> None:
    """Write a dictionary with format, version and checksum."""
    record = with_checksum({"format": format, "version": VERSION, **plain})
    write_file(path, json.dumps(record, indent=2, allow_nan=False).encode() + b"\n")


def read_json(path: Path, format: str) -> dict[str, Any]:
    """Read and verify a dictionary written by `write_json`."""
    content = read_file(path)
    try:
        record = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: is not JSON ({error}); {_REPAIR}") from None
    _check_version(path, record, format)
    verified = without_checksum(record)
    if verified is None:
        raise CheckpointError(f"{path}: its content does not match its checksum; {_REPAIR}")
    return verified


def write_tensors(
    path: Path, format: str, tensors: dict[str, np.ndarray], facts: dict[str, Any] | None = None
) -> None:
    """Write arrays and metadata with format, version and checksum."""
    write_file(path, tensor_bytes(format, tensors, facts or {}))


def tensor_bytes(format: str, tensors: dict[str, np.ndarray], facts: dict[str, Any]) -> bytes:
    """The content of such a file, a function of the arrays and metadata only."""
    record = {"format": format, "version": VERSION, **facts}
    record["sha256"] = _checksum(tensors, record)
    tensors = {name: np.array(tensor, order="C") for name, tensor in tensors.items()}
    return safetensors.numpy.save(tensors, metadata={"linoss": canonical(record).decode()})


def read_tensors(path: Path, format: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read and verify arrays and metadata written by `write_tensors`."""
    if not path.is_file():
        read_file(path)
    with _opened(path) as (file, record):
        _check_version(path, record, format)
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    checksum = record.pop("sha256", None)
    if checksum != _checksum(tensors, record):
        raise CheckpointError(f"{path}: its content does not match its checksum; {_REPAIR}")
    return tensors, record


def read_facts(path: Path) -> dict[str, Any]:
    """The metadata of such a file, without its arrays and without verification."""
    with _opened(path) as (_, record):
        return dict(record)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any]]:
    """The open file, and its metadata."""
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            yield file, json.loads((file.metadata() or {}).get("linoss", "null"))
    except CheckpointError:
        raise
    except (safetensors.SafetensorError, OSError, *NOT_UNDERSTOOD) as error:
        raise CheckpointError(f"{path}: is damaged or truncated ({error}); {_REPAIR}") from None


def named(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of a tree by name, such as `blocks.0.mixer.input_weight`."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves]
    return dict(zip(names, jax.device_get([leaf for _, leaf in leaves]), strict=True))


def restored(path: Path, like: Any, tensors: dict[str, np.ndarray], *, exact: bool) -> Any:
    """The inverse of `named`: a tree with the structure and shapes of `like`.

    With `exact`, in the same precision; otherwise in that of the file, as far as JAX allows.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    names = [jax.tree_util.keystr(key, simple=True, separator=".") for key, _ in leaves]
    for name in [*names, *tensors]:
        if (name in tensors) != (name in names):
            what = "is missing" if name in names else "is not part of the model"
            raise CheckpointError(f"{path}: {name} {what}; {_REPAIR}")
    for name, (_, leaf) in zip(names, leaves, strict=True):
        tensor = tensors[name]
        if tensor.shape != leaf.shape or tensor.dtype.kind != np.dtype(leaf.dtype).kind:
            raise CheckpointError(
                f"{path}: {name} is {tensor.dtype} of shape {tensor.shape}, expected {leaf.dtype} "
                f"of shape {leaf.shape}, as in config.json; {_REPAIR}"
            )
        if exact and tensor.dtype != leaf.dtype:
            raise CheckpointError(
                f"{path}: {name} is {tensor.dtype}, but this run would be {leaf.dtype}; set "
                "jax_enable_x64 as it was when the run began"
            )
    arrays = [jax.numpy.asarray(tensors[name]) for name in names]
    return jax.tree.unflatten(structure, arrays)


def _check_version(path: Path, record: Any, format: str) -> None:
    if not isinstance(record, dict) or record.get("format") != format:
        raise CheckpointError(f"{path}: is not a file of linoss ({format}); {_REPAIR}")
    version = record.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise CheckpointError(f"{path}: has version {version!r}, expected a number; {_REPAIR}")
    if version > VERSION:
        raise CheckpointError(
            f"{path}: has version {version}, this linoss reads up to {VERSION}; install a newer one"
        )


def _checksum(tensors: dict[str, np.ndarray], record: dict[str, Any]) -> str:
    digest = hashlib.sha256(canonical(record))
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\0{name}\0{tensor.dtype.str}\0{tensor.shape}\0".encode())
        digest.update(np.array(tensor, order="C").data)
    return digest.hexdigest()
