"""The functions that users' kernels call, as numba types and lowers them.

Arithmetic is plain instructions; functions of numbers, conversions and what loads and stores 16-bit
floats are calls of functions that `numba_code.py` writes beside the kernel, by names that say all:
`cellc.math.NAME.DTYPE.COUNT`, `cellc.cast.FROM.TO`, `cellc.load.DTYPE`, `cellc.store.DTYPE`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, errors, imputils, types
from numba.core.typing import templates

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

from ...hybrid.functions import FLOAT, NUMBERS, SAME, TESTS
from ...hybrid.language import RESERVED as PREFIX

REGISTERS: dict[DType, Any] = {
    **{d: getattr(types, d.name) for d in NUMBERS if d.kind in ("int", "uint")},
    dtypes.bool_: types.boolean, dtypes.float16: types.float32, dtypes.bfloat16: types.float32,
    dtypes.float32: types.float32, dtypes.float64: types.float64,
}
"""The types in which numbers of a dtype are computed."""
MEMORY: dict[DType, Any] = {
    **REGISTERS, dtypes.bool_: types.uint8, dtypes.float16: types.uint16,
    dtypes.bfloat16: types.uint16,
}
_OF: dict[Any, DType] = {
    **{getattr(types, d.name): d for d in NUMBERS if d.kind in ("int", "uint")},
    types.boolean: dtypes.bool_, types.float32: dtypes.float32, types.float64: dtypes.float64,
}

Generate = Callable[[Any, Any, Any, Sequence[Any]], Any]
"""Lowers a call: context, builder, signature, arguments."""

TYPING: Any = templates.Registry()
LOWERING: Any = imputils.Registry("cellc")
FUNCTIONS: dict[str, Any] = {}
"""The functions that kernels may call, by name: stand-ins in the module that numba compiles."""


def _define(name: str, rule: Callable[..., Any], generate: Generate, last: Any = None) -> None:
    """A function that kernels call; `rule` gives its signature from types. Its last argument gets
    the type `last` (None: as the signature says)."""
    def stand_in(*_: Any) -> None:
        raise RuntimeError("only compiled code calls this")

    stand_in.__name__ = stand_in.__qualname__ = PREFIX + name

    class Template(templates.AbstractTemplate):  # type: ignore[misc]  # numba has no types
        key = stand_in
        prefer_literal = True
        refused: Any = None

        def generic(self, args: Any, kws: Any) -> Any:
            if self.refused is not None:  # numba asks once more, without the numbers
                raise self.refused
            found = rule(*map(types.unliteral, args))
            self.refused = _misfit(args, found.args if last is None else (*found.args[:-1], last))
            if self.refused is not None:
                raise self.refused
            return found

    FUNCTIONS[PREFIX + name] = stand_in
    TYPING.register(Template)
    TYPING.register_global(stand_in, types.Function(Template))
    LOWERING.lower(stand_in, types.VarArg(types.Any))(generate)


# --- types ----------------------------------------------------------------------------------------


def _misfit(given: Sequence[Any], wanted: Sequence[Any]) -> Any:
    """The error of a number that is written down and is none of the type that it takes (Python
    over numpy's numbers has it, too); None if there is none."""
    for x, t in zip(given, wanted, strict=True):
        if isinstance(x, types.IntegerLiteral) and isinstance(t, types.Integer) and \
                not t.minval <= x.literal_value <= t.maxval:
            return errors.TypingError(
                f"{x.literal_value} is no {t}, the type of what it meets: write a number of that "
                "type, or convert the other, as in int64(x)")
    return None


def _known(*given: Any) -> None:
    for t in given:
        if t not in _OF:
            raise errors.TypingError(f"a number is expected here, but this is {t}")


def _common(x: Any, y: Any, weak: str) -> Any:
    """The type that two numbers are promoted to, as for numpy's scalars. `weak` marks a literal,
    which takes the type of the other number if that is of its kind."""
    _known(x, y)
    if weak:
        held, free = (y, x) if weak == "l" else (x, y)
        if _rank(free) <= _rank(held):
            return held
        return types.float64 if _rank(free) == 2 else types.int64
    a, b = _OF[x], _OF[y]
    if a.is_float or b.is_float:
        return max((t for t, d in ((x, a), (y, b)) if d.is_float), key=lambda t: t.bitwidth)
    if {a.kind, b.kind} == {"int", "uint"} and "uint64" in (a.name, b.name):
        return types.int64
    return REGISTERS[dtypes.from_numpy(np.promote_types(a.numpy, b.numpy))]


def _rank(t: Any) -> int:
    """Bool, int, float: a number that is written down changes no kind above its own."""
    return 2 if isinstance(t, types.Float) else 1 if isinstance(t, types.Integer) else 0


def _arithmetic(t: Any) -> Any:
    """Python counts with bools as ints."""
    return types.int64 if t is types.boolean else t


def _float(t: Any) -> Any:
    return t if isinstance(t, types.Float) else types.float64


def _same(*args: Any) -> Any:
    return args[0]


def _bits(t: Any) -> Any:
    if isinstance(t, types.Float):
        raise errors.TypingError(f"a bit operation takes ints and bools, but this is {t}")
    return t


def _shifted(t: Any) -> Any:
    return _arithmetic(_bits(t))


def _binary_rule(result: Callable[[Any], Any], compare: bool, weak: str) -> Callable[..., Any]:
    def rule(x: Any, y: Any) -> Any:
        t = result(_common(x, y, weak))
        return templates.signature(types.boolean if compare else t, t, t)

    return rule


def _unary_rule(
    argument: Callable[[Any], Any], result: Callable[[Any], Any] = _same
) -> Callable[..., Any]:
    def rule(x: Any) -> Any:
        _known(x)
        t = argument(x)
        return templates.signature(result(t), t)

    return rule


# --- code -----------------------------------------------------------------------------------------


def _helper(builder: Any, symbol: str, ret: Any, values: Sequence[Any]) -> Any:
    """A call of one of our functions, which `_write` adds to the module."""
    kind = ir.FunctionType(ret, [v.type for v in values])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, symbol), values)


