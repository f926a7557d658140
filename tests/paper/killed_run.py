"""An experiment for tests to kill: python killed_run.py DATA OUT [slowly]. Goes on."""

import sys
import time

from paper import runs
from paper.__main__ import main
from paper.models import Hyperparameters

runs.best = lambda data_set, model: Hyperparameters(1e-2, 4, 4, 1, True)
runs.PROTOCOLS["paper"] = runs.Protocol(steps=40, evaluate_every=4)
runs._SAVE_EVERY = 0  # pyright: ignore[reportPrivateUsage]
say = runs.say


def slowly(line):
    """Say a line, with time for a kill."""
    say(line)
    time.sleep(0.3)


if "slowly" in sys.argv:
    runs.say = slowly
words = f"uea --data-dir {sys.argv[1]} --out {sys.argv[2]} --data-set Heartbeat --model im"
sys.exit(main([*words.split(), "--seeds", "2345,3456,4567", "--resume"]))
