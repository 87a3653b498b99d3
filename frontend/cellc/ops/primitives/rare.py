"""Primitive classes of many families that are tables over functions: numbers, sets, segments,
formats, views, sequences, signals, and names of other devices. Source: `mindspore.ops`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cellc_compiler.ir.op import REQUIRED
from cellc_runtime.dtypes import DType, bool_, float32, int32, int64, uint8

from ...calls import sharding
from ...calls.bprop import call_with_bprop
from ...calls.hooks import written
from ...compiled.inline import call_here
from ...core.declared import FUNCTION, misuse
from ...core.dispatch import apply
from ...tensors.index_plan import check_range
from ...tensors.indexing import become
from ...tensors.promotion import cast_to
from ...tensors.tensor import Tensor, tensor_of
from ...transforms.vjp import vjp
from ..arguments import axis_of, choice, dtype_of, integer, ints, need_known, shape_of, tensor
from ..functional import (
    activation,
    arith,
    blocks,
    compositions,
    creation,
    ctc,
    deformable,
    divisors,
    grid,
    indexing,
    joining,
    loss,
    recurrence,
    reductions,
    shapes,
    sorting,
    window,
    zeta_functions,
)
from ..operands import operands_of
from ..primitive import Primitive
from . import instances
from .tables import conv_transpose, make_primitives

Pair = tuple[Tensor, Tensor]

# --- numbers and sets -----------------------------------------------------------------------------


def _bincount(array: Tensor, size: Any, weights: Tensor) -> Tensor:
    """Sums of weights (or counts, without weights) of the ints below `size`."""
    what = "Bincount"
    a, w, n = tensor(array, what, "array"), tensor(weights, what, "weights"), integer(
        size, what, "size")
    if not a.dtype.is_integer or n < 0:
        raise misuse(what, "ints and a 'size' of 0 or more are needed", f"{a.dtype} and {n}")
    flat = shapes.reshape(a, (-1,))
    units = shapes.reshape(w, (-1,)) if w.size else creation.ones(flat.shape, w.dtype)
    return indexing.unsorted_segment_sum(units, arith.where(arith.lt(flat, n), flat, -1), n)


def _confusion(
    labels: Tensor, predictions: Tensor, weights: Tensor | None = None, *, num_classes: int,
    dtype: Any = "int32",
) -> Tensor:
    """How often (or with what weight) each label (row) met each prediction (column)."""
    what = "ConfusionMatrix"
    a, b = operands_of(what, "labels (n), predictions (n)", labels, predictions)
    n = integer(num_classes, what, "num_classes")
    to = {"int32": int32, "int64": int64, "float32": float32}.get(dtype, dtype)
    place = arith.mul(cast_to(a, int64), n) + cast_to(b, int64)
    kind = dtype_of(to, what)
    units = creation.ones(a.shape, kind) if weights is None else cast_to(weights, kind)
    return shapes.reshape(indexing.unsorted_segment_sum(units, place, n * n), (n, n))


def _bitpack(x: Tensor, threshold: Tensor) -> Tensor:
    """Whether elements exceed a threshold, eight to a byte, the first highest."""
    t = tensor(x, "CompareAndBitpack", "x")
    if not t.ndim or t.shape[-1] % 8:
        raise misuse("CompareAndBitpack",
                     f"the last axis must be a multiple of 8, but the shape is {t.shape}")
    above = cast_to(arith.gt(t, threshold), int32)
    bits = shapes.reshape(above, (*t.shape[:-1], -1, 8))
    weights = tensor_of(np.array([128, 64, 32, 16, 8, 4, 2, 1], np.int32))
    return cast_to(reductions.sum(bits * weights, -1), uint8)


def _list_difference(x: Tensor, y: Tensor, *, out_idx: DType = int32) -> Pair:
    """Elements of `x` that are not in `y`, and their places."""
    a, b = operands_of("ListDiff", "x (n), y (m)", x, y)
    found = (shapes.expand_dims(a, 1) == shapes.expand_dims(b, 0)).any(1) if b.shape[0] \
        else creation.full(a.shape, False, dtype=bool_)
    place = shapes.squeeze(sorting.nonzero(arith.logical_not(found)), 1)
    return indexing.gather(a, place, 0), cast_to(place, out_idx)


def _sub_and_filter(input_x: Tensor, max_num: Any, offset: Any) -> Pair:
    """Elements less `offset` that lie in [0, max_num), and their places."""
    less = arith.sub(tensor(input_x, "SubAndFilter", "input_x"), offset)
    inside = arith.logical_and(less >= 0, arith.lt(less, max_num))
    place = shapes.squeeze(sorting.nonzero(inside), 1)
    return indexing.gather(less, place, 0), cast_to(place, less.dtype)


def _map_uniform(input: Tensor, per_group_size: Any, group_num: Any) -> Tensor:
    """Ids dealt out to groups in turn: id % groups * size + id // groups."""
    x = tensor(input, "MapUniform")
    groups = integer(group_num, "MapUniform", "group_num")
    size = integer(per_group_size, "MapUniform", "per_group_size")
    return arith.mul(arith.remainder(x, groups), size) + arith.floor_divide(x, groups)


