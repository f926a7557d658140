"""Plans against the compiler's own analysis of the step, on emulated devices, within 15 %."""

import dataclasses

import pytest

import linoss
from linoss.planning import plan

LENGTH, BATCH = 4096, 8
DEVICES = [(1, 1), *(pytest.param(n, marks=pytest.mark.integration) for n in ((2, 1), (2, 4)))]
CLOSE = 0.15

needs_kernels = pytest.mark.skipif(
    "native" not in linoss.engines(), reason="the kernels were not built"
)


def plan_of(config, devices, engine="native"):
    sizes = {"length": LENGTH - (config.horizon or 0), "batch": BATCH}
    return plan(config, **sizes, devices=devices, engine=engine, keep=0)


@pytest.fixture
def step(compiled):
    def compile_step(config, devices, engine="native"):
        return compiled(config, LENGTH - (config.horizon or 0), BATCH, devices, engine)

    return compile_step


def assert_memory(program, planned, *, in_kernels):
    """The compiler sees all but what kernels allocate for themselves."""
    analysis = program.memory_analysis()
    total = (
        analysis.argument_size_in_bytes
        + analysis.output_size_in_bytes
        + analysis.temp_size_in_bytes
        - analysis.alias_size_in_bytes
    )
    expected = planned.memory.total - (planned.memory["workspace"] if in_kernels else 0)
    assert expected == pytest.approx(total, rel=CLOSE)


def assert_native(step, bytes_sent, config, devices):
    program, planned = step(config, devices), plan_of(config, devices)
    assert_memory(program, planned, in_kernels=True)
    assert planned.bytes_communicated.total == pytest.approx(bytes_sent(program), rel=CLOSE)


@needs_kernels
@pytest.mark.parametrize("devices", DEVICES)
def test_memory_and_bytes_sent(step, make_config, bytes_sent, devices):
    assert_native(step, bytes_sent, make_config(), devices)


OTHERS = {
    "every": {"task": "regression", "every": 8},
    "last": {"pooling": "last"},
    "forecast": {"task": "forecasting", "horizon": 256},
    "many oscillators": {"hidden_size": 16, "state_size": 64},
    "deep": {"num_blocks": 5},
    "real": {"complex_projections": False, "bias": True, "norm": None},
}


@pytest.mark.slow
@needs_kernels
@pytest.mark.parametrize("devices", [(1, 1), (8, 1), (1, 8)])
@pytest.mark.parametrize("name", OTHERS)
def test_other_models(step, make_config, bytes_sent, name, devices):
    assert_native(step, bytes_sent, make_config(**OTHERS[name]), devices)


@pytest.mark.integration
@needs_kernels
def test_what_a_split_of_time_adds_to_products(step, make_config):
    """The compiler sees it, and nothing of what is inside kernels: the whole blocks, and of a shard
    the recurrence."""
    config, devices = make_config(), (1, 4)
    found = step(config, devices).cost_analysis()
    split, whole = plan_of(config, devices), plan_of(config, (4, 1))
    added = sum(split.flops[name] - whole.flops[name] for name in ("products", "others"))
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


PLAIN = {
    "layer norm": {"norm": "layer"},
    "both ways": {"bidirectional": True},
    "verlet": {"scheme": "verlet"},
    "dense": {"feedthrough": "dense"},
    "deep": {"num_blocks": 5},
}


@pytest.mark.slow
@pytest.mark.parametrize("devices", [(1, 1), (2, 4)])
@pytest.mark.parametrize("name", PLAIN)
def test_other_plain_blocks(step, make_config, name, devices):
    config = make_config(**PLAIN[name])
    program = step(config, devices, "sequential")
    assert_memory(program, plan_of(config, devices, "sequential"), in_kernels=False)
