"""What MkDocs does besides: pages of the repository's root, and equations as MathML."""

import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
SOURCE = re.compile(r"\[([^\]]+)\]\((?:\.\./)*(?:src|native|tests|benchmarks)/[^)]*\)")
EQUATION = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRIME = re.compile(r"<msup>(<mi>\w</mi><mi>&#x0203[23];</mi>)</msup>")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the root; links in them are as on the site."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text().replace("](docs/", "](")
        files.append(File.generated(config, page, content=_within(text)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Equations as MathML, which browsers show without a script.

    Parentheses of matrices are borders, see style.css: many fonts have none that stretch. Primes
    are letters, which fonts raise by themselves; as superscripts they are too small to see.
    """

    def equation(found: re.Match[str]) -> str:
        text = found[1].replace("{pmatrix}", "{matrix}")
        shown = PRIME.sub(r"\1", convert(text, display="block"))
        return f'<div class="equation">{shown}</div>'

    return EQUATION.sub(equation, _within(markdown))


def _within(text: str) -> str:
    """Links to pages of the root as on the site; source files, which it has not, as text."""
    text = SOURCE.sub(r"\1", text)
    for name, page in PAGES.items():
        text = re.sub(rf"\]\((?:\.\./)?((?:\.\./)*){name}", rf"](\1{page}", text)
    return text
