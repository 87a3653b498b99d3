"""Ops of cellc as primitives of MindSpore: the table that `writing` writes a graph by.

A rule gets the writer, the node and the names of its operands, and gives those of its results, or
None: then the op is written as the composition that its definition gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_compiler.ir.dims import is_symbolic, surely_equal
from cellc_compiler.ir.graph import Node, Value
from cellc_compiler.ir.types import normalize_axis
from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

from .table import TYPES

if TYPE_CHECKING:
    from .writing import Ref, Writer

Rule = Callable[..., Any]
NUMBERS = {dtype: number for number, dtype in TYPES.items()}
ATTRIBUTED = frozenset((
    "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Depend", "Digamma", "Imag", "IsNan",
    "Lgamma", "Load", "MakeTuple", "Mish", "Mod", "Partial", "Rint", "SeLU", "Softplus", "Softsign",
    "Switch", "TensorMove", "TensorScatterUpdate", "TruncateDiv", "TruncateMod",
    "TupleGetItem", "UpdateState"))
"""Primitives that MindSpore keeps by attributes, also where they have none."""
_MOST_TRIPS = 512  # Steps of a scan, which are written out one by one

RULES: dict[str, Rule] = {}
REFUSED: dict[str, str] = {
    "random_bits": "MindSpore draws no bits",
    "host_call": "it calls a Python function, which no file can hold",
    "custom_kernel": "its code is the user's own",
}
"""Ops that MindIR has nothing for, and why."""
DRAWS = frozenset((
    "dropout", "random_bernoulli", "random_bits", "random_exponential", "random_int",
    "random_normal", "random_permutation", "random_truncated_normal", "random_uniform"))
"""Ops whose last operand is a key. MindSpore's draws have states of their own in place of keys."""


class OpenSize(Exception):
    """A primitive would need a size that is open."""


def spells(*ops: str) -> Callable[[Rule], Rule]:
    """Decorator: the rule of these ops."""
    def add(rule: Rule) -> Rule:
        for op in ops:
            assert op not in RULES, op
            RULES[op] = rule
        return rule

    return add


def spelled(table: Mapping[str, Rule]) -> None:
    """Add rules: each row has the names of its ops, apart by spaces."""
    for ops, rule in table.items():
        spells(*ops.split())(rule)


_SAME = {
    "abs": "Abs", "acos": "ACos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh",
    "atan": "Atan", "atanh": "Atanh", "ceil": "Ceil", "conj": "Conj", "cos": "Cos", "cosh": "Cosh",
    "digamma": "Digamma", "erf": "Erf", "erfc": "Erfc", "erfinv": "Erfinv", "exp": "Exp",
    "expm1": "Expm1", "floor": "Floor", "imag": "Imag", "isfinite": "IsFinite", "isinf": "IsInf",
    "isnan": "IsNan", "lgamma": "Lgamma", "log": "Log", "log1p": "Log1p",
    "logical_not": "LogicalNot", "neg": "Neg", "real": "Real", "reciprocal": "Reciprocal",
    "relu": "ReLU", "rsqrt": "Rsqrt", "selu": "SeLU", "sigmoid": "Sigmoid", "sign": "Sign",
    "sin": "Sin", "sinh": "Sinh", "sqrt": "Sqrt", "square": "Square", "tan": "Tan", "tanh": "Tanh",
    "trunc": "Trunc", "silu": "SiLU", "mish": "Mish", "relu6": "ReLU6", "hard_sigmoid": "HSigmoid",
    "hard_swish": "HSwish", "softsign": "Softsign", "round": "Rint", "log1pexp": "Softplus",
    "add": "Add", "sub": "Sub", "mul": "Mul", "floor_div": "FloorDiv", "mod": "FloorMod",
    "fmod": "Mod", "trunc_div": "TruncateDiv", "pow": "Pow", "maximum": "Maximum",
    "minimum": "Minimum", "eq": "Equal", "ne": "NotEqual", "lt": "Less", "le": "LessEqual",
    "gt": "Greater", "ge": "GreaterEqual", "logical_and": "LogicalAnd", "logical_or": "LogicalOr",
    "logical_xor": "LogicalXor", "bitwise_and": "BitwiseAnd", "bitwise_or": "BitwiseOr",
    "bitwise_xor": "BitwiseXor", "shift_left": "LeftShift", "shift_right": "RightShift",
    "atan2": "Atan2", "xlogy": "Xlogy", "div": "RealDiv",
    "prelu": "PReLU", "where": "Select",
}
"""Ops that a primitive is, operand by operand."""


