"""Operators on known values, tensors and mixes of both."""

from __future__ import annotations

import ast
import operator
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_compiler.ir.dims import is_symbolic

from ..core.dispatch import apply
from ..core.module_names import is_exactly
from ..tensors.tensor import Tensor
from ..tracing.mutables import with_open_length
from ..tracing.numbers import GraphNumber, as_kind, as_number, kind_of
from .asking import asked_int, decided, is_asked_power, power
from .budget import GROWING, check_growth
from .control import Known, as_bool, logical, truth
from .iteration import VIEWS, items
from .lengths import carried, joined
from .pieces import operations
from .pieces.operations import COMPARE, is_piece
from .protocols import of_operator, run_by_python
from .values import MISSING, Text, as_key, as_known, held_in, holds, holds_runtime, is_runtime

if TYPE_CHECKING:
    from .frames import Frame
    from .interpreter import Interpreter

BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow, ast.MatMult: operator.matmul, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
IN_PLACE: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    kind: getattr(operator, f"i{operate.__name__.strip('_')}") for kind, operate in BINARY.items()}
UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert,
}
_COMPARISONS = {*COMPARE.values()}


def compare(vm: Interpreter, op: ast.cmpop, a: Any, b: Any, frame: Frame) -> Any:
    """One comparison."""
    if vm.pieces is not None and operations.comparable(a, b):
        return operations.compared(vm, op, a, b, frame)
    match op:
        case ast.Is() | ast.IsNot():
            if a is not None and b is not None:
                vm.templates.look_at(a, b)
            same = (a is b) if a is b else _same_int(a, b)
            return same if isinstance(op, ast.Is) else as_bool(logical("not", same))
        case ast.In():
            return contains(vm, a, b, frame)
        case ast.NotIn():
            found = contains(vm, a, b, frame)
            return as_bool(logical("not", found)) if isinstance(found, Tensor) else not found
    if type(a) is type(b) and is_exactly(a, (list, tuple)) and of_the_graph([a, b]):
        if vm.pieces is not None and operations.holds_object([a, b]):
            return operations.operated(vm, COMPARE[type(op)], [a, b], frame)
        return _sequences(vm, op, a, b, frame)
    return operated(vm, COMPARE[type(op)], a, b, frame)


def of_the_graph(value: object) -> bool:
    """Whether values of the run or tensors are inside: known tensors are compared by the graph."""
    return holds(value, lambda v: isinstance(v, Tensor) or holds_runtime(v), 4)


def _same_int(a: Any, b: Any) -> Any:
    """`a is b` of two values that are no one object: Python has one object of each small int."""
    for number, known in ((a, b), (b, a)):
        if is_symbolic(number) and type(known) is int and known in _SMALL:
            return as_known(number) == known
        if isinstance(number, GraphNumber) and kind_of(number) is int \
                and type(known) is int and known in _SMALL:
            return number == known
    return False


_SMALL = range(-5, 257)


def equal(vm: Interpreter, a: Any, b: Any, frame: Frame) -> Known:
    """Whether Python takes two elements for the same: a bool, or one of the graph."""
    return a is b or truth(vm, compare(vm, ast.Eq(), a, b, frame), frame)


def _sequences(
    vm: Interpreter, op: ast.cmpop, a: Sequence[Any], b: Sequence[Any], frame: Frame
) -> Any:
    """Two lists or tuples with values of the run compared: by their first elements that differ,
    and which these are is asked."""
    if isinstance(op, (ast.Eq, ast.NotEq)):
        same: Known = len(a) == len(b)
        for x, y in zip(a, b, strict=False):
            if same is not False:
                same = logical("and", same, equal(vm, x, y, frame))
        return as_bool(same if isinstance(op, ast.Eq) else logical("not", same))
    for x, y in zip(a, b, strict=False):
        if not decided(vm, equal(vm, x, y, frame), lambda: vm.error(
                "CE404", TypeError, "which elements are compared is known only at run time", frame,
                hint="compare the elements one by one")):
            return compare(vm, op, x, y, frame)
    return COMPARE[type(op)](len(a), len(b))


def _found(vm: Interpreter, element: Any, item: Any, frame: Frame) -> Known:
    """Whether a search for `item` ends at `element`. A tensor is found by all its elements, as in
    MindSpore's graph mode: Python has no answer there."""
    if element is item:
        return True
    large = [isinstance(x, Tensor) and any(n != 1 for n in x.shape) for x in (element, item)]
    if not any(large):
        return equal(vm, element, item, frame)
    if not all(isinstance(x, (Tensor, np.ndarray)) for x in (element, item)):
        return False
    a, b = (x if isinstance(x, Tensor) else Tensor(x) for x in (element, item))
    return a.shape == b.shape and truth(vm, (a == b).all(), frame)


