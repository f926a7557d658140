"""Memory and run time of a training step: the textbook method against this library, here.

    python -m linoss.experiments.efficiency METHOD SIZE

is what a measurement consists of: a process that answers each line `step` with the seconds of one
training step, and `memory` with its peak above what it held before the first, in megabytes.
"""

import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from linoss.experiments import _paper, _textbook
from linoss.experiments._figures import Figures
from linoss.experiments._protocol import MODELS as SETTINGS
from linoss.experiments._protocol import NAMES, Options, hyperparameters
from linoss.experiments._results import Result, made_by, read_result, write_result
from linoss.experiments._runs import refuse_difference, say
from linoss.experiments._tables import ABSENT, table
from linoss.nn import LinOSS, LinOSSConfig, trainable

NAME, TITLE = "efficiency", "Memory and run time"
MODELS = ("im", "imex")
METHODS = ("textbook", "linoss")
DATA_SETS = (*_paper.UEA, "PPG")
REPEATS = {"paper": 5, "quick": 2}
Method = Literal["textbook", "linoss"]
_ENDED = "ended by the system"


@dataclass(frozen=True, kw_only=True)
class Size:
    """All that decides the work of a training step."""

    batch_size: int
    length: int
    in_size: int
    out_size: int
    hidden_size: int
    state_size: int
    num_blocks: int
    model: str
    every: int | None = None


def size_of(data_set: str, model: str) -> Size:
    """That of the paper's best model on a data set."""
    data, chosen = _paper.DATA_SETS[data_set], hyperparameters(data_set, model)
    return Size(
        batch_size=data.batch_size,
        length=data.length,
        in_size=data.channels + chosen.include_time,
        out_size=data.classes,
        hidden_size=chosen.hidden_size,
        state_size=chosen.state_size,
        num_blocks=chosen.num_blocks,
        model=model,
        every=data.every,
    )


def run(options: Options) -> None:
    """Measure both methods at every size, taking turns."""
    data_sets = options.data_sets or DATA_SETS
    todo = [(data_set, model) for data_set in data_sets for model in options.models or MODELS]
    repeats = options.max_steps or REPEATS[options.protocol]
    for place, (data_set, model) in enumerate(todo, start=1):
        folder = options.out / NAME / options.protocol / data_set / model
        settings = {"size": asdict(size_of(data_set, model)), "measured": {"repeats": repeats}}
        before = read_result(folder)
        if before is not None:
            if not options.resume:
                raise ValueError(f"{folder}: is there already; pass --resume, or another --out")
            refuse_difference(folder, before.settings, settings)
            continue
        start = time.monotonic()
        outcome = compare(size_of(data_set, model), repeats)
        result = Result(
            experiment=NAME,
            data_set=data_set,
            model=model,
            protocol=options.protocol,
            settings=settings,
            outcome=outcome,
            made=made_by(options.command(NAME), time.monotonic() - start),
        )
        write_result(folder, result)
        say(f"[{place}/{len(todo)}] {data_set}, {NAMES[model]}: {_faster(outcome)} times faster")


def expected() -> list[tuple[str, str]]:
    """The data sets and models that a full record has."""
    return [(data_set, model) for data_set in DATA_SETS for model in (*MODELS, "damped")]


def compare(size: Size, repeats: int) -> dict[str, dict[str, float] | None]:
    """For each method the first step, the median of the others, and the peak memory.

    None for a method whose process was ended, as systems do with one that needs too much memory.
    """
    workers = {method: Worker(method, size) for method in METHODS}
    times: dict[str, list[float]] = {method: [] for method in METHODS}
    peaks: dict[str, float] = {}
    try:
        for turn in range(repeats + 2):
            for method, worker in list(workers.items()):
                try:
                    if turn <= repeats:
                        times[method].append(worker.ask("step"))
                    else:
                        peaks[method] = worker.ask("memory")
                except EndedError as error:
                    say(f"  {error}")
                    workers.pop(method).end()
    finally:
        for worker in workers.values():
            worker.end()
    return {
        method: {
            "first_step": times[method][0],
            "step": statistics.median(times[method][1:]),
            "memory": peaks[method],
        }
        if method in peaks
        else None
        for method in METHODS
    }


class EndedError(RuntimeError):
    """A process that measures is no more."""