def _ragged_ranges(starts: Tensor, limits: Tensor, deltas: Tensor, *, Tsplits: DType) -> Pair:
    """Several ranges, one after the other: where each begins, and their numbers.

    The ranges must be known while a graph is compiled, as they give the result's shape.
    """
    what = "RaggedRange"
    given = [need_known(tensor(t, what, n), what).reshape(-1) for t, n in (
        (starts, "starts"), (limits, "limits"), (deltas, "deltas"))]
    if (given[2] == 0).any():
        raise misuse(what, f"'deltas' must not hold 0, but is {given[2].tolist()}")
    rows = [np.arange(a, b, d, dtype=a.dtype) for a, b, d in zip(*given, strict=True)]
    splits = np.concatenate([[0], np.cumsum([r.size for r in rows])])
    values = np.concatenate(rows) if rows else given[0]
    return tensor_of(splits.astype(Tsplits.numpy)), tensor_of(values)


def _unravel(indices: Tensor, dims: Tensor) -> Tensor:
    """Places in a flat array as coordinates, one row for each axis."""
    what = "UnravelIndex"
    at, shape = tensor(indices, what, "indices"), tensor(dims, what, "dims")
    rest, rows = at, []
    for i in reversed(range(shape.shape[0])):
        length = shapes.squeeze(joining.part(shape, 0, i, i + 1), 0)
        rows.append(rest % length)
        rest = rest // length
    return joining.stack(rows[::-1], 0)


def _nth(input: Tensor, n: Any, *, reverse: bool = False) -> Tensor:
    """The n-th smallest (or largest) element along the last axis, from 0."""
    x = tensor(input, "NthElement")
    if not isinstance(n, Tensor):
        n = integer(n, "NthElement", "n")
        if not 0 <= n < x.shape[-1]:
            raise misuse("NthElement", f"'n' must be in [0, {x.shape[-1]})", n)
    ordered = sorting.sort(x, -1, reverse)[0]
    at = n if isinstance(n, Tensor) else tensor_of(np.array(n, np.int64))
    return indexing.gather(ordered, at, -1)


def _ngram(state_seq: Tensor, log_probs: Tensor, *, ngram_size: int = 1) -> Tensor:
    """Scores of words that would repeat a group of `ngram_size` words, made the smallest number."""
    what = "NoRepeatNGram"
    words, scores = tensor(state_seq, what, "state_seq"), tensor(log_probs, what, "log_probs")
    n, length = integer(ngram_size, what, "ngram_size"), words.shape[-1]
    if words.ndim != 3 or scores.shape[:2] != words.shape[:2] or not 0 < n < length:
        raise misuse(what, "shapes (batch, beams, words) and (batch, beams, vocabulary) and an "
                     f"'ngram_size' in [1, {length}) are needed",
                     f"{words.shape}, {scores.shape} and {n}")
    kept = scores
    vocabulary = creation.arange(scores.shape[-1], dtype=words.dtype)
    for start in range(length - n + 1):
        same = creation.full(words.shape[:2], True, dtype=bool_)
        for i in range(n - 1):
            same = arith.logical_and(same, words[:, :, start + i] ==
                                     words[:, :, length - n + 1 + i])
        following = shapes.expand_dims(words[:, :, start + n - 1], 2) == vocabulary
        hit = arith.logical_and(following, shapes.expand_dims(same, 2))
        kept = arith.where(hit, -float(arith.largest(scores.dtype)), kept)
    return kept


def _check_numerics(x: Tensor) -> Tensor:
    """`x`, or an error when it runs if an element is NaN or infinite."""
    t = tensor(x, "CheckNumerics", "x")
    apply_check(arith.isfinite(t).all(),
                "For 'CheckNumerics', the input has NaN or infinite elements.")
    return t


