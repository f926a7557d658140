"""`linoss stream` answers after each line what `linoss predict` would answer for the whole."""

import csv
import dataclasses
import functools
import io
import json
import threading
from pathlib import Path

import jax
import numpy as np
import pytest

import linoss
import linoss.data
from linoss.estimators import LinOSSClassifier, LinOSSRegressor
from linoss.estimators import load as load_estimator
from linoss.training import load_model, save_model

pytestmark = pytest.mark.usefixtures("single_precision", "unchecked")


@pytest.fixture(scope="module")
def case(data):
    """(time, channels), one of the test part."""
    return linoss.data.read(data / "Waves_TEST.csv").values[3]


def lines_of(samples, header="x,z"):
    rows = [",".join("" if np.isnan(v) else repr(float(v)) for v in row) for row in samples]
    return "\n".join(([header] if header else []) + rows) + "\n"


def answers(printed):
    return np.array([[float(v) for v in line.split(",")[1:]] for line in printed.splitlines()])


def expected(run, samples, lengths):
    """The batch predictions for the first samples."""
    pieces = [samples[:length].T for length in lengths]
    return load_estimator(run).predict_proba(linoss.data.sequences(pieces))


# ---- The command ----


def test_answers_are_those_of_the_batch(run, case, good):
    found = answers(good(f"stream {run}", lines_of(case, header=None)))
    lengths = [1, 2, 7, 16, 40]
    whole = expected(run, case, lengths)
    assert len(found) == len(case)
    np.testing.assert_allclose(found[[n - 1 for n in lengths]], whole, rtol=1e-4, atol=1e-5)


def test_the_last_answer_is_that_of_predict(run, data, case, good):
    rows = list(csv.reader(io.StringIO(good(f"predict {run} {data}"))))
    last = good(f"stream {run}", lines_of(case)).splitlines()[-1].split(",")
    assert last[0] == rows[4][1]
    np.testing.assert_allclose([float(v) for v in last[1:]], [float(v) for v in rows[4][2:]], 1e-4)


def test_a_header_is_answered_by_a_header(run, case, good):
    printed = good(f"stream {run}", lines_of(case)).splitlines()
    assert printed[0] == "prediction,probability_high,probability_low"
    assert len(printed) == len(case) + 1


def test_a_header_may_name_the_channels_in_any_order(run, case, good):
    swapped = lines_of(case[:, ::-1], header="z,x")
    assert good(f"stream {run}", swapped) == good(f"stream {run}", lines_of(case))


def test_json_is_answered_by_json(run, case, good):
    plain = answers(good(f"stream {run}", lines_of(case, header=None)))
    arrays = "".join(json.dumps(row.tolist()) + "\n" for row in case)
    objects = "".join(json.dumps({"z": float(z), "x": float(x)}) + "\n" for x, z in case)
    for text in (arrays, objects):
        found = [json.loads(line) for line in good(f"stream {run}", text).splitlines()]
        shares = [[f["probabilities"]["high"], f["probabilities"]["low"]] for f in found]
        np.testing.assert_allclose(shares, plain, rtol=1e-6)
        assert {f["prediction"] for f in found} <= {"high", "low"}


def test_csv_is_answered_by_json_if_asked(run, case, good):
    found = good(f"stream {run} --json", lines_of(case)).splitlines()
    assert len(found) == len(case)
    assert all("prediction" in json.loads(line) for line in found)


def test_numbers(regressor, case, good):
    printed = good(f"stream {regressor}", lines_of(case)).splitlines()
    whole = load_estimator(regressor).predict(linoss.data.sequences([case.T]))
    assert printed[0] == "prediction"
    assert float(printed[-1]) == pytest.approx(whole[0], rel=1e-4)


def test_forecasts(tmp_path, load, small_forecaster, good):
    table = [line.rsplit(",", 1)[0] for line in load.read_text().splitlines()]
    (tmp_path / "load.csv").write_text("\n".join(table) + "\n")
    out = tmp_path / "run"
    options = f"--horizon 2 --past 4 {small_forecaster} --steps 2"
    good(f"fit {tmp_path / 'load.csv'} --task forecasting --out {out} {options}")
    samples = "\n".join(table[:7]) + "\n"
    printed = good(f"stream {out}", samples).splitlines()
    assert printed[0] == "load+1,heat+1,load+2,heat+2"
    (tmp_path / "head.csv").write_text(samples)
    forecast = good(f"forecast {out} --data {tmp_path / 'head.csv'}").splitlines()[1:]
    expected = [float(v) for row in forecast for v in row.split(",")[1:]]
    np.testing.assert_allclose([float(v) for v in printed[-1].split(",")], expected, rtol=1e-5)


