"""Curves of Braille characters, for a terminal."""

import numpy as np

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # dots of a Braille character


def braille(values: np.ndarray, width: int = 72, height: int = 4) -> list[str]:
    """Draw a series as lines of text: each column spans its minimum to its maximum."""
    columns, rows = 2 * width, 4 * height
    edges = np.linspace(0, len(values), columns + 1)
    low, high = float(np.min(values)), float(np.max(values))
    scale = (rows - 1) / (high - low) if high > low else 0.0
    cells = np.zeros((height, width), int)
    before: tuple[int, int] | None = None
    for column in range(columns):
        start = min(int(edges[column]), len(values) - 1)
        here = values[start : max(int(edges[column + 1]), start + 1)]
        bottom, top = (round((float(v) - low) * scale) for v in (here.min(), here.max()))
        if before is not None:  # no gap between neighbours
            bottom, top = min(bottom, before[1]), max(top, before[0])
        before = (bottom, top)
        for row in range(rows - 1 - top, rows - bottom):
            cells[row // 4, column // 2] |= _DOTS[row % 4][column % 2]
    return ["".join(chr(0x2800 + cell) for cell in line) for line in cells]
