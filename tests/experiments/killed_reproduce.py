"""An experiment for tests to kill: python killed_reproduce.py DATA OUT [slowly]. Goes on."""

import sys
import time

from linoss.experiments import _execute, _paper, _protocol, reproduce

_paper.BEST = dict.fromkeys(_paper.BEST, _paper.Hyperparameters(1e-2, 4, 4, 1, True))
_protocol.PROTOCOLS = {"paper": _protocol.Protocol(steps=40, evaluate_every=4, patience=11)}
_execute._SAVE_EVERY = 0  # pyright: ignore[reportPrivateUsage]
show = _execute.ProgressLine.__call__


def slowly(line, progress):
    """The progress line, with time for a kill."""
    show(line, progress)
    time.sleep(0.05)


if "slowly" in sys.argv:
    _execute.ProgressLine.__call__ = slowly
reproduce(
    "uea",
    data_dir=sys.argv[1],
    out=sys.argv[2],
    data_sets=["Heartbeat"],
    models=["im"],
    seeds=[2345, 3456, 4567],
    resume=True,
)
