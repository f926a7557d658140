"""Requests to a forecaster: prediction intervals, or sample paths."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from linoss import _checks

_USUAL = (80.0, 95.0)


@dataclass(frozen=True)
class Asked:
    """Intervals in percent, or a number of sample paths; neither for the forecast only."""

    percent: list[float] | None = None
    samples: int | None = None

    @classmethod
    def checked(cls, forecaster: Any, horizon: int, level: Any, samples: Any) -> "Asked":
        """Validate a request. Raises ValueError for intervals that are not calibrated."""
        if level is None and samples is None:
            return cls()
        if level is not None and samples is not None:
            raise ValueError("level and samples were given, expected one of them")
        if samples is not None:
            _checks.positive_integer("samples", samples)
        percent = None if level is None else percents("level", level)
        name, calibration = "samples" if level is None else "level", forecaster.calibration_
        if calibration is None:
            raise ValueError(
                f"{name} was given, but nothing was held out to calibrate intervals: the series "
                "are too short, or validation_fraction is 0; fit a longer series, or with a "
                "shorter past or horizon"
            )
        if horizon > forecaster.horizon:
            raise ValueError(
                f"horizon is {horizon}, but {name} is calibrated for {forecaster.horizon} steps "
                f"only; fit with horizon={horizon}"
            )
        for each in percent or ():
            wrong = _unknown(forecaster, each)
            if wrong is not None:
                raise ValueError(f"level has {each:g}, {wrong}")
        return cls(percent, samples)

    @classmethod
    def usual(cls, forecaster: Any) -> "Asked":
        """80 and 95 percent, if they are calibrated."""
        if forecaster.calibration_ is None:
            return cls()
        return cls([each for each in _USUAL if _unknown(forecaster, each) is None] or None)

    def names(self, variables: list[Any]) -> list[Any]:
        """The suffixes of the columns of a frame: NAME, NAME-lo-80, NAME-hi-80, or NAME-sample-1,
        ..."""
        if self.samples is not None:
            endings = [f"-sample-{i + 1}" for i in range(self.samples)]
            return [f"{name}{ending}" for name in variables for ending in endings]
        sides = [f"-{side}-{each:g}" for each in self.percent or () for side in ("lo", "hi")]
        return [each for name in variables for each in (name, *(f"{name}{s}" for s in sides))]


def _unknown(forecaster: Any, percent: float) -> str | None:
    """The reason why an interval is not calibrated; None if it is."""
    calibration = forecaster.calibration_
    if percent > calibration.highest + 1e-9:
        return (
            f"expected at most {calibration.highest:g}, the widest interval that was learned; fit "
            f"with levels={[*forecaster.levels, percent]}"
        )
    needed, seen = calibration.needs(percent), calibration.seen
    if seen < needed:
        return (
            f"which takes {needed} held-out steps to calibrate, but there are {seen}; fit a longer "
            "series, or ask for a lower level"
        )
    return None


def percents(name: str, level: Any) -> list[float]:
    """Levels in percent, as a list."""
    several = [level] if np.ndim(level) == 0 else list(level)
    for each in several:
        _checks.number(name, each, "numbers between 0 and 100", lambda x: 0 < x < 100)
    if not several:
        raise ValueError(f"{name} is empty, expected numbers between 0 and 100")
    return [float(each) for each in several]


def quantile_levels(levels: Collection[Any]) -> tuple[float, ...]:
    """The quantile levels of both ends of intervals, and the median."""
    percent = sorted(set(percents("levels", levels)))
    low = tuple(round(0.5 - each / 200, 9) for each in reversed(percent))
    return (*low, 0.5, *(round(1 - each, 9) for each in reversed(low)))
