"""`linoss predict`, `evaluate`, `forecast` and `backtest` give what the estimators give."""

import csv
import io
import json

import numpy as np
import pandas
import pytest
from sklearn import metrics

import linoss
import linoss.data

pytestmark = [
    pytest.mark.usefixtures("single_precision", "unchecked"),
    pytest.mark.filterwarnings("default::linoss.fitted.NotANumberWarning"),
]


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


def table_of(text):
    return list(csv.reader(io.StringIO(text)))


# ---- evaluate ----


def test_accuracy_precision_and_recall(run, data, test_cases, good_json, good):
    score = good_json(f"evaluate {run} {data}")
    predicted = linoss.LinOSSClassifier.load(run).predict(test_cases)
    right = predicted == test_cases.labels
    assert score["accuracy"] == pytest.approx(np.mean(right))
    for name, recall in score["recall"].items():
        assert recall == pytest.approx(np.mean(right[test_cases.labels == name]))
    confusion = np.array(score["confusion"])
    assert confusion.sum() == score["cases"] == 12
    precision = [score["precision"][name] for name in ("high", "low")]
    np.testing.assert_allclose(precision, np.diag(confusion) / confusion.sum(axis=0))
    printed = good(f"evaluate {run} {data}")
    for word in ("balanced accuracy", "F1", "AUC", "recall", "high", "low"):
        assert word in printed


def test_a_score_is_that_of_scikit_learn(oscillators, waves, tmp_path, good_json):
    """Of noisy cases, so that some are wrong; without a class there is no AUC, and no NaN."""
    values, labels = waves(30, seed=5)
    values = values + np.random.default_rng(0).normal(size=values.shape)
    names = np.array(["low", "high"])[labels]
    np.savez(tmp_path / "noisy.npz", X=values, y=names)
    score = good_json(f"evaluate {oscillators} {tmp_path / 'noisy.npz'}")
    probabilities = linoss.load(oscillators).predict_proba(values)
    predicted = np.array(["high", "low"])[probabilities.argmax(axis=1)]
    assert 0.5 < score["accuracy"] < 1
    expected = metrics.balanced_accuracy_score(names, predicted)
    assert score["balanced_accuracy"] == pytest.approx(expected)
    assert score["f1"] == pytest.approx(metrics.f1_score(names, predicted, average="macro"))
    assert score["auc"] == pytest.approx(metrics.roc_auc_score(names == "low", probabilities[:, 1]))
    np.savez(tmp_path / "one.npz", X=values[:3:2], y=["low", "low"])
    score = good_json(f"evaluate {oscillators} {tmp_path / 'one.npz'}")
    assert "auc" not in score
    assert score["recall"]["high"] is None


def test_a_prediction_that_is_no_number_is_wrong_and_has_no_class(
    run, data, too_large, linoss_command, good_json
):
    result, before = (
        linoss_command(f"evaluate {run} {too_large} --json"),
        good_json(f"evaluate {run} {data}"),
    )
    score = json.loads(result.stdout)
    assert result.exit_code == 3
    assert "Warning: the predictions for case 3 are not numbers" in result.stderr
    assert score["cases"] == np.sum(score["confusion"]) + 1 == 12
    assert score["not_numbers"] == 1
    assert score["accuracy"] in (before["accuracy"], before["accuracy"] - 1 / 12)
    result = linoss_command(f"predict {run} {too_large}")
    rows = table_of(result.stdout)[1:]
    assert rows[3] == ["c3", "", "", ""]
    assert all(row[1] in ("high", "low") for row in rows[:3] + rows[4:])
    assert result.exit_code == 3


