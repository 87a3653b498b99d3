"""Nodes whose inputs are all known, worked out in numpy: mostly the arithmetic of shapes.

Open sizes are elements of arrays of objects; their own arithmetic stays symbolic.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_compiler.ir.dims import is_symbolic, largest, smallest
from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

from .table import Array, Call, Known, Value, Weight, axes_of, axis_of, sizes

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_FOLDED = 1 << 16
"""Elements of a result that is worked out; larger ones are left to the program."""
Fold = Callable[..., Any]


def folded(call: Call, inputs: Sequence[Value]) -> list[Value] | None:
    """The outputs of a node if they are known; None if they are not, or are large."""
    node = call.node
    if node.domain:
        return None
    if node.op in ("Shape", "Size"):
        return _of_shape(call, inputs)
    fold = FOLDS.get(node.op)
    if fold is None or not inputs or not all(
            v is None or (isinstance(v, Known) and not isinstance(v, Weight)) for v in inputs):
        return None
    given = [v for v in inputs if isinstance(v, Known)]
    if not given or sum(v.array.size for v in given) > MOST_FOLDED:
        return None
    if node.op in _ELEMENTWISE and not _fits_together(v.array for v in given):
        return None
    call.whole_numbers = not any(v.dtype.is_float for v in given)
    with np.errstate(all="ignore"):
        out = fold(call, *(v.array if isinstance(v, Known) else None for v in inputs))
    if out is None:
        return None
    dtype = _dtype(call, given)
    results = out if isinstance(out, list) else [out]
    if sum(np.size(r) for r in results) > MOST_FOLDED:
        return None
    return [Known(_typed(np.asarray(r), dtype)) if np.asarray(r).dtype != object else
            Known(np.asarray(r), dtype) for r in results]


def _fits_together(arrays: Iterable[Array]) -> bool:
    """Whether an elementwise result has a shape, and few elements."""
    try:
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
    except ValueError:
        return False  # (the rule says what does not fit)
    return math.prod(shape) <= MOST_FOLDED


def _typed(array: Array, dtype: DType) -> Array:
    return array if array.dtype == dtype.numpy else array.astype(dtype.numpy)


def _dtype(call: Call, given: Sequence[Known]) -> DType:
    """The element type of the results."""
    op = call.node.op
    if op in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Not", "And", "Or"):
        return dtypes.bool_
    if op == "Cast":
        return call.dtype("to")
    if op == "ConstantOfShape":
        value = call.attrs.get("value")
        return dtypes.float32 if value is None else dtypes.from_numpy(call.array(value).dtype)
    return given[-1 if op == "Where" else 0].dtype


def _of_shape(call: Call, inputs: Sequence[Value]) -> list[Value] | None:
    """Shape and Size, of a value of any kind."""
    if len(inputs) != 1 or inputs[0] is None:
        return None
    x = inputs[0]
    dims = x.shape
    if call.node.op == "Size":
        return [Known(_objects(math.prod(dims)), dtypes.int64)]
    start, end = call.attrs.get("start", 0), call.attrs.get("end", len(dims))
    return [Known(_objects(list(dims)[slice(start, end)]), dtypes.int64)]


def _objects(values: Any) -> Array:
    """An array of ints, some of which may be open sizes."""
    out = np.empty(np.shape(values) if isinstance(values, list) else (), object)
    if isinstance(values, list):
        for i, v in enumerate(values):
            out[i] = v
    else:
        out[()] = values
    return out


def _binary(function: Callable[[Any, Any], Any]) -> Fold:
    return lambda call, a, b: function(a, b)


def _divide(call: Call, a: Array, b: Array) -> Any:
    """Ints are rounded towards zero; sizes are not negative."""
    if a.dtype == object or b.dtype == object:
        return a // b if call.whole_numbers else a / b
    if a.dtype.kind in "iu":
        if not np.all(b):
            return None
        return (np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))).astype(a.dtype)
    return a / b


def _mod(call: Call, a: Array, b: Array) -> Any:
    if a.dtype.kind == "f" or call.flag("fmod") or not np.all(b):
        return None
    return a % b


def _cast(call: Call, a: Array) -> Any:
    dtype = call.dtype("to")
    if a.dtype == object:
        return a if dtype.kind in ("int", "float") and dtype.itemsize >= 4 else None
    return a.astype(dtype.numpy) if a.dtype.kind in "biu" or dtype.is_float else None


def _concat(call: Call, *parts: Array) -> Any:
    return np.concatenate(parts, call.axis(parts[0].ndim))


def _gather(call: Call, x: Array, index: Array) -> Any:
    axis = call.axis(x.ndim)
    size = x.shape[axis]
    if index.dtype == object or x.size // max(size, 1) * index.size > MOST_FOLDED:
        return None
    if np.any(index < -size) or np.any(index >= size):
        return None
    return np.take(x, index, axis)


def _slice(call: Call, x: Array, *rest: Array) -> Any:
    if call.opset < 10:
        starts, ends = call.ints("starts", ()), call.ints("ends", ())
        axes, steps = call.ints("axes"), None
    else:
        given = [None if r is None else sizes(r) for r in rest] + [None] * 4
        starts, ends, axes, steps = given[:4]
    if starts is None or ends is None:
        return None
    where = [slice(None)] * x.ndim
    for i, (a, z) in enumerate(zip(starts, ends, strict=True)):
        axis = axis_of(axes[i] if axes else i, x.ndim)
        if is_symbolic(a) or is_symbolic(z):
            return None
        step = steps[i] if steps else 1
        where[axis] = slice(a, None if step < 0 and z < -x.shape[axis] else z, step)
    return x[tuple(where)]


def _axes_given(call: Call, rest: tuple[Any, ...]) -> tuple[int, ...] | None:
    """Axes from the second input, or from the attribute in older versions."""
    return sizes(rest[0]) if rest and rest[0] is not None else call.ints("axes")


def _unsqueeze(call: Call, x: Array, *rest: Array) -> Any:
    axes = _axes_given(call, rest) or ()
    for a in axes_of(axes, x.ndim + len(axes)):
        x = np.expand_dims(x, a)
    return x


def _squeeze(call: Call, x: Array, *rest: Array) -> Any:
    axes = _axes_given(call, rest)
    return np.squeeze(x, None if axes is None else axes_of(axes, x.ndim))


def _reshape(call: Call, x: Array, shape: Array) -> Any:
    wanted = list(sizes(shape))
    if any(is_symbolic(d) for d in wanted):
        return None
    if not call.flag("allowzero"):
        wanted = [x.shape[i] if d == 0 else d for i, d in enumerate(wanted)]
    return x.reshape(wanted)


def _reduce(function: Callable[[Iterable[Any]], Any]) -> Fold:
    def fold(call: Call, x: Array, *rest: Array) -> Any:
        axes = _axes_given(call, rest)
        if x.ndim != 1 or x.dtype.kind not in "iuO" or not x.size or (
                axes is not None and not axes and call.flag("noop_with_empty_axes")):
            return None
        out = _objects(function(list(x)))
        return out.reshape(1) if call.flag("keepdims", 1) else out

    return fold


def _where(call: Call, c: Array, a: Array, b: Array) -> Any:
    return np.where(c.astype(bool), a, b)


def _range(call: Call, start: Array, limit: Array, delta: Array) -> Any:
    if any(v.dtype.kind not in "iu" or v.size != 1 for v in (start, limit, delta)):
        return None
    a, z, s = (int(v.reshape(())) for v in (start, limit, delta))
    return np.arange(a, z, s).astype(start.dtype) if s and \
        len(range(a, z, s)) <= MOST_FOLDED else None


def _expand(call: Call, x: Array, shape: Array) -> Any:
    wanted = sizes(shape)
    if any(is_symbolic(d) for d in wanted):
        return None
    full = np.broadcast_shapes(x.shape, wanted)
    return np.broadcast_to(x, full) if math.prod(full) <= MOST_FOLDED else None


def _constant_of_shape(call: Call, shape: Array) -> Any:
    wanted = sizes(shape)
    if any(is_symbolic(d) for d in wanted) or math.prod(wanted) > MOST_FOLDED:
        return None
    value = call.attrs.get("value")
    return np.full(wanted, np.float32(0) if value is None else call.array(value).reshape(-1)[:1])


def _split(call: Call, x: Array, *rest: Array) -> Any:
    axis, count = call.axis(x.ndim), len(call.node.outputs)
    parts = sizes(rest[0]) if rest and rest[0] is not None else call.ints("split")
    if parts is None and x.shape[axis] % count:
        return None
    cuts = np.cumsum(parts)[:-1] if parts is not None else count
    return list(np.split(x, cuts, axis))


def _unary(function: Callable[[Any], Any], kinds: str = "f") -> Fold:
    return lambda call, a: function(a) if a.dtype.kind in kinds else None


def _extremum(function: Callable[[Any, Any], Any], pick: Callable[..., Any]) -> Fold:
    def fold(call: Call, *parts: Array) -> Any:
        out = parts[0]
        for p in parts[1:]:
            both = out.dtype == object or p.dtype == object
            out = np.frompyfunc(pick, 2, 1)(out, p) if both else function(out, p)
        return _objects(out) if not isinstance(out, np.ndarray) else out

    return fold


FOLDS: dict[str, Fold] = {
    "Add": _binary(operator.add), "Sub": _binary(operator.sub), "Mul": _binary(operator.mul),
    "Div": _divide, "Mod": _mod, "Cast": _cast, "Concat": _concat, "Gather": _gather,
    "Slice": _slice, "Unsqueeze": _unsqueeze, "Squeeze": _squeeze, "Reshape": _reshape,
    "ReduceProd": _reduce(math.prod), "ReduceSum": _reduce(sum), "Where": _where,
    "Equal": _binary(operator.eq), "Less": _binary(operator.lt), "Greater": _binary(operator.gt),
    "LessOrEqual": _binary(operator.le), "GreaterOrEqual": _binary(operator.ge),
    "Not": _unary(np.logical_not, "b"), "And": _binary(np.logical_and),
    "Or": _binary(np.logical_or), "Neg": _unary(operator.neg, "fiO"), "Range": _range,
    "Expand": _expand, "ConstantOfShape": _constant_of_shape, "Split": _split,
    "Sqrt": _unary(np.sqrt), "Floor": _unary(np.floor), "Ceil": _unary(np.ceil),
    "Identity": lambda call, a: a, "Min": _extremum(np.minimum, smallest),
    "Max": _extremum(np.maximum, largest), "Transpose": lambda call, a: np.transpose(
        a, call.ints("perm", tuple(range(a.ndim))[::-1])),
}
"""Operators whose results are worked out where their inputs are known."""
_ELEMENTWISE = frozenset((
    "Add", "Sub", "Mul", "Div", "Mod", "Where", "Equal", "Less", "Greater", "LessOrEqual",
    "GreaterOrEqual", "And", "Or", "Min", "Max"))
