"""Made by `docs/make_stubs.py`; do not edit it by hand."""
from .accuracy import Comparison, LayerError, compare
from .layers import SmallDense, SmallEmbedding
from .network import left_as_they_are, quantize
from .readers import load_quantized
from .weights import SmallWeight, small_weight
__all__ = ['Comparison', 'LayerError', 'SmallDense', 'SmallEmbedding', 'SmallWeight', 'compare', 'left_as_they_are', 'load_quantized', 'quantize', 'small_weight']
