"""The loop: it learns, keeps the best, stops in time, and says where it stands."""

import contextlib
import dataclasses
import gc
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.special

import linoss.data
from linoss import LinOSSClassifier
from linoss._interrupts import raise_interrupt
from linoss.training import (
    Classification,
    Inputs,
    TrainingConfig,
    TrainingError,
    TrainingStopped,
    evaluate,
    load_model,
    predict,
    train,
)

pytestmark = pytest.mark.usefixtures("single_precision")


@pytest.mark.several
@pytest.mark.parametrize(
    ("lengths", "missing"), [((30, 30), 0.0), ((20, 30), 0.1)], ids=["equal", "unequal, missing"]
)
def test_classes_are_learned(make_problem, lengths, missing):
    problem = make_problem(lengths, missing)
    result = problem.train(steps=80, evaluate_every=40, learning_rate=3e-2)
    assert result.best_metric == 1.0
    assert result.history[-1]["loss"] < 0.1
    arguments = (problem.inputs, problem.objective, problem.validation_set)
    assert evaluate(result.model, *arguments) == 1.0


@pytest.mark.integration
@pytest.mark.parametrize("scheme", ["im", "imex", "verlet", "exact"])
def test_times_with_long_gaps(make_model, scheme):
    random = np.random.default_rng(0)
    labels = np.arange(8) % 2
    gaps = [np.where(random.uniform(size=60) < 0.1, 1000.0, random.exponential(size=60) + 0.01)] * 8
    values = random.normal(size=(8, 1, 60)) + labels[:, None, None]
    cases = linoss.data.sequences(values, y=labels, times=[np.cumsum(gap) for gap in gaps])
    inputs, objective = Inputs.from_sequences(cases), Classification.from_labels(labels)
    model = make_model(scheme=scheme, dropout=0.0)
    config = TrainingConfig(steps=10, evaluate_every=5, batch_size=8, learning_rate=1e-2)
    cut = scheme in ("imex", "verlet")
    context = pytest.warns(UserWarning, match="steps between samples are limited")
    with context if cut else contextlib.nullcontext():
        result = train(model, inputs, objective, cases, cases, config)
    assert all(np.isfinite(record["loss"]) for record in result.history)


def test_the_same_arguments_give_the_same_weights(make_problem, assert_same_trees):
    one, other = (make_problem().train() for _ in range(2))
    assert_same_trees(one.model, other.model)
    other_seed = make_problem().train(seed=1)
    assert not np.array_equal(one.model.encoder.weight, other_seed.model.encoder.weight)


def test_history_says_what_happened(make_problem):
    problem = make_problem()
    result = problem.train(steps=10, evaluate_every=4, schedule="constant", warmup=4)
    assert [record["step"] for record in result.history] == [4, 8, 10]
    assert [list(record) for record in result.history] == [
        ["step", "loss", "validation_loss", "metric", "best", "learning_rate"]
    ] * 3
    np.testing.assert_allclose(
        [record["learning_rate"] for record in result.history], [0.008, 0.01, 0.01], rtol=1e-6
    )
    assert result.seconds > 0


def test_the_validation_loss_is_that_of_held_out_cases(make_problem):
    problem = make_problem((20, 30))
    result = problem.train(steps=1)
    logits = predict(result.model, problem.inputs, problem.validation_set).astype(np.float64)
    right = problem.objective.encode(problem.validation_set.labels)
    expected = -scipy.special.log_softmax(logits, axis=1)[np.arange(10), right].mean()
    assert result.history[0]["validation_loss"] == pytest.approx(expected, rel=1e-5)


def test_an_estimator_stops_after_half_of_its_evaluations_without_improvement(waves):
    cases = waves(24, 0)
    sizes = {"hidden_size": 4, "state_size": 4, "num_blocks": 1, "norm": None, "n_models": 1}
    steps = {"steps": 60, "evaluate_every": 1, "learning_rate": 1e-12, "validation_fraction": 0.3}
    fitted = LinOSSClassifier(**sizes, **steps).fit(cases, cases.labels).fitted_
    assert fitted.trained.n_steps == 31


