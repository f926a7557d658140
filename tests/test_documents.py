"""What README and guide print as code runs as printed."""

import importlib.util
import re
from pathlib import Path

import pytest

from paper import page as results

ROOT = Path(__file__).parent.parent
_spec = importlib.util.spec_from_file_location("tutorials", ROOT / "docs/_site/tutorials.py")
tutorials = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tutorials)
PAGES = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.integration
@pytest.mark.usefixtures("single_precision")
@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/index.md",
        "docs/guide.md",
        "docs/estimators.md",
        "docs/forecasts.md",
        "docs/oscillators.md",
        "docs/ecosystem.md",
        "docs/derivation.md",
        "docs/export.md",
    ],
)
def test_python_blocks_run(page):
    blocks = BLOCK.findall((ROOT / page).read_text())
    assert blocks
    exec(compile("\n".join(blocks), page, "exec"), {})


@pytest.mark.integration
@pytest.mark.usefixtures("single_precision")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=[pytest.mark.slow] * (page.stem == "million"))
        for page in tutorials.PAGES
    ],
)
def test_tutorials_run_and_make_their_pictures(page, tmp_path):
    pictures = tutorials.run(page, tmp_path)
    assert all((page.parent / picture).exists() for picture in pictures)


def test_the_page_of_results_is_made_of_its_files(tmp_path):
    page = ROOT / "docs" / "results.md"
    copy = tmp_path / "results.md"
    copy.write_bytes(page.read_bytes())
    results.rewrite(copy, ROOT / "paper" / "results")
    assert copy.read_text() == page.read_text()


def test_readme_examples_are_short():
    examples = BLOCK.findall((ROOT / "README.md").read_text())
    assert [len([line for line in e.splitlines() if line.strip()]) for e in examples] == [4, 5]


def test_the_pages_can_be_read_in_an_afternoon():
    pages = [*PAGES, *(ROOT / "docs").glob("*/*.md")]
    assert sum(len(page.read_text().split()) for page in pages) <= 25_000


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/guide.md",
        "docs/estimators.md",
        "docs/forecasts.md",
        "docs/oscillators.md",
        "docs/export.md",
        "docs/ecosystem.md",
        "docs/derivation.md",
        "docs/install.md",
        "docs/paper.md",
        "docs/cli.md",
        "docs/scaling.md",
        "docs/settings.md",
        "docs/search.md",
        "docs/results.md",
        "docs/reproduce.md",
        "docs/reliability.md",
        "SECURITY.md",
    ],
)
def test_links_and_named_files_exist(page):
    text = (ROOT / page).read_text()
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
    named = re.findall(r"`((?:tests|benchmarks|docs)/[\w/.]*)`", text)
    missing = [n for n in links if not ((ROOT / page).parent / n).exists()]
    missing += [n for n in named if not (ROOT / n).exists()]
    tests = re.findall(r"`(tests/[\w/]*\.py)::(\w+)`", text)
    missing += [test for path, test in tests if f"\ndef {test}(" not in (ROOT / path).read_text()]
    assert not missing
