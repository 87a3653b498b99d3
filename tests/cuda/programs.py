"""Small programs for a GPU, written by hand: what `cellc_main` launches, copies and waits for."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from cellc_compiler.backends.llvm.text import Function, V, module
from cellc_compiler.build.objects import build_image
from cellc_runtime import dtypes
from cellc_runtime.abi import CALLBACK_FAILED, DEVICE_FAILED, FIRST_CALLBACK, Ext
from cellc_runtime.image import Image
from cellc_runtime.program import Callback, DeviceKernel, Program, Slot
from cellc_runtime.target import host_target

from .fake_driver import FakeDriver, Fault, cubin, ptx

F32 = dtypes.float32
P = ctypes.c_uint64


@dataclass(frozen=True)
class Launch:
    """A launch: the kernel's number, and its pointers, a slot's number or an offset `"+64"` in the
    arena; the last argument is `count`."""

    kernel: int
    pointers: tuple[int | str, ...]
    count: int
    grid: int = 1
    threads: int = 128
    shared: int = 0


@dataclass(frozen=True)
class Copy:
    """A copy between two such places."""

    to: int | str
    source: int | str
    nbytes: int


@dataclass(frozen=True)
class Put:
    """A number of main's own memory, which changes at once, goes to a place."""

    to: int | str
    value: float


@dataclass(frozen=True)
class Map:
    """A tensor map of a place: two axes of 16-bit floats, rows of `stride` bytes."""

    at: int | str
    stride: int = 128


@dataclass(frozen=True)
class Wait:
    """A wait for all that was launched."""


@dataclass(frozen=True)
class Call:
    """The host's callback on these places."""

    pointers: tuple[int | str, ...]


Step = Launch | Copy | Put | Map | Wait | Call


@dataclass
class Writer:
    """Writes `cellc_main`."""

    f: Function
    callbacks: int

    def __post_init__(self) -> None:
        self.host = self.f.alloca(8, 8)

    def entry(self, number: int) -> V:
        """An entry of the external table."""
        place = V("ptr", f"getelementptr (ptr, ptr @cellc_ext, i64 {number})")
        return self.f.load("ptr", place)

    def place(self, where: int | str) -> V:
        """The address of a slot or a part of the arena."""
        if isinstance(where, str):
            return self.f.gep(self.f.arg("arena"), int(where))
        return self.f.load("ptr", self.f.gep(self.f.arg("slots"), where, "ptr"))

    def step(self, step: Step) -> V:
        """The code of a step; its result."""
        f, stream = self.f, self.entry(Ext.DEVICE_STREAM)
        if isinstance(step, Wait):
            return f.emit("i32", f"call i32 {self.entry(Ext.DEVICE_WAIT).ref}(ptr {stream.ref})")
        if isinstance(step, Copy):
            to, source = self.place(step.to), self.place(step.source)
            return f.emit("i32", f"call i32 {self.entry(Ext.DEVICE_COPY).ref}(ptr {to.ref}, "
                                 f"ptr {source.ref}, i64 {step.nbytes}, ptr {stream.ref})")
        if isinstance(step, Put):
            f.store(f.const("float", step.value), self.host)
            return f.emit("i32", f"call i32 {self.entry(Ext.DEVICE_COPY).ref}"
                                 f"({self.place(step.to)}, {self.host}, i64 4, {stream})")
        if isinstance(step, Map):
            given = [f.alloca(16, 16) for _ in range(4)]
            for place, ty, values in zip(given, ("i64", "i64", "i32", "i32"), (
                    (64, 64), (step.stride, 0), (64, 64), (1, 1)), strict=True):
                for i, value in enumerate(values):
                    f.store(V(ty, str(value)), f.gep(place, i, ty))
            pointers = ", ".join(str(p) for p in (self.place(step.at), *given))
            return f.emit("i32", f"call i32 {self.entry(Ext.DEVICE_TENSOR_MAP).ref}"
                                 f"({f.alloca(128, 64)}, i32 9, i32 2, {pointers}, "
                                 "i32 0, i32 3, i32 2, i32 0)")
        if isinstance(step, Call):
            return f.emit("i32", f"call i32 {self.entry(FIRST_CALLBACK).ref}"
                                 f"(ptr {self.pointers(step.pointers).ref})")
        values = self.pointers(step.pointers)
        count = f.alloca(8, 8)
        f.store(f.i64(step.count), count)
        params = f.alloca(8 * (len(step.pointers) + 1), 8)
        for i in range(len(step.pointers)):
            f.store(f.gep(values, i, "ptr"), f.gep(params, i, "ptr"))
        f.store(count, f.gep(params, len(step.pointers), "ptr"))
        handle = self.entry(FIRST_CALLBACK + self.callbacks + step.kernel)
        sizes = f"i32 {step.grid}, i32 1, i32 1, i32 {step.threads}, i32 1, i32 1"
        return f.emit("i32", f"call i32 {self.entry(Ext.DEVICE_LAUNCH).ref}(ptr {handle.ref}, "
                             f"{sizes}, i32 {step.shared}, ptr {stream.ref}, ptr {params.ref}, "
                             "ptr null)")

    def pointers(self, places: Sequence[int | str]) -> V:
        """An array of addresses."""
        values = self.f.alloca(8 * max(len(places), 1), 8)
        for i, where in enumerate(places):
            self.f.store(self.place(where), self.f.gep(values, i, "ptr"))
        return values


