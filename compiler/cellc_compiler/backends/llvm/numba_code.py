"""LLVM text of users' own kernels: numba types and lowers them, all that they call is ours.

Numba compiles the function that `hybrid/native.py` writes, with a calling convention that needs
nothing at run time (an int says whether it ended early) and with no library beyond its own loops,
branches and variables. `numba_functions.py` lowers the functions it calls: arithmetic as plain
instructions, functions of numbers as calls of the ones in `math/`, which are written into the same
module. So a kernel's bits are those of cellc's ops on every machine; the code refers to nothing
outside of it.

Numba's own passes do not run: its text is for no machine yet (`lowered` gives it to any back end
through LLVM). LLVM optimizes it where it is compiled (`build/emit.py`), without contraction or
reassociation.

This module and `numba_functions.py` import numba, and load when a kernel is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, NoReturn

from llvmlite import ir
from numba.core import callconv, codegen, compiler, cpu, errors, types, typing
from numba.cpython import (  # noqa: F401  # what a context knows of the language
    builtins,
    numbers,
    rangeobj,
    tupleobj,
)

from cellc_runtime.dtypes import BY_NAME, DType
from cellc_runtime.target import Target

from ...build.abi import PLACEHOLDER
from ...build.emit import OPTIMIZE
from ...hybrid.language import KernelError
from ...hybrid.native import DEFINED, Native
from . import convert
from .math import functions as math
from .numba_functions import FUNCTIONS, LOWERING, MEMORY, TYPING
from .text import Function, V, kernel_function, module

_ALWAYS = 'alwaysinline nounwind "no-builtins"'
"""Attributes of all functions of the module: LLVM puts no calls of memset and its like there."""

# --- numba's contexts -----------------------------------------------------------------------------


class _Convention(callconv.MinimalCallConv):  # type: ignore[misc]  # numba has no types
    """Pointers never name the memory that another one writes."""

    def decorate_function(
        self, fn: Any, args: Any, fe_argtypes: Any, noalias: bool = False
    ) -> None:
        super().decorate_function(fn, args, fe_argtypes)
        for a in self.get_arguments(fn):
            if isinstance(a.type, ir.PointerType):
                a.add_attribute("noalias")


class _Library(codegen.CPUCodeLibrary):  # type: ignore[misc]  # numba has no types
    """Text as it is lowered: it runs nowhere here."""

    def _optimize_functions(self, ll_module: Any) -> None:
        pass

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_specific(self) -> None:
        pass


class _Codegen(codegen.JITCPUCodegen):  # type: ignore[misc]  # numba has no types
    _library_class = _Library


class _Context(cpu.CPUContext):  # type: ignore[misc]  # numba has no types
    def init(self) -> None:
        super().init()
        self._internal_codegen = _Codegen("cellc")

    def load_additional_registries(self) -> None:
        self.install_registry(LOWERING)

    @property
    def call_conv(self) -> Any:
        return _Convention(self)


class _Typing(typing.Context):  # type: ignore[misc]  # numba has no types
    """A variable that is an int on one path and a float on another is that float."""

    def unify_pairs(self, first: Any, second: Any) -> Any:
        for x, y in ((first, second), (second, first)):
            if isinstance(x, types.Float) and isinstance(y, types.Integer):
                return x
        return super().unify_pairs(first, second)

    def load_additional_registries(self) -> None:
        super().load_additional_registries()
        self.install_registry(TYPING)


@cache
def _contexts() -> tuple[Any, Any]:
    kinds = _Typing()
    context = _Context(kinds, "cpu")
    kinds.refresh()
    context.refresh()
    return kinds, context


# --- modules --------------------------------------------------------------------------------------


def lowered(kernel: Native) -> tuple[str, str]:
    """A kernel as numba lowers it: the symbol of its function, and a module in LLVM text.

    The function takes the address of a result that it has not, the pointers and the status, and
    gives an i32. It is for no machine in particular; it calls functions that `helpers` writes.
    Raises KernelError if numba cannot type it.
    """
    space: dict[str, Any] = dict(FUNCTIONS)
    exec(compile(kernel.module, kernel.source.file, "exec"), space)
    flags = compiler.Flags()
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.nrt = False
    flags.error_model = "numpy"
    flags.boundscheck = False
    kinds, context = _contexts()
    pointers = [types.CPointer(MEMORY[d]) for d in kernel.pointers]
    arguments = (*pointers, types.CPointer(types.int64), types.int64, types.int64)
    try:
        made = compiler.compile_extra(kinds, context, space[DEFINED], arguments, types.none,
                                      flags, {})
    except errors.NumbaError as error:
        _refuse(kernel, error)
    return made.fndesc.llvm_func_name, made.library.get_llvm_str()


_PLACE = re.compile(r'File "[^"]*", line (\d+)')


def _refuse(kernel: Native, error: Any) -> NoReturn:
    """Say what numba says, in a few words, and where.

    Raises:
        KernelError: always.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("TypingError: ")]
    text = own[0].removeprefix("TypingError: ") if own else next(
        (x for x in lines if not x.startswith(("Failed in", "- Resolution", "During"))), lines[0])
    places = _PLACE.findall(str(error)) or [getattr(error.loc, "line", 1)]
    kernel.source.fail(int(places[-1]) - kernel.source.line + 1,
                       f"the kernel {kernel.name}() cannot be compiled: {text}")


