"""Expressions: a closed table from syntax to handler."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..tensors.tensor import Tensor
from .access import check_choice, mangle, pairs_of, read_attribute, subscript, switch
from .analysis import Facts
from .asking import decided
from .assignment import assign_to
from .budget import check_length
from .calls import call
from .control import as_bool, choose, logical, short_circuit, truth
from .frames import Frame
from .functions import InterpretedFunction
from .iteration import Foreign, Walk, asked_range, items, listed, walk
from .operators import BINARY, UNARY, compare, operated
from .per_trip import PerTrip, binary, seen, unary
from .per_trip import subscript as row_of
from .pieces import operations
from .pieces.operations import comparable, holds_object, is_piece, of_run
from .protocols import of_method, run_by_python, written_by_python
from .state import GROWTH, unseen_box
from .text import formatted, is_of_run, known, percent_text
from .trust import is_own_class
from .values import MISSING, RuntimeRange, Text, as_key, holds_runtime, in_text, is_runtime, like

if TYPE_CHECKING:
    from .interpreter import Interpreter

Handler = Callable[["Interpreter", Any, "Frame"], Any]

def _name(vm: Interpreter, node: ast.Name, frame: Frame) -> Any:
    frame.node = node
    value = vm.load(node.id, frame)
    return seen(value, node, frame) if vm.rolling else value


def _attribute(vm: Interpreter, node: ast.Attribute, frame: Frame) -> Any:
    target = vm.eval(node.value, frame)
    vm.at(node, frame)
    return read_attribute(vm, target, mangle(node.attr, frame), frame)


def _binary(vm: Interpreter, node: ast.BinOp, frame: Frame) -> Any:
    left, right = vm.eval(node.left, frame), vm.eval(node.right, frame)
    vm.at(node, frame)
    if vm.rolling and (type(left) is PerTrip or type(right) is PerTrip):
        kind = type(node.op)
        return seen(binary(kind, BINARY[kind], left, right), node, frame)
    if isinstance(left, str) and isinstance(node.op, ast.Mod):
        right = in_text(right)
        if is_of_run(right) and not holds_object(right):
            return percent_text(left, right)
        written_by_python(vm, (right,))
        made = operated(vm, BINARY[ast.Mod], left, right, frame)
        return known(made, right) if type(made) is str else made
    return operated(vm, BINARY[type(node.op)], left, right, frame)


def _unary(vm: Interpreter, node: ast.UnaryOp, frame: Frame) -> Any:
    value = vm.eval(node.operand, frame)
    vm.at(node, frame)
    if type(value) is PerTrip:
        return seen(unary(UNARY[type(node.op)], value), node, frame)
    if isinstance(node.op, ast.Not):
        known = truth(vm, value, frame)
        return not known if isinstance(known, bool) else as_bool(logical("not", known))
    if is_piece(value):
        return operations.operated(vm, UNARY[type(node.op)], [value], frame)
    operate = UNARY[type(node.op)]
    result = of_method(vm, value, f"__{operate.__name__}__", [], lambda: operate(value), frame)
    return operate(value) if result is MISSING else result


def _compare(vm: Interpreter, node: ast.Compare, frame: Frame) -> Any:
    left = vm.eval(node.left, frame)
    if len(node.ops) == 1:
        right = vm.eval(node.comparators[0], frame)
        vm.at(node, frame)
        return compare(vm, node.ops[0], left, right, frame)
    result: Any = True
    parts: list[Any] = []
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = vm.eval(right_node, frame)
        vm.at(node, frame)
        part = compare(vm, op, left, right, frame)
        parts.append(part)
        known = truth(vm, part, frame)
        if known is False:
            return part
        if known is not True:
            result = known if result is True else logical("and", result, known)
        elif result is True and right_node is node.comparators[-1]:
            return part
        left = right
    return like(result, *parts) if isinstance(result, Tensor) else result


def _if_exp(vm: Interpreter, node: ast.IfExp, frame: Frame) -> Any:
    test = vm.eval(node.test, frame)
    vm.at(node.test, frame)
    known = truth(vm, test, frame)
    if isinstance(known, bool):
        return vm.eval(node.body if known else node.orelse, frame)
    return choose(vm, node, known, frame, lambda: vm.eval(node.body, frame),
                  lambda: vm.eval(node.orelse, frame))


def elements(
    vm: Interpreter, nodes: Sequence[ast.expr], frame: Frame,
    spread: Callable[[Interpreter, Any], list[Any]] = listed,
) -> list[Any]:
    """The values of a display or argument list, stars spread."""
    out: list[Any] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            more = spread(vm, vm.eval(node.value, frame))
            check_length(len(out) + len(more))
            out.extend(more)
        else:
            out.append(vm.eval(node, frame))
    return out


def _set(vm: Interpreter, node: ast.Set, frame: Frame) -> Any:
    found = elements(vm, node.elts, frame, items)
    run_by_python(vm, found)
    return vm.fresh({as_key(v) for v in found})


def _dict(vm: Interpreter, node: ast.Dict, frame: Frame) -> Any:
    pairs: list[tuple[Any, Any]] = []
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            mapping = vm.eval(value, frame)
            run_by_python(vm, (mapping,))
            pairs += pairs_of(vm, mapping, frame)
        else:
            name = vm.eval(key, frame)
            pairs.append((name, vm.eval(value, frame)))
    vm.at(node, frame)
    return _dict_of(vm, pairs, frame)


def _dict_of(vm: Interpreter, pairs: Sequence[tuple[Any, Any]], frame: Frame) -> Any:
    """A dict; of the run where only that knows a key."""
    if vm.pieces is not None and any(of_run(k) or comparable(k, None) for k, _ in pairs):
        return operations.mapping(vm, [k for k, _ in pairs], [v for _, v in pairs], frame)
    return vm.fresh({as_key(k): v for k, v in pairs})


def _subscript(vm: Interpreter, node: ast.Subscript, frame: Frame) -> Any:
    target = vm.eval(node.value, frame)
    index = vm.eval(node.slice, frame)
    vm.at(node, frame)
    if type(index) is PerTrip:
        return seen(row_of(target, index), node, frame)
    if type(target) is RuntimeRange:
        target = asked_range(vm, target)
    return subscript(vm, target, index, frame)


def _slice(vm: Interpreter, node: ast.Slice, frame: Frame) -> Any:
    parts = [None if n is None else vm.eval(n, frame) for n in (node.lower, node.upper, node.step)]
    return slice(*parts)


def _joined(vm: Interpreter, node: ast.JoinedStr, frame: Frame) -> Any:
    parts: list[Any] = []
    for part in node.values:
        value = vm.eval(part, frame)
        parts += value.parts if isinstance(value, Text) else [value]
    if any(map(is_piece, parts)):
        return operations.joined(vm, parts, frame)
    return Text(tuple(parts)) if holds_runtime(parts) else "".join(parts)


def _formatted(vm: Interpreter, node: ast.FormattedValue, frame: Frame) -> Any:
    value = in_text(vm.eval(node.value, frame))
    spec = "" if node.format_spec is None else vm.eval(node.format_spec, frame)
    vm.at(node, frame)
    if vm.pieces is not None and (holds_object(value) or not isinstance(spec, str)):
        mark = chr(node.conversion) if node.conversion > 0 else ""
        return operations.formatted(vm, value, spec, mark, frame)
    if isinstance(spec, Text):
        raise TypeError("a format specification must be known while compiling")
    mark = chr(node.conversion) if node.conversion > 0 else ""
    if is_own_class(type(value)):
        by = {"": format, "s": str, "r": repr, "a": ascii}[mark]
        value = vm.call(by, [value, spec] if by is format else [value], {}, frame)
        mark, spec = "", "" if by is format else spec
    written_by_python(vm, (value,))
    parts = formatted(value, spec, mark)
    return Text(tuple(parts)) if holds_runtime(parts) else "".join(parts)


def _named(vm: Interpreter, node: ast.NamedExpr, frame: Frame) -> Any:
    value = vm.eval(node.value, frame)
    frame.node = node
    owner = frame
    while owner.comprehension and owner.outer is not None:
        owner = owner.outer  # a comprehension's walrus binds in the function around it
    vm.store(owner, node.target.id, value)
    return value


# --- comprehensions -----------------------------------------------------------------------------


def _inner_frame(
    vm: Interpreter, generators: Sequence[ast.comprehension], frame: Frame
) -> Frame:
    names = {
        n.id for g in generators for n in ast.walk(g.target) if isinstance(n, ast.Name)
    }
    none: frozenset[str] = frozenset()
    facts = Facts(frozenset(names), none, none, none, False)
    made = Frame(
        frame.source, facts, frame.name, frame.globals, frame.closure, frame.scope,
        frame.class_name, frame.caller, frame, depth=frame.depth,
        first_argument=frame.first_argument, comprehension=True, site=frame.site,
    )
    vm.fresh(made.table)
    return made


def comprehend(
    vm: Interpreter, generators: Sequence[ast.comprehension], source: Walk, inner: Frame,
    make: Callable[[], Any],
) -> Iterator[Any]:
    """Yield the kept elements of a comprehension, one by one.

    Args:
        source: over what the first of its loops walks.
    """
    first, rest = generators[0], generators[1:]
    for element in source:
        vm.statements += 1
        vm.check_work(inner)
        assign_to(vm, first.target, element, inner)
        if not all(_keep(vm, test, inner) for test in first.ifs):
            continue
        if rest:
            yield from comprehend(vm, rest, _walked(vm, rest[0], inner), inner, make)
        else:
            yield make()


def _walked(vm: Interpreter, loop: ast.comprehension, frame: Frame) -> Walk:
    if loop.is_async:
        raise vm.error(
            "CE102", SyntaxError, "an asynchronous comprehension is not supported in a compiled "
            "function", frame, loop.iter, hint="write it without async")
    source = vm.eval(loop.iter, frame)
    vm.at(loop.iter, frame)
    return walk(vm, source)


def _comprehension(
    vm: Interpreter, node: Any, frame: Frame, make: Callable[[Frame], Any]
) -> Iterator[Any]:
    inner = _inner_frame(vm, node.generators, frame)
    source = _walked(vm, node.generators[0], frame)
    return comprehend(vm, node.generators, source, inner, lambda: make(inner))


def _keep(vm: Interpreter, test: ast.expr, frame: Frame) -> bool:
    value = vm.eval(test, frame)
    vm.at(test, frame)
    known = truth(vm, value, frame)
    return decided(vm, known, lambda: vm.error(
        "CE404", TypeError, "a comprehension cannot be filtered by a run-time condition",
        frame, test, hint="the length of the result would not be known: use where or a mask",
    ))


def _elements(vm: Interpreter, node: Any, frame: Frame) -> Iterator[Any]:
    return _comprehension(vm, node, frame, lambda inner: vm.eval(node.elt, inner))


def _dict_comp(vm: Interpreter, node: ast.DictComp, frame: Frame) -> Any:
    def make(inner: Frame) -> tuple[Any, Any]:
        return vm.eval(node.key, inner), vm.eval(node.value, inner)

    return _dict_of(vm, list(_comprehension(vm, node, frame, make)), frame)


# --- calls --------------------------------------------------------------------------------------


def _call(vm: Interpreter, node: ast.Call, frame: Frame) -> Any:
    if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
        return _super(frame, node)
    grown = _grown(vm, node, frame)
    if grown is not MISSING:
        return grown
    indexed = _indexed_cells(vm, node, frame)
    fn = indexed[0] if indexed else vm.eval(node.func, frame)
    args = elements(vm, node.args, frame)
    kwargs = _keywords(vm, node, frame)
    vm.at(node, frame)
    if indexed:
        return _switch(vm, node, indexed[0], indexed[1], args, kwargs, frame)
    result = call(vm, fn, args, kwargs, frame)
    frame.node = node
    return result


def _grown(vm: Interpreter, node: ast.Call, frame: Frame) -> Any:
    """`self.seen.append(v)`: a container that only grows need not be known. MISSING for others."""
    func = node.func
    if not isinstance(func, ast.Attribute) or func.attr not in GROWTH or node.keywords \
            or len(node.args) != 1 or not isinstance(func.value, ast.Attribute):
        return MISSING
    owner = func.value.value
    if not isinstance(owner, (ast.Name, ast.Attribute)):
        return MISSING
    target, name = vm.eval(owner, frame), mangle(func.value.attr, frame)
    box = unseen_box(vm, target, name)
    if box is None or not hasattr(box, func.attr):
        return MISSING
    args = elements(vm, node.args, frame)
    vm.at(node, frame)
    if unseen_box(vm, target, name) is not box:  # its own argument looks into it
        return call(vm, getattr(box, func.attr), args, {}, frame)
    vm.state.grow(vm, target, name, box, func.attr, args, frame)
    return None


def _indexed_cells(
    vm: Interpreter, node: ast.Call, frame: Frame
) -> tuple[Any, Tensor] | None:
    """`self.layers[i](...)` with a run-time `i`: the candidates and the index."""
    func = node.func
    if not isinstance(func, ast.Subscript) or isinstance(func.slice, (ast.Slice, ast.Constant)):
        return None
    box = vm.eval(func.value, frame)
    index = vm.eval(func.slice, frame)
    vm.at(func, frame)
    if is_runtime(index) and not isinstance(box, (Tensor, dict)) and index.shape in ((), (1,)):
        cells = list(items(vm, box))
        check_choice(vm, box, len(cells), index)
        return cells, index
    return [subscript(vm, box, index, frame)], _KNOWN


_KNOWN: Any = object()


def _switch(
    vm: Interpreter, node: ast.Call, cells: list[Any], index: Any, args: list[Any],
    kwargs: dict[str, Any], frame: Frame,
) -> Any:
    if index is _KNOWN:
        return call(vm, cells[0], args, kwargs, frame)
    cases = [partial(call, vm, cell, args, kwargs, frame) for cell in cells]
    return switch(vm, node, index, cases, frame)


def _keywords(vm: Interpreter, node: ast.Call, frame: Frame) -> dict[str, Any]:
    kwargs: dict[str, Any] = {}
    for keyword in node.keywords:
        value = vm.eval(keyword.value, frame)
        given = [(keyword.arg, value)] if keyword.arg is not None else pairs_of(vm, value, frame)
        for name, v in given:
            if name in kwargs:
                raise TypeError(f"the argument '{name}' is given twice")
            kwargs[name] = v
    return kwargs


def _super(frame: Frame, node: ast.AST) -> Any:
    owner = frame
    while owner.outer is not None:
        owner = owner.outer
    found = owner.closure.get("__class__")
    if found is None:
        frame.node = node
        raise RuntimeError("super() without arguments needs a method of a class")
    return super(found.cell_contents, owner.first_argument)


def _sent(vm: Interpreter, node: ast.Yield | ast.YieldFrom, frame: Frame) -> Any:
    """The value of the `yield` that a generator continues from."""
    if frame.sent is MISSING:
        raise vm.error(
            "CE103", SyntaxError, "'yield' is supported where it is evaluated first in its "
            "statement", frame, node, hint="assign it to a name first",
        )
    return frame.sent


def _starred(vm: Interpreter, node: ast.Starred, frame: Frame) -> Any:
    raise vm.error("CE102", SyntaxError, "a starred expression is out of place", frame, node)


EXPRESSIONS: dict[type[ast.AST], Handler] = {
    ast.Constant: lambda vm, node, frame: node.value,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: lambda vm, node, frame: short_circuit(vm, node, node.values, frame),
    ast.Compare: _compare,
    ast.IfExp: _if_exp,
    ast.Tuple: lambda vm, node, frame: tuple(elements(vm, node.elts, frame)),
    ast.List: lambda vm, node, frame: vm.fresh(elements(vm, node.elts, frame)),
    ast.Set: _set,
    ast.Dict: _dict,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.JoinedStr: _joined,
    ast.FormattedValue: _formatted,
    ast.NamedExpr: _named,
    ast.Lambda: InterpretedFunction.define,
    ast.ListComp: lambda vm, node, frame: vm.fresh(list(_elements(vm, node, frame))),
    ast.SetComp: lambda vm, node, frame: vm.fresh(
        {as_key(v) for v in _elements(vm, node, frame)}),
    ast.DictComp: _dict_comp,
    ast.GeneratorExp: lambda vm, node, frame: Foreign(vm, vm.fresh(_elements(vm, node, frame))),
    ast.Call: _call,
    ast.Starred: _starred,
    ast.Yield: _sent,
    ast.YieldFrom: _sent,
}
"""Every accepted expression."""
