"""`linoss inspect`: the spectrum that it shows is that of the model."""

import jax
import numpy as np
import pytest

import linoss
from linoss.cli._inspect import Spectrum as BlockSpectrum
from linoss.cli._inspect import spectra_of as banks
from linoss.estimators import load as load_estimator


def make(**changes):
    sizes = {"in_size": 1, "out_size": 1, "hidden_size": 4, "state_size": 6, "num_blocks": 2}
    with jax.enable_x64(False):
        return linoss.LinOSS(linoss.LinOSSConfig(**sizes, **changes), key=jax.random.key(0))


def test_size_and_scheme(run, good_json):
    found = good_json(f"inspect {run}")
    model = load_estimator(run).model_
    assert found["parameters"] == linoss.count_parameters(model)
    assert (found["scheme"], found["state_size"], found["task"]) == ("im", 8, "classification")
    assert len(found["blocks"]) == 1
    assert len(found["blocks"][0]["periods"]) == 8


def test_people_are_shown_a_table(run, good):
    printed = good(f"inspect {run}")
    assert all(word in printed for word in ("block 1", "period", "decay time", "LinOSSClassifier"))


def test_a_rotation_has_its_period_and_its_decay():
    angle, radius = 2 * np.pi / 50, np.exp(-1 / 300)
    value = radius * np.exp(1j * angle)
    bank = BlockSpectrum("one", np.ones(1), np.array([[value, value.conjugate()]]))
    np.testing.assert_allclose(bank.periods, 50)
    np.testing.assert_allclose(bank.decay_times, 300)


def test_im_decays_as_its_closed_form_says():
    """|lambda|^2 = 1 / (1 + h^2 A)."""
    model = make(scheme="im")
    for bank, block in zip(banks(model), model.blocks, strict=True):
        A, h = (np.asarray(x, float) for x in (bank.stiffness, block.mixer.oscillators.timestep))
        np.testing.assert_allclose(bank.decay_times, 2 / np.log1p(h**2 * A), rtol=1e-5)


def test_imex_keeps_what_it_has():
    for bank in banks(make(scheme="imex")):
        assert np.isinf(bank.decay_times).all()
        assert bank.summary()["without_decay"] == 6
        assert bank.summary()["decay_time"] is None


def test_free_particles_are_counted():
    model = make()
    bank = model.blocks[0].mixer.oscillators
    stiffness = bank.raw_stiffness.at[:2].set(-1.0)
    model = jax.tree.map(lambda x: stiffness if x is bank.raw_stiffness else x, model)
    first = banks(model)[0]
    assert first.summary()["free_particles"] == 2
    assert np.isinf(first.periods[:2]).all()
    assert np.isfinite(first.periods[2:]).all()


def test_layers_that_read_backwards_have_a_spectrum():
    names = [bank.name for bank in banks(make(bidirectional=True))]
    assert names == ["block 1", "block 1, backward", "block 2", "block 2, backward"]


@pytest.mark.parametrize(
    ("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_a_picture(tmp_path, run, good, suffix, start):
    path = tmp_path / f"spectrum.{suffix}"
    assert str(path) in good(f"inspect {run} --plot {path}")
    assert path.read_bytes().startswith(start)


def test_a_picture_of_no_kind(tmp_path, run, failing):
    path = tmp_path / "spectrum.doc"
    assert f"{path}: expected a suffix among" in failing(f"inspect {run} --plot {path}")
