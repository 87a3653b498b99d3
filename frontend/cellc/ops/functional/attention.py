"""Attention as one call: MindSpore's `flash_attention_score`.

In a compiled function the products and the softmax between them become one kernel that holds a
block of rows of the scores (see the compiler's `backends/attention.py`); a mask by
positions is computed there too and is never in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cellc_runtime.dtypes import bool_, float32, int64, uint8

from ...core.declared import misuse
from ...core.dispatch import apply_one
from ...tensors.promotion import cast_to
from ...tensors.tensor import Tensor
from ..arguments import choice, integer, ints, need_known, number, tensor
from . import activation, arith, joining, linalg, shapes

_WHAT = "flash_attention_score"
_LAYOUTS = ("BSH", "SBH", "BNSD", "BSND", "TND")
_COMPRESSED = (2048, 2048)


def flash_attention_score(
    query: Tensor, key: Tensor, value: Tensor, head_num: int, real_shift: Tensor | None = None,
    drop_mask: Tensor | None = None, padding_mask: Tensor | None = None,
    attn_mask: Tensor | None = None, prefix: Any = None, actual_seq_qlen: Any = None,
    actual_seq_kvlen: Any = None, keep_prob: float = 1.0, scalar_value: float = 1.0,
    pre_tokens: int = 2147483647, next_tokens: int = 2147483647, inner_precise: int = 0,
    input_layout: str = "BSH", sparse_mode: int = 0,
) -> Tensor:
    """`dropout(softmax(mask(scalar_value * query @ key.T + real_shift))) @ value` for each head.

    Args:
        query: (B, S1, N1 * D) in layout BSH, (S1, B, N1 * D) in SBH, (B, N1, S1, D) in BNSD,
            (B, S1, N1, D) in BSND, (T1, N1, D) in TND (sequences one after the other). Any
            floating-point type; 16-bit ones are computed in float32.
        key, value: alike, with S2 rows and N2 heads, where N2 divides N1.
        head_num: N1.
        real_shift: (B or 1, N1, S1, S2), added to the scaled scores.
        drop_mask: (B, N1, S1, S2 / 8) of uint8: bit `j % 8` of byte `j // 8` keeps weight j.
        padding_mask: None.
        attn_mask: what is not looked at (True or 1): (B, N1, S1, S2), (B, 1, S1, S2) or (S1, S2);
            (2048, 2048) in modes 2, 3 and 4, whose masks follow from positions.
        prefix: mode 5: for each batch, how many first keys all queries look at.
        actual_seq_qlen, actual_seq_kvlen: layout TND: where each sequence ends.
        keep_prob: weights that `drop_mask` keeps are divided by it.
        pre_tokens, next_tokens: keys before and after a query's position that it looks at, in
            modes 0 (with `attn_mask`) and 4.
        inner_precise: 0.
        sparse_mode: 0 or 1: `attn_mask`; 2: no later keys; 3: the same with the last query at the
            last key; 4: a band, aligned like 3; 5: `attn_mask`, with `prefix`.

    Returns:
        Tensor of the query's shape and dtype. A query that looks at no key gives zeros.

    Raises:
        RuntimeError: numbers of heads that do not divide, another D.

    Source: `mindspore.ops.flash_attention_score` (there for Ascend only, in 16-bit floats).
    """
    q, k, v = (tensor(t, _WHAT, n) for t, n in ((query, "query"), (key, "key"), (value, "value")))
    if not q.dtype == k.dtype == v.dtype or q.dtype.kind not in ("float", "bfloat"):
        raise misuse(_WHAT, "'query', 'key' and 'value' must have one floating-point dtype",
                     f"{q.dtype}, {k.dtype} and {v.dtype}", TypeError)
    layout = choice(input_layout, _LAYOUTS, _WHAT, "input_layout")
    heads = integer(head_num, _WHAT, "head_num")
    if heads <= 0:
        raise RuntimeError(f"For '{_WHAT}', 'head_num' must be greater than 0, but got {heads}.")
    mode = integer(sparse_mode, _WHAT, "sparse_mode")
    if not 0 <= mode <= 5:
        raise misuse(_WHAT, "'sparse_mode' must be 0 to 5", mode)
    if padding_mask is not None:
        raise misuse(_WHAT, "'padding_mask' must be None: write it into 'attn_mask'")
    mask = _Mask(mode, _given_mask(attn_mask, mode), integer(pre_tokens, _WHAT, "pre_tokens"),
                 integer(next_tokens, _WHAT, "next_tokens"), prefix)
    keep = _Keep(drop_mask, float(number(keep_prob, _WHAT, "keep_prob")))
    scale = float(number(scalar_value, _WHAT, "scalar_value"))
    if layout == "TND":
        if real_shift is not None or drop_mask is not None:
            raise misuse(_WHAT, "layout TND takes no 'real_shift' and no 'drop_mask'")
        return _sequences((q, k, v), heads, mask, scale, (actual_seq_qlen, actual_seq_kvlen))
    if actual_seq_qlen is not None or actual_seq_kvlen is not None:
        raise misuse(_WHAT, "lengths of sequences are for layout TND")
    size = _size(q, heads, layout)
    q, k, v = (_heads_apart(t, layout, size) for t in (q, k, v))
    return _heads_together(_attention(q, k, v, heads, mask, keep, scale, real_shift), layout)


class _Mask:
    """Which keys a query does not look at."""

    def __init__(self, mode: int, given: Tensor | None, before: int, after: int, prefix: Any):
        self.mode, self.given, self.before, self.after = mode, given, before, after
        if (prefix is None) == (mode == 5):
            raise misuse(_WHAT, "'prefix' goes with 'sparse_mode' 5", f"{prefix} with {mode}")

    def of(self, b: int, heads: int, rows: int, columns: int) -> Tensor | None:
        """The mask of scores (b, heads, rows, columns), in a shape that broadcasts."""
        if self.mode in (2, 3, 4):
            shift = 0 if self.mode == 2 else columns - rows
            if self.mode != 4:
                return self._band(rows, columns, None, shift)
            return self._band(rows, columns, self.before - shift, self.after + shift)
        if self.given is None:
            return None
        shapes = ((b, heads, rows, columns), (b, 1, rows, columns), (rows, columns))
        if self.given.shape not in shapes:
            raise misuse(_WHAT, f"the shape of 'attn_mask' must be one of {shapes} in "
                         f"'sparse_mode' {self.mode}", self.given.shape)
        if self.mode == 0 and (self.before < rows or self.after < columns):
            return arith.logical_or(self.given, self._band(rows, columns, self.before, self.after))
        return self.given

    @staticmethod
    def _band(rows: int, columns: int, before: int | None, after: int) -> Tensor:
        """Return the keys more than `after` after or `before` before a query's position."""
        i = apply_one("iota", shape=(rows, 1), axis=0, dtype=int64)
        j = apply_one("iota", shape=(1, columns), axis=1, dtype=int64)
        late = j > i + after
        return late if before is None else arith.logical_or(late, j < arith.sub(i, before))