@pytest.mark.parametrize(
    ("metrics", "settings", "best", "steps", "best_step"),
    [
        ([0.5, 0.7, 0.7, 0.6], {"steps": 8}, 0.7, 8, 6),  # a tie takes the later weights
        ([0.5, 0.6, 0.6, 0.1, 0.2, 0.3], {"patience": 4}, 0.6, 12, 6),  # and is no improvement
        ([0.5, 0.6, 0.1, 0.6], {"patience": 2}, 0.6, 8, 4),  # nor taken if it ends the run
        ([float("nan"), 0.5, float("inf")], {"steps": 6}, 0.5, 6, 4),
    ],
    ids=["tie", "patience", "tie at the end", "no numbers"],
)
def test_the_best_weights_are_kept(
    script_metrics, make_problem, assert_same_trees, metrics, settings, best, steps, best_step
):
    problem = make_problem()
    options = {"steps": 60, "evaluate_every": 2, "schedule": "constant", **settings}
    script_metrics(*metrics)
    result = problem.train(**options)
    assert (result.best_metric, result.steps, result.best_step) == (best, steps, best_step)
    assert result.stopped_early == ("patience" in settings)
    kept = [metric if np.isfinite(metric) else None for metric in metrics]
    assert [record["metric"] for record in result.history] == kept
    script_metrics(0.0)
    shorter = problem.train(steps=best_step, evaluate_every=best_step, schedule="constant")
    assert_same_trees(result.model, shorter.model)


def test_a_loss_that_rounds_to_less_than_zero_ends_nothing(make_problem):
    """-log(p + 1e-8) of a sure answer is -1e-8; here all losses are negative."""

    class Negative(Classification):
        @property
        def loss(self):
            whole = super().loss
            return lambda *arguments: whole(*arguments) - 100

    problem = make_problem()
    objective = Negative(**vars(problem.objective))
    result = problem.train(objective=objective, steps=60, evaluate_every=20)
    assert all(record["loss"] < 0 for record in result.history)
    assert (result.stopped_early, result.steps) == (False, 60)


@pytest.mark.parametrize(("evaluate_every", "steps"), [(7, 42), (45, 45)])
def test_a_small_loss_ends_it_when_statistics_of_norms_have_followed(
    make_problem, evaluate_every, steps
):
    """At the first evaluation after 40 updates."""
    result = make_problem().train(steps=60, evaluate_every=evaluate_every, min_loss=1e9)
    assert result.stopped_early
    assert result.steps == steps


def test_without_a_validation_set_the_last_weights_are_kept(make_problem, assert_same_trees):
    problem = make_problem()
    result = problem.train(validation_set=None, patience=1)
    assert result.best_metric is None
    assert [record["metric"] for record in result.history] == [None] * 3
    assert result.steps == 12
    once = problem.train(validation_set=None, evaluate_every=12)
    assert_same_trees(result.model, once.model)


def poisoned(problem, value):
    """The problem with a huge value in the training set; each batch has all cases."""
    values = [x.copy() for x in problem.training_set.values]
    values[3][7, 0] = value
    cases = dataclasses.replace(problem.training_set, values=values, names=("pressure",))
    problem.training_set = cases
    problem.config = dataclasses.replace(problem.config, batch_size=24)
    return problem


def test_a_loss_that_is_not_finite_stops_and_names_the_channel(make_problem):
    with pytest.raises(TrainingError) as caught:
        poisoned(make_problem(norm=None), 3e38).train()
    message = str(caught.value)
    assert "the loss of update 0 is " in message
    assert "it is the first update: check the data, or choose another scheme" in message
    assert "channel 'pressure', which is 2.11e+38 (scaled) in case 3 of the tr" in message
    assert "at step 7" in message
    assert caught.value.result.steps == 0
    with pytest.raises(TrainingError, match=r"update 0 is 0\.8[0-9]*, but its gradient is not"):
        poisoned(make_problem(), 3e38).train()


