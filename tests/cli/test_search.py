"""`linoss search`: what it prints, writes and refuses."""

import json
import re

import pytest

RANGES = "--range learning_rate=1e-3..1e-1 --range time_channel=no"


@pytest.fixture(scope="module")
def line(data, small_forecaster):
    """The command without its --out."""
    return f"search {data} --task classification {small_forecaster} {RANGES} --steps 4 --trials 2"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("search") / "out"


@pytest.fixture(scope="module")
def first(place, line, linoss_command):
    """What the first trial of a search says, and its record."""
    result = linoss_command(f"{line} --trials 1 --out {place}")
    return result.stderr, json.loads((place / "study.json").read_text())["trials"]


@pytest.fixture(scope="module")
def found(first, place, line, good_json):
    """The search with its second trial, as JSON."""
    return good_json(f"{line} --out {place}")


def test_it_tells_the_trials_and_the_best(found, place):
    assert [trial["state"] for trial in found["trials"]] == ["complete", "complete"]
    assert set(found["trials"][0]["parameters"]) == {"learning_rate", "time_channel"}
    values = [trial["value"] for trial in found["trials"]]
    assert found["trials"][found["best"]]["value"] == max(values)
    assert found["run"] == str(place / "best")
    assert found["test"]["cases"] == 12
    assert found["metric"] == "accuracy"
    names = {"best", "report.html", "study.db", "study.json", "trials"}
    assert {path.name for path in place.iterdir()} == names


def test_trials_are_runs_as_of_fit(found, place, data, good_json):
    for run in ("best", "trials/0"):
        names = {path.name for path in (place / run).iterdir()}
        assert names == {"config.json", "model-1", "report.html"}
    assert good_json(f"evaluate {place / 'best'} {data}") == found["test"]


def test_people_see_a_table_and_a_page(found, place, line, linoss_command):
    result = linoss_command(f"{line} --out {place}")
    assert result.exit_code == 0, result.output
    assert "2 complete" in result.stdout
    assert "learning_rate" in result.stdout
    assert "Test score of the best run: accuracy" in result.stdout
    assert f"The best run is in {place / 'best'}; see {place / 'report.html'}" in result.stdout
    text = (place / "report.html").read_text()
    for word in ("<h2>Best</h2>", "<h2>Trials</h2>", "test accuracy"):
        assert word in text
    assert not re.search(r"<(script|link|iframe|object|img)", text)
    assert str(place) not in text


def test_progress_is_on_stderr_and_more_trials_are_added(first, found):
    said, trials = first
    assert re.search(r"^trial 0: accuracy \S+; 1/1 trials  best accuracy", said, re.M)
    assert len(trials) == 1
    curve = trials[0].pop("curve")
    assert len(curve) == 4
    assert found["trials"][:1] == trials


def test_the_best_of_a_worker_elsewhere(found, tmp_path, place, line, linoss_command):
    result = linoss_command(f"{line} --out {tmp_path} --storage sqlite:///{place / 'study.db'}")
    assert result.exit_code == 0, result.output
    assert "is in the directory of another worker's" in result.stdout
    assert not (tmp_path / "best").exists()


@pytest.mark.parametrize("task", ["regression", "forecasting"])
def test_tasks(tmp_path, numbers, load, small_forecaster, good_json, task):
    """Settings that are given are not searched."""
    if task == "regression":
        line = f"search {numbers} --set dropout=0"
    else:
        line = f"search {load} --horizon 6 --set past=24 --set base=no --range dropout=0,0.1"
    line += f" --task {task} {small_forecaster} --steps 2 --trials 1"
    found = good_json(f"{line} --out {tmp_path / 'out'}")
    assert set(found["space"]) == {"learning_rate" if task == "regression" else "dropout"}
    assert found["metric"] == ("mse" if task == "regression" else "mae")
    assert (tmp_path / "out" / "best" / "report.html").exists()


# ---- Wrong use ----


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--set learning_rate=0.1", "learning_rate is given and has a --range, expected one"),
        ("--grid paper", "--grid paper has its own ranges"),
        ("--range width=3,4", "the range of 'width' is not that of a parameter"),
        ("--range dropout=0..2", "the range of dropout is '2', expected a number in [0, 1)"),
        ("--silence 0", "'--silence'"),
        ("--set n_models=2", "n_models is for linoss fit"),
        ("--resume", "No such option: --resume"),
    ],
)
def test_wrong_use(tmp_path, line, failing, option, message):
    assert message in failing(f"{line} {option} --out {tmp_path / 'out'}", code=2)
    assert not (tmp_path / "out").exists()


def test_trials_that_all_fail(tmp_path, data, small_forecaster, failing):
    wild = "--set norm=none --set clip_norm=none --set warmup=0 --steps 20 --set dropout=0"
    ranges = "--range learning_rate=1e29,1e30"
    out = tmp_path / "out"
    line = f"search {data} --task classification --out {out} {small_forecaster} {wild} {ranges}"
    message = failing(f"{line} --trials 1")
    assert "no trial is complete (1 failed); trial 0: the loss of update" in message
    assert json.loads((out / "study.json").read_text())["trials"][0]["state"] == "failed"


def test_ctrl_c_says_how_to_go_on_and_no_password(tmp_path, line, linoss_command, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("linoss.search.search", interrupted)
    url = "postgresql://me:sesame@host/studies"
    result = linoss_command(f"{line} --out {tmp_path / 'out'} --storage {url}")
    assert result.exit_code == 130
    assert "the same command continues" in result.stderr
    assert "sesame" not in result.output
