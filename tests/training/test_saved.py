"""Models in directories: they come back as they were, or are refused by name."""

import hashlib
import json
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from linoss.training import (
    CheckpointError,
    Classification,
    Forecasting,
    Inputs,
    Regression,
    Scaling,
    load_arrays,
    load_model,
    predict,
    save_arrays,
    save_model,
)

OBJECTIVES = {
    "classes": (
        Classification(classes=("a", "b"), class_weights=(1.0, 2.5), smoothing=0.1, floor=1e-8),
        {},
    ),
    "numbers as classes": (Classification(classes=(3, 0.5)), {}),
    "numbers": (
        Regression(out_size=2, every=3, scaling=Scaling(np.ones(2), np.full(2, 0.1))),
        {"task": "regression", "every": 3},
    ),
    "forecasts": (
        Forecasting(out_size=2, horizon=5),
        {
            "task": "forecasting",
            "horizon": 5,
            "norm": "layer",
            "timestep": 0.5,
            "damped": True,
            "scheme": "imex",
        },
    ),
}


@pytest.fixture
def save(make_model, waves):
    """(directory, **config) to a model saved in it."""

    def save(directory, **settings):
        inputs = Inputs.from_sequences(waves(4, 0))
        save_model(directory, make_model(**settings), inputs, OBJECTIVES["classes"][0])
        return directory

    return save


@pytest.fixture
def saved(tmp_path, save):
    """A directory with a model in it."""
    return save(tmp_path / "a" / "model")


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_model_comes_back(tmp_path, make_model, waves, assert_same_trees, name):
    objective, settings = OBJECTIVES[name]
    model, cases = make_model(**settings), waves(4, 0)
    inputs = Inputs.from_sequences(cases)
    save_model(tmp_path / "m", model, inputs, objective)
    saved = load_model(tmp_path / "m")
    assert_same_trees(saved.model, model)
    assert saved.model.config == model.config
    assert jax.tree.structure(saved.model) == jax.tree.structure(model)
    assert saved.inputs.to_dict() == inputs.to_dict()
    assert saved.objective.to_dict() == objective.to_dict()
    assert type(saved.objective) is type(objective)
    assert saved.training is None
    if name == "classes":
        one, other = predict(saved.model, saved.inputs, cases), predict(model, inputs, cases)
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("before", "after"), [(False, True), (True, False)])
def test_weights_are_as_precise_as_file_and_settings_allow(
    tmp_path, make_model, save, before, after
):
    with jax.enable_x64(before):
        save(tmp_path / "m")
        expected = make_model().encoder.weight
    with jax.enable_x64(after):
        weight = load_model(tmp_path / "m").model.encoder.weight
    assert weight.dtype == jnp.float32
    np.testing.assert_allclose(weight, expected, rtol=1e-6)


def test_nothing_is_overwritten(saved, save):
    before = {p.name: p.read_bytes() for p in saved.iterdir()}
    with pytest.raises(CheckpointError, match=r"config.json: already exists"):
        save(saved, hidden_size=5)
    assert {p.name: p.read_bytes() for p in saved.iterdir()} == before


# ---- Damage ----


def flipped(content, place):
    """With one bit changed."""
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


DAMAGE = {
    "empty": lambda x: b"",
    "truncated": lambda x: x[: len(x) // 2],
    "short of two bytes": lambda x: x[:-2],
    "too long": lambda x: x + b"\0",
    "a bit at the start": lambda x: flipped(x, 0),
    "a bit in the middle": lambda x: flipped(x, len(x) // 2),
    "a bit near the end": lambda x: flipped(x, len(x) - 5),
    "noise": lambda x: np.random.default_rng(0).bytes(len(x)),
    "zeros": lambda x: bytes(len(x)),
    "a huge header": lambda x: b"\xff" * 8 + x[8:],
}
READERS = ["load config.json", "load weights.safetensors", "resume state.safetensors"]


@pytest.fixture
def read(make_problem):
    """(reader, directory) to what reads the file: loading the model, or resuming the run."""

    def read(reader, directory):
        if reader.startswith("load"):
            load_model(directory)
        else:
            with jax.enable_x64(False):
                make_problem().train(directory=directory, resume=True)

    return read


@pytest.mark.parametrize("reader", READERS)
def test_damage_is_noticed_and_the_file_named(finished, read, reader):
    name = reader.split()[1]
    path, whole = finished / name, (finished / name).read_bytes()
    for damage in DAMAGE.values():
        path.write_bytes(damage(whole))
        with pytest.raises(CheckpointError, match=name):
            read(reader, finished)
    path.unlink()
    with pytest.raises(CheckpointError, match=f"{name}: does not exist"):
        read(reader, finished)
    path.mkdir()
    with pytest.raises(CheckpointError, match=name):
        read(reader, finished)


def rewrite(saved, **changes):
    """Change config.json as somebody would who knows how to make a checksum."""
    record = json.loads((saved / "config.json").read_text())
    del record["sha256"]
    for place, value in changes.items():
        *inner, last = place.split("__")
        part = record
        for key in inner:
            part = part[key]
        part[last] = value
    content = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)
    record["sha256"] = hashlib.sha256(content.encode()).hexdigest()
    (saved / "config.json").write_text(json.dumps(record))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "changes",
    [
        {"model__num_blocks": 10**9},
        {"model__hidden_size": 10**12},
        {"model__hidden_size": 10**400},
        {"model__hidden_size": "many"},
        {"model__hidden_size": 5},
        {"model__nonsense": 1},
        {"model": []},
        {"inputs": {}},
        {"inputs__channels": 0},
        {"inputs__lengths": 3},
        {"inputs__scaling": {"mean": ["x"], "deviation": [1]}},
        {"inputs__scaling": {"mean": [0.0], "deviation": [0.0]}},
        {"objective": None},
        {"objective__task": "mischief"},
        {"objective__classes": [[]]},
        {"training": 3},
        {"version": "1"},
        {"version": -1},
        {"format": "pickle"},
    ],
    ids=str,
)
def test_strange_content_is_refused(saved, changes):
    rewrite(saved, **changes)
    with pytest.raises(CheckpointError, match=r"config\.json|weights\.safetensors"):
        load_model(saved)


