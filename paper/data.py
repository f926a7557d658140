"""The data sets: where they are, and the splits of the published runs."""

import functools
from pathlib import Path

import jax
import numpy as np

from linoss.data import DataError, Sequences, read, read_parts
from paper import numbers

VARIABLE = "LINOSS_DATA"


class MissingData(DataError):
    """A data set is missing."""

    def __init__(self, data_set: str, expected: object):
        super().__init__(
            f"the data set {data_set} is missing: get it from "
            f"{numbers.DATA_SETS[data_set].source} and put it at {expected}"
        )


def data_directory(given: Path | None) -> Path:
    """The directory of data sets, which must be given."""
    if given is None:
        raise DataError(
            f"no directory of data sets is given: pass --data-dir DIRECTORY, or set {VARIABLE}"
        )
    return given


def find(data_set: str, data_dir: Path) -> Path:
    """The directory of a data set.

    A set of the UEA archive may come split into the parts of each seed, in files such as
    `NAME-anything/SEED/training.npz`.
    """
    subjects = range(1, numbers.SUBJECTS + 1)
    needed = {
        "Weather": ["WTH/WTH.csv"],
        "PPG": [f"PPG_FieldStudy/S{number}/S{number}.pkl" for number in subjects],
        "TROIKA": ["TROIKA/DATA_01_TYPE01.mat"],
    }.get(data_set)
    if needed is not None:
        missing = [data_dir / name for name in needed if not (data_dir / name).exists()]
        if missing:
            others = ", ".join(path.stem for path in missing[1:])
            raise MissingData(data_set, f"{missing[0]}{others and f' (likewise {others})'}")
        return data_dir / Path(needed[0]).parts[0]
    folder = data_dir / data_set
    for suffix in (".ts", ".arff", ".npz"):
        if all((folder / f"{data_set}_{part}{suffix}").exists() for part in ("TRAIN", "TEST")):
            return folder
    split = sorted(data_dir.glob(f"{data_set}-*/*/test.npz"))
    if split:
        return split[0].parents[1]
    raise MissingData(data_set, folder / f"{data_set}_{{TRAIN,TEST}}.ts (or .arff)")


def published_split(cases: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Indices of the training, validation and test part: 70, 15 and 15 percent.

    The published runs drew them with the random bits of JAX before they became independent of
    sharding; JAX still provides these on request.

    ```python
    >>> from paper.data import published_split
    >>> train, validation, test = published_split(10, seed=2345)
    >>> train.tolist(), validation.tolist(), test.tolist()
    ([7, 2, 3, 1, 5, 6, 9], [4], [8, 0])

    ```
    """
    with jax.threefry_partitionable(False):
        data_key = jax.random.split(jax.random.PRNGKey(seed), 4)[0]
        order = np.asarray(jax.random.permutation(jax.random.split(data_key)[0], cases))
    first, second = int(0.7 * cases), int(0.85 * cases)
    return order[:first], order[first:second], order[second:]


def read_split(data_set: str, data_dir: Path, seed: int) -> tuple[Sequences, Sequences, Sequences]:
    """Training, validation and test part of a seed: as published, or as pre-split."""
    folder = find(data_set, data_dir)
    if folder.name == data_set:
        cases = read_joined(folder)
        first, second, third = published_split(len(cases), seed)
        return cases.select(first), cases.select(second), cases.select(third)
    if not (folder / str(seed)).is_dir():
        raise DataError(f"{folder}: has no parts of seed {seed}, expected {folder / str(seed)}")
    parts = ("training", "validation", "test")
    training, validation, test = (read(folder / str(seed) / f"{part}.npz") for part in parts)
    return training, validation, test


@functools.lru_cache(maxsize=1)
def read_joined(folder: Path) -> Sequences:
    """Both parts of an archive's data set joined: unique series, sorted."""
    training, test = read_parts(folder)
    if test is None:
        raise DataError(f"{folder}: has no test part, expected {folder.name}_TEST")
    values = [np.asarray(case) for part in (training, test) for case in part.values]
    if len({case.shape for case in values}) > 1 or any(np.isnan(case).any() for case in values):
        raise DataError(f"{folder}: has series of unequal length or missing values, expected none")
    labels = np.concatenate([np.asarray(training.labels), np.asarray(test.labels)])
    order = sorted_unique(values)
    return Sequences([values[i] for i in order], labels[order])


def sorted_unique(rows: list[np.ndarray]) -> np.ndarray:
    """Indices of the unique arrays in lexicographic order, as by `numpy.unique(axis=0)`.

    NumPy's function makes a field of each value, which is slow for arrays of 200,000 values. Here,
    each array is compared as bytes that are in the order of its numbers.

    ```python
    >>> import numpy as np
    >>> from paper.data import sorted_unique
    >>> sorted_unique([np.array([2.0, 1.0]), np.array([1.0, 3.0]), np.array([2.0, 1.0])])
    array([1, 0])

    ```
    """
    places: dict[bytes, int] = {}
    for place, row in enumerate(rows):
        bits = (row.reshape(-1).astype(np.float32) + np.float32(0)).view(np.uint32)
        ordered = np.where(bits >> 31, ~bits, bits | 1 << 31)
        places.setdefault(ordered.astype(">u4").tobytes(), place)
    return np.array([places[key] for key in sorted(places)])