def _same(primitive: str) -> Rule:
    return lambda w, node, *x: w.op(primitive, *x)


spelled({op: _same(primitive) for op, primitive in _SAME.items()})


def _number(node: Node, value: float, k: int = 0) -> Any:
    """A number in the element type of an operand."""
    return np.array(value, node.operands[k].type.dtype.numpy)


def _ints(values: Sequence[Any]) -> tuple[int, ...]:
    """Sizes that must be known when the file is written."""
    for v in values:
        if is_symbolic(v):
            raise OpenSize(f"the size {v} is open")
    return tuple(int(v) for v in values)


def _kind(dtype: DType) -> int:
    return NUMBERS[dtype]


@spells("bitwise_not")
def _bitwise_not(w: Writer, node: Node, x: Ref) -> Any:
    if node.result.type.dtype is dtypes.bool_:
        return w.op("LogicalNot", x)
    return w.op("Sub", np.asarray(np.invert(_number(node, 0))), x)


@spells("make_complex")
def _complex(w: Writer, node: Node, x: Ref, y: Ref) -> Any:
    a, b = (v.shape for v in node.operands)
    return w.op("Complex", x, y) if a == b else None


@spells("log2", "log10")
def _log(w: Writer, node: Node, x: Ref) -> Any:
    base = math.log(2 if node.op == "log2" else 10)
    return w.op("RealDiv", w.op("Log", x), _number(node, base))


spelled({
    "constant": lambda w, node: w.const(node.attrs["value"].array),
    "after micro_result stop_gradient": lambda w, node, x, *others: x,
    "cast": lambda w, node, x: w.op("Cast", x, _kind(node.attrs["dtype"])),
    "exp2": lambda w, node, x: w.op("Pow", _number(node, 2), x),
    "gelu": lambda w, node, x: w.op("GeLU", x) if node.attrs["approximate"] == "tanh" else None,
    "elu": lambda w, node, x: w.op("Elu", x, 1.0) if node.attrs["alpha"] == 1 else None,
})


@spells("softmax", "log_softmax")
def _softmax(w: Writer, node: Node, x: Ref) -> Any:
    axis, rank = node.attrs["axis"], node.operands[0].type.rank
    if not rank:
        return None
    axis = normalize_axis(axis, rank)
    return w.op("Softmax", x, (axis,)) if node.op == "softmax" else w.op("LogSoftmax", x, axis)


# --- normalisation, products, windows -------------------------------------------------------------


def _only_first(w: Writer, node: Node) -> bool:
    return not any(r in w.used for r in node.results[1:])


@spells("layer_norm")
def _layer_norm(w: Writer, node: Node, x: Ref, gamma: Ref, beta: Ref) -> Any:
    begin = normalize_axis(node.attrs["begin"], node.operands[0].type.rank)
    if not _only_first(w, node) or node.operands[0].type.dtype is not dtypes.float32 or not begin:
        return None
    out = w.op("LayerNorm", x, gamma, beta, begin, begin, float(node.attrs["eps"]))
    return w.items(out, 1)[0], None, None


@spells("batch_norm_inference")
def _batch_norm(w: Writer, node: Node, x: Ref, *params: Ref) -> Any:
    type_ = node.operands[0].type
    if type_.rank not in (2, 4) or normalize_axis(node.attrs["axis"], type_.rank) != 1 or \
            any(v.type.dtype is not dtypes.float32 for v in node.operands):
        return None
    out = w.op("BatchNorm", x, *params, False, float(node.attrs["eps"]), 0.1, 0)
    return w.items(out, 1)[0]


