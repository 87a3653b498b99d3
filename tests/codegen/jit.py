"""Compile LLVM text of a kernel and call it over numpy arrays: what code generation tests run.

Test-only: the product links objects itself. A `Jitted` keeps its engine alive as long as it
lives, and never shares a target machine between engines.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from cellc_compiler.backends.llvm.text import Function, V, module
from cellc_compiler.build.abi import PLACEHOLDER
from cellc_compiler.lower.kernel import Kernel
from cellc_runtime.target import Target, host_target

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()

_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def machine(target: Target, *, jit: bool = False) -> Any:
    """A fresh target machine for `target` (opt 3, no IR passes), as the product compiles."""
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=3, reloc="pic",
        codemodel="jitdefault" if jit else "small")


def assembly(text: str, target: Target) -> str:
    """The assembly of a module for `target` (any target, not only the host's)."""
    mod = llvm.parse_assembly(text)
    mod.verify()
    return str(machine(target).emit_assembly(mod))


@dataclass(slots=True)
class Jitted:
    """A compiled kernel: call it with arrays (inputs, outputs, scratch) and a task range."""

    engine: Any
    entry: Callable[[int, int, int], None]
    numbers: tuple[int, ...] = ()

    def __call__(self, arrays: Sequence[np.ndarray[Any, Any]], lo: int, hi: int) -> None:
        """Run tasks lo..hi-1 on the arrays' memory."""
        words = [*(a.ctypes.data for a in arrays), *self.numbers]
        table = (ctypes.c_void_p * len(words))(*words)
        self.entry(ctypes.addressof(table), lo, hi)


def compile_text(text: str, name: str = PLACEHOLDER, target: Target | None = None) -> Jitted:
    """Compile a module for the host (or a target it can run) and find the kernel `name`."""
    mod = llvm.parse_assembly(text.replace("define hidden", "define"))
    mod.verify()
    engine = llvm.create_mcjit_compiler(mod, machine(target or host_target(), jit=True))
    engine.finalize_object()
    return Jitted(engine, _ENTRY(engine.get_function_address(name)))


def compile_kernel(kernel: Kernel, target: Target | None = None) -> Jitted:
    """Compile a `Kernel`."""
    return replace(compile_text(kernel.code, target=target), numbers=kernel.numbers)


def run_kernel(kernel: Kernel, *arrays: np.ndarray[Any, Any]) -> None:
    """Compile a kernel and run all its tasks."""
    compile_kernel(kernel)(arrays, 0, kernel.ntasks)


def map_text(
    rule: Callable[[Function, list[V]], V],
    in_types: Sequence[str],
    lanes: int,
    target: Target,
    load: Callable[[Function, str, V, int], V] | None = None,
    store: Callable[[Function, V, V], None] | None = None,
) -> str:
    """A module whose kernel maps `rule` over arrays, `lanes` elements per task.

    Args:
        rule: the vector computation from loaded arguments to the stored result.
        in_types: element types of the inputs; the result's type is the rule's.
        lanes: elements per task, any count.
        target: what to compile for.
        load: reads `lanes` elements (default: a plain load).
        store: writes the result (default: a plain store).
    """
    f = Function(PLACEHOLDER, [("ptr", "bufs"), ("i64", "lo"), ("i64", "hi")], target)
    slots = [f.load("ptr", f.gep(f.arg("bufs"), 8 * i)) for i in range(len(in_types) + 1)]

    def body(iv: V, _: list[V]) -> None:
        at = f.mul(iv, f.i64(lanes))
        args = []
        for ty, base in zip(in_types, slots, strict=False):
            ptr = f.gep(base, at, ty)
            vec = ty if lanes == 1 else f"<{lanes} x {ty}>"
            args.append(load(f, ty, ptr, lanes) if load else f.load(vec, ptr))
        out = rule(f, args)
        mem = out.ty.split(" x ")[1][:-1] if out.ty.startswith("<") else out.ty
        ptr = f.gep(slots[-1], at, "i8" if mem == "i1" else mem)
        if store:
            store(f, out, ptr)
        else:
            f.store(out, ptr)

    f.loop(f.arg("lo"), f.arg("hi"), 1, [], body)
    f.ret_()
    return module([f])
