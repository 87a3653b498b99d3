"""Attention as ONNX Runtime's tools fuse it (`com.microsoft`): of several heads, and of heads that
share keys, with the keys and values of earlier calls."""

from __future__ import annotations

import math
from itertools import pairwise

from cellc_compiler.ir.dims import is_symbolic, largest
from cellc_runtime import dtypes

from ..core.dispatch import apply_one
from ..ops.functional import indexing, linalg, shapes
from ..tensors.promotion import constant
from ..tensors.tensor import Tensor
from .attention import each_for, rotated
from .neural import Window, convolved, heads_apart, heads_together
from .shaping import reshaped, sliced, transposed
from .table import Array, Call, like, rule, sizes, to

A = apply_one


def _attended(c: Call, q: Tensor, k: Tensor, v: Tensor, masks: list[Tensor]) -> Tensor:
    """softmax(q @ k.T * scale + masks) @ v of heads apart, with the heads joined in the result."""
    scale = c.real("scale", 0.0) or 1 / math.sqrt(q.shape[3])
    scores = A("mul", linalg.matmul(q, transposed(k, 0, 1, 3, 2)), like(scale, q))
    cap = c.real("softcap", 0.0)
    if cap:
        scores = A("mul", A("tanh", A("div", scores, like(cap, scores))), like(cap, scores))
    for mask in masks:
        scores = A("add", scores, to(mask, scores.dtype))
    return heads_together(linalg.matmul(A("softmax", scores, axis=3), v))


def _refuse(c: Call, **given: Tensor | None) -> None:
    """Refuse inputs that the rule does not read."""
    found = next((name for name, t in given.items() if t is not None), None)
    if found is not None:
        raise c.refuse(f"its input {found!r} is not read")


@rule("com.microsoft::MultiHeadAttention")
def _multi_head(
    c: Call, q: Tensor, k: Tensor | None = None, v: Tensor | None = None,
    bias: Tensor | None = None, padding: Tensor | None = None, mask: Tensor | None = None,
    past_key: Tensor | None = None, past_value: Tensor | None = None,
    past_length: Tensor | None = None, cache: Tensor | None = None,
) -> list[Tensor]:
    _refuse(c, past_sequence_length=past_length, cache_indirection=cache)
    heads = c.count("num_heads")
    if k is None or v is None or q.ndim != 3:
        raise c.refuse("queries, keys and values that are packed in one input are not read")
    if bias is not None:
        ends = (0, q.shape[2], 2 * q.shape[2], bias.shape[0])
        own = [sliced(bias, 0, a, b) for a, b in pairwise(ends)]
        q = A("add", q, own[0])
        if k.ndim == 3:
            k, v = A("add", k, own[1]), A("add", v, own[2])
    q = heads_apart(q, heads)
    k, v = (heads_apart(t, heads) if t.ndim == 3 else t for t in (k, v))
    if past_key is not None and past_value is not None:
        k, v = A("concat", past_key, k, axis=2), A("concat", past_value, v, axis=2)
    rows, columns = q.shape[2], k.shape[2]
    masks = [] if mask is None else [mask]
    if padding is not None:
        masks.append(_padding(c, padding, q, columns))
    if c.flag("unidirectional"):
        at = A("iota", shape=(rows, 1), axis=0, dtype=dtypes.int64)
        at = A("add", at, constant(columns - rows, dtypes.int64))
        line = A("iota", shape=(1, columns), axis=1, dtype=dtypes.int64)
        masks.append(A("where", A("le", line, at), like(0, q), like(-math.inf, q)))
    return [_attended(c, q, k, v, masks), k, v]


def _padding(c: Call, padding: Tensor, q: Tensor, columns: int) -> Tensor:
    """The mask that is added to scores: 0 for keys that count, very negative for others."""
    batch = q.shape[0]
    if padding.ndim == 1 and padding.shape[0] == batch:  # lengths
        line = A("iota", shape=(1, columns), axis=1, dtype=dtypes.int64)
        kept = A("lt", line, reshaped(to(padding, dtypes.int64), (batch, 1)))
    elif padding.ndim in (2, 3):
        kept = A("ne", padding, like(0, padding))
    else:
        raise c.refuse(f"a 'key_padding_mask' of shape {list(padding.shape)} is not read")
    kept = reshaped(kept, (batch, 1, *(1,) * (kept.ndim == 2), *kept.shape[1:]))
    return A("where", kept, like(0, q), like(c.real("mask_filter_value", -10000.0), q))


