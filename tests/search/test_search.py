"""A search over estimators: runs, the best one, going on, and what is refused."""

import itertools
import json
import re
import socket
import tempfile
from pathlib import Path

import numpy as np
import pytest

import linoss.training
from linoss import LinOSSClassifier, LinOSSForecaster, load
from linoss.search import search, without_password
from linoss.training import TrainingError

pytestmark = pytest.mark.usefixtures("single_precision", "unchecked")
RATES = {"learning_rate": (1e-3, 1e-1)}


def small(kind=LinOSSClassifier, **changes):
    sizes = {"hidden_size": 8, "state_size": 8, "num_blocks": 1, "batch_size": 8}
    plain = {"scheme": "im", "damped": False, "norm": None, "dropout": 0.0}
    return kind(**{**sizes, **plain, "steps": 8, **changes})


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("search") / "out"


@pytest.fixture(scope="module")
def study(place, waves):
    """A search of three trials."""
    return search(small(), *waves, out=place, space=RATES, trials=3)


def test_each_trial_is_a_run(study, place):
    assert [trial.run for trial in study.trials] == ["trials/0", "trials/1", "trials/2"]
    for trial in study.trials:
        run = load(place / trial.run)
        history = run.fitted_.trained.history
        assert run.learning_rate == trial.parameters["learning_rate"]
        assert max(record["metric"] for record in history) == trial.value
        assert trial.curve == [(r["step"], r["metric"]) for r in history]


def test_the_best_is_a_run_too(study, place, waves):
    assert study.directory == str(place / "best")
    assert study.best.value == max(trial.value for trial in study.trials)
    best, chosen = load(study.directory), load(place / study.best.run)
    np.testing.assert_array_equal(best.predict_proba(waves[0]), chosen.predict_proba(waves[0]))


def test_the_study_is_written_down(study, place):
    record = json.loads((place / "study.json").read_text())
    assert record["best"] == study.best.number
    assert record["metric"] == "accuracy"
    assert record["space"] == {"learning_rate": {"low": 0.001, "high": 0.1, "log": True}}
    assert [trial["value"] for trial in record["trials"]] == [t.value for t in study.trials]


def test_the_same_again_does_nothing(study, place, waves):
    before = {path: path.stat().st_mtime_ns for path in place.glob("*/**/*")}
    assert search(small(), *waves, out=place, space=RATES, trials=3).trials == study.trials
    assert {path: path.stat().st_mtime_ns for path in place.glob("*/**/*")} == before


@pytest.mark.parametrize(
    ("cases", "settings", "changes", "message"),
    [
        (20, {}, {}, "has cases 32, but now it is 20"),
        (32, {"steps": 9, "evaluate_every": 1}, {}, "has steps 8, but now it is 9"),
        (32, {}, {"space": {"learning_rate": (1e-3, 1.0)}}, "has high 0.1, but now it is 1.0"),
        (32, {}, {"seed": 1}, "has seed 0, but now it is 1"),
    ],
)
def test_another_search_in_the_same_place(study, place, waves, cases, settings, changes, message):
    X, y = waves[0][:cases], waves[1][:cases]
    with pytest.raises(ValueError, match=message):
        search(small(**settings), X, y, **{"out": place, "space": RATES, "trials": 3, **changes})


@pytest.fixture
def interrupted(monkeypatch):
    """Interrupt the first training after the evaluation at step 4."""
    train, once = linoss.training.train, [True]

    def stopped(*arguments, on_progress, **options):
        def progress(state):
            on_progress(state)
            if state.step == 4 and once:
                once.pop()
                raise KeyboardInterrupt

        return train(*arguments, on_progress=progress, **options)

    monkeypatch.setattr("linoss.fitted._fit.train", stopped)


