"""`linoss explain`: pictures, and sums that are those of the estimator."""

import json

import numpy as np

from linoss.data import read
from linoss.estimators import load as load_estimator


def test_pictures_and_sums(run, data, tmp_path, good_json):
    told = good_json(f"explain {run} {data} --case 3 --out {tmp_path}/why")
    (record,) = told["cases"]
    assert [record] == json.loads((tmp_path / "why" / "evidence.json").read_text())
    estimator = load_estimator(run)
    case = read(data / "Waves_TEST.csv").select([3])
    assert record["answer"] == estimator.predict(case)[0]
    row = estimator.classes_.tolist().index(record["answer"])
    expected = estimator.explain(case).channels[row]
    np.testing.assert_allclose([*record["channels_linoss"].values()], expected, rtol=1e-4)
    assert record["unaccounted_for"] <= 1e-3
    for name in record["pictures"]:
        assert (tmp_path / "why" / name).read_bytes().startswith(b"\x89PNG")


def test_a_case_of_each_answer_by_default(run, data, tmp_path, good):
    printed = good(f"explain {run} {data} --out {tmp_path}/why")
    assert "prediction low" in printed
    assert "prediction high" in printed


def test_a_case_that_is_not_there_is_refused(run, data, tmp_path, failing):
    assert "--case is 99" in failing(f"explain {run} {data} --case 99 --out {tmp_path}/why")


def test_a_forecaster_is_refused(forecaster, load, tmp_path, failing):
    assert "holds a forecaster" in failing(f"explain {forecaster} {load} --out {tmp_path}/why")
