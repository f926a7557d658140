"""Memory and run time of a training step: the textbook method compared with this library."""

import functools
import itertools
import math
import multiprocessing
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from linoss.nn import LinOSS, LinOSSConfig, trainable
from paper import numbers, runs, textbook
from paper.models import BASELINES, CDES, MODELS, counted, title
from paper.numbers import PublishedRun
from paper.runs import Experiment, Options, Result
from paper.tables import table

REPEATS = {"paper": 5, "quick": 2}
Method = Literal["textbook", "linoss", "linoss, bfloat16"]
METHODS: tuple[Method, ...] = ("textbook", "linoss")
KEPT = 10**9
"""Bytes of intermediate results kept for the backward pass, as by default in `train`."""
_SETS = (*numbers.UEA, "PPG")


@dataclass(frozen=True, kw_only=True)
class MeasuredSize:
    """The sizes that determine the cost of a training step."""

    batch_size: int
    length: int
    in_size: int
    out_size: int
    hidden_size: int
    state_size: int
    num_blocks: int
    model: str
    every: int | None = None
    own: dict[str, Any] = field(default_factory=dict)
    """Settings that only this model has."""


def size_of(data_set: str, model: str) -> MeasuredSize:
    """The size of the paper's best model on a data set."""
    data, (chosen, own) = numbers.DATA_SETS[data_set], counted(data_set, model)
    return MeasuredSize(
        batch_size=data.batch_size,
        length=data.length,
        in_size=data.channels + chosen.include_time,
        out_size=data.classes,
        hidden_size=chosen.hidden_size,
        state_size=chosen.state_size,
        num_blocks=chosen.num_blocks,
        model=model,
        every=data.every,
        own=own,
    )


def run(options: Options) -> None:
    """Measure both methods at every size, alternately; only this library's for CDEs, which have a
    solver instead of blocks."""
    repeats = options.max_steps or REPEATS[options.protocol]
    for data_set, model in itertools.product(options.data_sets or _SETS, options.models):
        size, methods = size_of(data_set, model), METHODS[model in CDES :]
        runs.measure_once(
            options,
            functools.partial(compare, size, repeats, methods),
            data_set=data_set,
            model=model,
            protocol=options.protocol,
            settings={"size": asdict(size), "measured": {"repeats": repeats}},
        )


def compare(
    size: MeasuredSize, repeats: int, methods: Sequence[Method] = METHODS
) -> dict[str, dict[str, Any] | None]:
    """For each method the first step, the median of the following turns, and the peak memory.

    None for a method whose process has ended, for example because of too little memory, and for
    memory if the system does not report it.
    """
    workers = {method: worker(method, size) for method in methods}
    asks = [step, *[turn] * repeats, peak]
    answers: dict[str, list[float]] = {method: [] for method in methods}
    for ask in asks:
        for method, process in list(workers.items()):
            try:
                answers[method].append(process.submit(ask).result())
            except BrokenProcessPool:
                runs.say(f"  the process that measures {method} has ended, perhaps for memory")
                workers.pop(method).shutdown()
    for process in workers.values():
        process.shutdown()
    return {
        method: {
            "first_step": found[0],
            "step": statistics.median(found[1:-1]),
            "memory": None if math.isnan(found[-1]) else found[-1],
        }
        if len(found) == len(asks)
        else None
        for method, found in answers.items()
    }


def worker(method: Method, size: MeasuredSize) -> ProcessPoolExecutor:
    """A process of its own for a method, so that its memory can be measured; `submit` to it
    `step`, `turn` and `peak`."""
    return ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn"), initializer=_begin, initargs=(method, size)
    )


_STEP: Any = None
_BEFORE = 0.0


def _begin(method: Method, size: MeasuredSize) -> None:
    global _STEP, _BEFORE
    _STEP = training_step(method, size)
    _BEFORE = memory("VmRSS")


def step() -> float:
    """Seconds of a step of this process."""
    start = time.perf_counter()
    _STEP()
    return time.perf_counter() - start


def turn() -> float:
    """Seconds of a step that follows another one, as in training.

    The first step of a turn still waits for the system to reclaim the memory of the other method.
    """
    step()
    return step()


def peak() -> float:
    """Peak memory of all steps, in megabytes above that before the first."""
    return memory("VmHWM") - _BEFORE