def test_a_stopped_search_continues_to_the_same_weights(
    study, place, tmp_path, waves, interrupted, recwarn
):
    with pytest.raises(KeyboardInterrupt):
        search(small(), *waves, out=tmp_path, space=RATES, trials=2)
    run = "trials/0/model-1"
    assert len(linoss.training.load_model(tmp_path / run).history) == 4
    again = search(small(), *waves, out=tmp_path, space=RATES, trials=2)
    assert again.trials[0].curve == study.trials[0].curve
    assert again.trials[0].parameters == study.trials[0].parameters
    weights = f"{run}/weights.safetensors"
    assert (tmp_path / weights).read_bytes() == (place / weights).read_bytes()
    assert not [w for w in recwarn if "already reported" in str(w.message)]


def test_a_trial_with_a_damaged_checkpoint_begins_again(tmp_path, waves, interrupted):
    with pytest.raises(KeyboardInterrupt):
        search(small(), *waves, out=tmp_path, space=RATES, trials=1)
    (tmp_path / "trials/0/model-1/state.safetensors").write_bytes(b"damaged")
    again = search(small(), *waves, out=tmp_path, space=RATES, trials=1)
    assert again.trials[0].run == "trials/0-1"
    assert len(again.trials[0].curve) == 8
    assert load(again.directory).n_features_in_ == 30


def test_a_grid_of_lists(tmp_path, waves, capfd):
    rates = [1e-3, 1e-2]
    space = {"learning_rate": rates, "schedule": ["cosine", "constant"]}
    trials = search(small(steps=1), *waves, out=tmp_path, space=space, grid=True, trials=9).trials
    points = [tuple(trial.parameters.values()) for trial in trials]
    assert sorted(points) == sorted(itertools.product(rates, space["schedule"]))
    assert capfd.readouterr() == ("", "")


def test_bad_trials_are_pruned(tmp_path, waves):
    """A rate of almost nothing learns nothing, which shows early."""
    rates = [1e-2, 1.1e-2, 1.2e-2, 1.3e-2, 1.4e-2, *(1e-9 * i for i in range(1, 8))]
    made = small(steps=60, evaluate_every=10)
    study = search(made, *waves, out=tmp_path, space={"learning_rate": rates}, grid=True)
    pruned = [trial for trial in study.trials if trial.state == "pruned"]
    assert pruned
    for trial in pruned:
        assert trial.parameters["learning_rate"] < 1e-5
        assert len(trial.curve) < 6
    assert study.best.value == 1


def test_errors_are_made_small(tmp_path):
    series = np.sin(np.arange(80) / 3)[:, None]
    made = small(LinOSSForecaster, steps=2, horizon=3, past=9, base=False)
    study = search(made, series, out=tmp_path, space=RATES, trials=2)
    assert study.metric == "mae"
    assert study.best.value == min(trial.value for trial in study.trials)
    assert isinstance(load(study.directory), LinOSSForecaster)


def test_the_program_of_the_page(capsys):
    page = Path(__file__).parents[2] / "docs" / "search.md"
    exec(re.search(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S)[1], {})
    assert "'schedule': " in capsys.readouterr().out


# ---- Refused ----


def test_trials_that_cannot_be_compared(tmp_path, waves):
    short = small(LinOSSForecaster, steps=2, horizon=3, past=9)
    with pytest.raises(ValueError, match="trials cannot be compared"):
        search(short, np.sin(np.arange(80) / 3)[:, None], out=tmp_path / "1", space=RATES)
    with pytest.raises(ValueError, match="nothing is held out"):
        search(small(steps=1, validation_fraction=0.0), *waves, out=tmp_path / "2", space=RATES)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trials": 0}, "trials is 0, expected an integer >= 1"),
        ({"space": {"colour": [1, 2]}}, "'colour' is not that of a parameter"),
        ({"grid": "paper"}, "grid is 'paper' and there are ranges"),
        ({"grid": True}, "a grid needs lists of values"),
        ({"silence": 1}, "silence is 1, expected at least 2 seconds"),
        ({"estimator": object()}, "the estimator is 'object', expected one of"),
    ],
)
def test_wrong_arguments(tmp_path, waves, changes, message):
    given = {"estimator": small(), "out": tmp_path / "out", "space": RATES, **changes}
    with pytest.raises(ValueError, match=message):
        search(given.pop("estimator"), *waves, **given)
    assert not (tmp_path / "out").exists()


