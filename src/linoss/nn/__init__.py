"""Mixers, block, model and heads."""

from linoss.nn._block import GLU, Block
from linoss.nn._config import FROM_DATA, LinOSSConfig, MixerLike, SchemeLike
from linoss.nn._model import LinOSS, ModelState
from linoss.nn._parameters import adopt, count_parameters, trainable
from linoss.nn._passes import Features, run_blocks
from linoss.nn._samples import Samples, Split
from linoss.nn._stream import Stream
from linoss.nn.mixers import MIXERS, MixerKind
from linoss.nn.mixers._linoss import LinOSSLayer
from linoss.nn.mixers._lru import LRULayer
from linoss.nn.mixers._mixer import AbstractDiagonal, AbstractMixer
from linoss.nn.mixers._recurrent import GatedLayer
from linoss.nn.mixers._s4 import S4Layer
from linoss.nn.mixers._s5 import S5Layer
from linoss.nn.mixers._selective import MambaLayer, S6Layer

__all__ = [
    "FROM_DATA",
    "GLU",
    "MIXERS",
    "AbstractDiagonal",
    "AbstractMixer",
    "Block",
    "Features",
    "GatedLayer",
    "LRULayer",
    "LinOSS",
    "LinOSSConfig",
    "LinOSSLayer",
    "MambaLayer",
    "MixerKind",
    "MixerLike",
    "ModelState",
    "S4Layer",
    "S5Layer",
    "S6Layer",
    "Samples",
    "SchemeLike",
    "Split",
    "Stream",
    "adopt",
    "count_parameters",
    "run_blocks",
    "trainable",
]