def apply_check(condition: Tensor, text: str) -> None:
    """An error when the network runs, if a truth value is false."""
    check_range(cast_to(condition, int64), 1, 2, text + " (", 0, ")")


def _assert(condition: Any, input_data: Any = (), *, summarize: int = 3) -> Tensor:
    """An error if a condition does not hold when the network runs."""
    truth = condition if isinstance(condition, Tensor) else tensor_of(np.array(bool(condition)))
    apply_check(truth.all(), "For 'Assert', the condition is False.")
    return tensor_of(np.zeros(1, np.int32))


# --- segments -------------------------------------------------------------------------------------


def _segments(kind: str) -> Callable[..., Tensor]:
    """A reduction by ascending segment ids; segments without rows have 0 (1 of products)."""
    what = f"Segment{kind}"
    reduce: Mapping[str, Callable[..., Tensor]] = {
        "Sum": indexing.unsorted_segment_sum, "Prod": indexing.unsorted_segment_prod,
        "Max": indexing.unsorted_segment_max, "Min": indexing.unsorted_segment_min}

    def function(input_x: Tensor, segment_ids: Tensor) -> Tensor:
        x, ids = operands_of(what, "input_x (n, ...), segment_ids (n)", input_x, segment_ids)
        count = compositions.segments(ids, what)
        if kind == "Mean":
            return compositions.segment_mean(x, ids, count)
        out = reduce[kind](x, ids, count)
        if kind in ("Sum", "Prod"):
            return out
        size = indexing.unsorted_segment_sum(creation.ones(ids.shape, int32), ids, count)
        there = shapes.reshape(size > 0, (count,) + (1,) * (x.ndim - 1))
        return arith.where(there, out, creation.zeros_like(out))

    return function


# --- formats and views ----------------------------------------------------------------------------


def _formats(what: str, source: str, target: str) -> tuple[int, ...]:
    """Of each axis of the source, its place in the target."""
    for name, given in (("src_format", source), ("dst_format", target)):
        if sorted(given) != sorted("NHWC"):
            raise misuse(what, f"'{name}' must be an order of N, H, W and C", repr(given))
    return tuple(target.index(c) for c in source)


def _dim_map(
    input_x: Tensor, *, src_format: str = "NHWC", dst_format: str = "NCHW"
) -> Tensor:
    """Axes (-4 to 3) of one format as those of another."""
    places = tensor_of(np.array(_formats("DataFormatDimMap", dst_format, src_format), np.int32))
    x = tensor(input_x, "DataFormatDimMap", "input_x")
    return cast_to(indexing.gather(places, x % 4, 0), x.dtype)


def _vec_permute(
    input_x: Tensor, *, src_format: str = "NHWC", dst_format: str = "NCHW"
) -> Tensor:
    """Return the values of one format's axes (4, or pairs), in the order of another."""
    places = _formats("DataFormatVecPermute", dst_format, src_format)
    return indexing.gather(tensor(input_x, "DataFormatVecPermute", "input_x"),
                           tensor_of(np.array(places, np.int64)), 0)


def _dtype_number(op_name: str, arg_name: str, dtype: DType) -> int:
    """MindSpore's number of a dtype."""
    known = dtype_of(dtype, op_name, arg_name)
    return _NUMBERS[known.name]


_NUMBERS = {
    "bool_": 30, "int8": 32, "int16": 33, "int32": 34, "int64": 35, "uint8": 37, "uint16": 38,
    "uint32": 39, "uint64": 40, "float16": 42, "float32": 43, "float64": 44, "bfloat16": 45,
    "complex64": 48, "complex128": 49}


def _select_view(input_tensor: Tensor, index: int, axis: int) -> Tensor:
    x = tensor(input_tensor, "SelectView", "input_tensor")
    a = axis_of(axis, x.ndim, "SelectView")
    return x[(slice(None),) * a + (integer(index, "SelectView", "index"),)]


def _update_rows(x: Tensor, indices: Any, v: Tensor) -> Tensor:
    """`x` with rows replaced, which it keeps."""
    at = (indices,) if isinstance(indices, int) else ints(indices, "InplaceUpdateV2", "indices")
    return become(x, indexing.inplace_update(x, v, at))


