"""Writing a fitted estimator to files of other formats."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from linoss._files import make_directory, write_file
from linoss.export import _onnx
from linoss.export._c import c_files
from linoss.export._program import Program, Recording, record
from linoss.export._stablehlo import stablehlo
from linoss.export._trained import add_trained
from linoss.export._untrained import add_untrained
from linoss.export._windows import forecasts, read, window_of
from linoss.fitted import FLOOR, Fitted, Untrained
from linoss.forecasting import FittedForecaster

SUFFIXES = (".onnx", ".h", ".stablehlo")


@dataclass(frozen=True)
class Written:
    """The result of [`linoss.export.write`][]."""

    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()
    """What was not written, and why."""
    flash: int | None = None
    """C: bytes of constants, without the code."""
    ram: int | None = None
    """C: bytes of a state."""


Exportable = BaseEstimator | Fitted | FittedForecaster


def write(
    estimator: Exportable,
    path: str | os.PathLike[str],
    *,
    names: Sequence[Any] | None = None,
    int8: bool = False,
    series: Any = None,
) -> Written:
    """Write a fitted estimator as ONNX, C or StableHLO, by the suffix of `path`.

    Scaling, missing values, the time channel and class names are included, and all parts of a
    forecaster. A model of irregular times has a further input, the intervals. Values are single
    precision; NaN marks a missing value. At a sample without any value, trained models advance
    without forcing or skip it (setting `gaps`), and untrained oscillators skip it.

    **Arguments:**

    - `estimator`: a fitted classifier, regressor or forecaster, or its `fitted_`.
    - `path`: `model.onnx` for whole sequences, with `model_step.onnx` for one sample at a time;
      `model.h`, with `model_weights.c`; or `model.stablehlo`.
    - `names`: names of the channels, for ONNX; by default those of the fit.
    - `int8`: for C, quantise matrices to 8 bits.
    - `series`: for a forecaster of several series, the one whose trend and seasons are exported.

    Raises `ValueError` for estimators that cannot be exported.

    ```python
    >>> import numpy as np, tempfile
    >>> from linoss import LinOSSClassifier
    >>> from linoss.export import write
    >>> waves = np.random.default_rng(0).normal(size=(20, 2, 50))
    >>> sizes = {"n_models": 1, "hidden_size": 8, "state_size": 8, "num_blocks": 1}
    >>> classifier = LinOSSClassifier(steps=5, **sizes)
    >>> classifier = classifier.fit(waves, np.arange(20) % 2)
    >>> written = write(classifier, tempfile.mkdtemp() + "/waves.h")
    >>> [file.name for file in written.files], written.flash, written.ram
    (['waves.h', 'waves_weights.c'], 2200, 540)

    ```
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{path}: expected a suffix among {', '.join(SUFFIXES)}")
    if int8 and path.suffix != ".h":
        raise ValueError(f"int8 is True, but {path} is not C, expected a path that ends in .h")
    program = _program_of(estimator, names, series)
    program.refuse_unknown_weights()
    contents, notes, sizes = {path: b""}, [], {}
    if path.suffix == ".onnx":
        contents[path] = _onnx.whole_sequence(program)
        try:
            contents[path.with_stem(f"{path.stem}_step")] = _onnx.step(program)
        except ValueError as error:
            notes.append(f"no step by step graph was written: {error}")
    elif path.suffix == ".h":
        name = re.sub(r"\W", "_", path.stem, flags=re.ASCII)
        name = name if name[:1].isalpha() else f"model_{name}"
        header, weights, *memory = c_files(program, name, int8=int8)
        contents[path], sizes = header.encode(), dict(zip(("flash", "ram"), memory, strict=True))
        weights = weights.replace(f'"{name}.h"', f'"{path.name}"', 1)
        contents[path.with_name(f"{path.stem}_weights.c")] = weights.encode()
    else:
        contents[path] = stablehlo(program)
    make_directory(path.parent)
    for file, content in contents.items():
        write_file(file, content)
    return Written(tuple(contents), tuple(notes), **sizes)