@rule("com.microsoft::GroupQueryAttention", known=(6,))
def _group_query(
    c: Call, q: Tensor, k: Tensor | None, v: Tensor | None, past_key: Tensor | None,
    past_value: Tensor | None, last: Tensor, total: Array, cos: Tensor | None = None,
    sin: Tensor | None = None, places: Tensor | None = None, mask: Tensor | None = None,
    sink: Tensor | None = None, k_scale: Tensor | None = None, v_scale: Tensor | None = None,
    q_norm: Tensor | None = None, k_norm: Tensor | None = None, query_lengths: Tensor | None = None,
) -> list[Tensor]:
    """`last` has the position of the last key of each sample, `total` the most keys of one."""
    _refuse(c, head_sink=sink, k_scale=k_scale, v_scale=v_scale, q_norm_weight=q_norm,
            k_norm_weight=k_norm, query_seqlens=query_lengths)
    if c.flag("smooth_softmax") or not c.flag("causal", 1) or c.flag("sliding_window_cache"):
        raise c.refuse("an attention that is not causal, a smooth softmax and a cache that slides "
                       "are not read")
    heads, groups = c.count("num_heads"), c.count("kv_num_heads")
    if k is None or v is None:
        width = q.shape[2] // (heads + 2 * groups)
        ends = (0, heads * width, (heads + groups) * width, q.shape[2])
        q, k, v = (sliced(q, 2, a, b) for a, b in pairwise(ends))
    batch, rows = q.shape[:2]
    counts = A("add", reshaped(to(last, dtypes.int64), (batch, 1)), constant(1, dtypes.int64))
    most = sizes(total)[0]
    first = A("sub", counts, constant(rows, dtypes.int64))
    if past_key is None or (not is_symbolic(most) and most == rows):  # all keys are new
        first = A("mul", counts, constant(0, dtypes.int64))
    steps = A("iota", shape=(1, rows), axis=1, dtype=dtypes.int64)
    at = A("add", first, steps) if places is None else to(places, dtypes.int64)
    if c.flag("do_rotary"):
        if cos is None or sin is None:
            raise c.refuse("it rotates, but has no cosines and sines")
        turn = c.flag("rotary_interleaved")
        part = 2 * cos.shape[1]
        at = A("minimum", at, constant(cos.shape[0] - 1, dtypes.int64))  # (of padded rows)
        q, k = (rotated(t, cos, sin, at, n, part, turn) for t, n in ((q, heads), (k, groups)))
    q, k, v = heads_apart(q, heads), heads_apart(k, groups), heads_apart(v, groups)
    if past_key is not None and past_value is not None:
        k, v = (_extended(old, new, first, most) for old, new in ((past_key, k), (past_value, v)))
    wide = [each_for(t, heads // groups) if heads != groups else t for t in (k, v)]
    seen = _seen(c, A("add", first, steps), k.shape[2])
    masks = [A("where", seen, like(0, q), like(-math.inf, q)), *([] if mask is None else [mask])]
    return [_attended(c, q, wide[0], wide[1], masks), k, v]


def _seen(c: Call, at: Tensor, columns: int) -> Tensor:
    """Which keys the query of each row sees: (B, 1, rows, columns)."""
    line = A("iota", shape=(1, 1, 1, columns), axis=3, dtype=dtypes.int64)
    at = shapes.expand_dims(shapes.expand_dims(at, 1), 3)
    seen = A("le", line, at)
    window = c.whole("local_window_size", -1)
    if window < 0:
        return seen
    return A("logical_and", seen, A("lt", A("sub", at, line), constant(window, dtypes.int64)))


def _extended(old: Tensor, new: Tensor, first: Tensor, most: int) -> Tensor:
    """Keys of earlier calls with the new ones from position `first` of each sample on."""
    batch, heads, room, size = old.shape
    rows = new.shape[2]
    grown = largest(most, room)
    whole = A("pad", old, low=(0,) * 4, high=(0, 0, grown - room, 0), value=0.0)
    at = A("add", first, A("iota", shape=(1, rows), axis=1, dtype=dtypes.int64))
    index = A("broadcast_to", reshaped(at, (batch, 1, rows, 1)), shape=(batch, heads, rows, size))
    return indexing.tensor_scatter_elements(whole, index, new, 2)


# --- convolutions with their activation -----------------------------------------------------------

_ACTIVATIONS = {
    "Relu": lambda x, numbers: A("relu", x), "Sigmoid": lambda x, numbers: A("sigmoid", x),
    "Tanh": lambda x, numbers: A("tanh", x),
    "LeakyRelu": lambda x, numbers: A("leaky_relu", x, alpha=float(numbers[0])),
    "Clip": lambda x, numbers: A("clamp", x, min=float(numbers[0]), max=float(numbers[1])),
    "HardSigmoid": lambda x, numbers: A("clamp", A("add", A("mul", x, like(numbers[0], x)), like(
        numbers[1], x)), min=0.0, max=1.0),
}


@rule("com.microsoft::FusedConv")
def _fused_conv(c: Call, x: Tensor, w: Tensor, bias: Tensor | None = None,
                extra: Tensor | None = None) -> Tensor:
    y = convolved(x, w, Window(c, x.shape[2:], tuple(w.shape[2:])), c.whole("group", 1))
    if bias is not None:
        y = A("add", y, reshaped(bias, (bias.shape[0], *(1,) * (y.ndim - 2))))
    y = y if extra is None else A("add", y, extra)
    kind = c.text("activation", "")
    if kind and kind not in _ACTIVATIONS:
        raise c.refuse(f"its 'activation' is {kind!r}")
    return _ACTIVATIONS[kind](y, c.reals("activation_params")) if kind else y
