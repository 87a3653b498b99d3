"""Operations of the language on Python objects that only the run knows: all of them by pieces."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_runtime.records import dataclass

from ...calls.pieces import itself
from ...core.dispatch import apply
from ...core.module_names import is_exactly, plain
from ...tensors.tensor import Tensor
from ...tracing.numbers import GraphNumber, as_number, kind_of
from ...tracing.pytree import RunObject
from ...tracing.state_numbers import StateNumber
from ...tracing.tracer import is_variable
from ..journal import differs, shallow
from ..values import RuntimeRange, Text, holds, holds_runtime, is_runtime, with_parts

if TYPE_CHECKING:
    from ..frames import Frame
    from ..interpreter import Interpreter

Args = list[Any]
Kwargs = dict[str, Any]

UNROLLED = 64  # Elements up to which a loop over an object of the run is unrolled


@dataclass(frozen=True, slots=True)
class RunMethod:
    """A method of an object that only the run knows."""

    owner: Any
    name: str


def of_run(value: object) -> bool:
    """Whether only a run knows a tensor or number (a number of state is known while compiling)."""
    return is_runtime(value) and type(value) is not StateNumber


def is_key_of_run(value: object) -> bool:
    """Whether only a run knows a key; a variable is one by its identity."""
    return of_run(value) and not is_variable(value)


def is_piece(value: object) -> bool:
    """Whether a value is of the run, and no number or tensor."""
    return type(value) is RunObject or type(value) is RunMethod


def holds_object(value: Any) -> bool:
    """Whether a value is, or holds, an object of the run."""
    def test(v: Any) -> bool:
        return is_piece(v) or (type(v) is slice and any(map(is_piece, (v.start, v.stop, v.step))))

    return holds(value, test, 3, (tuple, list, dict, set, frozenset))


def name_of(kind: type) -> str:
    """A type as messages call it."""
    return "a Python object" if kind is object else f"a {kind.__name__}"


# --- attributes and subscripts -------------------------------------------------------------------

_LAYOUT = frozenset(("shape", "ndim", "size", "dtype", "itemsize", "nbytes"))
"""Attributes of an array that are known while compiling, though only the run knows its elements."""
_METHODS = (FunctionType, MethodDescriptorType, BuiltinFunctionType, type(object.__init__))


def needs_python(target: Any, index: Any) -> bool:
    """Whether only Python can find `target[index]`."""
    if is_exactly(target, (RunObject, Text)):
        return True
    if isinstance(target, (str, dict)) and (is_key_of_run(index) or type(index) is Text):
        return True
    return is_piece(index) and not isinstance(target, Tensor)


def attribute(vm: Interpreter, target: Any, name: str, frame: Frame) -> Any:
    """`target.name`; methods are called as a part of a piece.

    Raises:
        AttributeError: objects of this type have none of that name.
    """
    if type(target) is Text:
        target = string(vm, target, frame)
    cls = target.kind.cls
    if isinstance(getattr(cls, name, None), _METHODS):
        return RunMethod(target, name)
    fixed = issubclass(cls, (np.ndarray, np.generic)) and name in _LAYOUT
    return _emit(vm, f"{cls.__name__}.{name}", lambda v: getattr(v, name), [target], frame,
                 "fixed" if fixed else "")


def attribute_of_number(vm: Interpreter, number: GraphNumber, name: str, frame: Frame) -> Any:
    """`number.name`, which Python's number has; what needs its value is Python's, in the run.

    Raises:
        CompileTypeError: there is no call that has the value (CE301).
    """
    kind = kind_of(number) or int
    if name in ("real", "numerator"):
        return +number
    if name == "imag":
        return kind(0) + 0
    if name == "denominator":
        return 1
    if name == "conjugate":
        return number.__pos__
    if type(number) is StateNumber:
        return getattr(number.asked(), name)
    if vm.pieces is not None:
        return attribute(vm, held(vm, number, frame), name, frame)
    raise vm.error(
        "CE301", TypeError, f"'{name}' of {kind.__name__} needs the value of a number that only "
        "the run knows", frame, hint="compute it from numbers known while compiling",
    )


def set_attribute(
    vm: Interpreter, target: RunObject, name: str, value: Any, frame: Frame
) -> None:
    """`target.name = value`."""
    _emit(vm, f"{target.kind.cls.__name__}.{name} =", lambda o, v: setattr(o, name, v),
          [target, value], frame)


def subscript(vm: Interpreter, target: Any, index: Any, frame: Frame) -> Any:
    """`target[index]`, where one of them is of the run."""
    return _emit(vm, "a subscript", operator.getitem, [target, index], frame)


def set_item(vm: Interpreter, target: Any, index: Any, value: Any, frame: Frame) -> None:
    """`target[index] = value`."""
    _emit(vm, "an assignment to elements", operator.setitem, [target, index, value], frame)


def delete_item(vm: Interpreter, target: Any, index: Any, frame: Frame) -> None:
    """`del target[index]`."""
    _emit(vm, "a deletion", operator.delitem, [target, index], frame)


def index_of_tensor(vm: Interpreter, index: Any, frame: Frame) -> Any:
    """Return the index of a tensor: numbers and arrays of the run as those of the graph."""
    if isinstance(index, tuple):
        return tuple(index_of_tensor(vm, i, frame) for i in index)
    if type(index) is RunObject and issubclass(index.kind.cls, np.ndarray):
        return _emit(vm, "Tensor()", Tensor, [index], frame)
    return number_of(vm, index, frame)


# --- operators and conditions --------------------------------------------------------------------

_NUMBERS = (bool, int, float, np.generic)


def operated(
    vm: Interpreter, operate: Callable[..., Any], values: Sequence[Any], frame: Frame
) -> Any:
    """An operator one of whose operands is of the run.

    Beside a tensor a number of numpy is a number, so that gradients pass the tensor.
    """
    if len(values) == 2 and any(isinstance(v, Tensor) and not isinstance(v, GraphNumber)
                                for v in values):
        plain = [number_of(vm, v, frame) for v in values]
        if not any(map(is_piece, plain)):
            return operate(*plain)
    return _emit(vm, f"{operate.__name__.strip('_')}()", operate, list(values), frame)


def number_of(vm: Interpreter, value: Any, frame: Frame) -> Any:
    """A number of numpy as a number of the graph; other values as they are."""
    if type(value) is RunObject and issubclass(value.kind.cls, _NUMBERS):
        return _emit(vm, "item()", _item, [value], frame)
    return value


def _item(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value + 0


def held(vm: Interpreter, value: Any, frame: Frame) -> RunObject:
    """A value as an object of the run, of any type."""
    act = _made if isinstance(value, (list, dict, set, np.ndarray)) else itself
    found: RunObject = _emit(vm, "a value", act, [value], frame, "whole")
    return found


def _made(value: Any) -> Any:
    """Return a container that each call creates: later changes apply to that one."""
    return value


def truth(vm: Interpreter, value: Any, frame: Frame) -> Any:
    """The truth of an object of the run."""
    return _emit(vm, "bool()", bool, [value], frame)


COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}


def comparable(a: Any, b: Any) -> bool:
    """Whether Python compares two values, when the network runs."""
    return is_piece(a) or is_piece(b) or type(a) is Text or type(b) is Text


def compared(vm: Interpreter, op: ast.cmpop, a: Any, b: Any, frame: Frame) -> Any:
    """A comparison one of whose operands is of the run."""
    match op:
        case ast.Is() | ast.IsNot():
            return _unless(same(vm, a, b, frame), isinstance(op, ast.IsNot))
        case ast.In() | ast.NotIn():
            return _unless(contains(vm, a, b, frame), isinstance(op, ast.NotIn))
    return operated(vm, COMPARE[type(op)], [a, b], frame)


def _unless(value: Any, negated: bool) -> Any:
    if not negated:
        return value
    return not value if isinstance(value, bool) else as_number(apply("logical_not", value), bool)


def same(vm: Interpreter, a: Any, b: Any, frame: Frame) -> Any:
    """`a is b`."""
    for x, y in ((a, b), (b, a)):
        if type(x) is RunObject and x.kind.cls is not object and not is_piece(y):
            return False  # what there was before is none of what the run makes
    return _emit(vm, "is", operator.is_, [a, b], frame)


def contains(vm: Interpreter, item: Any, box: Any, frame: Frame) -> Any:
    """`item in box`."""
    return _emit(vm, "in", lambda b, i: i in b, [box, item], frame)


# --- text ----------------------------------------------------------------------------------------


def formatted(vm: Interpreter, value: Any, spec: Any, conversion: str, frame: Frame) -> Any:
    """`f"{value!conversion:spec}"`."""
    convert: dict[str, Callable[[Any], Any]] = {"r": repr, "s": str, "a": ascii}
    change = convert.get(conversion, itself)
    return _emit(vm, "format()", lambda v, s: format(change(v), s), [value, spec], frame)


def joined(vm: Interpreter, parts: Sequence[Any], frame: Frame) -> Any:
    """The parts of a string as one."""
    given = [p if is_piece(p) or isinstance(p, str) else Text((p,)) for p in parts]
    return _emit(vm, "an f-string", lambda *p: "".join(p), given, frame)


def string(vm: Interpreter, text: Text, frame: Frame) -> Any:
    """A string that holds values of the run, as an object of the run."""
    return _emit(vm, "str()", itself, [text], frame)


def raised(vm: Interpreter, error: BaseException, frame: Frame) -> None:
    """Raise an exception whose message only the run knows."""
    kind = type(error)

    def act(*args: Any) -> None:
        raise kind(*args)

    _emit(vm, f"raise {kind.__name__}", act, list(error.args), frame)


def asserted(vm: Interpreter, good: Tensor, error: Exception, frame: Frame) -> None:
    """Raise an exception whose message only the run knows, unless a condition holds."""
    kind = type(error)

    def act(holds: Tensor, *args: Any) -> None:
        if not bool(holds):
            raise kind(*args)

    _emit(vm, "assert", act, [good, *error.args], frame)


# --- containers that hold what only the run knows where Python looks ------------------------------


def mapping(vm: Interpreter, keys: Args, values: Args, frame: Frame) -> Any:
    """A dict one of whose keys only the run knows."""
    count = len(keys)
    return _emit(vm, "a dict", lambda *v: dict(zip(v[:count], v[count:], strict=True)),
                 [*keys, *values], frame)


def needs_run(holder: Any, index: Any, value: Any) -> bool:
    """Whether `holder[index] = value` makes a container of the trace one of the run."""
    if isinstance(holder, np.ndarray):
        return holds_runtime([index, value])
    return isinstance(holder, dict) and (is_key_of_run(index) or comparable(index, index))


def handed_over(vm: Interpreter, box: Any, frame: Frame) -> RunObject:
    """A container that the trace made as an object of the run, which stands for it from now on.

    Raises:
        CompileTypeError: it was there before, or was made before the condition or loop (CE501).
    """
    assert vm.pieces is not None
    fresh = vm.journal is None or id(box) in vm.journal.fresh
    if not fresh or vm.state.is_outside(box):
        raise vm.error(
            "CE501", TypeError, f"a {type(box).__name__} that was made "
            f"{'outside of the network' if fresh else 'before a run-time condition or loop'} "
            "comes to hold a value that only the run knows", frame,
            hint="write into a copy that is made here",
        )
    made: RunObject = _emit(vm, f"a {type(box).__name__}", _made, [box], frame)
    vm.pieces.handed[id(box)] = box, made
    return made


def complete(vm: Interpreter, value: Any, frame: Frame, depth: int = 4) -> Any:
    """A value that leaves the network: strings and containers as the run makes them."""
    assert vm.pieces is not None
    if id(value) in vm.pieces.handed:
        return vm.pieces.handed[id(value)][1]
    if type(value) is Text:
        return string(vm, value, frame)
    return with_parts(value, lambda v: complete(vm, v, frame, depth - 1)) if depth else value


# --- iteration -----------------------------------------------------------------------------------


class RunItems(Sequence[Any]):
    """The elements of a list of the run, whose length is known while compiling."""

    def __init__(self, vm: Interpreter, box: Any, length: int) -> None:
        self.vm, self.box, self.length = vm, box, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        frame = self.vm.frame
        assert frame is not None
        return subscript(self.vm, self.box, index, frame)


def listed(vm: Interpreter, value: RunObject, frame: Frame) -> tuple[Any, Any]:
    """The elements of an object as a list of the run, and how many: known if they are few."""
    box = _emit(vm, "list()", list, [value], frame, "whole")
    few = _emit(vm, "len()", lambda b: len(b) if len(b) <= UNROLLED else None, [box], frame,
                "fixed")
    return box, few if few is not None else _emit(vm, "len()", len, [box], frame)


def items(vm: Interpreter, value: RunObject, frame: Frame) -> RunItems:
    """The elements of an object, to be walked over.

    Raises:
        CompileTypeError: they are too many (CE310).
    """
    box, count = listed(vm, value, frame)
    if not isinstance(count, int):
        raise vm.error(
            "CE310", TypeError, f"more than {UNROLLED} elements of {name_of(value.kind.cls)} that "
            "only the run knows are walked over here", frame,
            hint="use a 'for' statement, or let numpy do it",
        )
    return RunItems(vm, box, count)


def known_range(vm: Interpreter, source: RuntimeRange, frame: Frame) -> range:
    """A range of the run as one that the graph is compiled for."""
    start, stop = _emit(
        vm, "range()", lambda *bounds: bounds, [source.start, source.stop], frame, "fixed")
    return range(start, stop, source.step)


def trips(
    vm: Interpreter, value: RunObject, frame: Frame
) -> tuple[RunItems | RuntimeRange, Callable[[Any], Any]]:
    """Return the walk of a `for` statement: elements, or numbers with a function from number to
    element."""
    box, count = listed(vm, value, frame)
    if isinstance(count, int):
        return RunItems(vm, box, count), itself
    return RuntimeRange(0, count, 1), lambda i: subscript(vm, box, i, frame)


# --- calls ---------------------------------------------------------------------------------------


def called(vm: Interpreter, fn: Any, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    """A call of Python on objects of the run."""
    if type(fn) is RunMethod:
        method = fn.name
        return python(vm, f"{fn.owner.kind.cls.__name__}.{method}()",
                      lambda owner, *a, **k: getattr(owner, method)(*a, **k),
                      [fn.owner, *args], kwargs, frame)
    if type(fn) is RunObject:
        return python(vm, "a call", lambda f, *a, **k: f(*a, **k), [fn, *args], kwargs, frame)
    if fn is len and issubclass(args[0].kind.cls, np.ndarray):
        return _emit(vm, "len()", len, args, frame, "fixed")
    return python(vm, f"{_shown(fn)}()", fn, args, kwargs, frame)


def python(
    vm: Interpreter, what: str, fn: Callable[..., Any], args: Args, kwargs: Kwargs, frame: Frame
) -> Any:
    """Return the result of a function that Python calls in each run."""
    names, count = list(kwargs), len(args)
    own = [i for i, v in enumerate((*args, *kwargs.values()))
           if isinstance(v, _CHANGEABLE) and not vm.state.is_outside(v)]

    def act(*values: Any) -> Any:
        before = [shallow(values[i]) for i in own]
        found = fn(*values[:count], **dict(zip(names, values[count:], strict=True)))
        if any(differs(values[i], b) for b, i in zip(before, own, strict=True)):
            raise TypeError(f"{what} changes a container that the network has made, which would "
                            "not be seen there: give it an array or list that Python has made")
        return found

    return _emit(vm, what, act, [*args, *kwargs.values()], frame)


_CHANGEABLE = (list, dict, set, np.ndarray)


def _shown(fn: Any) -> str:
    owner = plain(fn, "__self__")
    name = plain(fn, "__name__", type(fn).__name__)
    if owner is not None and not isinstance(owner, (type, ModuleType)):
        return f"{type(owner).__name__.replace('GraphTensor', 'Tensor')}.{name}"
    module: str = plain(fn, "__module__") or ""
    root = module.partition(".")[0].lstrip("_")
    return name if root in ("", "builtins", "__main__", "cellc") else f"{root}.{name}"


_LOOKS = frozenset(("index", "count", "get", "copy", "union", "intersection", "difference",
                    "issubset", "issuperset", "isdisjoint", "symmetric_difference"))
"""Methods that change no container."""


def of_container(vm: Interpreter, fn: Any, args: Args, kwargs: Kwargs, frame: Frame) -> Any:
    """A method of a container of the trace that is given what only the run knows."""
    owner, name = fn.__self__, fn.__name__
    if name not in _LOOKS and not isinstance(owner, (tuple, frozenset)):
        owner = handed_over(vm, owner, frame)
    return python(vm, f"{type(fn.__self__).__name__}.{name}()", method_of(fn), [owner, *args],
                  kwargs, frame)


def method_of(fn: MethodType | BuiltinFunctionType) -> Callable[..., Any]:
    """A bound method as a function of its owner."""
    name = fn.__name__
    return lambda owner, *a, **k: getattr(owner, name)(*a, **k)


def of_tensor(
    vm: Interpreter, fn: Any, args: Args, kwargs: Kwargs, frame: Frame
) -> Any:
    """A function of cellc that needs elements: Python calls it, on Tensors that have them."""
    owner = plain(fn, "__self__")
    if isinstance(owner, Tensor):
        return python(vm, f"{_shown(fn)}()", method_of(fn), [owner, *args], kwargs, frame)
    return python(vm, f"{_shown(fn)}()", fn, args, kwargs, frame)


def instance(vm: Interpreter, value: RunObject, cls: Any, frame: Frame) -> Any:
    """`isinstance(value, cls)`: decided by the type that is known."""
    if value.kind.cls is object:
        return _emit(vm, "isinstance()", isinstance, [value, cls], frame, "fixed")
    kinds = cls if isinstance(cls, tuple) else (cls,)
    return any(issubclass(value.kind.cls, k) for k in kinds)


def type_of(vm: Interpreter, value: RunObject, frame: Frame) -> Any:
    """`type(value)`."""
    if value.kind.cls is object:
        return _emit(vm, "type()", type, [value], frame, "fixed")
    return value.kind.cls


def _emit(
    vm: Interpreter, what: str, act: Callable[..., Any], values: Args, frame: Frame, mode: str = ""
) -> Any:
    assert vm.pieces is not None
    return vm.pieces.emit(vm, what, act, values, frame, mode)
