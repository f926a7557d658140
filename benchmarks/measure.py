"""Side-by-side measurements in one run: `python benchmarks/measure.py --help`.

- `layer`: one layer's forward and backward pass, by every engine.
- `step`: a training step of a whole model, with its peak memory.
- `products`: the matrix products of a training step alone, which are its floor, by the kernels' own
  product and by SciPy's BLAS.
- `length`: cost of a step of sequence as sequences grow, and the memory of a million steps.
- `stream`: a sample at a time.

Times are medians of repeats that take turns. For `step` and `length` each method has a process of
its own (`work`), whose memory is its peak above what it held before the first step.
"""

import argparse
import ctypes
import dataclasses
import importlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import linoss
from linoss import _kernels

sys.path.insert(0, str(Path(__file__).parent))
import textbook
from configurations import SIZES

METHODS = ("textbook", "linoss")
CORES = len(os.sched_getaffinity(0))


def layer_functions(size_name: str) -> tuple[dict[str, Callable[..., Any]], tuple[Any, ...]]:
    """One layer's forward and backward pass by either method."""
    size = SIZES[size_name]
    key = jax.random.key(0)
    layer = linoss.LinOSSLayer(
        size.hidden_size, size.state_size, timestep="learned", key=jax.random.key(1)
    )
    u = jax.random.normal(key, (size.batch, size.length, size.hidden_size))

    def backward(run: Callable[..., Any]) -> Callable[..., Any]:
        def loss(layer: Any, u: jax.Array, d: jax.Array) -> jax.Array:
            return jnp.sum(run(layer, u) * d)

        return jax.jit(jax.grad(loss, argnums=(0, 1)))

    def products(layer: Any, u: jax.Array) -> jax.Array:
        return (u @ layer.input_weight.T) @ layer.output_weight.T

    functions = {
        "textbook": backward(lambda layer, u: jax.vmap(lambda one: textbook.layer(layer, one))(u)),
        "products alone": backward(products),
    }
    for engine in linoss.engines():
        functions[engine] = backward(lambda layer, u, e=engine: layer(u, engine=e)[0])
    return functions, (layer, u, jnp.ones_like(u))


