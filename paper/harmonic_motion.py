"""Dissipative and conservative schemes: LinOSS-IM and LinOSS-IMEX learn simple harmonic motion.

The input at every step is the initial position A and velocity B of y'' = -y (the minus sign is
missing in the paper's text); the output at every step is y(t). The paper does not describe the
training: here it is Adam with a cosine schedule, without norm and dropout.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, PRNGKeyArray

from linoss.data import Sequences
from linoss.nn import LinOSS
from linoss.training import Inputs, Regression, TrainingConfig, predict
from paper import numbers
from paper.models import Hyperparameters, title
from paper.numbers import PublishedRun, Spread
from paper.runs import Experiment, Options, Problem, Result, Run, execute
from paper.tables import figure, groups, printed, table

NAME = "harmonic-motion"
TIMESTEP = 0.1
CASES = (2000, 500, 500)
"""Number of cases for training, validation and testing."""
STEPS = 1000
"""Steps of a sequence."""
UPDATES = {"paper": 2000, "quick": 300}
_SIZES = Hyperparameters(3e-3, 32, 32, 2, include_time=False)
_CHANGES = {"norm": None, "dropout": 0.0, "squash": False, "gelu": "erf"}
_HEAD = {"task": "regression", "every": 1}


def run(options: Options) -> None:
    """Train every model, by default with the first seed."""
    execute(runs_of(options), make_problem, options, measure)


def runs_of(options: Options) -> list[Run]:
    """All runs."""
    updates = options.max_steps or UPDATES[options.protocol]
    return [
        Run(
            experiment=NAME,
            data_set=NAME,
            model=model,
            seed=seed,
            protocol=options.protocol,
            hyperparameters=_SIZES,
            training=training_config(updates, seed=seed),
            changes=_CHANGES,
        )
        for model in options.models
        for seed in options.seeds
    ]


def simple_harmonic_motion(
    key: PRNGKeyArray, cases: int, steps: int = 1000
) -> tuple[Float[Array, "cases steps 2"], Float[Array, "cases steps 1"]]:
    """Inputs (A, B), uniform on [0, 1] and repeated at every step, and y(t) = A cos t + B sin t."""
    initial = jax.random.uniform(key, (cases, 1, 2))
    t = TIMESTEP * jnp.arange(1, steps + 1)
    motion = initial[..., 0] * jnp.cos(t) + initial[..., 1] * jnp.sin(t)
    return jnp.broadcast_to(initial, (cases, steps, 2)), motion[..., None]


def sequences(data: tuple[Array, Array]) -> Sequences:
    """Inputs and motions as cases with labels."""
    u, y = (np.asarray(array) for array in data)
    return Sequences(list(u.astype(np.float32)), y)


def make_problem(run: Run) -> Problem:
    """The three sets of a seed."""
    keys = jax.random.split(jax.random.key(run.seed), 3)
    training, validation, test = (
        sequences(simple_harmonic_motion(key, cases, STEPS))
        for key, cases in zip(keys, CASES, strict=True)
    )
    inputs = Inputs.from_sequences(training, scale=False, indicators=False)
    return Problem(inputs, Regression(every=1), training, validation, test, _HEAD)


def training_config(updates: int, *, seed: int = 0) -> TrainingConfig:
    """The settings of the training."""
    return TrainingConfig(
        steps=updates,
        batch_size=32,
        learning_rate=_SIZES.learning_rate,
        warmup=updates // 10,
        schedule="cosine",
        clip_norm=1.0,
        evaluate_every=max(updates // 20, 1),
        seed=seed,
    )


def measure(model: LinOSS, problem: Problem) -> dict[str, Any]:
    """The error at each step of time."""
    assert isinstance(problem.test, Sequences)
    error = error_over_time(model, problem.test)
    return {"error_over_time": [float(f"{value:.6g}") for value in error]}


def error_over_time(model: LinOSS, cases: Sequences) -> Float[np.ndarray, " steps"]:
    """The mean squared error over the cases, at each step."""
    inputs = Inputs.from_sequences(cases, scale=False, indicators=False)
    answers = np.asarray(predict(model, inputs, cases), np.float64)
    return np.mean((answers - np.asarray(cases.labels)) ** 2, axis=(0, 2))


def parts(error: Any) -> list[float]:
    """The mean error over the first, the middle and the last tenth of the time, and over all."""
    error, tenth = np.asarray(error), max(len(error) // 10, 1)
    middle = (len(error) - tenth) // 2
    parts = (error[:tenth], error[middle : middle + tenth], error[-tenth:], error)
    return [float(np.mean(part)) for part in parts]


def report(results: Sequence[Result], folder: Path, published: Sequence[PublishedRun]) -> str:
    """Errors times 10^4 early and late, the factor between the models, and the figure.

    The paper: LinOSS-IMEX's error stays flat, LinOSS-IM's grows, and at the end is more than eight
    times as large.
    """
    lines: list[str] = []
    measured = [result for result in results if "error_over_time" in result.outcome]
    for (protocol,), chosen in groups(measured, "protocol").items():
        models = groups(chosen, "model")
        errors = {
            model: np.array([run.outcome["error_over_time"] for run in runs])
            for (model,), runs in models.items()
        }
        tenths = {model: np.array([parts(error) for error in errors[model]]) for model in errors}
        rows = []
        for (model,), runs in models.items():
            means = tenths[model].mean(0)
            spreads = tenths[model].std(0) if len(runs) > 1 else [None] * 4
            cells = [
                printed(Spread(1e4 * x, s and 1e4 * s)) for x, s in zip(means, spreads, strict=True)
            ]
            steps = max(run.outcome["steps"] for run in runs)
            last = ""
            if "imex" in tenths and len(tenths["imex"]) == len(runs):
                ratios = tenths[model][:, 2] / tenths["imex"][:, 2]
                last = f"{np.median(ratios):.3g} ({ratios.min():.2g}–{ratios.max():.2g})"
            rows.append([title(model), f"{len(runs)}×{steps:,}", *cells, last])
        head = ["model", "seeds × steps", "first tenth", "middle", "last", "all"]
        lines += [table([*head, "last, by LinOSS-IMEX's of a seed"], rows)]
        about = "Mean error over time, and its range over the seeds."
        with figure(folder, f"{NAME}-{protocol}", about, lines) as axes:
            for model, error in errors.items():
                times = TIMESTEP * np.arange(1, error.shape[1] + 1)
                axes.semilogy(times, error.mean(0), label=title(model), linewidth=1)
                axes.fill_between(times, error.min(0), error.max(0), alpha=0.2, linewidth=0)
            axes.set(xlabel="time t", ylabel="mean squared error", title="Test sequences")
            axes.figure.legend(loc="outside lower center", ncols=len(errors), frameon=False)
        lines.append("")
    return "\n".join(lines)


EXPERIMENT = Experiment(
    title="Simple harmonic motion",
    run=run,
    report=report,
    models=("im", "imex", "verlet"),
    others=("damped", "exact"),
    seeds=numbers.SEEDS[:1],
)