def test_forecasters_that_want_to_know_the_future(forecaster, failing):
    assert "use linoss forecast" in failing(f"stream {forecaster}", "1,2,3\n")


def test_nothing_is_answered_by_nothing(run, good):
    assert good(f"stream {run}", "") == ""


# ---- Missing values, times, schemes ----


@pytest.fixture(scope="module")
def irregular():
    """Cases with missing values and times of their own."""
    draw = np.random.default_rng(2)
    values = draw.normal(size=(10, 2, 30))
    values[draw.uniform(size=values.shape) < 0.2] = np.nan
    values[:, :, [4, 5, 17]] = np.nan
    times = np.cumsum(draw.uniform(0.5, 2, size=(10, 30)), axis=1)
    return values, times


def listened(estimator, values, times=None):
    listen = estimator.stream()
    when = [None] * values.shape[1] if times is None else times
    return np.array([listen(sample, time) for sample, time in zip(values.T, when, strict=True)])


def settings(**changes):
    small = {"hidden_size": 4, "state_size": 4, "num_blocks": 1, "steps": 2, "random_state": 0}
    small |= {"n_models": 2, "n_oscillators": 16, "causal": True}
    return {**small, "scheme": "im", "damped": False, "batch_size": 5, **changes}


@pytest.fixture(scope="module")
def timed(irregular):
    """A classifier of them, fitted once, in the precision of the tests."""
    values, times = irregular
    classifier = LinOSSClassifier(**settings(time_channel=True, n_oscillators=None))
    return functools.cache(lambda: classifier.fit(values, np.arange(10) % 2, times=times))


