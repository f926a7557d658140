"""Models in directories: they come back as they were, or are refused by name."""

import hashlib
import json
import os
import stat

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from linoss.training import (
    CheckpointError,
    Classification,
    Forecasting,
    Inputs,
    Regression,
    Scaling,
    load_model,
    predict,
    save_model,
    train,
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
        {"task": "forecasting", "horizon": 5, "norm": "layer", "timestep": 0.5, "damped": True},
    ),
}


@pytest.fixture
def saved(tmp_path, make_model, waves):
    """A directory with a model in it."""
    directory = tmp_path / "a" / "model"
    inputs = Inputs.from_sequences(waves(4, 0))
    save_model(directory, make_model(), inputs, OBJECTIVES["classes"][0])
    return directory


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_model_comes_back(tmp_path, make_model, waves, assert_same_trees, name):
    objective, settings = OBJECTIVES[name]
    if settings.get("damped"):
        settings = {**settings, "scheme": "imex"}
    model, inputs = make_model(**settings), Inputs.from_sequences(waves(4, 0), time_channel=True)
    save_model(tmp_path / "m", model, inputs, objective)
    found = load_model(tmp_path / "m")
    assert_same_trees(found.model, model)
    assert found.model.config == model.config
    assert jax.tree.structure(found.model) == jax.tree.structure(model)
    assert found.inputs.to_dict() == inputs.to_dict()
    assert found.objective.to_dict() == objective.to_dict()
    assert type(found.objective) is type(objective)
    assert found.training is None


def test_it_answers_as_before(saved, make_model, waves):
    found, cases = load_model(saved), waves(4, 0)
    np.testing.assert_array_equal(
        predict(found.model, found.inputs, cases), predict(make_model(), found.inputs, cases)
    )


def test_leaf_names_are_readable(saved):
    names = set(safetensors.numpy.load_file(saved / "weights.safetensors"))
    assert {"encoder.weight", "blocks.0.mixer.oscillators.raw_stiffness"} <= names
    assert "blocks.0.norm.mean" in names


def test_single_precision_comes_back_single(tmp_path, make_model, waves):
    inputs = Inputs.from_sequences(waves(4, 0))
    with jax.enable_x64(False):
        save_model(tmp_path, make_model(), inputs, OBJECTIVES["classes"][0])
    assert load_model(tmp_path).model.encoder.weight.dtype == jnp.float32


def test_double_precision_can_be_read_without(saved, make_model):
    with jax.enable_x64(False):
        found = load_model(saved).model
    assert found.encoder.weight.dtype == jnp.float32
    np.testing.assert_allclose(found.encoder.weight, make_model().encoder.weight, rtol=1e-6)


def test_nothing_is_overwritten(saved, make_model):
    found = load_model(saved)
    before = {p.name: p.read_bytes() for p in saved.iterdir()}
    with pytest.raises(CheckpointError, match=r"config.json: already exists"):
        save_model(saved, make_model(seed=1), found.inputs, found.objective)
    assert {p.name: p.read_bytes() for p in saved.iterdir()} == before


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


@pytest.mark.parametrize("name", ["config.json", "weights.safetensors"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_noticed_and_the_file_named(saved, name, damage):
    path = saved / name
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    with pytest.raises(CheckpointError, match=name):
        load_model(saved)


def test_every_bit_counts(saved):
    for name in ("config.json", "weights.safetensors"):
        path = saved / name
        content = path.read_bytes()
        for place in np.random.default_rng(0).integers(0, len(content), 60):
            path.write_bytes(flipped(content, int(place)))
            try:
                load_model(saved)
            except CheckpointError:
                continue
            assert json.loads(flipped(content, int(place))) == json.loads(content)  # blanks
        path.write_bytes(content)


@pytest.mark.parametrize("name", ["config.json", "weights.safetensors"])
def test_a_missing_file_is_named(saved, name):
    (saved / name).unlink()
    with pytest.raises(CheckpointError, match=f"{name}: does not exist"):
        load_model(saved)


@pytest.mark.parametrize("name", ["config.json", "weights.safetensors"])
def test_a_directory_in_place_of_a_file_is_refused(saved, name):
    (saved / name).unlink()
    (saved / name).mkdir()
    with pytest.raises(CheckpointError, match=name):
        load_model(saved)


def test_a_file_in_place_of_the_directory_is_refused(tmp_path, saved, make_model):
    found = load_model(saved)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OSError, match="file: cannot be written"):
        save_model(tmp_path / "file", make_model(), found.inputs, found.objective)
    with pytest.raises(CheckpointError, match=r"config\.json: cannot be read"):
        load_model(tmp_path / "file")


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


def test_a_newer_version_is_refused_by_name(saved):
    rewrite(saved, version=2)
    with pytest.raises(CheckpointError, match="has version 2, this linoss reads up to 1; install"):
        load_model(saved)


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


def test_deep_nesting_is_refused(saved):
    (saved / "config.json").write_text("[" * 100_000)
    with pytest.raises(CheckpointError, match=r"config\.json: is not JSON"):
        load_model(saved)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_blocks": 2}, "is not part of the model"),
        ({"norm": None}, "is missing"),
        ({"hidden_size": 5}, r"is float64 of shape \(5,"),
    ],
)
def test_weights_of_another_model_are_refused(saved, tmp_path, make_model, settings, message):
    found = load_model(saved)
    save_model(tmp_path / "b", make_model(**settings), found.inputs, found.objective)
    (tmp_path / "b" / "weights.safetensors").replace(saved / "weights.safetensors")
    with pytest.raises(CheckpointError, match=rf"weights\.safetensors: .*{message}"):
        load_model(saved)


def test_a_file_of_somebody_else_is_refused(saved):
    tensors = safetensors.numpy.load_file(saved / "weights.safetensors")
    safetensors.numpy.save_file(tensors, saved / "weights.safetensors")
    with pytest.raises(CheckpointError, match=r"weights\.safetensors: is not a file"):
        load_model(saved)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_without_rights_is_named(tmp_path, saved, make_model):
    found, closed = load_model(saved), tmp_path / "closed"
    closed.mkdir()
    closed.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(OSError, match="cannot be written"):
        save_model(closed, make_model(), found.inputs, found.objective)


def test_a_full_disk_leaves_no_half_file(tmp_path, saved, make_model, monkeypatch):
    found = load_model(saved)

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=r"cannot be written \(No space left"):
        save_model(tmp_path / "new", make_model(), found.inputs, found.objective)
    assert not list((tmp_path / "new").iterdir())


def test_a_damaged_state_does_not_take_the_weights_along(tmp_path, make_problem, assert_same_trees):
    problem, path = make_problem(), tmp_path / "run"
    parts = (problem.training_set, problem.validation_set, problem.config)
    result = train(problem.model, problem.inputs, problem.objective, *parts, directory=path)
    assert load_model(path).history == result.history
    (path / "state.safetensors").write_bytes(b"damaged")
    with pytest.warns(UserWarning, match=r"the history is lost, but the model is intact"):
        found = load_model(path)
    assert found.history == []
    assert_same_trees(found.model, result.model)