def counted(vm: Interpreter, box: Sequence[Any], item: Any, frame: Frame) -> Any:
    """`box.count(item)`, where values of the run decide."""
    found: Any = 0
    for element in box:
        found = found + as_bool(_found(vm, element, item, frame))
    return found


def position(
    vm: Interpreter, box: Sequence[Any], item: Any, frame: Frame, start: int = 0,
    stop: int | None = None,
) -> Any:
    """`box.index(item, start, stop)`, where values of the run decide."""
    missing = f"{type(box).__name__}.index(x): x not in {type(box).__name__}" \
        if isinstance(box, tuple) or holds_runtime(item) else f"{item!r} is not in list"
    place: Any = len(box)
    for number, element in reversed([*enumerate(box)][start:stop]):
        here = _found(vm, element, item, frame)
        if isinstance(here, Tensor):
            behind = place if isinstance(place, Tensor) else as_kind(place, int)
            place = apply("where", here, as_kind(number, int), behind)
        elif here:
            place = number
    if isinstance(place, Tensor):
        vm.tracer.check(place, "ValueError", (missing,), low=0, high=len(box))
        return as_number(place, int)
    if place == len(box):
        raise ValueError(missing)
    return place


def operated(
    vm: Interpreter, operate: Callable[[Any, Any], Any], a: Any, b: Any, frame: Frame
) -> Any:
    """`a op b`; the method of a user's class is interpreted."""
    if vm.pieces is not None and (is_piece(a) or is_piece(b)):
        return operations.operated(vm, operate, [a, b], frame)
    if isinstance(a, str) and operate is operator.mod:
        b = as_known(b)
    if operate in _COMPARISONS and (type(a) is Text or type(b) is Text):
        raise vm.error("CE404", TypeError, "a text with values known only at run time is compared",
                       frame, hint="compare the values instead of their text")
    result = of_operator(vm, operate, a, b, frame)
    if result is not MISSING:
        return result
    if operate is operator.ne:  # without a `__ne__`, Python inverts `__eq__`
        result = of_operator(vm, operator.eq, a, b, frame)
        if result is not MISSING:
            return as_bool(logical("not", truth(vm, result, frame)))
    run_by_python(vm, (a, b))
    if is_asked_power(operate.__name__, a, b):
        return power(vm, a, b, frame)
    if operate is operator.mul:
        return _repeated(vm, a, b)
    if is_exactly(a, GROWING):
        check_growth(operate, a, b)
    result = operate(a, b)
    return joined(vm, "+", a, b, result) if operate is operator.add else result


def _repeated(vm: Interpreter, a: Any, b: Any) -> Any:
    """`a * b`; how often a sequence is repeated is asked."""
    for box, count in ((a, b), (b, a)):
        if isinstance(box, _REPEATED):
            times = asked_int(vm, count)
            check_growth(operator.mul, box, times)
            result = box * times
            return carried(vm, result, box) if times is count else \
                with_open_length(vm.tracer, result)
    return a * b


_REPEATED = (list, tuple, str, bytes)
_OF_PYTHON = (dict, list, tuple, set, frozenset, str, bytes, range, deque, *VIEWS)
"""Containers whose elements are compared before calls where they can change."""


def contains(vm: Interpreter, item: Any, box: Any, frame: Frame) -> Any:
    """`item in box`: a bool, or a bool tensor if it depends on run-time values."""
    vm.templates.look_at(item)
    if is_runtime(box):
        return as_bool(truth(vm, (box == item).any(), frame))
    if vm.pieces is not None and isinstance(box, (dict, str)) and operations.is_key_of_run(item):
        return operations.contains(vm, item, box, frame)
    found = vm.special(box, "__contains__")
    if found is not None:
        return as_bool(truth(vm, vm.call(found, [box, item], {}, frame), frame))
    held = held_in(box) if isinstance(box, (list, tuple)) else None
    tensors = held is not None and any(isinstance(v, Tensor) for v in (item, *held))
    if isinstance(box, (dict, set, frozenset, *VIEWS)):
        item = as_key(item)
    if isinstance(box, (dict, str, range)) or not (tensors or holds_runtime([item, box])):
        run_by_python(vm, (item, box))
        if is_exactly(box, _OF_PYTHON):
            return item in box
        return vm.state.whole(vm, operator.contains, (box,), frame, lambda: item in box)
    result: Any = False
    for element in items(vm, box) if held is None else held:
        same = _found(vm, element, item, frame)
        if same is True:
            return True
        if isinstance(same, Tensor):
            result = same if result is False else logical("or", result, same)
    return as_bool(result)
