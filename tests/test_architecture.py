"""The walks of docs/architecture.md are what calls visit, in that order, each function once."""

import re
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import linoss

SOURCE = Path(linoss.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"


def written(title):
    """(file, function) of each line of the walk under that title."""
    page = PAGE.read_text()
    text = page[page.index(title) :]
    walk = re.search(r"```text\n(.*?)```", text, re.DOTALL)
    assert walk is not None
    return [tuple(line.split()[:2]) for line in walk[1].splitlines()]


def visits(call, walk):
    """(file, function) of every visit of a function of the walk, in order."""
    found = []

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)):
            place = Path(code.co_filename).relative_to(SOURCE).as_posix(), code.co_qualname
            if place in walk:
                found.append(place)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def check(title, call):
    walk = written(title)
    assert visits(call, set(walk)) == walk


@pytest.mark.skipif("native" not in linoss.engines(), reason="the kernels were not built")
def test_scan():
    step = linoss.discretize("im", stiffness=[1.0], timestep=1.0)
    check("`linoss.oscillator_scan(", lambda: linoss.oscillator_scan(step, jnp.ones((7, 1))))


@pytest.mark.integration
def test_forward_pass():
    config = linoss.LinOSSConfig(in_size=2, out_size=2, hidden_size=4, state_size=4, num_blocks=1)
    model = linoss.LinOSS(config, key=jax.random.key(0))
    check("`model(u)`", lambda: model(jnp.ones((2, 11, 2)), engine="sequential"))


SMALL = {"n_models": 1, "steps": 2, "hidden_size": 4, "state_size": 4, "num_blocks": 1}
WAVES, LABELS = np.random.default_rng(0).normal(size=(16, 2, 23)), np.arange(16) % 2


@pytest.mark.integration
@pytest.mark.usefixtures("single_precision")
def test_auto():
    options = {**SMALL, "validation_fraction": 0.25}
    auto = linoss.AutoClassifier(n_oscillators=16, linoss_options=options)
    check("`AutoClassifier()", lambda: auto.fit(WAVES, LABELS))


@pytest.mark.integration
@pytest.mark.usefixtures("single_precision")
def test_fit(tmp_path, monkeypatch):
    from linoss import cli, estimators  # noqa: F401

    np.savez(tmp_path / "data.npz", X=WAVES, y=LABELS)
    arguments = ["linoss", "fit", str(tmp_path / "data.npz"), "--task", "classification"]
    arguments += ["--out", str(tmp_path / "run"), "--set", "n_oscillators=64"]
    arguments += ["--minutes", "0.01", "--json"]
    monkeypatch.setattr(sys, "argv", arguments)

    def run():
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert end.value.code == 0

    check("`linoss fit ", run)


@pytest.mark.integration
@pytest.mark.usefixtures("single_precision")
@pytest.mark.parametrize(
    "estimator",
    [
        linoss.OscillatorClassifier(n_oscillators=16),
        linoss.LinOSSClassifier(**{**SMALL, "n_models": 2}),
        linoss.AutoClassifier(n_oscillators=16, linoss_options={**SMALL, "n_models": 2}),
    ],
)
def test_settings_and_data_are_validated_once(estimator):
    walk = {("_declare.py", "check_settings"), ("data/_estimators.py", "as_sequences")}
    assert sorted(visits(lambda: estimator.fit(WAVES, LABELS), walk)) == sorted(walk)


def test_public_modules_are_reachable():
    for room in sorted(path.parent.name for path in SOURCE.glob("*/__init__.py")):
        assert getattr(linoss, room).__name__ == f"linoss.{room}"
        assert room in dir(linoss)
