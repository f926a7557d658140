"""One step of every scheme in plain NumPy, from its defining equations."""

import numpy as np
import pytest
import scipy.linalg


def _matrix(rows):
    """Entries of shape (...) to matrices of shape (..., n, n)."""
    entries = np.broadcast_arrays(*(np.asarray(x, float) for row in rows for x in row))
    return np.stack(entries, -1).reshape(*entries[0].shape, len(rows), len(rows))


def steps_from_their_equations(scheme, A, h, G=0.0):
    """M and F of x_n = M x_{n-1} + F b_n, x = [z, y]: numbers, or arrays for a bank.

    The implicit schemes are solved numerically: `left x_n = right x_{n-1} + [h b_n, 0]`.
    """
    A, h, G = np.broadcast_arrays(*(np.asarray(x, float) for x in (A, h, G)))
    same = _matrix([[1 + 0 * A, 0], [0, 1]])
    kick = np.stack([h, 0 * h], -1)[..., None]
    if scheme == "im":  # z_n + h (A y_n + G z_n) = z_{n-1} + h b_n,  y_n - h z_n = y_{n-1}
        left, right = _matrix([[1 + h * G, h * A], [-h, 1]]), same
    elif scheme == "imex":  # z_n + h G z_n = z_{n-1} - h A y_{n-1} + h b_n,  y_n - h z_n = y_{n-1}
        left, right = _matrix([[1 + h * G, 0], [-h, 1]]), _matrix([[1, -h * A], [0, 1]])
    elif scheme == "verlet":  # half a drift of the velocity, a drift of the position, half again
        half_kick, drift = _matrix([[1, -h * A / 2], [0, 1]]), _matrix([[1, 0], [h, 1]])
        left, right = same, half_kick @ drift @ half_kick
        kick = right @ kick
    elif scheme == "exact":  # [z, y, b]' = [[-G, -A, 1], [1, 0, 0], [0, 0, 0]] [z, y, b]
        flow = scipy.linalg.expm(_matrix([[-h * G, -h * A, h], [h, 0, 0], [0, 0, 0]]))
        return flow[..., :2, :2], flow[..., :2, 2]
    return np.linalg.solve(left, right), np.linalg.solve(left, kick)[..., 0]


@pytest.fixture(scope="session")
def steps_from_equations():
    """(scheme, A, h, G), numbers or arrays of shape (...), to M (..., 2, 2) and F (..., 2)."""
    return steps_from_their_equations
