"""Auto: what it keeps and why, and that it is read back. Weights are tested with the estimators."""

import re

import numpy as np
import pytest
from sklearn.base import clone

from linoss import AutoClassifier, AutoRegressor, LinOSSClassifier, OscillatorClassifier, load
from linoss.data import sequences
from linoss.training import CheckpointError

pytestmark = pytest.mark.usefixtures("single_precision")

BANK = {"n_oscillators": 64, "random_state": 0}
TINY = {"hidden_size": 4, "state_size": 4, "num_blocks": 1, "steps": 2, "batch_size": 8}
TINY |= {"scheme": "im", "damped": False, "n_models": 2}


# ---- Without training ----


def test_without_minutes_it_is_the_oscillators(waves):
    values, labels = waves
    auto = AutoClassifier(minutes=0, **BANK).fit(values, labels)
    alone = OscillatorClassifier(**BANK).fit(values, labels)
    np.testing.assert_array_equal(auto.predict_proba(values), alone.predict_proba(values))
    assert auto.held_out_score_ == alone.held_out_score_
    assert (auto.choice_.kept, auto.choice_.scores, auto.choice_.cases) == ("oscillators", {}, 0)
    assert auto.choice_.why == "Kept the oscillators: minutes is 0, so nothing was trained"
    assert list(auto.fitted_.members) == ["oscillators"]


def test_the_score_comes_before_the_training(waves, capsys):
    seen = []

    def note(progress):
        seen.append(capsys.readouterr().err)

    auto = AutoClassifier(**BANK, verbose=1, linoss_options=TINY)
    auto.fit(*waves, on_progress=note)
    line = f"leave-one-out accuracy {auto.held_out_score_:.4g}"
    assert line in seen[0]


# ---- What is kept ----


def test_what_does_not_help_is_not_kept(waves):
    auto = AutoClassifier(**BANK, linoss_options=TINY).fit(*waves)
    assert auto.choice_.kept == "oscillators"
    assert re.fullmatch(
        r"Kept the oscillators: accuracy 1 on 48 held-out cases, against [\d.]+ of the trained "
        r"models and [\d.]+ of the ensemble; the trained models do not help by more than a "
        r"standard error",
        auto.choice_.why,
    )
    trained = LinOSSClassifier(**TINY, minutes=2.0, random_state=0).fit(*waves)
    assert auto.choice_.scores["linoss"] == pytest.approx(trained.held_out_score_)
    assert auto.held_out_score_ == auto.choice_.scores["oscillators"] == 1
    alone = OscillatorClassifier(**BANK).fit(*waves)
    np.testing.assert_array_equal(auto.predict_proba(waves[0]), alone.predict_proba(waves[0]))


def test_what_helps_is_composed(small):
    """Log-probabilities of both members, weighted, as the docs say."""
    random, labels = np.random.default_rng(0), np.arange(60) % 2
    values = random.normal(size=(60, 1, 40))  # the sign of the first sample, which 2 oscillators
    values[:, 0, 0] = np.where(labels, 3, -3)  # do not see
    options = {**small, "n_models": 2, "steps": 60, "pooling": "max"}
    del options["random_state"]
    auto = AutoClassifier(n_oscillators=2, random_state=0, linoss_options=options)
    auto.fit(values, labels)
    assert auto.choice_.kept in ("ensemble", "linoss")
    p, q = (member.predict(sequences(values)) for member in auto.fitted_.members.values())
    a, b = auto.fitted_.weights
    product = (p + 1e-3) ** a * (q + 1e-3) ** b
    np.testing.assert_allclose(
        auto.predict_proba(values), product / product.sum(axis=1, keepdims=True), rtol=1e-4
    )


