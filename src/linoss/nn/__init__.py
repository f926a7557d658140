"""Mixers, block, model and heads."""

from linoss.nn._block import GLU, OUTSIDE_KERNELS, Block
from linoss.nn._config import LinOSSConfig
from linoss.nn._heads import Features
from linoss.nn._layer import LinOSSLayer
from linoss.nn._mixer import AbstractMixer
from linoss.nn._model import LinOSS, ModelState
from linoss.nn._parameters import count_parameters, trainable
from linoss.nn._samples import Samples
from linoss.nn._split import Split
from linoss.nn._stream import Stream

__all__ = [
    "GLU",
    "OUTSIDE_KERNELS",
    "AbstractMixer",
    "Block",
    "Features",
    "LinOSS",
    "LinOSSConfig",
    "LinOSSLayer",
    "ModelState",
    "Samples",
    "Split",
    "Stream",
    "count_parameters",
    "trainable",
]
