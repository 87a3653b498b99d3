"""`jit`: functions and methods compiled as graphs, in either mode. Source: `mindspore.jit`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, overload

from .. import context
from ..compiled.inline import inline
from ..core import observers
from ..core.console_source import hold_console_source
from ..core.dispatch import active_tracer, auto_precision, precision
from ..core.module_names import plain
from ..eager.recorder import active_recordings
from ..tensors.tensor import Tensor
from . import entries
from .dynamic import parameter_names

F = TypeVar("F", bound=Callable[..., Any])


_SHOWN = 4  # Signatures that the printed form of a jitted function names


class Jitted:
    """A function compiled at its first call for each signature.

    Under an eager gradient it runs op by op, so that the recording sees it; the bits are the
    same.
    """

    def __init__(
        self, fn: Callable[..., Any], signature: Any = None,
        strict: bool = False,
    ) -> None:
        hold_console_source()
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.signature = signature
        self.strict = strict
        self.table = self._table()
        self.methods: dict[int, tuple[Any, entries.EntryTable]] = {}

    def open(self, signature: Any) -> None:
        """Describe the arguments: by position, or by name; sizes may be left open."""
        self.signature = signature
        self.table = self._table()
        self.methods.clear()

    def __repr__(self) -> str:
        code = plain(self.fn, "__code__")
        where = f" at {code.co_filename}:{code.co_firstlineno}" if code is not None else ""
        tables = [self.table, *(table for _, table in self.methods.values())]
        made = list(dict.fromkeys(c.signature for t in tables for c in t.history))
        held = "; ".join(made[:_SHOWN]) + ("; ..." if len(made) > _SHOWN else "")
        state = f"{len(made)} compiled: {held}" if made else "nothing compiled yet"
        name = plain(self.fn, "__qualname__", type(self.fn).__name__)
        return f"<jit of {name}{where}, {state}>"

    def _table(self) -> entries.EntryTable:
        table = entries.EntryTable()
        table.open(self.signature)
        table.strict = self.strict
        return table

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _call(self.fn, self.table, args, kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        found = self.methods.get(id(instance))
        if found is None or found[0] is not instance:
            found = self.methods[id(instance)] = instance, self._table()
        bound = self.fn.__get__(instance, owner)
        table = found[1]

        @functools.wraps(self.fn)
        def method(*args: Any, **kwargs: Any) -> Any:
            return _call(bound, table, args, kwargs)

        method.__compiled__ = table  # type: ignore[attr-defined]  # read by tools
        return method


def _call(
    fn: Callable[..., Any], table: entries.EntryTable, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    tracer = active_tracer()
    if tracer is not None:
        return inline(tracer, fn, args, kwargs)
    if active_recordings() or auto_precision() is not None or precision() is not None or \
            context.op_by_op():
        return fn(*args, **kwargs)
    if observers.calls:
        return observers.calls[-1](fn, args, kwargs, lambda: table.call(fn, args, kwargs))
    return table.call(fn, args, kwargs)


@overload
def jit(
    function: F, *, capture_mode: str = ..., jit_level: str = ..., dynamic: int = ...,
    fullgraph: bool = ..., backend: str = ..., input_signature: Any = ..., **options: Any,
) -> F: ...


@overload
def jit(
    function: None = None, *, capture_mode: str = ..., jit_level: str = ..., dynamic: int = ...,
    fullgraph: bool = ..., backend: str = ..., input_signature: Any = ..., **options: Any,
) -> Callable[[F], F]: ...


def jit(
    function: Callable[..., Any] | None = None, *, capture_mode: str = "ast", jit_level: str = "O0",
    dynamic: int = 0, fullgraph: bool = False, backend: str = "", input_signature: Any = None,
    hash_args: Any = None, jit_config: Any = None, compile_once: bool = False, **options: Any,
) -> Any:
    """Compile a function or method as a graph.

    Args:
        function: what to compile; without it, a decorator is returned.
        capture_mode: `"ast"`; others are accepted and mean the same here.
        dynamic: 0 or 1, with the same effect: sizes that differ between calls are open.
        input_signature: a Tensor, or a tuple of them, one for each argument, whose sizes may be
            None or a `Symbol`: open from the start.
        jit_config: a `JitConfig`; with `jit_syntax_level="STRICT"` it is an error (CE309) where
            Python would do a part.
        jit_level: `"O0"`, `"O1"` or `"O2"`; backend: `""`, `"ms_backend"` or `"GE"`; fullgraph: a
            bool. They change nothing here.
        hash_args, compile_once, options: accepted for compatibility.

    Raises:
        TypeError: `function` is not callable, `dynamic` no int, `fullgraph` no bool, or
            `jit_config` no JitConfig.
    """
    _check_options(capture_mode, jit_level, dynamic, fullgraph, backend, jit_config)
    if input_signature is not None and not isinstance(input_signature, (tuple, list)):
        input_signature = (input_signature,)
    signature = None if input_signature is None else tuple(input_signature)
    if function is None:
        return lambda fn: jit(
            fn, dynamic=dynamic, input_signature=signature, jit_config=jit_config)
    if not callable(function):
        raise TypeError(f"'function' must be callable, but got {type(function).__name__}.")
    config = getattr(jit_config, "jit_config_dict", {})
    return Jitted(function, signature, config.get("jit_syntax_level") == "STRICT")


def _check_options(
    capture_mode: Any, jit_level: Any, dynamic: Any, fullgraph: Any, backend: Any, jit_config: Any,
) -> None:
    for name, value, known in (("capture_mode", capture_mode, ("ast", "bytecode", "trace")),
                               ("jit_level", jit_level, ("O0", "O1", "O2")),
                               ("backend", backend, ("", "ms_backend", "GE"))):
        if not isinstance(value, str) or value not in known:
            raise ValueError(f"For 'jit', the value of argument '{name}' must be one of "
                             f"{', '.join(map(repr, known))}, but got {value!r}.")
    if not isinstance(dynamic, int) or isinstance(dynamic, bool):
        raise TypeError(f"For 'jit', 'dynamic' must be an int, but got {type(dynamic).__name__}.")
    if dynamic not in (0, 1):
        raise ValueError(f"For 'jit', 'dynamic' must be 0 or 1, but got {dynamic}.")
    if not isinstance(fullgraph, bool):
        raise TypeError(
            f"For 'jit', 'fullgraph' must be a bool, but got {type(fullgraph).__name__}.")
    if jit_config is not None and not hasattr(jit_config, "jit_config_dict"):
        raise TypeError("For 'jit', 'jit_config' must be a JitConfig or None, but got "
                        f"{type(jit_config).__name__}.")


def enable_dynamic(**kwargs: Any) -> Callable[[F], F]:
    """A decorator over `jit`: describes arguments by name, sizes open where None or a `Symbol`.

    Args:
        kwargs: a Tensor, or a tuple or list of them, for each argument whose sizes are open.

    Raises:
        ValueError: no argument is described, or a name that the function has not.
        TypeError: something else than Tensors, or the function was not made by `jit`.
    """
    if not kwargs:
        raise ValueError("For 'enable_dynamic', describe at least one argument: name=Tensor(...).")
    for name, value in kwargs.items():
        parts = value if isinstance(value, (tuple, list)) else (value,)
        if not all(isinstance(p, Tensor) for p in parts):
            raise TypeError(
                f"For 'enable_dynamic', '{name}' must be a Tensor or a tuple or list of them, "
                f"but got {value!r}."
            )

    def decorate(fn: F) -> F:
        if not isinstance(fn, Jitted):
            raise TypeError("For 'enable_dynamic', the function must be decorated by 'jit' first.")
        known = parameter_names(fn.fn)
        for name in kwargs:
            if name not in known:
                raise ValueError(
                    f"For 'enable_dynamic', '{name}' is no argument of the function, which has "
                    f"{known}."
                )
        fn.open(kwargs)
        return fn

    return decorate
