"""Export of fitted estimators: ONNX, C, StableHLO."""

from linoss.export._write import SUFFIXES, Written, write

__all__ = ["SUFFIXES", "Written", "write"]
