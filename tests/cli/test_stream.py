"""`linoss stream` writes after each line what `linoss predict` would for the whole."""

import json
from pathlib import Path

import numpy as np
import pytest

import linoss
import linoss.data

pytestmark = [
    pytest.mark.usefixtures("single_precision", "unchecked"),
    pytest.mark.filterwarnings("default::linoss.fitted.NotANumberWarning"),
]


@pytest.fixture(scope="module")
def case(data):
    """(time, channels), one of the test part."""
    return linoss.data.read(data / "Waves_TEST.csv").values[3]


def lines_of(samples, header="x,z"):
    rows = [",".join("" if np.isnan(v) else repr(float(v)) for v in row) for row in samples]
    return "\n".join(([header] if header else []) + rows) + "\n"


def probabilities(printed):
    return np.array([[float(v) for v in line.split(",")[1:]] for line in printed.splitlines()])


# ---- The command ----


@pytest.mark.parametrize("kind", ["run", "oscillators"])
def test_predictions_are_those_of_python(kind, request, case, good):
    directory = request.getfixturevalue(kind)
    printed = good(f"stream {directory}", lines_of(case))
    assert printed.splitlines()[0] == "prediction,probability_high,probability_low"
    found = probabilities(printed.split("\n", 1)[1])
    assert len(found) == len(case)
    estimator = linoss.load(directory)
    stream = estimator.stream()
    np.testing.assert_allclose(found, [stream(sample) for sample in case], rtol=1e-4, atol=1e-5)
    if kind == "run":  # the probabilities of oscillators follow how much has been seen
        lengths = [1, 2, 7, 16, 40]
        pieces = linoss.data.sequences([case[:length].T for length in lengths])
        whole = estimator.predict_proba(pieces)
        np.testing.assert_allclose(found[[n - 1 for n in lengths]], whole, rtol=1e-4, atol=1e-5)
    swapped = lines_of(case[:, ::-1], header="z,x")
    assert good(f"stream {directory}", swapped) == printed
    assert good(f"stream {directory}", "") == ""


def test_json_for_json_and_if_asked(run, case, good):
    plain = probabilities(good(f"stream {run}", lines_of(case, header=None)))
    arrays = "".join(json.dumps(row.tolist()) + "\n" for row in case)
    objects = "".join(json.dumps({"z": float(z), "x": float(x)}) + "\n" for x, z in case)
    for option, text in (("", arrays), ("", objects), ("--json", lines_of(case))):
        found = [json.loads(line) for line in good(f"stream {run} {option}", text).splitlines()]
        shares = [[f["probabilities"]["high"], f["probabilities"]["low"]] for f in found]
        np.testing.assert_allclose(shares, plain, rtol=1e-6)
        assert {f["prediction"] for f in found} <= {"high", "low"}


def test_forecasts(tmp_path, load, forecaster, small_forecaster, good, failing):
    table = [line.rsplit(",", 1)[0] for line in load.read_text().splitlines()]
    (tmp_path / "load.csv").write_text("\n".join(table) + "\n")
    out = tmp_path / "run"
    options = f"--horizon 2 {small_forecaster} --steps 2"
    good(f"fit {tmp_path / 'load.csv'} --task forecasting --out {out} {options}")
    samples = "\n".join(table[:7]) + "\n"
    printed = good(f"stream {out}", samples).splitlines()
    assert printed[0] == "load+1,heat+1,load+2,heat+2"
    (tmp_path / "head.csv").write_text(samples)
    forecast = good(f"forecast {out} --data {tmp_path / 'head.csv'}").splitlines()[1:]
    expected = [float(v) for row in forecast for v in row.split(",")[1:]]
    np.testing.assert_allclose([float(v) for v in printed[-1].split(",")], expected, rtol=1e-5)
    assert "use linoss forecast" in failing(f"stream {forecaster}", "1,2,3\n")


# ---- Lines ----


@pytest.fixture(scope="session")
def unnamed(once, waves, bank, good):
    """A run whose channels have no names."""

    def make(out):
        values, labels = waves(12)
        path = out.with_name("unnamed.npz")
        np.savez(path, X=values, y=labels)
        good(f"fit {path} --task classification --out {out} {bank}")

    return once("unnamed", make)


@pytest.mark.parametrize(
    "text",
    [
        "1,2\r\n3,4",
        " 1 , 2 \n3,4\n",
        "\ufeff1,2\n3,4\n",
        '"1","2"\n3,4\n',
        "a,b\n1,2\n3,4\n",
        '"a, b",c\n1,2\n3,4\n',
        "[1, 2]\n[3.0, 4]\n",
        '{"b": 1, "a": 2}\n{"a": 4, "b": 3}\n',
        "time,a,b\n7,1,2\n8,3,4\n",
    ],
)
def test_ways_to_write_two_samples(unnamed, good, text):
    assert good(f"stream {unnamed} --json", text) == good(f"stream {unnamed} --json", "1,2\n3,4\n")


