"""Primitives that MindSpore offers ready made: `ops.scalar_add`, `ops.tuple_len`, `ops.reduce_sum`.

Those of numbers, tuples, lists, dicts and strings do what Python does, in both modes. Nodes that
only MindSpore's own compiler makes keep their names, and say so when they are called.

Source: the values of the same names in `mindspore.ops`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cellc_compiler.ir.types import broadcast_shapes
from cellc_runtime.dtypes import DType

from ...compiled.inline import call_here
from ...core.declared import misuse
from ...tensors.promotion import cast_to
from ...tensors.tensor import Tensor
from ...tracing.mutables import has_open_length, is_known
from ..arguments import dtype_of, ints, is_int, tensor
from ..functional import arith, control_source, creation, shapes
from ..primitive import Primitive
from .tables import PRIMITIVES as _CLASSES
from .tables import make_primitive

# --- values ---------------------------------------------------------------------------------------


def scalar_cast(input_x: Any, input_y: Any) -> Any:
    """A number as an int, float or bool, named by a dtype of 64 bits, `bool` or Python's type.

    Args:
        input_x: a number.
        input_y: int64, float64, bool_, int, float or bool.
    """
    kinds = {"int64": int, "float64": float, "bool_": bool, int: int, float: float, bool: bool}
    known = input_y.name if isinstance(input_y, DType) else input_y
    if known not in kinds:
        raise misuse("ScalarCast", "the supported types are int64, float64 and bool", input_y)
    return kinds[known](input_x)


def make_range(*limits: Any) -> tuple[int, ...]:
    """The ints of a range as a tuple: of its end, of start and end, or of start, end and step."""
    if not 1 <= len(limits) <= 3 or not all(is_int(v) for v in limits):
        raise misuse("make_range", "1 to 3 ints are needed", limits, TypeError)
    return tuple(range(*limits))


def _set_item(kind: type) -> Callable[..., Any]:
    def function(data: Any, index: int, value: Any) -> Any:
        items = list(data)
        items[index] = value
        return kind(items)

    return function


def _tuple_div(x: Sequence[int], y: Sequence[int]) -> tuple[int, ...]:
    if len(x) != len(y) or any(b == 0 or a % b for a, b in zip(x, y, strict=True)):
        raise misuse("tuple_div", f"the ints of {x} must be multiples of those of {y}")
    return tuple(a // b for a, b in zip(x, y, strict=True))


def _type_of(x: Any) -> Any:
    return x.dtype if isinstance(x, Tensor) else type(x)


def _has_type(x: Any, t: Any) -> bool:
    return _type_of(x) == t if isinstance(x, Tensor) else isinstance(x, t)


def _mixed_cast(dst_dtype: DType, x: Any) -> Any:
    """Float tensors, alone or in lists, tuples and dicts, in a float type; all else as it is."""
    if isinstance(x, (tuple, list)):
        return type(x)(_mixed_cast(dst_dtype, v) for v in x)
    if isinstance(x, dict):
        return {k: _mixed_cast(dst_dtype, v) for k, v in x.items()}
    to = dtype_of(dst_dtype, "mixed_precision_cast", "dst_dtype")
    return cast_to(x, to) if isinstance(x, Tensor) and x.dtype.is_float else x


def _reduced_shape(shape: Sequence[int], axis: Any) -> tuple[int, ...]:
    gone = {a % len(shape) for a in (ints(axis, "reduced_shape", "axis") if not is_int(axis)
                                     else (axis,))} or set(range(len(shape)))
    return tuple(1 if i in gone else d for i, d in enumerate(shape))


def _gradient_axes(x: Sequence[int], y: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Of each of two shapes that broadcast, the axes of the result along which it is repeated."""
    whole = broadcast_shapes(tuple(x), tuple(y), "shapes of broadcast_gradient_args")
    found = []
    for shape in (x, y):
        full = (1,) * (len(whole) - len(shape)) + tuple(shape)
        found.append(tuple(i for i, (a, b) in enumerate(zip(full, whole, strict=True))
                           if a != b or i < len(whole) - len(shape)))
    return tuple(found)


def _hyper_add(x: Any, y: Any) -> Any:
    """Sums of two structures of tensors, leaf by leaf."""
    if isinstance(x, (tuple, list)):
        return type(x)(_hyper_add(a, b) for a, b in zip(x, y, strict=True))
    return arith.add(x, y)


def _element_unknown(x: Any) -> bool:
    if not has_open_length(x):
        raise TypeError("For 'is_dynamic_sequence_element_unknown', the input should be variable "
                        f"length sequence, but got {type(x).__name__}.")
    return not x


def _augmented(
    function: Callable[..., Any], plain: Callable[[Any, Any], Any]
) -> Callable[..., Any]:
    """x op= y: of tensors by a function of ours, else by Python."""
    def call(x: Any, y: Any) -> Any:
        return function(x, y) if isinstance(x, Tensor) or isinstance(y, Tensor) else plain(x, y)

    return call


