"""Side-by-side measurements in one run: `python benchmarks/measure.py --help`.

- `layer`: one layer's forward and backward pass, by every engine.
- `step`: a training step of a whole model, with its peak memory.
- `products`: the matrix products of a training step alone, which are its floor, by the kernels' own
  product and by SciPy's BLAS.
- `tiles`: the stages of one tile of a block on one core, the least time of each: a profile that
  other programs on the machine disturb little.
- `length`: cost of a step of sequence as sequences grow, and the memory of a million steps.
- `stream`: a sample at a time.
- `forms`: an update of a block in its other forms (irregular times, layer norm, Verlet, dense D,
  both directions), against the default one.
- `threads`: one long sequence on one core and on all.
- `models`: a training step of the models to compare with, at the sizes of the paper's table; LRU
  and S5 also by a plain JAX associative scan. For models that the table lacks, LRU's sizes.
- `features`: untrained oscillators: one series of a million steps and its memory, irregular against
  regular sampling, and a stream of a million samples against the batch.
- `waiting`: a default `fit` of one update: the first one ever, in a new process, and again; without
  imports.

Times are medians of repeats that take turns. For `step`, `models` and `length` each method has a
process of its own, whose memory is its peak above what it held before the first step; `step` is
what `python -m paper efficiency` measures, with the floor beside it.
"""

import argparse
import ctypes
import dataclasses
import importlib
import os
import resource
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

import linoss
import linoss.data
from linoss import kernels

sys.path.insert(0, str(Path(__file__).parents[1]))

from paper import efficiency, textbook

DATA_SETS = {
    "heartbeat": "Heartbeat",
    "ethanol": "EthanolConcentration",
    "worms": "EigenWorms",
    "motor": "MotorImagery",
    "scp1": "SelfRegulationSCP1",
    "ppg": "PPG",
}
SIZES = {name: efficiency.size_of(data_set, "im") for name, data_set in DATA_SETS.items()}
"""Of LinOSS-IM in the published runs."""
METHODS: tuple[efficiency.Method, ...] = ("textbook", "linoss", "linoss, bfloat16")
CORES = len(os.sched_getaffinity(0))


def layer_functions(size_name: str) -> tuple[dict[str, Callable[..., Any]], tuple[Any, ...]]:
    """One layer's forward and backward pass by either method."""
    size = SIZES[size_name]
    key = jax.random.key(0)
    layer = linoss.LinOSSLayer(
        size.hidden_size, size.state_size, timestep="learned", key=jax.random.key(1)
    )
    u = jax.random.normal(key, (size.batch_size, size.length, size.hidden_size))

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


def library(source: str) -> ctypes.CDLL:
    """A program beside this one, compiled for this machine as the kernels are."""
    level, _, half = kernels.native.instruction_set().partition(", ")
    width = {"x86-64-v4": 16, "x86-64-v3": 8}.get(level, 4)
    here = Path(__file__).parent
    compiled = Path(tempfile.mkdtemp()) / "library.so"
    flags = ["-O3", "-std=gnu++17", "-fPIC", "-shared", "-pthread", "-w", f"-DLINOSS_WIDTH={width}"]
    flags += ["-DLINOSS_ISA=here"] + ([f"-march={level}"] if level != "portable" else [])
    flags += ["-mavx512bf16"] if half else []
    subprocess.run(["c++", *flags, str(here / source), "-o", str(compiled)], check=True)
    return ctypes.CDLL(str(compiled))


def product_library() -> ctypes.CDLL:
    """The products alone."""
    loaded = library("products.cpp")
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


