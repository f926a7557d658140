"""Available engines, the choice of an engine, and its division of a sequence into segments."""

import os

import jax

from linoss import _checks, kernels
from linoss.scan._adjoint import Plan, Segments, Solver
from linoss.scan._engines import JaxSolver
from linoss.scan._native import Native
from linoss.scan._segments import SEGMENT
from linoss.scan._toeplitz import Toeplitz

ENGINES = ("sequential", "chunked", "associative", "toeplitz", "native")


def engines() -> tuple[str, ...]:
    """The available engines; `"native"` is one of them if its kernels were built.

    ```python
    >>> import linoss
    >>> linoss.engines()[:4]
    ('sequential', 'chunked', 'associative', 'toeplitz')

    ```
    """
    return ENGINES if kernels.usable() else ENGINES[:-1]


def resolve_engine(engine: str, *, forward_mode: bool = False) -> str:
    """Validate the name of an engine, and resolve `"auto"` as far as possible without shapes.

    `"auto"` becomes the engine of the environment variable `LINOSS_ENGINE` if it is set, else
    `"native"` if its kernels are usable; otherwise it stays `"auto"`.
    """
    _checks.one_of("engine", engine, ("auto", *ENGINES))
    if engine == "auto":
        engine = os.environ.get("LINOSS_ENGINE", "auto")
        _checks.one_of("LINOSS_ENGINE", engine, ("auto", *ENGINES))
        if engine == "native" and (forward_mode or not kernels.usable()):
            return "auto"
        if engine == "auto" and kernels.usable() and not forward_mode:
            return "native"
        return engine
    if engine == "native" and not kernels.usable():
        raise ValueError(
            "engine is 'native', expected one of linoss.engines(): the native kernels need an "
            "install with a C++ compiler, and JAX on a CPU"
        )
    if engine == "native" and forward_mode:
        raise ValueError("engine is 'native', expected another one for forward_mode=True")
    return engine


def make_plan(engine: str, shape: tuple[int, ...], *, masked: bool, varying: bool) -> Plan:
    """Divide a sequence `(batch, time, m)` into segments, and these into chunks.

    The native engine processes a whole sequence at once, or segments if steps vary. The overhead of
    a JAX loop pays off with some thousand numbers in each iteration, so a narrow bank is divided
    into parallel chunks. Accelerators use batched products if steps are constant, otherwise the
    parallel scan.
    """
    batch, time, m = shape
    width = max(batch * m, 1)
    if engine == "native":
        return _divide(time, min(time, SEGMENT) if varying else time, Native())
    if engine == "auto" and jax.default_backend() != "cpu":
        engine = "toeplitz"
    elif engine == "auto":
        engine = "chunked" if width < 512 and time >= 256 else "sequential"
    if engine == "toeplitz" and not varying:
        return _divide(time, time, Toeplitz())
    if engine in ("associative", "toeplitz"):
        size = min(time, 1024) if masked or varying else time
        return _divide(time, size, JaxSolver(0))
    if engine == "sequential":
        return _divide(time, min(time, 256), JaxSolver(1))
    chunks = min(max(4096 // width, 8), 256, time)
    size = chunks * min(64, time // chunks)
    plan, rest = [Segments(time // size, size, JaxSolver(chunks))], time % size
    if rest >= 4 * chunks:
        plan.append(Segments(1, rest - rest % chunks, JaxSolver(chunks)))
        rest %= chunks
    if rest:
        plan.append(Segments(1, rest, JaxSolver(1)))
    return tuple(plan)


def _divide(time: int, size: int, solver: Solver) -> Plan:
    plan = [Segments(time // size, size, solver)]
    return tuple(plan) if time % size == 0 else (*plan, Segments(1, time % size, solver))
