"""A search over estimators: runs, the best one, going on, and what is refused."""

import importlib
import json

import numpy as np
import pytest

from linoss import LinOSSClassifier, LinOSSForecaster
from linoss.estimators import _base, load
from linoss.search import search

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
def found(place, waves):
    """A search of three trials."""
    return search(small(), *waves, out=place, space=RATES, trials=3)


def test_each_trial_is_a_run(found, place):
    assert [trial.run for trial in found.trials] == ["trials/0", "trials/1", "trials/2"]
    for trial in found.trials:
        run = load(place / trial.run)
        assert run.learning_rate == trial.parameters["learning_rate"]
        assert max(record["metric"] for record in run.history_) == trial.value
        assert trial.curve == [(r["step"], r["metric"]) for r in run.history_]


def test_the_best_is_a_run_too(found, place, waves):
    assert found.directory == str(place / "best")
    assert found.best.value == max(trial.value for trial in found.trials)
    best, chosen = load(found.directory), load(place / found.best.run)
    answers = [model.predict_proba(waves[0]).tolist() for model in (best, chosen)]
    assert answers[0] == answers[1]


def test_the_study_is_written_down(found, place):
    record = json.loads((place / "study.json").read_text())
    assert record["best"] == found.best.number
    assert record["metric"] == "accuracy"
    assert record["space"] == {"learning_rate": {"low": 0.001, "high": 0.1, "log": True}}
    assert [trial["value"] for trial in record["trials"]] == [t.value for t in found.trials]


def test_data_of_another_size_are_refused(found, place, waves):
    with pytest.raises(ValueError, match=r"shape.*\[20"):
        search(small(), waves[0][:20], waves[1][:20], out=place, space=RATES, trials=3)


def test_the_same_again_does_nothing(found, place, waves):
    before = {path: path.stat().st_mtime_ns for path in place.glob("*/**/*")}
    assert search(small(), *waves, out=place, space=RATES, trials=3).trials == found.trials
    assert {path: path.stat().st_mtime_ns for path in place.glob("*/**/*")} == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"space": {"learning_rate": (1e-3, 1.0)}}, "has high 0.1, but now it is 1.0"),
        ({"seed": 1}, "has seed 0, but now it is 1"),
        ({"study": "other"}, "holds the trials of another study"),
    ],
)
def test_another_search_in_the_same_place(found, place, waves, changes, message):
    with pytest.raises(ValueError, match=message):
        search(small(), *waves, **{"out": place, "space": RATES, "trials": 3, **changes})


def test_another_estimator_in_the_same_place(found, place, waves):
    with pytest.raises(ValueError, match="has steps 8, but now it is 9"):
        search(small(steps=9, evaluate_every=1), *waves, out=place, space=RATES, trials=3)


@pytest.fixture
def interrupted(monkeypatch):
    """Let trainings be interrupted after the evaluation at step 4, so often."""
    train, left = _base.train, []

    def stopped(*arguments, on_progress, **options):
        def progress(state):
            on_progress(state)
            if state.step == 4 and left:
                left.pop()
                raise KeyboardInterrupt

        return train(*arguments, on_progress=progress, **options)

    monkeypatch.setattr(_base, "train", stopped)
    return left


def test_what_was_stopped_goes_on_to_the_same_weights(found, place, tmp_path, waves, interrupted):
    interrupted.append("once")
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        search(small(), *waves, out=out, space=RATES, trials=2)
    assert len((out / "trials" / "0" / "history.jsonl").read_text().splitlines()) == 4
    again = search(small(), *waves, out=out, space=RATES, trials=2)
    assert [trial.attempts for trial in again.trials] == [2, 1]
    assert again.trials[0].curve == found.trials[0].curve
    weights = "trials/0/weights.safetensors"
    assert (out / weights).read_bytes() == (place / weights).read_bytes()


