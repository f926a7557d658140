"""Saving and loading a model: its description in config.json, its weights in
weights.safetensors. All files have a format, a version and a checksum.
"""

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import equinox as eqx
import jax
import numpy as np
import safetensors
import safetensors.numpy

from linoss import __version__
from linoss._files import make_directory, open_regular, restore_directory, write_file
from linoss._imports import ImportRefusedError, as_paths, check_writable, from_paths
from linoss._plain import canonical, plain, with_checksum, without_checksum
from linoss.nn import LinOSS, LinOSSConfig
from linoss.training._config import TrainingConfig
from linoss.training._inputs import Inputs
from linoss.training._objectives import Objective, objective_from_dict
from linoss.training._result import RECORD, CheckpointError, Record

CONFIG, WEIGHTS = "config.json", "weights.safetensors"
STATE, ARRAYS = "state.safetensors", "arrays.safetensors"
FILES = (CONFIG, STATE, WEIGHTS)
FORMAT, WEIGHTS_FORMAT, _ARRAYS_FORMAT = "linoss", "linoss-weights", "linoss-arrays"

VERSION = 1
_SIZES = ("in_size", "out_size", "hidden_size", "state_size", "field_width", "expansion")
_MOST = {"num_blocks": 1000, "field_depth": 100, "conv_size": 10_000}
_USUAL = 2048
_REPAIR = "restore it from a backup, or train again in another directory"
_LARGEST_HEADER = 2**26
_SPARSE = 64  # bytes of a file for each one on disk
_DTYPES = {
    "F16": "<f2", "F32": "<f4", "F64": "<f8", "I8": "|i1", "I16": "<i2", "I32": "<i4",
    "I64": "<i8", "U8": "|u1", "U16": "<u2", "U32": "<u4", "U64": "<u8", "BOOL": "|b1",
}  # fmt: skip
_INVALID = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)
Kinds = dict[str, tuple[np.dtype, tuple[int, ...]]]
"""The type and the shape of arrays."""


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
    """The evaluations of its training: step, loss, validation_loss, metric, best, learning_rate."""


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
    write_tree(folder / WEIGHTS, WEIGHTS_FORMAT, model, {"history": []})
    write_json(folder / CONFIG, FORMAT, describe(model, inputs, objective))


def load_model(directory: str | os.PathLike[str]) -> Saved:
    """Load a model of [`linoss.training.save_model`][] or [`linoss.training.train`][].

    Loading executes no code. Raises [`linoss.training.CheckpointError`][], which names the file,
    for files that are damaged, of a newer version, or inconsistent.
    """
    folder = Path(directory)
    record, path = read_json(folder / CONFIG, FORMAT), folder / WEIGHTS
    if record.get("model") is None:
        raise CheckpointError(
            f"{folder / CONFIG}: belongs to an estimator; load it with linoss.load"
        )
    if not os.path.lexists(path) and record.get("training") is not None:
        raise CheckpointError(
            f"{path}: does not exist: the run was stopped before its first evaluation; continue "
            "it with resume=True"
        )
    with understood(folder / CONFIG):
        config, training = LinOSSConfig(**from_paths(record["model"])), record["training"]
        inputs = Inputs.from_dict(record["inputs"])
        objective = objective_from_dict(record["objective"])
        training = None if training is None else TrainingConfig.from_dict(training)

    def hollow(kinds: Kinds) -> Any:
        with understood(folder / CONFIG):
            _check_sizes(config, kinds)
            return eqx.filter_eval_shape(LinOSS, config, key=jax.random.key(0))

    model, facts = read_tree(path, WEIGHTS_FORMAT, hollow)
    with understood(path):
        return Saved(model, inputs, objective, training, history_of(facts))