# ---- The program of a fitted thing ----


def _ensemble(record: Recording, fitted: Fitted) -> Any:
    """The combined output of the members of a fitted thing."""
    outputs: list[Any] = []
    for name, member in fitted.members.items():
        label = f"{name}_" if len(fitted.members) > 1 else ""
        if isinstance(member, Untrained):
            outputs.append(add_untrained(record, member, label))
            continue
        several, about = len(member.models) > 1, (member.inputs, member.objective)
        each = [
            add_trained(record, model, f"{label}model{k}_" if several else label, *about)
            for k, model in enumerate(member.models)
        ]
        outputs.append(sum(each) / len(each))
    if fitted.weights is None:
        return sum(outputs) / len(outputs)
    if fitted.classes is not None:
        outputs = [jnp.log(output + FLOOR) for output in outputs]
    pairs = zip(outputs, fitted.weights, strict=True)
    total: Any = sum(output * float(weight) for output, weight in pairs)
    return jax.nn.softmax(total) if fitted.classes is not None else total


def _of_one_series(fitted: FittedForecaster, series: Any) -> FittedForecaster:
    """A forecaster restricted to trend and seasons of one of its series."""
    decomposition = fitted.components.decomposition
    names = [str(name) for name in decomposition.ids or ()]
    if series is None and len(names) > 1 and not decomposition.is_identity:
        raise ValueError(
            f"the forecaster has {len(names)} series, each with its own trend and seasons; choose "
            f"one with series=, such as {names[0]!r}"
        )
    place = 0 if series is None else names.index(str(series))
    one = replace(decomposition, ids=None, series=[decomposition.series[place]])
    return replace(fitted, components=replace(fitted.components, decomposition=one))


def _program_of(estimator: Any, names: Sequence[Any] | None = None, series: Any = None) -> Program:
    """The program of a fitted estimator; `names` are those of its channels.

    Raises `ValueError` for estimators that cannot be exported.
    """
    fitted = estimator
    if not isinstance(estimator, Fitted | FittedForecaster):
        check_is_fitted(estimator)
        fitted = estimator.fitted_
    is_forecaster = isinstance(fitted, FittedForecaster)
    known = fitted.components.decomposition.ids if is_forecaster else None
    if series is not None and str(series) not in (ids := [str(each) for each in known or ()]):
        expected = ", ".join(ids[:5]) or "none, for it has no names of series"
        raise ValueError(f"series is {series!r}, expected one of the fit: {expected}")
    if isinstance(fitted, FittedForecaster):
        return _program_of_forecaster(fitted, series)

    def compute(recording: Recording) -> None:
        recording.outputs["answer"] = _ensemble(recording, fitted)

    parts, answer = record(compute, double=fitted.oscillators is not None)
    every, classes = fitted.outputs.every, fitted.classes
    return Program(
        task=fitted.task,
        channels=fitted.n_channels,
        parts=parts,
        answer=answer,
        steps=tuple(answer.inputs) if every else (),
        every=every or 1,
        classes=() if classes is None else tuple(classes.tolist()),
        names=tuple(str(name) for name in names or fitted.channels or ()),
    )


def _program_of_forecaster(fitted: FittedForecaster, series: Any) -> Program:
    fitted = _of_one_series(fitted, series)
    trained = fitted.trained

    def compute(recording: Recording) -> None:
        if trained is None:
            read(recording, fitted.components)
            recording.outputs["answer"] = forecasts(recording, fitted)
            return
        of = (trained.models[0], "", trained.inputs, trained.objective, fitted)
        recording.outputs["answer"] = add_trained(recording, *of)

    parts, answer = record(compute)
    states = {name for part in parts for name in part.outputs}
    return Program(
        task=fitted.task,
        channels=fitted.n_channels,
        parts=parts,
        answer=answer,
        steps=tuple(name for name in (*answer.inputs, "relative") if name in states),
        horizon=fitted.horizon,
        known=fitted.known,
        names=tuple(str(name) for name in fitted.names),
        window=window_of(fitted),
    )
