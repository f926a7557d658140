"""Plans against the memory that a real step takes, in a process of its own, within 15 %."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

import linoss
from linoss.planning import plan

SCRIPT = Path(__file__).parent / "measured_step.py"


@pytest.mark.integration
@pytest.mark.skipif("native" not in linoss.engines(), reason="the kernels were not built")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self")
@pytest.mark.parametrize(
    ("devices", "keep"),
    [pytest.param((1, 1), 5 * 10**8, marks=pytest.mark.slow), ((2, 4), 0)],
)
def test_peak_of_a_step(make_config, devices, keep):
    wide = {"hidden_size": 64, "state_size": 32} if keep else {}
    config, length, batch = make_config(**wide), 65_536, 8
    settings = {
        "config": asdict(config),
        "length": length,
        "batch": batch,
        "devices": devices,
        "keep": keep,
    }
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_X64": "0",
        "MALLOC_MMAP_THRESHOLD_": "65536",  # memory of arrays goes back when they do
    }
    done = subprocess.run(
        [sys.executable, SCRIPT, json.dumps(settings)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    memory = plan(config, length=length, batch=batch, devices=devices, keep=keep).memory
    assert (memory["kept"] > 0.8 * keep) if keep else (memory["kept"] == 0)
    new = memory.total - memory["batch"] - memory["weights"] // 2  # the others are there before
    assert devices[0] * devices[1] * new == pytest.approx(int(done.stdout), rel=0.15)
