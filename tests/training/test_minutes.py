"""A training that is limited in minutes: a whole one, with fewer updates."""

import pytest

pytestmark = pytest.mark.usefixtures("single_precision")


@pytest.mark.integration
def test_time_ends_it_with_a_schedule_and_evaluations_of_its_own(tmp_path, make_problem):
    steps, problem = 10**7, make_problem()
    limits = {"steps": steps, "warmup": steps // 10, "evaluate_every": steps // 20}
    problem.train(steps=1)  # compiles
    limits |= {"learning_rate": 1e-3, "minutes": 0.05, "directory": tmp_path}
    result = problem.train(**limits)
    assert 0 < result.steps < steps
    assert result.history[-1]["step"] == result.steps
    assert result.best_metric is not None
    rates = [record["learning_rate"] for record in result.history]
    assert len(rates) > 3
    assert 0.5e-3 < max(rates) <= 1e-3
    assert rates[-1] < 0.2e-3
    assert problem.train(**limits, resume=True).history == result.history


def test_without_need_it_changes_nothing(make_problem, assert_same_trees):
    """Enough time for all updates: the same weights, bit for bit."""
    ample, unlimited = (make_problem().train(warmup=3, minutes=m) for m in (1e9, None))
    assert [r["step"] for r in ample.history] == [4, 8, 12]
    assert_same_trees(ample.model, unlimited.model)


def test_no_time_at_all_is_one_update(make_problem):
    assert make_problem().train(steps=50, minutes=0).steps == 1