def _check_sizes(config: LinOSSConfig, kinds: Kinds) -> None:
    """Raise for sizes that no model with weights of these shapes has, before one is built."""
    numbers = sum(math.prod(shape) for _, shape in kinds.values())
    most = dict.fromkeys(_SIZES, max(numbers, _USUAL)) | _MOST
    if config.mixer == "s5":  # whose eigenvalues are computed
        most["state_size"] = _USUAL * config.state_blocks
    for name, limit in most.items():
        if getattr(config, name) > limit:
            raise ValueError(f"{name} is {getattr(config, name)}, expected at most {limit}")


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
        write_tensors(folder / ARRAYS, _ARRAYS_FORMAT, arrays, {})
    kinds = {name: [array.dtype.str, array.shape] for name, array in arrays.items()}
    record = {"linoss": __version__, "model": None, "extra": extra, "arrays": kinds}
    write_json(folder / CONFIG, FORMAT, plain(record))


def load_arrays(
    directory: str | os.PathLike[str],
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Load and verify the files of [`linoss.training.save_arrays`][]."""
    folder = Path(directory)
    record = read_json(folder / CONFIG, FORMAT)
    with understood(folder / CONFIG):
        extra = dict(record["extra"])
        kinds = {n: (np.dtype(k), tuple(shape)) for n, (k, shape) in record["arrays"].items()}
    return extra, _read(folder / ARRAYS, _ARRAYS_FORMAT, lambda _: kinds)[0] if kinds else {}


def read_extra(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON values of [`linoss.training.save_arrays`][]; of an estimator, its description."""
    path = Path(directory) / CONFIG
    extra = read_json(path, FORMAT).get("extra")
    if not isinstance(extra, dict):
        raise CheckpointError(f"{path}: is not that of an estimator")
    return extra


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
    held = [name for name in (*FILES, ARRAYS) if os.path.lexists(folder / name)]
    with suppress(CheckpointError):
        if held == [ARRAYS] and _read(folder / ARRAYS, _ARRAYS_FORMAT, None):
            return
    for name in held:
        raise CheckpointError(
            f"{folder / name}: already exists and is not overwritten; choose another "
            "directory, save with overwrite=True, or continue a run with resume=True"
        )


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


def history_of(facts: dict[str, Any]) -> list[Record]:
    """The history in the facts of a file, with the entries of a record in their order."""
    return [{name: record[name] for name in RECORD} for record in facts["history"]]


# ---- Files with a checksum ----


@contextmanager
def understood(path: Path) -> Iterator[None]:
    """Context manager: an error because of unexpected content becomes one that names the file."""
    try:
        yield
    except CheckpointError:
        raise
    except ImportRefusedError as error:
        raise CheckpointError(f"{path}: {error}") from None
    except _INVALID as error:
        raise CheckpointError(f"{path}: is invalid: {error!r}") from None


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """A regular file and its size. Links, pipes and devices are refused."""
    if not os.path.lexists(path):
        restore_directory(path.parent.absolute())
    try:
        with open_regular(path) as file:
            yield file, os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        raise CheckpointError(
            f"{path}: does not exist, expected a directory of save_model or train"
        ) from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error})") from None


def write_json(path: Path, format: str, plain: dict[str, Any]) -> None:
    """Write a dictionary with format, version and checksum."""
    record = with_checksum({"format": format, "version": VERSION, **plain})
    write_file(path, json.dumps(record, indent=2, allow_nan=False).encode() + b"\n")


def read_json(path: Path, format: str) -> dict[str, Any]:
    """Read and verify a dictionary written by `write_json`."""
    with _opened(path) as (file, size):
        if size > _LARGEST_HEADER:
            raise CheckpointError(f"{path}: has {size} bytes, expected at most {_LARGEST_HEADER}")
        content = file.read(_LARGEST_HEADER)
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
    path: Path, format: str, tensors: dict[str, np.ndarray], facts: dict[str, Any]
) -> None:
    """Write arrays and facts with format, version and checksum, unless the file has them."""
    record = {"format": format, "version": VERSION, **facts}
    record["sha256"] = _checksum(tensors, record)
    tensors = {name: np.array(tensor, order="C") for name, tensor in tensors.items()}
    write_file(path, safetensors.numpy.save(tensors, {"linoss": canonical(record).decode()}))


