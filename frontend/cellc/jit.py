"""`jit`: functions and methods compiled as graphs, in either mode. Source: `mindspore.jit`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .core import compiled
from .core.dispatch import active_tracer
from .pynative.recorder import active_recordings


class Jitted:
    """A function compiled at its first call for each signature.

    Under an eager gradient it runs op by op, so that the recording sees it; the bits are the
    same.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.table = compiled.EntryTable()
        self.methods: dict[int, tuple[Any, compiled.EntryTable]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _call(self.fn, self.table, args, kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        found = self.methods.get(id(instance))
        if found is None or found[0] is not instance:
            found = self.methods[id(instance)] = instance, compiled.EntryTable()
        bound = self.fn.__get__(instance, owner)
        table = found[1]

        @functools.wraps(self.fn)
        def method(*args: Any, **kwargs: Any) -> Any:
            return _call(bound, table, args, kwargs)

        return method


def _call(
    fn: Callable[..., Any], table: compiled.EntryTable, args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    tracer = active_tracer()
    if tracer is not None:
        return compiled.inline(tracer, fn, args, kwargs)
    if active_recordings():
        return fn(*args, **kwargs)
    return table.call(fn, args, kwargs)


def jit(
    function: Callable[..., Any] | None = None, *, capture_mode: str = "ast",
    jit_level: str = "O0", dynamic: int = 0, fullgraph: bool = False, backend: str = "",
    input_signature: Any = None, hash_args: Any = None, jit_config: Any = None,
    compile_once: bool = False, **options: Any,
) -> Any:
    """Compile a function or method as a graph.

    Args:
        function: what to compile; without it, a decorator is returned.
        capture_mode: `"ast"`; others are accepted and mean the same here.
        jit_level, dynamic, fullgraph, backend, input_signature, hash_args, jit_config,
            compile_once, options: accepted for compatibility.

    Raises:
        TypeError: `function` is not callable.
    """
    if capture_mode not in ("ast", "bytecode", "trace"):
        raise ValueError(
            f"The value of argument 'capture_mode' must be one of 'ast', 'bytecode', 'trace', "
            f"but got {capture_mode!r}."
        )
    if function is None:
        return lambda fn: jit(fn)
    if not callable(function):
        raise TypeError(f"'function' must be callable, but got {type(function).__name__}.")
    return Jitted(function)
