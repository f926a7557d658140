"""Simple harmonic motion: data, training, errors."""

import jax
import numpy as np
from scipy.integrate import solve_ivp

from paper import harmonic_motion


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


def test_parts_are_the_first_the_middle_and_the_last_tenth():
    error = np.arange(1000.0)
    expected = [np.mean(error[:100]), np.mean(error[450:550]), np.mean(error[900:]), error.mean()]
    assert harmonic_motion.parts(error) == expected
