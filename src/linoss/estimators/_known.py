"""Means over what is known, where values are missing."""

import numpy as np


def known_mean(values: np.ndarray, axis: int | tuple[int, ...] | None = None) -> np.ndarray:
    """The mean of what is not NaN; NaN where nothing is."""
    there = ~np.isnan(values)
    count = there.sum(axis=axis)
    total = np.sum(values, axis=axis, where=there)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
