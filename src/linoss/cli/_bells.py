"""Generated data of `linoss demo`: the sounds of bells in noise."""

import numpy as np

KINDS = {"glass": (11.0, 160.0), "bronze": (27.0, 160.0), "wood": (27.0, 35.0)}
"""Three bells: the period and the decay time of their sound, in samples."""
_NOISE = 0.6


def bells(seed: int, cases: int, length: int = 1500) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Recordings `(cases, 1, length)` of noise with one stroke of a bell; its kind and its time.

    ```python
    >>> from linoss.cli._bells import bells
    >>> recordings, names, struck = bells(seed=0, cases=4)
    >>> recordings.shape, names.tolist()
    ((4, 1, 1500), ['glass', 'bronze', 'wood', 'glass'])

    ```
    """
    draw = np.random.default_rng(seed)
    names = np.array(list(KINDS))[np.arange(cases) % len(KINDS)]
    period, fading = np.array([KINDS[name] for name in names]).T
    period = period * draw.uniform(0.93, 1.07, cases)
    struck = draw.integers(length // 10, length // 2, cases)
    since = np.arange(length) - struck[:, None]
    turns = since / period[:, None] + draw.uniform(size=(cases, 1))
    sound = np.sin(2 * np.pi * turns) * np.exp(-np.maximum(since, 0) / fading[:, None])
    loudness = draw.uniform(1.0, 2.0, (cases, 1))
    recordings = _NOISE * draw.normal(size=(cases, length)) + loudness * np.where(
        since >= 0, sound, 0
    )
    return recordings[:, None].astype(np.float32), names, struck
