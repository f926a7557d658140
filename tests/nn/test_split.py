"""A model on a mesh of devices: what one device computes, to rounding, with little said."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import linoss
from linoss.nn import trainable

pytestmark = pytest.mark.usefixtures("single_precision")


def mesh_of(shape):
    devices = np.array(jax.devices()[: shape[0] * shape[1]]).reshape(shape)
    return jax.sharding.Mesh(devices, ("batch", "time"))


def make(key=0, **options):
    sizes = {"in_size": 3, "out_size": 2, "hidden_size": 6, "state_size": 5, "num_blocks": 2}
    config = linoss.LinOSSConfig(**{**sizes, "norm": "batch", "dropout": 0.3, **options})
    return linoss.LinOSS(config, key=jax.random.key(key))


def loss_and_gradient(model, arguments, mesh):
    weights, rest = eqx.partition(model, trainable(model))

    @jax.jit
    def value(weights, arguments):
        answers, norms = eqx.combine(weights, rest).training_pass(
            **arguments, key=jax.random.key(1), mesh=mesh
        )
        return jnp.mean(jnp.sin(answers + 1)), (answers, norms)

    return jax.value_and_grad(value, has_aux=True)(weights, arguments)


def some(*names):
    """Sequences, of which some are shorter, some samples are missing, or times are uneven."""
    batch, time, random = 8, 24, np.random.default_rng(0)
    u = random.normal(size=(batch, time, 3)).astype(np.float32)
    lengths = random.integers(1, time + 1, batch)
    lengths[0] = time
    mask = random.random((batch, time)) < 0.6
    mask[1, :8] = False  # all of a piece is missing
    intervals = random.uniform(0.5, 2, (batch, time)).astype(np.float32)
    everything = {"u": u, "lengths": lengths, "mask": mask, "intervals": intervals}
    return {name: everything[name] for name in ("u", *names)}


MASKED, IRREGULAR = ("lengths", "mask"), ("mask", "intervals")
LAST = {"pooling": "last"}
EVERY = {"task": "regression", "every": 3}
FORECAST = {"task": "forecasting", "horizon": 8}
# Other pairs of what is in the list below.
MORE = [
    ({"scheme": "imex", "damped": True, **FORECAST}, IRREGULAR, (8, 1)),
    ({"scheme": "verlet", "bidirectional": True}, MASKED, (2, 4)),
    ({"scheme": "exact", **EVERY}, IRREGULAR, (2, 4)),
    ({"scheme": "imex", "norm": "running", **EVERY}, (), (1, 4)),
    ({"scheme": "im", "bidirectional": True, **LAST}, (), (2, 4)),
    ({"scheme": "verlet", "norm": "layer", **EVERY}, MASKED, (2, 4)),
    ({"scheme": "im", "pooling": "mean+last+max"}, MASKED, (2, 4)),
]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("options", "names", "shape"),
    [
        ({"num_blocks": 2}, MASKED, (2, 4)),
        ({"scheme": "im", "damped": True, "norm": "running"}, IRREGULAR, (1, 8)),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE),
    ],
    ids=str,
)
def test_losses_and_gradients_are_those_of_one_device(options, names, shape):
    """Every scheme, head, norm, kind of samples and mesh, with others."""
    model, arguments = make(**{"num_blocks": 1, **options}), some(*names)
    (loss, others), gradient = loss_and_gradient(model, arguments, None)
    (split, others_split), gradient_split = loss_and_gradient(model, arguments, mesh_of(shape))
    assert np.allclose(split, loss, rtol=2e-5)
    leaves = map(jax.tree.leaves, ((others, gradient), (others_split, gradient_split)))
    for expected, found in zip(*leaves, strict=True):
        scale = np.abs(expected).max() + 1e-3
        np.testing.assert_allclose(found, expected, atol=2e-5 * scale, rtol=2e-5)


COLLECTIVE = re.compile(r"= (.*?) (all-gather|all-reduce|reduce-scatter|all-to-all|collective-\w+)")


def collectives(model, time, mesh):
    weights, rest = eqx.partition(model, trainable(model))

    def value(weights, u):
        answers, norms = eqx.combine(weights, rest).training_pass(
            u, key=jax.random.key(1), mesh=mesh
        )
        return jnp.mean(answers**2), norms

    everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch", "time"))
    program = jax.jit(
        jax.grad(value, has_aux=True), in_shardings=(everywhere, split), out_shardings=everywhere
    )
    u = jax.ShapeDtypeStruct((8, time, 3), jnp.float32)
    text = program.lower(weights, u).compile().as_text()
    return sorted((kind, shape) for shape, kind in COLLECTIVE.findall(text))


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"bidirectional": True}, marks=pytest.mark.integration),
        pytest.param(EVERY, marks=pytest.mark.slow),  # its head says less than the others
    ],
)
def test_what_devices_say_does_not_grow_with_the_sequence(options):
    model, mesh = make(**options, num_blocks=1), mesh_of((2, 4))
    short, long = collectives(model, 48, mesh), collectives(model, 48 * 256, mesh)
    assert short
    assert short == long


@pytest.mark.parametrize(
    ("shape", "batch", "time", "options", "message"),
    [
        ((4, 1), 6, 24, {}, "u has 6 sequences, expected a multiple of 4"),
        ((1, 4), 8, 22, {}, "u has 22 steps, expected a multiple of 4"),
        ((1, 4), 8, 24, {"task": "regression", "every": 4}, "'time' times 4"),
        ((1, 4), 8, 24, FORECAST, "the mesh splits time, which forecasts do not support"),
    ],
)
def test_a_mesh_that_does_not_divide(shape, batch, time, options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)(np.zeros((batch, time, 3), np.float32), mesh=mesh_of(shape))


def test_a_mesh_with_other_axes():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("data",))
    with pytest.raises(ValueError, match=r"mesh has the axes .*'data'.*, expected 'batch'"):
        make()(np.zeros((8, 24, 3), np.float32), mesh=mesh)