@spells("matmul")
def _matmul(w: Writer, node: Node, a: Ref, b: Ref) -> Any:
    (x, y), attrs = (v.type for v in node.operands), node.attrs
    flags = bool(attrs["transpose_a"]), bool(attrs["transpose_b"])
    if x.rank == y.rank == 2:
        return w.op("MatMul", a, b, *flags)
    lead = node.result.shape[:-2]
    a, b = (r if t.shape[:-2] == lead else
            w.op("BroadcastTo", r, w.sizes((*lead, *t.shape[-2:]))) for r, t in ((a, x), (b, y)))
    return w.op("BatchMatMul", a, b, *flags)


def _window(node: Node, weight: int) -> dict[str, Any]:
    """The attributes of a convolution whose weight is an operand or result."""
    attrs = node.attrs
    type_ = node.operands[weight].type if weight >= 0 else node.result.type
    pads = _ints(attrs["pads"])
    return {
        "out_channel": int(type_.shape[0]), "kernel_size": _ints(type_.shape[2:]), "mode": 1,
        "pad_mode": "pad", "pad": pads, "pad_list": pads, "format": "NCHW",
        "groups": int(attrs["groups"]), "group": int(attrs["groups"]),
        "stride": (1, 1, *_ints(attrs["stride"])), "dilation": (1, 1, *_ints(attrs["dilation"])),
    }


spelled({
    "conv2d": lambda w, node, x, weight: w.op("Conv2D", x, weight, **_window(node, 1)),
    "conv2d_backward_data": lambda w, node, dy, weight:
        w.op("Conv2DBackpropInput", dy, weight, w.sizes(node.result.shape),
             **_window(node, 1), data_format="NCHW"),
    "conv2d_backward_weight": lambda w, node, x, dy:
        w.op("Conv2DBackpropFilter", dy, x, _ints(node.result.shape),
             **_window(node, -1), data_format="NCHW"),
})


def _pool(node: Node) -> dict[str, Any]:
    attrs = node.attrs
    return {"kernel_size": (1, 1, *_ints(attrs["kernel"])),
            "strides": (1, 1, *_ints(attrs["stride"])), "pad_mode": "VALID", "format": "NCHW"}


def _plain_windows(node: Node) -> bool:
    attrs = node.attrs
    return not any(attrs["pads"]) and not attrs["ceil_mode"] and \
        tuple(attrs.get("dilation", (1, 1))) == (1, 1)


@spells("max_pool2d")
def _max_pool(w: Writer, node: Node, x: Ref) -> Any:
    attrs = node.attrs
    if attrs["indices"] or attrs["ceil_mode"] or tuple(attrs["dilation"]) != (1, 1):
        return None
    if any(attrs["pads"]):
        top, bottom, left, right = attrs["pads"]
        x = _padded(w, node, x, (0, 0, top, left), (0, 0, bottom, right), -math.inf)
    return w.op("MaxPool", x, **_pool(node))


@spells("max_pool2d_backward")
def _max_pool_backward(w: Writer, node: Node, x: Ref, dy: Ref) -> Any:
    if not _plain_windows(node):
        return None
    out = w.op("MaxPool", x, **_pool(node))
    return w.op("MaxPoolGrad", x, out, dy, **_pool(node), data_format="NCHW")


@spells("avg_pool2d")
def _avg_pool(w: Writer, node: Node, x: Ref) -> Any:
    attrs = node.attrs
    if attrs["ceil_mode"]:
        return None
    kernel, stride = _ints(attrs["kernel"]), _ints(attrs["stride"])
    mean = x
    if any(attrs["pads"]):
        top, bottom, left, right = attrs["pads"]
        low, high = (0, 0, top, left), (0, 0, bottom, right)
        mean = _padded(w, node, x, low, high, 0)
    mean = w.op("AvgPool", mean, kernel, stride, 2, 0)
    size = kernel[0] * kernel[1]
    if attrs["divisor"] is not None:
        return w.op("Mul", mean, _number(node, size / attrs["divisor"]))
    if not any(attrs["pads"]) or attrs["count_include_pad"]:
        return mean
    ones = np.pad(np.ones((1, 1, *_ints(node.operands[0].shape[2:])), np.float32),
                  ((0, 0), (0, 0), (top, bottom), (left, right)))
    share = w.op("AvgPool", w.const(ones), kernel, stride, 2, 0)
    return w.op("RealDiv", mean, share)


