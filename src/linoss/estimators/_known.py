"""Means over values that are not missing."""

import numpy as np


def known_mean(values: np.ndarray, axis: int | tuple[int, ...] | None = None) -> np.ndarray:
    """The mean of values that are not NaN; NaN if there are none."""
    there = ~np.isnan(values)
    count = there.sum(axis=axis)
    total = np.sum(values, axis=axis, where=there)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