def test_errors_of_numbers(regressor, numbers, good_json, good):
    cases = linoss.data.read(numbers / "test.npz")
    errors = linoss.LinOSSRegressor.load(regressor).predict(cases) - cases.labels
    score = good_json(f"evaluate {regressor} {numbers}")
    assert score["mae"] == pytest.approx(np.mean(np.abs(errors)))
    assert score["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert score["r2"] == pytest.approx(1 - np.mean(errors**2) / np.var(cases.labels))
    assert "RMSE" in good(f"evaluate {regressor} {numbers}")
    _, *rows = table_of(good(f"predict {regressor} {numbers}"))
    np.testing.assert_array_equal([float(row[1]) for row in rows], errors + cases.labels)


def test_what_cannot_be_evaluated(tmp_path, run, data, waves, write_cases, failing):
    values, _ = waves(2)
    np.savez(tmp_path / "red.npz", X=values, y=["low", "\x1b[31mred\x9b"])
    message = failing(f"evaluate {run} {tmp_path / 'red.npz'}")
    assert "expected one of the training's: high, low" in message
    assert "\x1b" not in message
    np.save(tmp_path / "cases.npy", values)
    assert "have no labels" in failing(f"evaluate {run} {tmp_path / 'cases.npy'}")
    absent = failing(f"evaluate {tmp_path / 'absent'} {data}")
    assert "absent: holds no run, expected a directory" in absent
    write_cases(tmp_path / "half_TRAIN.csv", values, ["low", "high"])
    assert "has no test part" in failing(f"evaluate {run} {tmp_path}")


# ---- predict ----


def test_channels_are_matched_by_name(tmp_path, run, data, good, failing):
    table = pandas.read_csv(data / "Waves_TEST.csv")
    turned, other = tmp_path / "test.csv", tmp_path / "other.csv"
    table.to_csv(tmp_path / "train.csv", index=False)
    table[["z", "case", "x", "label"]].to_csv(turned, index=False)
    assert good(f"predict {run} {turned}") == good(f"predict {run} {data}")
    for place in (turned, tmp_path):
        assert good(f"evaluate {run} {place}") == good(f"evaluate {run} {data}")
    table.rename(columns={"z": "w"}).to_csv(other, index=False)
    message = "X, channels: lacks z and has w, expected x, z, in any order; rename channels, or"
    assert f"{message} leave a column out with --drop NAME" in failing(f"predict {run} {other}")


def test_predictions_with_probabilities(tmp_path, run, data, test_cases, good, good_json):
    out = tmp_path / "predictions.csv"
    assert f"12 predictions for 12 cases in {out}" in good(f"predict {run} {data} --out {out}")
    (header, *rows), estimator = table_of(out.read_text()), linoss.LinOSSClassifier.load(run)
    assert header == ["case", "prediction", "probability_high", "probability_low"]
    assert [row[0] for row in rows] == list(test_cases.ids)
    assert [row[1] for row in rows] == estimator.predict(test_cases).tolist()
    shares = [[float(cell) for cell in row[2:]] for row in rows]
    np.testing.assert_array_equal(shares, estimator.predict_proba(test_cases))
    assert table_of(good(f"predict {run} {data}")) == [header, *rows]
    assert good_json(f"predict {run} {data} --out {out}") == {"cases": 12, "out": str(out)}
    found = good_json(f"predict {run} {data}")
    assert len(found["predictions"]) == found["cases"] == 12


def test_no_cell_is_a_formula(tmp_path, waves, write_cases, bank, good):
    values, labels = waves(8)
    write_cases(tmp_path / "cases.csv", values, np.array(["=1+1", "-2"])[labels])
    text = (tmp_path / "cases.csv").read_text().replace("c3,", "@cmd,")
    (tmp_path / "cases.csv").write_text(text)
    run, out = tmp_path / "run", tmp_path / "predictions.csv"
    good(f"fit {tmp_path / 'cases.csv'} --task classification --out {run} {bank}")
    good(f"predict {run} {tmp_path / 'cases.csv'} --out {out}")
    rows = table_of(out.read_text())
    assert rows[4][0] == "'@cmd"
    assert {row[1] for row in rows[1:]} == {"'=1+1", "-2"}
    assert "'=1+1" in good(f"stream {run}", "1,2\n" * 40) + out.read_text()


def test_no_labels_are_needed(tmp_path, run, data, good, failing):
    cases, unlabelled = data / "Waves_TEST.csv", tmp_path / "unlabelled.csv"
    lines = [line.split(",") for line in cases.read_text().splitlines()]
    unlabelled.write_text("\n".join(",".join([row[0], *row[2:]]) for row in lines))
    assert good(f"predict {run} {unlabelled}") == good(f"predict {run} {cases}")
    (tmp_path / "cases.csv").write_text("case,x,z\na,1,wrong\n")
    message = failing(f"predict {run} {tmp_path / 'cases.csv'}")
    assert "line 2, column 'z': found 'wrong'" in message
    out = tmp_path / "absent" / "predictions.csv"
    assert f"{out}: cannot be written" in failing(f"predict {run} {cases} --out {out}")


def test_commands_of_the_other_kind(run, forecaster, data, load, failing):
    assert "use linoss forecast" in failing(f"predict {forecaster} {data}")
    assert "use linoss predict" in failing(f"forecast {run}")
    assert "holds a LinOSSClassifier" in failing(f"backtest {run} {load}")


# ---- forecast ----


@pytest.fixture
def future(tmp_path):
    """The whole calendar, past and future."""
    path = tmp_path / "future.csv"
    dates = pandas.date_range("2024-01-01", periods=260, freq="h")
    pandas.DataFrame({"date": dates, "hour": np.arange(260) % 24}).to_csv(path, index=False)
    return path


def test_a_forecast_goes_on_with_the_table(tmp_path, forecaster, future, load, good, good_json):
    out = tmp_path / "forecast.csv"
    good(f"forecast {forecaster} --horizon 9 --future {future} --out {out}")
    frame = pandas.read_csv(out, parse_dates=["date"])
    assert list(frame) == ["date", "load", "heat"]
    dates = pandas.date_range("2024-01-09 08:00", periods=9, freq="h")
    assert frame.date.tolist() == dates.tolist()
    known = pandas.DataFrame({"hour": (np.arange(200, 209) % 24).astype(float)})
    expected = linoss.LinOSSForecaster.load(forecaster).predict(9, future=known)
    np.testing.assert_allclose(frame.load, expected.load, rtol=1e-12)
    found = good_json(f"forecast {forecaster} --future {future}")
    assert found["horizon"] == len(found["forecast"]["load"]) == 6
    lines, earlier = load.read_text().splitlines(keepends=True), tmp_path / "earlier.csv"
    earlier.write_text("".join(lines[:101]))
    printed = good(f"forecast {forecaster} --data {earlier} --future {future}")
    assert printed.splitlines()[1].startswith("2024-01-05 04:00:00,")


def test_intervals_paths_and_future_values(tmp_path, forecaster, future, good, failing):
    command = f"forecast {forecaster} --future {future} --horizon 2"
    head = good(f"{command} --level 80 --level 50").splitlines()[0]
    assert head.split(",")[1:6] == ["load", "load-lo-80", "load-hi-80", "load-lo-50", "load-hi-50"]
    assert "load-sample-2" in good(f"{command} --samples 2")
    assert "level is 120.0, expected numbers between 0 and 100" in failing(f"{command} --level 120")
    assert "expected the variables known in advance" in failing(f"forecast {forecaster}")
    few = tmp_path / "few.csv"
    few.write_text("".join(future.read_text().splitlines(keepends=True)[:203]))
    message = failing(f"forecast {forecaster} --future {few}")
    assert "few.csv: has no row for 2024-01-09T10" in message


def test_many_series_without_dates(tmp_path, small_forecaster, good, good_json):
    path, out, future = tmp_path / "long.csv", tmp_path / "run", tmp_path / "future.csv"
    rows = [
        f"{name},{i},{np.sin(i / 2 + k)},{i % 7}" for k, name in enumerate("ab") for i in range(50)
    ]
    path.write_text("unique_id,ds,y,day\n" + "\n".join(rows) + "\n")
    options = f"--horizon 3 --known-in-advance day {small_forecaster} --steps 2"
    good(f"fit {path} --task forecasting --out {out} {options}")
    ahead = [f"{name},{i},{i % 7}" for name in "ba" for i in range(48, 53)]
    future.write_text("unique_id,ds,day\n" + "\n".join(ahead) + "\n")
    lines = good(f"forecast {out} --future {future}").splitlines()
    assert lines[0] == "unique_id,ds,y"
    keys = [line.split(",")[:2] for line in lines[1:]]
    assert keys == [[name, step] for name in "ab" for step in ("50", "51", "52")]
    page = tmp_path / "page.html"
    assert good_json(f"evaluate {out} {path} --report {page}")["windows"] > 2
    assert "<h2>Errors by series</h2>" in page.read_text()


# ---- backtest ----


def test_backtests(tmp_path, forecaster, load, good, good_json):
    text = good(f"backtest {forecaster} {load} --windows 4 --out {tmp_path / 'steps.csv'}")
    assert all(name in text for name in ("seasonal naive", "drift", "MASE", "4 windows of 6 steps"))
    steps = (tmp_path / "steps.csv").read_text().splitlines()
    assert steps[0].startswith("variable,model,step,mae,rmse,mase,pinball")
    found = good_json(f"backtest {forecaster} {load} --windows 4 --stride 2")
    again = linoss.load(forecaster).backtest(linoss.data.read_table(load), windows=4, stride=2)
    assert found["errors"][0]["mae"] == pytest.approx(again.error("mae", variable="load"))


def test_evaluation_of_a_forecaster_is_a_backtest(tmp_path, forecaster, load, good_json):
    page = tmp_path / "page.html"
    score = good_json(f"evaluate {forecaster} {load} --report {page}")
    estimator, table = linoss.LinOSSForecaster.load(forecaster), linoss.data.read_table(load)
    backtest = estimator.backtest(table, windows=200)
    for name, error in score["mae"].items():
        assert error == pytest.approx(backtest.error("mae", variable=name))
    assert score["mase"] == pytest.approx(backtest.error("mase"))
    lower = 1 - backtest.error("mase") / backtest.error("mase", "seasonal naive")
    text = page.read_text(encoding="utf-8")
    assert f"{abs(lower):.0%} {'lower' if lower > 0 else 'higher'} than that of" in text
