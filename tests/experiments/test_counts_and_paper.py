"""The paper's numbers agree with each other and with what can be computed."""

import statistics

import pytest

from linoss.experiments import _models, _paper, reproduce
from linoss.experiments._accuracy import seed_table
from linoss.experiments._markdown import judged
from linoss.experiments._results import ExperimentResult, read_results
from linoss.experiments.parameters import count
from linoss.nn import LinOSSConfig


def test_all_twelve_counts_are_exact(tmp_path):
    table = reproduce("parameters", out=tmp_path).read_text()
    results = read_results(tmp_path / "parameters")
    assert len(results) == 12
    for result in results:
        paper = _paper.PARAMETERS[result.model][result.data_set]
        assert result.outcome["parameters"] == paper
    assert table.count("| yes |") == 12


@pytest.mark.parametrize("model", sorted(_models.MODELS))
def test_counts_of_models_to_compare_with_are_exact(tmp_path, model):
    table = reproduce("parameters", models=[model], out=tmp_path).read_text()
    results = read_results(tmp_path / "parameters")
    found = {result.data_set: result.outcome["parameters"] for result in results}
    assert found == _paper.PARAMETERS[model]
    assert table.count("| yes |") == 6


def test_damping_adds_a_number_for_every_oscillator(tmp_path):
    table = reproduce("parameters", models=["damped"], out=tmp_path).read_text()
    results = read_results(tmp_path / "parameters")
    assert len(results) == 6
    for result in results:
        best = _paper.BEST[result.data_set, "damped"]
        config = LinOSSConfig.published(
            **result.settings["model"], out_size=_paper.UEA[result.data_set].classes
        )
        assert config.num_blocks * config.state_size == best.num_blocks * best.state_size
        more = result.outcome["parameters"] - count(config)["parameters"]
        assert more == best.num_blocks * best.state_size
    assert "| yes |" not in table
    assert "| no |" not in table


@pytest.mark.parametrize("key", _paper.PER_SEED, ids="-".join)
def test_published_seeds_give_the_papers_mean_and_deviation(key):
    data_set, model = key
    found = [100 * value for value in _paper.PER_SEED[key]]
    if data_set == "PPG":
        spread, mean_error, deviation_error = _paper.PPG_ERROR[model], 0.05, 0.01
    else:
        spread, mean_error, deviation_error = _paper.ACCURACY[model][data_set], 0.1, 0.1
    assert statistics.fmean(found) == pytest.approx(spread.mean, abs=mean_error)
    assert statistics.pstdev(found) == pytest.approx(spread.deviation, abs=deviation_error)


@pytest.mark.parametrize(
    ("test", "words"), [(0.852, "-1.00 deviations"), (0.891, "+0.50 deviations"), (None, "–")]
)
def test_a_mean_is_judged_by_the_papers_deviation(test, words):
    result = ExperimentResult(experiment="uea", data_set="SelfRegulationSCP1", model="im")
    result.outcome["test"] = test
    assert judged([result], _paper.Spread(87.8, 2.6), scale=100) == words


def test_the_standard_error_is_that_of_all_answers():
    """Of 100 answers 50 are right: 5 points."""
    results = [
        ExperimentResult(
            experiment="uea", data_set="SelfRegulationSCP2", model="im", seed=seed,
            outcome={"test": test, "cases": [1, 1, cases], "steps": 7},
            history=[{"metric": value} for value in (None, test or 0.3, 0.4)],
        )
        for seed, cases, test in ((2345, 40, 0.2), (3456, 60, 0.7), (4567, 60, None))
    ]  # fmt: skip
    (table,) = seed_table(results)
    assert "| SCP2 | LinOSS-IM | here | 0.200 | 0.700 | – | – | – | 7 | 5.0 | – | 40.0 |" in table


def test_the_difference_is_to_the_same_seeds():
    """Of 100 answers 50 are right, where 0.561 of them were: two such shares differ by chance."""
    result = ExperimentResult(
        experiment="uea", data_set="SelfRegulationSCP2", model="imex", seed=2345,
        outcome={"test": 0.5, "cases": [1, 1, 100], "steps": 7},
    )  # fmt: skip
    error = 100 * ((0.5 * 0.5 + 0.561 * 0.439) / 100) ** 0.5
    assert f"| 5.0 | -6.1 ± {error:.1f} | – |" in seed_table([result])[0]


@pytest.mark.parametrize(
    ("model", "average"),
    [
        ("im", 67.8), ("imex", 65.0), ("damped", 68.0), ("nrde", 60.6), ("ncde", 60.2),
        ("log-ncde", 64.3), ("lru", 61.7), ("s5", 61.8), ("s6", 62.0), ("mamba", 58.6),
        ("LogSig-SSM", 71.7), ("PD-SSM", 67.0), ("LrcSSM", 66.3),
    ],
)  # fmt: skip
def test_averages_over_the_six_sets(model, average):
    since = {name: row for name, (_, row) in _paper.SINCE.items()}
    means = [spread.mean for spread in {**_paper.ACCURACY, **since}[model].values()]
    assert statistics.fmean(means) == pytest.approx(average, abs=0.051)


def test_the_grid_is_whole_and_holds_the_papers_choices():
    assert len(set(_paper.GRID)) == 3**4 * 2
    for (data_set, _), chosen in _paper.BEST.items():
        assert data_set == "Weather" or chosen in _paper.GRID
