"""A shared study: numbers are given out, ended, taken up again and given up; without a model."""

import sys
import time

import optuna
import pytest
import sqlalchemy

from linoss.search import _shared, _worker
from linoss.search._records import Trial
from linoss.search._shared import Definition, Heartbeat, Pruned, SharedStudy, TakenAway
from linoss.search._space import Span, Values
from linoss.search._storage import Storage
from linoss.search._summary import Silence, StudyLine, Summary, summarize
from linoss.search._worker import summary_of, work
from linoss.training import TrainingError

SPACE = {"x": Span(0.0, 1.0, log=False), "kind": Values(("a", "b"))}


@pytest.fixture
def join(tmp_path):
    """A worker's view of a study; (options) for another worker's."""
    opened = []

    def join(silence=60, points=None, **definition):
        storage = Storage(f"sqlite:///{tmp_path / 'study.db'}", silence)
        opened.append(storage)
        given = {"metric": "accuracy", "higher_is_better": True, **definition}
        return SharedStudy(storage, "study", Definition(**given), SPACE, points)

    yield join
    for storage in opened:
        storage.close()


def x(claim):
    """An objective that is quick."""
    return claim.parameters["x"]


def states(study):
    return [trial.state for trial in study.trials()]


def test_each_number_is_given_out_once(join):
    first, second = join(), join()
    numbers = [study.claim(4).number for study in (first, second, second, first)]
    assert numbers == [0, 1, 2, 3]
    assert first.claim(4) is None
    assert states(second) == ["running"] * 4


def test_all_are_done(join):
    study = join()
    work(study, x, 5, Silence())
    assert states(study) == ["complete"] * 5
    best = study.record().best
    assert best.value == max(trial.value for trial in study.trials())
    assert best.value == best.parameters["x"]


def test_more_are_done_later(join):
    work(join(), x, 2, Silence())
    study = join()
    work(study, x, 3, Silence())
    assert states(study) == ["complete"] * 3


def test_the_same_seed_draws_the_same(join, tmp_path):
    def drawn(name, seed):
        storage = Storage(f"sqlite:///{tmp_path / name}", 60)
        study = SharedStudy(storage, "s", Definition("accuracy", True, seed), SPACE)
        work(study, x, 11, Silence())  # the last one is not drawn blindly
        found = [trial.parameters for trial in study.trials()]
        storage.close()
        return found

    first = drawn("a.db", 0)
    assert drawn("b.db", 0) == first
    assert drawn("c.db", 1) != first


def test_workers_that_begin_together_draw_different_points(join):
    first, second = join(), join()
    assert first.claim(2).parameters != second.claim(2).parameters


def test_a_grid_is_done_in_order(join):
    points = [{"x": 0.1, "kind": "a"}, {"x": 0.2, "kind": "b"}, {"x": 0.3, "kind": "a"}]
    study = join(points=points, grid=True)
    work(study, x, 3, Silence())
    assert [trial.parameters for trial in study.trials()] == points


def stale(study, number):
    """Make the worker of a trial silent for an hour."""
    (trial_id,) = [
        trial._trial_id
        for trial in study.study.get_trials(deepcopy=False)
        if trial.user_attrs["linoss:number"] == number and trial.state.name == "RUNNING"
    ]
    with study.storage.rdb.engine.begin() as connection:
        connection.execute(
            sqlalchemy.text(
                "UPDATE trial_heartbeats SET heartbeat = datetime(heartbeat, '-1 hour') "
                f"WHERE trial_id = {trial_id}"
            )
        )


def test_the_trial_of_a_silent_worker_is_taken_over(join):
    first, second = join(), join()
    lost = first.claim(2)
    stale(first, 0)
    found = second.claim(2)
    assert (found.number, found.attempts) == (0, 1)
    assert found.parameters == lost.parameters


def test_what_a_silent_worker_came_to_does_not_count(join):
    first, second = join(), join()
    late = first.claim(1)
    stale(first, 0)
    again = second.claim(1)
    with pytest.raises(TakenAway):
        late.report(1, 0.5)
    assert not first.end(late, "complete", 0.9)
    assert second.end(again, "complete", 0.4)
    assert not first.end(late, "complete", 0.9)
    (trial,) = second.trials()
    assert (trial.value, trial.attempts) == (0.4, 2)


def test_a_worker_goes_on_after_its_trial_was_taken_away(join):
    study, other = join(), join()
    taken = []

    def objective(claim):
        if not taken:
            stale(study, claim.number)
            taken.append(other.claim(2))
            claim.report(1, 0.5)
        elif claim.number == 1:
            other.end(taken[0], "complete", 0.25)
        return 0.5

    work(study, objective, 2, Silence())
    assert [trial.value for trial in study.trials()] == [0.25, 0.5]


def test_a_worker_that_died_before_its_trial_ran_leaves_it(join, monkeypatch):
    first, second = join(), join()

    def dies(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(first.study, "ask", dies)
    with pytest.raises(KeyboardInterrupt):
        first.claim(1)
    assert states(second) == ["waiting"]
    work(second, x, 1, Silence())
    (trial,) = second.trials()
    assert (trial.state, trial.attempts) == ("complete", 1)


def test_signs_of_life_keep_a_trial(join):
    study, other = join(silence=4), join(silence=4)
    claim = study.claim(1)
    with Heartbeat(claim):
        stale(study, 0)
        time.sleep(1.5)
        assert other.claim(1) is None


def test_a_trial_whose_workers_all_die_is_given_up(join):
    study = join()
    for _ in range(4):
        assert study.claim(1).number == 0
        stale(study, 0)
    assert study.claim(1) is None
    (trial,) = study.trials()
    assert (trial.state, trial.error, trial.attempts) == ("failed", "its workers died", 4)
    assert summary_of(study, 1).ended == 1


def test_what_is_out_of_memory_is_tried_again(join):
    study, tries = join(), []

    def objective(claim):
        tries.append(claim.number)
        if len(tries) < 3:
            raise MemoryError
        return 0.5

    work(study, objective, 1, Silence())
    (trial,) = study.trials()
    assert (trial.state, trial.attempts) == ("complete", 3)


def test_a_loss_that_is_not_finite_fails_once(join):
    study, tries = join(), []

    def objective(claim):
        tries.append(claim.number)
        if claim.number == 0:
            raise TrainingError("the loss is nan")
        return 0.5

    work(study, objective, 2, Silence())
    assert tries == [0, 1]
    assert [(t.state, t.error) for t in study.trials()] == [
        ("failed", "the loss is nan"),
        ("complete", None),
    ]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, RuntimeError])
