"""The splits of the published runs, index by index."""

import jax
import numpy as np


def published_split(cases: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Indices of the training, validation and test part: 70, 15 and 15 percent.

    The published runs drew them with the random bits that JAX had before it made them
    independent of how an array is sharded; JAX still has these on demand.

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
