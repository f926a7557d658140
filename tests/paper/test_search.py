"""The paper's grid: each point once, gone on with, ranked by the validation part."""

import pytest

from paper import runs
from paper.runs import read_results

pytestmark = pytest.mark.usefixtures("small", "single_precision")


@pytest.fixture
def search(tmp_path, write_archive, experiment):
    """(words, code) to a search of two points."""
    write_archive(tmp_path / "data", "Heartbeat")
    words = ["search", "--model", "im", "--data-set", "Heartbeat", "--max-steps", 2]
    return lambda *more, code=0: experiment(*words, *more, data_dir=tmp_path / "data", code=code)


FIRST, SECOND = "rate0.01-hidden4-state4-blocks1-time", "rate0.001-hidden4-state4-blocks1"


def test_a_search_goes_on_and_is_ranked_by_validation(search, experiment, monkeypatch):
    train, trained = runs.train, []

    def stopped_at_the_second(*arguments, directory, **options):
        trained.append(directory.parent.name)
        if len(trained) == 2:
            raise KeyboardInterrupt
        return train(*arguments, directory=directory, **options)

    monkeypatch.setattr(runs, "train", stopped_at_the_second)
    assert "The same command with --resume continues" in search(code=130)
    assert "already exists and is not overwritten" in search(code=1)
    table = search("--resume")
    assert trained == [FIRST, SECOND, SECOND]
    first, second = read_results(experiment.out)
    best = max(first, second, key=lambda result: result.outcome["validation"])
    rate = best.settings["hyperparameters"]["learning_rate"]
    assert f"| Heartbeat | LinOSS-IM | here, paper, 1 (2 of 2 tried) | {rate:g} | 4 |" in table
    assert "| Heartbeat | LinOSS-IM | paper |" in table
