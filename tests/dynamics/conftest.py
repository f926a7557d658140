"""One step of every scheme in plain NumPy, from its defining equations."""

import numpy as np
import pytest
import scipy.linalg


def step_from_equations(scheme, A, h, G=0.0):
    """M and F of x_n = M x_{n-1} + F b_n, x = [z, y], for one oscillator.

    The implicit schemes are solved numerically: `left x_n = right x_{n-1} + [h b_n, 0]`.
    """
    kick = np.array([h, 0.0])
    if scheme == "im":  # z_n + h (A y_n + G z_n) = z_{n-1} + h b_n,  y_n - h z_n = y_{n-1}
        left, right = np.array([[1 + h * G, h * A], [-h, 1]]), np.eye(2)
    elif scheme == "imex":  # z_n + h G z_n = z_{n-1} - h A y_{n-1} + h b_n,  y_n - h z_n = y_{n-1}
        left, right = np.array([[1 + h * G, 0], [-h, 1]]), np.array([[1, -h * A], [0, 1]])
    elif scheme == "verlet":  # half a drift of the velocity, a drift of the position, half again
        half_kick, drift = np.array([[1, -h * A / 2], [0, 1]]), np.array([[1, 0], [h, 1]])
        left, right = np.eye(2), half_kick @ drift @ half_kick
        kick = right @ kick
    elif scheme == "exact":  # [z, y, b]' = [[-G, -A, 1], [1, 0, 0], [0, 0, 0]] [z, y, b]
        flow = scipy.linalg.expm(h * np.array([[-G, -A, 1], [1, 0, 0], [0, 0, 0]]))
        return flow[:2, :2], flow[:2, 2]
    return np.linalg.solve(left, right), np.linalg.solve(left, kick)


@pytest.fixture(scope="session")
def equations():
    return step_from_equations


@pytest.fixture(scope="session")
def steps_from_equations():
    """The same for a bank: arrays A, h, G of shape (m,) to M (m, 2, 2) and F (m, 2)."""

    def bank(scheme, A, h, G=0.0):
        parameters = zip(*(np.ravel(x) for x in np.broadcast_arrays(A, h, G)), strict=True)
        matrices, forcings = zip(
            *(step_from_equations(scheme, *(float(x) for x in one)) for one in parameters),
            strict=True,
        )
        return np.stack(matrices), np.stack(forcings)

    return bank
