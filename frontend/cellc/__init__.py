"""cellc: a static-graph compiler for networks written as Cell classes.

`import cellc as ms` offers the names of `import mindspore as ms`.
"""

from __future__ import annotations

from . import common, context, nn, ops
from .common.dtype import *  # noqa: F403
from .common.parameter import Parameter, ParameterTuple
from .common.seed import Generator, default_generator, get_seed, manual_seed, set_seed
from .common.tensor import Tensor
from .context import GRAPH_MODE, PYNATIVE_MODE, get_context, set_context, set_device
from .core.dispatch import install as _install
from .core.gradient import get_grad, grad, value_and_grad
from .jit import jit
from .pynative.engine import EagerEngine as _EagerEngine

_install(_EagerEngine())

__version__ = "0.1.0"

__all__ = [
    "GRAPH_MODE", "PYNATIVE_MODE", "Generator", "Parameter", "ParameterTuple", "Tensor",
    "common", "context", "default_generator", "get_context", "get_grad", "get_seed", "grad",
    "jit", "manual_seed", "nn", "ops", "set_context", "set_device", "set_seed", "value_and_grad",
]