def floor(products: ctypes.CDLL, size_name: str, blas: Any = None) -> float:
    """Seconds for the products of a training step: three forward and six backward in each block."""
    size = SIZES[size_name]
    tiles = size.batch_size * -(-size.length // 64)
    one = products.products(
        ctypes.c_int64(size.hidden_size),
        ctypes.c_int64(2 * size.state_size),
        ctypes.c_int64(tiles),
        CORES,
        blas,
    )
    return size.num_blocks * one


def report_products(sizes: list[str], repeats: int) -> None:
    products, blas = product_library(), blas_pointer()
    print("| size | by the kernels' product | by SciPy's BLAS |")
    print("|---|---|---|")
    for name in sizes:
        runs = {"own": None, "blas": blas}
        times = {
            run: statistics.median(floor(products, name, pointer) for _ in range(repeats))
            for run, pointer in runs.items()
        }
        print(f"| {name} | {1e3 * times['own']:.0f} ms | {1e3 * times['blas']:.0f} ms |")


STAGES = ("B x", "oscillators", "C y to output", "again, and back to y", "adjoint", "back to x")


def report_tiles(sizes: list[str], repeats: int) -> None:
    """Microseconds of a tile; its floor is that of its products in float32."""
    one, products = library("tiles.cpp"), product_library()
    print("| size | precision | tile | tile / floor | " + " | ".join(STAGES) + " |")
    print("|---|---|---|---|" + "---|" * len(STAGES))
    for name in sizes:
        hidden, pairs = SIZES[name].hidden_size, 2 * SIZES[name].state_size
        for precision in ("float32", "bfloat16"):
            found = (ctypes.c_double * len(STAGES))()
            half = precision == "bfloat16"
            widths = ctypes.c_int64(hidden), ctypes.c_int64(pairs)
            one.tiles(*widths, ctypes.c_bool(half), 200 * repeats, found)
            runs = (products.products(*widths, ctypes.c_int64(4), 1, None) for _ in range(50))
            lowest = min(runs) / 4
            cells = " | ".join(f"{1e6 * stage:.1f}" for stage in found)
            print(
                f"| {name} | {precision} | {1e6 * sum(found):.1f} | {sum(found) / lowest:.2f} "
                f"| {cells} |"
            )


def report_length(sizes: list[str], repeats: int) -> None:
    print("| steps of one sequence | a training step | a step of sequence | peak memory |")
    print("|---|---|---|---|")
    for length in (1_024, 10_240, 102_400, 1_024_000):
        size = dataclasses.replace(SIZES["ppg"], batch_size=1, length=length)
        worker = efficiency.worker("linoss", size)
        worker.submit(efficiency.step).result()
        steps = [worker.submit(efficiency.step).result() for _ in range(repeats)]
        median = statistics.median(steps)
        print(
            f"| {length:,} | {1e3 * median:.0f} ms | {1e6 * median / length:.2f} us "
            f"| {worker.submit(efficiency.peak).result():.0f} MB |",
            flush=True,
        )
        worker.shutdown()


def report_stream(sizes: list[str], repeats: int) -> None:
    print("| size | a sample, from Python | a line of `linoss stream` | lines a second |")
    print("|---|---|---|---|")
    for name in sizes:
        size = SIZES[name]
        listen = linoss.Stream(efficiency.make_model(size))
        samples = np.random.default_rng(0).normal(size=(2000, size.in_size)).astype(np.float32)
        listen(samples[0])
        times = [seconds(listen, (sample,)) for sample in samples]
        line = statistics.median(seconds_of_lines(size) for _ in range(repeats))
        print(
            f"| {name} | {1e6 * statistics.median(times):.0f} us | {1e6 * line:.0f} us "
            f"| {1 / line:,.0f} |",
            flush=True,
        )


def seconds_of_lines(size: efficiency.MeasuredSize, lines: int = 200_000) -> float:
    """Seconds of a line through the command, without those of its start."""
    random = np.random.default_rng(0)
    widths: Any = {"hidden_size": size.hidden_size, "state_size": size.state_size}
    classifier = linoss.LinOSSClassifier(num_blocks=size.num_blocks, steps=1, **widths)
    classifier.fit(random.normal(size=(8, size.in_size, 64)), np.arange(8) % 2)
    with tempfile.TemporaryDirectory() as folder:
        classifier.save(f"{folder}/run")
        np.savetxt(f"{folder}/lines", random.normal(size=(lines, size.in_size)), "%.6f", ",")
        command = [sys.executable, "-m", "linoss", "stream", f"{folder}/run"]
        with open(f"{folder}/lines", "rb") as source:
            listener = subprocess.Popen(command, stdin=source, stdout=subprocess.PIPE)
            assert listener.stdout is not None
            listener.stdout.readline()
            start = time.perf_counter()
            while listener.stdout.read(2**16):
                pass
            spent = time.perf_counter() - start
            listener.wait()
    return spent / lines


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
    products = product_library() if "native" in linoss.engines() else None
    print("| size | method | first step | step | textbook / this | this / floor | peak memory |")
    print("|---|---|---|---|---|---|---|")
    ratios: dict[str, list[float]] = {method: [] for method in METHODS[1:]}
    for name in sizes:
        lowest = floor(products, name) if products else float("nan")
        measured = efficiency.compare(SIZES[name], repeats, METHODS)
        textbook = measured["textbook"]
        for method, found in measured.items():
            if textbook is None or found is None:
                print(f"| {name} | {method} | has ended | | | | |", flush=True)
                continue
            ratio = textbook["step"] / found["step"]
            print(
                f"| {name} | {method} | {found['first_step']:.1f} s | {1e3 * found['step']:.0f} ms "
                f"| {ratio:.1f} | {found['step'] / lowest:.1f} | {found['memory']:.0f} MB |",
                flush=True,
            )
            if method in ratios:
                ratios[method].append(ratio)
    for method, found in ratios.items():
        print(f"\nGeometric mean of textbook / {method}: {statistics.geometric_mean(found):.1f}")


FORMS = {
    "default": {},
    "irregular, im": {},
    "irregular, imex": {"scheme": "imex"},
    "irregular, verlet": {"scheme": "verlet"},
    "irregular, exact": {"scheme": "exact"},
    "layer norm": {"norm": "layer"},
    "verlet": {"scheme": "verlet"},
    "dense D": {"feedthrough": "dense"},
    "both directions": {"bidirectional": True},
}


def update_of(
    model: linoss.LinOSS, u: jax.Array, intervals: jax.Array | None = None, mesh: Any = None
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The gradient of a training pass, and its arguments."""
    weights, rest = eqx.partition(model, linoss.trainable(model))

    def loss(weights: Any, u: jax.Array) -> jax.Array:
        model = eqx.combine(weights, rest)
        answers, _ = model.training_pass(u, key=jax.random.key(0), intervals=intervals, mesh=mesh)
        return jnp.mean(answers**2)

    return jax.jit(jax.grad(loss)), (weights, u)


def report_forms(sizes: list[str], repeats: int) -> None:
    """The least time of several: other programs only ever add to it."""
    print("| size | form | gradient of an update | this / default |")
    print("|---|---|---|---|")
    for name in sizes:
        size, runs = SIZES[name], {}
        shape = (size.batch_size, size.length)
        u = jax.random.normal(jax.random.key(0), (*shape, size.in_size))
        irregular = jax.random.uniform(jax.random.key(1), shape, minval=0.5, maxval=1.5)
        for form, changes in FORMS.items():
            config = dataclasses.replace(efficiency.make_model(size).config, **changes)
            model = linoss.LinOSS(config, key=jax.random.key(2))
            runs[form] = update_of(model, u, irregular if "irregular" in form else None)
        for function, arguments in runs.values():
            seconds(function, arguments)
        times = {form: float("inf") for form in runs}
        for _ in range(repeats):
            times = {form: min(times[form], seconds(*run)) for form, run in runs.items()}
        for form, least in times.items():
            ratio = f"{least / times['default']:.2f}"
            print(f"| {name} | {form} | {1e3 * least:.0f} ms | {ratio} |", flush=True)


def report_threads(sizes: list[str], repeats: int) -> None:
    """A million steps; each number of cores has a process of its own."""
    print("| cores | the gradient of an update, 10^6 steps |")
    print("|---|---|")
    program = (
        "import os, sys; mine = sorted(os.sched_getaffinity(0));"
        "os.sched_setaffinity(0, mine[: int(sys.argv[1])]);"
        "import jax, linoss; from measure import seconds, update_of;"
        "config = linoss.LinOSSConfig(in_size=4, out_size=2, hidden_size=64, num_blocks=1);"
        "model = linoss.LinOSS(config, key=jax.random.key(0));"
        "run = update_of(model, jax.random.normal(jax.random.key(1), (1, 10**6, 4)));"
        "seconds(*run); print(min(seconds(*run) for _ in range(int(sys.argv[2]))))"
    )
    for cores in range(1, CORES + 1):
        command = [sys.executable, "-c", program, str(cores), str(repeats)]
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
        print(f"| {cores} | {1e3 * float(done.stdout):.0f} ms |", flush=True)


def report_features(sizes: list[str], repeats: int) -> None:
    """Features of 8192 oscillators."""
    from linoss.features import FeatureStream

    random = np.random.default_rng(0)
    features = linoss.OscillatorFeatures(random_state=0).fit(random.normal(size=(8, 500)))
    long = linoss.data.sequences(random.normal(size=(1, 1, 10**6)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    features.transform(long)
    spent = time.perf_counter() - start
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"one series of 10^6 steps: {spent:.1f} s, {peak:.0f} MB beyond the data")
    series = random.normal(size=(200, 500))
    kept = np.sort([random.choice(700, 500, replace=False) for _ in series], axis=1)
    anywhere = np.sort(random.uniform(0, 500, (200, 500)), axis=1)
    timed = linoss.OscillatorFeatures(random_state=0).fit(series, times=np.arange(500))
    ways = {
        "regular": lambda: timed.transform(series),
        "30 % of samples missing": lambda: timed.transform(series, times=kept),
        "anywhere in time": lambda: timed.transform(series, times=anywhere),
    }
    for name, (_, value) in take_turns({n: (w, ()) for n, w in ways.items()}, repeats).items():
        print(f"200 series of 500 samples, {name}: {1e3 * value:.0f} ms")
    causal = linoss.OscillatorFeatures(causal=True, random_state=0).fit(series)
    listen, samples = FeatureStream(causal), long.values[0]
    start = time.perf_counter()
    for sample in samples[:-1]:
        listen(sample)
    found = listen(samples[-1])
    spent = time.perf_counter() - start
    gap = np.abs(found - causal.transform(long)).max()
    print(f"a stream of 10^6 samples: {spent:.1f} us a sample, {gap:.1e} from the batch at its end")


def report_waiting(sizes: list[str], repeats: int) -> None:
    """Fits of 100 series of 200 samples, in processes whose cache of programs is empty at first."""
    code = (
        "import time, numpy as np\nfrom linoss import LinOSSClassifier\n"
        "random = np.random.default_rng(0)\n"
        "X, y = random.normal(size=(100, 200)), np.arange(100) % 2\n"
        "for _ in range(2):\n"
        "    start = time.perf_counter()\n"
        "    LinOSSClassifier(steps=1, random_state=0).fit(X, y)\n"
        "    print(time.perf_counter() - start)\n"
    )
    found: dict[str, list[float]] = {"first ever": [], "new process": [], "again": []}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as programs:
            for name in ("first ever", "new process"):
                ran = subprocess.run(
                    [sys.executable, "-c", code],
                    env={**os.environ, "LINOSS_CACHE": programs},
                    stdout=subprocess.PIPE,
                    check=True,
                )
                first, again = map(float, ran.stdout.split())
                found[name].append(first)
                found["again"].append(again)
    for name, values in found.items():
        print(f"{name}: {statistics.median(values):.1f} s")


def report_models(sizes: list[str], repeats: int, chosen: list[str] | None = None) -> None:
    """Each model and method in a process of its own, as `step` measures them."""
    print("| size | model | hidden, states, blocks | step | plain JAX | plain JAX / this |")
    print("|---|---|---|---|---|---|")
    for name in sizes:
        data_set = DATA_SETS[name]
        named = {model: efficiency.size_of(data_set, model) for model in ("lru", "s5", "im", "s6")}
        named["mamba"] = efficiency.size_of(data_set, "mamba")
        for mixer in ("s4", "s4d"):
            named[mixer] = dataclasses.replace(named["lru"], own={"mixer": mixer})
        if name != "worms":  # 18,000 steps of a solver, one after the other
            for model in ("ncde", "nrde", "log-ncde"):
                named[model] = efficiency.size_of(data_set, model)
        for model, size in named.items():
            if chosen and model not in chosen:
                continue
            methods = METHODS[:2] if model in ("lru", "s5") else METHODS[1:2]
            measured = efficiency.compare(size, repeats, methods)
            found: dict[str, float | None] = {
                method: one["step"] if one else None for method, one in measured.items()
            }
            plain, own = found.get("textbook"), found["linoss"] or float("nan")
            ratio = "" if plain is None else f"{plain / own:.1f}"
            shown = "" if plain is None else f"{1e3 * plain:.0f} ms"
            states = "–" if model in ("ncde", "nrde", "log-ncde") else size.state_size
            widths = f"{size.hidden_size}, {states}, {size.num_blocks}"
            step = f"{1e3 * own:.0f} ms"
            print(f"| {name} | {model} | {widths} | {step} | {shown} | {ratio} |", flush=True)


REPORTS = {
    "models": report_models,
    "features": report_features,
    "forms": report_forms,
    "threads": report_threads,
    "layer": report_layer,
    "step": report_step,
    "products": report_products,
    "tiles": report_tiles,
    "length": report_length,
    "stream": report_stream,
    "waiting": report_waiting,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=REPORTS)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--models", nargs="+", help="of `models`, these alone")
    options = parser.parse_args()
    further = (options.models,) if options.models else ()
    REPORTS[options.what](options.sizes, options.repeats, *further)


if __name__ == "__main__":
    main()
