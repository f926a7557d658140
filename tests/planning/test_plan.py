"""How plans follow sizes, and what they refuse."""

import jax
import pytest

import linoss
from linoss.planning import plan

HUGE = {"length": 10**8, "batch": 64}


@pytest.mark.parametrize("changes", [{}, {"norm": "layer"}])
def test_memory_by_sizes(make_config, changes):
    """Linear in length and batch, divided by devices."""
    config = make_config(**changes)
    parameters = linoss.count_parameters(linoss.LinOSS(config, key=jax.random.key(0)))

    def planned(times=1, **changes):
        return plan(config, **{"length": 2**26, "batch": 16, "keep": 0, **changes}), times

    one, _ = planned()
    assert one.parameters == parameters
    for other, times in (planned(2, length=2**27), planned(2, batch=32), planned(1 / 8, devices=8)):
        assert other.memory.total == pytest.approx(times * one.memory.total, rel=0.01)
    few, many = (planned(devices=(1, n))[0] for n in (8, 512))
    assert few.memory.total == pytest.approx(64 * many.memory.total, rel=0.05)


def test_sequences_are_padded_to_what_the_mesh_divides(make_config):
    config = make_config(task="regression", every=3)
    assert plan(config, length=100, batch=2, devices=(1, 4)).steps == 27


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": {}}, r"config is a dict, expected a linoss\.LinOSSConfig"),
        ({"length": 0}, "length is 0, expected an integer >= 1"),
        ({"batch": 6, "devices": 4}, "batch is 6, expected a multiple of 4"),
        ({"devices": (1, 0)}, "devices is 0"),
        ({"engine": "steam"}, "engine is 'steam', expected one of 'native', 'sequential'"),
    ],
)
def test_wrong_sizes(make_config, changes, message):
    with pytest.raises(ValueError, match=message):
        plan(**{"config": make_config(), **HUGE, **changes})