def _tuple_to_array(input_x: Any) -> Tensor:
    """A tuple or range of numbers of one kind as a Tensor: int32 of ints, else float32."""
    if not isinstance(input_x, (tuple, range)) or len({type(v) for v in input_x}) != 1:
        raise misuse("TupleToArray", "'input_x' must be a tuple of numbers of one type",
                     repr(input_x), TypeError)
    return creation.tuple_to_array(input_x)


def _log_softmax(input: Tensor, dim: Any = None, dtype: DType | None = None) -> Tensor:
    x = input if dtype is None else cast_to(input, dtype)
    axis = dim if dim is not None else (0 if x.ndim in (0, 1, 3) else 1)
    return activation.log_softmax(x, axis)


# --- windows, sequences, signals ------------------------------------------------------------------


def _max_pool_argmax(
    x: Tensor, *, kernel_size: Any = 1, strides: Any = 1, pad_mode: str = "valid",
    data_format: str = "NCHW",
) -> Pair:
    """The largest element of each window, and its place in its image (C, H, W), int32."""
    what = "MaxPoolWithArgmax"
    t = window.image_of(x, 2, what)
    size, step = (tuple(v)[-2:] if isinstance(v, (tuple, list)) else (v, v)
                  for v in (kernel_size, strides))
    mode = choice(pad_mode.lower(), ("valid", "same"), what, "pad_mode")
    pads = window.same_pads(t.shape[2:], size, step, (1, 1)) if mode == "same" else (0, 0, 0, 0)
    values, index = apply("max_pool2d", t, kernel=size, stride=step, pads=pads, dilation=(1, 1),
                          ceil_mode=False, indices=True)
    start = shapes.reshape(creation.arange(t.shape[1]) * (t.shape[2] * t.shape[3]), (1, -1, 1, 1))
    return values, cast_to(arith.add(index, start), int32)


def _depthwise(
    x: Tensor, weight: Tensor, *, channel_multiplier: int, kernel_size: Any, mode: int = 3,
    pad_mode: str = "valid", pad: Any = 0, stride: Any = 1, dilation: Any = 1, group: int = 1,
) -> Tensor:
    """Each channel with filters of its own: weights (channel_multiplier, C, h, w)."""
    w = tensor(weight, "DepthwiseConv2dNative", "weight")
    channels = x.shape[1]
    own = shapes.reshape(shapes.swapaxes(w, 0, 1), (channels * w.shape[0], 1, *w.shape[2:]))
    return window.conv2d(x, own, None, stride, pad_mode, pad, dilation, channels)


def _lstm(
    input: Tensor, h: Tensor, c: Tensor, w: Tensor, *, input_size: int, hidden_size: int,
    num_layers: int, has_bias: bool, bidirectional: bool, dropout: float, proj_size: int = 0,
) -> tuple[Tensor, ...]:
    """An LSTM with all weights in one tensor. Outputs (T, N, directions * H), the last states, and
    two reserved results."""
    if proj_size or dropout:
        raise misuse("LSTM", "'proj_size' and 'dropout' must be 0",
                     f"{proj_size} and {dropout}; use nn.LSTM")
    out, states = recurrence.packed("lstm", input, [h, c], tensor(w, "LSTM", "w"), num_layers,
                                    has_bias, bidirectional)
    spare = creation.zeros((1, 1), out.dtype)
    return out, *states, spare, spare


def _gru(
    input: Tensor, h: Tensor, w: Tensor, seq_lengths: Tensor, *, input_size: int,
    hidden_size: int, num_layers: int, has_bias: bool, bidirectional: bool, dropout: float,
    is_train: bool = True,
) -> tuple[Tensor, ...]:
    """A GRU with all weights in one tensor, as MindSpore computes it on a CPU: the reset gate is
    applied before the matrix multiplication; `seq_lengths` and the biases of the states are
    ignored."""
    if dropout:
        raise misuse("GRUV2", "'dropout' must be 0 on a CPU", dropout)
    out, states = recurrence.packed("gru_v2", input, [h], tensor(w, "GRUV2", "w"), num_layers,
                                    has_bias, bidirectional)
    spare = creation.zeros((1, 1), out.dtype)
    return out, *states, spare, spare


def _no_kernel(name: str, instead: str) -> Any:
    raise RuntimeError(f"For '{name}', there is no kernel for a CPU, as in MindSpore; use "
                       f"{instead}.")


