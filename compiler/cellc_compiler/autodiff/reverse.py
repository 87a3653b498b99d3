"""Reverse mode, source to source.

One walk over the nodes in reverse order; each op's own rule turns cotangents of its results into
cotangents of its operands, and cotangents of one value are added in the order they arrive. That
order follows from the program alone, so the graph of compiled code and the recording of an eager
run give the same bits: contributions inside a branch or loop are added one by one to the
cotangent that came from after it. (A cotangent that has to exist before its first contribution
starts as -0.0, for x + -0.0 is x for every x.)

The method is that of Pearlmutter & Siskind (2008) without a tape: backward nodes are ordinary
nodes, so gradients of gradients need nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from cellc_runtime import dtypes

from ..ir.graph import Builder, Graph, Node, Value, clone_into
from ..ir.op import lookup
from ..ir.types import TensorType, differentiable, seedable
from ..passes.base import copy_graph
from ..passes.stages.micro_batches import backward_order
from .checkpointing import CheckpointedLoop
from .conditional import (
    IsPresent,
    Presence,
    as_flag,
    guard_contributions,
    is_present,
    present_results,
    select_presence,
    zeros_if_absent,
)
from .effects import (
    GradientError,
    SavedResult,
    save_host_results,
    silent,
    use_saved,
    without_effects,
)
from .loops import BackwardLoop, LoopPlan, Origin, Term
from .recompute import recompute_results

Values = Sequence[Value]
Cotangents = dict[Value, Value]


def reverse(
    b: Builder, nodes: Sequence[Node], cotangents: Cotangents, wanted: Sequence[Value],
    presence: Presence | None = None,
) -> list[Value | None]:
    """Append to `b` the backward nodes of `nodes`; the cotangents of `wanted` (None: no path).

    Args:
        b: where backward nodes go; its graph holds (or may read) the forward values.
        nodes: forward nodes in order.
        cotangents: of the results to start from, and of values as gathered so far; updated.
        wanted: values whose cotangents are asked for.
        presence: flags of conditional cotangents; updated. Without them, zeros are given where
            nothing contributed when it ran.

    Raises:
        GradientError: an op on the path has no gradient.
    """
    whole = presence is None
    presence = {} if presence is None else presence
    active = reached(nodes, wanted)
    start, seeds = len(b.graph.nodes), list(cotangents.values())
    for node in backward_order(nodes):
        dys = [cotangents.get(r) for r in node.results]
        if not any(dy is not None and r in active
                   for dy, r in zip(dys, node.results, strict=True)):
            continue
        with b.at(span=node.span, scope=node.scope, origin=node.op):
            _guarded_step(b, node, dys, cotangents, active, presence)
    recompute_results(b, start, nodes, seeds)
    found = [cotangents.get(v) for v in wanted]
    if not whole or not presence:
        return found
    return [zeros_if_absent(b, v, presence.get(w)) for v, w in zip(found, wanted, strict=True)]


def reached(nodes: Sequence[Node], wanted: Sequence[Value]) -> set[Value]:
    """Values with a differentiable path from `wanted`, integers only if some are among those."""
    carries = seedable if any(v.dtype.is_integer for v in wanted) else differentiable
    active = {v for v in wanted if carries(v.type)}
    for node in nodes:
        if node.op != "stop_gradient" and any(v in active for v in node.operands):
            active.update(r for r in node.results if carries(r.type))
    return active


def _guarded_step(
    b: Builder, node: Node, dys: list[Value | None], cotangents: Cotangents, active: set[Value],
    presence: Presence,
) -> None:
    """`_step`, with conditional contributions kept apart; see `conditional`."""
    special = _REGION_RULES.get(node.op)
    if special is None and not presence:
        _step(b, node, dys, cotangents, active)
        return
    dys, some = present_results(b, node, dys, presence)
    before = {v: cotangents.get(v) for v in node.operands}
    found: Mapping[Value, Value] = {}
    if special is None:
        _step(b, node, dys, cotangents, active)
    else:
        found = special(b, node, dys, cotangents, active)
    guard_contributions(b, cotangents, before, some, found, presence)


def _step(
    b: Builder, node: Node, dys: list[Value | None], cotangents: Cotangents, active: set[Value]
) -> None:
    op = lookup(node.op)
    if not op.has_gradient():
        if op.expand is None or not op.differentiable:
            if not any(differentiable(v.type) for v in node.operands if v in active):
                return  # a function of integers that jumps
            raise GradientError(
                op.why_no_gradient(node)
                or f"{node.op} is not differentiable", node)
        _through_expansion(b, node, dys, cotangents, active)
        return
    try:
        grads = op.gradient(b, node, dys)
    except TypeError:
        if all(r.dtype.is_inexact for r in node.results):
            raise
        raise GradientError(f"the gradient of {node.op} is not known for integers", node) from None
    for operand, grad in zip(node.operands, grads, strict=True):
        if grad is not None and operand in active:
            accumulate(b, cotangents, operand, grad)


def accumulate(b: Builder, cotangents: Cotangents, value: Value, grad: Value) -> None:
    """Add a contribution to the cotangent of a value."""
    if grad.type != value.type:
        raise TypeError(f"a gradient of type {grad.type} for a value of type {value.type}")
    had = cotangents.get(value)
    cotangents[value] = grad if had is None else b.add(had, grad)


def _through_expansion(
    b: Builder, node: Node, dys: list[Value | None], cotangents: Cotangents, active: set[Value]
) -> None:
    """A composition without a rule of its own: build it again and differentiate that.

    Common subexpressions merge the second copy of the forward part with the first.
    """
    op = lookup(node.op)
    assert op.expand is not None
    start = len(b.graph.nodes)
    out = op.expand(b, *node.operands, **node.attrs)
    results = list(out) if isinstance(out, tuple) else [out]
    inner = b.graph.nodes[start:]
    seeds = {r: dy for r, dy in zip(results, dys, strict=True) if dy is not None}
    operands = [v for v in dict.fromkeys(node.operands) if v in active]
    for operand, grad in zip(operands, reverse(b, inner, seeds, operands), strict=True):
        if grad is not None:
            accumulate(b, cotangents, operand, grad)


# --- regions -------------------------------------------------------------------------------------


def start_cotangent(b: Builder, cotangents: Cotangents, value: Value) -> Value:
    """The cotangent gathered so far, or the neutral element of addition (-0.0)."""
    had = cotangents.get(value)
    if had is not None:
        return had
    out: Value = b.broadcast_to(b.literal(-0.0, value.dtype), shape=value.type.shape)
    return out


def zero_cotangent(b: Builder, dy: Value | None, result: Value) -> Value:
    """The cotangent of a result, zeros if nothing depends on it."""
    return dy if dy is not None else b.zeros_like(result)


def _first_places(values: Values) -> list[int]:
    """For each value, where it stands first: one that stands twice has one cotangent."""
    first: dict[Value, int] = {}
    return [first.setdefault(v, i) for i, v in enumerate(values)]


def _cond_rule(
    b: Builder, node: Node, dys: list[Value | None], cotangents: Cotangents, active: set[Value]
) -> Presence:
    captures = node.operands[1:]
    same = _first_places(captures)
    slots = [i for i, v in enumerate(captures) if v in active and same[i] == i]
    results = [i for i, dy in enumerate(dys) if dy is not None]
    given = [dy for dy in dys if dy is not None]
    before = [start_cotangent(b, cotangents, captures[i]) for i in slots]
    saved = save_host_results(node)
    backward = [_backward_region(region, slots, results, same, saved, i)
                for i, region in enumerate(node.regions)]
    operands = [node.operands[0], *dict.fromkeys(captures), *given, *before]
    operands += [node.results[k.result] for k in saved]
    return _branched(b, node.operands[0], operands, backward, [captures[i] for i in slots],
                     cotangents)


def _branched(
    b: Builder, pred: Value, operands: Values, branches: Sequence[tuple[Graph, list[IsPresent]]],
    wanted: Values, cotangents: Cotangents,
) -> Presence:
    """A cond of backward regions, which give the cotangents of `wanted`; the flags of those."""
    answers = list(zip(*(c for _, c in branches), strict=True))
    open_ = [i for i, pair in enumerate(answers) if not all(isinstance(a, bool) for a in pair)]
    for graph, found in branches:
        graph.outputs += [as_flag(Builder(graph), found[i]) for i in open_]
    new = b.node("cond", operands, {}, [graph for graph, _ in branches]).results
    flags: dict[int, IsPresent] = dict(zip(open_, new[len(wanted):], strict=True))
    presence: Presence = {}
    for i, (v, grad) in enumerate(zip(wanted, new, strict=False)):
        answer = flags[i] if i in flags else select_presence(b, pred, *answers[i])
        if answer is False:
            continue
        cotangents[v] = grad
        if answer is not True:
            presence[v] = answer
    return presence


def _backward_region(
    region: Graph, slots: Sequence[int], results: Sequence[int], same: Sequence[int],
    saved: Sequence[SavedResult] = (), branch: int = 0,
) -> tuple[Graph, list[IsPresent]]:
    """Inputs, cotangents of some results, cotangents so far of some inputs -> the latter's sums.

    With `saved`, further inputs are those values, of which the ones of `branch` are used. The
    region's inputs at `same` places (see `_first_places`) are one input.

    Returns:
        The graph, and to which of the inputs it contributes.
    """
    graph = Graph(region.name + "_grad")
    b = Builder(graph)
    args = _shared_inputs(graph, region, same)
    dys = [graph.add_input(region.outputs[i].type, f"dy{i}") for i in results]
    before = [graph.add_input(region.inputs[i].type, f"before{i}") for i in slots]
    outputs, table = clone_into(b, region, args)
    forward = list(graph.nodes)
    use_saved(graph, saved, branch, table)
    without_effects(graph)
    return graph, _sums(b, forward, [outputs[i] for i in results], dys, [args[i] for i in slots],
                        before)


def _sums(
    b: Builder, forward: Sequence[Node], outputs: Values, dys: Values, wanted: Values,
    before: Values,
) -> list[IsPresent]:
    """Complete a backward region: it gives the cotangents of `wanted`, `before` at first.

    Returns:
        To which of them it contributes.
    """
    cotangents: Cotangents = dict(zip(wanted, before, strict=True))
    presence: Presence = dict.fromkeys(wanted, b.literal(False, dtypes.bool_))
    for output, dy in zip(outputs, dys, strict=True):
        _give(b, cotangents, output, dy, presence)
    grads = reverse(b, forward, cotangents, wanted, presence)
    b.graph.outputs = [v for v in grads if v is not None]
    return [is_present(v, old, new, presence)
            for v, old, new in zip(wanted, before, grads, strict=True)]


def _give(
    b: Builder, cotangents: Cotangents, value: Value, grad: Value, presence: Presence
) -> None:
    """Add a contribution that is present."""
    accumulate(b, cotangents, value, grad)
    presence.pop(value, None)


def _shared_inputs(graph: Graph, region: Graph, same: Sequence[int]) -> list[Value]:
    """New inputs of `graph` for those of a region, one for all that stand for one value."""
    args: list[Value] = []
    for i, place in enumerate(same):
        v = region.inputs[i]
        args.append(args[place] if place < i else graph.add_input(v.type, f"arg{i}"))
    return args


def _custom_rule(
    b: Builder, node: Node, dys: list[Value | None], cotangents: Cotangents, active: set[Value]
) -> Presence:
    given = [zero_cotangent(b, dy, r) for dy, r in zip(dys, node.results, strict=True)]
    with b.at(scope=""):  # (nodes of a region have whole paths)
        grads, _ = clone_into(b, node.regions[1], [*node.operands, *node.results, *given])
    for i, (operand, grad) in enumerate(zip(node.operands, grads, strict=True)):
        if operand in active and i not in node.attrs["none"] and differentiable(operand.type):
            accumulate(b, cotangents, operand, grad)
    return {}


def _given_rule(
    b: Builder, node: Node, dys: list[Value | None], cotangents: Cotangents, active: set[Value]
) -> Presence:
    """To one of the values as the run decides; nothing to the other."""
    condition, *values = node.operands
    (dy,) = dys
    assert dy is not None
    nothing = b.broadcast_to(b.literal(-0.0, dy.dtype), shape=dy.type.shape)
    found: Presence = {}
    for v, pair in zip(values, ((dy, nothing), (nothing, dy)), strict=True):
        if v in active:
            accumulate(b, cotangents, v, b.given(condition, *pair))
            found[v] = condition if pair[0] is dy else b.logical_not(condition)
    return found if values[0] is not values[1] else {}


def _recompute_rule(
    b: Builder, node: Node, dys: list[Value | None], cotangents: Cotangents, active: set[Value]
) -> Presence:
    """Compute the region again, from its operands once the results' cotangents are known.

    So nothing in the region lives from the forward to the backward part. Contributions are added
    one by one to the cotangents that came from after the region, as if it were not there.
    """
    saved = save_host_results(node)
    same = _first_places(node.operands)
    slots = [i for i, v in enumerate(node.operands) if v in active and same[i] == i]
    results = [i for i, dy in enumerate(dys) if dy is not None]
    given = [dy for dy in dys if dy is not None]
    before = {i: cotangents[v] for i, v in enumerate(node.operands) if i in slots
              and v in cotangents}
    graph, reached, open_ = recomputed(
        node.regions[0], slots, results, tuple(before), saved, same)
    again = [b.after(v, *given) for v in dict.fromkeys(node.operands)]
    stored = [node.results[k.result] for k in saved]
    with b.at(scope=""):
        out, _ = clone_into(b, graph, [*again, *given, *before.values(), *stored])
    cotangents.update((node.operands[i], grad) for i, grad in zip(reached, out, strict=False))
    return {node.operands[i]: v for i, v in zip(open_, out[len(reached):], strict=True)}


def recomputed(
    region: Graph, slots: Sequence[int], results: Sequence[int], before: Sequence[int],
    saved: Sequence[SavedResult], same: Sequence[int],
) -> tuple[Graph, list[int], list[int]]:
    """Inputs, cotangents of some results, those so far of some inputs, kept values -> the sums.

    Args:
        region: computed again in the graph.
        slots: inputs whose cotangents are asked for; `before` are those that have one already.
        results: outputs with cotangents.
        kept, same: see `_backward_region`.

    Returns:
        The graph, of which inputs its outputs are the cotangents, and for which of them flags
        follow (see `conditional`).
    """
    graph = Graph(region.name + "_grad")
    b = Builder(graph)
    args = _shared_inputs(graph, region, same)
    dys = [graph.add_input(region.outputs[i].type, f"dy{i}") for i in results]
    had = [graph.add_input(region.inputs[i].type, f"before{i}") for i in before]
    outputs, table = clone_into(b, region, args)
    forward = list(graph.nodes)
    use_saved(graph, saved, 0, table)
    without_effects(graph)
    cotangents: Cotangents = {args[i]: v for i, v in zip(before, had, strict=True)}
    presence: Presence = dict.fromkeys((args[i] for i in before), b.literal(False, dtypes.bool_))
    for i, dy in zip(results, dys, strict=True):
        _give(b, cotangents, outputs[i], dy, presence)
    grads = reverse(b, forward, cotangents, [args[i] for i in slots], presence)
    old = dict(zip(before, had, strict=True))
    found = [(i, v, is_present(args[i], old.get(i), v, presence))
             for i, v in zip(slots, grads, strict=True)]
    given = [(i, v) for i, v, answer in found if v is not None and answer is not False]
    conditional = [(i, answer) for i, _, answer in found if not isinstance(answer, bool)]
    graph.outputs = [*(v for _, v in given), *(v for _, v in conditional)]
    return graph, [i for i, _ in given], [i for i, _ in conditional]


def _scan_rule(
    b: Builder, node: Node, dys: list[Value | None], cotangents: Cotangents, active: set[Value]
) -> Presence:
    """Walk the steps backwards over what the forward loop saved; see `loops`."""
    n, k, length = (node.attrs[a] for a in ("carried", "sequences", "length"))
    limit = node.operands[n + k : n + k + node.attrs["limited"]]
    xs, captures = node.operands[n : n + k], node.operands[n + k + len(limit) :]
    stepwise = bool(node.attrs["stepwise"])
    floats = _carrying(node, node.regions[0], dys, active, stepwise)
    active = {v for v in node.operands if v in active}
    rows = tuple(i for i in range(k) if xs[i] in active)
    plan = scan_gradient(
        node.regions[0], n, k, floats, rows,
        tuple(i for i in range(len(captures)) if captures[i] in active),
        tuple(i for i in range(n, len(dys)) if dys[i] is not None), node.attrs["saved"],
        not limit, stepwise,
    )
    _grow(node, plan.body)
    same = _first_places(captures)
    carried = _carried_cotangents(b, node, dys, floats)
    carried += [start_cotangent(b, cotangents if stepwise and same[i] == i else {}, captures[i])
                for i in plan.sums]

    def stacked(origin: Origin) -> Value:
        kind, i = origin
        value = {"result": node.results, "sequence": xs, "dy": dys}[kind][i]
        assert isinstance(value, Value)
        return value

    sequences = [stacked(o) for o in plan.rows]
    attrs = {"carried": len(carried), "sequences": len(sequences), "length": length,
             "reverse": not node.attrs["reverse"], "limited": node.attrs["limited"],
             "stepwise": stepwise}
    operands = [*carried, *sequences, *limit, *(captures[i] for i in plan.captures)]
    out = list(b.node("scan", operands, attrs, [plan.graph]).results)
    summed = list(zip(plan.sums, out[len(floats) :], strict=False))
    if stepwise:  # what there was went in, before the first step gives to what enters the loop
        for i, grad in summed:
            if same[i] == i:
                cotangents[captures[i]] = grad
            else:
                accumulate(b, cotangents, captures[i], grad)
    for i, grad in zip(floats, out, strict=False):
        if node.operands[i] in active:
            accumulate(b, cotangents, node.operands[i], grad)
    if not stepwise:
        for i, grad in summed:
            accumulate(b, cotangents, captures[i], grad)
    for i, grad in zip(rows, out[len(carried) :], strict=False):
        accumulate(b, cotangents, xs[i], grad)
    for term in plan.terms:
        parts = [out[i] if kind == "output" else stacked((kind, i)) for kind, i in term.rows]
        accumulate(b, cotangents, captures[term.capture],
                   _over_all_steps(b, term, parts, captures[term.capture]))
    return {}


def _carried_cotangents(
    b: Builder, node: Node, dys: Sequence[Value | None], floats: Sequence[int]
) -> list[Value]:
    """What the backward loop starts with for the carried values among `floats`."""
    if node.attrs["stepwise"]:
        given = {r: dy for r, dy in zip(node.results, dys, strict=False) if dy is not None}
        return [start_cotangent(b, given, node.results[i]) for i in floats]
    return [zero_cotangent(b, dys[i], node.results[i]) for i in floats]


def _over_all_steps(b: Builder, term: Term, parts: Sequence[Value], like: Value) -> Value:
    """A contribution of every step, as one product or sum."""
    grad: Value
    if term.op == "matmul":
        flat = [b.reshape(v, shape=(v.shape[0] * v.shape[1], v.shape[2])) for v in parts]
        grad = b.matmul(*flat, transpose_a=True)
    else:
        axes = (0, *(a + 1 for a in term.axes))
        grad = b.reduce_sum(*parts, axes=axes, keepdims=False)
    return grad if grad.type == like.type else b.reshape(grad, shape=like.type.shape)


def _grow(node: Node, body: Graph) -> None:
    """Give a scan a body with more outputs than it has."""
    n, length = node.attrs["carried"], node.attrs["length"]
    node.regions = (body,)
    extra = range(len(node.results), len(body.outputs))
    node.results += tuple(
        Value(t.with_shape((length, *t.shape)), node, i)
        for i, t in ((i, body.outputs[i].type) for i in extra)
    )
    assert len(node.results) == len(body.outputs) >= n


def with_residuals(body: Graph, carried: int, sequences: int) -> Graph:
    """The body of a scan that also gives whatever any gradient of it may read."""
    inputs = body.inputs

    def chosen(lo: int, hi: int) -> tuple[int, ...]:
        return tuple(i for i in range(hi - lo) if differentiable(inputs[lo + i].type))

    first = carried + sequences + 1
    outputs = tuple(i for i in range(carried, len(body.outputs))
                    if differentiable(body.outputs[i].type))
    plan = scan_gradient(
        body, carried, sequences, chosen(0, carried), chosen(carried, first - 1),
        chosen(first, len(inputs)), outputs, False,
    )
    grown = copy_graph(plan.body)
    grown.outputs += [v for v in grown.inputs[:carried] if v not in grown.outputs[carried:]]
    return grown


@lru_cache(maxsize=64)
def scan_gradient(
    body: Graph, n: int, k: int, floats: tuple[int, ...], rows: tuple[int, ...],
    caps: tuple[int, ...], ys: tuple[int, ...], fixed: bool, stacks: bool = True,
    stepwise: bool = False,
) -> LoopPlan:
    """The backward loop of a scan.

    Args:
        body: its body, over `n` carried values and `k` sequences.
        floats: carried values with cotangents.
        rows, caps: sequences and captured values whose cotangents are asked for.
        ys: outputs with cotangents.
        fixed: the body has all the outputs it can have (see `with_residuals`).
        stacks: every step runs, so that sums over all steps may follow the loop.
        stepwise: each contribution to a captured value is added to its cotangent at once.
    """
    graph = Graph(body.name + "_grad")
    b = Builder(graph)
    args = [graph.add_input(v.type, v.name) for v in body.inputs]
    outputs, _ = clone_into(b, body, args)
    forward = list(graph.nodes)
    dys = [graph.add_input(body.outputs[i].type, f"dy{i}") for i in (*floats, *ys)]
    cotangents: Cotangents = {}
    for i, dy in zip((*floats, *ys), dys, strict=True):
        accumulate(b, cotangents, outputs[i], dy)
    wanted = [args[i] for i in (*floats, *(n + i for i in rows), *(n + k + 1 + i for i in caps))]
    before: dict[int, Value] = {}
    if stepwise:
        before = {i: graph.add_input(args[n + k + 1 + i].type, f"sum{i}") for i in caps}
        cotangents.update((args[n + k + 1 + i], v) for i, v in before.items())
    grads = reverse(b, forward, cotangents, wanted)
    split = len(floats) + len(rows)
    first = [g if g is not None else b.zeros_like(v)
             for g, v in zip(grads, wanted[:split], strict=False)]
    captured = [(i, g) for i, g in zip(caps, grads[split:], strict=True)
                if g is not None and g is not before.get(i)]
    loop = BackwardLoop(b, Graph(body.name, args, forward, outputs), n, k, fixed, stacks)
    return loop.plan(dys[: len(floats)], list(zip(ys, dys[len(floats) :], strict=True)),
                     first[: len(floats)], first[len(floats) :], captured, before)


def _carrying(
    node: Node, body: Graph, dys: Sequence[Value | None], active: set[Value], fewest: bool = False
) -> tuple[int, ...]:
    """The carried values of a loop that get cotangents: floats (with `fewest` those that have one
    in some step), and integers that have one in some step, if gradients of integers are wanted."""
    n = node.attrs["carried"]
    floats = tuple(i for i in range(n) if differentiable(node.operands[i].type))
    seeded = tuple(i for i in range(len(dys)) if dys[i] is not None)
    if not any(v in active and v.dtype.is_integer for v in node.results[:n]):
        return _reaching(body, n, floats, seeded) if fewest else floats
    all_ = tuple(i for i in range(n) if seedable(node.operands[i].type))
    kept = () if fewest else floats
    found = _reaching(body, n, all_, tuple(dict.fromkeys((*seeded, *kept))))
    return tuple(i for i in all_ if i in found or i in kept)


@lru_cache(maxsize=64)
def _reaching(body: Graph, n: int, floats: tuple[int, ...], seeded: tuple[int, ...]) -> (
    tuple[int, ...]
):
    """The carried values that have a cotangent before some step, given those of outputs that do."""
    found = set(seeded)
    while True:
        graph = Graph("reach")
        b = Builder(graph)
        args = [graph.add_input(v.type, v.name) for v in body.inputs]
        outputs, _ = clone_into(b, body, args)
        forward = list(graph.nodes)
        cotangents: Cotangents = {}
        for i in sorted(found):
            accumulate(b, cotangents, outputs[i], graph.add_input(outputs[i].type, f"dy{i}"))
        grads = reverse(b, forward, cotangents, [args[i] for i in floats])
        more = found | {i for i, g in zip(floats, grads, strict=True) if g is not None}
        if more == found:
            return tuple(i for i in floats if i in found)
        found = more


def _while_rule(
    b: Builder, node: Node, dys: list[Value | None], cotangents: Cotangents, active: set[Value]
) -> Presence:
    """Count the trips, walk them backwards but for the first (see `unbounded`), then the first.

    The first step reads the values that enter the loop, which other nodes and the other steps
    may read too: their cotangents are gathered one by one, as if the loop were unrolled.
    """
    n = node.attrs["carried"]
    captures = node.operands[n:]
    body = silent(node.regions[1])
    floats = _carrying(node, body, dys, active)
    caps = [i for i, v in enumerate(captures) if v in active]
    trips = _count_trips(b, node, n)
    some = b.gt(trips, b.literal(0, dtypes.int64))
    entered = b.node("cond", [some, *node.operands], {}, [body, _first_inputs(body, n)]).results
    sub, _ = _backward_region(body, [*floats, *(n + i for i in caps)], floats,
                           range(n + len(captures)))
    same = _first_places(captures)
    split = len(floats)

    def back(bb: Builder, state: Values, outer: Values, grads: Values) -> list[Value]:
        zeros = [start_cotangent(bb, {}, state[i]) for i in floats]
        return clone_into(bb, sub, [*state, *outer, *grads[:split], *zeros, *grads[split:]])[0]

    grads = [zero_cotangent(b, dys[i], node.results[i]) for i in floats]
    grads += [start_cotangent(b, cotangents if same[i] == i else {}, captures[i]) for i in caps]
    rest = b.maximum(b.sub(trips, b.literal(1, dtypes.int64)), b.literal(0, dtypes.int64))
    grads = CheckpointedLoop(body, back).run(b, rest, entered, captures, grads)
    gathered = dict(cotangents)
    for i, grad in zip(caps, grads[split:], strict=True):
        if same[i] == i:
            gathered[captures[i]] = grad
        else:
            accumulate(b, gathered, captures[i], grad)
    wanted = [v for v in dict.fromkeys(node.operands) if v in active]
    before = [start_cotangent(b, gathered, v) for v in wanted]
    branches = [_first_step(body if taken else None, node.operands, wanted, floats, grads[:split])
                for taken in (True, False)]
    operands = [some, *dict.fromkeys(node.operands), *grads[:split], *before]
    return _branched(b, some, operands, branches, wanted, cotangents)


def _first_inputs(body: Graph, n: int) -> Graph:
    """A graph of the inputs of `body` that gives the first of them."""
    graph = Graph("stay")
    inputs = [graph.add_input(v.type, f"arg{i}") for i, v in enumerate(body.inputs)]
    graph.outputs = inputs[:n]
    return graph


def _first_step(
    body: Graph | None, operands: Values, wanted: Values, floats: Sequence[int], dys: Values
) -> tuple[Graph, list[IsPresent]]:
    """The backward part of the first step of a loop (no step: `body` is None).

    It takes the distinct operands, cotangents of what the step gives and those so far of
    `wanted`, and gives the latter's sums.
    """
    graph = Graph("first_step_grad")
    b = Builder(graph)
    table = {v: graph.add_input(v.type, f"arg{i}") for i, v in enumerate(dict.fromkeys(operands))}
    given = [graph.add_input(v.type, f"dy{i}") for i, v in enumerate(dys)]
    before = [graph.add_input(v.type, f"before{i}") for i, v in enumerate(wanted)]
    args = [table[v] for v in operands]
    outputs = clone_into(b, body, args)[0] if body is not None else args
    forward = list(graph.nodes)
    asked = [table[v] for v in wanted]
    found = _sums(b, forward, [outputs[i] for i in floats], given, asked, before)
    # Where a branch in the first step says no, other steps may have said yes.
    return graph, [answer if isinstance(answer, bool) else True for answer in found]


def _with_counter(region: Graph, n: int, count: bool) -> Graph:
    """A loop region with a leading int64 counter; the body increments it."""
    graph = Graph(region.name)
    b = Builder(graph)
    i = graph.add_input(TensorType((), dtypes.int64), "trips")
    args = [graph.add_input(v.type, f"arg{j}") for j, v in enumerate(region.inputs)]
    outputs, _ = clone_into(b, region, args)
    graph.outputs = [b.add(i, b.literal(1, dtypes.int64)), *outputs] if count else outputs
    return graph


def _count_trips(b: Builder, node: Node, n: int) -> Value:
    test, body = (_with_counter(silent(r), n, c)
                  for r, c in zip(node.regions, (False, True), strict=True))
    zero = b.literal(0, dtypes.int64)
    counted = b.node("while", [zero, *node.operands], {"carried": n + 1}, [test, body])
    return counted.results[0]


_REGION_RULES: Mapping[
    str, Callable[[Builder, Node, list[Value | None], Cotangents, set[Value]], Presence]
] = {"cond": _cond_rule, "custom_grad": _custom_rule, "given": _given_rule,
     "recompute": _recompute_rule, "scan": _scan_rule, "while": _while_rule}


# --- whole graphs --------------------------------------------------------------------------------


def gradient_graph(
    graph: Graph, wanted: Sequence[int], *, seeded: Sequence[int] | None = None,
    sens: bool = False, name: str | None = None,
) -> Graph:
    """A graph of the same inputs that gives the outputs of `graph`, then gradients.

    Args:
        graph: the forward graph; it is not changed.
        wanted: positions of the inputs to differentiate with respect to.
        seeded: positions of the outputs to start from (default: all).
        sens: add one input per seeded output, its cotangent; else cotangents are ones.
        name: name of the new graph.

    Returns:
        A graph with outputs `[*outputs, *gradients]` (zeros where there is no path) and the
        updates of `graph`.

    Raises:
        GradientError: an op on the path has no gradient.
    """
    out = Graph(name or graph.name + "_grad")
    b = Builder(out)
    args = [out.add_input(v.type, v.name, v.kind) for v in graph.inputs]
    outputs, table = clone_into(b, graph, args)
    out.updates = [(table[old], table[new]) for old, new in graph.updates]
    forward = list(out.nodes)
    cotangents: Cotangents = {}
    for i in range(len(outputs)) if seeded is None else seeded:
        v = outputs[i]
        if sens:
            seed = out.add_input(v.type, f"sens{i}")
        elif seedable(v.type):
            seed = b.full(v.type, 1)
        else:
            continue
        accumulate(b, cotangents, v, b.cotangent(seed))
    values = [args[i] for i in wanted]
    grads = reverse(b, forward, cotangents, values)
    zeros = [g if g is not None else b.zeros_like(v) for g, v in zip(grads, values, strict=True)]
    out.outputs = [*outputs, *zeros]
    return out
