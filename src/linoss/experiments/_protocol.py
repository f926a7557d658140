"""The options of experiments: models, seeds, data sets, protocol."""

import itertools
import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linoss import _checks
from linoss.experiments import _models, _paper

if TYPE_CHECKING:
    from linoss.training import TrainingConfig

MODELS: dict[str, dict[str, Any]] = {
    "im": {"scheme": "im"},
    "imex": {"scheme": "imex"},
    "verlet": {"scheme": "verlet"},
    "exact": {"scheme": "exact"},
    "damped": {"scheme": "imex", "damped": True},
    "damped-im": {"scheme": "im", "damped": True},
    "damped-exact": {"scheme": "exact", "damped": True},
    **_models.MODELS,
}
"""Models by name, and their settings. `damped` is the IMEX scheme with damping, as in D-LinOSS."""

UNTRAINED = "oscillators"
"""The untrained model: `OscillatorClassifier`."""

NAMES = {
    "im": "LinOSS-IM",
    "imex": "LinOSS-IMEX",
    "verlet": "LinOSS-VV",
    "exact": "LinOSS, exact",
    "damped": "damped IMEX",
    "damped-im": "damped IM",
    "damped-exact": "damped, exact",
    **_models.NAMES,
    UNTRAINED: "untrained oscillators",
}
"""The names of all models in tables."""


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The scope of an experiment."""

    data_sets: tuple[str, ...]
    models: tuple[str, ...]
    """The models of the paper."""
    beside: tuple[str, ...] = ()
    """Further models of a full record."""
    variants: tuple[str | None, ...] = (None,)
    on_demand: tuple[str, ...] = ()
    """Variants that are run on request."""
    seeds: tuple[int, ...] = ()
    """The default seeds; empty if nothing is drawn."""

    def cells(self) -> list[tuple[str, str, str | None]]:
        """Data set, model and variant of every entry of a full record."""
        models = (*self.models, *self.beside)
        return list(itertools.product(self.data_sets, models, self.variants))

    def refuse(self, experiment: str, options: "Options") -> None:
        """Raise for options that the experiment does not support or would ignore."""
        for data_set in options.data_sets or ():
            _checks.one_of("data set", data_set, self.data_sets)
        for variant in options.variants or ():
            known = [name for name in (*self.variants, *self.on_demand) if name]
            if not known:
                raise ValueError(f"variant is {variant!r}, expected none: {experiment} has none")
            _checks.one_of("variant", variant, known)
        if UNTRAINED in (options.models or ()):
            if UNTRAINED not in self.beside:
                raise ValueError(
                    f"model is {UNTRAINED!r}, expected another one: {experiment} trains"
                )
            if options.variants:
                raise ValueError(f"variants are given, expected none: {UNTRAINED!r} has none")
        if options.seeds and not self.seeds:
            raise ValueError(f"seeds are given, expected none: {experiment} draws nothing")


@dataclass(frozen=True)
class Protocol:
    """The length of a training, and its evaluations."""

    steps: int
    evaluate_every: int
    patience: int


PROTOCOLS = {
    "paper": Protocol(steps=100_000, evaluate_every=1000, patience=11),
    "quick": Protocol(steps=5_000, evaluate_every=50, patience=11),
}
"""`paper`: stop after more than ten evaluations without improvement. `quick`: the same models and
splits with evaluations twenty times as often, so that runs end twenty times sooner."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a user; None for the experiment's default."""

    out: Path
    data_dir: Path | None = None
    seeds: tuple[int, ...] | None = None
    models: tuple[str, ...] | None = None
    data_sets: tuple[str, ...] | None = None
    variants: tuple[str, ...] | None = None
    protocol: str = "paper"
    max_steps: int | None = None
    resume: bool = False
    processes: int = 1
    storage: str | None = None
    """The storage of a search, for processes on several machines."""

    def __post_init__(self) -> None:
        _checks.one_of("protocol", self.protocol, PROTOCOLS)
        for model in self.models or ():
            _checks.one_of("model", model, NAMES)
        if self.max_steps is not None:
            _checks.positive_integer("max-steps", self.max_steps)
        _checks.positive_integer("processes", self.processes)
        for seed in self.seeds or ():
            _checks.number("seed", seed, "a number in [0, 2**32)", lambda s: 0 <= s < 2**32)

    def command(self, experiment: str) -> str:
        """The command with these options, without the paths of data and results."""
        words = ["linoss", "reproduce", experiment]
        repeated = {"--data-set": self.data_sets, "--model": self.models}
        for option, values in {**repeated, "--variant": self.variants}.items():
            words += [word for value in values or () for word in (option, value)]
        if self.seeds is not None:
            words += ["--seeds", ",".join(str(seed) for seed in self.seeds)]
        words += ["--protocol", self.protocol]
        if self.max_steps is not None:
            words += ["--max-steps", str(self.max_steps)]
        return shlex.join(words)


def training_config(
    options: Options,
    *,
    learning_rate: float,
    batch_size: int,
    seed: int,
    protocols: dict[str, Protocol] | None = None,
) -> "TrainingConfig":
    """Adam with a constant learning rate, as in the published runs."""
    from linoss.training import TrainingConfig

    protocol = (protocols or PROTOCOLS)[options.protocol]
    return TrainingConfig(
        steps=options.max_steps or protocol.steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        schedule="constant",
        clip_norm=None,
        evaluate_every=protocol.evaluate_every,
        patience=protocol.patience,
        seed=seed,
    )


def hyperparameters(data_set: str, model: str) -> _paper.Hyperparameters:
    """The best hyperparameters of the paper, with those of IMEX for its other schemes; those of
    D-LinOSS with damping; and those of the published runs of baselines."""
    if model in _models.MODELS:
        return _models.hyperparameters(data_set, model)
    if MODELS[model].get("damped", False):
        return _paper.BEST[data_set, "damped"]
    return _paper.BEST[data_set, "im" if model == "im" else "imex"]


def counted(data_set: str, model: str) -> tuple[_paper.Hyperparameters, dict[str, Any]]:
    """The sizes in the paper's table of parameters, memory and run times, and the settings that
    only the model has."""
    if model in _models.MODELS:
        return _models.counted(data_set, model)
    return hyperparameters(data_set, model), {}


def as_path(path: str | os.PathLike[str] | None) -> Path | None:
    """A path, if there is one."""
    return None if path is None else Path(path)


def chosen(values: Iterable[Any] | None) -> tuple[Any, ...] | None:
    """The selected values without repetition; None if there are none."""
    return tuple(dict.fromkeys(values or ())) or None
