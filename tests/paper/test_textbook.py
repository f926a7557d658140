"""What is measured against computes the same function."""

import equinox as eqx
import jax
import numpy as np
import pytest

from linoss import LinOSS, LinOSSConfig
from paper import textbook


@pytest.mark.parametrize(
    ("scheme", "head"), [("im", {}), ("imex", {"task": "regression", "every": 5})]
)
def test_the_textbook_method_gives_the_same_answers(scheme, head):
    config = LinOSSConfig.published(
        in_size=3, out_size=2, hidden_size=4, state_size=6, num_blocks=2, scheme=scheme,
        dropout=0.0, **head,
    )  # fmt: skip
    model = LinOSS(config, key=jax.random.key(0))
    u = jax.random.normal(jax.random.key(1), (4, 15, 3))
    expected, _ = model.training_pass(u, key=jax.random.key(2))
    found = eqx.filter_jit(textbook.model)(model, u, jax.random.key(2))
    np.testing.assert_allclose(found, expected, atol=1e-10)