def make_model(size: MeasuredSize, precision: str = "float32") -> LinOSS:
    """The paper's model with that size."""
    config = LinOSSConfig.published(
        in_size=size.in_size,
        out_size=size.out_size,
        hidden_size=size.hidden_size,
        state_size=size.state_size,
        num_blocks=size.num_blocks,
        task="classification" if size.every is None else "regression",
        every=size.every,
        precision=precision,
        **{**MODELS[size.model].settings, **size.own},
    )
    return LinOSS(config, key=jax.random.key(0))


def training_step(method: Method, size: MeasuredSize) -> Callable[[], None]:
    """Forward, backward and Adam for a whole model, on random data."""
    model = make_model(size, "bfloat16" if "bfloat16" in method else "float32")
    weights, rest = eqx.partition(model, trainable(model))
    optimizer = optax.adam(1e-3)
    key = jax.random.key(1)
    u = jax.random.normal(key, (size.batch_size, size.length, size.in_size))
    if size.every is None:
        target = jax.random.randint(key, (size.batch_size,), 0, size.out_size)
    else:
        shape = (size.batch_size, size.length // size.every, size.out_size)
        target = jax.random.uniform(key, shape)

    def loss(weights: Any, rest: Any, u: jax.Array, target: jax.Array, key: jax.Array) -> Any:
        model = eqx.combine(weights, rest)
        if method == "textbook":
            answers, norms = textbook.model(model, u, key), None
        else:
            answers, norms = model.training_pass(u, key=key, memory=KEPT)
        if size.every is None:
            losses = optax.softmax_cross_entropy_with_integer_labels(answers, target)
        else:
            losses = (answers - target) ** 2
        return jnp.mean(losses), norms

    @eqx.filter_jit
    def step(weights: Any, rest: Any, state: Any, u: Any, target: Any, key: Any) -> Any:
        (value, norms), gradient = eqx.filter_value_and_grad(loss, has_aux=True)(
            weights, rest, u, target, key
        )
        updates, state = optimizer.update(gradient, state)
        return eqx.apply_updates(weights, updates), state, value, norms

    arguments = (weights, rest, optimizer.init(weights), u, target, jax.random.key(2))
    jax.block_until_ready(arguments)
    return lambda: jax.block_until_ready(step(*arguments))


def memory(field: str) -> float:
    """Memory of this process in megabytes, current (VmRSS) or peak (VmHWM); only on Linux."""
    path = Path("/proc/self/status")
    if not path.exists():
        return math.nan
    (line,) = (line for line in path.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


def report(results: Sequence[Result], folder: Path, published: Sequence[PublishedRun]) -> str:
    """Both methods compared with the paper's GPU."""
    rows, ratios = [], []
    for result in sorted(results, key=lambda r: _SETS.index(r.data_set)):
        textbook, linoss = (result.outcome.get(method, {}) for method in METHODS)
        ratio = textbook["step"] / linoss["step"] if textbook and linoss else None
        if ratio and result.model not in BASELINES:
            ratios.append(ratio)
        theirs = (of.get(result.model, {}) for of in (numbers.RUN_TIME, numbers.MEMORY))
        seconds, megabytes = (of.get(result.data_set) for of in theirs)
        rows.append(
            [
                numbers.DATA_SETS[result.data_set].short,
                title(result.model),
                *(_number(of, "step", 1000) for of in (textbook, linoss)),
                f"{ratio:.1f}" if ratio else "",
                f"{seconds}" if seconds else "",
                *(_number(of, "memory", 1) for of in (textbook, linoss)),
                f"{megabytes}" if megabytes else "",
            ]
        )
    head = ["set", "model", "seconds, textbook", "linoss", "ratio", "paper, GPU"]
    head += ["MB, textbook", "linoss", "paper, GPU"]
    machines = sorted({str(result.made.get("machine")) for result in results})
    mean = f" LinOSS: {statistics.geometric_mean(ratios):.1f} times faster." if ratios else ""
    lines = [table(head, rows), "", f"Measured on {'; '.join(machines)}.{mean}"]
    return "\n".join(lines)


def _number(measured: dict[str, Any] | None, name: str, scale: int) -> str:
    if measured is None:
        return "has ended"
    value = measured.get(name)
    return "" if value is None else f"{scale * value:.0f}"


EXPERIMENT = Experiment(
    title="Memory and run time",
    run=run,
    report=report,
    data_sets=_SETS,
    models=("im", "imex"),
    others=("damped", *BASELINES),
)
