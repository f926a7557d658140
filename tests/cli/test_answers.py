"""`linoss evaluate`, `predict` and `forecast` say what the estimators say."""

import csv
import io
import json

import numpy as np
import pandas
import pytest

import linoss.data
from linoss.estimators import load as load_estimator

pytestmark = pytest.mark.usefixtures("single_precision", "unchecked")


@pytest.fixture
def test_cases(data):
    return linoss.data.read(data / "Waves_TEST.csv")


@pytest.fixture
def too_large(tmp_path, test_cases, write_cases):
    """The test part, with a case that holds the largest numbers."""
    values = np.stack([case.T for case in test_cases.values])
    values[3] = 3e38
    write_cases(tmp_path / "large.csv", values, test_cases.labels)
    return tmp_path / "large.csv"


# ---- evaluate ----


@pytest.mark.filterwarnings("default::linoss.estimators.NotANumberWarning")
def test_an_answer_that_is_no_number_is_wrong(run, data, too_large, linoss_command, good_json):
    result = linoss_command(f"evaluate {run} {too_large} --json")
    found, before = json.loads(result.stdout), good_json(f"evaluate {run} {data}")
    assert result.exit_code == 3
    assert "Warning: the predictions for case 3 are not numbers" in result.stderr
    assert found["cases"] == np.sum(found["confusion"]) + 1 == 12
    assert found["unanswered"] == 1
    assert found["accuracy"] in (before["accuracy"], before["accuracy"] - 1 / 12)


def test_accuracy_and_recall(run, data, test_cases, good_json):
    found = good_json(f"evaluate {run} {data}")
    answers = load_estimator(run).predict(test_cases)
    right = answers == test_cases.labels
    assert found["accuracy"] == pytest.approx(np.mean(right))
    for name, recall in found["recall"].items():
        assert recall == pytest.approx(np.mean(right[test_cases.labels == name]))
    assert np.sum(found["confusion"]) == found["cases"] == 12


def test_a_table_of_classes_for_people(run, data, good):
    printed = good(f"evaluate {run} {data}")
    assert "accuracy" in printed
    assert all(word in printed for word in ("recall", "high", "low"))


def test_errors_of_numbers(regressor, numbers, good_json, good):
    cases = linoss.data.read(numbers / "test.npz")
    errors = load_estimator(regressor).predict(cases) - cases.labels
    found = good_json(f"evaluate {regressor} {numbers}")
    assert found["mae"] == pytest.approx(np.mean(np.abs(errors)))
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert found["r2"] == pytest.approx(1 - np.mean(errors**2) / np.var(cases.labels))
    assert "RMSE" in good(f"evaluate {regressor} {numbers}")


def test_errors_of_forecasts(forecaster, load, good_json, good, tmp_path):
    estimator, table = load_estimator(forecaster), linoss.data.read_table(load)
    found = good_json(f"evaluate {forecaster} {load}")
    assert found["mae"] == pytest.approx(estimator.errors_by_variable(table))
    assert np.mean(list(found["mae"].values())) == pytest.approx(estimator.score(table))
    found = good_json(f"evaluate {forecaster} {load} --stride 7")
    assert found["mean_scaled_mae"] == pytest.approx(estimator.score(table, scaled=True, stride=7))
    page = tmp_path / "page.html"
    assert "MAE, in its unit" in good(f"evaluate {forecaster} {load} --stride 50 --report {page}")
    found, written = estimator.backtest(table, windows=200), page.read_text(encoding="utf-8")
    lower = 1 - found.error("mase") / found.error("mase", "seasonal naive")
    assert f"{abs(lower):.0%} {'lower' if lower > 0 else 'higher'} than that of" in written
    assert "<h2>Errors by horizon" in written


def test_intervals_and_sample_paths(forecaster, future, good, failing):
    command = f"forecast {forecaster} --future {future} --horizon 2"
    head = good(f"{command} --level 80 --level 50").splitlines()[0]
    assert head.split(",")[1:6] == ["load", "load-lo-80", "load-hi-80", "load-lo-50", "load-hi-50"]
    assert "load-sample-2" in good(f"{command} --samples 2")
    assert "level is 120.0, expected numbers between 0 and 100" in failing(f"{command} --level 120")


def test_backtests(forecaster, load, tmp_path, good, good_json, failing, run):
    text = good(f"backtest {forecaster} {load} --windows 4 --out {tmp_path / 'steps.csv'}")
    assert all(name in text for name in ("seasonal naive", "drift", "MASE", "4 windows of 6 steps"))
    steps = (tmp_path / "steps.csv").read_text().splitlines()
    assert steps[0].startswith("variable,model,step,mae,rmse,mase,pinball")
    found = good_json(f"backtest {forecaster} {load} --windows 4 --stride 2")
    estimator, table = load_estimator(forecaster), linoss.data.read_table(load)
    again = estimator.backtest(table, windows=4, stride=2)
    assert found["errors"][0]["mae"] == pytest.approx(again.error("mae", variable="load"))
    assert "holds a" in failing(f"backtest {run} {load}")