def test_a_newer_version_is_refused_by_name(saved):
    rewrite(saved, version=2)
    with pytest.raises(CheckpointError, match="has version 2, this linoss reads up to 1; install"):
        load_model(saved)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_blocks": 2}, "is not part of the model"),
        ({"norm": None}, "is missing"),
        ({"hidden_size": 5}, r"is float64 of shape \(5,"),
    ],
)
def test_weights_of_another_model_are_refused(saved, save, tmp_path, settings, message):
    save(tmp_path / "b", **settings)
    (tmp_path / "b" / "weights.safetensors").replace(saved / "weights.safetensors")
    with pytest.raises(CheckpointError, match=rf"weights\.safetensors: .*{message}"):
        load_model(saved)


def test_a_file_in_place_of_the_directory_is_refused(tmp_path, save):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OSError, match="file: cannot be written"):
        save(tmp_path / "file")
    with pytest.raises(CheckpointError, match=r"config\.json: cannot be read"):
        load_model(tmp_path / "file")


# ---- What a file may ask for ----


def claim(path, **changes):
    """Change the header of a file of arrays; it gets the size that the header claims, as a hole."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    for name, entry in changes.items():
        header.setdefault(name.replace("__", "."), {}).update(entry)
    text = json.dumps(header).encode()
    end = max(e["data_offsets"][1] for n, e in header.items() if n != "__metadata__")
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + content[8 + length :])
        file.truncate(8 + len(text) + end)


@pytest.mark.parametrize("size", [3 * 10**9, 10**12])
@pytest.mark.parametrize("name", ["encoder__weight", "more"])
def test_a_file_that_claims_to_be_huge_is_not_read(saved, monkeypatch, name, size):
    path = saved / "weights.safetensors"
    start = path.stat().st_size
    entry = {"dtype": "F32", "shape": [size // 4], "data_offsets": [start, start + size]}
    claim(path, **{name: entry})
    monkeypatch.setattr("safetensors.numpy.load", None)
    with pytest.raises(CheckpointError, match=r"weights\.safetensors: is damaged or truncated"):
        load_model(saved)


def test_types_of_arrays_are_checked(tmp_path):
    save_arrays(tmp_path, {}, {"numbers": np.ones(3)})
    claim(tmp_path / "arrays.safetensors", numbers={"dtype": "I64"})
    with pytest.raises(CheckpointError, match=r"numbers is int64 of shape .* expected float64"):
        load_arrays(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mixer": "s5", "state_size": 6000}, "state_size is 6000, expected at most 2048"),
        (
            {"mixer": "ncde", "num_blocks": 4, "state_size": 64, "field_depth": 200_000},
            "field_depth is 200000, expected at most 100",
        ),
        ({"num_blocks": 10**9}, "num_blocks is 1000000000, expected at most 1000"),
        ({"hidden_size": 10**6}, "hidden_size is 1000000, expected at most 2048"),
    ],
)
def test_what_takes_long_to_build_is_refused_first(saved, changes, message, monkeypatch):
    rewrite(saved, **{f"model__{name}": value for name, value in changes.items()})
    monkeypatch.setattr("linoss.training._saved.LinOSS", None)
    with pytest.raises(CheckpointError, match=rf"config\.json: .*{message}"):
        load_model(saved)


@pytest.mark.parametrize("name", ["config.json", "weights.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "link", "device"])
def test_only_regular_files_are_opened(saved, tmp_path, name, kind):
    path = saved / name
    if kind == "pipe":
        path.unlink()
        os.mkfifo(path)
    else:
        target = path.rename(tmp_path / name) if kind == "link" else "/dev/zero"
        path.unlink(missing_ok=True)
        path.symlink_to(target)
    with pytest.raises(CheckpointError, match=f"{name}: cannot be read .*(link|not a regular)"):
        load_model(saved)
