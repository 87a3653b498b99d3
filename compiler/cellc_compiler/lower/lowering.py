"""From a graph of core ops to instructions: fusion, kernels, buffers with lifetimes.

Outputs are computed into their slots, and updates into the slot of the input they replace when
nothing reads the old value afterwards; what cannot be is computed aside and copied at the end.
"""

from __future__ import annotations

from collections.abc import Callable

from ..fusion.clusters import Cluster
from ..ir.graph import Graph, Value
from . import checks
from .graph_block import GraphBlock, Lowering
from .instructions import Call, Instruction, Place
from .kernel import Kernel
from .lowered import Lowered, Precomputation
from .machine import Machine
from .memory import Buffer
from .nest_cache import InPlaceRule
from .precompute import Split, is_frozen, split


def lower(
    graph: Graph, machine: Machine, on_kernel: Callable[[Kernel], None] | None = None
) -> Lowered:
    """Lower a whole graph; slots are its inputs, its outputs, its updates, and what is
    precomputed.

    Args:
        graph: after all passes; it is used up.
        machine: what to generate code for.
        on_kernel: called with the kernel of each call as soon as it is known.

    Raises:
        NoRule: the back end cannot compute an op.
    """
    parts = split(graph)
    first = sum(v.kind != "size" for v in graph.inputs)  # (those are the last)
    slot = first + len(graph.outputs) + len(graph.updates)
    precomputed = Precomputation(slot, (i for i, v in enumerate(parts.main.inputs) if is_frozen(v)),
                machine.memory.align)
    low = Lowering(machine, precomputed, on_kernel)
    places = precomputed.values([v.type.nbytes for v in parts.precomputed])
    env: dict[Value, Place] = {v: Place(i) for i, v in enumerate(parts.main.inputs[:first])}
    env.update(zip(parts.precomputed, places, strict=True))
    scalars = {v: low.scalar(v) for v in graph.inputs[first:]}
    env.update((v, Place("const", at)) for v, at in scalars.items())
    out = _lower_main(low, parts.main, env, first)
    buffers = _lower_precompute(low, parts, places)
    return Lowered(out, low.buffers, low.constants, low.callbacks, low.checks, low.nests,
                   precomputed.blocks, buffers, (parts.main, parts.precompute), scalars=scalars,
                   inlined=low.inlined)


def _lower_main(
    low: Lowering, graph: Graph, env: dict[Value, Place], first: int
) -> list[Instruction]:
    """Lower the code that runs on each call; slot `first` is the first output.

    A call that fails must not change a parameter: before the last check nothing is updated in
    place.
    """
    low.outputs = range(first, first + len(graph.outputs))
    wanted: dict[Value, Place] = {}
    for i, v in enumerate(graph.outputs):
        if v.node is not None and not v.node.is_constant:
            wanted.setdefault(v, Place(first + i))
    replaced = {new: old for old, new in graph.updates}

    def in_place(block: GraphBlock, value: Value, cluster: Cluster, nest: InPlaceRule | None) -> (
        Place | None
    ):
        old = replaced.get(value)
        if old is None or block.position <= last_check \
                or not block.may_replace(old, value, cluster, nest):
            return None
        low.replaced.add(env[old].base)
        return env[old]

    block = GraphBlock(low, graph, env, wanted, in_place)
    last_check = max((i for i, c in enumerate(block.schedule.clusters)
                      if any(checks.can_fail(n) for n in c.nodes)), default=-1)
    out = block.run()
    for i, v in enumerate(graph.outputs):
        low.copy(out, Place(first + i), block.place(v), v.type.nbytes)
    _finish_updates(low, graph, block, out)
    low.finish()
    return out


def _lower_precompute(low: Lowering, parts: Split, places: list[Place]) -> list[Buffer]:
    """Lower the code that fills the block of precomputed values; return its temporary buffers."""
    precompute = Lowering(low.machine, on_kernel=low.on_kernel)
    precompute.constants, precompute.pool, precompute.nests = low.constants, low.pool, low.nests
    precompute.inlined = low.inlined
    env: dict[Value, Place] = {v: Place(i) for i, v in enumerate(parts.precompute.inputs)}
    wanted = dict(zip(parts.precompute.outputs, places, strict=True))
    out, block = precompute.block(parts.precompute, env, wanted)
    for v, place in zip(parts.precompute.outputs, places, strict=True):
        precompute.copy(out, place, block.place(v), v.type.nbytes)
    assert low.precomputed is not None
    if places:
        low.precomputed.blocks[0].instructions = out
    for packed in low.precomputed.blocks[bool(places):]:
        for i in packed.instructions:
            assert isinstance(i, Call)
            if low.on_kernel is not None:
                low.on_kernel(i.kernel)
    return precompute.buffers


def _finish_updates(low: Lowering, graph: Graph, block: GraphBlock, out: list[Instruction]) -> None:
    """Copy updates that were not computed in place, sources that are overwritten aside first."""
    moves = [(block.env[old], block.place(new), new.type.nbytes) for old, new in graph.updates]
    moves = [m for m in moves if m[0] != m[1]]
    taken = {to for to, _, _ in moves}
    low.replaced.update(to.base for to in taken)
    ready: list[tuple[Place, Place, int]] = []
    for to, source, nbytes in moves:
        if source in taken:
            aside = low.new_buffer(nbytes, "aside")
            low.copy(out, aside, source, nbytes)
            source = aside
        ready.append((to, source, nbytes))
    for to, source, nbytes in ready:
        low.copy(out, to, source, nbytes)
