"""Output of commands: one JSON object, or tables and lines."""

import csv
import io
import json
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from linoss._plain import plain

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def show_json(record: dict[str, Any]) -> None:
    """Print a JSON object on one line of stdout."""
    sys.stdout.write(json_line(record))
    sys.stdout.flush()


def json_line(record: Any) -> str:
    """A line of JSON; numbers that are not finite become null."""
    return json.dumps(plain(record, lenient=True), ensure_ascii=False, allow_nan=False) + "\n"


def number(value: float | None, digits: int = 4) -> str:
    """Format a number with few digits."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞"
    return f"{value:.0f}" if 10**digits <= abs(value) < 10**6 else f"{value:.{digits}g}"


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Format rows as CSV. None and NaN become empty cells.

    Text that a spreadsheet would run as a formula is prefixed with an apostrophe.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([csv_cell(value) for value in row] for row in rows)
    return text.getvalue()


def csv_cell(value: Any) -> Any:
    """Convert a value to a CSV cell."""
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, str) and value.startswith(_FORMULA) and not _is_number(value):
        return "'" + value
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def show_table(
    title: str | None,
    header: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    left: bool = False,
) -> None:
    """Print a table on stdout, numbers at the right unless `left`; markup is text."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=None if title is None else Text(title, "bold"), title_justify="left")
    for i, name in enumerate(header):
        table.add_column(Text(name), justify="right" if i and not left else "left")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    Console(highlight=False).print(table)


def show_line(text: str) -> None:
    """Print a line on stdout."""
    sys.stdout.write(text + "\n")
