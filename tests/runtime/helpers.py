"""Hand-written programs for the runtime's tests."""

from __future__ import annotations

from cellc_compiler.backends.cpu.image import build_image
from cellc_compiler.backends.llvm.text import Function, V, module
from cellc_runtime import dtypes
from cellc_runtime.abi import FIRST_CALLBACK
from cellc_runtime.program import Callback, Message, Program, Slot
from cellc_runtime.target import Target, host_target

F32 = dtypes.float32


def pointers(count: int, target: Target) -> tuple[Function, list[V]]:
    """An open `cellc_main` and its slots' pointers."""
    params = [("ptr", "slots"), ("ptr", "arena"), ("ptr", "consts")]
    f = Function("cellc_main", params, target, ret="i32")
    slots = f.arg("slots")
    return f, [f.load("ptr", f.gep(slots, i, "ptr")) for i in range(count)]


def add_main(n: int, target: Target) -> str:
    """out[i] = a[i] + b[i] over n floats: slots a, b, out."""
    f, (a, b, out) = pointers(3, target)

    def body(i: V, _: list[V]) -> None:
        x, y = (f.load("float", f.gep(p, i, "float")) for p in (a, b))
        f.store(f.add(x, y), f.gep(out, i, "float"))

    f.loop(0, n, 1, [], body)
    f.ret_(V("i32", "0"))
    return module([f])


def add_program(n: int = 8, **more: object) -> Program:
    """a + b, with `a` an input and `b` an input, or a parameter (`kind="param"`)."""
    target = host_target()
    kind = str(more.pop("kind", "input"))
    slots = (Slot("a", F32, (n,), "input"), Slot("b", F32, (n,), kind),
             Slot("sum", F32, (n,), "output"))  # fmt: skip
    return Program("add", target.name, slots, build_image(add_main(n, target), [], target),
                   **more)  # type: ignore[arg-type]  # fmt: skip


def error_program() -> Program:
    """Returns the integer in slot x as its error code."""
    target = host_target()
    f, (x, out) = pointers(2, target)
    code = f.load("i32", x)
    f.store(code, out)
    f.ret_(code)
    slots = (Slot("x", dtypes.int32, (), "input"), Slot("y", dtypes.int32, (), "output"))
    messages = (Message("IndexError", ("index 7 is out of range",), "net.py", 12),
                Message("ValueError", ("bad value",)))  # fmt: skip
    return Program("fails", target.name, slots, build_image(module([f]), [], target),
                   messages=messages)  # fmt: skip


KERNEL = "KERNEL"


def mark_kernel(target: Target, name: str = KERNEL) -> str:
    """Adds task + 1 to element `task` of buffer 0 (i64)."""
    f = Function(name, [("ptr", "bufs"), ("i64", "lo"), ("i64", "hi")], target)
    data = f.load("ptr", f.arg("bufs"))

    def body(i: V, _: list[V]) -> None:
        place = f.gep(data, i, "i64")
        f.store(f.add(f.load("i64", place), f.add(i, f.i64(1))), place)

    f.loop(f.arg("lo"), f.arg("hi"), 1, [], body)
    f.ret_()
    return module([f])


def parallel_main(ntasks: int, grain: int, target: Target, regions: int = 1) -> str:
    """Runs `@mark` in parallel over its one output, `regions` times."""
    f, (out,) = pointers(1, target)
    bufs = f.alloca(8)
    f.store(out, bufs)

    def zero(i: V, _: list[V]) -> None:
        f.store(f.i64(0), f.gep(out, i, "i64"))

    f.loop(0, ntasks, 1, [], zero)
    f.declares.add("declare hidden void @mark(ptr, i64, i64)")
    f.declares.add("declare hidden void @cellc_parallel_for(ptr, ptr, i64, i64)")

    def region(_: V, __: list[V]) -> None:
        f.line(f"call void @cellc_parallel_for(ptr @mark, {bufs}, i64 {ntasks}, i64 {grain})")

    f.loop(0, regions, 1, [], region)
    f.ret_(V("i32", "0"))
    return module([f])


def parallel_program(ntasks: int, grain: int, regions: int = 1, cost: float = 1e6) -> Program:
    """One int64 output: element i is regions * (i + 1)."""
    target = host_target()
    image = build_image(
        parallel_main(ntasks, grain, target, regions), [("mark", mark_kernel(target))], target
    )
    slots = (Slot("marks", dtypes.int64, (ntasks,), "output"),)
    return Program("parallel", target.name, slots, image, cost=cost)


def callback_program() -> Program:
    """y = callback(x): one input, one output, both four floats; -1 when the callback fails."""
    target = host_target()
    f, (x, y) = pointers(2, target)
    bufs = f.alloca(16)
    f.store(x, bufs)
    f.store(y, f.gep(bufs, 8))
    host = f.load("ptr", V("ptr", f"getelementptr (ptr, ptr @cellc_ext, i64 {FIRST_CALLBACK})"))
    rc = f.emit("i32", f"call i32 {host.ref}({bufs})")
    bad = f.cmp("ne", rc, V("i32", "0"))
    f.ret_(f.select(bad, V("i32", "-1"), V("i32", "0")))
    text = module([f], f"@cellc_ext = external hidden global [{FIRST_CALLBACK + 1} x ptr]")
    types = ((F32, (4,)),)
    slots = (Slot("x", F32, (4,), "input"), Slot("y", F32, (4,), "output"))
    return Program("calls", target.name, slots, build_image(text, [], target, callbacks=1),
                   callbacks=(Callback("host", types, types),))  # fmt: skip


def update_program(n: int = 4, kind: str = "param") -> Program:
    """w += x in place and returns the sum of nothing: slots x, w, w' (update of w)."""
    target = host_target()
    slots = (Slot("x", F32, (n,), "input"), Slot("w", F32, (n,), kind),
             Slot("w_new", F32, (n,), "update", 1))  # fmt: skip
    return Program("step", target.name, slots, build_image(add_main(n, target), [], target))
