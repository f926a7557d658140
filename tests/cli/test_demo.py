"""`linoss demo`: the data are what they are said to be, and the command shows what it learned."""

import numpy as np
import pytest

from linoss.cli._bells import KINDS, bells
from linoss.cli._braille import braille


def test_bells_are_struck_once_and_fade():
    recordings, names, struck = bells(seed=0, cases=60)
    assert recordings.shape == (60, 1, 1500)
    assert set(names) == set(KINDS)
    assert np.all((struck >= 150) & (struck < 750))
    loud, before, after = (
        np.mean(
            [np.var(r[0, when + a : when + b]) for r, when in zip(recordings, struck, strict=True)]
        )
        for a, b in ((0, 60), (-150, 0), (690, 750))
    )
    assert loud > 2 * before
    assert abs(after - before) < 0.1 * before


def test_the_same_seed_gives_the_same_bells():
    np.testing.assert_array_equal(bells(3, 5)[0], bells(3, 5)[0])
    assert not np.array_equal(bells(3, 5)[0], bells(4, 5)[0])


@pytest.mark.usefixtures("few_bells")
def test_it_shows_series_and_the_learning_curve_and_keeps_a_run(tmp_path, linoss_command, failing):
    result = linoss_command(f"demo --steps 2 --out {tmp_path / 'run'}", width=60)
    assert result.exit_code == 0
    assert "Untrained oscillators, after" in result.stderr
    printed = result.stdout
    assert printed.count("A bell of") == 3
    assert "Learning curve" in printed
    assert "accuracy" in printed
    assert any(0x2800 < ord(letter) < 0x2900 for letter in printed)
    assert (tmp_path / "run" / "report.html").exists()
    assert "already holds a run" in failing(f"demo --out {tmp_path / 'run'}")


@pytest.mark.usefixtures("few_bells")
def test_json_without_a_run(good_json):
    found = good_json("demo --steps 2")
    assert set(found) == {"untrained", "steps", "test"}
    assert found["test"]["cases"] == 30


def test_a_line_that_rises():
    assert braille(np.array([0.0, 1.0]), width=1, height=1) == ["⣸"]


def test_a_series_that_never_changes_is_a_line():
    assert braille(np.zeros(10), width=5, height=1) == ["⣀" * 5]
