"""`linoss reproduce`: options in, one clear line where something is missing."""

import os
import subprocess
import sys
from typing import get_type_hints

import pytest

from linoss import cli
from linoss.cli import _reproduce
from linoss.experiments import _protocol, reproduce
from linoss.experiments._results import read_results

pytestmark = pytest.mark.usefixtures("small", "single_precision")


@pytest.fixture
def run(monkeypatch, capsys):
    """Words of the command to (exit code, stdout, what was said)."""

    def run(*words):
        monkeypatch.setattr("sys.argv", ["linoss", "reproduce", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        return ended.value.code or 0, printed.out, printed.err.rstrip("\n")

    return run


def test_help_names_all_models():
    hint = get_type_hints(_reproduce.reproduce, include_extras=True)["model"]
    assert hint.__metadata__[0].help.startswith(f"One of {', '.join(_protocol.NAMES)};")


def test_options_reach_the_experiment(tmp_path, write_archive, run):
    write_archive(tmp_path / "data", "Heartbeat")
    code, table, _ = run(
        "uea", "--data-dir", tmp_path / "data", "--out", tmp_path / "out", "--seeds", "3456, 4567",
        "--model", "im", "--model", "damped", "--protocol", "quick", "--max-steps", 2,
        "--data-set", "Heartbeat",
    )  # fmt: skip
    assert code == 0
    assert "| damped IMEX | here, quick |" in table
    found = {(r.model, r.seed, r.outcome["steps"]) for r in read_results(tmp_path / "out")}
    assert found == {(m, s, 2) for m in ("im", "damped") for s in (3456, 4567)}


def test_the_data_directory_may_come_from_the_environment(
    tmp_path, write_archive, run, monkeypatch
):
    write_archive(tmp_path / "data", "Heartbeat")
    monkeypatch.setenv("LINOSS_DATA", str(tmp_path / "data"))
    code, _, _ = run("uea", "--out", tmp_path / "out", "--seeds", 2345, "--model", "im")
    assert code == 0


def test_variants_are_those_of_the_experiment(tmp_path, run):
    for words, expected in (
        (
            ("uea", "--variant", "scald"),
            "variant is 'scald', expected one of 'scaled', 'log-softmax'",
        ),
        (("ppg", "--variant", "scaled"), "variant is 'scaled', expected none: ppg has none"),
        (("uea", "--variant", "scaled", "--model", "oscillators"), "'oscillators' has none"),
    ):
        code, _, said = run(*words, "--out", tmp_path / "out")
        assert code == 2
        assert expected in " ".join(said.replace("│", " ").split())
    assert not (tmp_path / "out").exists()


MISSING = {
    ("uea", "--data-set", "Heartbeat"): ("Heartbeat_{TRAIN,TEST}.ts (or .arff)", "timeseriesclass"),
    ("uea",): ("EigenWorms_{TRAIN,TEST}.ts (or .arff)", "timeseriesclassification.com"),
    ("ppg",): ("PPG_FieldStudy/S1/S1.pkl", "archive.ics.uci.edu"),
    ("weather",): ("WTH/WTH.csv", "github.com/zhouhaoyi/Informer2020"),
    ("timestep",): ("SelfRegulationSCP1_{TRAIN,TEST}.ts", "timeseriesclassification.com"),
}


@pytest.mark.parametrize("words", MISSING, ids=" ".join)
def test_missing_data_is_one_line(tmp_path, run, words):
    code, out, said = run(*words, "--data-dir", tmp_path, "--out", tmp_path / "out")
    assert (code, out) == (1, "")
    assert said.startswith("Error: the data set ")
    assert "\n" not in said
    place, source = MISSING[words]
    assert str(tmp_path) in said
    assert place in said
    assert source in said
    assert not (tmp_path / "out").exists()


def test_no_data_directory_is_one_line(tmp_path, run, monkeypatch):
    monkeypatch.delenv("LINOSS_DATA", raising=False)
    code, _, said = run("weather", "--out", tmp_path)
    assert code == 1
    assert said.endswith("pass --data-dir DIRECTORY, or set LINOSS_DATA")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--seeds", "one"), "--seeds is 'one', expected comma-separated integers"),
        (("--seeds", ","), "--seeds is ',', expected comma-separated integers"),
        (("--seeds", "-1"), "--seeds is '-1', expected comma-separated integers"),
        (("--seeds", "99999999999"), "seed is 99999999999, expected a number in [0, 2**32)"),
        (("--model", "s7"), "model is 's7', expected one of 'im', 'imex'"),
        (("--data-set", "Worms"), "data set is 'Worms', expected one of 'EigenWorms'"),
        (("--data-set", "PPG"), "data set is 'PPG', expected one of 'EigenWorms'"),
        (("--max-steps", "0"), "max-steps is 0, expected an integer >= 1"),
    ],
)
def test_wrong_options_are_wrong_use(tmp_path, run, words, message):
    code, _, said = run("uea", "--data-dir", tmp_path, "--out", tmp_path / "out", *words)
    assert code == 2
    assert message in _unboxed(said)


def _unboxed(said):
    """The text of a usage error, which is shown in a box."""
    return " ".join(said.replace("│", " ").split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("efficiency", "--data-set", "Weather"), "data set is 'Weather', expected one of"),
        (("parameters", "--data-set", "PPG"), "data set is 'PPG', expected one of"),
        (("harmonic-motion", "--data-set", "PPG"), "expected one of 'harmonic-motion'"),
        (
            ("parameters", "--seeds", "1"),
            "seeds are given, expected none: parameters draws",
        ),
    ],
)
def test_what_an_experiment_does_not_have_is_refused(tmp_path, run, words, message):
    code, _, said = run(*words, "--out", tmp_path / "out")
    assert code == 2
    assert message in _unboxed(said)
    assert not (tmp_path / "out").exists()


def test_what_is_asked_for_twice_is_done_once(tmp_path):
    table = reproduce(
        "parameters", out=tmp_path, models=["im", "im"], data_sets=["Heartbeat", "Heartbeat"]
    ).read_text()
    assert table.count("| Heartbeat | LinOSS-IM |") == 1
    (result,) = read_results(tmp_path)
    assert "--data-set Heartbeat --model im --protocol" in result.made["command"]


def test_results_are_kept_in_a_directory_of_that_name_by_default(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, _ = run("parameters", "--data-set", "Heartbeat")
    assert code == 0
    assert len(read_results(tmp_path / "results")) == 2


def test_a_process_says_it_in_one_line(tmp_path):
    environment = {**os.environ, "LINOSS_DATA": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-m", "linoss", "reproduce", "weather", "--out", str(tmp_path / "out")],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 1
    assert result.stderr.startswith("Error: the data set Weather is missing: get it from https://")
    assert result.stderr.count("\n") == 1


def test_every_model_has_a_name_and_hyperparameters():
    assert set(_protocol.NAMES) == {*_protocol.MODELS, _protocol.UNTRAINED}
    for model in _protocol.MODELS:
        _protocol.hyperparameters("SelfRegulationSCP1", model)
