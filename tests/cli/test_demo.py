"""`linoss demo`: it learns from generated data, and keeps a run."""

import pytest

pytestmark = pytest.mark.usefixtures("few_bells")


def test_it_shows_scores_and_keeps_a_run(tmp_path, linoss_command, failing):
    result = linoss_command(f"demo --steps 2 --out {tmp_path / 'run'}")
    assert result.exit_code == 0
    assert "Untrained oscillators, after" in result.stderr
    assert "accuracy" in result.stdout
    assert (tmp_path / "run" / "report.html").exists()
    assert "already holds a run" in failing(f"demo --out {tmp_path / 'run'}")