def test_the_first_bad_step_is_named_and_the_last_good_state_kept(
    tmp_path, make_problem, assert_same_trees, monkeypatch
):
    monkeypatch.setattr("linoss.training._train._SAVE_EVERY", 0)
    problem = make_problem(norm=None)
    problem.config = dataclasses.replace(problem.config, schedule="constant")
    cases, used = problem.training_set, []

    class Late(linoss.data.Sequences):
        """The same cases, but for a huge value in the seventh batch."""

        def batch(self, indices, length=None):
            batch = cases.batch(indices, length)
            if len(used) == 6:
                batch.values[0, 0, 0] = 3e38
            used.append(indices)
            return batch

    late = Late(cases.values, cases.labels)
    with pytest.raises(TrainingError, match="the loss of update 6 is ") as caught:
        problem.train(training_set=late, directory=tmp_path)
    result = caught.value.result
    assert result.steps == 4
    assert [record["step"] for record in result.history] == [4]
    assert_same_trees(result.model, problem.train(steps=4).model)
    assert_same_trees(result.model, load_model(tmp_path).model)
    assert problem.train(directory=tmp_path, resume=True).steps == 12  # with good data this time


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training_set": linoss.data.Sequences([])}, "training_set is empty"),
        (
            {"validation_set": linoss.data.sequences(np.zeros((2, 3, 9)), y=["slow", "fast"])},
            "validation_set has 3 channels, expected 1",
        ),
        (
            {"training_set": linoss.data.sequences(np.zeros((2, 1, 9)))},
            "training_set has no labels",
        ),
        (
            {"validation_set": linoss.data.sequences(np.zeros((2, 1, 9)), y=["slow", "other"])},
            "validation_set.labels has 'other'",
        ),
        ({"resume": True}, "resume is True, but directory is None"),
    ],
)
def test_what_does_not_fit_is_refused(make_problem, changes, message):
    with pytest.raises(ValueError, match=message):
        make_problem().train(**changes)


# ---- Limited in minutes: a whole training, with fewer updates ----


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


# ---- Interrupts and forks ----


@pytest.mark.parametrize("place", ["in training", "elsewhere"])
def test_ctrl_c_in_a_garbage_collection_is_not_lost(make_problem, place):
    """JAX has such a callback, in which Python ignores exceptions."""
    coming = [signal.SIGINT]

    def callback(*_):
        if coming:
            signal.raise_signal(coming.pop())

    gc.callbacks.append(callback)
    before = signal.signal(signal.SIGINT, raise_interrupt)
    try:
        if place == "in training":
            with pytest.raises(TrainingStopped) as stopped:
                make_problem().train(on_progress=lambda _: gc.collect())
            assert 0 < stopped.value.result.steps < 12
        else:
            with pytest.raises(KeyboardInterrupt):
                [gc.collect(), time.sleep(60)]
    finally:
        gc.callbacks.remove(callback)
        signal.signal(signal.SIGINT, before)


def test_a_second_ctrl_c_does_not_wait(make_problem):
    def twice(progress):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(TrainingStopped):
            make_problem().train(on_progress=twice)
    finally:
        signal.signal(signal.SIGINT, before)


FORKED = """
import multiprocessing, jax.numpy, numpy as np
from linoss import LinOSSClassifier

def fit():
    small = LinOSSClassifier(hidden_size=4, state_size=4, num_blocks=1, steps=1)
    small.fit(np.ones((8, 20)), np.arange(8) % 2)

jax.numpy.zeros(1)
child = multiprocessing.get_context("fork").Process(target=fit)
child.start()
child.join()
"""


@pytest.mark.integration
def test_a_forked_process_does_not_wait_forever():
    words = [sys.executable, "-W", "ignore", "-c", FORKED]
    result = subprocess.run(words, check=True, capture_output=True, text=True, timeout=120)
    assert "RuntimeError: this process was forked after JAX had started" in result.stderr