_VALUES: dict[str, Callable[..., Any]] = {
    "scalar_add": operator.add, "scalar_sub": operator.sub, "scalar_mul": operator.mul,
    "scalar_div": operator.truediv, "scalar_floordiv": operator.floordiv,
    "scalar_mod": operator.mod, "scalar_pow": operator.pow, "scalar_eq": operator.eq,
    "scalar_ne": operator.ne, "scalar_lt": operator.lt, "scalar_le": operator.le,
    "scalar_gt": operator.gt, "scalar_ge": operator.ge, "scalar_max": max, "scalar_min": min,
    "scalar_log": math.log, "scalar_uadd": operator.pos, "scalar_usub": operator.neg,
    "bool_and": lambda x, y: x and y, "bool_or": lambda x, y: x or y,
    "bool_not": operator.not_, "bool_eq": operator.eq, "string_eq": operator.eq,
    "string_concat": operator.add, "is_": operator.is_, "is_not": operator.is_not,
    "in_dict": lambda x, y: x in y, "not_in_dict": lambda x, y: x not in y,
    "make_tuple": lambda *items: tuple(items), "make_list": lambda *items: list(items),
    "make_dict": lambda keys, values: dict(zip(keys, values, strict=True)),
    "make_slice": slice, "make_range": make_range,
    "tuple_len": len, "list_len": len, "tuple_getitem": operator.getitem,
    "list_getitem": operator.getitem, "dict_getitem": operator.getitem,
    "tuple_setitem": _set_item(tuple), "list_setitem": _set_item(list),
    "dict_setitem": lambda data, key, value: {**data, key: value},
    "tuple_reversed": lambda x: tuple(x)[::-1], "tuple_equal": operator.eq,
    "list_equal": operator.eq, "tuple_div": _tuple_div,
    "SliceGetItem": lambda x, name: getattr(x, name),
    "shape_mul": lambda shape: math.prod(shape), "shape_": shapes.shape,
    "reduced_shape": _reduced_shape, "broadcast_gradient_args": _gradient_axes,
    "typeof": _type_of, "hastype": _has_type, "isconstant": is_known,
    "is_tensor_bool_cond": lambda x: tensor(x, "is_tensor_bool_cond", "x").size == 1,
    "array_to_scalar": lambda x: tensor(x, "array_to_scalar", "x").item(),
    "is_sequence_value_unknown": lambda x: not is_known(x),
    "is_sequence_shape_unknown": has_open_length,
    "is_dynamic_sequence_element_unknown": _element_unknown,
    "mixed_precision_cast": _mixed_cast, "reshape_": shapes.reshape, "pows": arith.pow,
    "tensor_range": creation.range, "hyper_add": _hyper_add,
    "switch": lambda cond, x, y: call_here(control_source.cond, (cond, lambda: x, lambda: y, ())),
    "switch_layer": lambda index, layers: layers[index],
    "zip_operation": lambda *items: tuple(zip(*items, strict=False)),
    "tail": lambda x: tuple(x)[1:],
    "augassign_add": _augmented(arith.add, operator.add),
    "augassign_sub": _augmented(arith.sub, operator.sub),
    "augassign_mul": _augmented(arith.mul, operator.mul),
    "augassign_div": _augmented(arith.true_divide, operator.truediv),
    "augassign_floordiv": _augmented(arith.floor_divide, operator.floordiv),
    "augassign_mod": _augmented(arith.remainder, operator.mod),
}

_READY = {"tensor_exp": "Exp", "tensor_expm1": "Expm1", "reduce_sum": "ReduceSum",
          "reduce_mean": "ReduceMean", "reduce_max": "ReduceMax", "reduce_min": "ReduceMin"}
"""Classes of which MindSpore has an instance under a name of its own."""

_INTERNAL = (
    "J array_reduce distribute embed env_get environ_add environ_create environ_get environ_set "
    "geswitch iter_converter make_map_parameter merge ms_hasnext ms_next recompute_block "
    "ref_to_embed")
"""Nodes that MindSpore's compiler makes for itself; users call other functions."""


def internal(name: str) -> Callable[..., Any]:
    """Return the stand-in for a node of MindSpore's own compiler: it raises RuntimeError."""
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"ops.{name} is a node that MindSpore's compiler makes for itself and cellc has not: "
            "write what it stands for in Python (a gradient with ops.grad, a branch with 'if', a "
            "loop with 'for')")

    refuse.__doc__ = f"A node of MindSpore's own compiler, which cannot be called ({name})."
    return refuse


def _instances() -> dict[str, Primitive]:
    made = {n: make_primitive(n, f)() for n, f in _VALUES.items()}
    made |= {n: make_primitive(n, internal(n))() for n in _INTERNAL.split()}
    return made | {n: _CLASSES[c]() for n, c in _READY.items()}


PRIMITIVES: Mapping[str, Primitive] = _instances()  # Every instance by name
