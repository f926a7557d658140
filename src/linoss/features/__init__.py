"""Untrained oscillators: a random bank, and statistics of its outputs."""

from linoss.features._bank import LANES, Bank, moves
from linoss.features._response import (
    STATISTICS,
    Response,
    divided,
    mirrored,
    windows_of,
)
from linoss.features._transformer import FeatureStream, OscillatorFeatures, OscillatorSettings

__all__ = [
    "LANES",
    "STATISTICS",
    "Bank",
    "FeatureStream",
    "OscillatorFeatures",
    "OscillatorSettings",
    "Response",
    "divided",
    "mirrored",
    "moves",
    "windows_of",
]