def _math(name: str) -> Generate:
    """A function of `math/`, of as many numbers as there are arguments."""
    def generate(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
        symbol = f"cellc.math.{name}.{_OF[sig.args[0]].name}.{len(args)}"
        return _helper(builder, symbol, args[0].type, args)

    return generate


def _instruction(name: str, real: str) -> Generate:
    def generate(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
        is_float = isinstance(sig.args[0], types.Float)
        return getattr(builder, real if is_float else name)(*args)

    return generate


def _compare(builder: Any, op: str, t: Any, x: Any, y: Any) -> Any:
    if isinstance(t, types.Float):
        return (builder.fcmp_unordered if op == "!=" else builder.fcmp_ordered)(op, x, y)
    signed = isinstance(t, types.Integer) and t.signed
    return (builder.icmp_signed if signed else builder.icmp_unsigned)(op, x, y)


def _comparison(op: str) -> Generate:
    return lambda context, builder, sig, args: _compare(builder, op, sig.args[0], *args)


def _extreme(op: str) -> Generate:
    """The later one if it is greater (less), as Python's max and min have it."""
    def generate(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
        x, y = args
        return builder.select(_compare(builder, op, sig.args[0], y, x), y, x)

    return generate


def _finite(builder: Any, x: Any) -> Any:
    rest = builder.fsub(x, x)
    return builder.fcmp_ordered("ord", rest, rest)


def _is(question: str) -> Generate:
    def generate(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
        (x,) = args
        if question == "isfinite":
            return _finite(builder, x)
        if question == "isnan":
            return builder.fcmp_unordered("uno", x, x)
        number = builder.fcmp_ordered("ord", x, x)
        return builder.and_(number, builder.not_(_finite(builder, x)))

    return generate


def _square(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
    return _instruction("mul", "fmul")(context, builder, sig, [args[0], args[0]])


def _ceil_div(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
    """(x + y - 1) // y, as Python has it."""
    x, y = args
    one = ir.Constant(x.type, 1)
    add, sub = (builder.fadd, builder.fsub) if isinstance(sig.args[0], types.Float) else \
        (builder.add, builder.sub)
    return _math("floor_div")(context, builder, sig, [sub(add(x, y), one), y])


def _to_dtype(source: DType, dst: DType) -> Generate:
    def generate(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
        ret = context.get_value_type(sig.return_type)
        return _helper(builder, f"cellc.cast.{source.name}.{dst.name}", ret, args)

    return generate


def _cast(dst: DType) -> Generate:
    def generate(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
        return _to_dtype(_OF[sig.args[0]], dst)(context, builder, sig, args)

    return generate


def _is_converted(dtype: DType) -> bool:
    """Whether it is computed in another type than it lies in memory."""
    return REGISTERS[dtype] is not MEMORY[dtype]


def _load(dtype: DType) -> Generate:
    def generate(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
        x = builder.load(builder.gep(args[0], [args[1]]))
        if _is_converted(dtype):
            ret = context.get_value_type(sig.return_type)
            return _helper(builder, f"cellc.load.{dtype.name}", ret, [x])
        return x

    return generate


def _store(dtype: DType) -> Generate:
    def generate(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
        p, at, x = args
        given = _OF[sig.args[2]]
        register = context.get_value_type(REGISTERS[dtype])
        x = _helper(builder, f"cellc.cast.{given.name}.{dtype.name}", register, [x])
        if _is_converted(dtype):
            x = _helper(builder, f"cellc.store.{dtype.name}", p.type.pointee, [x])
        builder.store(x, builder.gep(p, [at]))
        return context.get_dummy_value()

    return generate


def _in(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
    """A position, from the end if it is negative. Out of bounds, it sets the status and the
    function ends."""
    status, line, axis, given, size = args
    i64 = ir.IntType(64)
    behind = builder.icmp_signed("<", given, ir.Constant(i64, 0))
    i = builder.select(behind, builder.add(given, size), given)
    with cgutils.if_unlikely(builder, builder.icmp_unsigned(">=", i, size)):
        for k, v in enumerate((line, given, axis, size)):
            builder.store(v, builder.gep(status, [ir.Constant(i64, k)]))
        context.call_conv.return_user_exc(builder, IndexError, ())
    return i


def _at(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
    """A flat index, of positions and sizes."""
    flat: Any = ir.Constant(ir.IntType(64), 0)
    for i, size in zip(args[::2], args[1::2], strict=True):
        flat = builder.add(builder.mul(flat, size), i)
    return flat


def _in_rule(status: Any, line: Any, axis: Any, given: Any, size: Any) -> Any:
    if not isinstance(given, types.Integer):
        raise errors.TypingError(f"a position of an element must be an int, but this is {given}")
    return templates.signature(types.int64, status, *[types.int64] * 4)


def _at_rule(*args: Any) -> Any:
    return templates.signature(types.int64, *[types.int64] * len(args))


def _int_rule(x: Any) -> Any:
    if not isinstance(x, types.Integer):
        raise errors.TypingError(f"the bounds of a loop must be ints, but this is {x}")
    return templates.signature(types.int64, types.int64)


def _each(do: Callable[[Any, Sequence[Any], Any], None]) -> Generate:
    """A loop over elements of a buffer (a plain one: LLVM widens it)."""
    def generate(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> Any:
        first, last = args[-2:]
        with cgutils.for_range(builder, builder.sub(last, first)) as loop:
            do(builder, args, builder.add(first, loop.index))
        return context.get_dummy_value()

    return generate


def _zero(builder: Any, args: Sequence[Any], i: Any) -> None:
    p = args[0]
    builder.store(ir.Constant(p.type.pointee, 0), builder.gep(p, [i]))


def _copy(builder: Any, args: Sequence[Any], i: Any) -> None:
    builder.store(builder.load(builder.gep(args[1], [i])), builder.gep(args[0], [i]))


def _fill() -> None:
    """Define every function."""
    binary: dict[str, tuple[Callable[[Any], Any], bool, Generate]] = {
        "add": (_arithmetic, False, _instruction("add", "fadd")),
        "sub": (_arithmetic, False, _instruction("sub", "fsub")),
        "mul": (_arithmetic, False, _instruction("mul", "fmul")),
        "div": (_float, False, _instruction("fdiv", "fdiv")),
        "and": (_bits, False, _instruction("and_", "and_")),
        "or": (_bits, False, _instruction("or_", "or_")),
        "xor": (_bits, False, _instruction("xor", "xor")),
        "shl": (_shifted, False, _math("shl")), "shr": (_shifted, False, _math("shr")),
        **{n: (_arithmetic, False, _math(n)) for n in ("floor_div", "floor_mod", "pow")},
        "ceil_div": (_arithmetic, False, _ceil_div),
        "atan2": (_float, False, _math("atan2")),
        "max": (_same, False, _extreme(">")), "min": (_same, False, _extreme("<")),
        **{n: (_same, True, _comparison(op)) for n, op in (
            ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("eq", "=="), ("ne", "!="))},
    }
    for name, (result, compare, generate) in binary.items():
        for weak in ("", "l", "r"):
            _define(f"{name}_{weak}" if weak else name, _binary_rule(result, compare, weak),
                    generate)
    for name in FLOAT:
        _define(name, _unary_rule(_float), _math(name))
    for name in (*SAME, "neg"):
        _define(name, _unary_rule(_arithmetic), _math(name))
    for name in TESTS:
        _define(name, _unary_rule(_float, lambda t: types.boolean), _is(name))
    _define("square", _unary_rule(_arithmetic), _square)
    _define("invert", _unary_rule(_bits), _math("not"))
    _define("int", _int_rule, lambda context, builder, sig, args: args[0])
    _define("in", _in_rule, _in)
    _define("at", _at_rule, _at)
    _define("zero", lambda p, *ends: templates.signature(
        types.none, p, types.int64, types.int64), _each(_zero))
    _define("copy", lambda p, q, *ends: templates.signature(
        types.none, p, q, types.int64, types.int64), _each(_copy))
    for d in NUMBERS:
        _fill_dtype(d)


def _fill_dtype(d: DType) -> None:
    def cast_rule(x: Any) -> Any:
        _known(x)
        return templates.signature(REGISTERS[d], x)

    def store_rule(p: Any, at: Any, x: Any) -> Any:
        _known(x)
        return templates.signature(types.none, p, types.int64, x)

    _define(f"cast_{d.name}", cast_rule, _cast(d))
    _define(f"load_{d.name}",
            lambda p, at: templates.signature(REGISTERS[d], p, types.int64), _load(d))
    _define(f"store_{d.name}", store_rule, _store(d), REGISTERS[d])


_fill()
