"""The language of users' own kernels: which Python it is, and what types follow from it.

A kernel is a function over tensors, read and written by element, with loops, branches and
arithmetic of numbers; the rest of Python is refused with its line. Its text and the numbers it
takes from around it say all about it, so they are what the graph holds. Shapes of what it makes
must follow from shapes of what it is given: `Typed` works them out without running it.

A text may come from a file, and the reference runs it. The reader therefore accepts a closed list
of syntax: it visits every node of the tree, and refuses all that it does not know.
"""

from __future__ import annotations

import ast
import operator
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NoReturn

from cellc_runtime.dtypes import BY_NAME, DType
from cellc_runtime.errors import counted
from cellc_runtime.records import dataclass, field

from ..ir.dims import Dim
from ..ir.types import TensorType, check_size, prod
from .functions import ARITY, BUFFERS, CALLABLE, LOOPS, NUMBERS, SCOPES

RESERVED = "_k_"  # How the names begin that compiled kernels use for themselves
MEMBERS = ("shape", "dtype", "ndim", "size")  # The attributes of a tensor

_STATEMENTS: tuple[type[ast.AST], ...] = (
    ast.Assign, ast.AugAssign, ast.For, ast.While, ast.If, ast.With, ast.Pass, ast.Break,
    ast.Continue, ast.Expr, ast.Return,
)
_EXPRESSIONS: tuple[type[ast.AST], ...] = (
    ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.Subscript,
    ast.Attribute, ast.Name, ast.Constant, ast.Tuple, ast.List, ast.Slice,
)


class KernelError(ValueError):
    """A kernel is not written in the language, or does not fit its operands."""


@dataclass(frozen=True, slots=True)
class Source:
    """A kernel as the graph holds it."""

    text: str  # of the function, from `def` on
    # the numbers, dtypes and tuples it takes from around it, by name
    constants: tuple[tuple[str, Any], ...] = ()
    file: str = "<kernel>"  # where it is written; `line` the place of its first line there
    line: int = 1

    def fail(self, node: Any, text: str) -> NoReturn:
        """Refuse it at a node of its syntax tree (or a line of `text`).

        Raises:
            KernelError: always.
        """
        at = node if isinstance(node, int) else getattr(node, "lineno", 1)
        lines = self.text.splitlines()
        shown = lines[at - 1].strip() if 0 < at <= len(lines) else ""
        raise KernelError(f"{text}\n  at {self.file}:{self.line + at - 1}: {shown}")


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor that a kernel makes."""

    output: bool  # whether it is a result
    call: ast.Call  # the call that makes it


@dataclass(slots=True)
class Kernel:
    """A kernel that was read."""

    source: Source
    function: ast.FunctionDef  # its syntax tree
    name: str  # of the function
    params: tuple[str, ...]  # its tensors
    body: list[ast.stmt]  # its statements, without the last `return`
    results: tuple[str, ...] = ()  # what it returns, by name
    buffers: dict[str, Buffer] = field(default_factory=dict)  # what it makes
    written: set[str] = field(default_factory=set)  # the tensors with elements that it assigns
    # the expression of each name that is assigned once
    known: dict[str, ast.expr] = field(default_factory=dict)

    @property
    def tensors(self) -> set[str]:
        """The names of all tensors."""
        return {*self.params, *self.buffers}


def block_of(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The statements inside of one, list by list."""
    for name in ("body", "orelse"):
        inner = getattr(statement, name, None)
        if inner:
            yield inner


@lru_cache(512)
def read(source: Source) -> Kernel:
    """The kernel of a text. Raises KernelError if it is not written in the language."""
    try:
        tree = ast.parse(textwrap.dedent(source.text))
    except (SyntaxError, ValueError) as e:
        raise KernelError(f"the text of a kernel is no Python: {e}") from None
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        source.fail(1, "a kernel must be one function, written with def")
    return _Reader(source, tree.body[0]).kernel