_DECLARED = re.compile(r"^declare .*@([\w.$]+|\"[^\"]*\")\(.*$", re.MULTILINE)


def kernel_text(kernel: Native, target: Target, tasks: int) -> str:
    """The module of a kernel: `KERNEL`, whose tasks are parts of the rows, and what it calls.

    Each task has a status of its own; those that one call does have the first one's. Raises
    KernelError if numba cannot type it, or it needs numba's run time.
    """
    symbol, text = lowered(kernel)
    body, helpers = _own(kernel, symbol, text)
    f = Function(PLACEHOLDER, [("ptr", "bufs"), ("i64", "lo"), ("i64", "hi")], target,
                 attributes='"no-builtins"')
    count = len(kernel.pointers) + 1
    *pointers, status = [f.load("ptr", f.gep(f.arg("bufs"), i, "ptr")) for i in range(count)]
    low, high = f.arg("lo"), f.arg("hi")
    slot = f.i64(STATUS_INTS)
    f.loop(low * slot, high * slot, 1, [], lambda i, _: f.store(f.i64(0), f.gep(status, i, "i64")))
    rows = [end * kernel.rows // tasks for end in (low, high)]
    nothing = f.emit("ptr", "alloca ptr")
    args = (nothing, *pointers, f.gep(status, low * slot, "i64"), *rows)
    f.emit("i32", f"call i32 @{_SYMBOL}({', '.join(map(str, args))})")
    f.ret_()
    parts = [_helper_text(name, target) for name in sorted(helpers)]
    declares = {d for part in parts for d in part.declares}
    return OPTIMIZE + "\n".join([body, f.text(), *(p.text() for p in parts),
                                 *sorted(declares)]) + "\n"


def first_status(tasks: int, target: Target) -> str:
    """A kernel that copies the first status of a task that ended early, or the last one."""
    f, (given, out) = kernel_function(target, 2)

    def step(i: V, held: list[V]) -> list[V]:
        at = i * STATUS_INTS
        seen = [f.load("i64", f.gep(given, at + k, "i64")) for k in range(STATUS_INTS)]
        none = f.cmp("eq", held[0], 0)
        return [f.select(none, s, h) for s, h in zip(seen, held, strict=True)]

    found = f.loop(0, f.i64(tasks), 1, [f.i64(0)] * STATUS_INTS, step)
    for k, v in enumerate(found):
        f.store(v, f.gep(out, k, "i64"))
    f.ret_()
    return module([f])


STATUS_INTS = 4  # Line, position, axis and size

_SYMBOL = "user_kernel"  # The name of the kernel's function in its module


def _quoted(name: str) -> str:
    """A name as LLVM text writes it."""
    return name if re.fullmatch(r"[\w.$]+", name) else f'"{name}"'


def _own(kernel: Native, symbol: str, text: str) -> tuple[str, set[str]]:
    """The function alone, to be put into its caller, and the names of ours that it calls."""
    helpers: set[str] = set()
    foreign: set[str] = set()
    for match in _DECLARED.finditer(text):
        name = match[1].strip('"')
        (helpers if name.startswith("cellc.") else foreign).add(name)
    if outside := {n for n in foreign if not n.startswith("llvm.")}:
        raise KernelError(f"the kernel {kernel.name}() needs "
                          f"{', '.join(sorted(outside))} of numba's run time, which compiled code "
                          f"does not have")
    kept = [line for line in text.splitlines()
            if not line.startswith(("source_filename", "target ", "; ModuleID", "@_ZN08NumbaEnv"))
            and not (line.startswith("declare") and "@cellc." in line)]
    # (Numba counts what it compiles and has the number in the symbol.)
    body = "\n".join(kept).replace(f"@{_quoted(symbol)}(", f"@{_SYMBOL}(")
    body = re.sub(rf"^define .*(@{_SYMBOL}\(.*\))[^{{)]*\{{$",
                  rf"define internal i32 \1 {_ALWAYS} {{", body, flags=re.MULTILINE)
    return body, helpers


def _helper_text(symbol: str, target: Target) -> Function:
    """One of our functions, of scalars: `cellc.math.NAME.DTYPE.COUNT`, `cellc.cast.FROM.TO`,
    `cellc.load.DTYPE` and `cellc.store.DTYPE` (between memory and registers)."""
    kind, *rest = symbol.split(".")[1:]
    if kind == "math":
        name, dtype, count = rest[0], BY_NAME[rest[1]], int(rest[2])
        ty = convert.register_type(dtype)
        f = _function(symbol, [ty] * count, ty, target)
        args = [f.arg(f"x{i}") for i in range(count)]
        value = math.emit(f, name, *args, signed=dtype.kind == "int")
        if ty == "float" and any("@llvm.copysign.f64" in d for d in f.declares):
            # Narrowed to float16, LLVM would take the sign from the double by a library call.
            value = f.intrinsic("arithmetic.fence", ty, value)
        f.ret_(value)
        return f
    if kind == "cast":
        src, dst = BY_NAME[rest[0]], BY_NAME[rest[1]]
        f = _function(symbol, [convert.register_type(src)], convert.register_type(dst), target)
        f.ret_(convert.convert(f, f.arg("x0"), src, dst))
        return f
    dtype = BY_NAME[rest[0]]
    held, register = _held(dtype), convert.register_type(dtype)
    memory = convert.memory_type(dtype)
    if kind == "load":
        f = _function(symbol, [held], register, target)
        raw = f.arg("x0")
        x = raw if held == memory else f.cast("bitcast", raw, memory)
        f.ret_(convert.from_memory(f, x, dtype))
        return f
    f = _function(symbol, [register], held, target)
    x = convert.to_memory(f, f.arg("x0"), dtype)
    f.ret_(x if held == memory else f.cast("bitcast", x, held))
    return f


def _held(dtype: DType) -> str:
    """The LLVM type in which numba loads and stores a dtype."""
    return f"i{8 * dtype.itemsize}"


def _function(symbol: str, params: Sequence[str], ret: str, target: Target) -> Function:
    return Function(symbol, [(ty, f"x{i}") for i, ty in enumerate(params)], target, ret=ret,
                    linkage="internal", attributes=_ALWAYS)
