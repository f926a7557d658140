"""report.html: whole, self-contained, and safe whatever the data say."""

import getpass
import re
import shutil
import socket
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest

from linoss.cli._data_report import About
from linoss.cli._data_report import prediction_sections as answer_sections
from linoss.cli._inspect import BlockSpectrum, banks
from linoss.cli._pictures import learning_curves, predicted_against_true, spectrum, svg
from linoss.cli._report import report
from linoss.cli._scores import ClassScore, NumberScore, last_forecasts
from linoss.data import read_table, sequences
from linoss.estimators import load as load_estimator

HOSTILE = '<script>alert("x")</script>&<img src=x onerror=alert(1)> $\\frac{1$ "quoted" 日本語'


class Page(HTMLParser):
    """Checks that tags are closed in order, and collects what a page is made of."""

    EMPTY = ("meta", "br", "img")

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.links, self.words = [], [], [], []
        self.feed(text)
        assert not self.open

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

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def page_of(directory):
    return Page((directory / "report.html").read_text(encoding="utf-8"))


SECTIONS = ["Score", "Learning curves", "Oscillators", "Settings", "Environment", "Use this run"]


def test_of_a_classifier(run):
    page = page_of(run)
    for title in [*SECTIONS, "Confusion", "Classes", "Contribution of each value"]:
        assert title in page.text
    assert page.tags.count("svg") == 4
    assert "test accuracy" in page.text
    assert "linoss predict RUN DATA --out predictions.csv" in page.text


def test_of_a_regressor(regressor):
    page = page_of(regressor)
    assert all(title in page.text for title in [*SECTIONS, "Predicted and true values", "R²"])
    assert page.tags.count("svg") == 5


def test_of_a_forecaster(forecaster):
    page = page_of(forecaster)
    titles = ["Forecast", "what came", "heat", "Errors by horizon", "Worst windows"]
    titles += ["seasonal naive", "in 80 %", "Variables known in advance", "in the unit of the"]
    assert all(title in page.text for title in [*SECTIONS, *titles])
    assert "linoss forecast RUN --horizon 6 --out forecast.csv" in page.text
    assert page.tags.count("svg") == 3  # short series: no learning curve


@pytest.mark.parametrize("kind", ["run", "regressor", "forecaster"])
def test_nothing_is_fetched_and_nothing_runs(kind, request):
    directory = request.getfixturevalue(kind)
    page = page_of(directory)
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in page.links)
    assert not {"script", "link", "iframe", "object", "img"} & set(page.tags)
    assert "url(" not in re.sub(r"url\(#", "", (directory / "report.html").read_text())


def test_it_has_no_names_of_users_machines_or_places(run, data):
    text = (run / "report.html").read_text()
    for private in (str(data), str(run), socket.gethostname(), f"/{getpass.getuser()}/"):
        assert private not in text


def test_it_is_light_and_dark(run):
    text = (run / "report.html").read_text()
    assert "prefers-color-scheme: dark" in text
    drawn = text[text.index("<svg") :]
    assert "var(--ink)" in drawn
    assert not re.search(r"(fill|stroke): #", drawn)


@pytest.fixture(scope="module")
def hostile(folder, waves, small, good):
    """A run whose labels and channels are full of tags and formulas."""
    values, labels = waves(12)
    directory = folder / "Hostile"
    directory.mkdir()
    names = np.array([HOSTILE, "b" * 150])[labels]
    for part in ("train", "test"):
        np.savez(directory / f"{part}.npz", X=values, y=names)
    out = folder / "hostile"
    good(f"fit {directory} --task classification --out {out} {small} --steps 2")
    return out


def test_labels_are_text_whatever_they_say(hostile):
    page = page_of(hostile)
    assert HOSTILE in page.text
    assert not {"script", "img"} & set(page.tags)


@pytest.mark.usefixtures("single_precision", "unchecked")
def test_names_of_variables_are_text_whatever_they_say(tmp_path, small_forecaster, good):
    path, out = tmp_path / "table.csv", tmp_path / "run"
    name = HOSTILE.replace('"', "'")
    rows = "\n".join(f"{np.sin(i / 2):.4f}" for i in range(50))
    path.write_text(f'"{name}"\n{rows}\n', encoding="utf-8")
    options = f"--horizon 3 --past 9 {small_forecaster} --steps 1"
    good(f"fit {path} --task forecasting --out {out} {options}")
    page = page_of(out)
    assert "<script>alert('x')</script>" in page.text
    assert not {"script", "img"} & set(page.tags)


def test_many_classes_are_listed_by_what_is_confused(run):
    estimator = load_estimator(run)
    estimator.history_, estimator.n_steps_, estimator.best_metric_ = [], 0, None
    confusion = np.diag(np.full(30, 5))
    confusion[3, 7], confusion[4, 2] = 2, 9
    page = Page(
        report(
            estimator,
            ClassScore(tuple(f"class {i}" for i in range(30)), confusion, np.zeros(30, int)),
        )
    )
    assert "true predicted cases class 4 class 2 9 class 3 class 7 2" in page.text
    assert "There were no evaluations." in page.text


def test_without_a_test_part(run):
    estimator = load_estimator(run)
    record = {"step": 1, "loss": 0.5, "metric": None, "best": None}
    estimator.history_, estimator.n_steps_, estimator.best_metric_ = [record], 1, None
    estimator.left_out_score_ = None
    page = Page(report(estimator, None))
    assert "last training loss 0.5" in page.text
    assert "The data have no test part." in page.text


# ---- Pictures ----


def drawn(figure):
    return Page(svg(figure, "a picture")).text


