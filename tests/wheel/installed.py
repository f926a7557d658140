"""What an installed wheel can do, without its sources: `python -I tests/wheel/installed.py`.

It needs nothing but the wheel and what that depends on. `--pure` is for a wheel without kernels.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import linoss

HERE = Path(__file__).parents[2].resolve()


def main() -> None:
    """Compare the scan with a loop, fit, save, load, and ask the command line."""
    assert HERE / "src" not in Path(linoss.__file__).resolve().parents, linoss.__file__
    engine = "sequential" if "--pure" in sys.argv else "native"
    assert ("native" in linoss.engines()) == (engine == "native"), linoss.engines()
    random = np.random.default_rng(0)

    step = linoss.discretize("imex", stiffness=[0.2, 0.9, 2.5], timestep=0.7)
    force = random.normal(size=(1000, 3)).astype(np.float32)
    found, _ = linoss.oscillator_scan(step, force, engine=engine)
    state, expected = np.zeros((3, 2)), []
    for sample in force:
        state = np.einsum("kij,kj->ki", step.matrix, state) + step.forcing * sample[:, None]
        expected.append(state[:, 1])
    assert np.allclose(found, expected, atol=1e-2), np.abs(found - np.array(expected)).max()

    speed = 1 + np.arange(64) % 2
    waves = np.sin(np.outer(speed, np.arange(300)) / 9)[:, None] + random.normal(size=(64, 2, 300))
    few = {"n_oscillators": 256, "random_state": 0}
    small = {"hidden_size": 16, "state_size": 16, "steps": 100, "n_models": 1}
    for classifier in (
        linoss.OscillatorClassifier(**few),
        linoss.LinOSSClassifier(**small, **few),
    ):
        score = classifier.fit(waves[:48], speed[:48]).score(waves[48:], speed[48:])
        assert score > 0.8, (classifier, score)
        with tempfile.TemporaryDirectory() as folder:
            classifier.save(Path(folder, "run"))
            loaded = type(classifier).load(Path(folder, "run"))
            assert np.array_equal(loaded.predict(waves), classifier.predict(waves))
    for command in (["--version"], ["doctor"]):
        subprocess.run([sys.executable, "-m", "linoss", *command], check=True)
    print(f"linoss {linoss.__version__} from {Path(linoss.__file__).parent} works")


if __name__ == "__main__":
    main()
