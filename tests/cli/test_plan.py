"""`linoss plan`: what a step would cost, and where it would fit."""

import re

import pytest

from linoss import LinOSSClassifier, LinOSSConfig, LinOSSForecaster, LinOSSRegressor
from linoss.cli import _options as options
from linoss.dynamics import SCHEMES
from linoss.planning import plan

ESTIMATORS = {
    "classification": LinOSSClassifier,
    "regression": LinOSSRegressor,
    "forecasting": LinOSSForecaster,
}


def test_the_numbers_are_those_of_the_library(good_json):
    found = good_json(
        "plan --length 5000 --batch-size 16 --devices 2x4 --in-size 3 --out-size 5 "
        "--hidden-size 32 --state-size 16 --num-blocks 3 --scheme im --no-damped"
    )
    config = LinOSSConfig(
        in_size=3, out_size=5, hidden_size=32, state_size=16, num_blocks=3, norm="batch"
    )
    expected = plan(config, length=5000, batch=16, devices=(2, 4))
    assert found["devices"] == [2, 4]
    assert found["parameters"] == expected.parameters
    for name in ("memory", "flops", "bytes_communicated"):
        amounts = getattr(expected, name)
        assert found[name] == {**amounts, "total": amounts.total}


def test_a_table_for_people(good):
    text = good("plan --length 100000000 --batch-size 64 --devices 64x64")
    assert "A training step on 4,096 devices, 64 x 64" in text
    assert "1 x 1,562,500 steps" in text


@pytest.mark.parametrize(
    ("memory", "answer"),
    [
        (16, "It fits in 16 GB."),
        (
            1,
            "It fits in 1 GB with fewer stored products: 647 MB with --keep 0, which is",
        ),
        (0.5, "It does not fit in 0.5 GB. The fewest devices on which it does: --devices 2, "),
        (1e-4, "It does not fit in 0.0001 GB on any number of devices: the model"),
    ],
)
def test_whether_it_fits(good, memory, answer):
    text = good(f"plan --length 100000 --batch-size 8 --memory {memory}")
    assert text.splitlines()[-1].startswith(answer)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("--devices 1x2 --norm layer", "time split over devices, with a norm over channels"),
        ("--devices 1x2 --scheme verlet --no-damped", "with a scheme that weighs forces"),
        ("--norm layer", None),
    ],
)
def test_what_kernels_do_not_cover_and_how_much_slower_it_is(good, good_json, options, reason):
    line = f"plan --length 1000 --batch-size 8 {options}"
    found = good_json(line)["outside_kernels"]
    if reason is None:
        assert found is None
        return
    assert re.search(rf"{reason}: [\d.]+ times slower", found)
    assert found in " ".join(good(line).split())


def test_the_smallest_mesh_as_json(good_json):
    found = good_json("plan --length 100000 --batch-size 8 --memory 0.5")
    assert found["fits"] is False
    assert found["smallest_mesh"] == [2, 1]


def test_tasks(good_json):
    step = good_json("plan --length 96 --task regression --every 1 --out-size 4")
    ahead = good_json("plan --length 96 --task forecasting --horizon 24")
    assert step["steps"] == 96
    assert ahead["steps"] == 120


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("plan --length 100 --batch-size 6 --devices 4", "batch is 6, expected a multiple of 4"),
    ],
)
def test_what_cannot_be_planned(failing, line, message):
    assert message in failing(line)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--model-option size=3", "--model-option size is not a setting of LinOSSConfig"),
        ("--memory 0", "--memory is 0.0, expected a finite number > 0"),
        ("--memory -1", "--memory is -1.0, expected a finite number > 0"),
        ("--engine fast", "'--engine'"),
        ("--scheme euler", "'--scheme': 'euler', expected one of im, imex, verlet, exact"),
        ("--batch-size 0", "'--batch-size': '0', expected an integer >= 1"),
        ("--scheme verlet --damped", "damped is True, but scheme 'verlet' has no damping"),
    ],
)
def test_options_that_cannot_be(failing, option, message):
    assert message in failing(f"plan --length 100 {option}", code=2)


@pytest.mark.parametrize("task", ["classification", "regression", "forecasting"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_model_is_that_of_the_estimator(task, scheme):
    """The plan's configuration is the one that `fit` of the task's estimator builds."""
    chosen = options.record(
        "linoss", task, options.parameters({"scheme": scheme, "time_channel": True})
    )
    planned = options.model_of(task, chosen, in_size=2, out_size=3)
    estimator = ESTIMATORS[task](scheme=scheme, time_channel=True)
    built = LinOSSConfig.from_settings(estimator, in_size=3, out_size=3, task=task)
    assert planned == built
    assert planned.damped == SCHEMES[scheme].damped


@pytest.mark.parametrize(
    "line", ["plan", "plan --length 9 --devices x", "plan --length 9 --every 2"]
)
def test_wrong_use(failing, line):
    assert "Usage: linoss plan" in failing(line, code=2)
