"""Attention and the rotation of positions."""

from __future__ import annotations

import math

from cellc_runtime import dtypes

from ..core.dispatch import apply_one
from ..ops.functional import indexing, linalg, shapes
from ..tensors.promotion import constant
from ..tensors.tensor import Tensor
from .neural import heads_apart, heads_together
from .shaping import reshaped, sliced, transposed
from .table import Call, like, rule, to

A = apply_one


@rule("Attention")
def _attention(
    c: Call, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None,
    past_key: Tensor | None = None, past_value: Tensor | None = None,
    filled: Tensor | None = None,
) -> list[Tensor]:
    flat, dtype = q.ndim == 3, q.dtype
    if flat:
        few = c.count("kv_num_heads")
        q = heads_apart(q, c.count("q_num_heads"))
        k, v = heads_apart(k, few), heads_apart(v, few)
    if past_key is not None and past_value is not None:
        k, v = A("concat", past_key, k, axis=2), A("concat", past_value, v, axis=2)
    present = [k, v]
    heads, groups = q.shape[1], k.shape[1]
    if heads != groups:
        k, v = (each_for(t, heads // groups) for t in (k, v))
    scale = math.sqrt(c.real("scale", 0.0) or 1 / math.sqrt(q.shape[3]))
    scores = linalg.matmul(A("mul", q, like(scale, q)),
                           transposed(A("mul", k, like(scale, k)), 0, 1, 3, 2))
    shown = scores
    cap = c.real("softcap", 0.0)
    mode = c.whole("qk_matmul_output_mode", 0)
    if cap:
        scores = A("mul", A("tanh", A("div", scores, like(cap, scores))), like(cap, scores))
        shown = scores if mode == 1 else shown
    bias = _bias(c, scores, mask, past_key, filled)
    scores = scores if bias is None else A("add", scores, bias)
    new_order = c.opset >= 24
    if mode == 2 or (mode == 1 and not cap and not new_order):
        shown = scores
    precise = c.dtype("softmax_precision", dtypes.float32) if c.attrs.get("softmax_precision") \
        else scores.dtype
    weights = A("softmax", to(scores, precise), axis=3)
    if bias is not None:  # rows that see nothing give nothing
        none = A("eq", A("reduce_max", bias, axes=(bias.ndim - 1,), keepdims=True),
                 like(-math.inf, bias))
        weights = A("where", none, like(0, weights), weights)
    shown = weights if mode == 3 else shown
    out = linalg.matmul(to(weights, dtype), v)
    return [heads_together(out) if flat else out, *present, to(shown, dtype)]


def each_for(x: Tensor, times: int) -> Tensor:
    """Heads of keys, each for several heads of queries."""
    b, groups, s, d = x.shape
    parts = A("broadcast_to", shapes.expand_dims(x, 2), shape=(b, groups, times, s, d))
    return reshaped(parts, (b, groups * times, s, d))


def _bias(c: Call, scores: Tensor, mask: Tensor | None, past: Tensor | None,
          filled: Tensor | None) -> Tensor | None:
    """The sum of all masks, -inf where nothing is seen."""
    rows, columns = scores.shape[2:]
    bias: Tensor | None = None
    if mask is not None:
        if mask.dtype is dtypes.bool_:
            mask = A("where", mask, like(0, scores), like(-math.inf, scores))
        mask = to(mask, scores.dtype)
        room = columns - mask.shape[-1]
        if room:
            high = [0] * mask.ndim
            high[-1] = room
            mask = A("pad", mask, low=(0,) * mask.ndim, high=tuple(high), value=-math.inf)
        bias = mask
    line = A("iota", shape=(1, columns), axis=1, dtype=dtypes.int64)
    seen: Tensor | None = None
    step = A("iota", shape=(rows, 1), axis=0, dtype=dtypes.int64)
    first: Tensor = constant(0 if past is None else past.shape[2], dtypes.int64)
    if filled is not None:
        counts = reshaped(to(filled, dtypes.int64), (filled.size, 1, 1, 1))
        seen = A("lt", line, counts)
        if past is None:
            first = A("sub", counts, constant(rows, dtypes.int64))
    at = A("add", step, first)
    if c.flag("is_causal"):
        causal = A("le", line, at)
        seen = causal if seen is None else A("logical_and", seen, causal)
    left, right = c.whole("left_window_size", -1), c.whole("right_window_size", -1)
    for limit, ahead in ((left, False), (right, True)):
        if limit >= 0:
            away = A("sub", line, at) if ahead else A("sub", at, line)
            near = A("le", away, constant(limit, dtypes.int64))
            seen = near if seen is None else A("logical_and", seen, near)
    if seen is None:
        return bias
    extra = A("where", seen, like(0, scores), like(-math.inf, scores))
    return extra if bias is None else A("add", bias, extra)


@rule("RotaryEmbedding")
def _rotary(c: Call, x: Tensor, cos: Tensor, sin: Tensor, places: Tensor | None = None) -> Tensor:
    return rotated(x, cos, sin, places, c.whole("num_heads", 0), c.whole("rotary_embedding_dim", 0),
                   c.flag("interleaved"))


@rule("com.microsoft::RotaryEmbedding")
def _rotary_ms(c: Call, x: Tensor, places: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    if places.size == 1:
        raise c.refuse("positions that count from one start are not read")
    heads = c.whole("num_heads", 0) or (x.shape[2] // (2 * cos.shape[1]) if x.ndim == 3 else 0)
    return rotated(x, cos, sin, places, heads, c.whole("rotary_embedding_dim", 0),
                   c.flag("interleaved"))


def rotated(x: Tensor, cos: Tensor, sin: Tensor, places: Tensor | None, heads: int, part: int,
            interleaved: bool) -> Tensor:
    """Pairs of numbers of each head turned by angles that follow from positions."""
    flat = x.ndim == 3
    t = heads_apart(x, heads) if flat else x
    if places is not None:
        cos, sin = indexing.gather(cos, places, 0), indexing.gather(sin, places, 0)
    cos, sin = shapes.expand_dims(cos, 1), shapes.expand_dims(sin, 1)
    size = t.shape[3]
    part = part or size
    own = sliced(t, 3, 0, part)
    if interleaved:
        a, b = sliced(own, 3, 0, part - 1, 2), sliced(own, 3, 1, part, 2)
    else:
        a, b = sliced(own, 3, 0, part // 2), sliced(own, 3, part // 2, part)
    real = A("sub", A("mul", cos, a), A("mul", sin, b))
    imag = A("add", A("mul", sin, a), A("mul", cos, b))
    if interleaved:
        both = A("concat", shapes.expand_dims(real, 4), shapes.expand_dims(imag, 4), axis=4)
        turned = reshaped(both, own.shape)
    else:
        turned = A("concat", real, imag, axis=3)
    out = turned if part == size else A("concat", turned, sliced(t, 3, part, size), axis=3)
    return heads_together(out) if flat else out
