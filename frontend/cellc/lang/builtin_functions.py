"""Built-in functions that know tensors: a closed table from function to handler.

A builtin that is not here runs as it is on values known while compiling.
"""

from __future__ import annotations

import builtins
import functools
import math
import operator
import re
import string
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cellc_compiler.ir.dims import Dim, is_symbolic
from cellc_compiler.ir.size_functions import extreme, of_math

from ..core.dispatch import apply
from ..tensors.tensor import Tensor, elements_now
from ..tracing.mutables import DynamicTuple, has_open_length, in_graph, mutable
from ..tracing.numbers import GraphNumber, as_kind, as_number, item_of, kind_of
from ..tracing.state_numbers import StateNumber
from ..tracing.tracer import GraphTensor
from .access import pairs_of, read_attribute, subscript
from .asking import Ordered, decided
from .assignment import delete_attribute, delete_item, set_attribute, set_item
from .control import Known, as_bool, choose, logical, truth
from .errors import CompileError
from .iteration import Through, Walk, backwards, items, listed, walk
from .lengths import carried, measured
from .operators import contains, operated
from .pieces import operations
from .protocols import (
    as_index,
    checked,
    is_in_class,
    of_builtin,
    run_by_python,
    written_by_python,
)
from .text import emit_print, flat, formatted, is_of_run, known, written
from .trust import is_own_class
from .values import (
    MISSING,
    RuntimeRange,
    Text,
    any_runtime,
    as_key,
    holds_runtime,
    in_text,
    is_number,
    is_runtime,
)
from .world import refuse_iterators

if TYPE_CHECKING:
    from .frames import Frame
    from .interpreter import Interpreter

Args = list[Any]
Kwargs = dict[str, Any]
Handler = Callable[["Interpreter", Args, Kwargs, "Frame"], Any]

BUILTINS: dict[Any, Handler] = {}  # Builtin -> its meaning in a compiled function

REFUSED = frozenset(
    getattr(builtins, n) for n in ("open", "input", "eval", "exec", "compile", "globals", "locals",
                                   "breakpoint", "__import__")
)
"""Builtins that have no meaning while a graph is compiled."""


def _handles(fn: Any) -> Callable[[Handler], Handler]:
    def add(handler: Handler) -> Handler:
        BUILTINS[fn] = handler
        return handler

    return add


