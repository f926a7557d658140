"""How plans follow sizes, and what they refuse."""

import itertools

import jax
import pytest

import linoss
from linoss.planning import plan, smallest_mesh

HUGE = {"length": 10**8, "batch": 64}


@pytest.mark.integration
def test_parameters_are_those_of_the_model(make_config):
    """Every choice of each setting: the numbers of parts add up."""
    choices = {
        "complex_projections": [True, False],
        "feedthrough": ["vector", "dense", "none"],
        "norm": [None, "layer", "batch"],
        "damped": [True, True, False, False],
    }
    for values in itertools.islice(zip(*map(itertools.cycle, choices.values()), strict=False), 4):
        options = dict(zip(choices, values, strict=True))
        others = {"bias": options["damped"], "glu_bias": not options["damped"]}
        config = make_config(
            **options, **others, bidirectional=options["norm"] is None, num_blocks=1
        )
        found = plan(config, length=1, batch=1).parameters
        assert found == linoss.count_parameters(linoss.LinOSS(config, key=jax.random.key(0)))


@pytest.mark.parametrize("changes", [{}, {"norm": "layer"}])
def test_cost_is_linear_in_length_and_in_batch(make_config, changes):
    config = make_config(**changes)
    small, long, many = (
        plan(config, length=length, batch=batch)
        for length, batch in ((2**20, 16), (2**21, 16), (2**20, 32))
    )
    for name in ("memory", "flops"):
        one = getattr(small, name).total
        assert getattr(long, name).total == pytest.approx(2 * one, rel=0.01)
        assert getattr(many, name).total == pytest.approx(2 * one, rel=0.01)


def test_parts_of_the_batch_divide_everything(make_config):
    one, eight = (plan(make_config(), **HUGE, devices=n) for n in (1, 8))
    for name in ("memory", "flops"):
        assert getattr(eight, name).total == pytest.approx(getattr(one, name).total / 8, rel=0.01)


def test_pieces_of_time_divide_each_other(make_config):
    few, many = (plan(make_config(), **HUGE, devices=(1, n)) for n in (8, 1024))
    for name in ("memory", "flops"):
        ratio = getattr(few, name).total / getattr(many, name).total
        assert ratio == pytest.approx(128, rel=0.02)


def test_what_is_sent_does_not_grow_with_the_length(make_config):
    sent = {
        plan(make_config(), length=length, batch=64, devices=(2, 64)).bytes_communicated.total
        for length in (10**4, 10**6, 10**8)
    }
    assert len(sent) == 1


def test_one_device_sends_nothing(make_config):
    assert plan(make_config(), **HUGE).bytes_communicated.total == 0


@pytest.mark.parametrize("memory", [1e9, 16e9, 1e12])
def test_the_smallest_mesh(make_config, memory):
    found = smallest_mesh(make_config(), **HUGE, memory=memory)
    assert found.memory.total <= memory
    parts, shards = found.devices
    smaller = (parts, shards // 2) if shards > 1 else (parts // 2, 1)
    if min(smaller) > 0:
        assert plan(make_config(), **HUGE, devices=smaller).memory.total > memory


def test_no_mesh_makes_a_model_smaller(make_config):
    assert smallest_mesh(make_config(), **HUGE, memory=1e5) is None


def test_sequences_are_padded_to_what_the_mesh_divides(make_config):
    config = make_config(task="regression", every=3)
    assert plan(config, length=100, batch=2, devices=(1, 4)).steps == 27


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"length": 0}, "length is 0, expected an integer >= 1"),
        ({"batch": 6, "devices": 4}, "batch is 6, expected a multiple of 4"),
        ({"devices": (1, 0)}, "devices is 0"),
        ({"engine": "steam"}, "engine is 'steam', expected one of 'native', 'sequential'"),
    ],
)
def test_wrong_sizes(make_config, changes, message):
    with pytest.raises(ValueError, match=message):
        plan(make_config(), **{**HUGE, **changes})


@pytest.mark.usefixtures("unchecked")
def test_a_config_is_needed():
    with pytest.raises(ValueError, match=r"config is a dict, expected a linoss\.LinOSSConfig"):
        plan({}, **HUGE)
