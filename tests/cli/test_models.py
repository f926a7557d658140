"""`linoss fit --model`: untrained oscillators, auto, and their runs."""

import json

import numpy as np
import pytest

from linoss.cli import _options as options
from linoss.cli._report import report
from linoss.estimators import AutoClassifier, OscillatorClassifier
from linoss.estimators import load as load_estimator

BANK = "--n-oscillators 64 --causal"


@pytest.fixture(scope="module")
def untrained(folder, data, good_json):
    """A run of oscillators, and what was printed of it."""
    out = folder / "oscillators"
    line = f"fit {data} --task classification --model oscillators --out {out} {BANK}"
    return out, good_json(line)


@pytest.fixture(scope="module")
def numbers_run(folder, numbers, good_json):
    """A regressor of auto, without training."""
    out = folder / "auto-numbers"
    line = f"fit {numbers} --task regression --model auto --minutes 0 --out {out} {BANK}"
    return out, good_json(line)


# ---- Which model ----


@pytest.mark.parametrize(
    ("task", "given", "model"),
    [
        ("classification", [], "auto"),
        ("regression", ["random_state", "minutes", "causal"], "auto"),
        ("classification", ["class_weight"], "auto"),
        ("classification", ["n_oscillators"], "auto"),
        ("classification", ["steps"], "linoss"),
        ("classification", ["minutes", "hidden_size"], "linoss"),
        ("regression", ["devices"], "linoss"),
        ("forecasting", [], "linoss"),
    ],
)
def test_the_model_where_none_is_named(task, given, model):
    assert options.chosen_model(task, given) == model


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "--model oscillators --steps 3",
            "--steps is for --model linoss, not for --model oscillators",
        ),
        ("--model auto --scheme im", "--scheme is for --model linoss, not for --model auto"),
        (
            "--model oscillators --minutes 3",
            "--minutes is for --model auto and --model linoss, not for --model oscillators",
        ),
        ("--model auto --n-models 2", "--n-models is for --model linoss, not for --model auto"),
        (
            "--model oscillators --n-oscillators none",
            "n_oscillators is None, expected 'auto' or an integer",
        ),
        ("--model auto --devices 2", "--devices is for --model linoss, not for --model auto"),
        ("--model auto --minutes none", "minutes is None, expected a finite number >= 0"),
        ("--minutes -1", "expected none or a finite number >= 0"),
        ("--n-oscillators 0", "'0', expected none, auto or an integer >= 1"),
        ("--model reservoir", "reservoir"),
    ],
)
def test_wrong_use(tmp_path, failing, line, message):
    nowhere = tmp_path / "absent.csv"
    said = failing(f"fit {nowhere} --task classification --out {tmp_path / 'run'} {line}", code=2)
    assert message in " ".join(said.replace("│", " ").split())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--model auto", "--model auto is not for forecasting, which has --model linoss"),
        ("--causal", "--causal is for classification and regression, not for forecasting"),
    ],
)
def test_forecasts_are_trained(tmp_path, failing, line, message):
    out = tmp_path / "run"
    said = failing(f"fit {tmp_path / 'absent.csv'} --task forecasting --out {out} {line}", code=2)
    assert message in " ".join(said.replace("│", " ").split())


def test_search_and_plan_have_the_options_of_the_trained_model(failing):
    for line in ("search absent --task classification --out x", "plan --length 10"):
        assert "No such option" in failing(f"{line} --n-oscillators 64", code=2)


# ---- Runs of oscillators ----


def test_the_score_of_cases_left_out_is_printed(untrained):
    run, found = untrained
    estimator = load_estimator(run)
    assert isinstance(estimator, OscillatorClassifier)
    assert found["models"] == ["oscillators"]
    assert found["left_out"] == {"accuracy": estimator.left_out_score_}
    assert found["test"]["accuracy"] == 1
    assert (estimator.n_oscillators, estimator.causal, estimator.random_state) == (64, True, 0)
    names = {path.name for path in run.iterdir()}
    assert names == {"arrays.safetensors", "columns.json", "config.json", "report.html"}


def test_people_are_told_the_score_and_where_the_run_is(tmp_path, data, good):
    out = tmp_path / "run"
    line = f"fit {data / 'Waves_TRAIN.csv'} --task classification --model oscillators --out {out}"
    printed = good(f"{line} {BANK}")
    assert "Left-out accuracy 1 (there is no test part)" in printed
    assert f"see {out / 'report.html'}" in printed


def test_there_is_nothing_to_resume(untrained, data, failing):
    message = failing(f"fit {data} --out {untrained[0]} --resume")
    assert "holds untrained oscillators: there is nothing to resume" in message
    message = failing(f"fit {data} --out {untrained[0]} --resume --model auto")
    assert "holds a run of oscillators, but --model is auto" in message


