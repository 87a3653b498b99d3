"""A kernel for given types, as a function that numba compiles.

Tensors become pointers, shapes numbers; an element is read and written at a flat index that `_k_at`
makes of its positions; `_k_in` checks those that are not variables of loops which fit. Arithmetic
is spelled as calls, so that its types are those of the same lines run by Python over numpy arrays:
a number that is written down takes the type of what it meets, float32 stays float32. A back end
defines these calls (`backends/llvm/numba_functions.py`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass

from ..ir.dims import Dim
from ..ir.types import TensorType
from .analysis import Analysis
from .functions import BUFFERS, CASTS, PAIRS
from .language import RESERVED as PREFIX
from .language import NotStatic, Source, Typed, read

LOW, HIGH = PREFIX + "low", PREFIX + "high"  # Which rows are to be done
STATUS = PREFIX + "status"
"""The record of the first position out of bounds: line, position, axis, size."""
DEFINED = PREFIX + "_"  # The name of the function in the compiled module
SOURCE_OF = PREFIX + "from_"  # How the elements come in of an input that is a result, too

_BINARY: Mapping[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floor_div",
    ast.Mod: "floor_mod", ast.Pow: "pow", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
    ast.LShift: "shl", ast.RShift: "shr",
}
_COMPARISONS: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}
_PAIR_NAMES = {"power": "pow"}


@dataclass(frozen=True, slots=True)
class Native:
    """The module that numba compiles."""

    name: str  # of the kernel
    module: ast.Module  # the syntax tree of a module that defines `DEFINED`
    source: Source  # what it is made of
    # the element types of its arguments (those of the operands, the results, memory of its own),
    # before the one of the status and the two ints of the rows
    pointers: tuple[DType, ...]
    rows: int  # how many it has that are independent; 1 if it does all at once
    operands: tuple[TensorType, ...]  # for each operand, the type
    scratch: tuple[TensorType, ...]  # the types of memory of its own


def typed(source: Source, operands: tuple[TensorType, ...]) -> Typed:
    """The kernel of a text on operands of these types. Raises KernelError if it is not written in
    the language, or they do not fit it."""
    if all(ty.is_static for ty in operands):
        return _forms(source, operands)[0]
    return Typed(read(source), operands)  # to compare open sizes would be to ask for them


def native(source: Source, operands: tuple[TensorType, ...]) -> Native:
    """The function for a kernel on operands of these types, whose sizes are known.

    Raises:
        KernelError: as `typed`.
    """
    return _forms(source, operands)[1]


@lru_cache(1024)
def _forms(source: Source, operands: tuple[TensorType, ...]) -> tuple[Typed, Native]:
    found = Typed(read(source), operands)
    return found, _native(found)


def _native(typed: Typed) -> Native:
    k = typed.kernel
    scratch = [n for n, b in k.buffers.items() if not b.output]
    operands = [SOURCE_OF + n if n in k.results else n for n in k.params]
    names = [*operands, *k.results, *scratch, STATUS, LOW, HIGH]
    writer = _Writer(typed)
    module = ast.parse(f"def {DEFINED}({', '.join(names)}): pass")
    (define,) = module.body
    assert isinstance(define, ast.FunctionDef)
    define.body = writer.function()
    ast.fix_missing_locations(module)
    ast.increment_lineno(module, k.source.line - 1)
    types = [typed.types[n] for n in (*k.params, *k.results, *scratch)]
    return Native(k.name, module, k.source, tuple(t.dtype for t in types),
                  1 if writer.rows is None else writer.rows,
                  tuple(typed.types[n] for n in k.params),
                  tuple(typed.types[n] for n in scratch))


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(_name(PREFIX + name), list(args), [])


class _Writer:
    """Writes the body of the function."""

    def __init__(self, typed: Typed) -> None:
        self.typed = typed
        self.fail = typed.kernel.source.fail
        self.tuples: dict[str, tuple[str, ...]] = {}
        """Variables that are positions of several axes, by the variables of each."""
        self.loops = 0
        self.analysis = Analysis(typed)
        self.unassigned = self.analysis.unassigned()
        """Variables with a flag: whether they are unassigned yet, which each read asks."""
        self.rows = self.analysis.rows()
        self.below = self.analysis.counted()

    def function(self) -> list[ast.stmt]:
        k = self.typed.kernel
        first: list[ast.stmt] = []
        for name in k.params:
            if name in k.results:
                first.append(ast.Expr(_call(
                    "copy", _name(name), _name(SOURCE_OF + name), *self._part(name))))
        # Memory made in a branch may be read after it: it is zeros there.
        first += [self._zeros(n) for n, b in k.buffers.items() if not b.output]
        first += [self._flag(n, 1) for n in self.unassigned]
        return [*first, *self.block(k.body), ast.Return(value=None)]

    def _flag(self, name: str, value: int) -> ast.stmt:
        return ast.Assign([ast.Name(f"{PREFIX}unassigned_{name}", ast.Store())],
                          _call("int", ast.Constant(value)))

    def _flags(self, target: ast.expr) -> list[ast.stmt]:
        """Note that the variables of a target are assigned."""
        return [self._flag(n.id, 0) for n in ast.walk(target)
                if isinstance(n, ast.Name) and n.id in self.unassigned]

    def _part(self, name: str) -> list[ast.expr]:
        """Return the elements of a tensor that the present rows hold: first, and end."""
        size = self.typed.types[name].size
        if not self.rows:
            return [ast.Constant(0), ast.Constant(size)]
        return [_call("mul", _name(end), ast.Constant(size // self.rows)) for end in (LOW, HIGH)]

    def _zeros(self, name: str) -> ast.stmt:
        return ast.Expr(_call("zero", _name(name), *self._part(name)))

    # --- statements -------------------------------------------------------------------------------

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for s in statements:
            made = _STATEMENTS[type(s)](self, s)
            if isinstance(s, (ast.Assign, ast.AugAssign)):
                made += self._flags(s.targets[0] if isinstance(s, ast.Assign) else s.target)
            elif isinstance(s, ast.For):
                made[0].body[:0] = self._flags(s.target)  # type: ignore[attr-defined]  # a loop
            out += [ast.copy_location(m, s) for m in made]
        return out or [ast.Pass()]

    def _assign(self, s: ast.Assign) -> list[ast.stmt]:
        target, call = s.targets[0], s.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) \
                and call.func.id in BUFFERS and isinstance(target, ast.Name):
            return [] if self.analysis.filled(target.id) else [self._zeros(target.id)]
        if isinstance(target, (ast.Tuple, ast.List)):
            return self._unpack(target, s)
        if isinstance(target, ast.Name):
            if target.id in self.typed.kernel.known and self._is_tuple(call):
                return []  # it is known wherever it is used
            return [ast.Assign([ast.Name(target.id, ast.Store())], self.held(call))]
        return [self._store(target, self.expr(call))]

    def _is_tuple(self, e: ast.expr) -> bool:
        try:
            return isinstance(self.typed.value(e), (tuple, str, DType))
        except NotStatic:
            return False

    def _unpack(self, target: ast.Tuple | ast.List, s: ast.Assign) -> list[ast.stmt]:
        if self._is_tuple(s.value) and all(
                isinstance(t, ast.Name) and t.id in self.typed.kernel.known for t in target.elts):
            return []
        if not isinstance(s.value, (ast.Tuple, ast.List)) \
                or len(s.value.elts) != len(target.elts):
            self.fail(s, "several names are given as many numbers, or a shape")
        values = [self.held(v) for v in s.value.elts]
        names: list[ast.stmt] = []
        for t, v in zip(target.elts, values, strict=True):
            if not isinstance(t, ast.Name):
                self.fail(s, "several values go to names")
            names.append(ast.Assign([ast.Name(PREFIX + t.id, ast.Store())], v))
        return names + [ast.Assign([ast.Name(t.id, ast.Store())], _name(PREFIX + t.id))
                        for t in target.elts if isinstance(t, ast.Name)]

    def _augmented(self, s: ast.AugAssign) -> list[ast.stmt]:
        held: ast.expr
        if isinstance(s.target, ast.Name):
            held = ast.Name(s.target.id, ast.Load())
        elif isinstance(s.target, ast.Subscript):
            held = ast.Subscript(s.target.value, s.target.slice, ast.Load())
        else:
            self.fail(s, "only names and elements of tensors can be assigned")
        value = ast.copy_location(ast.BinOp(ast.copy_location(held, s), s.op, s.value), s)
        return self._assign(ast.copy_location(ast.Assign([s.target], value), s))

    def _for(self, s: ast.For) -> list[ast.stmt]:
        assert isinstance(s.iter, ast.Call) and isinstance(s.iter.func, ast.Name)
        if s.iter.func.id == "grid":
            return self._grid(s, s.iter.args[0])
        args: list[ast.expr] = [_call("int", self.expr(a)) for a in s.iter.args]
        if s is self.analysis.outer:
            args = [_name(LOW), _name(HIGH)]
        if len(args) == 3:
            try:
                step = self.typed.value(s.iter.args[2])
            except NotStatic:
                step = 0
            if not isinstance(step, int) or not step:
                self.fail(s, "the step of a loop must be a number that is known ahead, not 0")
            args[2] = _call("int", _number(step))
        assert isinstance(s.target, ast.Name)
        count = ast.Call(_name("range"), list(args), [])
        return [ast.For(ast.Name(s.target.id, ast.Store()), count, self.block(s.body), [])]

    def _grid(self, s: ast.For, shape: ast.expr) -> list[ast.stmt]:
        """A loop inside of a loop for each axis."""
        if isinstance(shape, (ast.Tuple, ast.List)):
            sizes = [self.expr(e) for e in shape.elts]
        else:
            try:
                known = self.typed.value(shape)
            except NotStatic:
                known = None
            if not isinstance(known, tuple):
                self.fail(s, "grid() takes a shape")
            sizes = [_number(d) for d in known]
        if isinstance(s.target, ast.Name):
            self.loops += 1
            names = tuple(f"{PREFIX}axis{self.loops}_{i}" for i in range(len(sizes)))
            self.tuples[s.target.id] = names
            self.below.update(zip(names, (self.analysis.loop(s) or {}).values(), strict=False))
        else:
            parts = s.target.elts if isinstance(s.target, (ast.Tuple, ast.List)) else []
            names = tuple(p.id for p in parts if isinstance(p, ast.Name))
        if len(names) != len(sizes) or not names:
            self.fail(s, f"grid() of {len(sizes)} axes gives as many positions")
        # Python counts positions apart from the variables: what the body makes of these is lost.
        stored = {n.id for x in s.body for n in ast.walk(x) if isinstance(n, ast.Name)
                  and isinstance(n.ctx, ast.Store)}
        self.loops += 1
        counters = tuple(f"{PREFIX}at{self.loops}_{n}" if n in stored else n for n in names)
        body: list[ast.stmt] = [
            ast.Assign([ast.Name(n, ast.Store())], _name(c))
            for n, c in zip(names, counters, strict=True) if n != c]
        body += self.block(s.body)
        for name, size in zip(reversed(counters), reversed(sizes), strict=True):
            ends = [_name(LOW), _name(HIGH)] if s is self.analysis.outer and name == counters[0] \
                else [_call("int", size)]
            count = ast.Call(_name("range"), [*ends], [])
            body = [ast.copy_location(ast.For(ast.Name(name, ast.Store()), count, body, []), s)]
        return body

    def _while(self, s: ast.While) -> list[ast.stmt]:
        return [ast.While(self.expr(s.test), self.block(s.body), [])]

    def _if(self, s: ast.If) -> list[ast.stmt]:
        return [ast.If(self.expr(s.test), self.block(s.body),
                       self.block(s.orelse) if s.orelse else [])]

    # --- elements ---------------------------------------------------------------------------------

    def _store(self, target: Any, value: ast.expr) -> ast.stmt:
        name = target.value.id
        if name not in self.typed.types:
            self.fail(target, f"{name!r} is no tensor: only elements of tensors can be assigned")
        dtype = self.typed.types[name].dtype
        return ast.Expr(_call(f"store_{dtype.name}", _name(name), self._at(target), value))

    def _at(self, e: ast.Subscript) -> ast.expr:
        """The flat index of an element, checked."""
        assert isinstance(e.value, ast.Name)
        dims = self.typed.types[e.value.id].dims
        parts = self._positions(e.slice)
        if len(parts) != len(dims):
            self.fail(e, f"{e.value.id!r} has {len(dims)} axes, but {len(parts)} positions are "
                         f"given: a kernel reads and writes single elements")
        line = ast.Constant(self.typed.kernel.source.line + e.lineno - 1)
        args: list[ast.expr] = []
        for axis, (part, size) in enumerate(zip(parts, dims, strict=True)):
            extent = ast.Constant(int(size))
            if not isinstance(part, ast.Name) or self.below.get(part.id, size + 1) > size:
                part = _call("in", _name(STATUS), line, ast.Constant(axis), part, extent)
            args += [part, extent]
        return _call("at", *args)

    def _positions(self, index: ast.expr) -> list[ast.expr]:
        if isinstance(index, ast.Name) and index.id in self.tuples:
            return [_name(n) for n in self.tuples[index.id]]
        if isinstance(index, (ast.Tuple, ast.List)):
            return [self.expr(i) for i in index.elts]
        if self._is_tuple(index):
            return [_number(d) for d in self.typed.value(index)]
        return [self.expr(index)]

    # --- expressions ------------------------------------------------------------------------------

    def known(self, e: ast.expr) -> ast.expr | None:
        """A number that is known ahead, which takes the type of what it meets; else None."""
        if any(isinstance(n, ast.Name) and n.id in self.unassigned for n in ast.walk(e)):
            return None
        try:
            value = self.typed.value(e)
        except NotStatic:
            return None
        if isinstance(value, (bool, int, float, Dim)):
            return ast.copy_location(_number(value), e)
        return None

    def held(self, e: ast.expr) -> ast.expr:
        """An expression that is assigned to a variable. A float literal takes the type of the
        kernel's floats at once; Python would decide at its first use."""
        x = self.expr(e)
        if isinstance(x, ast.Constant) and isinstance(x.value, float):
            floats = {t.dtype.itemsize for t in self.typed.types.values() if t.dtype.is_float}
            if floats and max(floats) < 8:
                return ast.copy_location(_call("cast_float32", x), e)
        return x

    def expr(self, e: ast.expr) -> ast.expr:
        """An expression that is a number."""
        found = self.known(e)
        if found is not None:
            return found
        rule = _EXPRESSIONS.get(type(e))
        if rule is None:
            slices = isinstance(e, ast.Slice)
            self.fail(e, "a kernel reads and writes single elements, no slices" if slices
                      else "this is no number")
        return ast.copy_location(rule(self, e), e)

    def _variable(self, e: ast.Name) -> ast.expr:
        if e.id in self.typed.types:
            self.fail(e, f"{e.id!r} is a tensor: a kernel computes with its elements, as {e.id}[i]")
        if e.id in self.tuples or self._is_tuple(e):
            self.fail(e, f"{e.id!r} is no number")
        if e.id not in self.unassigned:
            return ast.Name(e.id, ast.Load())
        # A status of a negative line: of a variable, not of a position.
        line = self.typed.kernel.source.line + e.lineno - 1
        size = ast.Constant(line)
        flag = _call("mul", _name(f"{PREFIX}unassigned_{e.id}"), size)
        number = ast.Constant(self.unassigned.index(e.id))
        found = _call("in", _name(STATUS), ast.Constant(-line), number, flag, size)
        return ast.IfExp(ast.Compare(found, [ast.Eq()], [ast.Constant(0)]), _name(e.id),
                         _name(e.id))

    def _element(self, e: ast.Subscript) -> ast.expr:
        held = e.value
        if isinstance(held, ast.Name) and held.id in self.tuples:
            try:
                return _name(self.tuples[held.id][self.typed.value(e.slice)])
            except (NotStatic, IndexError, TypeError):
                self.fail(e, f"the axis of {held.id!r} must be known ahead")
        if not isinstance(held, ast.Name) or held.id not in self.typed.types:
            self.fail(e, "only elements of tensors can be read, by name")
        dtype = self.typed.types[held.id].dtype
        return _call(f"load_{dtype.name}", _name(held.id), self._at(e))

    def pair(self, name: str, left: ast.expr, right: ast.expr) -> ast.expr:
        """A function of two numbers: one that is known takes the other's type."""
        a, b = self.known(left), self.known(right)
        side = "_l" if a is not None and b is None else "_r" if b is not None and a is None else ""
        x = self.expr(left) if a is None else a
        y = self.expr(right) if b is None else b
        if name == "pow" and isinstance(y, ast.Constant) and y.value == 2:
            return _call("square", x)
        return _call(name + side, x, y)

    def _operation(self, e: ast.BinOp) -> ast.expr:
        name = _BINARY.get(type(e.op))
        if name is None:
            self.fail(e, "a kernel does not know this operator")
        return self.pair(name, e.left, e.right)

    def _unary(self, e: ast.UnaryOp) -> ast.expr:
        x = self.expr(e.operand)
        if isinstance(e.op, ast.Not):
            return ast.UnaryOp(ast.Not(), x)
        if isinstance(e.op, ast.UAdd):
            return x
        return _call("neg" if isinstance(e.op, ast.USub) else "invert", x)

    def _compare(self, e: ast.Compare) -> ast.expr:
        parts: list[ast.expr] = []
        for left, op, right in zip([e.left, *e.comparators], e.ops, e.comparators, strict=False):
            name = _COMPARISONS.get(type(op))
            if name is None:
                self.fail(e, "a kernel does not know this comparison")
            parts.append(self.pair(name, left, right))
        return parts[0] if len(parts) == 1 else ast.BoolOp(ast.And(), parts)

    def _call(self, e: ast.Call) -> ast.expr:
        assert isinstance(e.func, ast.Name)
        name = e.func.id
        if name in CASTS:
            return _call(f"cast_{CASTS[name].name}", self.expr(e.args[0]))
        if name in ("max", "min"):
            if len(e.args) < 2:
                self.fail(e, f"{name}() takes two numbers or more")
            return self._extreme(name, e.args)
        if name in PAIRS:
            return self.pair(_PAIR_NAMES.get(name, name), *e.args)
        if name == "len":
            self.fail(e, "len() takes a tensor or a shape")
        return _call(name, self.expr(e.args[0]))

    def _extreme(self, name: str, args: Sequence[ast.expr]) -> ast.expr:
        """As Python finds it: a later one counts if it is greater (less)."""
        first = [self.known(a) is not None for a in args]
        out = self.pair(name, args[0], args[1])
        for i, arg in enumerate(args[2:], 2):
            out = _call(name + ("_r" if first[i] else ""), out, self.expr(arg))
        return out

    def _choice(self, e: ast.IfExp) -> ast.expr:
        return ast.IfExp(self.expr(e.test), self.held(e.body), self.held(e.orelse))

    def _logical(self, e: ast.BoolOp) -> ast.expr:
        return ast.BoolOp(e.op, [self.expr(v) for v in e.values])


def _number(value: Any) -> ast.expr:
    """A number as Python writes it (numba knows no sign in a constant)."""
    if isinstance(value, (bool, float)):
        return ast.Constant(value)
    return ast.Constant(int(value))


_STATEMENTS: Mapping[type[ast.stmt], Callable[[_Writer, Any], list[ast.stmt]]] = {
    ast.Assign: _Writer._assign, ast.AugAssign: _Writer._augmented, ast.For: _Writer._for,
    ast.While: _Writer._while, ast.If: _Writer._if, ast.With: lambda w, s: w.block(s.body),
    ast.Pass: lambda w, s: [ast.Pass()], ast.Break: lambda w, s: [ast.Break()],
    ast.Continue: lambda w, s: [ast.Continue()], ast.Expr: lambda w, s: [],
}
_EXPRESSIONS: Mapping[type[ast.expr], Callable[[_Writer, Any], ast.expr]] = {
    ast.Name: _Writer._variable, ast.Subscript: _Writer._element, ast.BinOp: _Writer._operation,
    ast.UnaryOp: _Writer._unary, ast.BoolOp: _Writer._logical, ast.Compare: _Writer._compare,
    ast.IfExp: _Writer._choice, ast.Call: _Writer._call,
}
