"""The table of rules: each core ATen operator in ops of cellc.

A rule is a function of the call and its arguments, as torch's schema orders them. Tensors come as
Tensors, sizes as ints or open sizes, element types as torch's. Its result is converted to the
element type that torch has for it. `network` checks each node once, so a rule whose result has
another shape than torch's, or that raises, leaves its node to torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from cellc_compiler.ir.dims import is_symbolic
from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType
from cellc_runtime.lazy import lazy_imports

from ..core.dispatch import apply_one
from ..ops.functional.arith import wide as wide
from ..tensors.promotion import cast_to, constant
from ..tensors.tensor import Tensor, tensor_of

with lazy_imports(__name__):  # the tables are read without torch, too
    import torch

F = TypeVar("F", bound=Callable[..., Any])
A = apply_one
_SAME = ("float16", "bfloat16", "float32", "float64", "uint8", "uint16", "uint32", "uint64",
         "int8", "int16", "int32", "int64", "complex64", "complex128")
DTYPES: dict[str, DType] = {
    **{f"torch.{name}": getattr(dtypes, name) for name in _SAME}, "torch.bool": dtypes.bool_}
"""Element types by torch's names."""
RULES: dict[str, Callable[..., Any]] = {}
"""By torch's name of the operator, with its overload (`aten.add.Tensor`) or without."""


class Refused(Exception):
    """A node that no rule computes as torch does."""


def rule(*names: str) -> Callable[[F], F]:
    """Register a rule for operators of `aten`, or of another library if the name has a dot first
    (`prims.iota`)."""
    def register(fn: F) -> F:
        for name in names:
            full = name if name.startswith("prims.") else f"aten.{name}"
            assert full not in RULES, full
            RULES[full] = fn
        return fn

    return register


def rules(table: Mapping[str, Callable[..., Any]]) -> None:
    """Register rules: each row has the names of its operators, apart by spaces."""
    for names, fn in table.items():
        rule(*names.split())(fn)


def rule_of(target: Any) -> Callable[..., Any] | None:
    """The rule of an operator of torch; None without one."""
    name = str(target)
    return RULES.get(name) or RULES.get(name.rpartition(".")[0])


def dtype_of(given: Any) -> DType:
    """The element type that torch's stands for.

    Raises:
        Refused: no tensor here has it.
    """
    found = DTYPES.get(str(given))
    if found is None:
        raise Refused(f"elements of {given}")
    return found


class Call:
    """One node as a rule sees it.

    Attributes:
        node: of torch's graph.
        values: torch's types of its results.
    """

    __slots__ = ("node", "values")

    def __init__(self, node: torch.fx.Node) -> None:
        self.node = node
        found = node.meta["val"]
        self.values = list(found) if isinstance(found, (tuple, list)) else [found]

    @property
    def name(self) -> str:
        """The operator, without library and overload."""
        return str(self.node.target).split(".")[1]

    @property
    def dtype(self) -> DType:
        """The element type of the first result."""
        return dtype_of(self.values[0].dtype)

    def reads(self, *results: int) -> bool:
        """Whether the graph reads one of these results."""
        return any(u.args[1] in results and u.users for u in self.node.users)

    def common(self) -> DType:
        """The element type that torch computes in for the first two operands."""
        metas = [_meta(a) for a in self.node.args[:2]]
        return dtype_of(torch.result_type(*metas))


def _meta(argument: Any) -> Any:
    """The type of an argument; a number stands for itself."""
    found = argument.meta["val"] if hasattr(argument, "meta") else argument
    if isinstance(found, torch.SymInt):
        return 1
    return 1.0 if isinstance(found, torch.SymFloat) else found


def hint(size: Any) -> Any:
    """The number that stands for an open size in this call."""
    return size.node.hint if isinstance(size, (torch.SymInt, torch.SymFloat, torch.SymBool)) \
        else size


def to(x: Tensor, dtype: DType) -> Tensor:
    """A tensor in another element type; complex numbers stay complex.

    Raises:
        Refused: the imaginary parts would be lost.
    """
    if x.dtype.is_complex and not (dtype.is_complex or dtype is dtypes.bool_):
        raise Refused(f"{x.dtype} as {dtype}")
    return x if x.dtype is dtype else cast_to(x, dtype)


def like(value: Any, dtype: DType) -> Tensor:
    """A tensor or number in an element type."""
    if isinstance(value, Tensor):
        return to(value, dtype)
    if is_symbolic(value):
        return constant(value, dtype)
    return tensor_of(np.array(value).astype(dtype.numpy))


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from 0."""
    a = axis + rank if axis < 0 else axis
    if not 0 <= a < max(rank, 1):
        raise Refused(f"the axis {axis} of {rank}")
    return a


def axes_of(axes: Any, rank: int) -> tuple[int, ...]:
    """Axes counted from 0 in ascending order; all if none are given."""
    given = [axes] if isinstance(axes, int) else axes
    return tuple(sorted(axis_of(a, rank) for a in given)) if given else tuple(range(rank))


def reshaped(x: Tensor, shape: Any) -> Tensor:
    """A tensor in another shape."""
    return A("reshape", x, shape=tuple(shape))
