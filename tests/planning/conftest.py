"""Compiled training steps, each once, and what their programs say."""

import functools
import importlib.util
import re
from pathlib import Path

import jax
import numpy as np
import pytest

import linoss

HERE = Path(__file__).parent


def _module(name):
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def _compiled(config, length, batch, devices, engine):
    with jax.enable_x64(False):
        return _module("measured_step").compile_step(config, length, batch, devices, engine)


@pytest.fixture(scope="session")
def compiled():
    """`compiled(config, length, batch, devices, engine)`: a step as the trainer compiles it."""
    return _compiled


@pytest.fixture(scope="session")
def make_config():
    def make(**changes):
        sizes = {"in_size": 2, "out_size": 3, "hidden_size": 32, "state_size": 16, "num_blocks": 2}
        return linoss.LinOSSConfig(**{**sizes, "norm": "batch", "dropout": 0.1, **changes})

    return make


_COMPUTATION = re.compile(r"^(?:ENTRY )?%([\w.-]+) .*?\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_COLLECTIVE = re.compile(
    r"= (.*?) (all-gather|all-reduce|reduce-scatter|all-to-all)\(.*?"
    r"replica_groups=(mesh\[.*?\] \{.*?\}|\S+)"
)


def _size(shapes):
    """Numbers in arrays such as `(f32[2,3]{1,0}, f32[])`."""
    found = re.findall(r"[a-z]+\d+\[([\d,]*)\]", shapes)
    return sum(int(np.prod([int(n) for n in dims.split(",") if n])) for dims in found)


def _group(text):
    """Devices that take part together, from `{{0,1},{2,3}}`, `[groups,devices]<=[...]` or
    `mesh['a'=2,'b'=4] {'b'}`."""
    if text.startswith("{{"):
        return text[2:].split("}")[0].count(",") + 1
    if text.startswith("mesh"):
        sizes = dict(re.findall(r"('\w+')=(\d+)", text))
        return int(np.prod([int(sizes[a]) for a in re.findall(r"'\w+'", text.split("{")[1])]))
    return int(text[1:].split("]")[0].split(",")[1])


@pytest.fixture(scope="session")
def bytes_sent():
    """By each device in a compiled program, on rings; the body of a loop counts `trips` times."""

    def count(program, trips=1):
        text = program.as_text()
        bodies = set(re.findall(r"body=%([\w.-]+)", text))
        total = 0
        for name, lines in _COMPUTATION.findall(text):
            for shapes, kind, groups in _COLLECTIVE.findall(lines):
                size, devices = _size(shapes), _group(groups)
                share = {
                    "all-reduce": 2 * size * (devices - 1) / devices,
                    "all-gather": size * (devices - 1) / devices,
                    "all-to-all": size * (devices - 1) / devices,
                    "reduce-scatter": size * (devices - 1),
                }[kind]
                total += 4 * share * (trips if name in bodies else 1)
        return total

    return count