def test_what_is_missing_and_when(irregular, timed):
    (values, times), classifier = irregular, timed()
    assert classifier.inputs_.irregular
    assert classifier.inputs_.indicators
    found = listened(classifier, values[0], times[0])
    for length in (1, 5, 6, 30):
        piece = linoss.data.sequences([values[0][:, :length]], times=[times[0][:length]])
        whole = classifier.predict_proba(piece)[0]
        np.testing.assert_allclose(found[length - 1], whole, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore::linoss.estimators.NotANumberWarning")
def test_samples_that_came_together_are_answered_as_one_by_one(irregular, timed):
    (values, times), classifier = irregular, timed()
    samples = values[0].T.copy()
    samples[9] = 1e60  # beyond the numbers: its answer is none, later ones are
    expected = listened(classifier, samples.T, times[0])
    listen = classifier.stream()
    parts = [slice(0, 1), slice(1, 20), slice(20, 30)]
    found = np.concatenate([listen.many(samples[p], times[0][p].tolist()) for p in parts])
    assert np.isnan(expected[9]).all()
    assert np.isfinite(expected[[8, 10]]).all()
    np.testing.assert_array_equal(found, expected)


def test_an_answer_at_every_kth_step(irregular):
    values, _ = irregular
    targets = np.nan_to_num(values[:, 0, 2::3])
    regressor = LinOSSRegressor(**settings(every=3)).fit(values, targets)
    found = listened(regressor, values[0])
    np.testing.assert_allclose(
        found[2::3, 0], regressor.predict(values[:1])[0], rtol=1e-4, atol=1e-5
    )


def test_times_in_a_stream(tmp_path, irregular, small, good, failing):
    values, times = irregular
    rows = ["case,time,label,a,b"]
    for i, (case, when) in enumerate(zip(values, times, strict=True)):
        for time, (a, b) in zip(when, case.T, strict=True):
            rows.append(f"{i},{time},{i % 2},{a},{b}")
    (tmp_path / "cases.csv").write_text("\n".join(rows) + "\n")
    out = tmp_path / "run"
    good(f"fit {tmp_path / 'cases.csv'} --task classification --out {out} {small} --steps 2")
    whole = answers(good(f"predict {out} {tmp_path / 'cases.csv'}").split("\n", 1)[1])[0, 1:]
    samples = [f"{t},{a},{b}" for t, (a, b) in zip(times[0], values[0].T, strict=True)]
    named = [
        "b,time,a",
        *(f"{s.split(',')[2]},{s.split(',')[0]},{s.split(',')[1]}" for s in samples),
    ]
    first = answers(good(f"stream {out}", "\n".join(samples)))
    np.testing.assert_allclose(first[-1], whole, rtol=1e-4)
    again = good(f"stream {out}", "\n".join(named)).split("\n", 1)[1]
    np.testing.assert_array_equal(answers(again), first)
    assert "line 2: the time is '0.0', expected a later one" in failing(
        f"stream {out}", "1.0,2,3\n0.0,2,3\n"
    )
    assert "names no column time" in failing(f"stream {out}", "a,b\n1,2\n")


def test_models_that_read_backwards_do_not_listen(tmp_path, run, failing):
    saved = load_model(run)
    saved.extra["fitted"]["stacked"] = False  # a single model
    config = dataclasses.replace(saved.model.config, bidirectional=True)
    model = linoss.LinOSS(config, key=jax.random.key(0))
    save_model(tmp_path / "run", model, saved.inputs, saved.objective, saved.extra)
    assert "bidirectional is True" in failing(f"stream {tmp_path / 'run'}", "1,2\n")


# ---- Samples that are too large ----


@pytest.mark.filterwarnings("default::linoss.estimators.NotANumberWarning")
def test_a_stream_goes_on_after_a_sample_that_is_too_large(run, case, linoss_command):
    samples = case.copy()
    samples[5] = 3e38
    result = linoss_command(f"stream {run}", lines_of(samples))
    lines = result.stdout.splitlines()
    assert lines[6] == ",,"
    assert result.exit_code == 3
    (said,) = result.stderr.splitlines()
    assert said.startswith("Warning: sample 6: the prediction is not a number, and ")
    later = answers("\n".join(lines[7:]))
    assert len(later) == len(case) - 6
    assert np.isfinite(later).all()
    np.testing.assert_allclose(later.sum(axis=1), 1, rtol=1e-6)


@pytest.mark.filterwarnings("default::linoss.estimators.NotANumberWarning")
def test_no_class_is_the_answer_that_is_no_number(run, linoss_command):
    result = linoss_command(f"stream {run} --json", "1,2\n3e38,3e38\n1,2\n")
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert found[1] == {"prediction": None, "probabilities": {"high": None, "low": None}}
    assert found[2]["prediction"] in ("high", "low")


@pytest.mark.parametrize(
    "changes",
    [{}, {"norm": None, "num_blocks": 3}, {"norm": "layer", "scheme": "verlet"}],
    ids=["batch", "none", "layer, verlet"],
)
@pytest.mark.filterwarnings("ignore::linoss.estimators.NotANumberWarning")
def test_every_model_recovers(changes):
    values = np.random.default_rng(0).normal(size=(6, 2, 20))
    classifier = LinOSSClassifier(**settings(**changes)).fit(values, np.arange(6) % 2)
    for value in (3e38, -3e38, 1e30, 1e20):
        values[0, :, 3] = value
        found = listened(classifier, values[0])
        assert np.isfinite(found[:3]).all()
        assert np.isfinite(found[5:]).all()


# ---- A process ----


def memory_of(child):
    status = Path(f"/proc/{child.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


def test_each_answer_comes_at_once_memory_stays_and_whoever_reads_may_go(run, process):
    child = process(f"stream {run}")
    held = {}
    for i in range(3001):
        child.stdin.write(f"{np.sin(i):.4f},{i % 7}\n")
        child.stdin.flush()
        assert child.stdout.readline().count(",") == 2
        if i in (1000, 3000):
            held[i] = memory_of(child)
    assert held[3000] - held[1000] < 3000  # kB
    child.stdout.close()
    child.stdin.write("1,2\n" * 10)
    child.stdin.close()
    assert child.wait() == 1
    assert child.stderr.read() == ""
    child.stderr.close()


@pytest.mark.slow
def test_a_million_lines_in_constant_memory(run, process):
    child = process(f"stream {run}")
    count = 1_000_000

    def write():
        for i in range(count):
            child.stdin.write(f"{i % 11},{i % 7}\n")
        child.stdin.close()

    writer = threading.Thread(target=write)
    writer.start()
    early = 0
    for i in range(count):
        assert child.stdout.readline()
        if i == 10_000:
            early = memory_of(child)
        if i == count - 1000:
            assert memory_of(child) - early < 8000  # kB
    writer.join()
    assert child.wait() == 0
    child.stdout.close()
    child.stderr.close()
