"""Every experiment from its data to its table, on tiny data."""

import functools
import json
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from linoss.training import evaluate, load_model
from paper import efficiency, numbers, page, uea, wristband
from paper.runs import Options, Result, folder_of, make_run, read_results, record
from paper.tables import cell

pytestmark = pytest.mark.usefixtures("small", "single_precision")


@pytest.fixture(scope="module")
def data(tmp_path_factory, write_archive, write_recordings, write_weather):
    """A directory with all data sets that the tests need."""
    folder = tmp_path_factory.mktemp("data")
    write_archive(folder, "SelfRegulationSCP1")
    write_archive(folder, "Heartbeat")
    write_recordings(folder, 1, labels=57)
    write_weather(folder, 203)
    curves = [
        {"model": "LinOSS_IM", "data_set": "SelfRegulationSCP1", "seed": 2345, "every": 2,
         "validation": [0.5, 0.7, 0.9], "test": 0.8}
    ]  # fmt: skip
    (folder / "published_curves.json").write_text(json.dumps(curves))
    return folder


def figures(folder):
    """Names of figures."""
    names = {path.stem for path in folder.glob("*.png")}
    for name in names:
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    return names


def test_uea(experiment, data, capsys):
    words = "--seeds 2345,3456 --model im --model damped --model oscillators --protocol quick"
    table = experiment("uea", *words.split(), data_dir=data)
    assert "| LinOSS-IM | paper | 95.0±4.4 | 87.8±2.6 |" in table
    assert "| LinOSS-IM | here, quick |  |" in table
    assert "| SCP1 | LinOSS-IM | published | 0.882 | 0.918 | 0.871 | 0.882 | 0.835 |" in table
    assert "| damped IMEX | here, quick |  |" in table
    assert "| untrained oscillators | here, oscillators |  | " in table
    results = read_results(experiment.out)
    assert np.mean([r.outcome["test"] for r in results if r.model == "oscillators"]) > 0.8
    results = [r for r in results if r.model != "oscillators"]
    assert len(results) == 2 * 2 * 2
    for result in results:
        assert result.outcome["cases"] == [26, 6, 6]
        assert sum(result.outcome["answers"]) == 6
        assert list(result.curve) == [2, 4]
        assert result.made["command"] == f"python -m paper uea {words}"
        assert result.settings["training"]["schedule"] == "constant"
    curves = {"uea-SelfRegulationSCP1-quick", "uea-Heartbeat-quick"}
    assert figures(experiment.out / "uea") == curves
    (image,) = [name for name in curves if "SCP1" in name]
    before = (experiment.out / "uea" / f"{image}.png").read_bytes()
    uea.report(results, experiment.out, published=())
    assert (experiment.out / f"{image}.png").read_bytes() != before  # without the published curve


def test_the_test_metric_is_that_of_the_saved_weights(experiment, data):
    words = "--data-set Heartbeat --seeds 4567 --model imex"
    experiment("uea", *words.split(), data_dir=data)
    (result,) = read_results(experiment.out)
    run = make_run(Options(experiment="uea", out=experiment.out), "Heartbeat", "imex", 4567)
    problem, saved = uea.make_problem(data, run), load_model(folder_of(experiment.out, run))
    expected = evaluate(saved.model, saved.inputs, saved.objective, problem.test)
    assert result.outcome["test"] == expected
    assert result.outcome["validation"] == max(result.curve.values())


def test_ppg(experiment, data):
    table = experiment("ppg", "--model", "im", data_dir=data)
    assert "| LinOSS-IM | paper | 6.40±0.23 |" in table
    assert "| LinOSS-IM | published | 0.0668 | 0.0618 |" in table
    results = read_results(experiment.out)
    assert [result.seed for result in results] == list(numbers.SEEDS)
    assert results[0].outcome["cases"] == [20, 3, 3]
    assert results[0].outcome["metric"] == "mse"
    assert figures(experiment.out / "ppg") == {"ppg-PPG-paper"}


def test_made_up_recordings_are_said_to_be(experiment, tmp_path):
    wristband.write(tmp_path, subjects=1, minutes=2)
    table = experiment("ppg", "--model", "im", "--seeds", 2345, data_dir=tmp_path)
    assert table.count("| LinOSS-IM | here, paper, made-up |") == 2


def test_weather(experiment, data):
    table = experiment("weather", "--model", "im", "--model", "s4", data_dir=data)
    assert "| LinOSS-IM | paper | 0.528 |" in table
    results = read_results(experiment.out)
    runs = [(model, variant) for model in ("im", "s4") for variant in ("calendar", "values")]
    assert sorted((result.model, result.variant) for result in results) == runs
    assert "| LinOSS-IM | here, paper, calendar | " in table
    assert "| S4 | quoted in the paper | 0.578 |\n| S4 | here, paper, calendar | " in table
    assert results[0].outcome["metric"] == "scaled mae"
    assert figures(experiment.out / "weather") == {"weather-Weather-paper"}


