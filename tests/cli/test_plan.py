"""`linoss plan`: what a step would cost, and where it would fit."""

import re

import pytest

from linoss import LinOSSConfig
from linoss.planning import plan


def test_the_numbers_are_those_of_the_library(good_json):
    found = good_json(
        "plan --length 5000 --batch-size 16 --devices 2x4 --in-size 3 --out-size 5 "
        "--set hidden_size=32 --set state_size=16 --set num_blocks=3 --set scheme=im "
        "--set damped=no"
    )
    config = LinOSSConfig(
        in_size=3, out_size=5, hidden_size=32, state_size=16, num_blocks=3, norm="batch"
    )
    expected = plan(config, length=5000, batch=16, devices=(2, 4))
    assert found["devices"] == [2, 4]
    assert found["parameters"] == expected.parameters
    assert found["memory"] == {**expected.memory, "total": expected.memory.total}


def test_a_table_for_people(good):
    text = good("plan --length 100000000 --batch-size 64 --devices 64x64")
    assert "A training step on 4,096 devices, 64 x 64" in text
    assert "1 x 1,562,500 steps" in text


@pytest.mark.parametrize(
    ("memory", "answer"),
    [
        (16e9, "It fits in 16 GB."),
        (1e9, "It fits in 1 GB with fewer stored products: 647 MB with --set memory=0."),
        (5e8, "It does not fit in 500 MB: choose more --devices."),
    ],
)
def test_whether_it_fits(good, memory, answer):
    text = good(f"plan --length 100000 --batch-size 8 --device-memory {memory}")
    assert text.splitlines()[-1].startswith(answer)


def test_what_kernels_do_not_cover_and_how_much_slower_it_is(good, good_json):
    line = "plan --length 1000 --batch-size 8 --set norm=layer"
    assert good_json(line)["outside_kernels"] is None
    line += " --devices 1x2"
    found = good_json(line)["outside_kernels"]
    assert re.search(r"time split over devices.*: [\d.]+ times slower", found)
    assert found in " ".join(good(line).split())


def test_tasks(good_json):
    step = good_json("plan --length 96 --task regression --set every=1 --out-size 4")
    ahead = good_json("plan --length 96 --task forecasting --horizon 24")
    assert (step["steps"], ahead["steps"]) == (96, 120)
    assert good_json("plan --length 100000 --batch-size 8 --device-memory 5e8")["fits"] is False


@pytest.mark.parametrize(
    ("option", "code", "message"),
    [
        ("--devices x", 2, "expected a number, or such as 2x4"),
        ("--set every=2", 2, "every is 2, but task is 'classification', not 'regression'"),
        ("--device-memory 0", 2, "--device-memory is 0, expected a number > 0"),
        ("--engine fast", 2, "'--engine'"),
        ("--batch-size 0", 2, "batch_size is 0, expected an integer >= 1"),
        ("--batch-size 6 --devices 4", 1, "batch is 6, expected a multiple of 4"),
    ],
)
def test_wrong_use(failing, option, code, message):
    assert message in failing(f"plan --length 100 {option}", code=code)
