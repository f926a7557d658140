"""What all drivers share: cases that a seed and a number decide, and what is found in them."""

import contextlib
import importlib.util
import random
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

TESTS = Path(__file__).parents[1]
sys.path.append(str(TESTS.parent))  # modules of the tests import each other
TOGETHER = 50  # cases in a row that share a compiled program


def load(place):
    """A module of the tests, such as "data/conftest.py"."""
    name = "linoss_tests_" + place.removesuffix(".py").replace("/", "_")
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, TESTS / place)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


class Finding(AssertionError):
    """Something that must not happen."""


def draw(seed, number):
    """The random numbers of a case, and, as `shared`, those that it shares with its neighbours."""
    numbers = random.Random(f"{seed}/{number}")
    numbers.shared = random.Random(f"{seed}/{number // TOGETHER} of {TOGETHER}")
    return numbers


def numbers(draw):
    """A generator of arrays, seeded by a case."""
    return np.random.default_rng(draw.getrandbits(64))


def compare(what, found, expected, tolerance, least=0.0):
    """Both are the same, to `tolerance` times the largest number, or `least` if that is more."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    if found.shape != expected.shape:
        raise Finding(f"{what}: of shape {found.shape}, expected {expected.shape}")
    error, scale = (np.max(np.abs(x), initial=0.0) for x in (found - expected, expected))
    if not error <= tolerance * max(scale, least) + 1e-30:
        raise Finding(f"{what}: off by {error:.3g}, of {scale:.3g}")


def run(driver, kind, *, seed, first=0, every=1, cases=None, seconds=None, say=print):
    """Run every so many-th case until there are enough, or the time is over; returns the findings.

    `driver` is a context manager that gives a function from random numbers to the name of an
    outcome. It raises a `Finding`, or whatever else must not be raised.
    """
    end = None if seconds is None else time.monotonic() + seconds
    outcomes, findings, done, told = Counter(), [], 0, time.monotonic()
    with contextlib.ExitStack() as stack:
        case = stack.enter_context(driver())
        while (cases is None or done < cases) and (end is None or time.monotonic() < end):
            number = first + done * every
            try:
                outcomes[case(draw(seed, number))] += 1
            except Exception as error:
                outcomes["found"] += 1
                findings.append((number, error))
                say(f"FOUND {type(error).__name__}: {str(error)[:500]}")
                say(
                    f"  again: python tests/hostile {kind} --seed {seed} --first {number} --cases 1"
                )
            done += 1
            if time.monotonic() - told > 30:
                told = time.monotonic()
                say(_line(kind, seed, done, outcomes))
    say(_line(kind, seed, done, outcomes))
    return findings


def _line(kind, seed, count, outcomes):
    listed = ", ".join(f"{name} {count}" for name, count in sorted(outcomes.items()))
    return f"{kind}, seed {seed}: {count} cases; {listed}"
