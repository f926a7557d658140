"""Plans against the compiler's own analysis of the step, on emulated devices, within 15 %, and
against the memory that a real step takes."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

import linoss
from linoss.planning import plan
from tests.planning import measured_step

LENGTH, BATCH = 4096, 8
DEVICES = [(1, 1), *(pytest.param(n, marks=pytest.mark.integration) for n in ((2, 1), (2, 4)))]
CLOSE = 0.15

OTHERS = {
    "every": {"task": "regression", "every": 8},
    "forecast": {"task": "forecasting", "horizon": 256, "pooling": "last"},
    "deep, many oscillators": {"num_blocks": 5, "hidden_size": 16, "state_size": 64},
    "real": {"complex_projections": False, "bias": True, "norm": None},
}
PLAIN = {
    "layer norm": {"norm": "layer"},
    "both ways": {"bidirectional": True},
    "verlet": {"scheme": "verlet"},
    "dense": {"feedthrough": "dense"},
}


def slow(cases, engine):
    mark = pytest.mark.slow
    return [pytest.param(each, engine, marks=mark, id=name) for name, each in cases.items()]


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize(
    ("changes", "engine"),
    [
        ({}, "native"),
        *slow(OTHERS, "native"),
        pytest.param({}, "sequential", marks=pytest.mark.integration),
        *slow(PLAIN, "sequential"),
    ],
)
def test_memory(make_config, changes, engine, devices):
    """The compiler sees all but what kernels allocate for themselves."""
    if engine not in linoss.engines():
        pytest.skip("the kernels were not built")
    config = make_config(**changes)
    length = LENGTH - (config.horizon or 0)
    with jax.enable_x64(False):
        program = measured_step.compile_step(config, length, BATCH, devices, engine)
    planned = plan(config, length=length, batch=BATCH, devices=devices, engine=engine, keep=0)
    in_kernels = engine == "native" and planned.outside_kernels is None
    analysis = program.memory_analysis()
    total = (
        analysis.argument_size_in_bytes
        + analysis.output_size_in_bytes
        + analysis.temp_size_in_bytes
        - analysis.alias_size_in_bytes
    )
    expected = planned.memory.total - (planned.memory["workspace"] if in_kernels else 0)
    assert expected == pytest.approx(total, rel=CLOSE)


@pytest.mark.integration
@pytest.mark.skipif("native" not in linoss.engines(), reason="the kernels were not built")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self")
@pytest.mark.parametrize(
    ("devices", "keep"),
    [pytest.param((1, 1), 5 * 10**8, marks=pytest.mark.slow), ((2, 4), 0)],
)
def test_peak_of_a_step(make_config, devices, keep):
    """In a process of its own."""
    wide = {"hidden_size": 64, "state_size": 32} if keep else {}
    config, sizes = make_config(**wide), {"length": 65_536, "batch": 8, "keep": keep}
    given = json.dumps({"config": dataclasses.asdict(config), "devices": devices, **sizes})
    memory_goes_back = {"MALLOC_MMAP_THRESHOLD_": "65536"}
    run = subprocess.run(
        [sys.executable, Path(measured_step.__file__), given],
        env={**os.environ, "JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "0", **memory_goes_back},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    memory = plan(config, devices=devices, **sizes).memory
    assert (memory["kept"] > 0.8 * keep) if keep else (memory["kept"] == 0)
    new = memory.total - memory["batch"] - memory["weights"] // 2  # the others are there before
    assert devices[0] * devices[1] * new == pytest.approx(int(run.stdout), rel=CLOSE)
