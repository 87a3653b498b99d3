"""Functions as values: those defined inside a compiled function, and argument binding."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from cellc_runtime.errors import counted

from ..core.module_names import plain
from .values import MISSING, any_runtime

if TYPE_CHECKING:
    from .frames import Frame
    from .source import FunctionNode, FunctionSource


class Caller(Protocol):
    """The interpreter, as functions need it."""

    frame: Frame | None

    def eval(self, node: ast.expr, frame: Frame) -> Any:
        """The value of an expression."""

    def call(self, fn: Any, args: list[Any], kwargs: dict[str, Any], frame: Frame) -> Any:
        """Call anything callable from `frame`."""


class InterpretedFunction:
    """A `def` or lambda inside a compiled function.

    Library functions may call it: that interprets its body too.
    """

    # Slots, because functools.wraps copies one function's `__dict__` over another's.
    __slots__ = ("__dict__", "defaults", "frame", "kwdefaults", "source", "vm")

    def __init__(
        self, vm: Caller, source: FunctionSource, frame: Frame,
        defaults: tuple[Any, ...], kwdefaults: dict[str, Any],
    ) -> None:
        node = source.node
        self.vm = vm
        self.source = source
        self.frame = frame
        self.defaults = defaults
        self.kwdefaults = kwdefaults
        self.__name__ = "<lambda>" if isinstance(node, ast.Lambda) else node.name
        self.__qualname__ = f"{frame.name}.{self.__name__}"

    @staticmethod
    def define(vm: Caller, node: FunctionNode, frame: Frame) -> InterpretedFunction:
        """The function a definition makes: its defaults are evaluated now."""
        args = node.args
        defaults = tuple([vm.eval(d, frame) for d in args.defaults])
        kwdefaults = {
            a.arg: vm.eval(d, frame)
            for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d is not None
        }
        return InterpretedFunction(vm, frame.source.nested(node), frame, defaults, kwdefaults)

    def as_python(self) -> Callable[..., Any]:
        """The same function for Python to call when the network runs.

        Names from outside have their present values.

        Raises:
            TypeError: that is a tensor of the graph.
        """
        node = copy.deepcopy(self.source.node)
        if isinstance(node, ast.Lambda):
            name = "lambda_"
            made: ast.stmt = ast.Assign([ast.Name(name, ast.Store())], node)
        else:
            name, made, node.decorator_list = node.name, node, []
        ast.copy_location(made, node)
        names = dict(self.frame.globals)
        for read in {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}:
            value = self._outer(read)
            if any_runtime([value]):
                raise TypeError(
                    f"{self.__name__}() runs in Python, but reads {read!r} of the compiled "
                    "function: hand it over as an argument"
                )
            if value is not MISSING:
                names[read] = value
        code = compile(ast.fix_missing_locations(ast.Module([made], [])), self.source.file, "exec")
        exec(code, names)
        function: Callable[..., Any] = names[name]
        function.__defaults__ = self.defaults or None
        function.__kwdefaults__ = self.kwdefaults or None
        return function

    def _outer(self, name: str) -> Any:
        """The value of a name where the function was defined; MISSING for a global or local."""
        scope: Frame | None = self.frame
        while scope is not None:
            if name in scope.facts.local:
                return scope.table.get(name, MISSING)
            root, scope = scope, scope.outer
        cell = root.closure.get(name)
        return cell.cell_contents if cell is not None else MISSING

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        frame = self.vm.frame or self.frame
        return self.vm.call(self, list(args), kwargs, frame)

    def __repr__(self) -> str:
        return f"<function {self.__qualname__}>"


class Callback:
    """A Python function handed to a library function: calling it interprets it."""

    def __init__(self, vm: Caller, fn: Any, frame: Frame) -> None:
        self.vm, self.fn, self.frame = vm, fn, frame
        self.__wrapped__ = fn
        self.__name__ = plain(fn, "__name__", "function")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.vm.call(self.fn, list(args), kwargs, self.frame)


def bind(
    name: str,
    args: ast.arguments,
    defaults: Sequence[Any],
    kwdefaults: Mapping[str, Any],
    given: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> dict[str, Any]:
    """The parameters of a call by name, as Python binds them.

    Raises:
        TypeError: the arguments do not fit.
    """
    positional = [a.arg for a in (*args.posonlyargs, *args.args)]
    table: dict[str, Any] = dict(zip(positional, given, strict=False))
    if args.vararg is not None:
        table[args.vararg.arg] = tuple(given[len(positional):])
    elif len(given) > len(positional):
        raise TypeError(
            f"{name}() takes {_count(len(positional), len(defaults))} but {len(given)} "
            f"{'was' if len(given) == 1 else 'were'} given"
        )
    extra = _bind_keywords(name, args, positional, table, kwargs)
    if args.kwarg is not None:
        table[args.kwarg.arg] = extra
    elif extra:
        raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(extra))}'")
    if defaults:
        for parameter, value in zip(positional[-len(defaults):], defaults, strict=True):
            table.setdefault(parameter, value)
    for parameter, value in kwdefaults.items():
        table.setdefault(parameter, value)
    needed = [*positional, *(a.arg for a in args.kwonlyargs)]
    missing = [f"'{p}'" for p in needed if p not in table]
    if missing:
        raise TypeError(
            f"{name}() is missing {counted(len(missing), 'argument')}: "
            f"{', '.join(missing)}"
        )
    return table


def _bind_keywords(
    name: str, args: ast.arguments, positional: Sequence[str], table: dict[str, Any],
    kwargs: Mapping[str, Any],
) -> dict[str, Any]:
    keyword = {*positional[len(args.posonlyargs):], *(a.arg for a in args.kwonlyargs)}
    extra: dict[str, Any] = {}
    for key, value in kwargs.items():
        if key not in keyword:
            extra[key] = value
        elif table.get(key, MISSING) is not MISSING:
            raise TypeError(f"{name}() got two values for the argument '{key}'")
        else:
            table[key] = value
    return extra


def _count(most: int, optional: int) -> str:
    least = most - optional
    span = f"{most}" if not optional else f"from {least} to {most}"
    return f"{span} positional argument{'' if most == 1 and not optional else 's'}"