def test_harmonic_motion(experiment):
    table = experiment("harmonic-motion", "--max-steps", 2)
    for name in ("LinOSS-IM", "LinOSS-IMEX", "LinOSS-VV"):
        assert f"| {name} | 1×2 |" in table
    for result in read_results(experiment.out):
        assert len(result.outcome["error_over_time"]) == 40
        mean = np.mean(result.outcome["error_over_time"])
        assert mean == pytest.approx(result.outcome["test"], rel=1e-4)
    assert figures(experiment.out / "harmonic-motion") == {"harmonic-motion-paper"}


def test_ablations(experiment, data):
    table = experiment("parameterization", "--seeds", 2345, data_dir=data)
    assert "| LinOSS-IM | paper, squared-normal | 74.4±31.3 | 87.3±1.7 |" in table
    settings = {r.variant: r.settings["model"] for r in read_results(experiment.out)}
    assert settings["relu"]["parameterization"] == "relu"
    inits = {variant: settings[variant]["stiffness_init"] for variant in settings}
    assert inits["squared"] == "uniform"
    assert (inits["squared-root"], inits["squared-normal"]) == ("uniform-root", "normal")
    words = "--seeds 2345 --variant timestep-0.01 --variant timestep-1 --max-steps 2"
    table = experiment("timestep", *words.split(), data_dir=data)
    assert "| LinOSS-IM | here, paper, timestep-0.01 |" in table
    results = read_results(experiment.out / "timestep")
    assert {result.data_set for result in results} == {"SelfRegulationSCP1", "Heartbeat"}
    assert {result.settings["model"]["timestep"] for result in results} == {0.01, 1}


def test_efficiency(experiment, monkeypatch):
    size = efficiency.MeasuredSize(
        batch_size=2, length=6, in_size=2, out_size=2, hidden_size=4, state_size=4, num_blocks=1,
        model="imex",
    )  # fmt: skip
    monkeypatch.setattr(efficiency, "size_of", lambda data_set, model: size)
    words = ["efficiency", "--data-set", "EigenWorms", "--model", "imex", "--max-steps", 1]
    table = experiment(*words)
    assert "| Worms | LinOSS-IMEX |" in table
    assert "| 37 |" in table
    (result,) = read_results(experiment.out)
    assert set(result.outcome) == {"textbook", "linoss"}
    assert "already exists" in experiment(*words, code=1)
    experiment(*words, "--resume")


def test_a_method_that_does_not_fit_into_memory_is_said_to(experiment, monkeypatch):
    def worker(method, size):
        begin = os._exit if method == "textbook" else float
        return ProcessPoolExecutor(1, get_context("spawn"), initializer=begin, initargs=(9,))

    monkeypatch.setattr(efficiency, "worker", worker)
    for name in ("step", "turn", "peak"):
        monkeypatch.setattr(efficiency, name, SECONDS)
    table = experiment("efficiency", "--data-set", "MotorImagery", "--model", "imex")
    assert "| Motor | LinOSS-IMEX | has ended | 500 |  | 128 |" in table


SECONDS = functools.partial(float, 0.5)


def result(seed, test, steps, stopped_early=False):
    outcome = {"test": test, "steps": steps, "stopped_early": stopped_early}
    return Result(
        experiment="uea", data_set="SelfRegulationSCP1", model="im", seed=seed, outcome=outcome,
        protocol="quick",
    )  # fmt: skip


def test_a_cell_says_how_many_seeds_and_steps_and_why_they_ended():
    assert (
        cell([result(1, 0.5, 900, True), result(2, 0.7, 650, True)])
        == "0.6±0.1 (2×650–900, patience)"
    )
    mixed = [result(1, 0.5, 1000), result(2, 0.7, 650, True), result(3, None, 7)]
    assert cell(mixed, scale=100) == "60.0±10.0 (2×650–1,000, patience 1)"
    assert cell([result(1, 0.5, 1000)], digits=3) == "0.500 (1×1,000, limit)"
    assert cell([result(1, 0.5, 0)]) == "0.5 (1×0, no training)"
    assert cell([]) == ""


def test_the_page_shows_cells_of_which_a_run_ended_by_itself(tmp_path):
    options = Options(experiment="uea", out=tmp_path)
    runs = [result(1, 0.5, 650, True), result(2, 0.75, 1000), result(3, 0.5, 9)]
    for one, model in zip(runs, ("im", "im", "imex"), strict=True):
        fields = {"data_set": one.data_set, "protocol": "quick", "outcome": one.outcome}
        folder = tmp_path / "results" / "uea" / str(one.seed)
        record(options, folder, 0.0, model=model, seed=one.seed, **fields)
    text = "Before.\n<!-- accuracy -->\n{}\n<!-- / -->\nAfter.\n"
    (tmp_path / "page.md").write_text(text.format("old"))
    page.rewrite(tmp_path / "page.md", tmp_path / "results")
    written = (tmp_path / "page.md").read_text()
    assert written.startswith("Before.\n<!-- accuracy -->\n| model |")
    assert written.endswith("|\n<!-- / -->\nAfter.\n")
    assert "| LinOSS-IM | here, quick |  | 62.5±12.5 (2×650–1,000, patience 1) |" in written
    assert "| LinOSS-IMEX | here" not in written