def test_what_is_not_of_one_trial_ends_the_worker_and_leaves_the_trial(join, error):
    study = join()

    def objective(claim):
        raise error

    for _ in range(5):
        with pytest.raises(error):
            work(study, objective, 1, Silence())
    assert states(study) == ["waiting"]
    work(study, x, 1, Silence())
    assert states(study) == ["complete"]


def test_what_is_worse_than_the_median_is_pruned(join):
    study = join(prune_after=2)

    def objective(claim):
        good = claim.number < 5
        for step in range(1, 5):
            claim.report(step, 0.9 if good else 0.1)
        assert good
        return 0.9

    work(study, objective, 6, Silence())
    assert states(study) == ["complete"] * 5 + ["pruned"]
    last = study.trials()[-1]
    assert last.curve == [(1, 0.1), (2, 0.1)]
    assert study.record().best.value == 0.9


def test_nothing_is_pruned_unless_asked(join):
    study = join()

    def objective(claim):
        claim.report(1, 1.0 / (1 + claim.number))
        return 0.5

    work(study, objective, 7, Silence())
    assert states(study) == ["complete"] * 7


def test_one_that_waits_takes_over(join, monkeypatch):
    monkeypatch.setattr(_worker, "_LOOK_EVERY", 0.01)
    study, other = join(), join()
    other.claim(2)
    seen = []

    class Watch(Silence):
        def live(self, doing):
            seen.append(doing)
            if len(seen) == 2:
                stale(other, 0)

    work(study, x, 2, Watch())
    assert states(study) == ["complete"] * 2
    assert seen == ["waiting for other workers"] * 2


def test_one_that_does_not_wait_leaves_it(join):
    study, other = join(), join()
    other.claim(2)
    work(study, x, 2, Silence(), wait=False)
    assert states(study) == ["running", "complete"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 3}, "the study 'study' has seed 0, but now it is 3; join it with the same"),
        ({"metric": "mae"}, "has metric 'accuracy', but now it is 'mae'"),
        ({"settings": {"steps": 9}}, "has steps None, but now it is 9"),
    ],
)
def test_a_study_is_not_joined_with_other_settings(join, change, message):
    join()
    with pytest.raises(ValueError, match=message):
        join(**change)


def test_a_study_of_others_is_left_alone(tmp_path, join):
    study = optuna.create_study(storage=f"sqlite:///{tmp_path / 'study.db'}", study_name="study",
                                direction="maximize")  # fmt: skip
    study.add_trial(optuna.create_trial(value=1.0))
    study._storage._backend.engine.dispose()
    with pytest.raises(ValueError, match="is not one of linoss"):
        join()


def test_optuna_speaks_to_nobody(join, capfd):
    study = join(prune_after=1)
    work(study, x, 6, Silence())
    study.record()
    assert capfd.readouterr() == ("", "")


def test_importance_is_that_of_what_matters(join):
    study = join()
    work(study, x, 12, Silence())
    importance = study.record().importance
    assert next(iter(importance)) == "x"
    assert sum(importance.values()) == pytest.approx(1)


# ---- Progress ----


def trial(number, state, seconds=None, value=None):
    return Trial(number=number, state=state, seconds=seconds, value=value)


def test_the_time_left_is_that_of_all_workers():
    found = [
        trial(0, "complete", 10.0, 0.3),
        trial(1, "pruned", 20.0, 0.9),
        trial(2, "running", 5.0),
        trial(3, "running", 100.0),
        trial(4, "failed", 1.0),
    ]
    summary = summarize(found, 10, higher_is_better=True)
    assert summary == Summary(10, 3, 1, 1, 2, 0.3, (15 * 5 + 10) / 2)


def test_before_the_first_end_no_time_is_told():
    summary = summarize([trial(0, "running", 5.0)], 3, higher_is_better=False)
    assert summary.eta is None
    assert summary.text("mae") == "0/3 trials  1 running"


def test_a_line_for_each_trial_where_there_is_no_terminal(capsys):
    line = StudyLine(lambda: Summary(3, 1, 0, 0, 0, 0.5, None), "mae")
    line.live("step 1")
    line.ended("trial 0: mae 0.5")
    line.close()
    assert capsys.readouterr().err == "trial 0: mae 0.5; 1/3 trials  best mae 0.5\n"


def test_a_live_line_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    line = StudyLine(lambda: Summary(3, 1, 0, 0, 1, 0.5, None), "mae")
    line.live("step 1")
    line.close()
    shown = capsys.readouterr().err
    assert "\r1/3 trials  1 running  best mae 0.5  |  step 1" in shown
    assert shown.endswith("\r")


def test_reasons_to_end_a_trial_are_no_errors_of_the_library():
    assert not issubclass(Pruned, RuntimeError | ValueError)
    assert not issubclass(_shared.TakenAway, RuntimeError | ValueError)
