"""Tutorials as programs: `python docs/_site/tutorials.py` runs them and keeps their pictures."""

import contextlib
import io
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PAGES = sorted((Path(__file__).parents[1] / "tutorials").glob("*.md"))
BLOCK = re.compile(
    r"^```(python|console|c)\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL
)
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)]+)\)")
_NUMBER = re.compile(r"\d+(\.\d+)?")
FILE = re.compile(r"/\* (\S+\.c) \*/")


def run(page: Path, folder: Path) -> list[str]:
    """Run a page in a folder, and return the pictures that it shows, which it must have made.

    Python blocks are one program. Lines of console blocks are commands, and a C block is the file
    that its first line names. A text block right after a block is what that prints; numbers
    may differ a little, as they do from machine to machine.
    """
    text = page.read_text()
    names: dict[str, Any] = {}
    for language, code, shown in BLOCK.findall(text):
        with contextlib.chdir(folder):
            printed = {"python": _python, "console": _console, "c": _write}[language](code, names)
        if shown and not _alike(printed.split(), shown.split()):
            raise AssertionError(f"{page.name} shows\n{shown}\nbut prints\n{printed}")
    pictures = PICTURE.findall(text)
    missing = [name for name in pictures if not (folder / name).exists()]
    if missing or not pictures:
        raise AssertionError(f"{page.name} shows pictures {pictures}, but does not make {missing}")
    return pictures


def _alike(printed: list[str], shown: list[str]) -> bool:
    """The same words, and numbers that differ by less than a twentieth, or by 0.05."""
    pairs = [*zip(printed, shown, strict=False)]
    return len(printed) == len(shown) and all(
        a == b or (_NUMBER.fullmatch(a) and _NUMBER.fullmatch(b) and _close(float(a), float(b)))
        for a, b in pairs
    )


def _close(a: float, b: float) -> bool:
    return abs(a - b) <= 0.05 * max(1, abs(b))


def _python(code: str, names: dict[str, Any]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, names)
    return printed.getvalue()


def _console(code: str, names: dict[str, Any]) -> str:
    printed = ""
    for line in code.splitlines():
        command = re.sub(r"\blinoss ", f"{sys.executable} -m linoss ", line.removeprefix("$ "))
        result = subprocess.run(command, shell=True, capture_output=True, text=True)
        if result.returncode:
            raise AssertionError(f"{line}\n{result.stdout}{result.stderr}")
        printed += result.stdout
    return printed


def _write(code: str, names: dict[str, Any]) -> str:
    (name,) = FILE.findall(code)
    Path(name).write_text(code)
    return ""


if __name__ == "__main__":
    import matplotlib

    matplotlib.use("agg")
    for page in PAGES:
        with tempfile.TemporaryDirectory() as folder:
            for picture in run(page, Path(folder)):
                shutil.copy(Path(folder, picture), page.parent)
        print(page.name)
