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


def of(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


# For each handler its arguments and results, with 2 sequences of 5 samples; in blocks of 3 channels
# and 4 oscillators on irregular times.
BYTES, EMPTY = of(2, 5, dtype=np.uint8), of(0, 0, 0)
STATE, KEPT = of(2, 3, 2), of(2, 1, 2, 3)
SEQUENCE, TIMES, STATES, MOMENTS = of(2, 5, 3), of(2, 5), of(2, 4, 2), of(2, 3)
MIXER = [of(3), of(3), of(4, 3), of(4), of(4, 4), of(3, 4), of(3)]
GLU = [of(6, 3), of(6)]
PRIMAL = [SEQUENCE, *MIXER, BYTES, TIMES, TIMES]
BLOCK = [*PRIMAL, *GLU, of(6, dtype=np.uint32), SEQUENCE]
GRADIENTS, TILES = [SEQUENCE, *MIXER, TIMES, TIMES], of(2, 1, 2, 4)
FORM = {"scheme": "im", "epsilon": np.float64(0), "half": False, "approximate": False}
FORM |= {"dropout": np.float64(0.1), "keep": np.int64(0)}
HANDLERS = {
    "scan_forward_float32": ([SEQUENCE, of(6, 3), BYTES, STATE], [SEQUENCE, STATE, KEPT], {}),
    "scan_backward_float32": (
        [SEQUENCE, of(6, 2, 5, 3), BYTES, KEPT, SEQUENCE, STATE],
        [SEQUENCE, of(6, 2, 5, 3), STATE],
        {},
    ),
    "encode_forward": (
        [of(5, 2), of(3, 2), of(3), of(5, dtype=np.uint8)],
        [of(5, 3), MOMENTS],
        {},
    ),
    "encode_backward": (
        [of(5, 2), of(3, 2), of(3), of(5, dtype=np.uint8), MOMENTS, of(5, 3), MOMENTS],
        [of(3, 2), of(3)],
        {},
    ),
    "block_forward": ([*BLOCK, STATES], [SEQUENCE, STATES, MOMENTS, MOMENTS, TILES, EMPTY], FORM),
    "block_backward": (
        [*BLOCK, TILES, EMPTY, MOMENTS, SEQUENCE, STATES, MOMENTS, MOMENTS],
        [*GRADIENTS, *GLU, SEQUENCE, STATES],
        FORM,
    ),
    "mix_forward": (PRIMAL, [SEQUENCE, TILES], FORM),
    "mix_backward": ([*PRIMAL, TILES, SEQUENCE], GRADIENTS, FORM),
}
OPTIONAL = (BYTES, TIMES, EMPTY)


def wrong_shapes(array):
    """Another rank, and each size one more or 0; what is empty may be left out."""
    shape = array.shape
    for changed in ((*shape, 1), shape[1:]):
        yield np.ones(changed, array.dtype)
    for axis, size in enumerate(shape):
        for other in (size + 1, 0):
            yield np.ones((*shape[:axis], other, *shape[axis + 1 :]), array.dtype)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", HANDLERS)
def test_wrong_arrays_are_errors(name):
    """By every handler, before anything is read."""
    arguments, results, attributes = HANDLERS[name]

    def call(arguments, results):
        shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in results]
        out = kernels.call(f"linoss_{name}", shapes, *arguments, **attributes)
        return jax.block_until_ready(out)

    call(arguments, results)
    for part, arrays in enumerate((arguments, results)):
        for i, array in enumerate(arrays):
            for wrong in wrong_shapes(array):
                if wrong.size == 0:  # left out; or XLA does not call what has no result
                    if part == 1 or array.size == 0 or i >= 8:
                        continue
                    if any(array is x for x in OPTIONAL) or array.dtype == np.uint8:
                        continue
                changed = [arguments, results]
                changed[part] = [*arrays[:i], wrong, *arrays[i + 1 :]]
                with pytest.raises(Exception, match=r"linoss: wrong"):
                    call(*changed)
    for many, match in (([*arguments, of(1)], "number of arrays"), (arguments[:-1], "missing")):
        with pytest.raises(Exception, match=f"linoss: wrong .*{match}"):
            call(many, results)
    for i, array in enumerate(arguments):
        typed = [*arguments[:i], array.astype(np.float16), *arguments[i + 1 :]]
        if array.size:
            with pytest.raises(Exception, match=r"linoss: wrong .*type"):
                call(typed, results)


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
