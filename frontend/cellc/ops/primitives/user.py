"""Primitives that users define, and functions that run while a graph is made.

A class of MindSpore's that derives from `PrimitiveWithInfer` or `PrimitiveWithCheck` says what its
results are; what computes them is a kernel of its name. Here such a primitive gives what its
`infer_value` (or `__infer__`) finds for arguments known at compile time, and else does what the
primitive of `cellc.ops` of its name does.

Sources: `mindspore.ops.PrimitiveWithInfer`, `mindspore.ops.constexpr`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, overload

from cellc_runtime.lazy import imported

from ...tensors.dtype import pytype_to_dtype
from ...tensors.tensor import Tensor
from ...tracing.tracer import GraphTensor
from ..primitive import Primitive

F = TypeVar("F", bound=Callable[..., Any])


def _shape_of(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(_shape_of(v) for v in value)
    return list(value.shape) if isinstance(value, Tensor) else ()


def _dtype_of(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(_dtype_of(v) for v in value)
    if isinstance(value, Tensor):
        return value.dtype
    return pytype_to_dtype(type(value)) if isinstance(value, (bool, int, float, str)) else None


def _holds_tensor(value: Any, kind: type = Tensor) -> bool:
    if isinstance(value, (tuple, list)):
        return any(_holds_tensor(v, kind) for v in value)
    return isinstance(value, kind)


class _Defined(Primitive):
    """The call of a user's primitive."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.init_attrs: dict[str, Any] = {"name": self.name}

    def _run(self, *operands: Any, **kwargs: Any) -> Any:
        self._check(operands)
        found = self._known(operands)
        return super()._run(*operands, **kwargs) if found is None else found

    def _check(self, operands: tuple[Any, ...]) -> None:
        """Let the class refuse the operands."""

    def _facts(self, operands: tuple[Any, ...]) -> list[dict[str, Any]]:
        return [{"shape": _shape_of(x), "dtype": _dtype_of(x),
                 "value": None if _holds_tensor(x) else x} for x in operands]

    def _known(self, operands: tuple[Any, ...]) -> Any:
        """The result where it follows from operands known at compile time, or None."""
        infer_value = getattr(self, "infer_value", None)
        if infer_value is None or any(map(_holds_tensor, operands)):
            return None
        return infer_value(*operands)


class PrimitiveWithInfer(_Defined):
    """Base of primitives that say what types they give.

    A class derived from it may have `infer_shape`, `infer_dtype` and `infer_value`, each of one
    argument for each operand, or `__infer__`, of a dict with `shape`, `dtype` and `value` each.

    Args:
        name: the primitive's name: without `infer_value` it does what `cellc.ops` has of that name.

    Raises:
        RuntimeError: (when called) there is no primitive of its name.

    Examples:
        >>> class Twice(ops.PrimitiveWithInfer):
        ...     @ops.prim_attr_register
        ...     def __init__(self):
        ...         pass
        ...     def infer_value(self, x):
        ...         return 2 * x
        >>> Twice()(3)
        6
    """

    def _check(self, operands: tuple[Any, ...]) -> None:
        facts = self._facts(operands)
        for name, key in (("infer_shape", "shape"), ("infer_dtype", "dtype")):
            infer = getattr(self, name, None)
            if infer is not None:
                infer(*[fact[key] for fact in facts])

    def _known(self, operands: tuple[Any, ...]) -> Any:
        infer = getattr(self, "__infer__", None)
        if infer is None:
            return super()._known(operands)
        return infer(*self._facts(operands)).get("value")


class PrimitiveWithCheck(_Defined):
    """Base of primitives that check their operands.

    A class derived from it may have `check_shape` and `check_dtype`, each of one argument for each
    operand, `__check__`, of a dict with `shape`, `dtype` and `value` each, and `infer_value`.

    Args:
        name: the primitive's name: it does what `cellc.ops` has of that name.

    Raises:
        RuntimeError: (when called) there is no primitive of its name.
    """

    def _check(self, operands: tuple[Any, ...]) -> None:
        facts = self._facts(operands)
        whole = getattr(self, "__check__", None)
        if whole is not None:
            whole(*facts)
            return
        for name, key in (("check_shape", "shape"), ("check_dtype", "dtype")):
            check = getattr(self, name, None)
            if check is not None:
                check(*[fact[key] for fact in facts])


