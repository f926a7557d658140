"""Training a model."""

import os
import warnings
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh

from linoss import _checks, _programs
from linoss._declare import check_value
from linoss._files import locked, make_directory
from linoss._settings import MEMORY, Memory
from linoss.dynamics import find_scheme
from linoss.nn import LinOSS
from linoss.training._callbacks import Callback
from linoss.training._config import TrainingConfig
from linoss.training._devices import Devices
from linoss.training._inputs import Cases, Inputs
from linoss.training._loop import Loop
from linoss.training._objectives import Objective
from linoss.training._predict import check_model
from linoss.training._result import TrainingResult, TrainingStopped
from linoss.training._run_directory import RunDirectory
from linoss.training._saved import describe


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
    save_every: int | float | None = None,
    mesh: Mesh | None = None,
    memory: int = MEMORY,
    quickly: bool = False,
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
    - `directory`: the directory for the model, the history, and a checkpoint at each evaluation.
      Raises if it already holds a run, unless `resume`.
    - `resume`: continue the run in `directory`, which must have the same settings; begin one if
      there is none. At a constant learning rate, `steps` may be larger than before, see
      [`linoss.training.TrainingConfig.goes_on`][].
    - `on_progress`: called with a [`linoss.training.Progress`][], at most a few times a second.
    - `save_every`: seconds after which to write a checkpoint between evaluations.
    - `mesh`: devices to train on, see [`linoss.training.make_mesh`][]; `batch_size` must be a
      multiple of those along the batch. With several processes, each calls `train` with the same
      arguments and reads its part of the batches, and the first one writes. A run can be resumed on
      other devices.
    - `memory`: bytes of intermediate results that an update may keep for the backward pass on each
      device, in addition to the inputs of blocks, instead of recomputing them. Does not change
      results.
    - `quickly`: halve the compilation time of updates, for models where native kernels do most of
      the work. Results differ by rounding.

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
    if save_every is not None:
        _checks.number("save_every", save_every, "a number of seconds >= 0", lambda x: x >= 0)
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
    devices = Devices(mesh, memory)
    sets = (training_set, validation_set)
    loop = Loop(model, inputs, objective, *sets, config, on_progress, devices, quickly=quickly)
    if directory is None:
        if resume:
            raise ValueError("resume is True, but directory is None; pass the directory of the run")
        return _stoppable(loop, save_every)
    data = {"training": _facts(training_set), "validation": _facts(validation_set)}
    description = describe(model, inputs, objective, config, data)
    if not devices.writes:
        return loop.run(save_every)
    make_directory(Path(directory))
    with locked(Path(directory)) as folder:
        loop.files = RunDirectory(folder)
        if resume:
            loop.state = loop.files.resume(description, loop.state)
        else:
            loop.files.create(description, loop.state)
        try:
            return _stoppable(loop, save_every)
        except (KeyboardInterrupt, SystemExit):
            loop.save_if_good()
            raise


def _stoppable(loop: Loop, save_every: int | float | None) -> TrainingResult:
    """Run the loop; convert an interrupt to a `TrainingStopped` with the state so far."""
    try:
        return loop.run(save_every)
    except KeyboardInterrupt:
        if int(loop.state.carry.bad_step) >= 0 or loop.state.step == 0:
            raise
        raise TrainingStopped(loop.result(loop.state)) from None


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
