"""The README's main job: data, training, errors, picture."""

import jax
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from linoss.experiments import harmonic_motion


def test_the_data_solve_the_equation():
    u, y = harmonic_motion.simple_harmonic_motion(jax.random.key(0), cases=3)
    times = 0.1 * np.arange(1, 1001)
    for inputs, motion in zip(u, y, strict=True):
        assert np.all(inputs == inputs[0])
        assert np.all((inputs >= 0) & (inputs <= 1))
        solution = solve_ivp(
            lambda t, x: (x[1], -x[0]), (0, 100), inputs[0], t_eval=times, rtol=1e-10, atol=1e-12
        )
        np.testing.assert_allclose(motion[:, 0], solution.y[0], atol=1e-6)


@pytest.mark.usefixtures("single_precision")
def test_training_lowers_the_error():
    data = harmonic_motion.simple_harmonic_motion(jax.random.key(0), cases=64, steps=100)
    untrained = harmonic_motion.fit("imex", data, updates=1, learning_rate=0.0)
    trained = harmonic_motion.fit("imex", data, updates=60)
    before, after = (harmonic_motion.error_over_time(m, data) for m in (untrained, trained))
    assert before.shape == (100,)
    assert np.mean(after) < 0.5 * np.mean(before)


def test_the_command_prints_both_errors(monkeypatch, capsys, tmp_path):
    picture = tmp_path / "errors.png"
    monkeypatch.setattr("sys.argv", ["harmonic_motion", "--updates", "1", "--plot", str(picture)])
    harmonic_motion.main()
    printed = capsys.readouterr().out
    assert "LinOSS-IMEX" in printed
    assert "LinOSS-IM " in printed
    assert picture.read_bytes().startswith(b"\x89PNG")