def _ctc(
    x: Tensor, labels_indices: Tensor, labels_values: Tensor, sequence_length: Tensor, *,
    preprocess_collapse_repeated: bool = False, ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
) -> Pair:
    """Losses of scores (T, N, C) whose last class is the blank, and their gradients.

    Labels are those of a sparse matrix (N, S): their places, which must be known while a graph is
    compiled, and values. Blanks (and what is no class) after the labels of a row are padding.
    """
    what = "CTCLoss"
    if preprocess_collapse_repeated or not ctc_merge_repeated:
        raise misuse(what,
                     "'preprocess_collapse_repeated' must be False and 'ctc_merge_repeated' True")
    scores, places = tensor(x, what, "x"), need_known(
        tensor(labels_indices, what, "labels_indices"), what)
    if scores.ndim != 3 or places.ndim != 2 or places.shape[1] != 2:
        raise misuse(what, "shapes (T, N, C) and (labels, 2) are needed",
                     f"{scores.shape} and {places.shape}")
    _, batch, classes = scores.shape
    counts = np.bincount(places[:, 0], minlength=batch)
    longest = max(int(counts.max()) if counts.size else 0, 1)
    labels = indexing.tensor_scatter_update(
        creation.full((batch, longest), classes - 1, dtype=int32),
        tensor_of(np.ascontiguousarray(places, np.int64)), cast_to(labels_values, int32))
    sizes = _label_counts(labels, classes - 1)
    none = ignore_longer_outputs_than_inputs

    def losses(scores: Tensor) -> Tensor:
        return ctc.ctc_loss_v2(activation.log_softmax(scores, 2), labels, sequence_length, sizes,
                               classes - 1, "none", none, what)[0]

    found, back = vjp(losses, scores)
    slope = back(creation.ones_like(found))
    return found, slope[0] if isinstance(slope, tuple) else slope


def _label_counts(labels: Tensor, blank: int) -> Tensor:
    """How many labels each row (N, S) begins with; none may follow a blank."""
    known = arith.logical_and(labels >= 0, labels < blank)
    ended = arith.logical_not(joining.part(known, 1, 0, labels.shape[1] - 1))
    late = arith.logical_and(ended, joining.part(known, 1, 1, labels.shape[1]))
    wrong = arith.where(late, joining.part(labels, 1, 1, labels.shape[1]), -1)
    check_range(shapes.ravel(wrong), -1, 0,
                "For 'CTCLoss', no label may follow a blank in a row of "
                "'labels_values', but one does: ", 0, ".")
    return reductions.sum(cast_to(known, int32), 1, dtype=int32)


def _edit_distance(
    hypothesis_indices: Tensor, hypothesis_values: Tensor, hypothesis_shape: Tensor,
    truth_indices: Tensor, truth_values: Tensor, truth_shape: Tensor, *, normalize: bool = True,
) -> Tensor:
    """Levenshtein distances of sequences that lie along the last axis of two sparse tensors.

    Places and shapes must be known while a graph is compiled.

    Args:
        normalize: divide by the lengths of the truths (infinite where that is 0 and the other not).
    """
    what = "EditDistance"
    sides = []
    for indices, values, shape, name in (
            (hypothesis_indices, hypothesis_values, hypothesis_shape, "hypothesis"),
            (truth_indices, truth_values, truth_shape, "truth")):
        places, dims = need_known(indices, what), need_known(shape, what)
        if places.ndim != 2 or dims.shape != (places.shape[1],) or values.shape[:1] != \
                places.shape[:1]:
            raise misuse(what, f"'{name}_indices' (n, R), '{name}_values' (n) and '{name}_shape' "
                         f"(R) are needed, but have shapes {places.shape}, {values.shape} and "
                         f"{dims.shape}")
        sides.append((places, values, tuple(int(d) for d in dims)))
    groups = tuple(max(a, b) for a, b in zip(sides[0][2][:-1], sides[1][2][:-1], strict=True))
    rows = [_dense_rows(*side, groups) for side in sides]
    distance = _levenshtein(*rows[0], *rows[1])
    if normalize:
        size = tensor_of(rows[1][1].astype(np.float32))
        safe = arith.where(size == 0.0, 1.0, size)
        empty = arith.where(distance > 0.0, math.inf, 0.0)
        distance = arith.where(size == 0.0, empty, distance / safe)
    return shapes.reshape(distance, groups)