@cache
def image(steps: tuple[Step, ...], kernels: int) -> Image:
    """The code that does the steps, and stops at the first that fails."""
    target = host_target()
    f = Function("cellc_main", [("ptr", "slots"), ("ptr", "arena"), ("ptr", "consts")], target,
                 ret="i32")
    callbacks = int(any(isinstance(s, Call) for s in steps))
    writer = Writer(f, callbacks)
    for step in steps:
        good = f.cmp("eq", writer.step(step), V("i32", "0"))
        code = CALLBACK_FAILED if isinstance(step, Call) else DEVICE_FAILED
        f.return_unless(good, partial(V, "i32", str(code)))
    f.ret_(V("i32", "0"))
    entries = FIRST_CALLBACK + callbacks + kernels
    text = module([f], f"@cellc_ext = external hidden global [{entries} x ptr]")
    return build_image(text, [], target, callbacks=callbacks + kernels)


def _add(fake: FakeDriver, a: int, b: int, out: int, n: int) -> None:
    fake.array(out, n)[:] = fake.array(a, n) + fake.array(b, n)


def _scale(fake: FakeDriver, a: int, out: int, n: int) -> None:
    fake.array(out, n)[:] = fake.array(a, n) * 2


def _breaks(fake: FakeDriver, a: int, out: int, n: int) -> None:
    raise Fault(700)


KERNELS = {"add": ((P, P, P, P), _add), "scale": ((P, P, P), _scale),
           "breaks": ((P, P, P), _breaks)}  # fmt: skip


def program(
    steps: Sequence[Step], kernels: Sequence[str] = ("scale",), *, slots: Sequence[str] = (
        "input", "output"), n: int = 64, target: str = "cuda-sm_90a", as_ptx: bool = False,
    shared: int = 0, arena: int = 0, name: str = "net",
) -> Program:
    """A program over slots of n floats each.

    Args:
        kernels: by name in `KERNELS`, in the order of their numbers.
        slots: their kinds.
    """
    architecture = target.removeprefix("cuda-")
    code = [ptx(k) if as_ptx else cubin(k, architecture) for k in kernels]
    types = ((F32, (n,)),)
    calls = any(isinstance(s, Call) for s in steps)
    return Program(
        name, target, tuple(Slot(f"s{i}", F32, (n,), k) for i, k in enumerate(slots)),
        image(tuple(steps), len(kernels)), arena_bytes=arena,
        callbacks=(Callback("host", types, types),) if calls else (),
        kernels=tuple(DeviceKernel(c, shared, f"{k} at net.py:{3 + i}")
                      for i, (c, k) in enumerate(zip(code, kernels, strict=True))),
    )


def addresses(*values: int) -> Any:
    """The slots of a call."""
    return (ctypes.c_void_p * len(values))(*values)


def floats(n: int = 64) -> np.ndarray[Any, Any]:
    """Numbers from 0 on."""
    return np.arange(n, dtype=np.float32)
