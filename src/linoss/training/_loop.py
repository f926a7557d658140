"""The training loop."""

import time
import warnings
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from linoss.nn import LinOSS
from linoss.scan import resolve_engine
from linoss.training._callbacks import Callback, Progress
from linoss.training._config import TrainingConfig
from linoss.training._devices import Devices
from linoss.training._inputs import Cases, Inputs
from linoss.training._objectives import Objective
from linoss.training._predict import Order, evaluate
from linoss.training._result import TrainingError, TrainingResult
from linoss.training._run_directory import RunDirectory, RunState
from linoss.training._step import (
    Carry,
    LearningRates,
    StepSettings,
    first_carry,
    update,
    update_quickly,
)

_LOOK_EVERY = 0.5  # seconds between transfers of the loss from the device
_LOOK_AT_EVERY = 20  # updates between transfers with several processes
_HUGE = 1e3  # deviations from the mean
# Updates below min_loss before the end: running statistics of norms follow the weights by 0.9 each,
# and those of a few updates would predict unlike the batches that were learned.
_LEARNED = 40
_USELESS = 5  # times the loss of a constant prediction


class Loop:
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
        quickly: bool = False,
    ):
        self.inputs, self.objective, self.config = inputs, objective, config
        self.training_set, self.validation_set = training_set, validation_set
        self.on_progress, self.devices = on_progress, devices
        self.dtype, engine = model.encoder.weight.dtype, resolve_engine("auto")
        self.settings = StepSettings(
            loss=objective.loss,
            clip=config.clip_norm is not None,
            decay=config.weight_decay > 0,
            engine=engine,
            mesh=devices.mesh,
            memory=devices.memory,
            quickly=quickly and engine == "native",  # native kernels do most of the work
        )

        def pad(length: int) -> int:
            return devices.padded(inputs.padded_length(length), model.config)

        self.order = Order.of(training_set, pad, config.batch_size, config.seed)
        for size in self.order.sizes:
            devices.check_batch(size, len(training_set))
        self.rates = LearningRates(config)
        self.key = devices.key(config.seed)
        self.state = RunState(first_carry(model, self.settings))
        self.good = self.state
        self.files: RunDirectory | None = None
        self.clock = time.monotonic()
        self.compiling = 0.0  # seconds, of the first update
        self.place = self.recorded = self.last_place = 0
        self.gradient_norm: Any = np.nan  # of the last update
        self.cases = 0  # in updates since the first one of this process

    def run(self, save_every: int | float | None) -> TrainingResult:
        """Train from the current state to the end."""
        self._distribute()
        config, self.good = self.config, self.state
        self.clock = time.monotonic() - self.state.seconds
        self.place = self.recorded = self._place()
        self.last_place = max(self.place - 1, 0)
        saved = looked = time.monotonic()
        first: tuple[int, float] | None = None
        batches = self.order.from_step(self.state.step)
        while True:
            if self._is_due():
                self._record()
                saved = looked = time.monotonic()
                self._report(first)
            if self.place >= config.steps or self._gains_nothing():
                if config.steps == 0:
                    self.save()
                self._warn_if_useless()
                return self.result(self.state)
            before = self.state.carry
            self._advance(*next(batches))
            jax.block_until_ready(before.loss)  # at most one update ahead of the device
            now = time.monotonic()
            if first is None:
                self.compiling = now - looked
            self.place = self._place()
            if first is None or self._looks(now - looked):
                self._check_finite()
                self._report(first)
                looked = time.monotonic()
                if first is None:
                    first, self.cases = (self.state.step, looked), 0
            if save_every is not None and now - saved > save_every:
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

    def _distribute(self) -> None:
        """Copy the state of the first process, which may have been resumed, to all devices."""
        state = self.state
        facts = {**state.facts(), "has_best": state.best is not None}
        trees, facts = self.devices.from_first((state.carry, state.model), facts)
        self.devices.connect()
        carry, best = self.devices.everywhere(trees)
        self.state = RunState.from_facts(carry, best if facts["has_best"] else None, facts)

    def _looks(self, seconds: float) -> bool:
        """Whether to transfer the loss now; all processes must do so at the same step."""
        if self.devices.several_processes:
            return self.state.step % _LOOK_AT_EVERY == 0
        return seconds > _LOOK_EVERY

    def _advance(self, chosen: np.ndarray, length: int) -> None:
        state = self.state
        arguments, targets = self._batch(chosen, length)
        rates = {
            "learning_rate": self.rates(self.place),
            "weight_decay": self.config.weight_decay,
            "clip_norm": self.config.clip_norm or 0.0,
        }
        carry, self.gradient_norm = (update_quickly() if self.settings.quickly else update)(
            state.carry,
            self.key,
            np.int32(state.step),
            {name: np.asarray(rate, self.dtype) for name, rate in rates.items()},
            arguments,
            targets,
            settings=self.settings,
        )
        self.state, self.last_place = replace(state, carry=carry, step=state.step + 1), self.place
        self.cases += len(chosen)

    def _batch(self, chosen: np.ndarray, length: int) -> tuple[dict[str, Any], Any]:
        devices, count, rows = self.devices, len(chosen), self.devices.rows(len(chosen))
        batch = self.training_set.batch(chosen[rows], length)
        masked = devices.any_of(bool(self.inputs.masked(batch).any()))
        arguments = self.inputs(batch, masked=masked, dtype=self.dtype)
        targets = self.objective.targets(batch, self.dtype)
        arguments = devices.place_arguments(arguments, rows, count)
        return arguments, devices.place(targets, rows, count)

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
        state, last = self.state, self.state.last
        new, metric = replace(state, carry=self._without_loss(state.carry)), None
        if self.validation_set is not None:
            model, inputs, objective = state.carry.model, self.inputs, self.objective
            mesh = self.devices.mesh
            metric = evaluate(model, inputs, objective, self.validation_set, mesh=mesh)
            metric = metric if np.isfinite(metric) else None
            higher, patience = self.objective.higher_is_better, self.config.patience
            new = _with_metric(new, metric, higher, patience)
        new = replace(new, seconds=time.monotonic() - self.clock)
        record = {
            "step": state.step,
            "loss": float(state.carry.loss) / (state.step - (last["step"] if last else 0)),
            "metric": metric,
            "best": new.best_metric,
            "learning_rate": self.rates(self.last_place),
            "seconds": round(new.seconds, 3),
        }
        self.state = self.good = replace(new, history=(*state.history, record))
        self.recorded = self.place
        self.save()

    def save(self) -> None:
        """Write a checkpoint, if there is a directory."""
        if self.files is not None:
            self.files.save(self.state)

    def save_if_good(self) -> None:
        """Write a checkpoint between evaluations, unless a loss since the last one was not
        finite."""
        state = self.state
        if self.files is not None and state.step > 0 and int(state.carry.bad_step) < 0:
            self.state = replace(state, seconds=time.monotonic() - self.clock)
            self.save()

    def result(self, state: RunState) -> TrainingResult:
        """The result for a state."""
        return TrainingResult(
            model=self.devices.at_home(state.model),
            history=list(state.history),
            best_step=state.best_step,
            best_metric=state.best_metric,
            steps=state.step,
            stopped_early=self._gains_nothing(),
        )

    def _report(self, first: tuple[int, float] | None) -> None:
        if self.on_progress is None:
            return
        state, last, eta, pace = self.state, self.state.last, None, None
        since = state.step - (last["step"] if last else 0)
        if first is not None and state.step > first[0]:
            passed = time.monotonic() - first[1]
            pace = self.cases / passed
            eta = passed / (state.step - first[0]) * (self.config.steps - state.step)
            if self.config.minutes is not None:
                eta = min(eta, max(60 * self.config.minutes - time.monotonic() + self.clock, 0.0))
        loss = last["loss"] if last and not since else float(state.carry.loss) / max(since, 1)
        metric = last["metric"] if last else None
        steps, epoch = self.config.steps, self.order.batches_per_epoch
        self.on_progress(
            Progress(
                state.step,
                steps,
                loss,
                metric,
                state.best_metric,
                eta,
                epoch=state.step / epoch,
                epochs=steps / epoch,
                learning_rate=self.rates(self.last_place),
                gradient_norm=float(self.gradient_norm),
                cases_per_second=pace,
            )
        )

    def _without_loss(self, carry: Carry) -> Carry:
        none = self.devices.everywhere(np.zeros((), self.dtype))
        return eqx.tree_at(lambda carry: carry.loss, carry, jnp.asarray(none))

    def _check_finite(self) -> None:
        step = int(self.state.carry.bad_step)
        if step < 0:
            return
        loss = float(self.state.carry.bad_loss)
        what = "but its gradient is not finite" if np.isfinite(loss) else "expected a finite number"
        raise TrainingError(
            f"the loss of update {step} is {loss:.6g}, {what}; {self._advice(step)}"
            f"{self._huge_values(step)}. The "
            f"result of this error is that of update {self.good.step}",
            self.result(self.good),
        )

    def _warn_if_useless(self) -> None:
        last, constant = self.state.last, self.objective.constant_loss
        if last is None or constant is None or not self.devices.writes:
            return
        if last["loss"] > _USELESS * constant:
            warnings.warn(
                f"the loss is {last['loss']:.4g} at the end, but that of a constant prediction is "
                f"at most {constant:.4g}: the model has learned nothing; try a lower "
                f"learning_rate (now {self.config.learning_rate}), {self._clip_advice()}",
                stacklevel=4,
            )

    def _advice(self, step: int) -> str:
        """Advice for the error message; before the first update it does not concern the learning
        rate."""
        if step == 0:
            return "it is the first update: check the data, or choose another scheme"
        rate = self.config.learning_rate
        return f"try a lower learning_rate (now {rate}), {self._clip_advice()}"

    def _clip_advice(self) -> str:
        clip = self.config.clip_norm
        return "clip_norm=1" if clip is None else f"or a lower clip_norm (now {clip})"

    def _huge_values(self, step: int) -> str:
        """A hint about the largest value in the batch of that step, if it is huge."""
        chosen, length = next(self.order.from_step(step))
        batch = self.training_set.batch(chosen, length)
        arguments = self.inputs(batch, dtype=np.float64)
        u = arguments["u"]
        assert u is not None
        u = u.reshape(len(u), -1, u.shape[-1] // self.inputs.patch)
        case, when, channel = np.unravel_index(np.argmax(np.abs(u)), u.shape)
        value = u[case, when, channel]
        if np.isfinite(value) and abs(value) < _HUGE:
            return ""
        channel = int(channel) - self.inputs.time_channel
        names = getattr(self.training_set, "names", None)
        name = repr(names[channel]) if names and 0 <= channel < len(names) else str(channel)
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
