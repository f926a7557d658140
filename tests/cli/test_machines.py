"""`linoss fit` on several devices."""

import pytest


def test_devices_and_others_when_a_run_goes_on(tmp_path, data, small, good_json):
    one = good_json(f"fit {data} --task classification --out {tmp_path / 'a'} {small} --steps 4")
    line = f"fit {data} --task classification --out {tmp_path / 'b'} {small} --steps 4"
    several = good_json(f"{line} --devices 4x2")
    assert several["test"] == one["test"]
    assert good_json(f"fit {data} --out {tmp_path / 'b'} --resume --devices 4")["steps"] == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--devices none", "expected a number, or such as 2x4"),
        ("--devices 0", "expected a number, or such as 2x4"),
    ],
)
def test_wrong_use(tmp_path, data, failing, options, message):
    said = failing(f"fit {data} --task classification --out {tmp_path / 'run'} {options}", code=2)
    assert message in " ".join(said.replace("│", " ").split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--devices 3", "batch_size is 8, expected a multiple of 3"),
        ("--devices 99", "devices is 99, but JAX has 8"),
    ],
)
def test_what_cannot_be_done(tmp_path, data, small, failing, options, message):
    line = f"fit {data} --task classification --out {tmp_path / 'run'} {small} --steps 2 {options}"
    assert message in failing(line)
