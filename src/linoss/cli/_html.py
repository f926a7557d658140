"""HTML elements of pages."""

import html
from collections.abc import Iterable, Sequence
from typing import Any


def text(value: Any) -> str:
    """A value as escaped text."""
    return html.escape(str(value))


def section(title: str, content: str) -> str:
    """A section with a title."""
    return f"<section>\n<h2>{title}</h2>\n{content}\n</section>"


def table(header: Sequence[Any], rows: Iterable[Sequence[Any]], style: str = "") -> str:
    """A table of text."""
    head = "".join(f'<th class="name">{text(cell)}</th>' for cell in header)
    lines = ["".join(f'<td class="name">{text(cell)}</td>' for cell in row) for row in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<table class="{style}">{f"<tr>{head}</tr>" if header else ""}{body}</table>'
