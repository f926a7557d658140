"""Training a model: the loop, its evaluations and its end."""

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from linoss import _programs
from linoss._declare import check_value
from linoss._files import locked, make_directory
from linoss._interrupts import noted_interrupts
from linoss._settings import MEMORY, Memory
from linoss.dynamics import find_scheme
from linoss.nn import LinOSS
from linoss.scan import resolve_engine
from linoss.training._callbacks import Callback, Progress
from linoss.training._config import TrainingConfig
from linoss.training._devices import Devices
from linoss.training._inputs import Cases, Inputs
from linoss.training._objectives import Objective
from linoss.training._predict import Order, check_model, metric_and_loss
from linoss.training._result import TrainingError, TrainingResult, TrainingStopped
from linoss.training._run_directory import RunDirectory, RunState
from linoss.training._saved import describe
from linoss.training._step import StepSettings, compiled, first_carry, learning_rate, update

_SAVE_EVERY = 120  # seconds between checkpoints, if no evaluation writes one
_LOOK_EVERY = 0.5  # seconds between transfers of the loss from the device
_LOOK_AT_EVERY = 20  # updates between transfers with several processes
_HUGE = 1e3  # deviations from the mean
# Updates below min_loss before the end: running statistics of norms follow the weights by 0.9 each,
# and those of a few updates would predict unlike the batches that were learned.
_LEARNED = 40


@_programs.kept_programs()
def train(
    model: LinOSS,
    inputs: Inputs,
    objective: Objective,
    training_set: Cases,
    validation_set: Cases | None,
    config: TrainingConfig,
    *,
    directory: str | os.PathLike[str] | None = None,
    resume: bool = False,
    on_progress: Callback | None = None,
    mesh: Mesh | None = None,
    memory: int = MEMORY,
) -> TrainingResult:
    """Train a model with Adam, and keep the weights that are best on held-out cases.

    The run is a function of its arguments: on the same machine, the same arguments give bitwise
    identical weights, even if the run was killed and resumed. The exception is a run that `minutes`
    ends before `steps`, which depends on the speed of the machine.

    **Arguments:**

    - `model`: the initial model.
    - `inputs`: the conversion of data to the model's inputs, see [`linoss.training.Inputs`][].
    - `objective`: [`linoss.training.Classification`][], [`linoss.training.Regression`][] or
      [`linoss.training.Forecasting`][].
    - `training_set`, `validation_set`: [`linoss.data.Sequences`][] with labels, or
      [`linoss.training.Windows`][]. Without a validation set, the last weights are kept.
    - `config`: see [`linoss.training.TrainingConfig`][].
    - `directory`: the directory for the model, the history, and a checkpoint at each evaluation
      and every two minutes.
      Raises if it already holds a run, unless `resume`.
    - `resume`: continue the run in `directory`, which must have the same settings; begin one if
      there is none.
    - `on_progress`: called with a [`linoss.training.Progress`][], at most a few times a second.
    - `mesh`: devices to train on, see [`linoss.training.make_mesh`][]; `batch_size` must be a
      multiple of those along the batch. After `jax.distributed.initialize`, each process calls
      `train` with the same arguments, and the first one writes. A run can be resumed on other
      devices.
    - `memory`: bytes of intermediate results that an update may keep for the backward pass on each
      device, in addition to the inputs of blocks, instead of recomputing them. Does not change
      results.

    A loss that is not finite raises [`linoss.training.TrainingError`][]; its `result` and
    `directory` hold the last good state. Ctrl-C writes a checkpoint to `directory` and raises
    [`linoss.training.TrainingStopped`][], a KeyboardInterrupt, whose `result` is the state so far.

    ```python
    >>> import jax, linoss, numpy as np
    >>> import linoss.data
    >>> from linoss.training import Classification, Inputs, TrainingConfig, train
    >>> labels = np.arange(32) % 2
    >>> series = np.random.default_rng(0).normal(size=(32, 1, 40)) + labels[:, None, None]
    >>> cases = linoss.data.sequences(series, y=labels)
    >>> inputs, objective = Inputs.from_sequences(cases), Classification.from_labels(labels)
    >>> sizes = linoss.LinOSSConfig(in_size=1, out_size=2, hidden_size=8, state_size=8)
    >>> model = linoss.LinOSS(sizes, key=jax.random.key(0))
    >>> config = TrainingConfig(steps=30, evaluate_every=10, learning_rate=1e-2)
    >>> result = train(model, inputs, objective, cases, cases, config)
    >>> result.best_metric
    1.0

    ```
    """
    check_model(model, inputs)
    for name, cases in (("training_set", training_set), ("validation_set", validation_set)):
        if cases is not None:
            _check_cases(name, cases, inputs, objective, model)
    if mesh is None and jax.process_count() > 1:
        raise ValueError(
            f"mesh is None, but there are {jax.process_count()} processes; pass "
            "linoss.training.make_mesh(number of all devices)"
        )
    if config.minutes is not None and jax.process_count() > 1:
        raise ValueError(
            f"minutes is {config.minutes}, but there are {jax.process_count()} processes, whose "
            "clocks differ; set steps instead"
        )
    _warn_of_cut_steps(model, inputs)
    check_value("memory", memory, Memory)
    sets = training_set, validation_set
    loop = _Loop(model, inputs, objective, *sets, config, on_progress, Devices(mesh), memory)
    if directory is None:
        if resume:
            raise ValueError("resume is True, but directory is None; pass the directory of the run")
        return loop.run()
    data = {"training": _facts(training_set), "validation": _facts(validation_set)}
    description = describe(model, inputs, objective, config, data)
    if not loop.devices.writes:
        return loop.run()
    make_directory(Path(directory))
    with locked(Path(directory)) as folder:
        loop.files = RunDirectory(folder)
        if resume:
            loop.state = loop.files.resume(description, loop.state)
        else:
            loop.files.create(description, loop.state)
        try:
            return loop.run()
        except (KeyboardInterrupt, SystemExit):
            loop.save_if_good()
            raise


