"""A worker for tests to kill: python quick_worker.py URL TRIALS. Its trials take no training."""

import sys
import time

from linoss.search._shared import Claim, Definition, SharedStudy
from linoss.search._space import Span
from linoss.search._storage import Storage
from linoss.search._summary import Silence
from linoss.search._worker import work


def objective(claim: Claim) -> float:
    """Report a few times, and take a while."""
    for step in range(5):
        claim.report(step, step * claim.parameters["x"])
        time.sleep(0.02)
    print(claim.number, flush=True)
    return claim.parameters["x"]


storage = Storage(sys.argv[1], 2)
study = SharedStudy(storage, "quick", Definition("x", True), {"x": Span(0.0, 1.0, log=False)})
work(study, objective, int(sys.argv[2]), Silence())
storage.close()
