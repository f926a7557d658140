"""Dissipative against conservative: LinOSS-IM and LinOSS-IMEX learn simple harmonic motion.

    python -m linoss.experiments.harmonic_motion

A sequence tells the model the initial position A and velocity B of y'' = -y (the paper's text has
lost the minus sign) at every step; the model answers with y(t) at each of the steps.
"""

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jaxtyping import Float, PRNGKeyArray

from linoss.nn import LinOSS, LinOSSConfig, trainable

TIMESTEP = 0.1


def simple_harmonic_motion(
    key: PRNGKeyArray, cases: int, steps: int = 1000
) -> tuple[Float[Array, "cases steps 2"], Float[Array, "cases steps 1"]]:
    """Inputs (A, B), uniform on [0, 1] and repeated at every step, and y(t) = A cos t + B sin t."""
    initial = jax.random.uniform(key, (cases, 1, 2))
    t = TIMESTEP * jnp.arange(1, steps + 1)
    motion = initial[..., 0] * jnp.cos(t) + initial[..., 1] * jnp.sin(t)
    return jnp.broadcast_to(initial, (cases, steps, 2)), motion[..., None]


def fit(
    scheme: str,
    data: tuple[Array, Array],
    *,
    updates: int,
    batch_size: int = 32,
    learning_rate: float = 3e-3,
    seed: int = 0,
    progress: Callable[[int, float], None] = lambda update, loss: None,
) -> LinOSS:
    """A model trained on the mean squared error by Adam with a cosine schedule."""
    config = LinOSSConfig(
        in_size=2,
        out_size=1,
        hidden_size=32,
        state_size=32,
        num_blocks=2,
        task="regression",
        every=1,
        scheme=scheme,
        norm=None,
        dropout=0.0,
    )
    model_key, shuffle_key = jax.random.split(jax.random.key(seed))
    model = LinOSS(config, key=model_key)
    weights, rest = eqx.partition(model, trainable(model))
    schedule = optax.warmup_cosine_decay_schedule(0.0, learning_rate, updates // 10, updates)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(schedule))

    def loss(weights: Any, u: Array, y: Array) -> Array:
        answers, _ = eqx.combine(weights, rest).train(u, key=shuffle_key)
        return jnp.mean((answers - y) ** 2)

    @eqx.filter_jit
    def update(weights: Any, state: Any, u: Array, y: Array) -> tuple[Any, Any, Array]:
        value, gradient = eqx.filter_value_and_grad(loss)(weights, u, y)
        change, state = optimizer.update(gradient, state)
        return eqx.apply_updates(weights, change), state, value

    u, y = data
    state = optimizer.init(weights)
    for i in range(updates):
        chosen = jax.random.randint(jax.random.fold_in(shuffle_key, i), (batch_size,), 0, len(u))
        weights, state, value = update(weights, state, u[chosen], y[chosen])
        progress(i + 1, float(value))
    return eqx.combine(weights, rest)


def error_over_time(model: LinOSS, data: tuple[Array, Array]) -> Float[np.ndarray, " steps"]:
    """The mean squared error over the cases, at each step."""
    u, y = data
    return np.mean(np.asarray(model(u) - y) ** 2, axis=(0, 2))


def main() -> None:
    """Train both models and print their errors."""
    parser = argparse.ArgumentParser(prog="python -m linoss.experiments.harmonic_motion")
    parser.add_argument("--updates", type=int, default=300, help="training steps for each model")
    parser.add_argument("--plot", metavar="FILE", help="draw the errors over time into this file")
    options = parser.parse_args()
    train_key, test_key = jax.random.split(jax.random.key(2345))
    train, test = simple_harmonic_motion(train_key, 2000), simple_harmonic_motion(test_key, 500)
    errors = {}
    for name, scheme in (("LinOSS-IMEX", "imex"), ("LinOSS-IM", "im")):
        start = time.monotonic()

        def show(i: int, loss: float, name: str = name, start: float = start) -> None:
            left = (time.monotonic() - start) / i * (options.updates - i)
            line = f"\r{name}: update {i}/{options.updates}, loss {loss:.5f}, {left:.0f} s left "
            print(line, end="", file=sys.stderr, flush=True)

        model = fit(scheme, train, updates=options.updates, progress=show)
        print(file=sys.stderr)
        errors[name] = error_over_time(model, test)
    print(f"{'mean squared error':20}{'t <= 10':>12}{'45 to 55':>12}{'90 to 100':>12}{'all':>12}")
    for name, error in errors.items():
        parts = (error[:100], error[450:550], error[900:], error)
        print(f"{name:20}" + "".join(f"{np.mean(part):12.1e}" for part in parts))
    if options.plot:
        plot(errors, options.plot)


def plot(errors: dict[str, np.ndarray], path: str) -> None:
    """Both errors over time, as in the paper's figure."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    for name, error in errors.items():
        axes.semilogy(TIMESTEP * np.arange(1, len(error) + 1), error, label=name, linewidth=1)
    axes.set(xlabel="time t", ylabel="mean squared error", title="Simple harmonic motion, held out")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
