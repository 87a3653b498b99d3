"""Functions over structures: HyperMap, Map, MultitypeFuncGraph and partial.

Source: the same names in `mindspore.ops`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from cellc_runtime.dtypes import BY_NAME, bool_

from ..compiled.inline import call_here
from ..core.declared import FUNCTION, instance, misuse
from ..core.native import names_itself
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor
from .sparse_tensors import COOTensor, CSRTensor, RowTensorInner

F = TypeVar("F", bound=Callable[..., Any])

_KINDS: dict[str, tuple[type, ...]] = {
    "Tensor": (Tensor,), "Ref": (Parameter,), "Bool": (bool,), "Int": (int,), "Float": (float,),
    "Number": (bool, int, float), "String": (str,), "Tuple": (tuple,), "List": (list,),
    "Dictionary": (dict,), "TypeNone": (type(None),), "None": (type(None),),
    "RowTensor": (RowTensorInner,), "COOTensor": (COOTensor,), "CSRTensor": (CSRTensor,),
}
_KINDS.update({str(dtype): _KINDS["Int" if dtype.is_integer else "Float"]
               for dtype in BY_NAME.values() if dtype is not bool_})
_OF_OTHERS = ("MapTensor", "UMonad", "IOMonad", "Env", "EnvType", "Keyword", "Problem",
              "SymbolicKey", "Slice", "Ellipsis")
"""Kinds that values here never have; scripts register functions for them."""


def partial(func: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """A function that calls `func` with these arguments first, as `functools.partial`, and can be
    compiled."""
    FUNCTION(func, "partial", "func")
    return functools.partial(func, *args, **keywords)


@names_itself
class MultitypeFuncGraph:
    """A function that is chosen by the types of its arguments.

    Args:
        name: what errors call it.
        read_value: accepted for compatibility.
        doc_url: accepted for compatibility.

    Examples:
        >>> scale = ops.MultitypeFuncGraph("scale")
        >>> @scale.register("Number", "Tensor")
        ... def scaled(factor, x):
        ...     return x * factor
    """

    def __init__(self, name: str, read_value: bool = False, doc_url: str = "") -> None:
        instance(str)(name, "MultitypeFuncGraph", "name")
        self.name = name
        self.entries: list[tuple[tuple[str, ...], Callable[..., Any]]] = []

    def register(self, *type_names: Any) -> Callable[[F], F]:
        """A decorator: the function serves arguments of these types.

        Args:
            type_names: for each argument "Tensor", "Number", "Bool", "Int", "Float", "String",
                "Tuple", "List", "Dictionary", "Function" or "TypeNone"; or a dtype for tensors.
        """
        names = tuple(_kind_name(t) for t in type_names)

        def keep(fn: F) -> F:
            self.entries = [*self.entries, (names, fn)]
            return fn

        return keep

    def __call__(self, *args: Any) -> Any:
        """Call the function that was registered first for such arguments."""
        for names, fn in self.entries:
            if len(names) == len(args) and all(map(_is_of, args, names)):
                return call_here(fn, args)
        raise misuse("MultitypeFuncGraph", f"'{self.name}' has no function for arguments of types "
                     f"{[type(a).__name__ for a in args]}; there are "
                     f"{[names for names, _ in self.entries]}", kind=TypeError)


def _kind_name(given: Any) -> str:
    if isinstance(given, str):
        if given not in _KINDS and given not in _OF_OTHERS and given != "Function":
            raise misuse("MultitypeFuncGraph", f"there is no type {given!r}; there are "
                         f"{', '.join([*_KINDS, 'Function', *_OF_OTHERS])}", kind=TypeError)
        return given
    text = str(given).lower()
    for word, name in (("tensor", "Tensor"), ("number", "Number"), ("tuple", "Tuple"),
                       ("list", "List"), ("string", "String"), ("bool", "Bool"),
                       ("function", "Function"), ("none", "TypeNone"), ("int", "Int"),
                       ("float", "Float")):
        if word in text:
            return name
    raise misuse("MultitypeFuncGraph", "a type's name is wanted", repr(given), TypeError)


def _is_of(value: Any, name: str) -> bool:
    if name == "Function":
        return callable(value) and not isinstance(value, Tensor)
    return isinstance(value, _KINDS.get(name, ()))


@names_itself
class Map:
    """Calls a function on the elements of sequences, at their outermost level.

    Args:
        ops: the function; None: it is the first argument of the call.
        reverse: call it on the last elements first.
    """

    def __init__(self, ops: Callable[..., Any] | None = None, reverse: bool = False) -> None:
        if ops is not None:
            self._check(ops)
        self.ops = ops
        self.reverse = bool(reverse)

    def __call__(self, *args: Any) -> Any:
        """The results, as a tuple."""
        fn, rest = (self.ops, args) if self.ops is not None else (args[0], args[1:])
        self._check(fn)
        return self._mapped(fn, rest)

    def _check(self, fn: Any) -> None:
        FUNCTION(fn, type(self).__name__, "ops")

    def _each(self, fn: Any, args: tuple[Any, ...]) -> Any:
        return fn(*args)

    def _mapped(self, fn: Any, args: tuple[Any, ...]) -> Any:
        if not isinstance(args[0], (tuple, list)):
            return fn(*args)
        count = min([len(a) for a in args])
        order = range(count - 1, -1, -1) if self.reverse else range(count)
        out = [self._each(fn, tuple([a[i] for a in args])) for i in order]
        return tuple(out[::-1] if self.reverse else out)


class HyperMap(Map):
    """Calls a function on the elements of sequences that may be nested.

    Args:
        ops: the function; None: it is the first argument of the call.
        reverse: call it on the last elements first.
    """

    def _each(self, fn: Any, args: tuple[Any, ...]) -> Any:
        return self._mapped(fn, args)


__all__ = ["HyperMap", "Map", "MultitypeFuncGraph", "partial"]
