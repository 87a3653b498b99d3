"""Reductions, sorting, running reductions."""

from __future__ import annotations

from collections.abc import Callable

from cellc_runtime import dtypes

from ..ir.dims import is_symbolic
from ..ir.graph import Node
from ..ir.types import normalize_axis
from ..ops.reduce import reduced_axes
from .library import onnx
from .table import maps
from .writer import Names, Writer, onnx_type

_KINDS = {
    "reduce_sum": "ReduceSum", "reduce_prod": "ReduceProd", "reduce_max": "ReduceMax",
    "reduce_min": "ReduceMin", "reduce_mean": "ReduceMean",
}


def reduced(w: Writer, kind: str, x: str, axes: tuple[int, ...], keep: bool) -> str:
    """Axes are an attribute of most reductions before op set 18."""
    if kind == "ReduceSum" or w.opset >= 18:
        return w.op(kind, x, w.ints(axes), keepdims=int(keep))
    return w.op(kind, x, axes=list(axes), keepdims=int(keep))


def _axes(node: Node) -> tuple[int, ...]:
    return reduced_axes(node.attrs["axes"], node.operands[0].type.rank)


@maps(*_KINDS)
def _plain(w: Writer, node: Node, x: str) -> Names | None:
    axes = _axes(node)
    if node.op == "reduce_mean" and not w.types[x].is_float:
        return None
    if not axes:
        return w.cast(x, node.result.dtype)
    return reduced(w, _KINDS[node.op], x, axes, node.attrs["keepdims"])


@maps("reduce_all", "reduce_any")
def _logic(w: Writer, node: Node, x: str) -> Names:
    bits = w.cast(w.cast(x, dtypes.bool_), dtypes.int32)
    if not _axes(node):
        return w.cast(bits, dtypes.bool_)
    kind = "ReduceMin" if node.op == "reduce_all" else "ReduceMax"
    out = reduced(w, kind, bits, _axes(node), node.attrs["keepdims"])
    return w.op("Less", w.like(0, out), out)


@maps("norm")
def _norm(w: Writer, node: Node, x: str) -> Names | None:
    kind = {1.0: "ReduceL1", 2.0: "ReduceL2"}.get(node.attrs["p"])
    if kind is None or not _axes(node) or not w.types[x].is_float:
        return None
    return reduced(w, kind, x, _axes(node), node.attrs["keepdims"])


@maps("argmax", "argmin")
def _arg(w: Writer, node: Node, x: str) -> Names:
    rank = node.operands[0].type.rank
    kind = "ArgMax" if node.op == "argmax" else "ArgMin"
    if rank == 0:
        return w.const(0, dtypes.int64)
    axis = normalize_axis(node.attrs["axis"], rank)
    return w.op(kind, x, axis=axis, keepdims=int(node.attrs["keepdims"]))


# --- sorting --------------------------------------------------------------------------------------


@maps("sort", "sort_lines", "argsort", "topk")
def _sorted(w: Writer, node: Node, x: str) -> Names:
    """TopK puts equal elements in the order of their positions, as a stable sort does."""
    ty, attrs = node.operands[0].type, node.attrs
    axis = normalize_axis(attrs.get("axis", -1), ty.rank)
    largest = attrs["largest"] if node.op == "topk" else attrs["descending"]
    count = w.size(attrs["k"] if node.op == "topk" else attrs.get("first") or ty.dims[axis])
    values, at = w.ops("TopK", [x, count], 2, axis=axis, largest=int(largest), sorted=1)
    at = w.cast(at, dtypes.int32)
    return at if node.op == "argsort" else (values, at)


# --- running reductions ---------------------------------------------------------------------------


@maps("cumsum")
def _cumsum(w: Writer, node: Node, x: str) -> Names:
    axis = normalize_axis(node.attrs["axis"], node.operands[0].type.rank)
    return w.op("CumSum", x, w.const(axis, dtypes.int64), exclusive=int(node.attrs["exclusive"]),
                reverse=int(node.attrs["reverse"]))


Step = Callable[[list[str], list[str]], tuple[list[str], list[str]]]


def scan(
    w: Writer, states: list[str], sequences: list[str], step: Step, *, axis: int = 0,
    reverse: bool = False,
) -> list[str]:
    """ONNX's Scan: `step` gives new states and output rows from states and rows."""
    inner_states = [w.declare(w.name("state"), w.types[s]) for s in states]
    rows = [w.declare(w.name("row"), w.types[s]) for s in sequences]
    with w.nested() as nodes:
        after, outs = step(inner_states, rows)
        # A result of a nested graph must be made in it.
        results = [w.op("Identity", name) for name in (*after, *outs)]
    graph = onnx.helper.make_graph(
        nodes, "scan_body", [nested_info(w, n) for n in (*inner_states, *rows)],
        [nested_info(w, n) for n in results])
    types = [w.types[n] for n in results]
    back, along = [int(reverse)], [axis]
    return w.raw("Scan", [*states, *sequences], types, body=graph,
                 num_scan_inputs=len(sequences),
                 scan_input_directions=back * len(sequences), scan_input_axes=along * len(rows),
                 scan_output_directions=back * len(outs), scan_output_axes=along * len(outs))


