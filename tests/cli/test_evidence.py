"""What speaks for an answer, in pictures."""

import numpy as np

import linoss.data
from linoss import OscillatorClassifier, OscillatorRegressor
from linoss.cli._evidence import average_evidence
from linoss.cli._pictures import evidence_plot, svg


def bursts(cases=30):
    """A burst of period 8 at the end of cases of the second class, in the second channel."""
    random = np.random.default_rng(0)
    X, y = 0.5 * random.normal(size=(cases, 2, 96)), np.arange(cases) % 2
    X[y == 1, 1, 64:] += np.sin(2 * np.pi * np.arange(32) / 8)
    return linoss.data.sequences(X, np.array(["quiet", "burst"])[y])


def test_the_average_finds_period_time_and_channel():
    cases = bursts()
    classifier = OscillatorClassifier(n_oscillators=1024, random_state=0).fit(cases)
    found = {one.name: one for one in average_evidence(classifier, cases)}
    assert set(found) == {"quiet", "burst"}
    one = found["burst"]
    late = one.evidence[:, -one.evidence.shape[1] // 3 :].sum()
    assert late > 0.6 * one.evidence.sum()
    assert one.channels.argmax() == 1
    middle = np.sqrt(one.periods[:-1] * one.periods[1:])
    near = (middle > 4) & (middle < 16)
    assert one.evidence[near].mean() > 1.3 * one.evidence[~near].mean()
    picture = svg(evidence_plot(list(found.values())), "Evidence")
    assert "quiet" in picture
    assert "burst" in picture


def test_of_numbers_its_size_is_shown():
    cases = bursts()
    regressor = OscillatorRegressor(n_oscillators=128, random_state=0)
    regressor.fit(cases.select(np.arange(30)), np.arange(30.0))
    (one,) = average_evidence(regressor, cases)
    assert one.name == "the answer"
    assert (one.evidence >= 0).all()
