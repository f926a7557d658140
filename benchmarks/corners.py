"""What is not a training step on a CPU's fast path: `python benchmarks/corners.py --help`.

- `cost`: operations and bytes of a scan and its gradient by the parallel scan, for accelerators:
  the account of XLA's compiler for CPUs, since no accelerator is asked for.
- `outside`: what kernels do not cover, against what they do; `linoss doctor` and `linoss plan` tell
  these factors.
- `growth`: how fast the schemes with a stability bound grow on irregular intervals, and after how
  many steps single precision would overflow.
"""

import argparse
import dataclasses
import math
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from measure import SIZES, take_turns, update_of

import linoss
from linoss.dynamics import SCHEMES
from linoss.kernels import OUTSIDE_KERNELS
from paper import efficiency


def report_cost(sizes: list[str], repeats: int) -> None:
    print("| size | engine | operations | bytes | passes over the forces |")
    print("|---|---|---|---|---|")
    for name in sizes:
        size = SIZES[name]
        m = 2 * size.state_size  # complex oscillators are pairs
        number = partial(jax.ShapeDtypeStruct, dtype=jnp.float32)
        force = number((size.batch_size, size.length, m))
        for engine in ("associative",):
            program = jax.jit(partial(_scan_and_gradient, engine))
            found: Any = program.lower(number((m,)), force, force).compile().cost_analysis()
            moved = found["bytes accessed"]
            print(
                f"| {name} | {engine} | {found['flops'] / 1e9:.2f} billion | {moved / 1e9:.2f} GB "
                f"| {moved / (4 * math.prod(force.shape)):.0f} |",
                flush=True,
            )


def _scan_and_gradient(engine: str, A: Any, force: Any, d: Any) -> Any:
    def scan(step: Any, force: Any) -> Any:
        return linoss.oscillator_scan(step, force, engine=engine)[0]

    y, pull_back = jax.vjp(scan, linoss.discretize("im", A, 0.5), force)
    return y, pull_back(d)


def report_outside(sizes: list[str], repeats: int) -> None:
    """An update of each, at sizes of which twice as much fits the machine."""
    print("| size | what | against native blocks |")
    print("|---|---|---|")
    for name in sizes:
        for words, (outside, inside) in _outside(SIZES[name]).items():
            times = take_turns({"outside": outside(), "inside": inside()}, repeats)
            print(f"| {name} | {words} | {times['outside'][1] / times['inside'][1]:.1f} |")


def _outside(size: Any) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """For each entry of OUTSIDE_KERNELS, an update outside and the same model inside."""
    shape = (size.batch_size, size.length // 2 * 2)  # of which two devices have halves
    config = efficiency.make_model(size).config
    random = np.random.default_rng(0)
    u = random.normal(size=(*shape, size.in_size)).astype(np.float32)
    uneven = jnp.asarray(random.uniform(0.5, 1.5, shape).astype(np.float32))
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(1, -1), ("batch", "time"))

    def update(*, intervals: Any = None, mesh: Any = None, **changes: Any) -> Any:
        model = linoss.LinOSS(dataclasses.replace(config, **changes), key=jax.random.key(0))
        return update_of(model, jnp.asarray(u), intervals, mesh)

    def double() -> Any:
        with jax.enable_x64(True):
            model = efficiency.make_model(size)
            model = jax.tree.map(
                lambda x: x.astype(jnp.float64) if jnp.issubdtype(x.dtype, jnp.floating) else x,
                model,
            )
            function, arguments = update_of(model, jnp.asarray(u.astype(np.float64)))

        def run(*arguments: Any) -> Any:
            with jax.enable_x64(True):
                return jax.block_until_ready(function(*arguments))

        return run, arguments

    def formless() -> Any:
        known, SCHEMES["im"] = SCHEMES["im"], dataclasses.replace(SCHEMES["im"], native=None)
        function, arguments = update(intervals=uneven)
        compiled = function.lower(*arguments).compile()
        SCHEMES["im"] = known
        jax.clear_caches()  # of programs that were traced meanwhile
        return compiled, arguments

    runs = (
        (double, update),
        (formless, partial(update, intervals=uneven)),
        (partial(update, mesh=mesh, norm="layer"), partial(update, mesh=mesh)),
    )
    return dict(zip(OUTSIDE_KERNELS, runs, strict=True))


def report_growth(sizes: list[str], repeats: int) -> None:
    """The largest rate over oscillators, of a free motion over 10^5 exponential intervals."""
    print("| scheme | growth of a step | steps to overflow |")
    print("|---|---|---|")
    steps, m = 100_000, 32
    for name, scheme in SCHEMES.items():
        if scheme.longest is None:
            continue
        with jax.enable_x64(True):
            random = np.random.default_rng(0)
            bank = linoss.Oscillators(m, scheme=name, timestep=1.0, key=jax.random.key(0))
            bank = eqx.tree_at(lambda b: b.raw_stiffness, bank, jnp.linspace(0.05, 3.9, m))
            pieces = random.exponential(size=(steps // 1000, 1000)) + 1e-3
            state, total = jnp.broadcast_to(jnp.array([1.0, 0.3]), (m, 2)), np.zeros(m)
            for intervals in pieces:
                step = bank.transition(jnp.asarray(intervals))
                _, state = linoss.oscillator_scan(
                    step, jnp.zeros((1000, m)), initial_state=state, engine="sequential"
                )
                size = jnp.linalg.norm(state, axis=-1)
                total, state = total + np.log(size), state / size[:, None]
        rate = float(np.max(total)) / steps
        print(f"| {name} | {rate:.1e} | {88 / rate:,.0f} |")


REPORTS = {"cost": report_cost, "outside": report_outside, "growth": report_growth}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=REPORTS)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["heartbeat", "worms"])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    REPORTS[options.what](options.sizes, options.repeats)


if __name__ == "__main__":
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    main()