def nested_info(w: Writer, name: str, rank: int | None = None) -> onnx.ValueInfoProto:
    """A value of a nested graph; its shape follows from the outer one, or it is a scalar."""
    shape = None if rank is None else [1] * rank
    return onnx.helper.make_tensor_value_info(name, onnx_type(w.types[name]), shape)


@maps("cumprod")
def _cumprod(w: Writer, node: Node, x: str) -> Names:
    shape, attrs = node.operands[0].shape, node.attrs
    axis = normalize_axis(attrs["axis"], len(shape))
    # Sequences are scanned in float32 where elements are narrower, and rounded once.
    narrow = w.types[x].itemsize == 2 and w.types[x].is_float
    wide = w.cast(x, dtypes.float32) if narrow else x
    line = (*shape[:axis], *shape[axis + 1:])
    start = w.op("Expand", w.like(1, wide), w.shape(line))

    def step(states: list[str], rows: list[str]) -> tuple[list[str], list[str]]:
        after = w.op("Mul", states[0], rows[0])
        return [after], [states[0] if attrs["exclusive"] else after]

    out = scan(w, [start], [wide], step, axis=axis, reverse=attrs["reverse"])[1]
    return w.cast(out, w.types[x])


@maps("logcumsumexp")
def _log_cumulative_sum(w: Writer, node: Node, x: str) -> Names:
    wide = w.cast(x, dtypes.float32) if w.types[x].itemsize == 2 else x

    def step(states: list[str], rows: list[str]) -> tuple[list[str], list[str]]:
        joined = w.op("Concat", *(w.op("Unsqueeze", v, w.const([0], dtypes.int64))
                                  for v in (states[0], rows[0])), axis=0)
        after = reduced(w, "ReduceLogSumExp", joined, (0,), False)
        return [after], [after]

    return w.cast(_scanned(w, node, [wide], float("-inf"), step), w.types[x])


@maps("linear_recurrence")
def _linear_recurrence(w: Writer, node: Node, x: str, factor: str) -> Names:
    narrow = w.types[x].itemsize == 2
    wide = [w.cast(v, dtypes.float32) if narrow else v for v in (x, factor)]

    def step(states: list[str], rows: list[str]) -> tuple[list[str], list[str]]:
        after = w.op("Add", w.op("Mul", states[0], rows[1]), rows[0])
        return [after], [after]

    return w.cast(_scanned(w, node, wide, 0, step), w.types[x])


def _scanned(w: Writer, node: Node, sequences: list[str], start: float, step: Step) -> str:
    """The rows of a Scan along the node's axis, from one state that begins as `start`."""
    shape = node.operands[0].shape
    axis = normalize_axis(node.attrs["axis"], len(shape))
    line = w.shape((*shape[:axis], *shape[axis + 1:]))
    first = w.op("Expand", w.like(start, sequences[0]), line)
    return scan(w, [first], sequences, step, axis=axis, reverse=node.attrs.get("reverse", False))[1]


@maps("cummax", "cummin")
def _cumulative_extreme(w: Writer, node: Node, x: str) -> Names:
    shape = node.operands[0].shape
    axis = normalize_axis(node.attrs["axis"], len(shape))
    if not is_symbolic(shape[axis]) and shape[axis] == 0:
        return x, w.cast(x, dtypes.int32)
    line = w.shape((*shape[:axis], *shape[axis + 1:]))
    first = w.op("Gather", x, w.const(0, dtypes.int64), axis=axis)
    zero = w.op("Expand", w.const(0, dtypes.int64), line)
    positions = w.op("Expand", positions_of(w, shape[axis], axis, len(shape)), w.shape(shape))
    # (`first` is seen once more, as an element equal to itself.)
    beaten = "LessOrEqual" if node.op == "cummax" else "GreaterOrEqual"
    floats = w.types[x].is_float

    def step(states: list[str], rows: list[str]) -> tuple[list[str], list[str]]:
        held, at = states
        take = w.op(beaten, held, rows[0])
        if floats:
            take = w.op("Or", take, w.op("Not", w.op("Equal", rows[0], rows[0])))
            take = w.op("And", take, w.op("Equal", held, held))
        values = w.op("Where", take, rows[0], held)
        places = w.op("Where", take, rows[1], at)
        return [values, places], [values, places]

    values, places = scan(w, [first, zero], [x, positions], step, axis=axis)[2:]
    return values, w.cast(places, dtypes.int32)


def positions_of(w: Writer, size: int, axis: int, rank: int) -> str:
    """0, 1, ... along an axis, the others of size 1; int64."""
    zero, one = w.const(0, dtypes.int64), w.const(1, dtypes.int64)
    count = w.op("Squeeze", w.size(size), w.ints([0]))
    steps = w.op("Range", zero, count, one)
    return w.op("Reshape", steps, w.ints([-1 if k == axis else 1 for k in range(rank)]))
