"""The native scan against the loop in JAX: values, states and gradients."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import linoss
from linoss import kernels

pytestmark = pytest.mark.skipif(
    "native" not in linoss.engines(), reason="the kernels were not built"
)


# For each handler its arguments and results, with 2 sequences of 5 samples.
STATE, BYTES = (2, 3, 2), (2, 5)
HANDLERS = {
    "scan_forward_float32": ([(2, 5, 3), (6, 3), BYTES, STATE], [(2, 5, 3), STATE, (2, 1, 2, 3)]),
    "scan_backward_float32": (
        [(2, 5, 3), (6, 2, 5, 3), BYTES, (2, 1, 2, 3), (2, 5, 3), STATE],
        [(2, 5, 3), (6, 2, 5, 3), STATE],
    ),
}


def wrong_shapes(shape):
    """Another rank, and each size one more or 0; an empty mask is none."""
    yield (*shape, 1)
    yield shape[1:]
    for axis, size in enumerate(shape):
        yield (*shape[:axis], size + 1, *shape[axis + 1 :])
        if shape != BYTES:
            yield (*shape[:axis], 0, *shape[axis + 1 :])


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", HANDLERS)
def test_wrong_arrays_are_errors(name):
    arguments, results = HANDLERS[name]

    def call(arguments, results, dtype=jnp.float32):
        types = [jnp.uint8 if shape == BYTES else dtype for shape in arguments]
        filled = [np.ones(*each) for each in zip(arguments, types, strict=True)]
        shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in results]
        return jax.block_until_ready(kernels.call(f"linoss_{name}", shapes, *filled))

    call(arguments, results)
    several = (arguments, results)
    for part, shapes in enumerate(several):
        for i, shape in enumerate(shapes):
            for wrong in wrong_shapes(shape):
                if part == 1 and 0 in wrong:
                    continue  # XLA does not call what has no result
                changed = list(several)
                changed[part] = [*shapes[:i], wrong, *shapes[i + 1 :]]
                with pytest.raises(Exception, match=r"linoss: wrong"):
                    call(*changed)
    for many, match in (([*arguments, (1,)], "number of arrays"), (arguments[:-1], "missing")):
        with pytest.raises(Exception, match=f"linoss: wrong .*{match}"):
            call(many, results)
    with pytest.raises(Exception, match=r"linoss: wrong .*type"):
        call(arguments, results, jnp.float16)


def run_python(program, **environment):
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout.strip()


def test_the_environment_chooses_the_engine(monkeypatch):
    step = linoss.discretize("im", jnp.ones(3), 1.0)

    def program():
        run = jax.jit(lambda force: linoss.oscillator_scan(step, force)[0])
        return run.lower(jnp.zeros((2, 50, 3))).as_text()

    monkeypatch.delenv("LINOSS_ENGINE", raising=False)
    assert "linoss_scan" in program()
    monkeypatch.setenv("LINOSS_ENGINE", "sequential")
    assert "linoss_scan" not in program()
    monkeypatch.setenv("LINOSS_ENGINE", "fast")
    with pytest.raises(ValueError, match="LINOSS_ENGINE is 'fast', expected one of 'auto'"):
        program()


SCAN = """
import jax, jax.numpy as jnp, linoss, numpy as np
from linoss import kernels
step = linoss.discretize("im", np.linspace(0, 1, 7, dtype=np.float32), np.float32(1))
force = np.random.default_rng(0).normal(size=(2, 500, 7)).astype(np.float32)
run = jax.jit(lambda force: jnp.sum(linoss.oscillator_scan(step, force)[0]))
native = "linoss_scan" in run.lower(force).as_text()
print(native, float(run(force)), linoss.engines(), kernels.instruction_set(), sep="; ")
"""


@pytest.fixture(scope="module")
def usual():
    """What the scan gives in this process."""
    names = {}
    exec(SCAN, names)
    return float(names["run"](names["force"]))


@pytest.mark.integration
@pytest.mark.parametrize("level", ["1", "2", pytest.param("3", marks=pytest.mark.slow)])
def test_lower_instruction_sets_compute_the_same(usual, level):
    native, found, _, instruction_set = run_python(SCAN, LINOSS_NATIVE_LEVEL=level).split("; ")
    assert native == "True"
    assert float(found) == pytest.approx(usual, rel=1e-4)
    if kernels.instruction_set() != "portable":
        assert instruction_set == ("x86-64" if level == "1" else f"x86-64-v{level}")


@pytest.mark.integration
def test_without_kernels_everything_else_works(usual):
    program = "import sys; sys.modules['linoss._native'] = None\n" + SCAN
    native, found, engines, instruction_set = run_python(program).split("; ")
    assert native == "False"
    assert float(found) == pytest.approx(usual, rel=1e-4)
    assert engines.endswith("'associative')")
    assert instruction_set == "None"


def test_a_failed_build_makes_a_pure_wheel(tmp_path):
    pytest.importorskip("scikit_build_core", reason="is only there to build")
    root = Path(__file__).parents[2]
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(root / name, tmp_path)
    for name in ("native", "src"):
        shutil.copytree(root / name, tmp_path / name)
    program = (
        f"import os; os.chdir({str(tmp_path)!r})\n"
        "from scikit_build_core import build; print(build.build_wheel('dist'))"
    )
    name = run_python(program, CXX="/bin/false").splitlines()[-1]
    assert name.endswith("-py3-none-any.whl")