def prim_attr_register(fn: F) -> F:
    """Decorates the `__init__` of a primitive: its arguments become attributes of the primitive.

    Examples:
        >>> class Scale(ops.PrimitiveWithCheck):
        ...     @ops.prim_attr_register
        ...     def __init__(self, factor=2.0):
        ...         self.init_prim_io_names(inputs=["x"], outputs=["y"])
        >>> Scale(3.0).factor
        3.0
    """
    signature = inspect.signature(fn)

    @functools.wraps(fn)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        base = _Defined if isinstance(self, _Defined) else Primitive
        base.__init__(self, getattr(type(self), "substitute_name", type(self).__name__))
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        given = dict(list(bound.arguments.items())[1:])
        for name, value in given.items():
            self.add_prim_attr(name, value)
        self.init_attrs = given
        fn(self, *args, **kwargs)

    return init  # type: ignore[return-value]  # the same function with more around it


prim_arg_register = prim_attr_register


class ConstantFunction(Primitive):
    """A function that Python runs while a graph is made; see `constexpr`."""

    def __init__(self, fn: Callable[..., Any], name: str | None, check: bool) -> None:
        super().__init__(name or fn.__name__)
        self.fn = fn
        self.check = check
        self.add_prim_attr("constexpr_prim", True)

    def _run(self, *operands: Any, **kwargs: Any) -> Any:
        if self.check:
            for i, x in enumerate((*operands, *kwargs.values())):
                if _holds_tensor(x, GraphTensor):
                    raise TypeError(f"The constexpr function '{self.name}' takes values known at "
                                    f"compile time, but argument {i} is a tensor of the graph, "
                                    "whose elements only the run knows. Pass its shape or dtype, "
                                    "or leave the decorator away.")
        return self.fn(*operands, **kwargs)


@overload
def constexpr(
    fn: Callable[..., Any], get_instance: bool = ..., name: str | None = ...,
    reuse_result: bool = ..., check: bool = ...,
) -> Any: ...


@overload
def constexpr(
    fn: None = None, get_instance: bool = ..., name: str | None = ..., reuse_result: bool = ...,
    check: bool = ...,
) -> Callable[[Callable[..., Any]], Any]: ...


def constexpr(
    fn: Callable[..., Any] | None = None, get_instance: bool = True, name: str | None = None,
    reuse_result: bool = True, check: bool = True,
) -> Any:
    """A function that Python runs while a graph is made, on values known then.

    Its body may be any Python. In graph mode the result is part of the graph, so it must follow
    from the arguments; in PyNative mode the function runs in each call.

    Args:
        fn: the function (without one: a decorator).
        get_instance: False gives a class; an instance of it is the function.
        name: what errors call it; the function's name if None.
        reuse_result: accepted for compatibility: a graph holds the result in any case.
        check: refuse tensors whose elements only the run knows.

    Examples:
        >>> @ms.constexpr
        ... def halves(shape):
        ...     return tuple(n // 2 for n in shape)
        >>> halves((4, 6))
        (2, 3)
    """
    def decorate(function: Callable[..., Any]) -> Any:
        if get_instance:
            return ConstantFunction(function, name, check)
        return functools.partial(ConstantFunction, function, name, check)

    return decorate if fn is None else decorate(fn)


def _primexpr(
    fn: Callable[..., Any] | None = None, get_instance: bool = True, name: str | None = None,
    reuse_result: bool = True,
) -> Any:
    """`constexpr` whose function is also given tensors of the graph."""
    return constexpr(fn, get_instance, name, reuse_result, check=False)


def _get_cache_prim(cls: type[Primitive]) -> Callable[..., Primitive]:
    """A function that makes primitives of a class, one for each set of arguments."""
    @functools.cache
    def made(*args: Any, **kwargs: Any) -> Primitive:
        return cls(*args, **kwargs)

    def make(*args: Any, **kwargs: Any) -> Primitive:
        try:
            return made(*args, **kwargs)
        except TypeError:  # an argument that has no hash
            return cls(*args, **kwargs)

    return make


def same_named(primitive: Primitive) -> Callable[..., Any]:
    """Return the function of `cellc.ops` with the name of a user's primitive."""
    known = imported("cellc.ops.primitives").find(primitive.name)
    if not isinstance(known, type) or not issubclass(known, Primitive):
        raise RuntimeError(f"The primitive '{primitive.name}' says what its results are, but not "
                           "how to compute them, and cellc.ops has no primitive "
                           f"'{primitive.name}'. Write it as a function of ops, give the class an "
                           "infer_value for constants, or use ops.Custom.")
    attrs = {k: v for k, v in primitive.attrs.items() if k in known.parameters}
    made: Callable[..., Any] = known(**attrs)
    return made


__all__ = [
    "PrimitiveWithCheck", "PrimitiveWithInfer", "constexpr", "prim_arg_register",
    "prim_attr_register",
]
