"""The static facts about an instruction: family, arithmetic and memory."""

from __future__ import annotations

from collections.abc import Sequence

from cellc_runtime.program import Slot

from ..ir.op import lookup
from ..passes.rematerialize import contraction_flops
from .instructions import Call, Callback, Copy, Place
from .memory import Buffer

Timed = Call | Copy | Callback


def label(call: Timed) -> str:
    """The ops an instruction does; a part of them if another call does most of the work."""
    if isinstance(call, Copy):
        return "copy"
    if isinstance(call, Callback):
        return call.name
    return call.label if call.most_expensive else f"{call.label} (part)"


def family(call: Timed) -> str:
    """The kernel family: `nest` for generated loops, else that of its first op."""
    if isinstance(call, Copy):
        return "copy"
    if isinstance(call, Callback):
        return "host"
    if not call.nodes or not lookup(call.nodes[0].op).opaque:
        return "nest"
    module = type(lookup(call.nodes[0].op)).__module__.rsplit(".", 1)[-1]
    return "gemm" if module == "contraction" else module


def flops(call: Timed) -> int:
    """Floating-point operations of its contractions (a multiplication and an addition are two).

    Elementwise work is not counted: how many operations an `exp` is, is a matter of taste.
    """
    if not isinstance(call, Call) or not call.most_expensive:
        return 0
    return sum(contraction_flops(node) for node in call.nodes)


def nbytes(call: Timed, slots: Sequence[Slot]) -> int:
    """Bytes of the distinct buffers it is given: what it moves if each is passed over once."""
    if isinstance(call, Copy):
        return 2 * call.nbytes
    places = dict.fromkeys(call.places)
    return sum(_place_bytes(p, slots) for p in places)


def _place_bytes(place: Place, slots: Sequence[Slot]) -> int:
    if place.steps:
        return place.steps[-1][1]
    if isinstance(place.base, Buffer):
        return place.base.nbytes
    if isinstance(place.base, int):
        return slots[place.base].nbytes if slots[place.base].kind != "kept" else 0
    return 0
