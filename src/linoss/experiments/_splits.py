"""The splits of the published runs, and the cases of each part."""

import functools
from pathlib import Path

import jax
import numpy as np

from linoss.data import DataError, Sequences, read, read_parts
from linoss.experiments._data_sets import PARTS, find


def published_split(cases: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Indices of the training, validation and test part: 70, 15 and 15 percent.

    The published runs drew them with the random bits of JAX before they became independent of
    sharding; JAX still provides these on request.

    ```python
    >>> from linoss.experiments._splits import published_split
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
    training, validation, test = (read(folder / str(seed) / f"{part}.npz") for part in PARTS)
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

    NumPy's function makes a field of each value, which is slow for arrays of 200,000 values.

    ```python
    >>> import numpy as np
    >>> from linoss.experiments._splits import sorted_unique
    >>> sorted_unique([np.array([2.0, 1.0]), np.array([1.0, 3.0]), np.array([2.0, 1.0])])
    array([1, 0])

    ```
    """
    flat = [row.reshape(-1) for row in rows]

    def compare(i: int, j: int) -> int:
        different = flat[i] != flat[j]
        first = int(np.argmax(different))
        if not different[first]:
            return 0
        return -1 if flat[i][first] < flat[j][first] else 1

    order = sorted(range(len(rows)), key=functools.cmp_to_key(compare))
    kept = [i for place, i in enumerate(order) if not place or compare(order[place - 1], i)]
    return np.array(kept)
