"""What commands print: one JSON object, or tables for people; and files, whole or not at all."""

import csv
import io
import json
import math
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def show_json(record: dict[str, Any]) -> None:
    """One JSON object on a line of stdout."""
    sys.stdout.write(json_line(record))
    sys.stdout.flush()


def json_line(record: Any) -> str:
    """As JSON, in which numbers that are not finite are null."""
    return json.dumps(_plain(record), ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def number(value: float | None, digits: int = 4) -> str:
    """A number as people read it."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞"
    return f"{value:.0f}" if 10**digits <= abs(value) < 10**6 else f"{value:.{digits}g}"


def csv_text(header: Sequence[Any], rows: Iterable[Sequence[Any]]) -> str:
    """A table with commas."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def write_text(path: Path, content: str) -> None:
    """Write a file such that it has the old content or the new."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        temporary.write_text(content, encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(f"{path}: cannot be written ({error.strerror or error})") from error


def show_table(title: str | None, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table for people, on stdout. Text of the data is shown as it is."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=None if title is None else Text(title, "bold"), title_justify="left")
    for i, name in enumerate(header):
        table.add_column(Text(name), justify="right" if i else "left")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    Console(highlight=False).print(table)


def show_line(text: str) -> None:
    """A line for people, on stdout."""
    sys.stdout.write(text + "\n")
