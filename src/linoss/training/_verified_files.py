"""Files of models and runs: JSON and tensors with a format, a version and a checksum."""

import hashlib
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import safetensors
import safetensors.numpy

from linoss._files import restore_directory, write_file
from linoss._plain import canonical, with_checksum, without_checksum
from linoss.training._result import CheckpointError

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
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            record = json.loads((file.metadata() or {}).get("linoss", "null"))
            _check_version(path, record, format)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except CheckpointError:
        raise
    except (safetensors.SafetensorError, OSError, *NOT_UNDERSTOOD) as error:
        raise CheckpointError(f"{path}: is damaged or truncated ({error}); {_REPAIR}") from None
    checksum = record.pop("sha256", None)
    if checksum != _checksum(tensors, record):
        raise CheckpointError(f"{path}: its content does not match its checksum; {_REPAIR}")
    return tensors, record


def read_facts(path: Path) -> dict[str, Any]:
    """The metadata of such a file, without its arrays and without verification."""
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            return dict(json.loads((file.metadata() or {}).get("linoss", "null")))
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