def test_labels_that_the_training_did_not_have(tmp_path, run, waves, write_cases, failing):
    values, _ = waves(2)
    write_cases(tmp_path / "cases.csv", values, ["low", "[red]middle"])
    message = failing(f"evaluate {run} {tmp_path / 'cases.csv'}")
    assert "a label is '[red]middle', expected one of the training's: high, low" in message


def test_data_without_labels_cannot_be_evaluated(tmp_path, run, waves, failing):
    np.save(tmp_path / "cases.npy", waves(2)[0])
    assert "have no labels" in failing(f"evaluate {run} {tmp_path / 'cases.npy'}")


def test_a_directory_without_a_test_part(tmp_path, run, data, failing):
    (tmp_path / "Waves_TRAIN.csv").write_bytes((data / "Waves_TRAIN.csv").read_bytes())
    assert "has no test part" in failing(f"evaluate {run} {tmp_path}")


def test_a_run_that_is_not_there(tmp_path, data, failing):
    assert "absent: holds no run, expected a directory" in failing(
        f"evaluate {tmp_path / 'absent'} {data}"
    )


def test_other_channels_than_in_training(tmp_path, run, failing):
    np.savez(tmp_path / "cases.npz", X=np.zeros((2, 3, 20)), y=["low", "high"])
    message = failing(f"evaluate {run} {tmp_path / 'cases.npz'}")
    assert "has 3 channels, expected 2" in message


# ---- predict ----


@pytest.mark.filterwarnings("default::linoss.estimators.NotANumberWarning")
def test_no_class_is_predicted_without_a_number(run, too_large, linoss_command):
    result = linoss_command(f"predict {run} {too_large}")
    rows = list(csv.reader(io.StringIO(result.stdout)))[1:]
    assert rows[3] == ["c3", "", "", ""]
    assert all(row[1] in ("high", "low") for row in rows[:3] + rows[4:])
    assert result.exit_code == 3
    assert "Warning: the predictions for case 3 are not numbers" in result.stderr


def test_no_answer_is_a_formula(tmp_path, small, waves, write_cases, good):
    values, labels = waves(8)
    write_cases(tmp_path / "cases.csv", values, np.array(["=1+1", "-2"])[labels])
    text = (tmp_path / "cases.csv").read_text().replace("c3,", "@cmd,")
    (tmp_path / "cases.csv").write_text(text)
    run, out = tmp_path / "run", tmp_path / "answers.csv"
    fit = f"fit {tmp_path / 'cases.csv'} --task classification --out {run} {small} --steps 2"
    good(fit)
    good(f"predict {run} {tmp_path / 'cases.csv'} --out {out}")
    rows = list(csv.reader(io.StringIO(out.read_text())))
    assert rows[4][0] == "'@cmd"
    assert {row[1] for row in rows[1:]} <= {"'=1+1", "-2"}
    assert "'=1+1" in out.read_text() + good(f"stream {run}", "1,2\n" * 40)


def test_predictions_with_probabilities(tmp_path, run, data, test_cases, good):
    out = tmp_path / "predictions.csv"
    assert f"12 predictions for 12 cases in {out}" in good(f"predict {run} {data} --out {out}")
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    estimator = load_estimator(run)
    shares = estimator.predict_proba(test_cases)
    assert list(rows[0]) == ["case", "prediction", "probability_high", "probability_low"]
    assert [row["case"] for row in rows] == list(test_cases.ids)
    assert [row["prediction"] for row in rows] == estimator.predict(test_cases).tolist()
    found = [[float(row["probability_high"]), float(row["probability_low"])] for row in rows]
    np.testing.assert_array_equal(found, shares)


def test_predictions_on_stdout(run, data, good):
    rows = list(csv.reader(io.StringIO(good(f"predict {run} {data}"))))
    assert len(rows) == 13


def test_predictions_as_json(tmp_path, run, data, good_json):
    found = good_json(f"predict {run} {data}")
    assert len(found["predictions"]) == found["cases"] == 12
    out = tmp_path / "predictions.csv"
    assert good_json(f"predict {run} {data} --out {out}") == {"cases": 12, "out": str(out)}


def test_predictions_of_numbers(regressor, numbers, good):
    rows = list(csv.DictReader(io.StringIO(good(f"predict {regressor} {numbers}"))))
    cases = linoss.data.read(numbers / "test.npz")
    found = [float(row["prediction"]) for row in rows]
    np.testing.assert_array_equal(found, load_estimator(regressor).predict(cases))


def test_no_labels_are_needed(tmp_path, waves, write_cases, small, good, run, data):
    values, labels = waves(8)
    training, out = tmp_path / "training.csv", tmp_path / "run"
    write_cases(training, values, labels, name="kind")
    good(f"fit {training} --task classification --out {out} {small} --steps 1 --label kind")
    for model, cases in ((out, training), (run, data / "Waves_TEST.csv")):
        lines = [line.split(",") for line in cases.read_text().splitlines()]
        unlabelled = tmp_path / "unlabelled.csv"
        unlabelled.write_text("\n".join(",".join([row[0], *row[2:]]) for row in lines))
        assert good(f"predict {model} {unlabelled}") == good(f"predict {model} {cases}")


