"""Checks of a whole MindIR file before any of it is translated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from cellc_runtime.errors import counted

from ..onnx_import.wire import Node
from .table import is_known
from .wire import Body, MindirError, Model

_ANY = 1 << 30
SPECIAL = {
    "Depend": (1, _ANY), "UpdateState": (0, _ANY), "Load": (1, _ANY), "Partial": (1, _ANY),
    "Switch": (3, 3), "MakeTuple": (0, _ANY), "make_list": (0, _ANY), "MakeList": (0, _ANY),
    "TupleGetItem": (2, 2), "list_getitem": (2, 2)}
"""Primitives of the graph itself: how many inputs they have at least and at most."""
_SHOWN = 100


def check(model: Model) -> tuple[bool, frozenset[str]]:
    """Check primitives, names and order.

    Returns:
        Return whether a node changes parameters, and those that are moving averages.

    Raises:
        MindirError: all unknown primitives at once, or the first other fault.
    """
    bodies = [model.graph, *model.functions.values()]
    _refuse_unknown(model, bodies)
    constants = {node.outputs[0] for body in bodies for node in body.nodes
                 if node.op == "Constant" and node.outputs}
    for body in bodies:
        if not body.outputs:
            raise MindirError(f"the graph {body.name!r} has no output")
        if len(body.outputs) > 1 and body is not model.graph:
            raise MindirError(f"the graph {body.name!r} has several outputs")
        _check_names(model, body, constants)
    if any(body.parameters for body in bodies[1:]):
        raise MindirError("a graph that is called has parameters of its own")
    return any(p.attrs.get("side_effect_mem") for p in model.primitives.values()), \
        frozenset(_averages(model, bodies))


def _refuse_unknown(model: Model, bodies: list[Body]) -> None:
    counts: Counter[str] = Counter()
    first: dict[str, Node] = {}
    for node in (node for body in bodies for node in body.nodes):
        primitive = model.primitives.get(node.op)
        if primitive is not None and primitive.op in SPECIAL:
            least, most = SPECIAL[primitive.op]
            if not least <= len(node.inputs) <= most:
                raise MindirError(f"{node} has {counted(len(node.inputs), 'input')}; it must have "
                                  f"{least}{' or more' * (least < most)}")
        if primitive is None or primitive.op in SPECIAL or is_known(primitive.op):
            continue
        counts[primitive.op] += 1
        first.setdefault(primitive.op, node)
    if counts:
        shown = [f"{op} ({count}, first node {first[op].name!r})"
                 for op, count in counts.most_common(_SHOWN)]
        more = len(counts) - _SHOWN
        rest = f", and {more} more primitives" if more > 0 else ""
        raise MindirError(f"nothing here is like these primitives: {'; '.join(shown)}{rest}")


def _check_names(model: Model, body: Body, constants: set[str]) -> None:
    """Each name is given once, before it is read."""
    own = [i.name for i in body.inputs] + [raw.name for _, raw in body.parameters]
    seen = set(own)
    if len(seen) != len(own):
        raise MindirError(f"two inputs of the graph {body.name!r} have one name")
    made = {n for node in body.nodes for n in node.outputs}
    known = constants | model.functions.keys()
    for node in body.nodes:
        for name in (node.op, *node.inputs):
            if name in seen or name in known:
                continue
            if name == node.op and (name in model.primitives or name == "Constant"):
                continue
            why = "which comes later: the nodes are out of order or in a circle" \
                if name in made else "which nothing gives"
            raise MindirError(f"{node} reads {name!r}, {why}")
        if len(node.outputs) != 1:
            raise MindirError(f"{node} has {len(node.outputs)} outputs; every node has one")
        if node.outputs[0] in seen:
            raise MindirError(f"{node} gives {node.outputs[0]!r}, a name that is taken")
        seen.add(node.outputs[0])
    for output in body.outputs:
        if output.name not in seen and output.name not in known:
            raise MindirError(f"the output {output.name!r} is given by no node")


def _averages(model: Model, bodies: list[Body]) -> Iterator[str]:
    """The parameters that are moving averages of a normalization."""
    for body in bodies:
        loaded: dict[str, str] = {}
        for node in body.nodes:
            primitive = model.primitives.get(node.op)
            if primitive is None:
                continue
            if primitive.op == "Load" and node.inputs:
                loaded[node.outputs[0]] = node.inputs[0]
            elif primitive.op.startswith("BatchNorm"):
                yield from (loaded.get(n, n) for n in node.inputs[3:5])