def test_a_damaged_checkpoint_is_left_and_the_trial_begun_again(tmp_path, waves, interrupted):
    interrupted.append("once")
    with pytest.raises(KeyboardInterrupt):
        search(small(), *waves, out=tmp_path, space=RATES, trials=1)
    (tmp_path / "trials" / "0" / "state.safetensors").write_bytes(b"damaged")
    again = search(small(), *waves, out=tmp_path, space=RATES, trials=1)
    assert again.trials[0].run == "trials/0-2"
    assert len(again.trials[0].curve) == 8
    assert load(again.directory).n_features_in_ == 30


def test_a_grid_of_lists(tmp_path, waves):
    rates = [1e-3, 1e-2]
    space = {"learning_rate": rates, "schedule": ["cosine", "constant"]}
    found = search(small(steps=1), *waves, out=tmp_path, space=space, grid=True, trials=9)
    points = {tuple(trial.parameters.values()) for trial in found.trials}
    assert points == {(rate, way) for rate in rates for way in ("cosine", "constant")}
    assert len(found.trials) == 4


def test_the_papers_grid_without_what_is_fixed(tmp_path, waves):
    found = search(small(steps=1), *waves, out=tmp_path, grid="paper", trials=1)
    assert set(found.space) == {"learning_rate", "time_channel"}


def test_bad_trials_are_pruned(tmp_path, waves):
    """A rate of almost nothing learns nothing, which shows early."""
    rates = [1e-2, 1.1e-2, 1.2e-2, 1.3e-2, 1.4e-2, *(1e-9 * i for i in range(1, 8))]
    made = small(steps=60, evaluate_every=10)
    found = search(made, *waves, out=tmp_path, space={"learning_rate": rates}, grid=True)
    pruned = [trial for trial in found.trials if trial.state == "pruned"]
    assert pruned
    for trial in pruned:
        assert trial.parameters["learning_rate"] < 1e-5
        assert len(trial.curve) < 6
    assert found.best.value == 1


def test_errors_are_made_small(tmp_path):
    series = np.sin(np.arange(80) / 3)[:, None]
    made = small(LinOSSForecaster, steps=2, horizon=3, past=9, base=False)
    found = search(made, series, out=tmp_path, space=RATES, trials=2)
    assert found.metric == "mae"
    assert found.best.value == min(trial.value for trial in found.trials)
    assert isinstance(load(found.directory), LinOSSForecaster)


def test_callers_hear_of_each_trial(tmp_path, waves):
    heard = []
    search(
        small(steps=1), *waves, out=tmp_path, space=RATES, trials=1,
        begin=lambda run: heard.append(run.name),
        finish=lambda trained, run: heard.append((run.name, trained.n_steps_)),
    )  # fmt: skip
    assert heard == ["0", ("0", 1)]


# ---- Refused ----


def test_nothing_is_trained(tmp_path):
    with pytest.raises(ValueError, match="they train no model"):
        search(
            small(LinOSSForecaster, steps=2, horizon=3, past=9),
            np.sin(np.arange(80) / 3)[:, None],
            out=tmp_path,
            space=RATES,
        )


def test_nothing_held_out(tmp_path, waves):
    with pytest.raises(ValueError, match="nothing is held out; set validation_fraction"):
        search(small(steps=1, validation_fraction=0.0), *waves, out=tmp_path, space=RATES)


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


@pytest.mark.parametrize("package", ["optuna", "sqlalchemy"])
def test_without_the_extra_it_says_how_to_get_it(tmp_path, waves, monkeypatch, package):
    real = importlib.import_module

    def refuse(name, *arguments):
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {name!r}")
        return real(name, *arguments)

    monkeypatch.setattr(importlib, "import_module", refuse)
    message = rf"a search needs {package}; install it with pip install \"linoss\[search\]\""
    with pytest.raises(ImportError, match=message):
        search(small(), *waves, out=tmp_path, space=RATES, trials=1)
