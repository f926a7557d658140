"""Every experiment from its data to its table, on tiny data."""

import json
import subprocess
import sys

import numpy as np
import pytest

from linoss.experiments import EXPERIMENTS, _paper, efficiency, reproduce, uea, write_page
from linoss.experiments._protocol import NAMES
from linoss.experiments._results import read_results

pytestmark = pytest.mark.usefixtures("small", "single_precision")


@pytest.fixture(scope="module")
def data(tmp_path_factory, write_archive, write_recordings, write_weather):
    """A directory with all data sets that the tests need."""
    folder = tmp_path_factory.mktemp("data")
    write_archive(folder, "SelfRegulationSCP1")
    write_archive(folder, "Heartbeat", suffix=".arff")
    write_recordings(folder, 1, labels=57)
    write_weather(folder, 203)
    return folder


def figures(folder):
    """Names of figures, each of which must be there as PNG and as SVG."""
    names = {path.stem for path in folder.glob("*.png")}
    assert names == {path.stem for path in folder.glob("*.svg")}
    for name in names:
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (folder / f"{name}.svg").read_text()
    return names


CURVES = [
    {"model": "LinOSS_IM", "data_set": "SelfRegulationSCP1", "seed": seed, "every": 2,
     "validation": [0.5, value, 0.9], "test": 0.8}
    for seed, value in ((2345, 0.25), (3456, 0.75))
]  # fmt: skip


def test_uea(tmp_path, data, capsys):
    table = reproduce(
        "uea", out=tmp_path, data_dir=data, seeds=[2345, 3456], models=["im", "damped"],
        protocol="quick",
    ).read_text()  # fmt: skip
    assert "| LinOSS-IM | paper | 95.0 ± 4.4 | 87.8 ± 2.6 |" in table
    assert "| LinOSS-IM | here, quick | – |" in table
    assert "| SCP1 | LinOSS-IM | published | 0.882 | 0.918 | 0.871 | 0.882 | 0.835 |" in table
    assert "| damped IMEX | here, quick | – |" in table
    results = read_results(tmp_path / "uea")
    assert len(results) == 2 * 2 * 2
    for result in results:
        assert result.outcome["cases"] == [26, 6, 6]
        assert [record["step"] for record in result.history] == [2, 4]
        assert result.made["command"] == (
            "linoss reproduce uea --model im --model damped --seeds 2345,3456 --protocol quick"
        )
        assert result.settings["training"]["schedule"] == "constant"
    missing = json.loads((tmp_path / "uea" / "missing.json").read_text())
    assert set(missing) == set(_paper.UEA) - {"SelfRegulationSCP1", "Heartbeat"}
    assert "Skipped: the data set EigenWorms is missing" in capsys.readouterr().err
    assert figures(tmp_path / "uea") == {"uea-SelfRegulationSCP1-quick", "uea-Heartbeat-quick"}
    assert "are not shown: there is no `published_curves.json`" in table
    for result in results:
        assert sum(result.outcome["answers"]) == 6
    write_page(tmp_path, tmp_path / "without.md", data)
    (tmp_path / "published_curves.json").write_text(json.dumps(CURVES))
    write_page(tmp_path, tmp_path / "with.md", tmp_path)
    page = (tmp_path / "with.md").read_text()
    assert "are not shown" not in page
    for step, theirs in ((2, "50.0 ± 0.0 | 50.0 to 50.0"), (4, "50.0 ± 25.0 | 25.0 to 75.0")):
        ours = [
            record["metric"]
            for result in results
            if (result.data_set, result.model) == ("SelfRegulationSCP1", "im")
            for record in result.history
            if record["step"] == step
        ]
        mean = 100 * np.mean(ours)
        assert (
            f"| here, quick | {step} | {mean:.1f} (2 seeds) | {theirs} | {mean - 50:+.1f} |" in page
        )
    name = "uea-SelfRegulationSCP1-quick.svg"
    assert "published" in (tmp_path / "with" / name).read_text()
    assert "published" not in (tmp_path / "without" / name).read_text()


