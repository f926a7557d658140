"""Oscillators without training: a random bank, and statistics of its outputs."""

from linoss.features._response import STATISTICS
from linoss.features._transformer import FeatureStream, OscillatorFeatures

__all__ = ["STATISTICS", "FeatureStream", "OscillatorFeatures"]
