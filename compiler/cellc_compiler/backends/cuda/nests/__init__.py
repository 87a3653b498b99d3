"""Loop nests on a GPU: what a thread, a warp or a block does of them.

- *Elements*: nothing is reduced. A thread does one vector of up to 16 bytes of the last axis, or
  one element where that does not lie so.
- *Threads*: a row is a thread's. Where the last axis is kept (mode `column`) adjacent threads read
  adjacent elements; an element is one chain either way.
- *Warps*: a row (or a block of rows whose sums are added to) is a warp's. Lane i is chain i of the
  table (`loops/order.py`), so the halves that are folded are lanes that exchange what they have.
- *Blocks*: a long row, or one in parts. All threads compute elements; the chains are those of a
  warp (of a part each), which takes in what they have put into shared memory.
"""

from __future__ import annotations

from typing import Any

from cellc_runtime.target import Target

from ....ir.types import prod
from ....loops.nest import Nest, Scratch, walk
from ..code import KernelCode, aligned
from .blocks import Blocks, row_lanes
from .elements import Elements, is_flat, vector_lanes
from .kernel import NestKernel
from .rows import Threads, Warps, is_resident

_LONG = 512  # Elements of a row from which on a block does it


def emit(nest: Nest, target: Target) -> tuple[KernelCode, list[Any]]:
    """The kernel of a nest, and its values in the order of the buffers."""
    buffers, kind = buffers_of(nest), _kind(nest)
    lanes = vector_lanes(nest) if kind is Elements else row_lanes(nest) if kind is Blocks else 1
    code = kind(nest, target, buffers, lanes).kernel()
    if lanes > 1:
        code = aligned(code, kind(nest, target, buffers, 1).kernel())
    return code, buffers


def buffers_of(nest: Nest) -> list[Any]:
    """The values that a nest loads and stores."""
    loads = [e.payload.buffer for e in walk(list(nest.roots())) if e.op == "load"]
    found = dict.fromkeys([*loads, *(s.buffer for p in nest.phases for s in p.stores)])
    return [b for b in found if not isinstance(b, Scratch)]


def _kind(nest: Nest) -> type[NestKernel]:
    if any(nest.parts(p) > 1 for p in nest.phases):
        return Blocks
    if is_flat(nest):
        return Elements
    alone = nest.mode == "column" or not any(p.loops for p in nest.phases)
    if alone and not nest.block:
        return Threads
    return Blocks if _is_long(nest) else Warps


def _is_long(nest: Nest) -> bool:
    """Whether a row is work for more than a warp."""
    elements = max(prod(v.extent for v in p.loops) for p in nest.phases)
    return elements >= _LONG and nest.mode == "row" and not is_resident(nest)