def test_curves_of_a_large_span_are_logarithmic():
    history = [
        {"step": i, "loss": 10.0**-i, "metric": 0.1 * i, "best": 0.4, "seconds": 0}
        for i in range(5)
    ]
    figure = learning_curves(history, "accuracy")
    assert figure.axes[0].get_yscale() == "log"
    assert "Validation accuracy, best circled" in drawn(figure)


def test_oscillators_without_decay_or_oscillation_are_drawn_apart():
    values = np.array([[1j, -1j], [1.0, 1.0], [0.5, 0.5]])
    text = drawn(spectrum([BlockSpectrum("block 1", np.array([1.0, 0, 1]), values)]))
    assert "no decay" in text
    assert "no oscillation" in text


@pytest.mark.parametrize(
    # Without decay: the test above.
    ("scheme", "blocks"),
    [("im", 10), pytest.param("imex", 1, marks=pytest.mark.slow), ("exact", 1)],
)
def test_a_spectrum_of_any_kind_can_be_drawn(scheme, blocks):
    import jax

    import linoss

    with jax.enable_x64(False):
        sizes = {"hidden_size": 4, "state_size": 8, "num_blocks": blocks}
        config = linoss.LinOSSConfig(in_size=1, out_size=1, scheme=scheme, **sizes)
        model = linoss.LinOSS(config, key=jax.random.key(0))
    assert f"block {blocks}" in drawn(spectrum(banks(model)))


def test_points_that_are_many_are_thinned():
    truth = np.arange(100_000.0)[:, None]
    text = svg(predicted_against_true(NumberScore(truth, truth + 1, 100_000)), "a picture")
    assert text.count("<use") < 3000


@pytest.mark.usefixtures("single_precision", "unchecked")
def test_the_forecast_that_is_drawn_is_that_of_the_last_steps(forecaster, load):
    estimator, table = load_estimator(forecaster), read_table(load)
    first, second = last_forecasts(estimator, table)
    assert (first.name, second.name) == ("load", "heat")
    np.testing.assert_array_equal(first.truth, table.series[0][-6:, 0])
    np.testing.assert_array_equal(first.past, table.series[0][-30:-6, 0])
    assert first.forecast.shape == (6,)


# ---- A browser ----

CHROMIUM = next(
    (
        p
        for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))
        if p
    ),
    None,
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")


def browse(tmp_path, path, *options):
    command = [
        str(CHROMIUM),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        f"--user-data-dir={tmp_path / 'profile'}",
        *options,
        path.as_uri(),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


@needs_chromium
@pytest.mark.parametrize("kind", ["run", "regressor", "forecaster", "hostile"])
def test_a_browser_shows_it_without_complaint(tmp_path, kind, request):
    found = browse(tmp_path, request.getfixturevalue(kind) / "report.html", "--dump-dom")
    for title in SECTIONS:
        assert f"<h2>{title}</h2>" in found.stdout
    assert found.stdout.count("<svg") >= 2
    assert "CONSOLE" not in found.stderr
    assert "<script" not in found.stdout


@needs_chromium
def test_a_browser_draws_it(tmp_path, run):
    picture = tmp_path / "page.png"
    browse(tmp_path, run / "report.html", f"--screenshot={picture}", "--window-size=1000,2000")
    from matplotlib.image import imread

    pixels = imread(picture)[..., :3]
    assert pixels.shape == (2000, 1000, 3)
    assert len(np.unique((pixels.reshape(-1, 3) * 255).astype(int), axis=0)) > 50


# ---- Data, answers and mistakes ----


def test_data_and_honest_answers(tmp_path, waves, good, good_json):
    """Without a test part: what is shown are answers of fits without the case."""
    values, labels = waves(24)
    values = np.array(values) + np.random.default_rng(0).normal(size=np.shape(values))
    values[3, 0, 5] = np.nan
    path, out = tmp_path / "Noisy.npz", tmp_path / "run"
    np.savez(path, X=values, y=np.array(["quick", "slow"])[labels])
    settings = "--task classification --model oscillators --n-oscillators 16"
    found = good_json(f"fit {path} {settings} --out {out}")
    accuracy = found["left_out"]["accuracy"]
    text, right = page_of(out).text, round(24 * accuracy)
    assert 0 < right < 24  # noisy enough for mistakes
    assert f"{right} of 24 predictions for held-out training cases are correct" in text
    for fact in ("file Noisy.npz", "cases 24", f"length {values.shape[2]}", "missing values 1 of"):
        assert fact in text
    assert f"quick {np.sum(labels == 0)}" in text
    assert f"The most confident of {24 - right} wrong predictions" in text
    evaluated = tmp_path / "evaluated.html"
    again = good_json(f"evaluate {out} {path} --report {evaluated}")
    page = Page(evaluated.read_text(encoding="utf-8"))
    right = round(24 * again["accuracy"])
    assert f"{right} of 24 predictions for the test part are correct" in page.text
    confusion = np.array(again["confusion"])
    shares = [again["precision"][name] for name in ("quick", "slow")]
    np.testing.assert_allclose(shares, np.diag(confusion) / confusion.sum(axis=0))


def test_the_most_confident_mistakes_are_shown(waves):
    """Of answers made up here, against a sort of them."""
    values, _ = waves(12)
    shares = np.random.default_rng(0).dirichlet([1, 1], size=12)
    truth = 1 - np.argmax(shares, axis=1)  # all are wrong
    score = ClassScore(("a", "b"), np.array([[0, 6], [6, 0]]), np.zeros(2, int), truth, shares)
    cases = sequences(values)
    text = Page("".join(answer_sections(About(None, cases, score, answered=cases)))).text
    order = np.argsort(-shares.max(axis=1))
    assert all(f"case {i}:" in text for i in order[:6])
    assert not any(f"case {i}:" in text for i in order[6:])