def _dense_rows(
    places: np.ndarray[Any, Any], values: Tensor, dims: tuple[int, ...], groups: tuple[int, ...]
) -> tuple[Tensor, np.ndarray[Any, Any]]:
    """Sequences as rows (groups, longest), and their lengths."""
    count = math.prod(groups)
    row = np.ravel_multi_index(tuple(places[:, :-1].T), groups) if groups else np.zeros(
        len(places), np.int64)
    lengths = np.bincount(row, minlength=count)
    order = np.concatenate([np.arange(n) for n in lengths]) if len(row) else row
    index = np.stack([row, order], 1).astype(np.int64)
    room = creation.zeros((count, max(int(lengths.max(initial=0)), 1)), values.dtype)
    return indexing.tensor_scatter_update(room, tensor_of(index), values), lengths


def _levenshtein(a: Tensor, a_sizes: np.ndarray[Any, Any], b: Tensor, b_sizes: np.ndarray[Any, Any]
                 ) -> Tensor:
    """Wagner and Fischer's algorithm for all rows: one line of the table after the other."""
    count, width = b.shape
    cells = cast_to(creation.arange(width + 1), float32)
    line = shapes.broadcast_to(cells, (count, width + 1))
    lines = [line]
    for i in range(a.shape[1]):
        differ = cast_to(joining.part(a, 1, i, i + 1) != b, float32)
        best = arith.minimum(joining.part(line, 1, 0, width) + differ,
                             joining.part(line, 1, 1, width + 1) + 1.0)
        first = joining.part(line, 1, 0, 1) + 1.0
        # Insertions run along the line: the least of what came before plus the way from there.
        whole = joining.concat((first, best), 1) - cells
        line = arith.add(reductions.cummin(whole, 1)[0], cells)
        lines.append(line)
    table = joining.stack(lines, 1)
    at = tensor_of(np.stack([np.arange(count), a_sizes, b_sizes], 1).astype(np.int64))
    return indexing.gather_nd(table, at)


def _tridiagonal(superdiag: Tensor, maindiag: Tensor, subdiag: Tensor, rhs: Tensor) -> Tensor:
    """Products of tridiagonal matrices, given by diagonals (..., 1, M), and matrices (..., M, N).
    """
    x = tensor(rhs, "TridiagonalMatMul", "rhs")
    above, middle, below = (shapes.swapaxes(t, -1, -2) for t in (superdiag, maindiag, subdiag))
    axis, n = x.ndim - 2, x.shape[-2]
    row = creation.zeros_like(joining.part(x, axis, 0, 1))
    after = joining.concat((joining.part(x, axis, 1, n), row), axis)
    before = joining.concat((row, joining.part(x, axis, 0, n - 1)), axis)
    last = grid.one_hot(tensor_of(np.array(n - 1)), n, 0.0, 1.0)
    first = grid.one_hot(tensor_of(np.array(0)), n, 0.0, 1.0)
    keep = [cast_to(shapes.expand_dims(t, 1), x.dtype) for t in (last, first)]
    total = middle * x + arith.mul(above, keep[0]) * after
    return total + arith.mul(below, keep[1]) * before


class Morph(Primitive):
    """A function as a Primitive, compiled with what calls it.

    Args:
        fn: the function, of Tensors.
        infer_shape, infer_dtype: accepted; shapes and types follow from `fn`.
        bprop_fn: `bprop_fn(*inputs, out, dout)` gives the gradients of the inputs; None: that of
            `fn`.

    Raises:
        TypeError: one of them is not callable.
        ValueError: it is called in a graph that is cut over ranks, and has the attribute
            `self_define_shard`: the function computes of whole tensors.
    """

    def __init__(
        self, fn: Callable[..., Any], infer_shape: Callable[..., Any],
        infer_dtype: Callable[..., Any], bprop_fn: Callable[..., Any] | None = None,
    ) -> None:
        given = {"fn": fn, "infer_shape": infer_shape, "infer_dtype": infer_dtype}
        for name, value in (given | ({"bprop_fn": bprop_fn} if bprop_fn else {})).items():
            FUNCTION(value, "Morph", name)
        self.name, self.attrs = "Morph", {}
        self.construct, self.bprop = written(fn), written(bprop_fn) if bprop_fn else None

    def _run(self, *operands: Any, **kwargs: Any) -> Any:
        if self.attrs.get("self_define_shard") and sharding.laying_out():
            raise misuse("Morph", "'self_define_shard' says that the function is written for the "
                         "parts of one rank, but here it computes of whole tensors, and "
                         "in_strategy and out_strategy say how these lie: write it so, and leave "
                         "the attribute away")
        if self.bprop is None:
            return call_here(self.construct, operands)
        return call_with_bprop(self, operands)


