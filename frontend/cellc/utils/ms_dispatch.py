"""Ops of the PyNative mode through a function of the user's.

Source: `mindspore.utils.ms_dispatch`.
"""

from __future__ import annotations

from contextlib import ContextDecorator, ExitStack
from typing import Any, Self

from cellc_runtime.site import STATE

from ..core import dispatch
from ..tensors.tensor import Tensor, Tensors


class OpFunc:
    """An op with its options, called with operands.

    Attributes:
        name: of the op (`"Add"`).
    """

    def __init__(self, op: str, attrs: Any) -> None:
        self.name = "".join(part.capitalize() for part in op.split("_"))
        self._op, self._attrs = op, attrs

    def __call__(self, *operands: Tensor, **attrs: Any) -> Any:
        return dispatch.apply(self._op, *operands, **{**self._attrs, **attrs})


class MsDispatchMode(ContextDecorator):
    """Within the block (or the decorated function), ops go through `__ms_dispatch__`.

    Of nested blocks the innermost one takes ops. Compiled networks are one call, not ops; what
    `__ms_dispatch__` computes itself does not go through it.

     Ops have cellc's names, as words (`"ReduceSum"`).

    Examples:
        >>> class Logged(MsDispatchMode):
        ...     def __ms_dispatch__(self, func, args, kwargs=None):
        ...         print(func.name)
        ...         return func(*args)
        >>> with Logged():
        ...     x + y
        Add
    """

    def __ms_dispatch__(self, func: OpFunc, args: Tensors, kwargs: Any = None) -> Any:
        """Return the result of an op.

        Args:
            func: computes the op, with its options: `func(*args)`.
            args: its operands.
            kwargs: its options, which `func` has already.
        """
        return func(*args)

    def __enter__(self) -> Self:
        STATE.begin()
        self._entered = [*self.__dict__.get("_entered", ()), ExitStack()]
        self._entered[-1].callback(STATE.end)
        self._entered[-1].enter_context(dispatch.saving(self._around))
        return self

    def __exit__(self, *error: object) -> None:
        self._entered.pop().close()

    def _around(self, op: str, operands: Tensors, attrs: Any) -> Any:
        with dispatch.saving(None):
            if dispatch.active_tracer() is not None:
                return dispatch.apply(op, *operands, **attrs)
            return self.__ms_dispatch__(OpFunc(op, attrs), operands, dict(attrs) or None)


__all__ = ["MsDispatchMode", "OpFunc"]
