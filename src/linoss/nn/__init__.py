"""Mixers, block, model and heads."""

from linoss.nn._block import GLU, OUTSIDE_KERNELS, Block
from linoss.nn._config import LinOSSConfig
from linoss.nn._diagonal import AbstractDiagonal
from linoss.nn._heads import Features
from linoss.nn._keep import Kept, kept_products
from linoss.nn._layer import LinOSSLayer
from linoss.nn._lru import LRULayer
from linoss.nn._mamba import MambaLayer
from linoss.nn._mixer import AbstractMixer
from linoss.nn._mixers import MIXERS
from linoss.nn._model import LinOSS, ModelState
from linoss.nn._parameters import adopt, count_parameters, trainable
from linoss.nn._recurrent import GRULayer, LSTMLayer
from linoss.nn._s4d import S4DLayer
from linoss.nn._s5 import S5Layer
from linoss.nn._s6 import S6Layer
from linoss.nn._samples import Samples
from linoss.nn._split import Split
from linoss.nn._stream import Stream

__all__ = [
    "GLU",
    "MIXERS",
    "OUTSIDE_KERNELS",
    "AbstractDiagonal",
    "AbstractMixer",
    "Block",
    "Features",
    "GRULayer",
    "Kept",
    "LRULayer",
    "LSTMLayer",
    "LinOSS",
    "LinOSSConfig",
    "LinOSSLayer",
    "MambaLayer",
    "ModelState",
    "S4DLayer",
    "S5Layer",
    "S6Layer",
    "Samples",
    "Split",
    "Stream",
    "adopt",
    "count_parameters",
    "kept_products",
    "trainable",
]
