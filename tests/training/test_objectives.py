"""Losses, targets and metrics, against hand computation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import linoss.data
from linoss.training import Classification, Forecasting, Regression

LOGITS = np.array([[2.0, -1.0, 0.5], [0.0, 1.0, 3.0], [1.0, 1.5, -2.0]])


def labelled(labels, lengths=None):
    lengths = [6] * len(labels) if lengths is None else lengths
    return linoss.data.Sequences([np.zeros((n, 1), np.float32) for n in lengths], labels)


def loss_of(objective, cases, answers):
    targets, weights = objective.targets(cases.batch(range(len(cases))), np.float64)
    return objective.loss(jnp.asarray(answers), jnp.asarray(targets), jnp.asarray(weights))


@pytest.mark.parametrize("options", [{}, {"class_weights": (1.0, 2.0, 4.0)}, {"smoothing": 0.3}])
def test_cross_entropy(options):
    labels, share = np.array([2, 1, 0]), options.get("smoothing", 0)
    target = (1 - share) * np.eye(3)[labels] + share / 3
    losses = -np.sum(target * scipy.special.log_softmax(LOGITS, axis=1), axis=1)
    weights = np.array(options.get("class_weights", (1, 1, 1)))[labels]
    value = loss_of(Classification(classes=(0, 1, 2), **options), labelled(labels), LOGITS)
    np.testing.assert_allclose(value, np.average(losses, weights=weights))


@pytest.mark.parametrize("scale", [1, 10, 1e4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_floor_flattens_what_is_very_wrong(scale, dtype):
    """-log(p + floor), its gradient p_k / (p_k + floor) (p - e_k), in double precision."""
    objective, cases = Classification(classes=(0, 1, 2), floor=1e-8), labelled(np.array([1, 2, 2]))
    logits, right = (scale * LOGITS).astype(dtype), np.eye(3)[[1, 2, 2]]
    p = scipy.special.softmax(logits.astype(np.float64), axis=1)
    chosen = np.sum(right * p, axis=1, keepdims=True)
    value, gradient = jax.value_and_grad(lambda z: loss_of(objective, cases, z))(
        jnp.asarray(logits)
    )
    tolerance = 1e-6 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(value, np.mean(-np.log(chosen + 1e-8)), rtol=tolerance)
    expected = chosen / (chosen + 1e-8) * (p - right) / 3
    np.testing.assert_allclose(gradient, expected, atol=tolerance)
    if scale == 1e4:  # beyond the numbers of a probability nothing is left to learn from
        assert not np.asarray(gradient).any()
        without = Classification(classes=(0, 1, 2))
        assert np.asarray(jax.grad(lambda z: loss_of(without, cases, z))(jnp.asarray(logits))).any()


def test_accuracy():
    objective = Classification(classes=(0, 1, 2), class_weights=(1.0, 2.0, 4.0))
    targets, weights = objective.targets(labelled(np.array([0, 1, 1])).batch([0, 1, 2]))
    assert objective.score(LOGITS, targets, weights) == (2, 3)
    outputs = np.array([[np.nan] * 3, [1.0, 0.0, 0.0], [0.0, np.nan, 1.0]])  # NaN is not right
    assert objective.score(outputs, np.array([0, 0, 2]), np.ones(3)) == (1, 3)


def test_logits_become_probabilities():
    value = Classification(classes=(0, 1, 2)).decode(1000 * LOGITS.astype(np.float32))
    np.testing.assert_allclose(value, scipy.special.softmax(1000 * LOGITS, axis=1), atol=1e-12)


@pytest.mark.parametrize("labels", [np.array(["x", "y"]), np.array([3, 7]), np.array([0.5, 2.5])])
def test_labels_of_any_kind_keep_their_kind(labels):
    objective = Classification.from_labels(labels)
    assert objective.classes == tuple(labels.tolist())


def test_an_unknown_class_is_named():
    with pytest.raises(ValueError, match="labels has 'z', expected one of the classes 'x', 'y'"):
        Classification(classes=("x", "y")).encode(["x", "z"])


def test_squared_error_of_scaled_targets():
    labels = np.array([[1.0, 10.0], [3.0, 30.0], [5.0, 80.0]])
    objective = Regression.from_labels(labels)
    answers = np.random.default_rng(0).normal(size=(3, 2))
    scaled = (labels - labels.mean(0)) / labels.std(0)
    np.testing.assert_allclose(
        loss_of(objective, labelled(labels), answers), np.mean((answers - scaled) ** 2)
    )
    np.testing.assert_allclose(objective.decode(scaled), labels)


def test_answers_at_every_kth_step_are_masked_where_there_are_none():
    labels = [np.array([[1.0], [2.0], [3.0]]), np.array([[4.0]])]
    objective = Regression(out_size=1, every=2)
    cases = labelled(labels, lengths=[7, 3])
    targets, weights = objective.targets(cases.batch([0, 1], 12))
    assert targets[..., 0].tolist() == [[1, 2, 3, 0, 0, 0], [4, 0, 0, 0, 0, 0]]
    assert weights[..., 0].tolist() == [[1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0]]
    answers = np.zeros((2, 6, 1))
    batch = cases.batch([0, 1], 12)
    value = objective.loss(jnp.asarray(answers), *map(jnp.asarray, objective.targets(batch)))
    np.testing.assert_allclose(value, (1 + 4 + 9 + 16) / 4)
    assert objective.score(answers, targets, weights) == (30.0, 4.0)


def test_a_batch_without_any_target_has_no_loss():
    assert Regression().loss(jnp.ones((2, 1)), jnp.zeros((2, 1)), jnp.zeros((2, 1))) == 0


def test_absolute_error_of_forecasts():
    answers, targets = np.random.default_rng(0).normal(size=(2, 3, 4, 2))
    weights = np.ones((3, 4, 2))
    objective = Forecasting(out_size=2, horizon=4)
    value = objective.loss(*map(jnp.asarray, (answers, targets, weights)))
    np.testing.assert_allclose(value, np.abs(answers - targets).mean())
    total, count = objective.score(answers, targets, weights)
    np.testing.assert_allclose(total / count, value)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Classification(classes=("a", "a")), "each of them once"),
        (lambda: Classification(classes=()), "each of them once"),
        (lambda: Classification(classes=(0, 1), class_weights=(1.0,)), "class_weights has shape"),
        (lambda: Classification(classes=(0,), class_weights=(0.0,)), r"class_weights\[0\] is 0"),
        (lambda: Classification(classes=(0, 1), smoothing=1.0), "smoothing is 1.0"),
        (lambda: Classification(classes=(0, 1), floor=-1e-8), "floor is -1e-08"),
        (lambda: Regression(out_size=0), "out_size is 0"),
        (lambda: Regression(every=0), "every is 0"),
        (lambda: Regression.from_labels(["a", "b"]), "labels cannot be read as numbers"),
        (lambda: Forecasting(out_size=1, horizon=0), "horizon is 0"),
    ],
)
def test_bad_objectives_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.several
@pytest.mark.parametrize(
    ("objective", "model", "labels", "message"),
    [
        (Classification(classes=(0, 1, 2)), {}, np.zeros(3, int), "out_size is 2, expected 3"),
        (Classification(classes=(0, 1)), {}, None, "cases has no labels"),
        (Classification(classes=(0, 1)), {}, np.full(3, 5), "cases.labels has 5"),
        (Regression(out_size=2), {}, np.zeros((3, 2)), "task is 'classification'"),
        (
            Regression(out_size=2, every=2),
            {"task": "regression"},
            np.zeros((3, 2)),
            "every is 2, but the model's is None",
        ),
        (Regression(out_size=2), {"task": "regression"}, np.zeros((3, 1)), "labels has shape"),
        (Regression(out_size=2), {"task": "regression"}, np.full((3, 2), np.inf), "infinite"),
        (
            Regression(out_size=2, every=4),
            {"task": "regression", "every": 4},
            np.zeros((3, 2, 2)),
            r"cases.labels\[0\] has shape \(2, 2\), expected \(1, 2\)",
        ),
        (
            Forecasting(out_size=2, horizon=3),
            {"task": "forecasting", "horizon": 3},
            np.zeros(3),
            "cases is a Sequences, expected Windows",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make_model, objective, model, labels, message):
    with pytest.raises(ValueError, match=message):
        objective.check(make_model(**model).config, labelled(labels, [6, 6, 6]))
