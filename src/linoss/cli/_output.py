"""What commands print: one JSON object, or tables for people."""

import csv
import io
import json
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from linoss._plain import plain


def show_json(record: dict[str, Any]) -> None:
    """Print a JSON object on one line of stdout."""
    sys.stdout.write(json_line(record))
    sys.stdout.flush()


def json_line(record: Any) -> str:
    """A line of JSON, in which numbers that are not finite are null."""
    return json.dumps(plain(record, lenient=True), ensure_ascii=False, allow_nan=False) + "\n"


def number(value: float | None, digits: int = 4) -> str:
    """A number with few digits."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞"
    return f"{value:.0f}" if 10**digits <= abs(value) < 10**6 else f"{value:.{digits}g}"


def csv_text(header: Sequence[Any], rows: Iterable[Sequence[Any]]) -> str:
    """A table as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def show_table(title: str | None, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table on stdout. Markup in its text is not interpreted."""
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
    """Print a line on stdout."""
    sys.stdout.write(text + "\n")
