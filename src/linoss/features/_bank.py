"""A random bank of untrained oscillators.

An oscillator with frequency f and quality factor Q has a complex amplitude

    s' = mu s + b,   mu = -a + i w,   w = 2 pi f,   a = w / 2Q,   x = Re(c s),

which is the damped oscillator y'' = -(w² + a²) y - 2 a y' + b, with y = Im(s) / w, and a
combination of position and velocity as output: x = Re(c) (y' + a y) - Im(c) w y. The readout c = 2
a e^{i phase} gives a gain of about 1 at its own frequency. In a chain, x is the force on a second
oscillator.

Between two samples at distance h, the force is linear. With l = e^{mu h} the amplitude is

    s_n = l s_{n-1} + (i - j) b_{n-1} + j b_n,   i = (l - 1) / mu,   j = (l - 1 - mu h) / (mu² h).
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Complex, Float, Int

from linoss import _checks

LANES = 16
"""Number of oscillators in a group; they have the same input."""
_QUALITY = (0.3, 8.0)
_MOST_MIXED = 8  # channels
_FARTHEST, _LARGEST = 1e6, 3e38  # in standard deviations, which 1e12 samples cannot exceed


@dataclass(frozen=True, eq=False, kw_only=True)
class Bank:
    """Oscillators in groups of `LANES`, and their inputs.

    Time is in units of the median sampling interval. An input is a mixture of standardised channels
    or its differences, read forwards or backwards in time.
    """

    frequency: Float[np.ndarray, "stages n"]
    """Cycles per interval; 0 if there is no second oscillator."""
    quality: Float[np.ndarray, "stages n"]
    phase: Float[np.ndarray, "stages n"]
    threshold: Float[np.ndarray, " n"]
    drive: Int[np.ndarray, " groups"]
    order: Int[np.ndarray, " drives"]
    """1 for differences, 0 for values."""
    backwards: Bool[np.ndarray, " drives"]
    mixture: Float[np.ndarray, "drives channels"]
    mean: Float[np.ndarray, " channels"]
    scale: Float[np.ndarray, " channels"]
    """The factor of a channel after its mean is subtracted; 0 if it is not used."""

    @property
    def size(self) -> int:
        """Number of outputs; a chain has one."""
        return self.frequency.shape[1]

    @property
    def rates(self) -> Complex[np.ndarray, "stages n"]:
        """mu = -a + i w."""
        omega = 2 * np.pi * self.frequency
        return -omega / (2 * self.quality) + 1j * omega

    @property
    def readouts(self) -> Complex[np.ndarray, "stages n"]:
        """c = 2 a e^{i phase}."""
        return -2 * np.real(self.rates) * np.exp(1j * self.phase)

    @property
    def chained(self) -> Bool[np.ndarray, " n"]:
        """Whether an oscillator drives a second one, whose output is used."""
        return self.frequency[1] > 0

    @property
    def limits(self) -> Float[np.ndarray, "2 channels"]:
        """The lowest and highest values: 1e6 standard deviations from the mean of training.

        Values beyond are treated as missing: no sample of training is as far from its mean, and an
        oscillator that one overflows would never recover.
        """
        farthest = np.full(self.mean.shape, _LARGEST)
        np.divide(_FARTHEST, self.scale, out=farthest, where=self.scale > 0)
        return np.clip([self.mean - farthest, self.mean + farthest], -_LARGEST, _LARGEST)

    def __post_init__(self) -> None:
        groups, drives, channels = len(self.drive), len(self.order), len(self.mean)
        for name, shape in {
            "frequency": (2, groups * LANES),
            "quality": (2, groups * LANES),
            "phase": (2, groups * LANES),
            "threshold": (groups * LANES,),
            "backwards": (drives,),
            "mixture": (drives, channels),
            "scale": (channels,),
        }.items():
            _checks.shape(name, getattr(self, name), shape)

    def part(self, groups: Any) -> "Bank":
        """The bank with a subset of the groups."""
        lanes = np.arange(self.size).reshape(-1, LANES)[groups].ravel()
        names = ("frequency", "quality", "phase", "threshold")
        chosen = {name: getattr(self, name)[..., lanes] for name in names}
        return replace(self, drive=self.drive[groups], **chosen)

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def draw(
    random: np.random.Generator,
    size: int,
    *,
    longest: int,
    causal: bool,
    mean: np.ndarray,
    scale: np.ndarray,
) -> Bank:
    """Draw a bank, with thresholds of 0.

    Frequencies are log-uniform from half a cycle in the longest series to half a cycle in an
    interval, evenly spread over the oscillators of a kind; so are quality factors, from 0.3 to 8.
    The kinds are a single oscillator, a chain of two equal ones, and a chain with a faster second
    one, each driven by values and by differences, forwards and, unless `causal`, backwards in time.
    """
    groups = -(-size // LANES)
    n, lowest = groups * LANES, np.log(0.5 / max(longest, 2))
    kind, way = np.arange(groups) % 3, np.arange(groups) % (2 if causal else 4)  # all combinations
    frequency, quality = np.zeros((2, n)), np.ones((2, n))
    place = (np.arange(n) + random.random(n)) / n
    order = np.argsort(random.random(n))  # a permutation of the oscillators
    frequency[0] = np.exp(lowest + (np.log(0.5) - lowest) * place[order])
    low, high = np.log(_QUALITY)
    quality[:] = np.exp(random.uniform(low, high, (2, n)))
    lanes = np.repeat(kind, LANES)
    faster = np.exp(random.uniform(np.log(frequency[0]), np.log(0.5)))
    frequency[1] = np.select([lanes == 1, lanes == 2], [frequency[0], faster], 0.0)
    quality[1] = np.where(lanes == 1, quality[0], quality[1])
    kinds_of_drive = np.stack([way % 2, way // 2], axis=1)
    if len(mean) == 1:
        found, drive = np.unique(kinds_of_drive, axis=0, return_inverse=True)
        mixture = np.ones((len(found), 1))
    else:
        found, drive = kinds_of_drive, np.arange(groups)
        mixture = np.stack([_mixture(random, len(mean)) for _ in range(groups)])
    # Slow oscillators share groups: a group with one of them is computed in double precision.
    drives = np.repeat(drive.ravel(), LANES)
    sort = np.lexsort((frequency[0], lanes, drives))
    return Bank(
        frequency=frequency[:, sort],
        quality=quality[:, sort],
        phase=random.uniform(0, 2 * np.pi, (2, n)),
        threshold=np.zeros(n),
        drive=drives[sort][::LANES].astype(np.int32),
        order=found[:, 0],
        backwards=found[:, 1] > 0,
        mixture=mixture,
        mean=mean,
        scale=scale,
    )


def _mixture(random: np.random.Generator, channels: int) -> np.ndarray:
    """A random sparse mixture of channels, more often of few than of many, with random signs."""
    most = min(channels, _MOST_MIXED)
    count = int(np.exp(random.uniform(0, np.log(most + 1))))
    weights = np.zeros(channels)
    weights[random.choice(channels, count, replace=False)] = random.choice([-1, 1], count)
    return weights / np.sqrt(count)


def moves(rates: Any, readouts: Any, interval: Any) -> Any:
    """l, c (i - j) and c j of a step, as above."""
    l_ = np.exp(rates * interval)
    i = (l_ - 1) / rates
    j = (i - interval) / (rates * interval)
    return l_, readouts * (i - j), readouts * j
