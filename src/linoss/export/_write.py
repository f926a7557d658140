"""Writing a fitted estimator to files of other formats."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linoss._files import make_directory, write_file
from linoss.export import _onnx
from linoss.export._c import c_files
from linoss.export._programs import program_of
from linoss.export._stablehlo import stablehlo

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


def write(
    estimator: Any,
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
    - `names`: names of the channels, for ONNX.
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
    (['waves.h', 'waves_weights.c'], 2200, 504)

    ```
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{path}: expected a suffix among {', '.join(SUFFIXES)}")
    if int8 and path.suffix != ".h":
        raise ValueError(f"int8 is True, but {path} is not C, expected a path that ends in .h")
    program = program_of(estimator, names, series)
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
        found = c_files(program, name, int8=int8)
        contents[path] = found.header.encode()
        weights = found.weights.replace(f'"{name}.h"', f'"{path.name}"', 1)
        contents[path.with_name(f"{path.stem}_weights.c")] = weights.encode()
        sizes = {"flash": found.flash, "ram": found.ram}
    else:
        contents[path] = stablehlo(program)
    make_directory(path.parent)
    for file, content in contents.items():
        write_file(file, content)
    return Written(tuple(contents), tuple(notes), **sizes)
