"""Control flow, effects, random draws."""

from __future__ import annotations

from cellc_runtime import dtypes

from ..ir.graph import Graph, Node
from .library import onnx
from .reductions import nested_info, positions_of, scan
from .table import maps, refused, write_graph
from .writer import Names, Writer, refuse

refused("it calls a Python function, which no file can hold", "host_call")
refused("several processes compute it together, and a file is of one", "all_gather", "all_reduce",
        "all_to_all", "all_to_all_v", "any_order_all_reduce", "any_order_reduce_scatter",
        "broadcast_from", "gather_to", "lay_out", "receive_from", "reduce_scatter",
        "reduce_to", "scatter_from", "send_to")
refused("its code is the user's own, for which a file has no function", "custom_kernel")
refused(
    "ONNX's random ops draw other numbers; export the network as it infers (`net.set_train(False)`)"
    " or draw outside of it",
    "random_bernoulli", "random_bits", "random_exponential", "random_int", "random_normal",
    "random_permutation", "random_truncated_normal", "random_uniform",
)


@maps("dropout")
def _dropout(w: Writer, node: Node, x: str, key: str) -> Names | None:
    if node.attrs["p"] in (0, 1):
        return None
    raise refuse(node, "it draws; export the network as it infers: `net.set_train(False)`")


@maps("check", "print")
def _left_out(w: Writer, node: Node, *x: str) -> Names:
    w.left_out.append(f"{node.op} {node.span.short}".rstrip())
    return ()


@maps("custom_grad", "recompute")
def _inlined(w: Writer, node: Node, *x: str) -> Names:
    return tuple(write_graph(w, node.regions[0], list(x)))


def _branch(w: Writer, region: Graph, x: list[str]) -> onnx.GraphProto:
    with w.nested() as nodes:
        out = [w.op("Identity", n) for n in write_graph(w, region, x)]
    return onnx.helper.make_graph(nodes, region.name, [], [nested_info(w, n) for n in out])


@maps("cond")
def _cond(w: Writer, node: Node, pred: str, *x: str) -> Names:
    then, other = (_branch(w, r, list(x)) for r in node.regions)
    types = [r.dtype for r in node.results]
    if not types:
        return ()
    return tuple(w.raw("If", [pred], types, then_branch=then, else_branch=other))


@maps("while")
def _while(w: Writer, node: Node, *x: str) -> Names:
    """Loop tests after each trip; the first test comes before it."""
    count, (test, body) = node.attrs["carried"], node.regions
    carried, captures = list(x[:count]), list(x[count:])
    first = write_graph(w, test, [*carried, *captures])
    trip = w.declare(w.name("trip"), dtypes.int64)
    going = w.declare(w.name("going"), dtypes.bool_)
    held = [w.declare(w.name("carried"), w.types[c]) for c in carried]
    with w.nested() as nodes:
        after = write_graph(w, body, [*held, *captures])
        again = write_graph(w, test, [*after, *captures])
        results = [w.op("Identity", n) for n in (*again, *after)]
    graph = onnx.helper.make_graph(
        nodes, body.name, [nested_info(w, trip, 0), nested_info(w, going, 0),
                           *(nested_info(w, h) for h in held)],
        [nested_info(w, results[0], 0), *(nested_info(w, r) for r in results[1:])])
    return tuple(w.raw("Loop", ["", first[0], *carried], [w.types[c] for c in carried], body=graph))


@maps("scan")
def _scan(w: Writer, node: Node, *x: str) -> Names:
    """The numbers of the steps are one more sequence; a limit cuts the sequences short."""
    attrs, (body,) = node.attrs, node.regions
    n, k, length = attrs["carried"], attrs["sequences"], attrs["length"]
    carried, sequences, captures = list(x[:n]), list(x[n: n + k]), list(x[n + k:])
    sequences.append(positions_of(w, length, 0, 1))
    trips = None
    if attrs["limited"]:
        limit = w.op("Unsqueeze", captures.pop(0), w.ints([0]))
        trips = w.op("Max", w.op("Min", limit, w.size(length)), w.ints([0]))
        sequences = [w.op("Slice", s, w.ints([0]), trips, w.ints([0])) for s in sequences]

    def step(states: list[str], rows: list[str]) -> tuple[list[str], list[str]]:
        out = write_graph(w, body, [*states, *rows, *captures])
        return out[:n], out[n:]

    results = scan(w, carried, sequences, step, reverse=attrs["reverse"])
    if trips is not None:  # the rows that no trip made are there, and are zeros
        rest = w.op("Sub", w.size(length), trips)
        for j, r in enumerate(node.results[n:]):
            none = w.op("Expand", w.like(0, results[n + j]),
                        w.op("Concat", rest, w.shape(r.shape[1:]), axis=0))
            results[n + j] = w.op("Concat", results[n + j], none, axis=0)
    return tuple(results)