def test_the_test_metric_is_that_of_the_saved_weights(tmp_path, data):
    from linoss.experiments._execute import make_run
    from linoss.experiments._protocol import Options
    from linoss.training import evaluate, load_model

    reproduce("uea", out=tmp_path, data_dir=data, data_sets=["Heartbeat"], seeds=[4567],
              models=["imex"])  # fmt: skip
    (result,) = read_results(tmp_path / "uea")
    run = make_run("uea", Options(out=tmp_path), "Heartbeat", "imex", 4567)
    problem, saved = uea.make_problem(data, run), load_model(run.folder(tmp_path))
    found = evaluate(saved.model, saved.inputs, saved.objective, problem.test)
    assert result.outcome["test"] == found
    best = max(record["metric"] for record in result.history)
    assert result.outcome["validation"] == best


@pytest.mark.slow  # test_uea_search.py has all of its parts
def test_uea_search(tmp_path, data):
    table = reproduce(
        "uea-search", out=tmp_path, data_dir=data, data_sets=["Heartbeat"], models=["im"],
        processes=2,
    ).read_text()  # fmt: skip
    first, second = read_results(tmp_path / "uea-search")
    best = max(first, second, key=lambda result: result.outcome["validation"])
    rate = best.settings["hyperparameters"]["learning_rate"]
    line = f"| Heartbeat | LinOSS-IM | here, paper, 1 (2 of 2 tried) | {rate:g} | 4 | 4 | 1 |"
    assert line in table
    assert "| Heartbeat | LinOSS-IM | paper |" in table


def test_ppg(tmp_path, data):
    table = reproduce("ppg", out=tmp_path, data_dir=data, models=["im"]).read_text()
    assert "| LinOSS-IM | paper | 6.40 ± 0.23 |" in table
    assert "| LinOSS-IM | published | 0.0668 | 0.0618 |" in table
    results = read_results(tmp_path / "ppg")
    assert [result.seed for result in results] == list(_paper.SEEDS)
    assert results[0].outcome["cases"] == [20, 3, 3]
    assert results[0].outcome["metric"] == "mse"
    assert figures(tmp_path / "ppg") == {"ppg-paper"}


def test_weather(tmp_path, data):
    table = reproduce("weather", out=tmp_path, data_dir=data).read_text()
    assert "| LinOSS-IM | paper | 0.528 |" in table
    results = read_results(tmp_path / "weather")
    runs = {(model, variant) for model in ("im", "imex") for variant in ("calendar", "values")}
    assert {(result.model, result.variant) for result in results} == runs
    assert len(results) == len(runs)
    assert "| LinOSS-IM | here, paper, calendar | " in table
    assert results[0].outcome["metric"] == "scaled mae"
    assert figures(tmp_path / "weather") == {"weather-paper"}


def test_harmonic_motion(tmp_path):
    table = reproduce("harmonic-motion", out=tmp_path, max_steps=2).read_text()
    for name in ("LinOSS-IM", "LinOSS-IMEX", "LinOSS-VV"):
        assert f"| {name} | paper | 1 | 2 |" in table
    results = read_results(tmp_path / "harmonic-motion")
    for result in results:
        assert len(result.outcome["error_over_time"]) == 40
        assert np.mean(result.outcome["error_over_time"]) == pytest.approx(
            result.outcome["test"], rel=1e-4
        )
    names = {"harmonic-motion-paper", "harmonic-motion-curves-paper"}
    assert figures(tmp_path / "harmonic-motion") == names


def test_parameterization(tmp_path, data):
    table = reproduce("parameterization", out=tmp_path, data_dir=data, seeds=[2345]).read_text()
    assert "| LinOSS-IM | squared-normal | paper | 87.3 ± 1.7 |" in table
    results = read_results(tmp_path / "parameterization")
    settings = {r.variant: r.settings["model"] for r in results}
    assert settings["relu"]["parameterization"] == "relu"
    assert settings["squared-normal"]["stiffness_init"] == "normal"
    assert len(results) == 3 * 2  # on both sets that are there


