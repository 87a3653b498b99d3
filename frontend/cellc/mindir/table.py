"""Primitives of MindSpore as functions of cellc.

Most are found by name: the class of `cellc.ops` with that name is called with the node's inputs and
made with its attributes. A primitive that takes all its arguments as inputs has those of the init
last. `RULES` has the others, functions of a primitive's inputs in MindSpore's order.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Mapping, Sequence
from functools import cache
from typing import Any

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType
from cellc_runtime.errors import counted

from ..ops.primitive import Primitive as Made
from ..ops.primitives import find
from .gradients import GRADIENTS
from .rules import FUNCTIONS
from .wire import MindirError, Primitive

TYPES: dict[int, DType] = {
    30: dtypes.bool_, 32: dtypes.int8, 33: dtypes.int16, 34: dtypes.int32, 35: dtypes.int64,
    37: dtypes.uint8, 38: dtypes.uint16, 39: dtypes.uint32, 40: dtypes.uint64, 42: dtypes.float16,
    43: dtypes.float32, 44: dtypes.float64, 45: dtypes.bfloat16, 51: dtypes.complex64,
    52: dtypes.complex128,
}
"""MindSpore's numbers of element types."""
_LAYOUTS = {0: "NCHW", 1: "NHWC", 14: "NCDHW"}
WORDS: dict[str, Mapping[int, Any]] = {
    "data_format": _LAYOUTS, "format": _LAYOUTS, "pad_mode": {0: "pad", 1: "same", 2: "valid"},
    "padding": {0: "pad", 1: "same", 2: "valid"}, "reduction": {0: "sum", 1: "mean", 2: "none"},
    "approximate": {0: "none", 1: "tanh"}, "rounding_mode": {1: "trunc", 2: "floor"},
    "norm": {0: "backward", 1: "forward", 2: "ortho"},
    **dict.fromkeys(("dtype", "output_type", "argmax_type", "out_type", "dst_type"), TYPES),
}
"""Arguments that a file has as numbers, by name."""
_MARKS = frozenset((
    "DstT", "IsFeatureMapInputList", "IsFeatureMapOutput", "N", "SrcT", "T", "_parallel_origin",
    "checkpoint", "const_prop", "const_value", "constexpr_prim", "cust_aicpu", "dilations",
    "dyn_input_sizes", "format", "group_rank_ids", "groups", "in_strategy", "input_names",
    "inputs_desc", "instance_name", "io_format", "is_load", "n", "num", "out_strategy",
    "output_names", "pad_list", "primitive_function", "primitive_target", "recompute", "shape",
    "side_effect_hidden", "side_effect_io", "side_effect_mem", "side_effect_propagate", "strides",
    "target", "visited"))
"""Attributes of primitives that do not change what they compute."""
_NEUTRAL: dict[str, Any] = {"sens": 1.0, "offset_x": 0, "shift": 0.0, "scale": 1.0, "base": -1.0,
                            "offset_a": 0, "cust": False}
"""Attributes that are read as long as they have this value."""
RULES: dict[str, Callable[..., Any]] = {**FUNCTIONS, **GRADIENTS}


@cache
def _made(op: str) -> type[Made] | None:
    """The class of `cellc.ops` with this name."""
    found = find(op) if op.isidentifier() and op[:1] != "_" else None
    return found if isinstance(found, type) and issubclass(found, Made) and \
        hasattr(found, "function") else None


def is_known(op: str) -> bool:
    """Whether there is something here for a primitive."""
    return op in RULES or _made(op) is not None


def apply_primitive(primitive: Primitive, inputs: Sequence[Any]) -> Any:
    """The result of a primitive for the values of its inputs. Raises MindirError if an attribute or
    a number of inputs is not supported."""
    rule = RULES.get(primitive.op)
    if rule is not None:
        names = _parameters(rule)
        any_name = "attrs" in names
        _refuse_others(primitive, primitive.attrs if any_name else names)
        given = {n: _worded(n, v) for n, v in primitive.attrs.items()
                 if n in names or (any_name and n not in _MARKS)}
        _check_count(rule, given, len(inputs))
        return rule(*_worded_all(names, inputs), **given)
    made = _made(primitive.op)
    if made is None:
        raise MindirError(f"nothing here is like the primitive {primitive.op!r}")
    init = made.parameters
    names = tuple(n for n in _parameters(made.function) if n not in init)
    if not primitive.positional:
        _refuse_others(primitive, init)
        attrs = {n: _worded(n, v) for n, v in primitive.attrs.items()
                 if n in init and n != "pad_list"}
        _check_count(made.function, init, len(inputs))
        return made(**attrs)(*_worded_all(names, inputs))
    _refuse_others(primitive, ())
    count = len(inputs) - len(init)
    if count < 0:
        raise MindirError(f"it has {len(inputs)} inputs, but {primitive.op!r} takes {len(init)} "
                          "or more")
    _check_count(made.function, init, count)
    attrs = {n: _worded(n, v) for n, v in zip(init, inputs[count:], strict=True)}
    return made(**attrs)(*_worded_all(names, inputs[:count]))


def _refuse_others(primitive: Primitive, known: Any) -> None:
    """Attributes that change a result must be known."""
    for name, value in primitive.attrs.items():
        if name in known or name in _MARKS or _NEUTRAL.get(name, _NEUTRAL) == value:
            continue
        raise MindirError(f"its attribute {name!r} ({value!r}) is not read")


def _check_count(function: Any, named: Container[str], count: int) -> None:
    """A function must take `count` inputs besides the arguments that are given by name."""
    given = [p for p in _signature(function).parameters.values() if p.name not in named]
    if any(p.kind is p.VAR_POSITIONAL for p in given):
        return
    given = [p for p in given if p.kind is p.POSITIONAL_OR_KEYWORD]
    least = sum(p.default is p.empty for p in given)
    if not least <= count <= len(given):
        most = "" if least == len(given) else f" to {len(given)}"
        raise MindirError(f"it has {counted(count, 'input')}, but its primitive takes "
                          f"{least}{most}")


@cache
def _signature(function: Any) -> inspect.Signature:
    return inspect.signature(function)


@cache
def _parameters(function: Any) -> tuple[str, ...]:
    """The names of a function's parameters, in order."""
    return tuple(_signature(function).parameters)


def _worded_all(names: Sequence[str], values: Sequence[Any]) -> list[Any]:
    """Values with the types and words that numbers of theirs stand for."""
    return [_worded(names[i], v) if i < len(names) else v for i, v in enumerate(values)]


def _worded(name: str, value: Any) -> Any:
    words = WORDS.get(name)
    if words is None or not isinstance(value, int) or isinstance(value, bool):
        return value
    if value not in words:
        raise MindirError(f"its argument {name!r} has the number {value}, which is not read")
    return words[value].upper() if name == "pad_mode" and value else words[value]