# ---- Trials that fail ----


def outcomes(out, waves, begin, count=2):
    """Search where `begin(number)` may fail: the state and the error of each trial."""

    class Failing(LinOSSClassifier):
        def fit(self, *data, directory, **options):
            begin(int(directory.name))
            return super().fit(*data, directory=directory, **options)

    Failing.__name__ = "LinOSSClassifier"
    space = {"learning_rate": [1e-3 * (i + 1) for i in range(count)]}
    study = search(small(Failing, steps=1), *waves, out=out, space=space, grid=True)
    return [(trial.state, trial.error) for trial in study.trials]


def test_a_training_error_fails_the_trial_once(tmp_path, waves):
    begun = []

    def begin(number):
        begun.append(number)
        if number == 0:
            raise TrainingError("the loss is nan")

    failed = [("failed", "the loss is nan"), ("complete", None)]
    assert outcomes(tmp_path, waves, begin) == failed
    assert outcomes(tmp_path, waves, begin) == failed
    assert begun == [0, 1]


def test_a_trial_out_of_memory_is_repeated(tmp_path, waves):
    begun = []

    def begin(number):
        begun.append(number)
        if number == 1 or len(begun) < 3:
            raise MemoryError

    assert outcomes(tmp_path, waves, begin) == [("complete", None), ("failed", "out of memory")]
    assert begun == [0, 0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, RuntimeError])
def test_an_error_of_another_kind_ends_the_worker_and_the_trial_is_run_again(
    tmp_path, waves, error
):
    def fail(number):
        raise error

    for _ in range(5):
        with pytest.raises(error):
            outcomes(tmp_path, waves, fail, count=1)
    assert outcomes(tmp_path, waves, lambda number: None, count=1) == [("complete", None)]


# ---- Storages ----


def refused(url):
    """The message for a storage that cannot be used."""
    with pytest.raises(ConnectionError, match="cannot be reached") as caught:
        search(small(), [[0.0]], [0], out=tempfile.mkdtemp(), space=RATES, storage=url)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Try to open a storage again at once."""
    monkeypatch.setattr("linoss.search._worker._PAUSE", 0)
    monkeypatch.setitem(linoss.search._worker._CONNECT, "connect_timeout", 2)


def test_a_storage_that_does_not_answer():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        message = refused(f"postgresql://me:sesame@127.0.0.1:{port}/studies")
    assert f"the storage postgresql://***@127.0.0.1:{port}/studies cannot be reached" in message
    assert "timeout" in message
    assert "refused" in refused(f"postgresql://me:sesame@127.0.0.1:{port}/studies")


def test_a_wrong_password(postgresql):
    message = refused(postgresql.replace("sesame", "secret"))
    assert "password authentication failed" in message
    assert "secret" not in message


def test_a_storage_that_is_no_database(tmp_path):
    assert "unable to open" in refused(f"sqlite:///{tmp_path / 'absent' / 'study.db'}")
    (tmp_path / "study.db").write_text("a letter")
    assert "file is not a database" in refused(f"sqlite:///{tmp_path / 'study.db'}")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:sesame@127.0.0.1:1/x?sslmode=no", "postgresql://***@127.0.0.1:1/x?***"),
        ("postgresql://127.0.0.1:1/x?user=me&password=sesame", "postgresql://127.0.0.1:1/x?***"),
        ("postgresql://me:ses@me@127.0.0.1:1/x", "postgresql://***@127.0.0.1:1/x"),
        ("postgresql://me:ses/ame@127.0.0.1:1/x", "postgresql://***@127.0.0.1:1/x"),
        ("postgresql://me:ses?ame@127.0.0.1:1/x", "***"),
        ("host=host password=sesame", "***"),
        ("nosuch://me:sesame@127.0.0.1/x", "nosuch://***@127.0.0.1/x"),
    ],
)
def test_a_password_is_not_shown(url, shown):
    assert without_password(url) == shown
    message = refused(url)
    assert f"the storage {shown} cannot be reached" in message
    assert "ses" not in message
