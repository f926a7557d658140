"""How many numbers a model learns: the paper's table."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from linoss import LinOSS, LinOSSConfig, count_parameters, trainable

# Data set, channels, classes, scheme, hidden size, state size, blocks, include time; parameters.
# The table of hyperparameters has Worms, IMEX without time, the count follows with it.
TABLE = [
    ("Worms", 6, 5, "im", 128, 64, 2, True, 134279),
    ("Worms", 6, 5, "imex", 64, 16, 2, True, 26119),
    ("SCP1", 6, 2, "im", 128, 256, 6, True, 991240),
    ("SCP1", 6, 2, "imex", 64, 256, 6, False, 447944),
    ("SCP2", 7, 2, "im", 128, 64, 6, False, 399112),
    ("SCP2", 7, 2, "imex", 64, 256, 6, True, 448072),
    ("Ethanol", 3, 4, "im", 16, 16, 4, False, 6728),
    ("Ethanol", 3, 4, "imex", 16, 256, 4, False, 70088),
    ("Heartbeat", 61, 2, "im", 16, 16, 6, True, 10936),
    ("Heartbeat", 61, 2, "imex", 64, 16, 2, True, 29444),
    ("Motor", 64, 2, "im", 128, 16, 2, False, 91844),
    ("Motor", 64, 2, "imex", 16, 256, 6, True, 106024),
]


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_the_table_of_the_paper(row):
    _, channels, classes, scheme, hidden, state, blocks, time, count = row
    config = LinOSSConfig.published(
        in_size=channels + time,
        out_size=classes,
        hidden_size=hidden,
        state_size=state,
        num_blocks=blocks,
        scheme=scheme,
    )
    shapes = eqx.filter_eval_shape(LinOSS, config, key=jax.random.key(0))
    model = jax.tree.map(lambda x: jnp.asarray(np.zeros(x.shape, x.dtype)), shapes)
    assert count_parameters(model, buffers=True) == count
    assert count_parameters(model) == count - blocks * (2 * hidden + 1)


@pytest.mark.parametrize("norm", ["running", "batch"])
def test_statistics_are_not_trained_and_weights_are(make_model, norm):
    model = make_model(norm=norm)
    marks = trainable(model)
    for block in marks.blocks:
        assert not any(jax.tree.leaves(block.norm))
        assert all(jax.tree.leaves(block.mixer))
        assert all(jax.tree.leaves(block.glu))
    assert all(jax.tree.leaves((marks.encoder, marks.head)))
