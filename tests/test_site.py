"""The site is built without a warning, loads nothing from elsewhere and has all exported names."""

import importlib
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site. MkDocs checks links, those of docstrings, too."""
    folder = tmp_path_factory.mktemp("site")
    result = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert not re.search("^WARNING", result.stderr, re.MULTILINE)
    return folder


class Loads(HTMLParser):
    """The addresses that a page loads."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if attributes.get("rel") != "canonical":
            self.found.append(attributes.get(LOADED.get(tag)) or "")


@pytest.mark.integration
def test_pages_load_nothing_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    elsewhere = re.compile(r"(https?:)?//")
    for page in pages:
        assert not [name for name in Loads(page.read_text()).found if elsewhere.match(name)], page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(\s*[\"']?(https?:)?//", sheet.read_text()), sheet


@pytest.mark.integration
@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "reference").glob("[!i]*.md")))
def test_reference_has_every_exported_name(site, page):
    room = f"linoss.{page.stem}"
    text = (site / "reference" / page.stem / "index.html").read_text()
    module = importlib.import_module(room)
    documented = [name for name in module.__all__ if callable(getattr(module, name))]
    assert documented
    assert not [name for name in documented if f'id="{room}.{name}"' not in text]
