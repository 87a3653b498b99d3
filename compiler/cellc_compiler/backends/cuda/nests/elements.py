"""Nests that reduce nothing: a thread does a vector of adjacent elements."""

from __future__ import annotations

from ....ir.types import prod
from ....loops.index import Var
from ....loops.nest import Nest, Scratch, walk
from ...llvm.expressions import Scope
from ...llvm.text import V
from ..code import WARP
from .kernel import WARPS, NestKernel, lanes_for


def is_flat(nest: Nest) -> bool:
    """Whether all phases run over one space and nothing is reduced."""
    return not nest.block and len({p.loops for p in nest.phases}) == 1 and not any(
        p.reduces for p in nest.phases) and not any(
        isinstance(s.buffer, Scratch) for p in nest.phases for s in p.stores)


def space_of(nest: Nest) -> tuple[Var, ...]:
    """The variables of a flat nest."""
    return (*nest.rows, *nest.phases[0].loops)


def vector_lanes(nest: Nest) -> int:
    """Elements that a thread does: as many as 16 bytes of the smallest type have, where the last
    axis lies so in memory that whole vectors are written."""
    if not is_flat(nest) or not space_of(nest):
        return 1
    last = space_of(nest)[-1]
    stores = [(s.value.dtype, s.offset, s.part) for p in nest.phases for s in p.stores]
    if any(part is not None or offset.coefficient(last) != 1 for _, offset, part in stores):
        return 1
    loads = [e for e in walk(list(nest.roots())) if e.op == "load"]
    sizes = [d.itemsize for d, _, _ in stores]
    sizes += [e.dtype.itemsize for e in loads
              if e.payload.part is None and e.payload.offset.coefficient(last) == 1]
    return lanes_for(sizes, [last.extent])


class Elements(NestKernel):
    """See the module."""

    threads = 2 * WARPS * WARP

    def units(self) -> int:
        return prod(v.extent for v in space_of(self.nest)) // self.lanes

    def unit(self, number: V) -> None:
        f, space = self.f, space_of(self.nest)
        extents = [v.extent for v in space]
        last = space[-1] if self.lanes > 1 else None
        if last is not None:
            extents[-1] //= self.lanes
        for v, i in zip(space, f.split(number, extents), strict=True):
            place = self.widened(i)
            self.vars[v] = place * f.const(self.index, self.lanes) if v is last else place
        self.elements(Scope(self.lanes, last, None, None))
