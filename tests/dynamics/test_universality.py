"""The encoder of the universality proof: oscillators compute windowed sine transforms."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

import linoss

ANGULAR = np.array([0.7, 2.5, 6.0])  # A_i of the proof; the stiffness is A_i^2
CHANNELS = 2  # p
LENGTH = 3.0  # T


def signal(t):
    """Two smooth inputs with u(0) = 0."""
    return np.stack([np.sin(3 * t), t * np.exp(-t)], axis=-1)


def sine_transforms(t, u=signal):
    """L_t u(A_i) = int_0^t u(t - tau) sin(A_i tau) dtau by quadrature, ordered as in the proof."""
    return np.array(
        [
            scipy.integrate.quad(
                lambda tau, a=a, c=c: u(t - tau)[c] * np.sin(a * tau), 0, t, epsabs=1e-12
            )[0]
            for a in ANGULAR
            for c in range(CHANNELS)
        ]
    )


def encoder(h):
    """A = diag(A_1, A_1, A_2, ..., 0), B = [I, I, ..., 0], b = [0, ..., 0, 1/2], C = diag(A, 1)."""
    m = CHANNELS * len(ANGULAR) + 1
    layer = linoss.LinOSSLayer(
        m, m, scheme="exact", parameterization="squared", timestep=h,
        complex_projections=False, feedthrough="none", bias=True, key=jax.random.key(0),
    )  # fmt: skip
    A = np.append(np.repeat(ANGULAR, CHANNELS), 0.0)
    B = np.zeros((m, m))  # the layer is as wide as its readout; only two channels carry input
    B[:-1, :CHANNELS] = np.tile(np.eye(CHANNELS), (len(ANGULAR), 1))
    readout = np.diag(np.append(A[:-1], 1.0))
    weights = (A, B, readout, 0.5 * (np.arange(m) == m - 1))
    return eqx.tree_at(
        lambda x: (x.oscillators.raw_stiffness, x.input_weight, x.output_weight, x.bias),
        layer,
        tuple(jnp.asarray(x, float) for x in weights),
    )


def encode(h, samples):
    layer = encoder(h)
    padded = np.zeros((len(samples), layer.input_weight.shape[1]))
    padded[:, :CHANNELS] = samples
    return np.asarray(layer(padded)[0])


def test_layer_computes_the_sine_transform_of_a_step_function():
    """Exactly: the input constant on each of 12 pieces, integrated piece by piece."""
    h, values = 0.25, np.random.default_rng(0).normal(size=(12, CHANNELS))
    found = encode(h, values)
    # A piece that ended `lag` steps ago weighs int sin(A tau) dtau over its distances tau.
    weights = np.array(
        [
            [
                scipy.integrate.quad(lambda tau, a=a: np.sin(a * tau), lag * h, (lag + 1) * h)[0]
                for lag in range(12)
            ]
            for a in ANGULAR
        ]
    )
    for n in range(12):
        expected = weights[:, : n + 1] @ values[n::-1]
        np.testing.assert_allclose(found[n, :-1], expected.ravel(), atol=1e-12)


@pytest.mark.parametrize("h", [0.5, 0.01])
def test_free_particle_tells_the_time(h):
    """y'' = 1/2 gives t^2 / 4, without error at any h."""
    steps = round(LENGTH / h)
    t = h * np.arange(1, steps + 1)
    found = encode(h, signal(t))[:, -1]
    np.testing.assert_allclose(found, t**2 / 4, rtol=1e-12)


def test_layer_converges_to_the_sine_transform():
    """First order from samples at the ends of the steps, second from samples at their middles."""
    times = LENGTH * np.arange(1, 7) / 6
    expected = np.array([sine_transforms(t) for t in times])
    for shift, order in ((0.0, 1), (0.5, 2)):
        errors = []
        for steps in (300, 600, 1200):
            h = LENGTH / steps
            found = encode(h, signal(h * (np.arange(1, steps + 1) - shift)))
            errors.append(np.abs(found[steps // 6 - 1 :: steps // 6, :-1] - expected).max())
        np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), order, atol=0.05)
        assert errors[-1] < 10 * (LENGTH / 1200) ** order


def test_a_perceptron_of_the_transforms_approximates_an_operator():
    """The second half of the construction, for u -> u(t - 1/2) tanh(int u): fitted to 100 inputs,
    the error on 50 others falls as oscillators are added, with a perceptron of 100 neurons."""
    random, h, steps, lag = np.random.default_rng(0), 0.02, 150, 25
    t = h * (np.arange(1, steps + 1) - 0.5)
    amplitudes = random.uniform(-1, 1, (150, 4))
    u = np.einsum("ik,kn->in", amplitudes, np.sin(np.outer(np.arange(1, 5), t)))
    integral, delayed = h * np.cumsum(u, axis=1), np.pad(u[:, :-lag], ((0, 0), (lag, 0)))
    target = np.tanh(integral) * delayed
    inner, bias = random.normal(size=(2, 100)), random.normal(size=100)
    errors = []
    for m in (2, 8, 32):
        A = np.pi / LENGTH * np.arange(1, m + 1)
        step = linoss.discretize("exact", A**2, h)
        y, _ = linoss.oscillator_scan(step, np.repeat(u[..., None], m, axis=-1))
        transforms = A * np.asarray(y)

        X, functionals = transforms[:100].reshape(-1, m), np.stack([integral, delayed], axis=-1)
        weights = np.linalg.lstsq(X, functionals[:100].reshape(-1, 2), rcond=1e-10)[0] @ inner
        hidden = np.tanh(transforms @ weights + bias)
        outer = np.linalg.lstsq(
            hidden[:100].reshape(-1, 100), target[:100].reshape(-1), rcond=1e-8
        )[0]
        errors.append(np.std(hidden[100:] @ outer - target[100:]) / np.std(target[100:]))
    assert errors[0] > 0.5
    assert errors[1] < 0.1
    assert errors[2] < 0.005
