"""Checks on the device: the search for an element that is not allowed, and the note of it.

Results go to the device's memory (`abi.Ext.DEVICE_FAULT`), for kernels that depend on them, and to
the host's, which is read after the next wait. The first check that fails counts; later ones do
nothing. Of many elements each block finds its first one, and one block then the first of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from cellc_runtime.abi import FAULT_PARTS, MOST_FAULT_PARTS
from cellc_runtime.target import Target

from ....lower.instructions import Check
from ....lower.kernel import Kernel
from ...llvm.math.lanes import X
from ...llvm.text import V
from ..code import WARP, kernel_of
from ..guards import guarded
from ..writer import THREADS, GpuFunction

ALONE = 16 * THREADS  # Elements that one block looks at
POINTERS = 6
"""Of a kernel that notes: the elements, what the message shows, what is found (on the device, and
on the host), the arena, and the number of the check; the values of the message follow."""

Position = Callable[[X], X]
"""Whether the element at a place is good: its position, or the number of all elements."""


def check_kernels(i: Check, target: Target) -> tuple[Kernel, ...]:
    """Return the kernels of a check: a search by parts for many elements, and one that notes."""
    sizes = tuple(nbytes for _, nbytes in i.values)
    blocks = min(-(-i.count // ALONE), MOST_FAULT_PARTS)
    kind = i.count, i.bits, i.signed, i.low, i.high
    note = _note_kernel(*kind, sizes, 0 if blocks == 1 else blocks, target)
    return (note,) if blocks == 1 else (_parts_kernel(*kind, blocks, target), note)


@cache
def _parts_kernel(count: int, bits: int, signed: bool, low: int, high: int, blocks: int,
                  target: Target) -> Kernel:
    """Each block writes the position of its first bad element."""
    f = GpuFunction(target, 2)
    found = _first(f, count, f.global_thread(), blocks * THREADS,
                   _outside(f, count, bits, low, high))
    with f.given(X(f, f.thread()).cmp("eq", 0)):
        place = f.gep(f.gep(f.pointer(1), FAULT_PARTS), f.block(), "i64")
        f.store(found.v, place)
    return guarded(kernel_of(f.finished(blocks), 2), target)


@cache
def _note_kernel(count: int, bits: int, signed: bool, low: int, high: int, sizes: Sequence[int],
                 parts: int, target: Target) -> Kernel:
    """One block searches (positions of parts, if there are any) and notes what it finds."""
    f = GpuFunction(target, POINTERS + len(sizes))
    if parts:
        positions = f.gep(f.pointer(2), FAULT_PARTS)
        found = _first(f, parts, f.thread(), THREADS, lambda at: X(
            f, f.load("i64", f.gep(positions, at.v, "i64"))), count)
    else:
        found = _first(f, count, f.thread(), THREADS, _outside(f, count, bits, low, high))
    with f.given(found.cmp("slt", count)):
        _note(f, found, f"i{bits}", signed, sizes)
    return guarded(kernel_of(f.finished(1), POINTERS + len(sizes)), target)


def _outside(f: GpuFunction, count: int, bits: int, low: int, high: int) -> Position:
    """Of elements that must be in [low, high)."""
    ty = f"i{bits}"

    def position(at: X) -> X:
        element = f.load(ty, f.gep(f.pointer(0), at.v, ty))
        good = f.cmp("ult", element - V(ty, str(low)), V(ty, str(high - low)))
        return X(f, f.select(good, f.i64(count), at.v))

    return position


def _first(
    f: GpuFunction, places: int, start: V, step: int, position: Position, most: int | None = None
) -> X:
    """The least of the positions at places from a thread's own on; all threads of the block get
    that of the block."""
    most = places if most is None else most

    def least(a: X, b: X) -> X:
        return X(f, f.select(a.cmp("slt", b).v, a.v, b.v))

    (own,) = f.loop(f.cast("zext", start, "i64"), places, step, [f.i64(most)], lambda at, held: [
        least(X(f, held[0]), position(X(f, at))).v])
    found, lane = X(f, own), f.thread() & WARP - 1
    for distance in (16, 8, 4, 2, 1):
        other = f.from_lane(found.v, lane ^ distance)
        found = least(found, X(f, other))
    warps = THREADS // WARP
    shared = f.shared_memory(8 * warps)
    with f.given(X(f, lane).cmp("eq", 0)):
        f.store(found.v, f.gep(shared, f.thread() // WARP, "i64"))
    f.barrier()
    held = [X(f, f.load("i64", f.gep(shared, k, "i64"))) for k in range(warps)]
    for k in range(1, warps):
        held[0] = least(held[0], held[k])
    return held[0]


def _note(f: GpuFunction, found: X, ty: str, signed: bool, sizes: Sequence[int]) -> None:
    """Put aside what the message shows, then the number of the check."""
    checked, shown, fault, seen, arena, number = (f.pointer(i) for i in range(POINTERS))
    offset = 8
    for k, nbytes in enumerate(sizes):
        to, source = f.gep(shown, offset), f.pointer(POINTERS + k)

        def move(at: V, _: list[V], to: V = to, source: V = source) -> None:
            f.store(f.load("i8", f.gep(source, at)), f.gep(to, at))

        f.loop(f.cast("zext", f.thread(), "i64"), nbytes, THREADS, [], move)
        offset += -(-nbytes // 8) * 8
    with f.given(X(f, f.thread()).cmp("eq", 0)):
        element = f.load(ty, f.gep(checked, found.v, ty))
        f.store(f.cast("sext" if signed else "zext", element, "i64"), shown)
        told = f.cast("ptrtoint", number, "i64")
        f.store(told, fault)
        f.store(f.cast("ptrtoint", arena, "i64"), f.gep(seen, 8))
        f.store(told, seen)
