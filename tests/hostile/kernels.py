"""Every native kernel against loops in NumPy, in float64: values, and gradients if it has any."""

import contextlib
import warnings

import jax
from models import features, models, streams
from recurrences import scans

import linoss

PARTS = (scans, models, streams, features)


@contextlib.contextmanager
def driver():
    """Draw sizes, weights and data, and compare one of the kernels' uses."""
    if "native" not in linoss.engines():
        raise SystemExit("the kernels were not built, see linoss doctor")
    with jax.enable_x64(False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield lambda draw: draw.shared.choice(PARTS)(draw)