_PLAIN: dict[str, Callable[..., Any]] = {
    "BatchToSpaceNDV2": lambda input_x, block_shape, crops:
        blocks.batch_to_space_nd(input_x, block_shape, crops),
    "Betainc": zeta_functions.betainc, "Bincount": _bincount, "CheckNumerics": _check_numerics,
    "CompareAndBitpack": _bitpack,
    "CopyWithSlice": lambda x, y:
        become(tensor(x, "CopyWithSlice", "x"), shapes.broadcast_to(cast_to(y, x.dtype), x.shape)),
    "DtypeToEnum": _dtype_number,
    "Expand": lambda x, shape:
        shapes.broadcast_to(tensor(x, "Expand", "x"), shape_of(shape, "Expand")),
    "GatherV2": lambda x, indices, axis: indexing.gather(x, indices, axis),
    "Gcd": divisors.gcd, "Lcm": divisors.lcm, "InplaceUpdateV2": _update_rows,
    "LogSoftmaxExt": _log_softmax, "MapUniform": _map_uniform, "MoveTo": compositions.move_to,
    "NextAfter": compositions.nextafter,
    "ParallelConcat": lambda values: joining.concat(list(values), 0),
    "Partial": lambda *args: functools.partial(args[0], *args[1:]),
    "Polygamma": zeta_functions.polygamma,
    "Reusing": lambda x: x,
    "ScalarCast": instances.scalar_cast, "ScalarToArray": compositions.scalar_to_array,
    "ScatterNonAliasingAdd": lambda input_x, indices, updates: become(
        input_x, indexing.tensor_scatter_add(input_x, indices, updates)),
    **{f"Segment{k}": _segments(k) for k in ("Max", "Mean", "Min", "Prod", "Sum")},
    "SelectView": _select_view, "SubAndFilter": _sub_and_filter,
    "TensorToTuple": lambda x: tuple(tensor(x, "TensorToTuple", "x").tolist()),
    "TransposeExtView": lambda input, dim0, dim1: shapes.swapaxes(input, dim0, dim1),
    "TransposeView": lambda input, input_perm: shapes.transpose(input, input_perm),
    "TridiagonalMatMul": _tridiagonal, "TupleToArray": _tuple_to_array,
    "UniqueWithPad": compositions.unique_with_pad, "UnravelIndex": _unravel,
    "Zeta": zeta_functions.zeta,
}


def _histogram(x: Tensor, range: Tensor, *, nbins: int, dtype: Any = "int32") -> Tensor:
    """How many elements lie in each of `nbins` equal parts of a range; what is outside counts in
    the first or the last."""
    what = "HistogramFixedWidth"
    n = integer(nbins, what, "nbins")
    low, high = joining.unstack(cast_to(tensor(range, what, "range"), float32))
    flat = cast_to(shapes.reshape(tensor(x, what, "x"), (-1,)), float32)
    place = arith.floor((flat - low) / (high - low) * float(n))
    at = cast_to(arith.clamp(place, 0.0, n - 1.0), int64)
    return indexing.unsorted_segment_sum(creation.ones(flat.shape, int32), at, n)


def _split_by(
    input_x: Tensor, *, size_splits: Any, split_dim: int, num_split: int
) -> tuple[Tensor, ...]:
    """Parts of given sizes along an axis; one size may be -1: the rest."""
    x, sizes = tensor(input_x, "SplitV", "input_x"), list(ints(size_splits, "SplitV",
                                                               "size_splits"))
    axis = axis_of(split_dim, x.ndim, "SplitV", "split_dim")
    if -1 in sizes:
        sizes[sizes.index(-1)] = x.shape[axis] - (sum(sizes) + 1)
    if len(sizes) != num_split or min(sizes) < 0 or sum(sizes) != x.shape[axis]:
        raise ValueError(f"For 'SplitV', 'size_splits' must hold {num_split} sizes that sum to "
                         f"{x.shape[axis]}, but got {size_splits}.")
    return tuple(joining.split(x, sizes, axis))


def _multilabel(x: Tensor, target: Tensor, *, reduction: str = "mean") -> Pair:
    """The loss, and which classes the targets name."""
    value = loss.multilabel_margin_loss(x, target, reduction)
    classes = creation.arange(x.shape[-1], dtype=target.dtype)
    ended = reductions.cumsum(cast_to(target < 0, int32), -1)
    named = arith.where(ended > 0, -1, target)
    there = (shapes.expand_dims(named, -1) == classes).any(-2)
    return value, cast_to(there, target.dtype)