class _Reader:
    """Checks a function and gathers what is known of its names."""

    def __init__(self, source: Source, function: ast.FunctionDef) -> None:
        self.source = source
        a = function.args
        if function.decorator_list or getattr(function, "type_params", None):
            source.fail(1, "the text of a kernel begins with def, without decorators")
        function.returns = None  # (Annotations say nothing here, and would run.)
        for p in (*a.posonlyargs, *a.args):
            p.annotation = None
        if a.vararg or a.kwarg or a.kwonlyargs or a.defaults:
            source.fail(function, f"the kernel {function.name}() must take its tensors by position,"
                                  f" without defaults")
        params = tuple(p.arg for p in (*a.posonlyargs, *a.args))
        body = list(function.body)
        last = body[-1]
        if not isinstance(last, ast.Return):
            source.fail(last, f"the kernel {function.name}() must end with the return of its "
                              f"results")
        self.kernel = Kernel(source, function, function.name, params, body[:-1])
        self.counts: dict[str, int] = {}
        self.depth = 0
        self.constants = dict(source.constants)
        self._gather(self.kernel.body)
        self._check_names(function)
        self._results(last)
        self.names = {*params, *self.counts, *self.constants}
        self.made = set(params)
        for statement in self.kernel.body:
            self._check(statement)
        self.kernel.known = {n: e for n, e in self.kernel.known.items() if self.counts[n] == 1}

    # --- names ------------------------------------------------------------------------------------

    def _check_names(self, function: ast.FunctionDef) -> None:
        """Every name stands for one thing, and for none of Python's own."""
        fail = self.source.fail
        for name, value in self.constants.items():
            if not isinstance(name, str) or not name.isidentifier() or not _is_constant(value):
                fail(function, f"the constant {name!r} of a kernel must be a name and a number, a "
                               f"dtype or a tuple of these")
            if name in CALLABLE or name in self.kernel.tensors:
                fail(function, f"{name!r} is a constant and also a "
                               f"{'function' if name in CALLABLE else 'tensor'} of the kernel")
        for name in (function.name, *self.kernel.params, *self.counts, *self.constants):
            if name.startswith((RESERVED, "__")):
                fail(function, f"a name of a kernel must not begin with {RESERVED!r} or '__', but "
                               f"got {name!r}")

    def _gather(self, statements: Sequence[ast.stmt]) -> None:
        for s in statements:
            if isinstance(s, ast.Assign):
                if len(s.targets) != 1:
                    self.source.fail(s, "one assignment must have one target")
                self._assigned(s.targets[0], s.value)
            elif isinstance(s, (ast.AugAssign, ast.For)):
                self._assigned(s.target, None)
            for inner in block_of(s):
                self._gather(inner)

    def _assigned(self, target: ast.expr, value: ast.expr | None) -> None:
        k = self.kernel
        if isinstance(target, (ast.Tuple, ast.List)):
            for i, part in enumerate(target.elts):
                at = None if value is None else ast.copy_location(
                    ast.Subscript(value, ast.Constant(i), ast.Load()), value)
                self._assigned(part, at)
        elif isinstance(target, ast.Subscript):
            if not isinstance(target.value, ast.Name):
                self.source.fail(target, "only elements of a tensor can be assigned")
            k.written.add(target.value.id)
        elif isinstance(target, ast.Name):
            name = target.id
            if name in k.tensors or name in self.constants:
                self.source.fail(target, f"{name!r} cannot be given another value")
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) \
                    and value.func.id in BUFFERS:
                k.buffers[name] = Buffer(value.func.id == "output_tensor", value)
                if self.counts.get(name):
                    self.source.fail(target, f"the tensor {name!r} is defined twice")
            elif value is not None:
                k.known[name] = value
            self.counts[name] = self.counts.get(name, 0) + 1
        else:
            self.source.fail(target, "only names and elements of tensors can be assigned")

    def _results(self, last: ast.Return) -> None:
        k, given = self.kernel, last.value
        parts = given.elts if isinstance(given, ast.Tuple) else [given]
        for part in parts:
            if not isinstance(part, ast.Name) or part.id not in k.tensors or (
                    part.id in k.buffers and not k.buffers[part.id].output):
                self.source.fail(last, f"the kernel {k.name}() must return tensors that "
                                       f"output_tensor() made, or its inputs, by name")
        k.results = tuple(p.id for p in parts if isinstance(p, ast.Name))
        if len(set(k.results)) != len(k.results):
            self.source.fail(last, f"the kernel {k.name}() returns a tensor twice")
        for name, buffer in k.buffers.items():
            if buffer.output and name not in k.results:
                self.source.fail(buffer.call, f"the output tensor {name!r} is not returned")
        for name in k.written - set(k.results):
            if name in k.params:
                self.source.fail(last, f"the kernel {k.name}() writes to its input {name!r}, which "
                                       f"it does not return")

    # --- syntax -----------------------------------------------------------------------------------

    def _check(self, s: ast.stmt) -> None:
        if not isinstance(s, _STATEMENTS):
            self.source.fail(s, f"a kernel cannot hold {_name_of(s)}")
        if isinstance(s, ast.Return):
            self.source.fail(s, "a kernel returns at its end, nowhere else")
        if isinstance(s, ast.Expr) and not (
                isinstance(s.value, ast.Constant) and isinstance(s.value.value, str)):
            self.source.fail(s, "this statement has no effect: a kernel assigns its results")
        if isinstance(s, (ast.For, ast.While)) and s.orelse:
            self.source.fail(s, "a loop of a kernel cannot have an else")
        if isinstance(s, ast.For):
            self._loop(s)
        elif isinstance(s, ast.With):
            self._scope(s)
        elif not (isinstance(s, ast.Assign) and self._makes(s)):
            for child in ast.iter_child_nodes(s):
                if isinstance(child, ast.expr):
                    self._expression(child)
        self.depth += not isinstance(s, ast.With)
        for inner in block_of(s):
            for each in inner:
                self._check(each)
        self.depth -= not isinstance(s, ast.With)

    def _makes(self, s: ast.Assign) -> bool:
        """Whether a statement makes a tensor; what of is looked at when types are known."""
        call = s.value
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
                and call.func.id in BUFFERS and isinstance(s.targets[0], ast.Name)):
            return False
        if call.func.id == "output_tensor" and self.depth:
            self.source.fail(s, "output_tensor() must not stand in a loop or branch")
        for value in (*call.args, *(k.value for k in call.keywords)):
            if not (isinstance(value, ast.Constant) and isinstance(value.value, str)):
                self._expression(value)
        self.made.add(s.targets[0].id)
        return True

    def _loop(self, s: ast.For) -> None:
        call = s.iter
        name = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) \
            else ""
        if name not in (*LOOPS, "grid") or not isinstance(call, ast.Call):
            self.source.fail(s, f"a loop of a kernel counts with one of {', '.join(LOOPS)} or grid")
        most = 1 if name == "grid" else 3
        if call.keywords or not 1 <= len(call.args) <= most:
            self.source.fail(s, f"{name}() takes {'a shape' if most == 1 else '1 to 3 ints'}")
        several = name == "grid" and isinstance(s.target, (ast.Tuple, ast.List))
        names = s.target.elts if several else [s.target]  # type: ignore[attr-defined]  # as checked
        if not all(isinstance(n, ast.Name) for n in names):
            self.source.fail(s, f"a loop over {name}() has "
                                f"{'variables' if name == 'grid' else 'one variable'}")
        if name == "grid" and any(isinstance(n, (ast.Break, ast.Continue)) for n in ast.walk(s)):
            self.source.fail(s, "a loop over grid() cannot hold break or continue")
        for each in call.args:
            self._expression(each)

    def _scope(self, s: ast.With) -> None:
        call = s.items[0].context_expr
        if len(s.items) != 1 or s.items[0].optional_vars is not None or not (
                isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
                and call.func.id in SCOPES):
            self.source.fail(s, f"a with of a kernel is one of {', '.join(SCOPES)}")
        if call.keywords or not all(isinstance(x, (ast.Constant, ast.Name)) for x in call.args):
            self.source.fail(s, "what stands in a with of a kernel takes constants and names")

    def _expression(self, e: ast.expr) -> None:
        fail = self.source.fail
        if not isinstance(e, _EXPRESSIONS):
            fail(e, f"a kernel cannot hold {_name_of(e)}")
        if isinstance(e, ast.Constant) and not isinstance(e.value, (bool, int, float)):
            fail(e, f"a kernel computes with numbers, but got {e.value!r}")
        if isinstance(e, ast.Call):
            self._call(e)
            children: Sequence[ast.AST] = e.args
        elif isinstance(e, ast.Attribute):
            if not isinstance(e.value, ast.Name) or e.value.id not in self.kernel.tensors \
                    or e.attr not in MEMBERS:
                fail(e, f"a kernel may ask a tensor for {', '.join(MEMBERS)}, nothing else for "
                        f"anything")
            children = ()
        else:
            children = list(ast.iter_child_nodes(e))
        if isinstance(e, ast.Name) and e.id not in self.names:
            fail(e, f"the name {e.id!r} is not known: a kernel may use its tensors, its own "
                    f"variables, and numbers from around it")
        elif isinstance(e, ast.Name) and e.id in self.kernel.tensors and e.id not in self.made:
            fail(e, f"the tensor {e.id!r} is used before it is made")
        for child in children:
            if isinstance(child, ast.expr):
                self._expression(child)

    def _call(self, e: ast.Call) -> None:
        fail = self.source.fail
        name = e.func.id if isinstance(e.func, ast.Name) else ast.unparse(e.func)
        if name not in CALLABLE or name in (*LOOPS, *SCOPES, "grid"):
            fail(e, f"a kernel cannot call {name}(); it may call "
                    f"{', '.join(sorted(CALLABLE - {*LOOPS, *SCOPES, 'grid'}))}")
        if name in BUFFERS:
            fail(e, f"{name}() must be all that an assignment to a name gives it")
        count = ARITY.get(name)
        if e.keywords or any(isinstance(a, ast.Starred) for a in e.args) or not e.args or (
                count is not None and len(e.args) != count):
            fail(e, f"{name}() takes {count or 'some'} number{'s' * (count != 1)}, by position")


