"""LinOSSRegressor: a number, several, or a sequence of targets."""

import numpy as np
import pytest

from linoss import LinOSSRegressor
from linoss.estimators import NotANumberWarning, load


@pytest.fixture(scope="module")
def speeds():
    speed = np.random.default_rng(0).uniform(0.5, 1.5, 48)
    return np.sin(np.outer(speed, np.arange(40)) / 3), speed


@pytest.fixture(scope="module")
def sums():
    """Noise of unequal length, and its sum at every 10th step."""
    random = np.random.default_rng(0)
    cases = [random.normal(size=(2, 60 + i)) for i in range(24)]
    return cases, [np.cumsum(case[0])[9::10] / 5 for case in cases]


@pytest.mark.integration
def test_one_number(alone, speeds, tmp_path):
    default = {"scheme": "exact", "damped": None}
    regressor = LinOSSRegressor(**{**alone, **default, "steps": 200}).fit(*speeds)
    found = regressor.predict(speeds[0])
    assert found.shape == (48,)
    assert regressor.score(*speeds) > 0.9
    regressor.save(tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").predict(speeds[0]), found)


@pytest.mark.integration
def test_several_numbers(alone, speeds):
    values, speed = speeds
    targets = np.stack([speed, -2 * speed], axis=1)
    regressor = LinOSSRegressor(**{**alone, "steps": 200}).fit(values, targets)
    assert regressor.predict(values).shape == (48, 2)
    assert regressor.score(values, targets) > 0.9


@pytest.mark.integration
def test_a_sequence_of_targets(alone, sums, tmp_path):
    cases, targets = sums
    regressor = LinOSSRegressor(**{**alone, "steps": 200}, every=10).fit(cases, targets)
    found = regressor.predict(cases)
    assert [len(answers) for answers in found] == [len(target) for target in targets]
    assert regressor.score(cases, targets) > 0.8
    regressor.save(tmp_path / "model")
    again = load(tmp_path / "model").predict(cases)
    assert all(map(np.array_equal, again, found))


@pytest.mark.integration
def test_a_sequence_of_several_targets_some_unknown(alone):
    random = np.random.default_rng(0)
    values = random.normal(size=(24, 1, 40))
    sums = np.cumsum(values[:, 0], axis=1)[:, 9::10] / 5
    targets = np.stack([sums, -sums], axis=-1)
    targets[3, 1] = np.nan
    regressor = LinOSSRegressor(**alone, every=10).fit(values, targets)
    assert regressor.predict(values).shape == (24, 4, 2)
    assert np.isfinite(regressor.score(values, targets))


@pytest.mark.integration
def test_targets_are_scaled(alone, speeds):
    values, speed = speeds
    alone = {**alone, "steps": 30}
    plain = LinOSSRegressor(**alone).fit(values, speed).predict(values)
    large = LinOSSRegressor(**alone).fit(values, 1e6 + 1e5 * speed).predict(values)
    np.testing.assert_allclose((large - 1e6) / 1e5, plain, rtol=1e-2, atol=1e-2)


@pytest.mark.usefixtures("unchecked")
def test_targets_of_the_wrong_number_are_named(alone, sums):
    cases, targets = sums
    targets = [*targets[:5], targets[5][:-1], *targets[6:]]
    with pytest.raises(ValueError, match=r"labels\[5\] has shape \(5, 1\), expected \(6, 1\)"):
        LinOSSRegressor(**alone, every=10).fit(cases, targets)


@pytest.mark.integration
def test_a_learning_rate_that_is_too_high_is_told(alone, speeds):
    with pytest.warns(
        UserWarning, match=r"^the loss is \S+ at the end, .*learning_rate \(now 10\)"
    ):
        LinOSSRegressor(**{**alone, "learning_rate": 10, "steps": 60}).fit(*speeds)


@pytest.mark.parametrize(("size", "refused"), [(1e300, True), (1e-300, False)])
def test_targets_of_no_usual_size_are_told(alone, speeds, size, refused):
    values, speed = speeds
    regressor = LinOSSRegressor(**{**alone, "steps": 2})
    how = (
        pytest.raises(ValueError, match="target 0 has values from")
        if refused
        else pytest.warns(UserWarning, match="target 0 has values from")
    )
    with how:
        regressor.fit(values, size * speed)


@pytest.mark.integration
def test_a_signal_on_a_large_offset_is_seen(alone, speeds):
    values, speed = speeds
    plain = LinOSSRegressor(**alone).fit(values, speed)
    raised = LinOSSRegressor(**alone).fit(values + 1e8, speed)
    np.testing.assert_allclose(raised.predict(values + 1e8), plain.predict(values), atol=1e-3)
    listen = raised.stream()
    for sample in values[0] + 1e8:
        answer = listen([sample])
    np.testing.assert_allclose(answer, plain.predict(values[:1]), atol=1e-3)


def test_answers_that_are_no_numbers_are_told(alone, speeds):
    values, speed = speeds
    regressor = LinOSSRegressor(**{**alone, "steps": 2}).fit(values, speed)
    values = values.copy()
    values[[2, 5]] = 3e38
    with pytest.warns(
        NotANumberWarning, match="^the predictions for case 2 and 1 others are not numb"
    ):
        found = regressor.predict(values)
    assert np.flatnonzero(np.isnan(found)).tolist() == [2, 5]


def test_classes_are_no_targets(alone, waves):
    with pytest.raises(ValueError, match="y is 'slow' for case 0, expected numbers; for classes"):
        LinOSSRegressor(**alone).fit(*waves)