def _warn_of_cut_steps(model: LinOSS, inputs: Inputs) -> None:
    scheme = model.config.scheme
    if inputs.irregular and find_scheme(scheme).longest is not None:
        warnings.warn(
            f"scheme is {scheme!r}, which is stable for short steps only, and the times are "
            "irregular: steps between samples are limited to h = 1/sqrt(A) for each oscillator. "
            "'im' and 'exact' have no such limit",
            stacklevel=3,
        )


def _facts(cases: Cases | None) -> dict[str, int] | None:
    """Sizes of the data, to detect a resumption with other data."""
    return None if cases is None else {"cases": len(cases), "steps": int(np.sum(cases.lengths))}


def _check_cases(
    name: str, cases: Cases, inputs: Inputs, objective: Objective, model: LinOSS
) -> None:
    if not len(cases):
        raise ValueError(f"{name} is empty, expected at least one case")
    if cases.num_channels != inputs.channels:
        raise ValueError(
            f"{name} has {cases.num_channels} channels, expected {inputs.channels}, as inputs has"
        )
    objective.check(model.config, cases, name)


class _Loop:
    """A training run and its state."""

    def __init__(
        self,
        model: LinOSS,
        inputs: Inputs,
        objective: Objective,
        training_set: Cases,
        validation_set: Cases | None,
        config: TrainingConfig,
        on_progress: Callback | None,
        devices: Devices,
        memory: int,
    ):
        self.inputs, self.objective, self.config = inputs, objective, config
        self.training_set, self.validation_set = training_set, validation_set
        self.on_progress, self.devices = on_progress, devices
        self.dtype = model.encoder.weight.dtype
        self.settings = StepSettings(
            loss=objective.loss,
            clip=config.clip_norm is not None,
            decay=config.weight_decay > 0,
            engine=resolve_engine("auto"),
            mesh=devices.mesh,
            memory=memory,
        )

        def pad(length: int) -> int:
            return devices.padded(inputs.padded_length(length), model.config)

        self.order = Order(training_set.lengths, pad, config.batch_size, config.seed)
        for size in self.order.sizes:
            devices.check_batch(size, len(training_set))
        self.key = devices.key(config.seed)
        self.state = self.good = RunState(first_carry(model, self.settings))
        self.files: RunDirectory | None = None
        self.clock = time.monotonic()
        self.compiling = 0.0  # seconds, of the first update
        self.place = self.recorded = self.last_place = 0
        self.gradient_norm: Any = np.nan  # of the last update
        self.cases = 0  # in updates since the first one of this process

    def run(self) -> TrainingResult:
        """Train from the current state to the end."""
        try:
            with noted_interrupts() as check_interrupts:
                return self._run(check_interrupts)
        except KeyboardInterrupt:
            if int(self.state.carry.bad_step) >= 0 or self.state.step == 0:
                raise
            raise TrainingStopped(self.result(self.state)) from None

    def _run(self, check_interrupts: Callable[[], None]) -> TrainingResult:
        facts = {**self.state.facts(), "has_best": self.state.best is not None}
        trees, facts = self.devices.from_first((self.state.carry, self.state.model), facts)
        best = trees[1] if facts["has_best"] else None
        self.state = self.good = RunState.from_facts(trees[0], best, facts)
        config = self.config
        self.clock = time.monotonic() - self.state.seconds
        self.place = self.recorded = self._place()
        self.last_place = max(self.place - 1, 0)
        saved = looked = time.monotonic()
        first: tuple[int, float] | None = None
        batches = self.order.from_step(self.state.step)
        while True:
            check_interrupts()
            if self._is_due():
                self._record()
                saved = looked = time.monotonic()
                self._report(first)
            if self.place >= config.steps or self._gains_nothing():
                if config.steps == 0 and self.files is not None:
                    self.files.save(self.state)
                return self.result(self.state)
            before = self.state.carry
            self._advance(*next(batches))
            jax.block_until_ready(before.loss)  # at most one update ahead of the device
            now = time.monotonic()
            if first is None:
                self.compiling = now - looked
            self.place = self._place()
            is_time = now - looked > _LOOK_EVERY
            if self.devices.several_processes:  # all of them at the same step
                is_time = self.state.step % _LOOK_AT_EVERY == 0
            if first is None or is_time:
                self._check_finite()
                self._report(first)
                looked = time.monotonic()
                if first is None:
                    first, self.cases = (self.state.step, looked), 0
            if now - saved > _SAVE_EVERY:
                self.save_if_good()
                saved = time.monotonic()

    def _place(self) -> int:
        """The position in the schedule: the number of updates, or, if larger, the fraction of
        `steps` that corresponds to the elapsed fraction of `minutes`.

        It determines the learning rate and the evaluations, so that a run that reaches its time
        limit completes its schedule with fewer updates. The compilation time before the first
        update does not count.
        """
        step, config = self.state.step, self.config
        if config.minutes is None or step == 0:
            return step
        passed, limit = time.monotonic() - self.clock, 60 * config.minutes
        if passed >= limit:
            return config.steps
        share = (passed - self.compiling) / (limit - self.compiling)
        return min(max(step, int(share * config.steps)), config.steps)

    def _advance(self, chosen: np.ndarray, length: int) -> None:
        """One update with a batch."""
        state, devices = self.state, self.devices
        batch = self.training_set.batch(chosen, length)
        is_masked = bool(self.inputs.masked(batch).any())
        rates = {
            "learning_rate": learning_rate(self.config, self.place),
            "weight_decay": self.config.weight_decay,
            "clip_norm": self.config.clip_norm or 0.0,
        }
        carry, self.gradient_norm = compiled(update, self.settings.engine)(
            state.carry,
            self.key,
            np.int32(state.step),
            {name: np.asarray(rate, self.dtype) for name, rate in rates.items()},
            devices.place_arguments(self.inputs(batch, masked=is_masked, dtype=self.dtype)),
            devices.place(self.objective.targets(batch, self.dtype)),
            settings=self.settings,
        )
        self.state, self.last_place = replace(state, carry=carry, step=state.step + 1), self.place
        self.cases += len(chosen)

    def _is_due(self) -> bool:
        """Whether the current step has to be recorded and has not been yet."""
        step, last, every = self.state.step, self.state.last, self.config.evaluate_every
        if self.config.minutes is None:
            due = step % every == 0
        else:
            due = self.place // every > self.recorded // every
        due = due or self.place == self.config.steps
        return step > 0 and due and (last is None or last["step"] != step)

    def _gains_nothing(self) -> bool:
        """Whether to stop early, by `patience` or `min_loss`."""
        config, last = self.config, self.state.last
        if last is None:
            return False
        if config.patience is not None and self.state.stale >= config.patience:
            return True
        if config.min_loss == 0:  # a loss may round to less
            return False
        recent = reversed(self.state.history)
        above = next((r["step"] for r in recent if r["loss"] >= config.min_loss), 0)
        return last["step"] - above >= _LEARNED

    def _record(self) -> None:
        """Evaluate, append to the history, and write a checkpoint."""
        self._check_finite()
        state, last, metric, loss = self.state, self.state.last, None, None
        zero = jnp.asarray(self.devices.everywhere(np.zeros((), self.dtype)))
        new = replace(state, carry=eqx.tree_at(lambda carry: carry.loss, state.carry, zero))
        if self.validation_set is not None:
            arguments = state.carry.model, self.inputs, self.objective, self.validation_set
            values = metric_and_loss(*arguments, mesh=self.devices.mesh)
            metric, loss = (value if np.isfinite(value) else None for value in values)
            higher, patience = self.objective.higher_is_better, self.config.patience
            new = _with_metric(new, metric, higher, patience)
        new = replace(new, seconds=time.monotonic() - self.clock)
        record = {
            "step": state.step,
            "loss": float(state.carry.loss) / (state.step - (last["step"] if last else 0)),
            "validation_loss": loss,
            "metric": metric,
            "best": new.best_metric,
            "learning_rate": learning_rate(self.config, self.last_place),
        }
        self.state = self.good = replace(new, history=(*state.history, record))
        self.recorded = self.place
        if self.files is not None:
            self.files.save(self.state)

    def save_if_good(self) -> None:
        """Write a checkpoint between evaluations, unless a loss since the last one was not
        finite."""
        state = self.state
        if self.files is not None and state.step > 0 and int(state.carry.bad_step) < 0:
            self.state = replace(state, seconds=time.monotonic() - self.clock)
            self.files.save(self.state)

    def result(self, state: RunState) -> TrainingResult:
        """The result for a state."""
        return TrainingResult(
            model=self.devices.at_home(state.model),
            history=list(state.history),
            best_step=state.best_step,
            best_metric=state.best_metric,
            steps=state.step,
            stopped_early=self._gains_nothing(),
            seconds=state.seconds,
        )

    def _report(self, first: tuple[int, float] | None) -> None:
        if self.on_progress is None:
            return
        state, last, eta, pace = self.state, self.state.last or {}, None, None
        since = state.step - last.get("step", 0)
        steps, epoch = self.config.steps, self.order.batches_per_epoch
        if first is not None and state.step > first[0]:
            passed = time.monotonic() - first[1]
            pace = self.cases / passed
            eta = passed / (state.step - first[0]) * (steps - state.step)
            if self.config.minutes is not None:
                eta = min(eta, max(60 * self.config.minutes - time.monotonic() + self.clock, 0.0))
        self.on_progress(
            Progress(
                step=state.step,
                steps=steps,
                loss=float(state.carry.loss) / since if since else last.get("loss", 0.0),
                metric=last.get("metric"),
                best=state.best_metric,
                eta=eta,
                epoch=state.step / epoch,
                epochs=steps / epoch,
                validation_loss=last.get("validation_loss"),
                learning_rate=learning_rate(self.config, self.last_place),
                gradient_norm=float(self.gradient_norm),
                cases_per_second=pace,
            )
        )

    def _check_finite(self) -> None:
        step, clip = int(self.state.carry.bad_step), self.config.clip_norm
        if step < 0:
            return
        loss = float(self.state.carry.bad_loss)
        what = "but its gradient is not finite" if np.isfinite(loss) else "expected a finite number"
        advice = "it is the first update: check the data, or choose another scheme"
        if step > 0:
            lower = "clip_norm=1" if clip is None else f"or a lower clip_norm (now {clip})"
            advice = f"try a lower learning_rate (now {self.config.learning_rate}), {lower}"
        raise TrainingError(
            f"the loss of update {step} is {loss:.6g}, {what}; {advice}{self._huge_value(step)}. "
            f"The result of this error is that of update {self.good.step}",
            self.result(self.good),
        )

    def _huge_value(self, step: int) -> str:
        """A hint about the largest value in the batch of that step, if it is huge."""
        chosen, length = next(self.order.from_step(step))
        u = np.asarray(self.inputs(self.training_set.batch(chosen, length), dtype=np.float64)["u"])
        samples = u.reshape(len(u), -1, self.inputs.in_size // self.inputs.patch)
        values = samples[..., self.inputs.of_values]
        case, when, channel = np.unravel_index(np.argmax(np.abs(values)), values.shape)
        value, names = values[case, when, channel], getattr(self.training_set, "names", None)
        if np.isfinite(value) and abs(value) < _HUGE:
            return ""
        name = repr(names[channel]) if names else str(channel)
        return (
            f"; or check channel {name}, which is {value:.3g} (scaled) in case "
            f"{int(chosen[case])} of the training set at step {int(when)}"
        )


def _with_metric(
    state: RunState, metric: float | None, higher_is_better: bool, patience: int | None
) -> RunState:
    """The state after an evaluation. On a tie the later weights are kept, without resetting
    patience; but not those of the evaluation that ends the run."""
    sign, best = (1 if higher_is_better else -1), state.best_metric
    if metric is None or (best is not None and sign * metric < sign * best):
        return replace(state, stale=state.stale + 1)
    stale = state.stale + 1 if metric == best else 0
    if stale and stale == patience:
        return replace(state, stale=stale)
    model, step = state.carry.model, state.step
    return replace(state, best=model, best_step=step, best_metric=metric, stale=stale)
