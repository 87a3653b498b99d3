"""Attention of several heads (Vaswani et al., 2017), as `nn.MultiheadAttention` computes it.

Sequences are (L, N, E): length, batch, features.
"""

from __future__ import annotations

import math
from typing import Any

from cellc_runtime.dtypes import DType, bool_, float32

from ... import ops
from ...core.declared import misuse
from ...tensors.tensor import Tensor


def additive(mask: Any, dtype: DType) -> Any:
    """A mask as what is added to scores: -inf where a bool mask is True; None stays."""
    if mask is None or mask.dtype != bool_:
        return mask
    return ops.where(mask, Tensor(-math.inf, dtype), Tensor(0.0, dtype))


def attend_in_heads(
    q: Tensor, k: Tensor, v: Tensor, heads: int, bias_k: Any = None, bias_v: Any = None,
    zero: bool = False, attn_mask: Any = None, padding: Any = None, dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention of projected sequences.

    Args:
        q, k, v: (L, N, E) and (S, N, E).
        heads: divide E.
        bias_k, bias_v: (1, 1, E): a key and a value more, or None.
        zero: whether a key and a value of zeros follow.
        attn_mask: (L, S) or (N heads, L, S): what is left out (bool), or is added to scores.
        padding: (N, S), in the same way.
        dropout: probability that a weight becomes zero.

    Returns:
        (L, N, E), and the weights (N, heads, L, S and what was appended).
    """
    length, batch, features = q.shape
    extra = 0
    if bias_k is not None and bias_v is not None:
        row = (1, batch, features)
        k = ops.concat((k, ops.broadcast_to(bias_k, row)), 0)
        v = ops.concat((v, ops.broadcast_to(bias_v, row)), 0)
        extra = 1
    if zero:
        zeros = ops.zeros((1, batch, features), k.dtype)
        k, v = ops.concat((k, zeros), 0), ops.concat((v, zeros), 0)
        extra = extra + 1
    q, k, v = [ops.transpose(ops.reshape(x, (x.shape[0], batch, heads, features // heads)),
                             (1, 2, 0, 3)) for x in (q, k, v)]
    scores = ops.matmul(q / math.sqrt(features // heads), ops.swapaxes(k, -1, -2))
    mask = _mask(attn_mask, padding, batch, heads, q.dtype, extra)
    if mask is not None:
        scores = scores + mask
    weights = ops.softmax(scores, -1)
    if dropout > 0:
        weights = ops.dropout(weights, dropout)
    mixed = ops.transpose(ops.matmul(weights, v), (2, 0, 1, 3))
    return ops.reshape(mixed, (length, batch, features)), weights


def _mask(
    attn_mask: Any, padding: Any, batch: int, heads: int, dtype: DType, extra: int
) -> Any:
    """Return the summand of scores (N, heads, L, S), with `extra` keys at the end let through."""
    mask = additive(attn_mask, dtype)
    if mask is not None:
        if mask.ndim == 3:
            mask = ops.reshape(mask, (batch, heads) + mask.shape[1:])
        mask = ops.pad(mask, (0, extra))
    if padding is not None:
        keys = ops.pad(additive(padding, dtype), (0, extra))
        keys = ops.reshape(keys, (keys.shape[0], 1, 1, keys.shape[1]))
        mask = keys if mask is None else mask + keys
    return mask


def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int,
    in_proj_weight: Any, in_proj_bias: Any, bias_k: Any, bias_v: Any, add_zero_attn: bool,
    dropout_p: float, out_proj_weight: Tensor, out_proj_bias: Any, training: bool = True,
    key_padding_mask: Any = None, attn_mask: Any = None, use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None, k_proj_weight: Any = None, v_proj_weight: Any = None,
    static_k: Any = None, static_v: Any = None, average_attn_weights: bool = True,
    is_causal: bool = False, k_is_v: bool = False, q_is_k: bool = False, dtype: DType = float32,
) -> tuple[Tensor, Tensor]:
    """`nn.MultiheadAttention` of weights that are given.

    Args:
        query, key, value: (L, N, E), (S, N, E) and (S, N, E), or all without N.
        embed_dim_to_check: E, a multiple of `num_heads`.
        in_proj_weight: (3 E, E), of query, key and value one below the other; or
            `q_proj_weight`, `k_proj_weight` and `v_proj_weight` if `use_separate_proj_weight`.
        in_proj_bias: (3 E,) or None.
        bias_k, bias_v, add_zero_attn: see `attend_in_heads`.
        dropout_p: probability that an attention weight becomes zero, if `training`.
        out_proj_weight, out_proj_bias: (E, E) and (E,) or None.
        key_padding_mask, attn_mask: (N, S), and (L, S) or (N num_heads, L, S): what is left out
            (bool), or is added to scores.
        static_k, static_v: (N num_heads, S, E / num_heads) in place of the projected ones.
        average_attn_weights: weights are their mean over the heads.
        is_causal: a query sees no later key.
        k_is_v, q_is_k: which of the three are one tensor; it makes no difference here.
        dtype: it makes no difference here: types are those of the weights.

    Returns:
        The result like the query; the weights (N, L, S) or (N, num_heads, L, S).

    Source: `mindspore.ops.function.nn_func.multi_head_attention_forward` (whose `is_causal` adds 1
    to the scores of the keys that are seen).
    """
    if query.shape[-1] != embed_dim_to_check or embed_dim_to_check % num_heads:
        raise misuse("multi_head_attention_forward", f"expected queries of {embed_dim_to_check} "
                     "features and a number of heads that divides them",
                     f"{query.shape[-1]} features and {num_heads} heads")
    batched = query.ndim == 3
    if not batched:
        query, key, value = [ops.expand_dims(x, 1) for x in (query, key, value)]
        if key_padding_mask is not None:
            key_padding_mask = ops.expand_dims(key_padding_mask, 0)
    weights: Any = (q_proj_weight, k_proj_weight, v_proj_weight)
    if not use_separate_proj_weight:
        weights = ops.chunk(in_proj_weight, 3, 0)
    biases: Any = (None, None, None) if in_proj_bias is None else ops.chunk(in_proj_bias, 3, 0)
    q, k, v = [ops.dense(x, w, b) for x, w, b in
               zip((query, key, value), weights, biases, strict=True)]
    k, v = [x if fixed is None else ops.reshape(
        ops.transpose(fixed, (1, 0, 2)), (fixed.shape[1], query.shape[1], -1))
            for x, fixed in ((k, static_k), (v, static_v))]
    shape = (query.shape[0], k.shape[0])
    if attn_mask is not None and attn_mask.shape[-2:] != shape:
        raise ValueError(f"The shape of the `attn_mask` should be {shape}, but got "
                         f"{attn_mask.shape}.")
    if is_causal:
        later = additive(ops.triu(ops.ones(shape, bool_), 1), q.dtype)
        attn_mask = later if attn_mask is None else later + additive(attn_mask, q.dtype)
    mixed, seen = attend_in_heads(
        q, k, v, num_heads, bias_k, bias_v, add_zero_attn, attn_mask, key_padding_mask,
        dropout_p if training else 0.0)
    out = ops.dense(mixed, out_proj_weight, out_proj_bias)
    if average_attn_weights:
        seen = ops.mean(seen, 1)
    return (out, seen) if batched else (ops.squeeze(out, 1), ops.squeeze(seen, 0))


__all__ = ["multi_head_attention_forward"]
