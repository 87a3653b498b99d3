"""Tensors, parameters, dtypes, initialisers and seeds, under MindSpore's import paths."""

from .parameter import Parameter, ParameterTuple
from .seed import get_seed, set_seed
from .tensor import Tensor

__all__ = ["Parameter", "ParameterTuple", "Tensor", "get_seed", "set_seed"]
