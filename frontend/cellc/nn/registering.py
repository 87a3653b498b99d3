"""Decorators of MindSpore's for the `__init__` of Cells and optimizers, which keep its arguments.

Sources: `mindspore._extends.cell_attr_register`, `mindspore.nn.optim.optimizer`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from ..tensors.tensor import Tensor
from .cell import Cell

F = TypeVar("F", bound=Callable[..., Any])


def cell_attr_register(fn: Any = None, attrs: str | list[str] | None = None) -> Any:
    """Decorates the `__init__` of a Cell: `cell_init_args` is a text of its arguments.

    Args:
        fn: the `__init__` (without one: a decorator).
        attrs: names of attributes that stand for the arguments.
    """
    def decorate(init: F) -> F:
        signature = inspect.signature(init)

        @functools.wraps(init)
        def wrapped(self: Any, *args: Any, **kwargs: Any) -> None:
            init(self, *args, **kwargs)
            if attrs is None:
                shown: Any = {**signature.bind(self, *args, **kwargs).arguments}
                shown.pop(next(iter(shown)))
                shown = shown.values()
            else:
                shown = _values(self, attrs)
            self.cell_init_args = type(self).__name__ + str(shown)

        return wrapped  # type: ignore[return-value]  # the same function with more around it

    return decorate if fn is None else decorate(fn)


def _values(cell: Cell, attrs: Any) -> Any:
    if isinstance(attrs, str):
        return getattr(cell, attrs, [])
    if not isinstance(attrs, list) or not all(isinstance(name, str) for name in attrs):
        raise ValueError(f"'attrs' must be a str or a list of str, but got {attrs!r}.")
    return [getattr(cell, name) for name in attrs if hasattr(cell, name)]


def opt_init_args_register(fn: F) -> F:
    """Decorates the `__init__` of an optimizer: `init_params`, `init_learning_rate` and `init_args`
    keep its arguments."""
    signature = inspect.signature(fn)

    @functools.wraps(fn)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> None:
        if "init_args" in vars(self):  # a derived class has kept its own
            fn(self, *args, **kwargs)
            return
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        given = dict(list(bound.arguments.items())[1:])
        # Beside the attributes that Cell registers: groups of Parameters are none of its own.
        put = functools.partial(object.__setattr__, self)
        if "params" in given:
            put("init_params", {"params": given.pop("params")})
        if "optimizer" in given:
            put("init_params", dict(getattr(given.pop("optimizer"), "init_params", {})))
        if "learning_rate" in given:
            rate = given.pop("learning_rate")
            rate = rate.asnumpy().tolist() if isinstance(rate, Tensor) else rate
            put("init_learning_rate", None if isinstance(rate, Cell) else rate)
        put("init_args", given)
        fn(self, *args, **kwargs)

    return wrapped  # type: ignore[return-value]  # the same function with more around it


__all__ = ["cell_attr_register", "opt_init_args_register"]
