"""A block against its formula, u + GLU(GELU(layer(norm(u))))."""

import equinox as eqx
import jax
import numpy as np
import pytest

T, HIDDEN, STATE = 12, 4, 3


@pytest.fixture
def make_block(new_block, stirred):
    def make(**options):
        block = new_block(HIDDEN, STATE, key=jax.random.key(3), **options)
        return eqx.tree_at(lambda b: b.norm, block, stirred(block.norm, seed=1))

    return make


@eqx.filter_jit
def run(block, u, **options):
    return block(u, **options)[0]


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        *({"norm": norm, "scheme": "imex"} for norm in (None, "layer", "batch", "running")),
        {"glu_bias": False, "feedthrough": "dense", "bias": True},
    ],
    ids=str,
)
def test_block_is_its_formula(make_block, block_loop, draw, options):
    block, u = make_block(**options), draw(2, T, HIDDEN)
    found = run(block, u)
    for i in range(2):
        assert_close(found[i], block_loop(block, u[i]))


@pytest.mark.parametrize(("scheme", "irregular"), [("im", False), ("verlet", True)])
def test_bidirectional_adds_a_layer_on_the_reversed_sequence(
    make_block, block_loop, draw, draw_intervals, scheme, irregular
):
    block, u = make_block(bidirectional=True, scheme=scheme), draw(T, HIDDEN)
    intervals = draw_intervals(T) if irregular else None
    assert_close(run(block, u, intervals=intervals), block_loop(block, u, intervals))


@pytest.mark.parametrize("bidirectional", [False, True])
def test_only_bidirectional_blocks_see_the_future(make_block, draw, bidirectional):
    block, u = make_block(bidirectional=bidirectional), draw(T, HIDDEN)
    changed = u.copy()
    changed[8] += 1
    before, after = run(block, u), run(block, changed)
    assert np.array_equal(before[:8], after[:8]) != bidirectional
    assert np.all(np.any(before[8:] != after[8:], axis=-1))
