"""Layer, block, model and heads."""

from linoss.nn._block import GLU, LinOSSBlock
from linoss.nn._config import LinOSSConfig
from linoss.nn._layer import LayerState, LinOSSLayer
from linoss.nn._model import LinOSS, ModelState
from linoss.nn._parameters import count_parameters, trainable
from linoss.nn._split import Split
from linoss.nn._stream import Stream

__all__ = [
    "GLU",
    "LayerState",
    "LinOSS",
    "LinOSSBlock",
    "LinOSSConfig",
    "LinOSSLayer",
    "ModelState",
    "Split",
    "Stream",
    "count_parameters",
    "trainable",
]
