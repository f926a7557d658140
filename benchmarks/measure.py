"""Side-by-side measurements in one run: `python benchmarks/measure.py --help`.

Times are medians of repeats that take turns. Memory is the peak of a process of its own, which does
nothing else, above what it held before the first step.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import linoss

sys.path.insert(0, str(Path(__file__).parent))
import textbook
from configurations import SIZES

METHODS = ("textbook", "linoss")


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
    for engine in ("sequential", "chunked", "associative"):
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


def peak_memory(size_name: str, method: str) -> float:
    """Megabytes that two training steps need, in a process of their own."""
    command = [sys.executable, __file__, "memory-of-one", "--sizes", size_name, "--method", method]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def memory_of_one(size_name: str, method: str) -> None:
    """Print the peak memory of two training steps above that of the process before them."""
    function, arguments = training_step(size_name, method)
    jax.block_until_ready(arguments)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(2):
        jax.block_until_ready(function(*arguments))
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


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
    print("| size | method | first step | step | textbook / this | peak memory |")
    print("|---|---|---|---|---|---|")
    for name in sizes:
        memory = {method: peak_memory(name, method) for method in METHODS}
        results = take_turns({m: training_step(name, m) for m in METHODS}, repeats)
        for method, (first, median) in results.items():
            ratio = results["textbook"][1] / median
            print(
                f"| {name} | {method} | {first:.1f} s | {1e3 * median:.0f} ms | {ratio:.1f} "
                f"| {memory[method]:.0f} MB |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("layer", "step", "memory-of-one"))
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--method", choices=METHODS, help="for memory-of-one")
    options = parser.parse_args()
    if options.what == "memory-of-one":
        memory_of_one(options.sizes[0], options.method)
    else:
        report = report_layer if options.what == "layer" else report_step
        report(options.sizes, options.repeats)


if __name__ == "__main__":
    main()