@spells("adaptive_avg_pool2d", "adaptive_max_pool2d")
def _adaptive(w: Writer, node: Node, x: Ref) -> Any:
    """Windows of one size; others have no primitive on a CPU."""
    size, wanted = _ints(node.operands[0].shape[2:]), _ints(node.attrs["output_size"])
    if node.attrs.get("indices") or any(a % b for a, b in zip(size, wanted, strict=True)):
        return None
    mean = node.op == "adaptive_avg_pool2d"
    if wanted == (1, 1):
        return w.op("ReduceMean" if mean else "ReduceMax", x, (2, 3), True)
    step = tuple(a // b for a, b in zip(size, wanted, strict=True))
    if mean:
        return w.op("AvgPool", x, step, step, 2, 0)
    return w.op("MaxPool", x, kernel_size=(1, 1, *step), strides=(1, 1, *step), pad_mode="VALID",
                format="NCHW")


# --- elements and axes ----------------------------------------------------------------------------


@spells("slice")
def _slice(w: Writer, node: Node, x: Ref) -> Any:
    shape = node.operands[0].shape
    start, stop, step = (tuple(node.attrs[k] or ()) for k in ("start", "stop", "step"))
    step = _ints(step) or (1,) * len(shape)
    back = tuple(a for a, n in enumerate(step) if n < 0)
    if back:  # turned round, the steps lead forwards
        x = w.op("ReverseV2", x, back)
        start, stop = (tuple(shape[a] - 1 - n if a in back else n for a, n in enumerate(ends))
                       for ends in (start, stop))
    return _part(w, x, start, stop, tuple(map(abs, step))) if start else x


def _part(w: Writer, x: Ref, start: Sequence[Any], stop: Sequence[Any], step: Any = None) -> Ref:
    """The elements from `start` to before `stop`."""
    return w.op("StridedSlice", x, w.sizes(start), w.sizes(stop), step or (1,) * len(start),
                0, 0, 0, 0, 0)


@spells("update_slice")
def _update_slice(w: Writer, node: Node, x: Ref, update: Ref) -> Any:
    start, step = node.attrs["start"], node.attrs["step"]
    if step is not None and any(n != 1 for n in step):
        return None
    if any(is_symbolic(n) for n in (*node.operands[0].shape, *start)):
        return _replaced(w, x, update, node.operands[0].shape, node.operands[1].shape, start)
    shape, given = (_ints(v.shape) for v in node.operands)
    start = _ints(start)
    stop = tuple(a + n for a, n in zip(start, given, strict=True))
    mask = np.zeros(shape, np.bool_)
    mask[tuple(slice(a, z) for a, z in zip(start, stop, strict=True))] = True
    high = tuple(d - z for d, z in zip(shape, stop, strict=True))
    return w.op("Select", w.const(mask), _padded(w, node, update, start, high, 0), x)


def _replaced(w: Writer, x: Ref, update: Ref, shape: Sequence[Any], given: Sequence[Any],
              start: Sequence[Any]) -> Ref:
    """A tensor with an update from `start` on: along the first axis that it does not fill, what is
    before it, the same of what it covers, and what is after it."""
    axis = next((a for a, (d, n) in enumerate(zip(shape, given, strict=True))
                 if not surely_equal(d, n)), None)
    if axis is None:
        return update
    origin = [0] * len(shape)

    def lines(low: Any, high: Any) -> tuple[list[Any], list[Any]]:
        return ([*origin[:axis], low, *origin[axis + 1 :]],
                [*shape[:axis], high, *shape[axis + 1 :]])

    ends = (0, start[axis], start[axis] + given[axis], shape[axis])
    covered = _part(w, x, *lines(*ends[1:3]))
    inner = _replaced(w, covered, update, [*shape[:axis], given[axis], *shape[axis + 1 :]], given,
                      [*origin[: axis + 1], *start[axis + 1 :]])
    sides = [None if surely_equal(low, high) else _part(w, x, *lines(low, high))
             for low, high in (ends[:2], ends[2:])]
    return w.op("Concat", tuple(r for r in (sides[0], inner, sides[1]) if r is not None), axis)


@spells("scatter")
def _scatter(w: Writer, node: Node, x: Ref, index: Ref, updates: Ref) -> Any:
    if node.attrs["batch_dims"] or normalize_axis(
            node.attrs["axis"], node.operands[0].type.rank) != 0:
        return None
    where = w.op("ExpandDims", index, -1)
    return w.op(f"TensorScatter{node.attrs['mode'].title()}", x, where, updates)


@spells("split")
def _split(w: Writer, node: Node, x: Ref) -> Any:
    sizes, rank = _ints(node.attrs["sizes"]), node.operands[0].type.rank
    axis = normalize_axis(node.attrs["axis"], rank)
    if len(set(sizes)) == 1:
        return w.items(w.op("Split", x, axis, len(sizes)), len(sizes))
    shape, out, at = node.operands[0].shape, [], 0
    for n in sizes:
        start = [at if a == axis else 0 for a in range(rank)]
        out.append(_part(w, x, start, [at + n if a == axis else d for a, d in enumerate(shape)]))
        at += n
    return out


@spells("stack")
def _stack(w: Writer, node: Node, *x: Ref) -> Any:
    axis = normalize_axis(node.attrs["axis"], node.result.type.rank)
    return w.op("Stack", tuple(x), axis=axis, num=len(x))


def _padded(w: Writer, node: Node, x: Ref, low: Sequence[Any], high: Sequence[Any], value: Any
            ) -> Ref:
    """Rows around a tensor; MindSpore names the last axis first."""
    sizes = _ints([n for pair in zip(low[::-1], high[::-1], strict=True) for n in pair])
    return w.op("PadV3", x, sizes, _number(node, value), mode="constant", paddings_contiguous=True)


@spells("pad")
def _pad(w: Writer, node: Node, x: Ref) -> Any:
    attrs = node.attrs
    if attrs["interior"] and any(attrs["interior"]):
        return None
    return _padded(w, node, x, attrs["low"], attrs["high"], attrs["value"])


@spells("gather")
def _gather(w: Writer, node: Node, x: Ref, index: Ref) -> Any:
    axis = normalize_axis(node.attrs["axis"], node.operands[0].type.rank)
    return w.op("Gather", x, index, axis, int(node.attrs["batch_dims"]))


@spells("one_hot")
def _one_hot(w: Writer, node: Node, x: Ref) -> Any:
    attrs, dtype = node.attrs, node.result.type.dtype
    held = dtypes.float32 if dtype is dtypes.bool_ else dtype
    on, off = (np.array(attrs[k]).astype(held.numpy) for k in ("on", "off"))
    axis = normalize_axis(attrs["axis"], node.result.type.rank)
    axis = -1 if axis == node.result.type.rank - 1 else axis
    out = w.op("OneHot", x, int(attrs["depth"]), on, off, axis)
    return out if held is dtype else w.op("Cast", out, _kind(dtype))


@spells("iota", "eye")
def _positions(w: Writer, node: Node) -> Any:
    attrs, dtype = node.attrs, node.result.type.dtype.numpy
    if node.op == "eye":
        rows, columns = _ints((attrs["n"], attrs["m"]))
        return w.const(np.eye(rows, columns, attrs["diagonal"], dtype))
    if any(map(is_symbolic, attrs["shape"])):
        return _counted(w, node)
    shape = _ints(attrs["shape"])
    steps = [1] * len(shape)
    axis = normalize_axis(attrs["axis"], len(shape)) if shape else 0
    steps[axis : axis + 1] = [shape[axis]] if shape else []
    return w.const(np.array(np.broadcast_to(np.arange(shape[axis] if shape else 1, dtype=dtype)
                                            .reshape(steps if shape else ()), shape)))


def _counted(w: Writer, node: Node) -> Any:
    """Positions along an axis of an open size: sums of ones. (MindSpore's Range takes no such.)"""
    shape = node.attrs["shape"]
    ones = w.op("BroadcastTo", np.array(1, np.int32), w.sizes(shape))
    places = w.op("CumSum", ones, normalize_axis(node.attrs["axis"], len(shape)), True, False)
    return w.op("Cast", places, _kind(node.result.type.dtype))


@spells("tril", "triu")
def _triangle(w: Writer, node: Node, x: Ref) -> Any:
    by = int(node.attrs["diagonal"])
    return w.op("Tril", x, diagonal=by) if node.op == "tril" else w.op("Triu", x, by)


_REDUCED = {"reduce_max": "ReduceMax", "reduce_min": "ReduceMin", "reduce_prod": "ReduceProd",
            "reduce_all": "ReduceAll", "reduce_any": "ReduceAny", "reduce_mean": "ReduceMean"}


@spells("reduce_sum", *_REDUCED)
def _reduce(w: Writer, node: Node, x: Ref) -> Any:
    rank = node.operands[0].type.rank
    given = node.attrs["axes"]
    axes = tuple(range(rank)) if given is None else tuple(normalize_axis(a, rank) for a in given)
    if not axes:
        return x if node.operands[0].type.dtype is node.result.type.dtype else None
    keep = bool(node.attrs["keepdims"])
    return w.op("ReduceSum", x, axes, keep, False) if node.op == "reduce_sum" else \
        w.op(_REDUCED[node.op], x, axes, keep)


@spells("argmax", "argmin")
def _position(w: Writer, node: Node, x: Ref) -> Any:
    axis = normalize_axis(node.attrs["axis"], node.operands[0].type.rank)
    name = "Argmax" if node.op == "argmax" else "Argmin"
    out = w.op(name, x, axis, _kind(dtypes.int32))
    out = w.op("ExpandDims", out, axis) if node.attrs["keepdims"] else out
    return w.op("Cast", out, _kind(node.result.type.dtype))


@spells("cumsum", "cumprod")
def _cumulative(w: Writer, node: Node, x: Ref) -> Any:
    axis = normalize_axis(node.attrs["axis"], node.operands[0].type.rank)
    return w.op("CumSum" if node.op == "cumsum" else "CumProd", x, axis,
                bool(node.attrs["exclusive"]), bool(node.attrs["reverse"]))


@spells("sort")
def _sort(w: Writer, node: Node, x: Ref) -> Any:
    axis = normalize_axis(node.attrs["axis"], node.operands[0].type.rank)
    return w.items(w.op("Sort", x, axis=axis, descending=bool(node.attrs["descending"])), 2)


@spells("topk")
def _topk(w: Writer, node: Node, x: Ref) -> Any:
    attrs, type_ = node.attrs, node.operands[0].type
    if type_.dtype.kind not in ("float", "int"):
        return None
    axes = list(range(type_.rank))
    axis = normalize_axis(attrs["axis"], type_.rank)
    axes[axis], axes[-1] = axes[-1], axes[axis]
    last = axis == type_.rank - 1
    x = x if last else w.op("Transpose", x, tuple(axes))
    x = x if attrs["largest"] else w.op("Neg", x)
    values, places = w.items(w.op("TopK", x, int(attrs["k"]), sorted=True), 2)
    values = values if attrs["largest"] else w.op("Neg", values)
    return [r if last else w.op("Transpose", r, tuple(axes)) for r in (values, places)]


def _shape(w: Writer, dims: Sequence[Any]) -> tuple[Any, ...]:
    """The shape of a result of Reshape, which finds one open size by itself."""
    alone = sum(map(is_symbolic, dims)) == 1 and 0 not in dims
    return tuple(-1 if is_symbolic(d) else int(d) for d in dims) if alone else w.sizes(dims)


spelled({
    "reshape": lambda w, node, x: w.op("Reshape", x, _shape(w, node.result.shape)),
    "transpose": lambda w, node, x:
        w.op("Transpose", x, _ints(node.attrs["perm"])) if node.attrs["perm"] else x,
    "broadcast_to": lambda w, node, x: w.op("BroadcastTo", x, w.sizes(node.result.shape)),
    "size_number": lambda w, node: w.op(
        "ScalarToTensor", *(w.sizes([n]) if is_symbolic(n := node.attrs["value"]) else [n]),
        _kind(node.result.type.dtype)),
    "concat": lambda w, node, *x:
        w.op("Concat", tuple(x), normalize_axis(node.attrs["axis"], node.result.type.rank)),
    "tile": lambda w, node, x: w.op("Tile", x, w.sizes(node.attrs["reps"])),
    "flip": lambda w, node, x: w.op("ReverseV2", x, _ints(node.attrs["axes"])),
    "gather_elements": lambda w, node, x, index:
        w.op("GatherD", x, normalize_axis(node.attrs["dim"], node.operands[0].type.rank), index),
    "gather_nd": lambda w, node, x, index:
        None if node.attrs.get("batch_dims") else w.op("GatherNd", x, index),
    "argsort": lambda w, node, x: _sort(w, node, x)[1],
})


# --- control flow ---------------------------------------------------------------------------------


def _returns(w: Writer, graph: Any, inputs: Sequence[Ref]) -> Ref:
    """Write a graph here; its results as a tuple."""
    return w.op("MakeTuple", *w.graph(graph, inputs))


@spells("cond")
def _cond(w: Writer, node: Node, pred: Ref, *x: Ref) -> Any:
    parts = []
    for name, region in zip(("then", "else"), node.regions, strict=True):
        inner = w.inner(name)
        takes = inner.takes(region.inputs)
        out = _returns(inner, region, takes)
        inner.finish(8, inner.declared(takes), out, [v.type for v in region.outputs])
        parts.append(w.op("Partial", w.named(inner.name), *x))
    return w.items(w.call(w.op("Switch", pred, *parts).name, ()), len(node.results))


@spells("while")
def _while(w: Writer, node: Node, *x: Ref) -> Any:
    count, (test, body) = node.attrs["carried"], node.regions
    header, trip, end = w.inner("header"), w.inner("body"), w.inner("after")
    types = [v.type for v in body.outputs]
    takes = header.takes(body.inputs)
    go = header.graph(test, takes)[0]
    on = header.op("Partial", header.named(trip.name), *takes)
    off = header.op("Partial", header.named(end.name), *takes[:count])
    out = header.call(header.op("Switch", go, on, off).name, ())
    header.finish(8, header.declared(takes), out, types)
    inside = trip.takes(body.inputs)
    again = trip.call(header.name, [*trip.graph(body, inside), *inside[count:]])
    trip.finish(8, trip.declared(inside), again, types)
    left = end.takes(body.inputs[:count])
    end.finish(8, end.declared(left), end.op("MakeTuple", *left), types)
    return w.items(w.call(header.name, x), count)


@spells("scan")
def _scan(w: Writer, node: Node, *x: Ref) -> Any:
    """A loop of a known number of steps, which are written one by one."""
    attrs, (body,) = node.attrs, node.regions
    n, k, length = attrs["carried"], attrs["sequences"], attrs["length"]
    if attrs["limited"] or not isinstance(length, int) or not 0 < length <= _MOST_TRIPS:
        return None
    state, rows, captures = list(x[:n]), x[n : n + k], x[n + k :]
    types = [v.type for v in node.operands[n : n + k]]
    found: list[Any] = [None] * length
    order = range(length)[::-1] if attrs["reverse"] else range(length)
    for t in order:
        now = []
        for row, type_ in zip(rows, types, strict=True):
            shape = type_.shape
            part = _part(w, row, (t, *(0,) * (len(shape) - 1)), (t + 1, *shape[1:]))
            now.append(w.op("Reshape", part, _shape(w, shape[1:])))
        out = w.graph(body, [*state, *now, w.const(np.array(t, np.int64)), *captures])
        state, found[t] = out[:n], out[n:]
    stacked = [w.op("Stack", tuple(f[j] for f in found), axis=0, num=length)
               for j in range(len(node.results) - n)]
    return [*state, *stacked]


# --- draws ----------------------------------------------------------------------------------------


def _key(value: Value) -> Any:
    """An identity for the key of a draw: the same in the passes of a step forwards and backwards,
    which must draw the same."""
    node = value.node
    if node is not None and node.op == "reshape":
        return _key(node.operands[0])
    if node is not None and node.op == "add" and node.operands[1].node is not None and \
            node.operands[1].node.is_constant:
        return _key(node.operands[0]), node.operands[1].node.attrs["value"].array.tobytes()
    return value


def _drawn(w: Writer, node: Node, primitive: str, *args: Any) -> Ref:
    """A draw in float32 or int32; each key is drawn once. `side_effect_hidden` keeps MindSpore from
    taking two draws for one."""
    key = primitive, _key(node.operands[-1]), str(node.attrs["shape"]), repr(args)
    if key not in w.drawn:
        w.drawn[key] = w.op(primitive, w.sizes(node.attrs["shape"]), *args, seed=0, seed2=0,
                            side_effect_hidden=True)
    return w.drawn[key]


def _as_result(w: Writer, node: Node, drawn: Ref) -> Ref:
    dtype = node.result.type.dtype
    return drawn if dtype is dtypes.float32 else w.op("Cast", drawn, _kind(dtype))


def _single(value: float) -> Any:
    return np.array(value, np.float32)


def _inverted(w: Writer, node: Node) -> Any:
    """A normal draw between two bounds, by the inverse of its distribution."""
    low, high = node.attrs["low"], node.attrs["high"]
    a, b = (math.erf(v / math.sqrt(2)) for v in (low, high))
    share = w.op("Add", w.op("Mul", _drawn(w, node, "UniformReal"), _single(b - a)), _single(a))
    out = w.op("Mul", w.op("Erfinv", share), _single(math.sqrt(2)))
    out = w.op("Minimum", w.op("Maximum", out, _single(low)), _single(high))
    return _as_result(w, node, out)


@spells("random_int")
def _random_int(w: Writer, node: Node) -> Any:
    ends = node.attrs["low"], node.attrs["high"]
    if not all(-(1 << 31) <= n < 1 << 31 for n in ends):
        return None
    out = _drawn(w, node, "UniformInt", *(np.array(n, np.int32) for n in ends))
    dtype = node.result.type.dtype
    return out if dtype is dtypes.int32 else w.op("Cast", out, _kind(dtype))


@spells("random_permutation")
def _random_permutation(w: Writer, node: Node) -> Any:
    drawn = w.op("UniformReal", w.sizes([node.attrs["n"]]), seed=0, seed2=0,
                 side_effect_hidden=True)
    return w.op("Cast", w.items(w.op("Sort", drawn, axis=0, descending=False), 2)[1],
                _kind(node.result.type.dtype))


spelled({
    "random_uniform": lambda w, node: _as_result(w, node, _drawn(w, node, "UniformReal")),
    "random_normal": lambda w, node: _as_result(w, node, _drawn(w, node, "StandardNormal")),
    "random_bernoulli": lambda w, node:
        w.op("Less", _drawn(w, node, "UniformReal"), _single(node.attrs["p"])),
    "random_exponential": lambda w, node: _as_result(w, node, w.op("Neg", w.op(
        "Log", w.op("Sub", _single(1), _drawn(w, node, "UniformReal"))))),
    "random_truncated_normal": _inverted,
})
