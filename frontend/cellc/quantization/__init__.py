"""Weights stored in 4, 8 or 16 bits: `cellc.quantize`, files that hold such weights, their errors.

A layer with small weights computes in float32 by the op `dequantized_matmul`, which widens them in
registers; so both modes, all machines and any number of threads give the same bits.
"""

from cellc_runtime.lazy import facade

_HOMES = {
    ".accuracy": "Comparison LayerError compare",
    ".layers": "SmallDense SmallEmbedding",
    ".network": "left_as_they_are quantize",
    ".readers": "load_quantized",
    ".weights": "SmallWeight small_weight",
}
facade(__name__, _HOMES)