@_handles(len)
def _len(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    if len(args) == 1 and isinstance(args[0], Tensor):
        if not args[0].shape:
            raise TypeError("len() of a 0-d tensor")
        return args[0].shape[0]
    if len(args) == 1:
        found = vm.special(args[0], "__len__")
        if found is not None:
            return checked("__len__", vm.call(found, args, {}, frame))
        return measured(vm, args[0], len(args[0]))
    return len(*args, **kwargs)


@_handles(mutable)
def _mutable(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    made = mutable(*args, **kwargs)
    if has_open_length(args[0] if args else kwargs["input_data"]) and not has_open_length(made):
        raise RuntimeError("For 'mutable', a sequence of dynamic length cannot get a constant "
                           "length: 'dynamic_len' must be True.")
    return in_graph(made)


@_handles(range)
def _range(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    given = [a.asked() if isinstance(a, StateNumber) else BUILTINS[int](vm, [a], {}, frame)
             if isinstance(a, Tensor) else as_index(vm, a, frame) for a in args]
    if not any(isinstance(a, Tensor) for a in given):
        return range(*given, **kwargs)
    start, stop = (0, given[0]) if len(given) == 1 else (given[0], given[1])
    step = given[2] if len(given) > 2 else 1
    if not isinstance(step, int) or step == 0:
        raise ValueError("the step of a range must be a nonzero int known while compiling")
    return RuntimeRange(start, stop, step)


@_handles(enumerate)
def _enumerate(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    given = {**dict(zip(("iterable", "start"), args, strict=False)), **kwargs}
    start = operator.index(given.get("start", 0))
    under = walk(vm, given["iterable"]), walk(vm, range(start, start + sys.maxsize))
    return Through(vm, map(_swapped, *under), under, plain=True, gives=tuple)


def _swapped(a: Any, b: Any) -> Any:
    return b, a


@_handles(zip)
def _zip(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    under = [walk(vm, a) for a in args]
    return Through(vm, zip(*under, strict=bool(kwargs.get("strict"))), under, plain=True,
                   gives=tuple)


@_handles(map)
def _map(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    under = [walk(vm, a) for a in args[1:]]
    fn = args[0]
    return Through(vm, map(lambda *row: vm.call(fn, list(row), {}, vm.frame or frame), *under),
                   under, plain=False, gives=tuple if isinstance(args[1], tuple) else list)


@_handles(filter)
def _filter(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    test, source = args

    def keep(element: Any) -> bool:
        at = vm.frame or frame
        known = truth(vm, element if test is None else vm.call(test, [element], {}, at), at)
        return decided(vm, known, lambda: vm.error(
            "CE404", TypeError, "filter() cannot select by a condition known only at run time",
            at, hint="the length of the result would not be known: use where or a mask",
        ))

    under = walk(vm, source)
    return Through(vm, filter(keep, under), [under], plain=False)


@_handles(functools.reduce)
def _reduce(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    fn, elements = args[0], walk(vm, args[1])
    total = args[2] if len(args) > 2 else next(elements, MISSING)
    if total is MISSING:
        raise TypeError("reduce() of empty iterable with no initial value")
    for element in elements:
        total = vm.call(fn, [total, element], {}, frame)
    return total


@_handles(sorted)
def _sorted(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    elements = listed(vm, args[0])
    return vm.fresh([elements[i] for i in _order(vm, elements, kwargs, frame)])


def _order(
    vm: Interpreter, elements: Sequence[Any], kwargs: Kwargs, frame: Frame
) -> tuple[int, ...]:
    """The places of elements in the order that `sorted` gives them."""
    key = kwargs.get("key")
    keys = [e if key is None else vm.call(key, [e], {}, frame) for e in elements]
    if any_runtime(keys):
        keys = _ordered(vm, keys, frame)
    run_by_python(vm, keys)
    return tuple(sorted(range(len(keys)), key=keys.__getitem__,
                        reverse=kwargs.get("reverse", False)))


@_handles(list.sort)
def _sort(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    box: list[Any] = args[0]
    vm.note_object(box)
    order = _order(vm, list(box), kwargs, frame)
    vm.state.mutate(vm, [box], _put_in_order, [box, order], {}, frame)


def _put_in_order(box: list[Any], order: Sequence[int]) -> None:
    list.__setitem__(box, slice(None), [box[i] for i in order])


def _ordered(vm: Interpreter, keys: list[Any], frame: Frame) -> list[Any]:
    """Keys that the run is asked to compare."""
    def refused() -> CompileError:
        return vm.error(
            "CE302", TypeError, "sorted() cannot order by tensors, whose elements are not known "
            "while compiling", frame, hint="use ops.sort on one tensor",
        )

    if not all(isinstance(k, Tensor) or is_number(k) for k in keys):
        raise refused()
    return [Ordered(k, lambda less: decided(vm, truth(vm, less, frame), refused)) for k in keys]


@_handles(sum)
def _sum(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    total = args[1] if len(args) > 1 else kwargs.get("start", 0)
    for element in walk(vm, args[0]):
        total = operated(vm, operator.add, total, element, frame)
    return total


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _extreme(fn: Any, better: Callable[[Any, Any], Any]) -> Handler:
    def handler(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
        values = items(vm, args[0]) if len(args) == 1 else args
        key = kwargs.get("key")
        keys = [v if key is None else vm.call(key, [v], {}, frame) for v in values]
        if not any_runtime(keys) and not any(isinstance(k, Tensor) for k in keys):
            given = {k: v for k, v in kwargs.items() if k != "key"}
            default = given.pop("default", MISSING)
            if not values and default is not MISSING:
                return default
            run_by_python(vm, keys)
            if key is None and not given and all(isinstance(k, float) for k in keys) and any(
                    map(is_symbolic, keys)):
                return extreme(fn.__name__, keys)
            best = fn(keys, **given)  # (an `__eq__` of the user's is not asked)
            return next(v for v, k in zip(values, keys, strict=True) if k is best)
        best, best_key = values[0], keys[0]
        node = frame.node
        assert node is not None
        for value, its_key in zip(values[1:], keys[1:], strict=True):
            hit = truth(vm, better(its_key, best_key), frame)
            if not isinstance(hit, bool) and _kind(value) != _kind(best):
                hit = decided(vm, hit, lambda: vm.error(
                    "CE404", TypeError, "whether a number or a tensor is given is known only at "
                    "run time", frame, hint="use ops.maximum or ops.minimum"))
            if isinstance(hit, bool):
                best, best_key = (value, its_key) if hit else (best, best_key)
            else:
                best, best_key = choose(vm, node, hit, frame, _constant((value, its_key)),
                                        _constant((best, best_key)))
        return best

    return handler


def _kind(value: Any) -> Any:
    """Return the kind that both alternatives of a run-time choice must share."""
    return value._type if isinstance(value, Tensor) and kind_of(value) is None else None


BUILTINS[min] = _extreme(min, lambda a, b: a < b)
BUILTINS[max] = _extreme(max, lambda a, b: a > b)


def _fold(op: str, start: bool) -> Handler:
    def handler(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
        result: Known = start
        for element in walk(vm, args[0]):
            result = logical(op, result, truth(vm, element, frame))
            if isinstance(result, bool) and result != start:
                return result
        return as_bool(result)

    return handler


BUILTINS[all] = _fold("and", True)
BUILTINS[any] = _fold("or", False)


@_handles(isinstance)
def _isinstance(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    value, cls = args
    if isinstance(value, Text):
        return isinstance("", cls)
    if isinstance(value, GraphNumber):
        return isinstance(value._number(0), cls)
    vm.class_of(value)
    check = vm.special(cls, "__instancecheck__")
    return is_in_class(vm, isinstance, value, cls) if check is None else bool(
        vm.call(check, [cls, value], {}, frame))


@_handles(issubclass)
def _issubclass(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    kind, cls = args
    check = vm.special(cls, "__subclasscheck__")
    return is_in_class(vm, issubclass, kind, cls) if check is None else bool(
        vm.call(check, [cls, kind], {}, frame))


@_handles(callable)
def _callable(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    vm.special(args[0], "__call__")  # reports where it was found
    return callable(*args, **kwargs)


@_handles(type)
def _type(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    if len(args) != 1:
        raise vm.error("CE303", TypeError, "a class cannot be made in a compiled function", frame)
    cls = vm.class_of(args[0])
    if isinstance(args[0], GraphNumber):
        return args[0]._number
    if is_symbolic(args[0]):
        return int if type(args[0]) is Dim else float
    return _SHOWN.get(cls, cls)


_SHOWN: dict[Any, Any] = {GraphTensor: Tensor, Text: str, DynamicTuple: tuple}


@_handles(getattr)
def _getattr(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    target, name, *default = args
    if isinstance(name, Text):
        raise TypeError("the name of an attribute must be known while compiling")
    try:
        return read_attribute(vm, target, name, frame)
    except AttributeError:
        if default:
            return default[0]
        raise


@_handles(vars)
def _vars(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    if len(args) != 1:
        raise vm.error("CE303", RuntimeError, "vars() is not available in a compiled function",
                       frame, hint="use vars(object), or getattr and setattr")
    return read_attribute(vm, args[0], "__dict__", frame)


@_handles(hasattr)
def _hasattr(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    try:
        read_attribute(vm, args[0], args[1], frame)
    except AttributeError:
        return False
    return True


def _number(cls: Any) -> Handler:
    def handler(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
        if len(args) == 1 and isinstance(args[0], Tensor):
            value = args[0]
            if not is_runtime(value):
                return cls(elements_now(value).item())
            if isinstance(value, StateNumber):
                return value.converted(cls)
            if value._type.size != 1:
                raise ValueError(
                    f"only a tensor of one element can become {cls.__name__}, got {value._type}"
                )
            return item_of(GraphTensor(vm.tracer.lift(value)), cls) \
                if not isinstance(value, GraphTensor) else item_of(value, cls)
        if len(args) == 1 and is_symbolic(args[0]) and cls in (int, float):
            return args[0].__trunc__() if cls is int else args[0] * 1.0  # stays open
        return cls(*args, **kwargs)

    return handler


BUILTINS[int] = _number(int)
BUILTINS[float] = _number(float)


@_handles(str)
def _str(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    args = in_text(args)
    if args and is_of_run(args[0]):
        return Text(tuple(flat([args[0]])))
    written_by_python(vm, args)
    return known(str(*args, **kwargs), args[0]) if args else str(**kwargs)


@_handles(format)
def _format(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    if type(args[0]) is Text and args[1:] not in ([], [""]) and vm.pieces is not None:
        return operations.formatted(vm, args[0], args[1], "", frame)
    written_by_python(vm, args)
    parts = formatted(in_text(args[0]), *args[1:2] or ("",))
    return Text(tuple(parts)) if holds_runtime(parts) else "".join(parts)


@_handles(repr)
def _repr(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    args = in_text(args)
    written_by_python(vm, args)
    if len(args) == 1 and is_of_run(args[0]):
        return Text(tuple(written(args[0], True)))
    return known(repr(*args, **kwargs), args[0])


def _container(cls: Any) -> Handler:
    def handler(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
        take = listed if cls is list or cls is tuple else items
        elements = take(vm, args[0]) if args else []
        if take is items:
            run_by_python(vm, elements)
            elements = [as_key(v) for v in elements]
        return carried(vm, vm.fresh(cls(elements)), *args)

    return handler


_CONTAINERS: tuple[Any, ...] = (list, tuple, set, frozenset)
for _cls in _CONTAINERS:
    BUILTINS[_cls] = _container(_cls)


@_handles(dict)
def _dict(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    if args and isinstance(args[0], dict) and is_own_class(type(args[0])):
        run_by_python(vm, args)
        args = [pairs_of(vm, args[0], frame), *args[1:]]
    elif args and hasattr(args[0], "keys") and vm.special(args[0], "__getitem__") is not None:
        args = [pairs_of(vm, args[0], frame)]
    run_by_python(vm, args)
    made: dict[Any, Any] = dict(*args, **kwargs)
    return vm.fresh({as_key(k): v for k, v in made.items()})


@_handles(next)
def _next(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    if vm.region_depth and not isinstance(args[0], Walk):
        raise vm.error(
            "CE404", TypeError, "next() cannot be undone, so it has no place under a condition "
            "known only at run time", frame,
            hint="take the element before the condition",
        )
    refuse_iterators(vm, args[:1], frame)
    return next(*args)


@_handles(print)
def _print(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    for name in kwargs:
        if name not in ("sep", "end", "file", "flush"):
            raise TypeError(f"print() got an unexpected keyword argument '{name}'")
    if kwargs.get("file") not in (None, sys.stdout):
        raise vm.error(
            "CE303", TypeError, "print() of a compiled function writes to sys.stdout only", frame,
            hint="leave 'file' out",
        )
    sep, end = kwargs.get("sep"), kwargs.get("end")
    emit_print(vm.tracer, in_text(args), " " if sep is None else sep, "\n" if end is None else end)


def _math(fn: Any, on_number: Callable[[GraphNumber], Any]) -> None:
    """A function of `math` on numbers of the graph; a tensor of one element becomes one."""
    def handler(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
        if len(args) == 1 and fn is not math.trunc:
            number = of_builtin(vm, float, args, frame)
            args = args if number is MISSING else [number]
        if len(args) == 1 and is_symbolic(args[0]):
            return of_math(fn.__name__, args)
        if len(args) != 1 or not is_runtime(args[0]):
            return fn(*args, **kwargs)
        given = args[0]
        if fn is math.trunc and not isinstance(given, GraphNumber):
            raise TypeError("type Tensor doesn't define __trunc__ method")
        if given._type.size != 1:
            raise vm.error(
                "CE301", TypeError, f"math.{fn.__name__}() is called on a tensor, whose elements "
                "are not known while compiling", frame,
                hint=f"use ops.{_OPS_NAMES.get(fn.__name__, fn.__name__)}",
            )
        if not isinstance(given, GraphNumber):
            given = BUILTINS[float](vm, args, {}, frame)
        return on_number(given)

    BUILTINS[fn] = handler


_OPS_NAMES = {"fabs": "abs"}


def _test_float(op: str) -> Callable[[GraphNumber], Any]:
    return lambda n: as_number(apply(op, as_kind(n, float)), bool)


_math(math.floor, lambda n: n.__floor__())
_math(math.ceil, lambda n: n.__ceil__())
_math(math.trunc, lambda n: n.__trunc__())
_math(math.fabs, lambda n: abs(as_kind(n, float)))
_math(math.sqrt, lambda n: as_number(apply("sqrt", as_kind(n, float)), float))
_math(math.isnan, _test_float("isnan"))
_math(math.isinf, _test_float("isinf"))
_math(math.isfinite, _test_float("isfinite"))


def _until(vm: Interpreter, fn: Any, sentinel: Any, frame: Frame) -> Iterator[Any]:
    """The results of calls of `fn`, up to one that equals `sentinel`: `iter(fn, sentinel)`."""
    while True:
        value = vm.call(fn, [], {}, frame)
        if decided(vm, contains(vm, sentinel, [value], frame), lambda: vm.error(
                "CE404", TypeError, "where an iterator ends depends on a value known only at run "
                "time", frame, hint="write a while loop")):
            return
        yield value


def _attrgetter(vm: Interpreter, fn: Any, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    """A call of `operator.attrgetter(...)`."""
    target, = args
    found = tuple(functools.reduce(lambda value, name: read_attribute(vm, value, name, frame),
                                   path.split("."), target) for path in fn.__reduce__()[1])
    return found if len(found) > 1 else found[0]


def _itemgetter(vm: Interpreter, fn: Any, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    """A call of `operator.itemgetter(...)`."""
    target, = args
    found = tuple(subscript(vm, target, index, frame) for index in fn.__reduce__()[1])
    return found if len(found) > 1 else found[0]


def _methodcaller(vm: Interpreter, fn: Any, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    """A call of `operator.methodcaller(...)`."""
    target, = args
    made, given = fn.__reduce__()
    named = made.keywords if isinstance(made, functools.partial) else {}
    name, *given = (*made.args, *given) if named else given
    return vm.call(read_attribute(vm, target, name, frame), given, dict(named), frame)


OF_OPERATOR: dict[type, Any] = {
    operator.attrgetter: _attrgetter, operator.itemgetter: _itemgetter,
    operator.methodcaller: _methodcaller}
"""Classes of `operator` whose objects read attributes and items, and call methods."""


_FIELD = re.compile(r"([^.\[]*)((?:\.[^.\[]+|\[[^\]]+\])*)")
_PART = re.compile(r"\.([^.\[]+)|\[([^\]]+)\]")


def read_fields(
    vm: Interpreter, pattern: str, args: Args, kwargs: Kwargs, frame: Frame
) -> tuple[str, Args]:
    """A pattern of `str.format` and its arguments, with the attributes and items that fields name
    ("{0.size}", "{shape[0]}") read: `pattern.format(*args)` is the result.

    Raises:
        ValueError: numbered and unnumbered fields are mixed; or the pattern is none.
    """
    values: Args = []
    counted: list[int] = []

    def position(name: str) -> int:
        found = _FIELD.fullmatch(name)
        if found is None:
            raise ValueError(f"'{name}' is no field of a format")
        first, rest = found.groups()
        if not first or first.isdigit():
            counted.append(not first)
            if sum(counted) not in (0, len(counted)):
                raise ValueError("cannot mix fields with and without numbers in a format")
            value = args[int(first) if first else len(counted) - 1]
        else:
            value = kwargs[first]
        for attribute, item in _PART.findall(rest):
            value = read_attribute(vm, value, attribute, frame) if attribute else subscript(
                vm, value, int(item) if item.isdigit() else item, frame)
        values.append(value)
        return len(values) - 1

    def read(text: str) -> str:
        parts = []
        for literal, name, spec, conversion in string.Formatter().parse(text):
            parts.append(literal.replace("{", "{{").replace("}", "}}"))
            if name is not None:
                conversion = f"!{conversion}" if conversion else ""
                at = position(name)
                parts.append(f"{{{at}{conversion}:{read(spec)}}}" if spec else
                             f"{{{at}{conversion}}}")
        return "".join(parts)

    return read(pattern), values


_SHORT: dict[Any, Handler] = {
    reversed: lambda vm, args, kwargs, frame: backwards(vm, args[0]),
    iter: lambda vm, args, kwargs, frame: walk(vm, args[0]) if len(args) == 1 else Through(
        vm, _until(vm, args[0], args[1], frame), [], plain=False),
    delattr: lambda vm, args, kwargs, frame: delete_attribute(
        vm, args[0], args[1], frame),
    setattr: lambda vm, args, kwargs, frame: set_attribute(
        vm, args[0], args[1], args[2], frame),
    bool: lambda vm, args, kwargs, frame: bool(args) and as_bool(truth(vm, args[0], frame)),
    operator.truth: lambda vm, args, kwargs, frame: as_bool(truth(vm, args[0], frame)),
    operator.not_: lambda vm, args, kwargs, frame: as_bool(
        logical("not", truth(vm, args[0], frame))),
    operator.contains: lambda vm, args, kwargs, frame: contains(vm, args[1], args[0], frame),
    operator.getitem: lambda vm, args, kwargs, frame: subscript(vm, args[0], args[1], frame),
    operator.setitem: lambda vm, args, kwargs, frame: set_item(vm, args[0], args[1], args[2]),
    operator.delitem: lambda vm, args, kwargs, frame: delete_item(vm, args[0], args[1], frame),
    dict.fromkeys: lambda vm, args, kwargs, frame: vm.fresh(
        dict.fromkeys(as_key(items(vm, args[0])), *args[1:])),
}
BUILTINS.update(_SHORT)


@_handles(id)
def _id(vm: Interpreter, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    vm.templates.look_at(*args)
    return id(*args)


def _plain(fn: Any) -> Handler:
    """Return a handler that calls Python: tensors define it themselves, or are only passed on."""
    return lambda vm, args, kwargs, frame: fn(*args, **kwargs)


_PLAIN: tuple[Any, ...] = (
    abs, round, pow, divmod, super, property, functools.partial, slice,
)
for _fn in _PLAIN:
    BUILTINS[_fn] = _plain(_fn)
