"""Checks of a whole model before any of it is translated, and which initializers are weights."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ..tracing.tracer import BAKED
from .table import OPSETS, RULES
from .wire import Body, Model, Node, OnnxError, Refer, nested, shown

_NOT_TAKEN = {
    "Sequence": "sequences", "SplitToSequence": "sequences", "ConcatFromSequence": "sequences",
    "Optional": "optionals", "String": "strings", "RegexFullMatch": "strings",
    "TfIdfVectorizer": "strings", "CategoryMapper": "strings", "DictVectorizer": "maps",
    "CastMap": "maps", "ZipMap": "maps: convert the model without it, with zipmap=False",
    "ImageDecoder": "compressed images",
}
_FLOATS = (1, 10, 11, 16)
_SHOWN = 100


def check(model: Model) -> tuple[frozenset[str], frozenset[str]]:
    """Check versions, operators, names and order.

    Returns:
        Return the initializers that are trained, and the others that are kept as Parameters.

    Raises:
        OnnxError: all unknown operators at once, or the first other fault.
    """
    _check_version(model.opsets, "it")
    _refuse_unknown(model)
    for (domain, name), body in model.functions.items():
        what = f"the function {domain + '::' if domain else ''}{name}"
        _check_version(body.opsets, what)
        if len({i.name for i in body.inputs}) != len(body.inputs):
            raise OnnxError(f"two inputs of {what} have one name")
        _check_names(body, {i.name for i in body.inputs}, what)
    _refuse_recursion(model)
    stray = next((n for n in _all(model.graph)
                  if any(isinstance(v, Refer) for v in n.attrs.values())), None)
    if stray is not None:
        raise OnnxError(f"{stray} takes an attribute from a function's call, but is in no function")
    given = {i.name for i in model.graph.inputs}
    if len(given) != len(model.graph.inputs) or "" in given:
        raise OnnxError("two inputs have one name, or one has none")
    if not model.graph.outputs:
        raise OnnxError("it has no outputs")
    _check_names(model.graph, given, "the graph")
    return _weights(model)


def _check_version(opsets: Mapping[str, int], what: str) -> None:
    opset = opsets.get("", 1)
    if opset not in OPSETS:
        raise OnnxError(f"{what} needs ONNX's op set {opset}; read are those up to {OPSETS[-1]}")


def _all(body: Body) -> Iterator[Node]:
    for node in body.nodes:
        yield node
        for inner in nested(node):
            yield from _all(inner)


def _refuse_unknown(model: Model) -> None:
    counts: Counter[str] = Counter()
    first: dict[str, Node] = {}
    for body in (model.graph, *model.functions.values()):
        for node in _all(body):
            if node.kind not in RULES and (node.domain, node.op) not in model.functions:
                counts[node.kind] += 1
                first.setdefault(node.kind, node)
    if not counts:
        return
    lines = []
    for kind, count in counts.most_common(_SHOWN):
        why = next((f", which works on {w}" for p, w in _NOT_TAKEN.items()
                    if first[kind].op.startswith(p)), "")
        lines.append(f"{shown(kind)} ({count}, first {first[kind]}{why})")
    more = len(counts) - _SHOWN
    rest = f", and {more} more operators" if more > 0 else ""
    raise OnnxError(f"there are no rules for these operators: {'; '.join(lines)}{rest}")


def _refuse_recursion(model: Model) -> None:
    """Functions must not call each other in circles."""
    state: dict[tuple[str, str], int] = {}
    for start in model.functions:
        stack = [(start, iter(_called(model, start)))] if start not in state else []
        state.setdefault(start, 1)
        while stack:
            key, calls = stack[-1]
            after = next(calls, None)
            if after is None:
                state[key] = 2
                stack.pop()
            elif state.get(after) == 1:
                raise OnnxError(f"the function {after[1]!r} calls itself")
            elif after not in state:
                state[after] = 1
                stack.append((after, iter(_called(model, after))))


def _called(model: Model, key: tuple[str, str]) -> list[tuple[str, str]]:
    calls = ((n.domain, n.op) for n in _all(model.functions[key]))
    return [c for c in dict.fromkeys(calls) if c in model.functions]


def _check_names(
    body: Body, given: set[str], what: str, around: Sequence[set[str]] = ()
) -> None:
    """Each name is given once, before it is read.

    Args:
        given: the names of the inputs.
        around: the names that the graphs around it have given, from the inside out.
    """
    own = {*given, *body.initializers}
    scopes = (own, *around)
    made = {n for node in body.nodes for n in node.outputs if n}
    for node in body.nodes:
        for name in node.inputs:
            if name and not any(name in names for names in scopes):
                why = "which comes later: the nodes are out of order or in a circle" \
                    if name in made else "which nothing gives"
                raise OnnxError(f"{node} reads {name!r}, {why}")
        for inner in nested(node):
            if node.kind == "If" and inner.inputs:
                raise OnnxError(f"{node} has a branch that takes {inner.inputs[0].name!r}: "
                                "branches have no inputs")
            _check_names(inner, {i.name for i in inner.inputs}, f"a graph of {node}", scopes)
        for name in node.outputs:
            if name and name in own:
                raise OnnxError(f"{node} gives {name!r}, a name that is taken")
            own.add(name)
    for output in body.outputs:
        if not any(output.name in names for names in scopes):
            raise OnnxError(f"the output {output.name!r} of {what} is given by no node")


def _weights(model: Model) -> tuple[frozenset[str], frozenset[str]]:
    """Initializers of floats with axes are trained, unless something keeps them as they are; those
    and larger ones of ints are Parameters that are not trained."""
    uses: dict[str, set[str]] = {}
    for node in _all(model.graph):
        rule = RULES.get(node.kind)
        for i, name in enumerate(node.inputs):
            role = "trained" if rule is None else \
                "known" if rule.is_known(i) or i in rule.stored else \
                "frozen" if i in rule.frozen else "trained"
            uses.setdefault(name, set()).add(role)
    trained, frozen = set(), set()
    for name, raw in model.graph.initializers.items():
        roles = uses.get(name, set())
        if not roles or "known" in roles:  # (what is computed follows from its elements)
            continue
        if raw.code in _FLOATS and raw.dims and roles == {"trained"}:
            trained.add(name)
        elif math.prod(raw.dims) > BAKED or (raw.dims and raw.code in _FLOATS):
            frozen.add(name)
    return frozenset(trained), frozenset(frozen)
