"""Functions and Primitive classes made from the op definitions, for ops that map one to one.

Type checkers read what the functions take in `stubs/functions.pyi`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from cellc_compiler.ir.op import INTS, REQUIRED, Op, user_ops
from cellc_compiler.ops.elementwise import Unary
from cellc_runtime.dtypes import float32
from cellc_runtime.lazy import names_of

from ...core.dispatch import apply
from ...core.native import native_body
from ...tensors.promotion import cast_to, common
from ...tensors.tensor import Tensor
from ..arguments import tensor


def _signature(op: Op) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    params = [inspect.Parameter(n, kind) for n in op.operands]
    for name, attr in op.attrs.items():
        empty = inspect.Parameter.empty if attr.default is REQUIRED else attr.default
        params.append(inspect.Parameter(name, kind, default=empty))
    return inspect.Signature(params)


def _promote_operands(op: Op, given: tuple[Any, ...]) -> list[Tensor]:
    """Operands promoted to one type; ints in float32 where the op takes floats only."""
    xs = [tensor(given[0], op.name)] if len(given) == 1 else common(op.name, *given)
    if not xs[0].dtype.is_inexact and not any(d in op.dtypes for d in INTS):
        xs = [cast_to(x, float32) for x in xs]
    return xs


def _text(op: Op) -> str:
    """The text of an op, with what follows from its kind and its element types."""
    doc = op.__doc__ or ""
    if not isinstance(op, Unary) or op.attrs:
        return doc
    floats = "" if any(d in op.dtypes for d in INTS) else "; ints are computed in float32"
    head, source, rest = doc.partition(" Source:")
    return f"{head} Elementwise{floats}.{source}{rest}"


@cache
def make_function(op: Op, called_x: bool = False) -> Callable[..., Any]:
    """The functional form of an op: its operands, then its attributes. `called_x`: whether the only
    operand is `x`, where MindSpore has that name."""
    signature = _signature(op)
    count = len(op.operands)
    plain = not op.attrs and not any(n.startswith("*") for n in op.operands)

    @native_body(any_shape=True)
    def promoted(*operands: Any, **attrs: Any) -> Any:
        return apply(op.name, *_promote_operands(op, operands), **attrs)

    def unary(input: Any) -> Any:
        return promoted(input)

    def of_x(x: Any) -> Any:
        return promoted(x)

    def general(*args: Any, **kwargs: Any) -> Any:
        if not kwargs and len(args) == count and plain:
            return promoted(*args)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        values = list(bound.arguments.values())
        attrs = dict(zip(op.attrs, values[count:], strict=True))
        return promoted(*values[:count], **attrs)

    fn: Callable[..., Any] = unary if op.operands == ("input",) and not op.attrs else general
    name = op.function or op.name
    if called_x:
        fn, signature = of_x, inspect.signature(of_x)
    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = _text(op)
    fn.__signature__ = signature  # type: ignore[attr-defined]  # for inspect
    return fn


ALIASES = {
    "arccos": "acos", "arcsin": "asin", "arctan": "atan", "arccosh": "acosh", "arcsinh": "asinh",
    "arctanh": "atanh",
}
"""Other public names of functions made from op definitions."""
_CALLED_X = re.compile("arcsin|bessel_.*")  # Public names whose operand is `x` in MindSpore


def generated_functions() -> dict[str, Callable[..., Any]]:
    """Every function the op definitions ask for, by name."""
    found = {op.function: op for op in user_ops() if op.function}
    found |= {alias: found[name] for alias, name in ALIASES.items()}
    return {name: make_function(op, _CALLED_X.fullmatch(name) is not None)
            for name, op in found.items()}


def generated_methods() -> dict[str, Callable[..., Any]]:
    """Every Tensor method the op definitions ask for, by name."""
    return {op.method: make_function(op) for op in user_ops() if op.method}


FUNCTIONS = generated_functions()
__all__ = sorted(FUNCTIONS)
__getattr__ = names_of(__name__, FUNCTIONS)