def _clip(x: Tensor, clip_norm: Any, *, axis: Any = None) -> Tensor:
    """Scaled so that the norm over some axes (none: all) is at most a bound, float32."""
    what = "ClipByNorm"
    wide = cast_to(tensor(x, what, "x"), float32)
    along = () if axis is None else axis
    size = arith.sqrt(reductions.sum(arith.square(wide), along, True))
    return arith.mul(wide, clip_norm) / arith.maximum(size, clip_norm)


def _instance_norm(
    input_x: Tensor, gamma: Tensor, beta: Tensor, mean: Tensor, variance: Tensor, *,
    epsilon: float = 1e-5, momentum: float = 0.1,
) -> tuple[Tensor, Tensor, Tensor]:
    """Each channel of each example normalised, with its mean and variance (one of each for every
    example's channel); moving averages go into `mean` and `variance`."""
    x = tensor(input_x, "InstanceNorm", "input_x")
    out = activation.group_norm(x, x.shape[1], gamma, beta, epsilon)
    var, average = reductions.var_mean(indexing.stop_gradient(x), tuple(range(2, x.ndim)), 1)
    for moving, now in ((mean, average), (variance, var)):
        kept = arith.mul(moving, 1.0 - momentum)
        become(moving, kept + cast_to(reductions.mean(now, 0), moving.dtype) * momentum)
    return out, shapes.reshape(average, (-1,)), shapes.reshape(var, (-1,))


_STACK = dict.fromkeys(("input_size", "hidden_size", "num_layers", "has_bias", "bidirectional",
                        "dropout"), REQUIRED)
_WITH_INIT: dict[str, tuple[Callable[..., Any], Mapping[str, Any]]] = {
    "DeformableOffsets": (deformable.deformable_offsets, {
        "strides": REQUIRED, "pads": REQUIRED, "ksize": REQUIRED, "dilations": (1, 1, 1, 1),
        "data_format": "NCHW", "deformable_groups": 1, "modulated": True}),
    "FFTWithSize": (compositions.fft_with_size, {
        "signal_ndim": REQUIRED, "inverse": REQUIRED, "real": REQUIRED, "norm": "backward",
        "onesided": True, "signal_sizes": ()}),
}

_OWN: dict[str, Callable[..., Any]] = {
    "Assert": _assert, "CTCLoss": _ctc,
    "CTCLossV2": lambda log_probs, targets, input_lengths, target_lengths, *, blank=0,
    reduction="none", zero_infinity=False: ctc.ctc_loss_v2(
        log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity),
    "ConfusionMatrix": _confusion,
    "Conv2DBackpropInput": conv_transpose, "DataFormatDimMap": _dim_map,
    "DataFormatVecPermute": _vec_permute, "DepthwiseConv2dNative": _depthwise,
    "DynamicShape": lambda input_x, *, dtype=9: compositions.dyn_shape(input_x),
    "EditDistance": _edit_distance, "HistogramFixedWidth": _histogram,
    "MultilabelMarginLoss": _multilabel, "SplitV": _split_by, "ListDiff": _list_difference,
    "MaxPoolWithArgmax": _max_pool_argmax, "NoRepeatNGram": _ngram, "NthElement": _nth,
    "LSTM": _lstm, "RaggedRange": _ragged_ranges,
    "STFT": lambda x, window, *, n_fft, hop_length, win_length, normalized, onesided,
    return_complex: compositions.stft(
        x, n_fft, hop_length, win_length, window, False, "constant", normalized, onesided,
        return_complex),
}

PRIMITIVES: Mapping[str, type[Primitive]] = {
    **make_primitives(_PLAIN, _WITH_INIT, _OWN), "Morph": Morph}
"""Every primitive class of this module by name."""
BELOW: Mapping[str, type[Primitive]] = make_primitives({}, {
    "CudnnGRU": (lambda input, h, w, **_: _no_kernel("CudnnGRU", "nn.GRU"), _STACK),
    "LSTMV2": (lambda input, h, c, w, seq_lengths, **_: _no_kernel("LSTMV2", "nn.LSTM"),
               {**_STACK, "is_train": True}),
}, {"ClipByNorm": _clip, "InstanceNorm": _instance_norm, "GRUV2": _gru})
"""Classes that `ops.operations` has, and `ops` has not."""