@pytest.mark.parametrize(
    ("kind", "kept"),
    [(AutoClassifier, "oscillators"), (AutoClassifier, "ensemble"), (AutoRegressor, "ensemble")],
)
def test_what_was_kept_answers_and_is_read_back(tmp_path, waves, kind, kept):
    """Without held-out cases both members have a weight of a half."""
    values = waves[0]
    y = np.arange(48) % 2 if kind is AutoClassifier else np.linspace(-1, 1, 48)
    minutes, options = (0, None) if kept == "oscillators" else (2.0, {**TINY, "n_models": 1})
    auto = kind(**BANK, causal=True, minutes=minutes, linoss_options=options).fit(values, y)
    assert auto.choice_.kept == kept
    members = ["linoss", "oscillators"] if kept == "ensemble" else [kept]
    assert list(auto.fitted_.members) == members
    ask = "predict_proba" if kind is AutoClassifier else "predict"
    auto.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert type(again) is kind
    assert again.choice_ == auto.choice_
    assert again.fitted_.scores == auto.fitted_.scores
    assert again.get_params() == auto.get_params()
    np.testing.assert_array_equal(getattr(again, ask)(values), getattr(auto, ask)(values))
    listen = again.stream()
    for sample in values[3].T:
        answer = listen(sample)
    np.testing.assert_allclose(answer, np.ravel(getattr(auto, ask)(values[3:4])), atol=1e-4)


def test_a_training_that_fails_leaves_the_oscillators(waves):
    auto = AutoClassifier(**BANK, linoss_options={**TINY, "learning_rate": 1e30, "steps": 50})
    auto.set_params(linoss_options={**auto.linoss_options, "clip_norm": None, "norm": None})
    auto.fit(*waves)
    assert auto.choice_.kept == "oscillators"
    assert "the training failed: the loss of update" in auto.choice_.why
    assert auto.score(*waves) == 1


def test_ctrl_c_leaves_the_oscillators(waves):
    def stop(progress):
        raise KeyboardInterrupt

    auto = AutoClassifier(**BANK, linoss_options=TINY)
    with pytest.raises(KeyboardInterrupt), pytest.warns(UserWarning, match="interrupted"):
        auto.fit(*waves, on_progress=stop)
    assert auto.choice_.why == "Kept the oscillators: the training was interrupted"
    assert auto.score(*waves) == 1


# ---- Directories ----


@pytest.mark.integration
def test_a_run_that_was_stopped_goes_on(tmp_path, waves):
    class Stop(Exception):
        pass

    def stop(progress):
        raise Stop

    auto = AutoClassifier(**BANK, linoss_options=TINY)
    with pytest.raises(Stop):
        auto.fit(*waves, directory=tmp_path / "run", on_progress=stop)
    stopped = load(tmp_path / "run")
    assert stopped.choice_.why == "Kept the oscillators: the training has not ended"
    assert stopped.score(*waves) == 1
    with pytest.raises(CheckpointError, match="already exists"):
        clone(auto).fit(*waves, directory=tmp_path / "run")
    other = clone(auto).set_params(n_oscillators=128)
    with pytest.raises(CheckpointError, match="n_oscillators is 64 in the run, but 128 now"):
        other.fit(*waves, directory=tmp_path / "run", resume=True)
    auto.fit(*waves, directory=tmp_path / "run", resume=True)
    whole = clone(auto).fit(*waves)
    again = load(tmp_path / "run")
    assert again.choice_ == whole.choice_
    np.testing.assert_array_equal(again.predict_proba(waves[0]), whole.predict_proba(waves[0]))


# ---- Bad input ----


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"minutes": -1}, "minutes is -1, expected a finite number >= 0"),
        ({"minutes": None}, "minutes is None, expected a finite number >= 0"),
        ({"n_oscillators": 0}, "n_oscillators is 0, expected 'auto' or an integer"),
        ({"linoss_options": {"colour": 3}}, "linoss_options has 'colour', expected one of batch"),
        ({"linoss_options": {"minutes": 3}}, "linoss_options has 'minutes', expected one of batch"),
        (
            {"linoss_options": {"steps": -1}},
            "steps is -1, expected None or an integer >= 0",
        ),
    ],
)
def test_settings_that_are_wrong(waves, settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        AutoClassifier(**settings).fit(*waves)
