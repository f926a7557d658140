"""Layer, block, model and heads."""

from linoss.nn._block import GLU, LinOSSBlock
from linoss.nn._config import LinOSSConfig
from linoss.nn._layer import LayerState, LinOSSLayer
from linoss.nn._model import LinOSS, ModelState, count_parameters, trainable

__all__ = [
    "GLU",
    "LayerState",
    "LinOSS",
    "LinOSSBlock",
    "LinOSSConfig",
    "LinOSSLayer",
    "ModelState",
    "count_parameters",
    "trainable",
]