class _Keep:
    """Dropout by a mask of bits."""

    def __init__(self, bits: Tensor | None, probability: float):
        if not 0.0 < probability <= 1.0:
            raise misuse(_WHAT, "'keep_prob' must be in (0, 1]", probability)
        if (bits is None) != (probability == 1.0):
            raise misuse(_WHAT, "'drop_mask' goes with a 'keep_prob' below 1",
                         f"{probability} {'without' if bits is None else 'with'} it")
        self.bits, self.probability = bits, probability

    def of(self, weights: Tensor) -> Tensor:
        """Return the weights that remain."""
        if self.bits is None:
            return weights
        bits = tensor(self.bits, _WHAT, "drop_mask")
        *lead, columns = weights.shape
        if bits.dtype != uint8 or bits.shape != (*lead, columns // 8) or columns % 8:
            raise misuse(_WHAT, f"'drop_mask' must be uint8 of shape {(*lead, columns // 8)}",
                         f"{bits.dtype} of {bits.shape}")
        each = arith.bitwise_and(arith.bitwise_right_shift(
            shapes.expand_dims(bits, -1),
            Tensor(np.arange(8, dtype=np.uint8))), Tensor(np.uint8(1)))
        kept = shapes.reshape(each != 0, tuple(weights.shape))
        return arith.where(kept, arith.div(weights, self.probability), weights * 0.0)


def _given_mask(attn_mask: Tensor | None, mode: int) -> Tensor | None:
    """`attn_mask` as booleans."""
    if attn_mask is None:
        if mode in (1, 5):
            raise misuse(_WHAT, f"'sparse_mode' {mode} needs 'attn_mask'")
        return None
    t = tensor(attn_mask, _WHAT, "attn_mask")
    if t.dtype not in (bool_, uint8):
        raise misuse(_WHAT, "the dtype of 'attn_mask' must be bool or uint8", t.dtype, TypeError)
    if mode in (2, 3, 4) and t.shape != _COMPRESSED:
        raise ValueError(f"For '{_WHAT}', the shape of 'attn_mask' must be {_COMPRESSED} in "
                         f"'sparse_mode' {mode}, but got {t.shape}.")
    return t if t.dtype == bool_ else t != 0


def _size(q: Tensor, heads: int, layout: str) -> int:
    """D, by the query."""
    rank = 3 if layout in ("BSH", "SBH", "TND") else 4
    if q.ndim != rank:
        raise misuse(_WHAT,
                     f"'query' must have {rank} axes in layout {layout}, but has shape {q.shape}")
    if layout not in ("BSH", "SBH"):
        return q.shape[-1]
    if q.shape[-1] % heads:
        raise RuntimeError(f"For '{_WHAT}', 'head_num' {heads} must divide the last axis of "
                           f"'query', whose shape is {q.shape}.")
    return q.shape[-1] // heads


def _heads_apart(t: Tensor, layout: str, size: int) -> Tensor:
    """(B, N, S, D) of a tensor in another layout."""
    hidden = layout in ("BSH", "SBH")
    if t.ndim != (3 if hidden else 4) or t.shape[-1] % size or not (hidden or
                                                                  t.shape[-1] == size):
        raise RuntimeError(f"For '{_WHAT}', a head of 'query', 'key' and 'value' must have one "
                           f"size, {size}, but in layout {layout} got the shape {t.shape}.")
    if not hidden:
        return t if layout == "BNSD" else shapes.transpose(t, (0, 2, 1, 3))
    if layout == "SBH":
        t = shapes.transpose(t, (1, 0, 2))
    b, s, width = t.shape
    return shapes.transpose(shapes.reshape(t, (b, s, width // size, size)), (0, 2, 1, 3))


def _heads_together(t: Tensor, layout: str) -> Tensor:
    if layout == "BNSD":
        return t
    t = shapes.transpose(t, (2, 0, 1, 3) if layout == "SBH" else (0, 2, 1, 3))
    return t if layout == "BSND" else shapes.reshape(t, (*t.shape[:2], -1))


def _attention(q: Tensor, k: Tensor, v: Tensor, heads: int, mask: _Mask, keep: _Keep,
               scale: float, shift: Any) -> Tensor:
    """(B, N1, S1, D) from the three in (B, N, S, D)."""
    b, n, rows, size = q.shape
    few, columns = k.shape[1:3]
    if k.shape != v.shape or k.shape[0] != b or k.shape[3] != size:
        raise RuntimeError(f"For '{_WHAT}', 'key' and 'value' must have one shape, with the batch "
                           f"and head size of 'query', but got heads of {q.shape}, {k.shape} and "
                           f"{v.shape}.")
    if n != heads or few == 0 or n % few:
        raise RuntimeError(f"For '{_WHAT}', 'head_num' must be the heads of 'query', a multiple of "
                           f"those of 'key', but got {heads}, {n} and {few}.")
    dtype = q.dtype
    if dtype.itemsize == 2:
        q, k, v = (cast_to(t, float32) for t in (q, k, v))
    if few != n:  # queries of several heads look at one head of keys: more rows of it
        q = shapes.reshape(q, (b, few, n // few * rows, size))
    scores = linalg.matmul(q, shapes.transpose(k, (0, 1, 3, 2))) * scale
    scores = shapes.reshape(scores, (b, n, rows, columns))
    if shift is not None:
        scores = scores + _shift(shift, dtype, (b, n, rows, columns))
    unseen = mask.of(b, n, rows, columns)
    if unseen is not None:
        scores = arith.where(unseen, float(np.finfo(np.float32).min), scores)
    weights = activation.softmax(scores, -1)
    if unseen is not None:  # where nothing is seen, softmax is not zero
        weights = arith.where(unseen, 0.0, weights)
    weights = keep.of(weights)
    out = linalg.matmul(shapes.reshape(weights, (b, few, -1, columns)), v)
    return cast_to(shapes.reshape(out, (b, n, rows, size)), dtype)


def _shift(given: Any, dtype: Any, scores: tuple[int, ...]) -> Tensor:
    t = tensor(given, _WHAT, "real_shift")
    if t.dtype != dtype:
        raise misuse(_WHAT, f"'real_shift' must have the dtype of 'query', {dtype}", t.dtype,
                     TypeError)
    if t.shape not in (scores, (1, *scores[1:])):
        raise misuse(_WHAT, f"the shape of 'real_shift' must be {scores} or {(1, *scores[1:])}",
                     t.shape)
    return cast_to(t, float32) if dtype.itemsize == 2 else t


def _sequences(qkv: tuple[Tensor, Tensor, Tensor], heads: int, mask: _Mask, scale: float,
               ends: tuple[Any, Any]) -> Tensor:
    """Layout TND: each sequence by itself."""
    size = _size(qkv[0], heads, "TND")
    stops = [_ends(given, name, t) for given, name, t in
             zip(ends, ("actual_seq_qlen", "actual_seq_kvlen"), qkv, strict=False)]
    if len(stops[0]) != len(stops[1]):
        raise misuse(_WHAT, "there must be as many sequences of queries as of keys",
                     f"{len(stops[0])} and {len(stops[1])}")
    none, outs, start = _Keep(None, 1.0), [], (0, 0)
    for stop in zip(*stops, strict=True):
        parts = [shapes.transpose(shapes.expand_dims(t[a:b], 0), (0, 2, 1, 3)) for t, a, b in
                 zip(qkv, (*start, start[1]), (*stop, stop[1]), strict=True)]
        out = _attention(parts[0], parts[1], parts[2], heads, mask, none, scale, None)
        outs.append(shapes.reshape(shapes.transpose(out, (0, 2, 1, 3)), (-1, heads, size)))
        start = stop
    return joining.cat(outs, 0)


def _ends(given: Any, name: str, t: Tensor) -> Sequence[int]:
    if isinstance(given, Tensor):
        given = need_known(given, _WHAT).tolist()
    if given is None:
        raise misuse(_WHAT, f"layout TND needs '{name}'")
    ends = ints(given, _WHAT, name)
    if t.ndim != 3 or not ends or ends[-1] != t.shape[0] or any(
            b < a for a, b in zip((0, *ends), ends, strict=False)):
        raise misuse(_WHAT, f"'{name}' must rise to the rows of its tensor",
                     f"{ends} for the shape {t.shape}")
    return ends