def training_step(size_name: str, method: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Forward, backward and Adam for a whole model."""
    size = SIZES[size_name]
    model = size.model(jax.random.key(0))
    weights, rest = eqx.partition(model, linoss.trainable(model))
    optimizer = optax.adam(1e-3)
    u, target = size.batch_of_data(jax.random.key(1))

    def loss(weights: Any, rest: Any, u: jax.Array, target: jax.Array, key: jax.Array) -> Any:
        model = eqx.combine(weights, rest)
        if method == "textbook":
            answers, norms = textbook.model(model, u, key), None
        else:
            answers, norms = model.train(u, key=key)
        if size.every is None:
            losses = optax.softmax_cross_entropy_with_integer_labels(answers, target)
        else:
            losses = (answers - target) ** 2
        return jnp.mean(losses), norms

    @eqx.filter_jit
    def step(weights: Any, rest: Any, state: Any, u: Any, target: Any, key: Any) -> Any:
        (value, _), gradient = eqx.filter_value_and_grad(loss, has_aux=True)(
            weights, rest, u, target, key
        )
        updates, state = optimizer.update(gradient, state)
        return eqx.apply_updates(weights, updates), state, value

    return step, (weights, rest, optimizer.init(weights), u, target, jax.random.key(2))


def seconds(function: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    start = time.perf_counter()
    jax.block_until_ready(function(*arguments))
    return time.perf_counter() - start


def take_turns(
    runs: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]], repeats: int
) -> dict[str, tuple[float, float]]:
    """For each run its first time, compilation included, and the median of the others."""
    first = {name: seconds(*run) for name, run in runs.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            times[name].append(seconds(*run))
    return {name: (first[name], statistics.median(times[name])) for name in runs}


def product_library() -> ctypes.CDLL:
    """The products, compiled for this machine as the kernels are."""
    level = _kernels.native.instruction_set()
    width = {"x86-64-v4": 16, "x86-64-v3": 8}.get(level, 4)
    here = Path(__file__).parent
    library = Path(tempfile.mkdtemp()) / "products.so"
    flags = ["-O3", "-std=gnu++17", "-fPIC", "-shared", "-pthread", "-w", f"-DLINOSS_WIDTH={width}"]
    flags += ["-DLINOSS_ISA=here"] + ([f"-march={level}"] if level != "portable" else [])
    subprocess.run(["c++", *flags, str(here / "products.cpp"), "-o", str(library)], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.products.restype = ctypes.c_double
    return loaded


def blas_pointer() -> ctypes.c_void_p:
    """SciPy's own sgemm, by the capsule that Cython programs use."""
    cython_blas: Any = importlib.import_module("scipy.linalg.cython_blas")

    capsule = cython_blas.__pyx_capi__["sgemm"]
    name, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.c_void_p(pointer(capsule, name(capsule)))


def floor(library: ctypes.CDLL, size_name: str, blas: Any = None) -> float:
    """Seconds for the products of a training step: three forward and six backward in each block."""
    size = SIZES[size_name]
    tiles = size.batch * -(-size.length // 64)
    one = library.products(
        ctypes.c_int64(size.hidden_size),
        ctypes.c_int64(2 * size.state_size),
        ctypes.c_int64(tiles),
        CORES,
        blas,
    )
    return size.num_blocks * one


def report_products(sizes: list[str], repeats: int) -> None:
    library, blas = product_library(), blas_pointer()
    print("| size | by the kernels' product | by SciPy's BLAS |")
    print("|---|---|---|")
    for name in sizes:
        runs = {"own": None, "blas": blas}
        times = {
            run: statistics.median(floor(library, name, pointer) for _ in range(repeats))
            for run, pointer in runs.items()
        }
        print(f"| {name} | {1e3 * times['own']:.0f} ms | {1e3 * times['blas']:.0f} ms |")


def one_long_sequence(length: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A training step at PPG's widths on one sequence."""
    SIZES["one"] = dataclasses.replace(SIZES["ppg"], batch=1, length=length)
    return training_step("one", "linoss")


def report_length(sizes: list[str], repeats: int) -> None:
    print("| steps of one sequence | a training step | a step of sequence | peak memory |")
    print("|---|---|---|---|")
    for length in (1_024, 10_240, 102_400, 1_024_000):
        worker = Worker("--length", str(length))
        worker.step()
        median = statistics.median(worker.step() for _ in range(repeats))
        print(
            f"| {length:,} | {1e3 * median:.0f} ms | {1e6 * median / length:.2f} us "
            f"| {worker.end():.0f} MB |",
            flush=True,
        )


def report_stream(sizes: list[str], repeats: int) -> None:
    print("| size | a sample, from Python |")
    print("|---|---|")
    for name in sizes:
        size = SIZES[name]
        listen = linoss.Stream(size.model(jax.random.key(0)))
        samples = np.random.default_rng(0).normal(size=(2000, size.in_size)).astype(np.float32)
        listen(samples[0])
        times = [seconds(listen, (sample,)) for sample in samples]
        print(f"| {name} | {1e6 * statistics.median(times):.0f} us |")


class Worker:
    """A training step in a process of its own, which leaves the other method's memory alone."""

    def __init__(self, *options: str):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "work", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, line: str) -> float:
        """Its answer, a number."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(line, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def step(self) -> float:
        """Seconds of one step."""
        return self.ask("step")

    def turn(self) -> float:
        """Seconds of a step that follows another one, as in training.

        The first one of a turn still waits for the system to take back what the other method's
        last step had of memory.
        """
        self.step()
        return self.step()

    def end(self) -> float:
        """Peak memory of all steps, in megabytes above that before the first."""
        memory = self.ask("memory")
        self.process.communicate()
        return memory


def work(run: tuple[Callable[..., Any], tuple[Any, ...]]) -> None:
    """What a worker does: a step for each line, and its seconds."""
    function, arguments = run
    jax.block_until_ready(arguments)
    before = status("VmRSS")
    for line in sys.stdin:
        answer = seconds(function, arguments) if line == "step\n" else status("VmHWM") - before
        print(answer, flush=True)


def status(field: str) -> float:
    """A field of this process's status, in megabytes: memory in use (VmRSS) or its peak (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(field))
    return int(line.split()[1]) / 1024


def report_layer(sizes: list[str], repeats: int) -> None:
    print("| size | method | first call | forward and backward | textbook / this |")
    print("|---|---|---|---|---|")
    for name in sizes:
        functions, arguments = layer_functions(name)
        results = take_turns({m: (f, arguments) for m, f in functions.items()}, repeats)
        for method, (first, median) in results.items():
            ratio = results["textbook"][1] / median
            print(f"| {name} | {method} | {first:.1f} s | {1e3 * median:.0f} ms | {ratio:.1f} |")


def report_step(sizes: list[str], repeats: int) -> None:
    library = product_library() if "native" in linoss.engines() else None
    print("| size | method | first step | step | textbook / this | this / floor | peak memory |")
    print("|---|---|---|---|---|---|---|")
    ratios = []
    for name in sizes:
        workers = {method: Worker("--sizes", name, "--method", method) for method in METHODS}
        first = {method: worker.step() for method, worker in workers.items()}
        turns = [{m: worker.turn() for m, worker in workers.items()} for _ in range(repeats)]
        lowest = floor(library, name) if library else float("nan")
        median = {m: statistics.median(turn[m] for turn in turns) for m in METHODS}
        for method, worker in workers.items():
            ratio = median["textbook"] / median[method]
            print(
                f"| {name} | {method} | {first[method]:.1f} s | {1e3 * median[method]:.0f} ms "
                f"| {ratio:.1f} | {median[method] / lowest:.1f} | {worker.end():.0f} MB |",
                flush=True,
            )
        ratios.append(median["textbook"] / median["linoss"])
    print(f"\nGeometric mean of textbook / linoss: {statistics.geometric_mean(ratios):.1f}")


REPORTS = {
    "layer": report_layer,
    "step": report_step,
    "products": report_products,
    "length": report_length,
    "stream": report_stream,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=(*REPORTS, "work"))
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--method", choices=METHODS, default="linoss", help="for work")
    parser.add_argument("--length", type=int, help="for work: one sequence")
    options = parser.parse_args()
    if options.what != "work":
        REPORTS[options.what](options.sizes, options.repeats)
    elif options.length:
        work(one_long_sequence(options.length))
    else:
        work(training_step(options.sizes[0], options.method))


if __name__ == "__main__":
    main()
