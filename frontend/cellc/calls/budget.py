"""Budgets for the temporaries of gradients: `recompute(budget=...)`.

A budget holds for what is compiled: of everything called in a block, of one function, or of every
program that a marked Cell is part of. Which forward values are then computed again is the
compiler's to choose (`cellc_compiler.lower.budget`). Entries compiled within a block are kept
apart from others, so that leaving it and coming back compiles nothing again.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable
from typing import Any

from ..core.dispatch import active_tracer

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
          "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_FORM = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]*)\s*")


def parse(budget: Any) -> int:
    """A budget in bytes: an int, or a number and a unit, `"256MiB"`."""
    if isinstance(budget, bool) or not isinstance(budget, (int, str)):
        raise TypeError(
            f"For 'recompute', 'budget' must be int (bytes) or str ('256MiB'), but got "
            f"{type(budget).__name__}."
        )
    if isinstance(budget, int):
        nbytes = budget
    else:
        found = _FORM.fullmatch(budget)
        if found is None or found[2].upper() not in _UNITS:
            raise ValueError(
                f"For 'recompute', 'budget' must be a number and one of the units B, KiB, MiB, "
                f"GiB, TiB (powers of 1024) or KB, MB, GB, TB (of 1000), as in '256MiB' or "
                f"'1.5 GB', but got {budget!r}."
            )
        nbytes = int(float(found[1]) * _UNITS[found[2].upper()])
    if nbytes <= 0:
        raise ValueError(
            f"For 'recompute', 'budget' must be at least one byte, but got {budget!r}.")
    return nbytes


class _Active(threading.local):
    """The budgets of the blocks that a thread is in."""

    stack: tuple[int, ...] = ()


_active = _Active()


def active() -> int | None:
    """The budget of the block at hand: the innermost one's; None outside."""
    return _active.stack[-1] if _active.stack else None


def least(*budgets: int | None) -> int | None:
    """The smallest of some budgets; None if there is none."""
    return min((b for b in budgets if b is not None), default=None)


class Budget:
    """The result of `recompute(budget=...)`: a block, or a decorator of Cells and functions."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    def __enter__(self) -> Budget:
        _active.stack = (*_active.stack, self.nbytes)
        return self

    def __exit__(self, *_: object) -> None:
        _active.stack = _active.stack[:-1]

    def __call__(self, target: Any) -> Any:
        """The Cell or class of Cells, marked; or a function that runs within the budget."""
        if hasattr(target, "_recompute_budget") and not isinstance(target, Budgeted):
            target._recompute_budget = self.nbytes
            return target
        if not callable(target) or isinstance(target, type):
            raise TypeError(
                "For 'recompute', a budget is for a Cell or a function (of ms.jit, "
                f"ms.value_and_grad, ...), but got {target!r}."
            )
        return Budgeted(target, self)

    def __repr__(self) -> str:
        return f"recompute(budget={self.nbytes})"


class Budgeted:
    """A function whose gradients are compiled within a budget. Its other attributes are the
    function's own."""

    def __init__(self, fn: Callable[..., Any], budget: Budget) -> None:
        functools.update_wrapper(self, fn)
        self.__wrapped__ = fn
        self.budget = budget

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tracer = active_tracer()
        if tracer is not None:
            tracer.budget = least(tracer.budget, self.budget.nbytes)
            return tracer.interpret(self.__wrapped__, args, kwargs)
        with self.budget:
            return self.__wrapped__(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "__wrapped__":
            raise AttributeError(name)
        return getattr(self.__wrapped__, name)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        bound = getattr(self.__wrapped__, "__get__", None)
        return self if bound is None else Budgeted(bound(instance, owner), self.budget)
