"""report.html: whole, self-contained, and safe whatever the data say."""

import getpass
import re
import shutil
import socket
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest

HOSTILE = '<script>alert("x")</script>&<img src=x onerror=alert(1)> $\\frac{1$ {{ 7*7 }} 日本語'
HOSTILE_NAME = HOSTILE.replace('"', "'")
SECTIONS = ("Score", "Data", "Settings", "Environment", "Use this run")


class Page(HTMLParser):
    """Checks that tags are closed in order, and collects what a page is made of."""

    EMPTY = ("meta", "br", "img")

    def __init__(self, path):
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.open, self.tags, self.links, self.words = [], [], [], []
        self.feed(self.source)
        assert not self.open
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [v for k, v in attrs if k in ("src", "href", "xlink:href", "data", "action")]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.mark.parametrize(
    ("kind", "figures", "words"),
    [
        ("run", 8, ["Learning curves", "Oscillators", "Confusion", "Classes", "test accuracy"]),
        ("run", 8, ["Attribution", "linoss predict RUN DATA --out predictions.csv"]),
        ("oscillators", 2, ["Attribution", "leave-one-out", "stream RUN"]),
        ("regressor", 8, ["Predicted and true values", "R²", "no decay", "file Numbers"]),
        ("forecaster", 2, ["Forecast", "observed", "seasonal naive"]),
        ("forecaster", 2, ["in 80 %", "Methods", "Forecasts are by"]),
    ],
)  # fmt: skip
def test_pages(kind, figures, words, request):
    page = Page(request.getfixturevalue(kind) / "report.html")
    for word in (*SECTIONS, *words):
        assert word in page.text
    assert page.tags.count("svg") == figures
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in page.links)
    assert not {"script", "link", "iframe", "object", "img"} & set(page.tags)
    assert "url(" not in re.sub(r"url\(#", "", page.source)


def test_it_has_no_names_of_users_machines_or_places(run, data):
    text = (run / "report.html").read_text()
    for private in (str(data), str(run), socket.gethostname(), f"/{getpass.getuser()}/"):
        assert not re.search(rf"\b{re.escape(private)}\b", text)


def test_it_is_light_and_dark(run):
    text = (run / "report.html").read_text()
    assert "prefers-color-scheme: dark" in text
    drawn = text[text.index("<svg") :]
    assert "var(--ink)" in drawn
    assert not re.search(r"(fill|stroke): #", drawn)


@pytest.fixture(scope="session")
def hostile(once, waves, bank, good):
    """A run whose labels are full of tags and formulas."""

    def make(out):
        values, labels = waves(12)
        path = out.with_name("hostile.npz")
        np.savez(path, X=values, y=np.array([HOSTILE, "b" * 150])[labels])
        good(f"fit {path} --task classification --out {out} {bank}")

    return once("hostile", make)


@pytest.fixture(scope="session")
def hostile_table(once, small_forecaster, good):
    """A forecaster of several series, whose variables have such names."""

    def make(out):
        rows = "\n".join(f"{name},{i},{np.sin(i / 2):.4f}" for name in "ab" for i in range(50))
        path = out.with_name("hostile.csv")
        path.write_text(f'unique_id,ds,"{HOSTILE_NAME}"\n{rows}\n', encoding="utf-8")
        options = f"--horizon 3 {small_forecaster} --steps 1"
        good(f"fit {path} --task forecasting --out {out} {options}")

    return once("hostile_table", make)


@pytest.mark.parametrize("kind", ["hostile", "hostile_table"])
def test_labels_and_names_are_text_whatever_they_say(kind, request):
    page = Page(request.getfixturevalue(kind) / "report.html")
    assert (HOSTILE if kind == "hostile" else HOSTILE_NAME) in page.text
    assert not {"script", "img"} & set(page.tags)


def test_data_and_honest_scores(tmp_path, waves, bank, good, good_json):
    """Without a test part, predictions are those of fits without the case."""
    values, labels = waves(24)
    values = np.array(values) + np.random.default_rng(0).normal(size=np.shape(values))
    values[3, 0, 5] = np.nan
    path, out = tmp_path / "Noisy.npz", tmp_path / "run"
    np.savez(path, X=values, y=np.array(["quick", "slow"])[labels])
    found = good_json(f"fit {path} --task classification {bank} --out {out}")
    page = Page(out / "report.html")
    right = round(24 * found["scores"]["leave-one-out accuracy"])
    assert 0 < right < 24  # noisy enough for mistakes
    assert found["held_out"]["accuracy"] == right / 24
    assert f"{right} of 24 predictions for held-out training cases are correct" in page.text
    for fact in (
        "file Noisy.npz",
        "24 cases of 2",
        f"{values.shape[2]} samples",
        "missing values 1 of",
    ):
        assert fact in page.text
    assert f"The most confident of {24 - right} wrong predictions" in page.text
    assert "The data have no test part." in page.text
    evaluated = tmp_path / "evaluated.html"
    again = good_json(f"evaluate {out} {path} --report {evaluated}")
    page = Page(evaluated)
    right = round(24 * again["accuracy"])
    assert f"{right} of 24 predictions for the test part are correct" in page.text
    assert "Settings" not in page.text


def test_many_classes_have_no_confusion_matrix(tmp_path, bank, good):
    values, labels = np.random.default_rng(0).normal(size=(50, 1, 20)), np.arange(50) % 25
    np.savez(tmp_path / "many.npz", X=values, y=[f"class {i}" for i in labels])
    out = tmp_path / "run"
    good(f"fit {tmp_path / 'many.npz'} --task classification {bank} --out {out}")
    page = Page(out / "report.html")
    assert "The most frequent error: class" in page.text
    assert "Confusion" not in page.text


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
@pytest.mark.parametrize("kind", ["run", "forecaster", "hostile"])
def test_a_browser_draws_it_without_complaint(tmp_path, kind, request):
    picture, path = tmp_path / "page.png", request.getfixturevalue(kind) / "report.html"
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
        f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={picture}",
        "--window-size=1000,2000", path.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in done.stderr
    from matplotlib.image import imread

    pixels = imread(picture)[..., :3]
    assert pixels.shape == (2000, 1000, 3)
    assert len(np.unique((pixels.reshape(-1, 3) * 255).astype(int), axis=0)) > 50
