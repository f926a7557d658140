"""`python -m paper`: options in, one clear line where something is missing."""

import pytest

from paper.__main__ import EXPERIMENTS, main
from paper.models import MODELS
from paper.runs import command, read_results

pytestmark = pytest.mark.usefixtures("small", "single_precision")


def test_experiments_know_the_models(capsys):
    known = {model for e in EXPERIMENTS.values() for model in (*e.models, *e.others)}
    assert known == set(MODELS)
    for name in EXPERIMENTS:
        with pytest.raises(SystemExit):
            main([name, "--help"])
        assert EXPERIMENTS[name].title in capsys.readouterr().out


def test_options_reach_the_experiment(tmp_path, write_archive, experiment):
    write_archive(tmp_path / "data", "Heartbeat")
    table = experiment(
        "uea", "--seeds", "3456, 4567", "--model", "im", "--model", "damped", "--model", "im",
        "--protocol", "quick", "--max-steps", 2, "--data-set", "Heartbeat",
        data_dir=tmp_path / "data",
    )  # fmt: skip
    assert "| damped IMEX | here, quick |" in table
    runs = {(r.model, r.seed, r.outcome["steps"]) for r in read_results(experiment.out)}
    assert runs == {(m, s, 2) for m in ("im", "damped") for s in (3456, 4567)}


def test_the_command_of_a_result_has_no_paths():
    words = "uea --out /a --seeds 1,2 --data-dir=/b --resume"
    assert command(words.split()) == "python -m paper uea --seeds 1,2"


MISSING = {
    ("uea", "--data-set", "Heartbeat"): ("Heartbeat_{TRAIN,TEST}.ts", "timeseriesclass"),
    ("uea",): ("EigenWorms_{TRAIN,TEST}.ts", "timeseriesclassification.com"),
    ("ppg",): ("PPG_FieldStudy/S1/S1.pkl", "archive.ics.uci.edu"),
    ("troika",): ("TROIKA/DATA_01_TYPE01.mat", "IEEE Signal Processing Cup 2015"),
    ("weather",): ("WTH/WTH.csv", "github.com/zhouhaoyi/Informer2020"),
    ("timestep",): ("SelfRegulationSCP1_{TRAIN,TEST}.ts", "timeseriesclassification.com"),
}


@pytest.mark.parametrize("words", MISSING, ids=" ".join)
def test_missing_data_is_one_line(tmp_path, experiment, words):
    said = experiment(*words, data_dir=tmp_path, code=1)
    assert said.startswith("Error: the data set ")
    assert said.count("\n") == 1
    assert all(part in said for part in (str(tmp_path), *MISSING[words]))
    assert not experiment.out.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("uea --seeds one", "'one': expected comma-separated integers"),
        ("uea --seeds ,", "',': expected comma-separated integers"),
        ("uea --seeds=-1", "'-1': expected comma-separated integers"),
        ("uea --seeds 99999999999", "'99999999999': expected comma-separated integers below 2**32"),
        ("uea --model s7", "invalid choice: 's7'"),
        ("uea --data-set PPG", "invalid choice: 'PPG'"),
        ("uea --variant scald", "invalid choice: 'scald'"),
        ("uea --max-steps 0", "'0': expected an integer >= 1"),
        ("ppg --model oscillators", "invalid choice: 'oscillators'"),
        ("ppg --variant scaled", "unrecognized arguments: --variant"),
        ("parameters --seeds 1", "unrecognized arguments: --seeds"),
    ],
)
def test_wrong_options_are_wrong_use(tmp_path, experiment, words, message):
    assert message in experiment(*words.split(), code=2)
    assert not experiment.out.exists()


def test_without_a_directory_of_data_it_says_where_to_give_one(experiment, monkeypatch):
    monkeypatch.delenv("LINOSS_DATA", raising=False)
    said = experiment("weather", code=1)
    assert said.startswith("Error: no directory of data sets is given: pass --data-dir")
    assert said.count("\n") == 1