def write_tree(path: Path, format: str, tree: Any, facts: dict[str, Any]) -> None:
    """Write the arrays of a tree by name, such as `blocks.0.mixer.input_weight`, and facts."""
    leaves = jax.tree.leaves(tree)
    write_tensors(path, format, dict(zip(_names(tree), jax.device_get(leaves), strict=True)), facts)


def read_tree(
    path: Path, format: str, like: Callable[[Kinds], Any], *, exact: bool = False
) -> tuple[Any, dict[str, Any]]:
    """The inverse of `write_tree`: a tree of the structure and shapes of `like`, and facts.

    `like` gets the types and shapes in the file. With `exact`, the tree has the precision of
    `like`, otherwise that of the file, as far as JAX allows.
    """
    trees: list[Any] = []

    def expected(kinds: Kinds) -> Kinds:
        trees.append(like(kinds))
        each = zip(_names(trees[0]), jax.tree.leaves(trees[0]), strict=True)
        return {name: (np.dtype(leaf.dtype), leaf.shape) for name, leaf in each}

    tensors, facts = _read(path, format, expected, exact=exact)
    arrays = [jax.numpy.asarray(tensors[name]) for name in _names(trees[0])]
    return jax.tree.unflatten(jax.tree.structure(trees[0]), arrays), facts


def _names(tree: Any) -> list[str]:
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]
    return [jax.tree_util.keystr(path, simple=True, separator=".") for path in paths]


def _read(
    path: Path,
    format: str,
    expected: Callable[[Kinds], Kinds] | None,
    *,
    exact: bool = True,
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and facts of `write_tensors`, verified; without `expected`, no arrays.

    Names, types, shapes and sizes are compared with those `expected` before any array is read.
    """
    with _opened(path) as (file, size):
        blocks = getattr(os.fstat(file.fileno()), "st_blocks", size)
        prefix = file.read(8)
        length = int.from_bytes(prefix, "little")
        if len(prefix) < 8 or length > min(size - 8, _LARGEST_HEADER):
            raise CheckpointError(f"{path}: is damaged or truncated; {_REPAIR}")
        text = file.read(length)
        try:
            header = json.loads(text)
            record = json.loads(header.pop("__metadata__", {}).get("linoss", "null"))
            kinds = {
                name: (np.dtype(_DTYPES[entry["dtype"]]), tuple(entry["shape"]))
                for name, entry in header.items()
            }
            end = sum(dtype.itemsize * math.prod(shape) for dtype, shape in kinds.values())
        except _INVALID as error:
            raise CheckpointError(f"{path}: is damaged ({error!r}); {_REPAIR}") from None
        _check_version(path, record, format)
        if expected is None:
            return {}, record
        if size != 8 + length + end or 0 < 512 * _SPARSE * blocks < size:
            raise CheckpointError(f"{path}: is damaged or truncated; {_REPAIR}")
        _check_kinds(path, kinds, expected(kinds), exact=exact)
        content = prefix + text + file.read(size)
    try:
        tensors = safetensors.numpy.load(content)
    except (safetensors.SafetensorError, *_INVALID) as error:
        raise CheckpointError(f"{path}: is damaged or truncated ({error}); {_REPAIR}") from None
    if record.pop("sha256", None) != _checksum(tensors, record):
        raise CheckpointError(f"{path}: its content does not match its checksum; {_REPAIR}")
    return tensors, record


def _check_kinds(path: Path, kinds: Kinds, expected: Kinds, *, exact: bool) -> None:
    for name in [*expected, *kinds]:
        if (name in kinds) != (name in expected):
            what = "is missing" if name in expected else "is not part of the model"
            raise CheckpointError(f"{path}: {name} {what}; {_REPAIR}")
    for name, (dtype, shape) in expected.items():
        own, size = kinds[name]
        if size != shape or own.kind != dtype.kind:
            raise CheckpointError(
                f"{path}: {name} is {own} of shape {size}, expected {dtype} of shape {shape}, as "
                f"in config.json; {_REPAIR}"
            )
        if exact and own != dtype:
            raise CheckpointError(
                f"{path}: {name} is {own}, but this run would be {dtype}; set jax_enable_x64 as it "
                "was when the run began"
            )


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
