"""The paper's grid as a study: done once, gone on with, shared by processes."""

import json
from dataclasses import replace

import pytest

from linoss.experiments import _execute, reproduce, uea_search
from linoss.experiments._protocol import Options
from linoss.experiments._results import read_results
from linoss.training import TrainingError

pytestmark = pytest.mark.usefixtures("small", "single_precision")


@pytest.fixture
def again(tmp_path, write_archive):
    """(options) to do a search of two points."""
    write_archive(tmp_path / "data", "Heartbeat")

    def run(**changes):
        options = {"models": ["im"], "data_sets": ["Heartbeat"], "max_steps": 2, **changes}
        return reproduce("uea-search", out=tmp_path / "out", data_dir=tmp_path / "data", **options)

    return run


@pytest.fixture
def trained(monkeypatch):
    """Names of runs that were trained; a name in `stops` is stopped, in `fails` fails."""
    train, done = _execute.train, {"names": [], "stops": [], "fails": []}

    def noted(*arguments, directory, **options):
        name = directory.parent.name
        done["names"].append(name)
        if name in done["stops"]:
            raise KeyboardInterrupt
        result = train(*arguments, directory=directory, **options)
        if name in done["fails"]:
            raise TrainingError("the loss is nan", replace(result, best_metric=None))
        return result

    monkeypatch.setattr(_execute, "train", noted)
    return done


FIRST, SECOND = "rate0.01-hidden4-state4-blocks1-time", "rate0.001-hidden4-state4-blocks1"


def test_what_was_stopped_goes_on(again, trained, tmp_path, capsys):
    trained["stops"].append(SECOND)
    with pytest.raises(KeyboardInterrupt):
        again()
    assert "The same command with --resume continues" in capsys.readouterr().err
    trained["stops"].clear()
    with pytest.raises(ValueError, match="already exists and is not overwritten"):
        again()
    table = again(resume=True).read_text()
    assert "(2 of 2 tried)" in table
    assert trained["names"] == [FIRST, SECOND, SECOND]
    said = capsys.readouterr().err
    assert "1 of 2 runs already have results" in said
    assert "paper, Heartbeat, LinOSS-IM, seed 2345, trial 1: accuracy" in said
    assert "2/2 trials" in said


def test_results_count_without_their_study(again, trained, tmp_path):
    again()
    (study,) = (tmp_path / "out").rglob("study-2345.db")
    study.unlink()
    again(resume=True)
    assert len(trained["names"]) == 2


def test_a_point_that_fails_is_no_end(again, trained, tmp_path):
    trained["fails"].append(FIRST)
    table = again().read_text()
    assert "(1 of 2 tried)" in table
    first, second = sorted(read_results(tmp_path / "out"), key=lambda r: -len(r.variant))
    assert first.outcome["error"] == "the loss is nan"
    assert second.outcome["validation"] is not None
    again(resume=True)
    assert len(trained["names"]) == 2


def test_a_search_has_a_study_of_its_own(again, tmp_path):
    again(seeds=[2345, 3456], max_steps=1)
    names = [path.name for path in sorted((tmp_path / "out").rglob("study-*.db"))]
    assert names == ["study-2345.db", "study-3456.db"]
    results = [json.loads(p.read_text()) for p in (tmp_path / "out").rglob("result.json")]
    assert len(results) == 4


def test_the_name_of_a_study(tmp_path):
    run = _execute.make_run("uea-search", Options(out=tmp_path), "Heartbeat", "imex", 2345)
    assert uea_search.Search((run,)).name == "paper, Heartbeat, LinOSS-IMEX, seed 2345"