@pytest.mark.parametrize("text", ["1,nan\n", "1,NA\n", "1, ?\n", "[1, null]\n", "[1, NaN]\n"])
def test_ways_to_miss_a_value(unnamed, good, text):
    assert good(f"stream {unnamed} --json", text) == good(f"stream {unnamed} --json", "1,\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2\n3\n", "line 2: has 1 values, expected 2 numbers"),
        ("1,2\n3,4,5\n", "line 2: has 3 values, expected 2 numbers"),
        ("1,2\n\n", "line 2: is empty, expected 2 numbers"),
        ("1,2\n3,many\n", "line 2: found 'many', expected a number, or nothing where one is"),
        ("1,2\n1e60,2\n", "line 2: found '1e60', expected a number up to 3.4e+38"),
        ("[1, 2]\n3,4\n", "line 2: found '3,4', expected JSON, as in the first line"),
        ("[1, true]\n", "line 1: found True, expected a number"),
        ('{"a": 1, "b": 2}\n{"a": 1}\n', "line 2: has the keys 'a', expected 'a, b'"),
        ("a,A\n1,2\n", "line 1: names 'a' twice, expected names that differ in more than capitals"),
        ("a,b,c\n1,2,3\n", "line 1: names 3 channels, expected 2"),
        ('1,2\n"3,4\n', "line 2: unexpected end of data"),
        ("1,2\n" + "1" * 2**21, "line 2: is longer than 1048576 bytes, expected one sample"),
        (b"1,2\n\xff,1\n", "line 2: is not text in UTF-8"),
    ],
)
def test_lines_that_are_refused(unnamed, failing, text, message):
    assert message in failing(f"stream {unnamed}", text)


# ---- Times ----


@pytest.fixture(scope="module")
def irregular():
    """Cases with missing values and times of their own."""
    draw = np.random.default_rng(2)
    values = draw.normal(size=(10, 2, 30))
    values[draw.uniform(size=values.shape) < 0.2] = np.nan
    values[:, :, [4, 5, 17]] = np.nan
    times = np.cumsum(draw.uniform(0.5, 2, size=(10, 30)), axis=1)
    return values, times


def test_times_in_lines(tmp_path, irregular, small, good, failing):
    values, times = irregular
    rows = ["case,time,label,a,b"]
    for i, (case, when) in enumerate(zip(values, times, strict=True)):
        rows += [f"{i},{t},{i % 2},{a},{b}" for t, (a, b) in zip(when, case.T, strict=True)]
    (tmp_path / "cases.csv").write_text("\n".join(rows) + "\n")
    out = tmp_path / "run"
    good(f"fit {tmp_path / 'cases.csv'} --task classification --out {out} {small} --steps 2")
    samples = list(zip(times[0], *values[0], strict=True))
    first = probabilities(good(f"stream {out}", "\n".join(f"{t},{a},{b}" for t, a, b in samples)))
    whole = probabilities(good(f"predict {out} {tmp_path / 'cases.csv'}").split("\n", 1)[1])
    np.testing.assert_allclose(first[-1], whole[0, 1:], rtol=1e-4)
    named = "\n".join(["b,time,a", *(f"{b},{t},{a}" for t, a, b in samples)])
    again = good(f"stream {out}", named).split("\n", 1)[1]
    np.testing.assert_array_equal(probabilities(again), first)
    dates = "2024-01-01,1,2\n2024-01-01T00:01,3,4\n"
    assert good(f"stream {out}", dates) == good(f"stream {out}", "5,1,2\n65.0,3,4\n")
    message = failing(f"stream {out}", "1.0,2,3\n0.0,2,3\n")
    assert "line 2: the time is '0.0', expected a later one" in message
    assert "names no column time" in failing(f"stream {out}", "a,b\n1,2\n")
    assert "the time is 'soon', expected a number or date" in failing(f"stream {out}", "soon,1,2\n")


# ---- Samples that are too large ----


def test_a_stream_goes_on_after_a_sample_that_is_too_large(run, case, linoss_command):
    samples = case.copy()
    samples[5] = 3e38
    result = linoss_command(f"stream {run}", lines_of(samples))
    lines = result.stdout.splitlines()
    assert lines[6] == ",,"
    assert result.exit_code == 3
    (said,) = result.stderr.splitlines()
    assert said.startswith("Warning: sample 6: the prediction is not a number, and ")
    later = probabilities("\n".join(lines[7:]))
    assert len(later) == len(case) - 6
    np.testing.assert_allclose(later.sum(axis=1), 1, rtol=1e-6)
    result = linoss_command(f"stream {run} --json", "1,2\n3e38,3e38\n1,2\n")
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert found[1] == {"prediction": None, "probabilities": {"high": None, "low": None}}
    assert found[2]["prediction"] in ("high", "low")


# ---- A process ----


def memory_of(child):
    status = Path(f"/proc/{child.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


def test_each_prediction_comes_at_once_and_memory_stays(run, process):
    """A line that came apart is one line; whoever reads may go."""
    child = process(f"stream {run}")
    held = {}
    for i in range(3001):
        child.stdin.write(f"{np.sin(i):.4f}")
        child.stdin.flush()
        child.stdin.write(f",{i % 7}\n")
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