def test_evaluate_and_predict(tmp_path, untrained, data, good, good_json):
    run, found = untrained
    assert good_json(f"evaluate {run} {data}") == found["test"]
    good(f"predict {run} {data} --out {tmp_path / 'answers.csv'}")
    header, first, *_ = (tmp_path / "answers.csv").read_text().splitlines()
    assert header == "case,prediction,probability_high,probability_low"
    assert first.startswith("c0,low,")


def test_a_stream_answers_as_predict_does(untrained, waves, good):
    run, _ = untrained
    (case,), _ = waves(1, seed=5)
    said = good(f"stream {run}", "x,z\n" + "\n".join(f"{a},{b}" for a, b in case.T))
    last = said.splitlines()[-1].split(",")
    shares = load_estimator(run).predict_proba(case[None])
    np.testing.assert_allclose([float(share) for share in last[1:]], shares[0], atol=1e-5)


def test_inspect_shows_the_bank(untrained, good, good_json, failing, tmp_path):
    run, _ = untrained
    found = good_json(f"inspect {run}")
    bank = load_estimator(run).features_.bank_
    assert (found["estimator"], found["oscillators"]) == ("OscillatorClassifier", 64)
    frequencies = bank.frequency[bank.frequency > 0]
    assert found["period"]["max"] == pytest.approx(1 / frequencies.min())
    assert found["period"]["min"] >= 2
    assert 0.3 <= found["quality"]["min"] <= found["quality"]["max"] <= 8
    printed = good(f"inspect {run}")
    assert all(word in printed for word in ("period", "quality", "left-out accuracy"))
    message = failing(f"inspect {run} --plot {tmp_path / 'picture.png'}")
    assert "holds no trained oscillators" in message


def test_the_report_begins_with_scores_and_ends_with_settings(untrained):
    text = (untrained[0] / "report.html").read_text()
    places = [
        text.index(words)
        for words in ("test accuracy", "left-out accuracy", "Untrained oscillators", "Settings")
    ]
    assert places == sorted(places)
    assert "Learning curves" not in text
    assert "linoss stream RUN" in text
    assert "64 untrained oscillators" in text


# ---- Runs of auto ----


def test_auto_without_minutes(numbers_run, numbers, good_json, good):
    run, found = numbers_run
    assert found["choice"]["kept"] == "oscillators"
    assert found["left_out"]["r2"] > 0.9
    assert good_json(f"evaluate {run} {numbers}")["r2"] == pytest.approx(found["test"]["r2"])
    assert good_json(f"inspect {run}")["kept"] == "oscillators"
    answers = good(f"stream {run} --json", "0.1,0.2\n0.3,0.1\n").splitlines()
    assert [set(json.loads(line)) for line in answers] == [{"prediction"}] * 2


def test_the_reason_is_told(tmp_path, data, good):
    out = tmp_path / "run"
    printed = good(f"fit {data} --task classification --minutes 0 --out {out} {BANK}")
    assert printed.startswith("Kept the oscillators: minutes is 0, so nothing was trained.")
    assert "Left-out accuracy 1" in printed
    assert "minutes is 0" in (out / "report.html").read_text()


def test_a_run_of_auto_that_ended_stays_as_it_was(numbers_run, numbers, good_json):
    run, found = numbers_run
    assert good_json(f"fit {numbers} --out {run} --resume")["test"] == found["test"]


def test_a_report_of_what_was_trained(waves):
    values, labels = waves(24)
    small = {"hidden_size": 4, "state_size": 4, "num_blocks": 1, "steps": 2, "scheme": "im"}
    auto = AutoClassifier(n_oscillators=64, linoss_options={**small, "n_models": 1}, random_state=0)
    text = report(auto.fit(values, labels), None)
    assert "Learning curves" in text
    assert "Untrained oscillators" in text
    assert "Kept both: no cases were held out for a comparison." in text


def test_auto_trains_and_compares(tmp_path, data, linoss_command, good_json):
    out = tmp_path / "run"
    line = f"fit {data} --task classification --out {out} --n-oscillators 64 --minutes 0.05"
    result = linoss_command(line)
    assert result.exit_code == 0, result.output
    assert "Untrained oscillators, after" in result.stderr
    assert "step 1/1" in result.stderr
    assert "held-out cases, against" in result.stdout
    again = good_json(f"fit {data} --out {out} --resume")
    assert set(again["choice"]["scores"]) == {"oscillators", "linoss", "both"}
    assert {path.name for path in out.iterdir()} >= {"config.json", "linoss", "report.html"}
