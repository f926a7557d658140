"""`Stream` is `step` with the weights compiled in."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import linoss


def make_model(**changes):
    config = linoss.LinOSSConfig(
        in_size=2, out_size=3, hidden_size=4, state_size=3, num_blocks=2, **changes
    )
    return linoss.LinOSS(config, key=jax.random.key(0))


@pytest.mark.parametrize("scheme", ["im", "verlet"])
def test_gives_what_step_gives(scheme):
    model = make_model(scheme=scheme)
    samples = jax.random.normal(jax.random.key(1), (12, 5, 2))
    listen, state = linoss.Stream(model, (5,)), model.init_state((5,))
    for sample in samples:
        expected, state = model.step(state, sample)
        np.testing.assert_allclose(listen(np.asarray(sample)), expected, rtol=1e-10, atol=1e-12)
    for found, wanted in zip(jax.tree.leaves(listen.state), jax.tree.leaves(state), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


def test_goes_on_from_a_state_that_was_set():
    model = make_model()
    samples = jax.random.normal(jax.random.key(1), (6, 2))
    first, second = linoss.Stream(model), linoss.Stream(model)
    for sample in samples[:3]:
        first(sample)
    second.state = first.state
    for sample in samples[3:]:
        np.testing.assert_array_equal(first(sample), second(sample))


@pytest.mark.usefixtures("unchecked")
def test_wrong_samples_and_states_are_refused():
    listen = linoss.Stream(make_model())
    with pytest.raises(ValueError, match=r"sample has shape \(3,\), expected \(2,\)"):
        listen(jnp.zeros(3))
    with pytest.raises(ValueError, match="sample has dtype int"):
        listen(np.zeros(2, int))
    with pytest.raises(ValueError, match="state is of another model or batch"):
        listen.state = make_model().init_state((4,))
