"""Graphs of torch as programs: which nodes have rules, and the walk that applies them.

Each node is tried once on the types that torch has for it. One whose rule raises, or gives another
shape, stays with torch, and the graph is split around it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cellc_compiler.ir.types import TensorType
from cellc_runtime.lazy import lazy_imports
from cellc_runtime.records import dataclass

from ..core.dispatch import tracing
from ..tensors.tensor import Tensor
from ..tracing.tracer import Tracer
from .table import Call, Refused, dtype_of, hint, rule_of, to

if TYPE_CHECKING:
    from torch.fx import Graph, Node
with lazy_imports(__name__):
    import torch

_OPERATORS = frozenset((
    operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.neg,
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge))
"""Python's operators that torch leaves in a graph, on sizes."""


def python_function(target: Any) -> Callable[..., Any] | None:
    """The function of sizes that a node calls; None if it calls none."""
    if target in _OPERATORS:
        found: Callable[..., Any] = target
        return found
    known: dict[Any, Callable[..., Any]] = {
        torch.sym_max: max, torch.sym_min: min, torch.sym_sum: sum}
    return known.get(target)


def apply_node(node: Node, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The value of a node for these arguments, in the mode of the caller.

    Raises:
        Refused: there is no rule for it.
    """
    if node.target is operator.getitem:
        return args[0][args[1]]
    if str(node.target) == "aten.sym_size.int":
        return args[0].shape[args[1]]
    function = python_function(node.target)
    if function is not None:
        return function(*args, **kwargs)
    rule = rule_of(node.target)
    if rule is None:
        raise Refused("no rule")
    call = Call(node)
    found = rule(call, *args, **kwargs)
    many = isinstance(node.meta["val"], (tuple, list))
    results = [x if x is None or meta is None else to(x, dtype_of(meta.dtype))
               for x, meta in zip(found if many else [found], call.values, strict=True)]
    return results if many else results[0]


def run(graph: Graph, values: dict[Node, Any]) -> None:
    """Add the values of all nodes to those of inputs and constants."""
    def read(given: Any) -> Any:
        return torch.fx.map_arg(given, values.__getitem__)

    for node in graph.nodes:
        if node.op == "call_function":
            try:
                values[node] = apply_node(node, read(node.args), read(node.kwargs))
            except Exception as e:
                e.add_note(f"in the node {node.format_node()} of torch's graph")
                raise


def output_of(graph: Graph) -> Node:
    """The node that ends a graph."""
    return next(n for n in reversed(graph.nodes) if n.op == "output")


# --- which nodes have rules -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Missing:
    """A node that torch runs.

    Attributes:
        op: its operator.
        why: what stands in the way.
    """

    op: str
    why: str


def missing(graph: Graph) -> dict[Node, Missing]:
    """The nodes that no rule computes."""
    tracer = Tracer("torch")
    out: dict[Node, Missing] = {}
    with tracing(tracer):
        for node in graph.nodes:
            if node.op == "call_function":
                why = _obstacle(tracer, node, out)
                if why:
                    out[node] = Missing(str(node.target), why)
    return out


def _obstacle(tracer: Tracer, node: Node, out: Mapping[Node, Missing]) -> str:
    """Why a node cannot be computed; empty if it can."""
    if node.target is operator.getitem:
        return "part of such a result" if node.args[0] in out else ""
    try:
        args, kwargs = (torch.fx.map_arg(part, lambda n: _sample(tracer, n.meta["val"]))
                        for part in (node.args, node.kwargs))
        found = apply_node(node, args, kwargs)
        for got, wanted in zip(_listed(found), _listed(node.meta["val"]), strict=True):
            _compare(got, wanted)
    except Exception as e:  # of any kind: the rule has met what it does not know
        return str(e) or type(e).__name__
    return ""


def _listed(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        yield from value
    else:
        yield value


def _sample(tracer: Tracer, meta: Any) -> Any:
    """A value of the type that a node of torch's has, with sizes of this call."""
    if isinstance(meta, torch.Tensor):
        if meta.layout != torch.strided or meta.device.type != "cpu":
            raise Refused(f"a tensor {meta.layout} on {meta.device}")
        return tracer.input(TensorType(tuple(map(hint, meta.shape)), dtype_of(meta.dtype)), "x")
    if isinstance(meta, (tuple, list)):
        return [_sample(tracer, m) for m in meta]
    return meta if meta is None else hint(meta)


def _compare(got: Any, wanted: Any) -> None:
    if got is None or wanted is None:
        return  # (a result that nobody reads)
    if isinstance(got, Tensor):
        shape = tuple(map(hint, wanted.shape))
        if got.shape != shape:
            raise Refused(f"the shape {got.shape} instead of {shape}")
    elif got != hint(wanted):
        raise Refused(f"{got} instead of {hint(wanted)}")