def test_timestep(tmp_path, data):
    table = reproduce("timestep", out=tmp_path, data_dir=data, seeds=[2345, 3456]).read_text()
    assert "| set | model | protocol | Δt = 0.01 | Δt = 1 |" in table
    results = read_results(tmp_path / "timestep")
    assert {result.data_set for result in results} == {"SelfRegulationSCP1", "Heartbeat"}
    assert "timestep-paper" in figures(tmp_path / "timestep")


def test_efficiency(tmp_path, monkeypatch):
    size = efficiency.MeasuredSize(
        batch_size=2, length=6, in_size=2, out_size=2, hidden_size=4, state_size=4, num_blocks=1,
        model="imex",
    )  # fmt: skip
    monkeypatch.setattr(efficiency, "size_of", lambda data_set, model: size)
    options = {"out": tmp_path, "data_sets": ["EigenWorms"], "models": ["imex"], "max_steps": 1}
    table = reproduce("efficiency", **options).read_text()
    assert "| Worms | LinOSS-IMEX |" in table
    assert "| 37 s |" in table
    (result,) = read_results(tmp_path / "efficiency")
    assert set(result.outcome) == {"textbook", "linoss"}
    with pytest.raises(ValueError, match="already exists"):
        reproduce("efficiency", **options)
    reproduce("efficiency", **options, resume=True)


def test_a_method_that_does_not_fit_into_memory_is_said_to(tmp_path, monkeypatch, capsys):
    class Ended(efficiency.Worker):
        """One whose textbook process the system ends."""

        def __init__(self, method, size):
            self.method, self.process = method, subprocess.Popen(
                [sys.executable, "-c", WORKER, method],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip

    monkeypatch.setattr(efficiency, "Worker", Ended)
    options = {"out": tmp_path, "data_sets": ["MotorImagery"], "models": ["imex"]}
    table = reproduce("efficiency", **options).read_text()
    assert "| Motor | LinOSS-IMEX | has ended | 500 s | – | 128 s |" in table
    assert "measures textbook has ended" in capsys.readouterr().err


WORKER = """
import sys
for line in sys.stdin:
    if sys.argv[1] == "textbook":
        sys.exit(9)
    print(0.5, flush=True)
"""


def test_the_page_has_what_was_run_and_says_what_was_not(tmp_path, data):
    reproduce("parameters", out=tmp_path / "runs")
    reproduce("uea", out=tmp_path / "runs", data_dir=data, seeds=[2345], models=["im"])
    notes = {"uea/SelfRegulationSCP1/imex": "it was too late", "weather": "Rain."}
    notes |= {"ppg/*": "too long", "uea/Heartbeat": "too dull", "uea/EigenWorms": "not asked"}
    (tmp_path / "runs" / "notes.json").write_text(json.dumps(notes))
    write_page(tmp_path / "runs", tmp_path / "docs" / "results.md")
    page = (tmp_path / "docs" / "results.md").read_text()
    others = ", ".join(NAMES[model] for model in uea.SCOPE.beside)
    assert page.count("\n## ") == len(EXPERIMENTS)
    assert "- `linoss reproduce uea --model im --seeds 2345 --protocol paper`: 2 runs" in page
    assert "- SelfRegulationSCP1 (LinOSS-IMEX): it was too late" in page
    assert f"- SelfRegulationSCP1 ({others}): no reason is given" in page
    assert f"- Heartbeat (LinOSS-IMEX, {others}): too dull" in page
    assert "- PPG (LinOSS-IM, LinOSS-IMEX, damped IMEX): too long" in page
    worms = f"- EigenWorms (LinOSS-IM, LinOSS-IMEX, {others})"
    missing = "the data set was not at hand; it"
    assert f"{worms}: {missing} can be had from https://www.timeseriesclassification.com" in page
    assert "\nRain.\n" in page
    assert "There is no result of `linoss reproduce ppg`." in page
    assert "(results/uea-Heartbeat-paper.png)" in page
    assert (tmp_path / "docs" / "results" / "uea-Heartbeat-paper.png").exists()
    assert str(tmp_path) not in page
