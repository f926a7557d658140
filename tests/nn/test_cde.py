"""Neural CDEs against Heun's method in NumPy, with log-signatures from their definition."""

import re

import jax
import numpy as np
import pytest

import linoss
from linoss.nn import count_parameters

pytest.importorskip("diffrax")
pytest.importorskip("signax")

C, H = 3, 4


def make(mixer, **options):
    windows = {} if mixer == "ncde" else {"signature_steps": 4, **options}
    config = linoss.LinOSSConfig(
        in_size=C, out_size=2, hidden_size=H, mixer=mixer, field_width=6, field_depth=2,
        pooling="last", solver_steps=2, **windows,
    )  # fmt: skip
    return linoss.LinOSS(config, key=jax.random.key(0))


def affine(layer, y):
    return np.asarray(layer.weight) @ y + np.asarray(layer.bias)


def perceptron(field, y):
    first, *inner = [affine(field.layers[0], y), *field.layers[1:]]
    soft = field.activation is jax.nn.silu
    for layer in inner:
        first = affine(layer, first / (1 + np.exp(-first)) if soft else np.maximum(first, 0))
    return np.tanh(first)


def brackets(field, y, step=1e-6):
    """[f_i, f_j] = Df_j f_i - Df_i f_j, by differences."""
    columns = perceptron(field, y).reshape(-1, len(y))

    def along(j, v):
        there, here = (perceptron(field, y + s * v).reshape(-1, len(y))[j] for s in (step, -step))
        return (there - here) / (2 * step)

    return [
        along(j, columns[i]) - along(i, columns[j])
        for i in range(len(columns))
        for j in range(i + 1, len(columns))
    ]


def log_signature(path, depth):
    """The increment, and the areas between every two channels."""
    steps, before = np.diff(path, axis=0), path[:-1] - path[0]
    level = np.einsum("ni,nj->ij", before + steps / 2, steps)
    area = (level - level.T) / 2
    total = path[-1] - path[0]
    return total if depth == 1 else np.concatenate([total, area[np.triu_indices(len(total), 1)]])


def windowed(model, path, steps=4):
    """Answers by Heun's method, two steps for each window."""
    cde, depth = model.blocks[0], model.config.signature_depth
    y = affine(model.encoder, path[0])

    def slope(y, s):
        if model.config.mixer == "nrde":
            return affine(cde.last, perceptron(cde.field, y)).reshape(len(y), -1) @ s
        columns = perceptron(cde.field, y).reshape(-1, len(y))
        vectors = columns if depth == 1 else np.concatenate([columns, brackets(cde.field, y)])
        return s @ vectors

    for at in range(0, len(path) - 1, steps):
        s = log_signature(path[at : at + steps + 1], depth) / 2
        for _ in range(2):
            first = slope(y, s)
            y = y + (first + slope(y + first, s)) / 2
    return affine(model.head.decoder, y)


def splined(model, path, times):
    """The same along a cubic spline whose slope at a sample is that of the interval before it."""
    y = affine(model.encoder, path[0])
    rates = np.diff(path, axis=0) / np.diff(times)[:, None]
    slopes = np.concatenate([rates[:1], rates])
    field = model.blocks[0].field
    for n, h in enumerate(np.diff(times)):
        a, b, rate = slopes[n], slopes[n + 1], rates[n]

        def derivative(x, a=a, b=b, rate=rate):
            return (1 - x) * (1 - 3 * x) * a + x * (3 * x - 2) * b + 6 * x * (1 - x) * rate

        for x in (0.0, 0.5):
            ends = (derivative(x), derivative(x + 0.5))
            first = h / 2 * perceptron(field, y).reshape(len(y), -1) @ ends[0]
            second = h / 2 * perceptron(field, y + first).reshape(len(y), -1) @ ends[1]
            y = y + (first + second) / 2
    return affine(model.head.decoder, y)


def walk(seed=0, time=15):
    return np.random.default_rng(seed).normal(size=(2, time, C)).cumsum(1) / 3


@pytest.mark.several
@pytest.mark.parametrize(
    ("mixer", "options"),
    [("nrde", {}), ("log-ncde", {}), ("log-ncde", {"signature_depth": 1})],
    ids=["nrde", "log-ncde", "log-ncde-1"],
)
def test_windows_and_log_signatures(mixer, options):
    """The last window is not full; in a padded batch, nothing follows the end of a sequence."""
    model, u = make(mixer, **options), walk()
    u[1, 11:] = np.nan
    found = model(u, lengths=np.array([15, 11]))
    np.testing.assert_allclose(found[0], windowed(model, u[0]), rtol=1e-6)
    np.testing.assert_allclose(found[1], windowed(model, u[1, :11]), rtol=1e-6)


@pytest.mark.integration
def test_a_spline_through_irregular_and_missing_samples():
    model, u = make("ncde"), walk()
    mask = np.ones((2, 15), bool)
    mask[1, [0, 5, 9, 13, 14]] = False
    intervals = np.random.default_rng(1).uniform(0.5, 2, (2, 15))
    found = model(np.where(mask[..., None], u, np.nan), mask=mask, intervals=intervals)
    for i in range(2):
        there = np.flatnonzero(mask[i])
        expected = splined(model, u[i, there], np.cumsum(intervals[i, there]))
        np.testing.assert_allclose(found[i], expected, rtol=1e-8)


def test_what_they_refuse():
    u = walk()
    with pytest.raises(ValueError, match="mixer is 'ncde', expected another one: a differential"):
        make("ncde").init_state()
    with pytest.raises(ValueError, match="mixer 'nrde' does not support irregular times"):
        make("nrde")(u, intervals=np.ones((2, 15)))
    for setting in ("num_blocks", "state_size"):
        with pytest.raises(ValueError, match=re.escape(f"{setting} is 3, but mixer 'ncde' has no")):
            linoss.LinOSSConfig(in_size=C, out_size=2, mixer="ncde", **{setting: 3})


def test_a_field_has_the_published_number_of_parameters():
    config = linoss.LinOSSConfig(
        in_size=6, out_size=2, hidden_size=128, mixer="ncde", field_width=128, field_depth=4
    )
    assert count_parameters(linoss.LinOSS(config, key=jax.random.key(0))) == 166_274