def test_an_error_of_the_data_is_told_also_without_labels(tmp_path, run, failing):
    (tmp_path / "cases.csv").write_text("case,x,z\na,1,wrong\n")
    message = failing(f"predict {run} {tmp_path / 'cases.csv'} --label kind")
    assert "--label 'kind' is no column, expected its name" in message


def test_predictions_that_cannot_be_written(tmp_path, run, data, failing):
    out = tmp_path / "absent" / "predictions.csv"
    assert f"{out}: cannot be written" in failing(f"predict {run} {data} --out {out}")


def test_forecasters_do_not_predict_cases(forecaster, data, failing):
    assert "use linoss forecast" in failing(f"predict {forecaster} {data}")


# ---- forecast ----


@pytest.fixture
def future(tmp_path, load):
    """The whole calendar, past and future."""
    path = tmp_path / "future.csv"
    dates = pandas.date_range("2024-01-01", periods=260, freq="h")
    pandas.DataFrame({"date": dates, "hour": np.arange(260) % 24}).to_csv(path, index=False)
    return path


def test_a_forecast_goes_on_with_the_table(tmp_path, forecaster, future, good):
    out = tmp_path / "forecast.csv"
    good(f"forecast {forecaster} --horizon 9 --future {future} --out {out}")
    frame = pandas.read_csv(out, parse_dates=["date"])
    assert list(frame) == ["date", "load", "heat"]
    assert (
        frame.date.tolist() == pandas.date_range("2024-01-09 08:00", periods=9, freq="h").tolist()
    )
    known = pandas.DataFrame({"hour": (np.arange(200, 209) % 24).astype(float)})
    expected = load_estimator(forecaster).predict(9, future=known)
    np.testing.assert_allclose(frame.load, expected.load, rtol=1e-12)


def test_a_forecast_as_json(forecaster, future, good_json):
    found = good_json(f"forecast {forecaster} --future {future}")
    assert found["horizon"] == 6
    assert len(found["forecast"]["load"]) == 6


def test_a_forecast_from_other_data(tmp_path, forecaster, load, future, good):
    lines = load.read_text().splitlines(keepends=True)
    earlier = tmp_path / "earlier.csv"
    earlier.write_text("".join(lines[:101]))
    printed = good(f"forecast {forecaster} --data {earlier} --future {future}")
    assert printed.splitlines()[1].startswith("2024-01-05 04:00:00,")


def test_what_is_known_in_advance_must_be_told(tmp_path, forecaster, future, failing):
    assert "expected the variables known in advance" in failing(f"forecast {forecaster}")
    few = tmp_path / "few.csv"
    few.write_text("".join(future.read_text().splitlines(keepends=True)[:203]))
    message = failing(f"forecast {forecaster} --future {few}")
    assert "few.csv: has no row for 2024-01-09T10" in message


def test_a_series_without_dates(tmp_path, small_forecaster, good):
    path, out = tmp_path / "plain.csv", tmp_path / "run"
    path.write_text("a\n" + "\n".join(str(np.sin(i / 2)) for i in range(60)) + "\n")
    options = f"--horizon 3 --past 9 {small_forecaster} --steps 2"
    good(f"fit {path} --task forecasting --out {out} {options}")
    lines = good(f"forecast {out}").splitlines()
    assert lines[0] == "step,a"
    assert [line.split(",")[0] for line in lines[1:]] == ["60", "61", "62"]


def test_many_series(tmp_path, small_forecaster, good, good_json):
    path, out = tmp_path / "long.csv", tmp_path / "run"
    rows = [
        f"{name},{i},{np.sin(i / 2 + k)},{i % 7}" for k, name in enumerate("ab") for i in range(50)
    ]
    path.write_text("unique_id,ds,y,day\n" + "\n".join(rows) + "\n")
    options = f"--horizon 3 --past 9 --known day {small_forecaster} --steps 2"
    good(f"fit {path} --task forecasting --out {out} {options}")
    future = tmp_path / "future.csv"
    ahead = [f"{name},{i},{i % 7}" for name in "ba" for i in range(48, 53)]
    future.write_text("unique_id,ds,day\n" + "\n".join(ahead) + "\n")
    lines = good(f"forecast {out} --future {future}").splitlines()
    assert lines[0] == "unique_id,ds,y"
    keys = [line.split(",")[:2] for line in lines[1:]]
    assert keys == [[name, step] for name in "ab" for step in ("50", "51", "52")]
    assert good_json(f"evaluate {out} {path}")["series"] == 2


def test_classifiers_do_not_forecast(run, failing):
    assert "use linoss predict" in failing(f"forecast {run}")


def test_json_has_no_numbers_that_are_not_finite(tmp_path, run, waves, write_cases, linoss_command):
    values, _ = waves(2)
    write_cases(tmp_path / "cases.csv", values, ["low", "low"])
    text = linoss_command(f"evaluate {run} {tmp_path / 'cases.csv'} --json").stdout
    assert json.loads(text, parse_constant=pytest.fail)["recall"]["high"] is None
