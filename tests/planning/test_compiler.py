"""Plans against the compiler's own analysis of the step, on emulated devices, within 15 %."""

import dataclasses

import pytest

import linoss
from linoss.planning import plan

LENGTH, BATCH = 4096, 8
DEVICES = [
    (1, 1),
    pytest.param((2, 1), marks=pytest.mark.integration),
    pytest.param((1, 4), marks=pytest.mark.integration),
    pytest.param((2, 4), marks=pytest.mark.integration),
]
CLOSE = 0.15

needs_kernels = pytest.mark.skipif(
    "native" not in linoss.engines(), reason="the kernels were not built"
)


def plan_of(config, devices, engine="native"):
    return plan(config, length=LENGTH, batch=BATCH, devices=devices, engine=engine, keep=0)


@pytest.fixture
def step(compiled):
    return lambda config, devices, engine="native": compiled(config, LENGTH, BATCH, devices, engine)


def assert_memory(program, planned, *, in_kernels):
    """The compiler sees all but what kernels allocate for themselves."""
    found = program.memory_analysis()
    total = (
        found.argument_size_in_bytes
        + found.output_size_in_bytes
        + found.temp_size_in_bytes
        - found.alias_size_in_bytes
    )
    expected = planned.memory.total - (planned.memory["workspace"] if in_kernels else 0)
    assert expected == pytest.approx(total, rel=CLOSE)


@needs_kernels
@pytest.mark.parametrize("devices", DEVICES)
def test_memory(step, make_config, devices):
    config = make_config()
    assert_memory(step(config, devices), plan_of(config, devices), in_kernels=True)


@needs_kernels
@pytest.mark.parametrize("devices", DEVICES)
def test_bytes_sent(step, make_config, bytes_sent, devices):
    config = make_config()
    expected = plan_of(config, devices).bytes_communicated.total
    assert expected == pytest.approx(bytes_sent(step(config, devices)), rel=CLOSE)


@pytest.mark.integration
@needs_kernels
def test_what_a_split_of_time_adds_to_products(step, make_config):
    """The compiler sees it, and nothing of what is inside kernels: the whole blocks, and of a shard
    the recurrence."""
    config, devices = make_config(), (1, 4)
    found = step(config, devices).cost_analysis()
    split, whole = plan_of(config, devices), plan_of(config, (4, 1))
    added = (
        split.flops["products"]
        - whole.flops["products"]
        + split.flops["others"]
        - whole.flops["others"]
    )
    assert added == pytest.approx(found["flops"], rel=CLOSE)


@pytest.mark.integration
@pytest.mark.parametrize("devices", [(1, 1), pytest.param((2, 4), marks=pytest.mark.slow)])
def test_the_plain_block(step, make_config, bytes_sent, devices):
    """Whose blocks are a loop, the body of which the compiler counts once, and whose recurrence is
    another one."""
    config = make_config()
    program, planned = step(config, devices, "sequential"), plan_of(config, devices, "sequential")
    assert_memory(program, planned, in_kernels=False)
    sent = bytes_sent(program, trips=config.num_blocks)
    assert planned.bytes_communicated.total == pytest.approx(sent, rel=CLOSE)
    one = plan_of(dataclasses.replace(config, num_blocks=1), devices, "sequential")
    found = program.cost_analysis()["flops"]
    assert one.flops["products"] + one.flops["others"] == pytest.approx(found, rel=CLOSE)


OTHERS = {
    "every": {"task": "regression", "every": 8},
    "last": {"pooling": "last"},
    "forecast": {"task": "forecasting", "horizon": 256},
    "wide": {"hidden_size": 64, "state_size": 16},
    "many oscillators": {"hidden_size": 16, "state_size": 64},
    "deep": {"num_blocks": 5},
    "real": {"complex_projections": False, "bias": True, "norm": None},
}


@pytest.mark.slow
@needs_kernels
@pytest.mark.parametrize("devices", [(1, 1), (8, 1), (1, 2), (1, 8), (4, 2)])
@pytest.mark.parametrize("name", OTHERS)
def test_other_models(compiled, make_config, bytes_sent, name, devices):
    config = make_config(**OTHERS[name])
    length = LENGTH - (config.horizon or 0)
    program = compiled(config, length, BATCH, devices, "native")
    planned = plan(config, length=length, batch=BATCH, devices=devices, keep=0)
    assert_memory(program, planned, in_kernels=True)
    assert planned.bytes_communicated.total == pytest.approx(bytes_sent(program), rel=CLOSE)


PLAIN = {
    "layer norm": {"norm": "layer"},
    "both ways": {"bidirectional": True},
    "verlet": {"scheme": "verlet"},
    "dense": {"feedthrough": "dense"},
    "deep": {"num_blocks": 5},
}


@pytest.mark.slow
@pytest.mark.parametrize("devices", [(1, 1), (8, 1), (1, 8), (2, 4)])
@pytest.mark.parametrize("name", PLAIN)
def test_other_plain_blocks(compiled, make_config, name, devices):
    config = make_config(**PLAIN[name])
    program = compiled(config, LENGTH, BATCH, devices, "sequential")
    assert_memory(program, plan_of(config, devices, "sequential"), in_kernels=False)