class Worker:
    """One method in a process of its own, so that memory is its own."""

    def __init__(self, method: str, size: Size):
        self.method = method
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__, method, json.dumps(asdict(size))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, line: str) -> float:
        """Its answer, a number."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            print(line, file=self.process.stdin, flush=True)
            return float(self.process.stdout.readline())
        except (BrokenPipeError, ValueError):
            code = self.process.wait()
            raise EndedError(
                f"the process that measures {self.method} has ended (code {code}), perhaps for "
                "want of memory"
            ) from None

    def end(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def training_step(method: Method, size: Size) -> Callable[[], None]:
    """Forward, backward and Adam for a whole model, on random data."""
    config = LinOSSConfig.published(
        in_size=size.in_size,
        out_size=size.out_size,
        hidden_size=size.hidden_size,
        state_size=size.state_size,
        num_blocks=size.num_blocks,
        task="classification" if size.every is None else "regression",
        every=size.every,
        **SETTINGS[size.model],
    )
    model = LinOSS(config, key=jax.random.key(0))
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
            answers = _textbook.model(model, u, key)
        else:
            answers, _ = model.train(u, key=key)
        if size.every is None:
            return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(answers, target))
        return jnp.mean((answers - target) ** 2)

    @eqx.filter_jit
    def step(weights: Any, rest: Any, state: Any, u: Any, target: Any, key: Any) -> Any:
        value, gradient = eqx.filter_value_and_grad(loss)(weights, rest, u, target, key)
        updates, state = optimizer.update(gradient, state)
        return eqx.apply_updates(weights, updates), state, value

    arguments = (weights, rest, optimizer.init(weights), u, target, jax.random.key(2))
    jax.block_until_ready(arguments)
    return lambda: jax.block_until_ready(step(*arguments))


def work(step: Callable[[], None]) -> None:
    """What a worker does: an answer for each line."""
    before = memory("VmRSS")
    for line in sys.stdin:
        if line == "step\n":
            start = time.perf_counter()
            step()
            answer = time.perf_counter() - start
        else:
            answer = memory("VmHWM") - before
        print(answer, flush=True)


def memory(field: str) -> float:
    """Of this process in megabytes: in use (VmRSS), or at its peak (VmHWM); where Linux tells."""
    path = Path("/proc/self/status")
    if not path.exists():
        return 0.0
    (line,) = (line for line in path.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


def report(results: list[Result], figures: Figures) -> str:
    """Both methods beside the paper's GPU."""
    lines = [
        "A training step (forward, backward, Adam), as the seconds that 1000 of them take, and the "
        "peak memory above what the process held before. The paper's are those of a GPU, an Nvidia "
        "RTX 4090; the textbook method is the paper's, on this machine: complex arithmetic, the "
        "matrix repeated for every sample, `jax.lax.associative_scan`.",
        "",
    ]
    rows, ratios = [], []
    for result in sorted(results, key=lambda r: DATA_SETS.index(r.data_set)):
        textbook, ours = (result.outcome[method] for method in METHODS)
        paper = (numbers.get(result.model, {}) for numbers in (_paper.RUN_TIME, _paper.MEMORY))
        seconds, megabytes = (numbers.get(result.data_set) for numbers in paper)
        if textbook and ours:
            ratios.append(textbook["step"] / ours["step"])
        rows.append(
            [
                _paper.DATA_SETS[result.data_set].short,
                NAMES[result.model],
                *(f"{1000 * m['step']:.0f} s" if m else _ENDED for m in (textbook, ours)),
                _faster(result.outcome),
                ABSENT if seconds is None else f"{seconds} s",
                *(f"{m['memory']:.0f} MB" if m else _ENDED for m in (textbook, ours)),
                ABSENT if megabytes is None else f"{megabytes} MB",
            ]
        )
    head = ["set", "model", "textbook", "linoss", "faster", "paper, GPU"]
    lines += [table([*head, "textbook", "linoss", "paper, GPU"], rows), ""]
    if ratios:
        lines.append(f"Geometric mean: {statistics.geometric_mean(ratios):.1f} times faster.")
    return "\n".join(lines)


def _faster(outcome: dict[str, Any]) -> str:
    textbook, ours = (outcome[method] for method in METHODS)
    return f"{textbook['step'] / ours['step']:.1f}" if textbook and ours else ABSENT


if __name__ == "__main__":
    work(training_step(sys.argv[1], Size(**json.loads(sys.argv[2]))))  # pyright: ignore