def _is_constant(value: Any) -> bool:
    return isinstance(value, (bool, int, float, str, DType, Dim)) or (
        isinstance(value, tuple) and all(map(_is_constant, value)))


_WORDS = {"ListComp": "a comprehension", "Lambda": "a lambda", "FunctionDef": "a function",
          "Try": "a try", "Raise": "a raise", "Assert": "an assert", "Import": "an import",
          "JoinedStr": "a formatted string", "AnnAssign": "an annotated assignment"}


def _name_of(node: ast.AST) -> str:
    kind = type(node).__name__
    return _WORDS.get(kind, f"this ({kind})")


# --- types ----------------------------------------------------------------------------------------


class NotStatic(Exception):
    """An expression depends on elements or on a loop."""


_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}


class Typed:
    """A kernel with the types of its operands.

    Raises:
        KernelError: they do not fit it, or a shape does not follow from theirs.
    """

    def __init__(self, kernel: Kernel, operands: Sequence[TensorType]) -> None:
        self.kernel = kernel
        if len(operands) != len(kernel.params):
            kernel.source.fail(1, f"the kernel {kernel.name}() takes "
                                  f"{counted(len(kernel.params), 'tensor')} "
                                  f"({', '.join(kernel.params)}), but got {len(operands)}")
        self.types = dict(zip(kernel.params, operands, strict=True))  # of all tensors, by name
        for name, ty in self.types.items():
            self._accept(1, f"the input {name!r}", ty.dtype)
        self._constants = dict(kernel.source.constants)
        self._asked: set[str] = set()
        self._found: dict[str, Any] = {}
        for name, buffer in kernel.buffers.items():
            self.types[name] = self._made(name, buffer.call)
        self.outputs = tuple(self.types[name] for name in kernel.results)  # of the results

    def _accept(self, at: Any, what: str, dtype: DType) -> None:
        if dtype not in NUMBERS:
            self.kernel.source.fail(at, f"{what} of the kernel {self.kernel.name}() is of "
                                        f"{dtype.name}: kernels take bool, ints and floats")

    def _made(self, name: str, call: ast.Call) -> TensorType:
        """The type of a tensor that a call makes."""
        fail = self.kernel.source.fail
        given = {**dict(zip(("shape", "dtype", "scope"), call.args, strict=False)),
                 **{k.arg or "": k.value for k in call.keywords}}
        if not {"shape", "dtype"} <= set(given) <= {"shape", "dtype", "scope"} \
                or len(given) != len(call.args) + len(call.keywords):
            fail(call, f"the tensor {name!r} must be made of a shape and a dtype")
        try:
            shape, dtype, _ = [self.value(x) for x in (
                given["shape"], given["dtype"], given.get("scope", ast.Constant("")))]
        except NotStatic:
            fail(call, f"the shape and dtype of {name!r} must follow from those of the inputs and "
                       f"from numbers")
        if isinstance(dtype, str):
            dtype = BY_NAME.get(dtype, dtype)
        if not isinstance(dtype, DType):
            fail(call, f"the dtype of {name!r} must be a dtype or the name of one, but is "
                       f"{dtype!r}")
        self._accept(call, f"the tensor {name!r}", dtype)
        dims = shape if isinstance(shape, tuple) else (shape,)
        for d in dims:
            if isinstance(d, bool) or not isinstance(d, (int, Dim)) or d < 0:
                fail(call, f"the shape of {name!r} must hold non-negative ints, but is {shape!r}")
        made = TensorType(dims, dtype)
        try:
            check_size(f"the tensor {name!r}", made)
        except ValueError as error:
            fail(call, str(error))
        return made

    def value(self, e: ast.expr) -> Any:
        """Return the value of an expression in every run: a number, a string, a dtype, or a tuple.
        Raises NotStatic if it depends on elements, or on a loop."""
        rule = _STATIC.get(type(e))
        if rule is None:
            raise NotStatic
        try:
            return rule(self, e)
        except (TypeError, IndexError, ZeroDivisionError, OverflowError) as error:
            self.kernel.source.fail(e, f"this cannot be computed: {error}")

    def _tuple(self, e: ast.Tuple | ast.List) -> tuple[Any, ...]:
        parts = tuple(map(self.value, e.elts))
        if any(isinstance(p, tuple) for p in parts):  # a few lines nest them without end
            raise TypeError("a shape holds numbers, no shapes")
        return parts

    def _name(self, e: ast.Name) -> Any:
        if e.id in self._constants:
            return self._constants[e.id]
        if e.id in self._found:
            return self._found[e.id]
        found = self.kernel.known.get(e.id)
        if found is None or e.id in self._asked:
            raise NotStatic
        self._asked.add(e.id)
        try:
            self._found[e.id] = self.value(found)
        finally:
            self._asked.discard(e.id)
        return self._found[e.id]

    def _attribute(self, e: ast.Attribute) -> Any:
        if not isinstance(e.value, ast.Name) or e.value.id not in self.types:
            raise NotStatic
        ty = self.types[e.value.id]
        facts = {"shape": ty.shape, "dtype": ty.dtype, "ndim": ty.rank, "size": prod(ty.dims)}
        return facts[e.attr]

    def _subscript(self, e: ast.Subscript) -> Any:
        if isinstance(e.value, ast.Name) and e.value.id in self.kernel.tensors:
            raise NotStatic
        held = self.value(e.value)
        if isinstance(e.slice, ast.Slice):
            ends = (e.slice.lower, e.slice.upper, e.slice.step)
            return held[slice(*(None if x is None else self.value(x) for x in ends))]
        return held[self.value(e.slice)]

    def _binary(self, e: ast.BinOp) -> Any:
        apply = _OPERATORS.get(type(e.op))
        if apply is None:
            raise NotStatic
        a, b = self.value(e.left), self.value(e.right)
        if not _numbers(a, b) and not (isinstance(e.op, ast.Add) and isinstance(a, tuple)
                                       and isinstance(b, tuple)):
            raise NotStatic
        made = apply(a, b)
        if (isinstance(made, int) and abs(made) >> 63) or (
                isinstance(made, tuple) and len(made) > 64):
            raise OverflowError("it is too large")
        return made

    def _unary(self, e: ast.UnaryOp) -> Any:
        x = self.value(e.operand)
        if not _numbers(x) or not isinstance(e.op, (ast.USub, ast.UAdd)):
            raise NotStatic
        return -x if isinstance(e.op, ast.USub) else x

    def _call(self, e: ast.Call) -> Any:
        name = e.func.id if isinstance(e.func, ast.Name) else ""
        if name == "len":
            (arg,) = e.args
            if isinstance(arg, ast.Name) and arg.id in self.types:
                return self.types[arg.id].shape[0]
            return len(self.value(arg))
        given = [self.value(a) for a in e.args]
        if name in ("max", "min") and _numbers(*given):
            return (max if name == "max" else min)(given)
        if name == "ceil_div" and _numbers(*given):
            return -(-given[0] // given[1])
        raise NotStatic


def _numbers(*values: Any) -> bool:
    return all(isinstance(v, (int, float, Dim)) for v in values)


_STATIC: Mapping[type[ast.expr], Callable[[Typed, Any], Any]] = {
    ast.Constant: lambda t, e: e.value,
    ast.Name: Typed._name,
    ast.Tuple: Typed._tuple,
    ast.List: Typed._tuple,
    ast.Attribute: Typed._attribute,
    ast.Subscript: Typed._subscript,
    ast.BinOp: Typed._binary,
    ast.UnaryOp: Typed._unary,
    ast.Call: Typed._call,
}
