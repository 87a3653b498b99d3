"""Reverse mode through loops: `scan`, whose trips are known, and `while`, whose trips are not.

The parts of their backward loops are in `loops` and `checkpointing`. Here is what they carry:
cotangents of what the forward loop carries and reads, and the flags of those that may be absent
(see `conditional`): what a loop carries need not be read after it, and not by every step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from cellc_runtime import dtypes
from cellc_runtime.records import dataclass

from ..ir.graph import Builder, Graph, Node, Value, clone_into
from ..ir.op import lookup
from ..ir.types import differentiable, seedable
from ..passes.base import copy_graph
from .checkpointing import CheckpointedLoop, count_trips, first_inputs
from .conditional import IsPresent, Presence, as_flag, give, is_present, zeros_if_absent
from .effects import silent
from .loops import BackwardLoop, LoopPlan, Origin, Term, read_by
from .regions import backward_region, branched, finish_region, first_places, flag_inputs
from .reverse import (
    REGION_RULES,
    Cotangents,
    Flags,
    Values,
    accumulate,
    reverse,
    start_cotangent,
    zero_cotangent,
)


@dataclass(frozen=True, slots=True)
class CarriedFlags:
    """Which cotangents of a loop walked backwards may be absent."""

    # floats that are not present before every step, by their place among the floats
    open: tuple[int, ...]
    kept: tuple[int, ...]  # those of them whose flags a step needs, or changes
    never: tuple[int, ...]  # floats to which a step contributes nothing
    sums: tuple[int, ...]  # captured values to which a step contributes as the run decides


def _scan_rule(
    b: Builder, node: Node, dys: list[Value | None], flags: Flags, cotangents: Cotangents,
    active: set[Value],
) -> Presence:
    """Walk the steps backwards over what the forward loop saved; see `loops`."""
    n, k, length = (node.attrs[a] for a in ("carried", "sequences", "length"))
    limit = node.operands[n + k : n + k + node.attrs["limited"]]
    xs, captures = node.operands[n : n + k], node.operands[n + k + len(limit) :]
    stepwise = bool(node.attrs["stepwise"])
    floats = _carrying(node, node.regions[0], dys, active, stepwise)
    active = {v for v in node.operands if v in active}
    rows = tuple(i for i in range(k) if xs[i] in active)
    caps = tuple(i for i in range(len(captures)) if captures[i] in active)
    ys = tuple(i for i in range(n, len(dys)) if dys[i] is not None)
    sure, last = _last_flags(b, dys, flags, floats)
    absent = _carried_flags(node.regions[0], floats, ys, tuple(n + k + 1 + i for i in caps), sure) \
        if stepwise and floats else None
    plan = scan_gradient(node.regions[0], n, k, floats, rows, caps, ys, node.attrs["saved"],
                         not limit, stepwise, absent)
    _grow(node, plan.body)
    same = first_places(captures)
    carried = _carried_cotangents(b, node, dys, floats)
    carried += _carried_at_first(b, absent, last)
    first = len(carried)
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
    never = [floats[i] for i in absent.never] if absent is not None else []
    entering = [(node.operands[i], grad) for i, grad in zip(floats, out, strict=False)
                if node.operands[i] in active and i not in never]
    _give_sums(b, cotangents, entering, [(captures[i], same[i] == i, grad) for i, grad in zip(
        plan.sums, out[first:], strict=False)], stepwise)
    for i, grad in zip(rows, out[len(carried) :], strict=False):
        accumulate(b, cotangents, xs[i], grad)
    for term in plan.terms:
        parts = [out[i] if kind == "output" else stacked((kind, i)) for kind, i in term.rows]
        accumulate(b, cotangents, captures[term.capture],
                   _over_all_steps(b, term, parts, captures[term.capture]))
    if absent is None:
        return {}
    places = [*(floats[i] for i in absent.kept), *(n + k + caps[i] for i in absent.sums)]
    given = dict(zip(places, out[len(floats):first], strict=True))
    read = [i for i in floats if i not in never] + [n + i for i in rows]
    outer = [*node.operands[: n + k], *captures]
    return _either(b, [(outer[i], given.get(i)) for i in (*read, *(n + k + i for i in plan.sums))])


def _give_sums(
    b: Builder, cotangents: Cotangents, entering: Sequence[tuple[Value, Value]],
    summed: Sequence[tuple[Value, bool, Value]], stepwise: bool,
) -> None:
    """Add what a backward loop has gathered: of values that enter the loop, and captured ones.

    Stepwise, what there was of a captured value went in (where it stands first), before the first
    step gives to what enters the loop.
    """
    for v, first, grad in summed if stepwise else ():
        if first:
            cotangents[v] = grad
        else:
            accumulate(b, cotangents, v, grad)
    for v, grad in entering:
        accumulate(b, cotangents, v, grad)
    for v, _, grad in () if stepwise else summed:
        accumulate(b, cotangents, v, grad)


def _carried_at_first(b: Builder, absent: CarriedFlags | None, last: Values) -> list[Value]:
    """The flags that a backward loop starts with, from those of the floats after the last step."""
    if absent is None:
        return []
    return [*(last[i] for i in absent.kept), *(b.literal(False, dtypes.bool_) for _ in absent.sums)]


def _either(b: Builder, contributions: Sequence[tuple[Value, Value | None]]) -> Presence:
    """The flags of values to which several may contribute (with no flag: for certain)."""
    certain = {v for v, flag in contributions if flag is None}
    found: Presence = {}
    for v, flag in contributions:
        if flag is not None and v not in certain:
            found[v] = b.logical_or(found[v], flag) if v in found else flag
    return found


def _carried_cotangents(
    b: Builder, node: Node, dys: Sequence[Value | None], floats: Sequence[int]
) -> list[Value]:
    """Return the initial cotangents of the carried values among `floats`."""
    if node.attrs["stepwise"]:
        given = _given_cotangents(node, dys)
        return [start_cotangent(b, given, node.results[i]) for i in floats]
    return [zero_cotangent(b, dys[i], node.results[i]) for i in floats]


def _given_cotangents(node: Node, dys: Sequence[Value | None]) -> Cotangents:
    """The cotangents of a node's results that there are."""
    return {r: dy for r, dy in zip(node.results, dys, strict=False) if dy is not None}


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
    constant = {v for node in body.nodes if (first := lookup(node.op).first_constant) is not None
                for v in node.operands[first:]}

    def chosen(lo: int, hi: int) -> tuple[int, ...]:
        return tuple(i for i in range(hi - lo)
                     if differentiable(inputs[lo + i].type) and inputs[lo + i] not in constant)

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
    stepwise: bool = False, absent: CarriedFlags | None = None,
) -> LoopPlan:
    """The backward loop of a scan.

    Args:
        body: its body, over `n` carried values and `k` sequences.
        floats: carried values with cotangents.
        rows, caps: sequences and captured values whose cotangents are requested.
        ys: outputs with cotangents.
        fixed: the body has all the outputs it can have (see `with_residuals`).
        stacks: every step runs, so that sums over all steps may follow the loop.
        stepwise: each contribution to a captured value is added to its cotangent at once.
        absent: the values that may be absent; its flags are carried after the cotangents.
    """
    graph = Graph(body.name + "_grad")
    b = Builder(graph)
    args = [graph.add_input(v.type, v.name) for v in body.inputs]
    outputs, _ = clone_into(b, body, args)
    forward = list(graph.nodes)
    dys = [graph.add_input(body.outputs[i].type, f"dy{i}") for i in (*floats, *ys)]
    wanted = [args[i] for i in (*floats, *(n + i for i in rows), *(n + k + 1 + i for i in caps))]
    before: dict[int, Value] = {}
    if stepwise:
        before = {i: graph.add_input(args[n + k + 1 + i].type, f"sum{i}") for i in caps}
    cotangents: Cotangents = {args[n + k + 1 + i]: v for i, v in before.items()}
    presence: Presence = {v: b.literal(False, dtypes.bool_) for v in cotangents}
    flags, had = _step_flags(b, absent)
    for place, (i, dy) in enumerate(zip((*floats, *ys), dys, strict=True)):
        give(b, cotangents, outputs[i], dy, presence, flags.get(place))
    grads = reverse(b, forward, cotangents, wanted, presence if absent is not None else None)
    split, old = len(floats), list(before.values()) if before else [None] * len(caps)
    answers = [is_present(v, start, g, presence) for v, start, g in zip(
        wanted, [*[None] * (split + len(rows)), *old], grads, strict=True)]
    first = [g if g is not None else start_cotangent(b, {}, v) if absent is not None
             else b.zeros_like(v) for g, v in zip(grads[:split], wanted, strict=False)]
    first += [as_flag(b, answers[i]) for i in flags if absent and i in absent.kept]
    first += [b.logical_or(v, as_flag(b, answers[split + len(rows) + i])) for i, v in had.items()]
    of_rows = [zeros_if_absent(b, g, presence.get(v)) or b.zeros_like(v)
               for g, v in zip(grads[split:split + len(rows)], wanted[split:], strict=False)]
    captured = [(i, g) for i, g in zip(caps, grads[split + len(rows):], strict=True)
                if g is not None and g is not before.get(i)]
    loop = BackwardLoop(b, Graph(body.name, args, forward, outputs), n, k, fixed, stacks)
    kept = [flags[i] for i in (absent.kept if absent else ())]
    return loop.plan([*dys[:split], *kept, *had.values()],
                     list(zip(ys, dys[split:], strict=True)), first, of_rows, captured, before)


def _step_flags(
    b: Builder, absent: CarriedFlags | None
) -> tuple[dict[int, Value], dict[int, Value]]:
    """In a backward step: flags of floats, and of captured values, by their place among those."""
    if absent is None:
        return {}, {}
    kept, had = flag_inputs(b.graph, absent.kept), flag_inputs(b.graph, absent.sums)
    return {i: kept[i] if i in kept else b.literal(True, dtypes.bool_)
            for i in (*absent.kept, *absent.open)}, had


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


@lru_cache(maxsize=64)
def _carried_flags(
    body: Graph, floats: tuple[int, ...], others: tuple[int, ...], captured: tuple[int, ...],
    sure: tuple[int, ...],
) -> CarriedFlags:
    """Return the known presence of a backward step's cotangents.

    Args:
        body: the forward step.
        floats: carried values that have cotangents; of those at places `sure` in this tuple, ones
            that are present after the last step.
        others: further outputs with cotangents, all present.
        captured: inputs whose cotangents are gathered over the steps.
    """
    n = len(floats)
    while True:
        open_ = tuple(i for i in range(n) if i not in sure)
        graph, answers = backward_region(
            body, (*floats, *captured), (*floats, *others), range(len(body.inputs)), open_)
        lasting = tuple(i for i in sure if answers[i] is True)
        if lasting == sure:
            break
        sure = lasting
    flags = dict(zip(graph.inputs[len(graph.inputs) - len(open_):], open_, strict=True))
    sums = tuple(i for i, a in enumerate(answers[n:]) if isinstance(a, Value))
    kept = {i for i in range(n) if isinstance(answers[i], Value)}
    roots = [*graph.outputs, *(a for a in answers if isinstance(a, Value))]
    kept.update(flags[v] for v in read_by(roots, set()) if v in flags)
    never = tuple(i for i in range(n) if answers[i] is False)
    return CarriedFlags(open_, tuple(sorted(kept)), never, sums)


def _last_flags(
    b: Builder, dys: Sequence[Value | None], flags: Flags, floats: Sequence[int]
) -> tuple[tuple[int, ...], list[Value]]:
    """Which of `floats` are known to have a cotangent after the last step, and the flags of all."""
    found: list[IsPresent] = [False if dys[i] is None else flags[i] or True for i in floats]
    return tuple(k for k, f in enumerate(found) if f is True), [as_flag(b, f) for f in found]


def _while_rule(
    b: Builder, node: Node, dys: list[Value | None], flags: Flags, cotangents: Cotangents,
    active: set[Value],
) -> Presence:
    """Count the trips, walk them backwards but for the first (see `checkpointing`), then the first.

    The first step reads the values that enter the loop, which other nodes and the other steps
    may read too: their cotangents are gathered one by one, as if the loop were unrolled.
    """
    n = node.attrs["carried"]
    captures = node.operands[n:]
    body = silent(node.regions[1])
    floats = _carrying(node, body, dys, active, True)
    caps = [i for i, v in enumerate(captures) if v in active]
    trips = count_trips(b, node, n)
    some = b.gt(trips, b.literal(0, dtypes.int64))
    entered = b.node("cond", [some, *node.operands], {}, [body, first_inputs(body, n)]).results
    sure, last = _last_flags(b, dys, flags, floats)
    absent = _carried_flags(body, floats, (), tuple(n + i for i in caps), sure)
    same = first_places(captures)
    split, sums = len(floats), len(floats) + len(caps)
    grads = [start_cotangent(b, _given_cotangents(node, dys), node.results[i]) for i in floats]
    grads += [start_cotangent(b, cotangents if same[i] == i else {}, captures[i]) for i in caps]
    grads += _carried_at_first(b, absent, last)
    rest = b.maximum(b.sub(trips, b.literal(1, dtypes.int64)), b.literal(0, dtypes.int64))
    back = _back_step(body, floats, [n + i for i in caps], absent)
    grads = CheckpointedLoop(body, back).run(b, rest, entered, captures, grads)
    gathered = dict(cotangents)
    for i, grad in zip(caps, grads[split:sums], strict=True):
        if same[i] == i:
            gathered[captures[i]] = grad
        else:
            accumulate(b, gathered, captures[i], grad)
    wanted = [v for v in dict.fromkeys(node.operands) if v in active]
    before = [start_cotangent(b, gathered, v) for v in wanted]
    first = {**dict(enumerate(last)), **dict(zip(absent.kept, grads[sums:], strict=False))}
    had: Presence = {}
    for k, flag in zip(absent.sums, grads[sums + len(absent.kept):], strict=True):
        v = captures[caps[k]]
        had[v] = b.logical_or(had[v], flag) if v in had else flag
    branches = [_first_step(body if taken else None, node.operands, wanted, floats, grads[:split],
                            absent.open, list(had)) for taken in (True, False)]
    operands = [some, *dict.fromkeys(node.operands), *grads[:split], *before,
                *(first[i] for i in absent.open), *had.values()]
    return branched(b, some, operands, branches, wanted, cotangents)


def _back_step(
    body: Graph, floats: Sequence[int], captured: Sequence[int], absent: CarriedFlags
) -> Callable[[Builder, Values, Values, Values], list[Value]]:
    """A backward step: cotangents of floats and captured values, then flags (see `absent`)."""
    split, sums = len(floats), len(floats) + len(captured)
    graph, answers = backward_region(
        body, [*floats, *captured], floats, range(len(body.inputs)), absent.open)
    inner = Builder(graph)
    graph.outputs += [as_flag(inner, answers[i]) for i in (*absent.kept, *(
        split + k for k in absent.sums))]

    def back(b: Builder, state: Values, outer: Values, grads: Values) -> list[Value]:
        zeros = [start_cotangent(b, {}, state[i]) for i in floats]
        kept = dict(zip(absent.kept, grads[sums:], strict=False))
        flags = [kept[i] if i in kept else b.literal(True, dtypes.bool_) for i in absent.open]
        out = clone_into(
            b, graph, [*state, *outer, *grads[:split], *zeros, *grads[split:sums], *flags])[0]
        had, first = grads[sums + len(absent.kept):], len(out) - len(absent.sums)
        return [*out[:first], *map(b.logical_or, had, out[first:])]

    return back


def _first_step(
    body: Graph | None, operands: Values, wanted: Values, floats: Sequence[int], dys: Values,
    flagged: Sequence[int], had: Values,
) -> tuple[Graph, list[IsPresent]]:
    """The backward part of the first step of a loop (no step: `body` is None).

    It takes the distinct operands, cotangents of what the step gives and those so far of
    `wanted`, flags of the former and of `had` (those of `wanted` that have some), and gives the
    latter's sums.
    """
    graph = Graph("first_step_grad")
    b = Builder(graph)
    table = {v: graph.add_input(v.type, f"arg{i}") for i, v in enumerate(dict.fromkeys(operands))}
    given = [graph.add_input(v.type, f"dy{i}") for i, v in enumerate(dys)]
    before = [graph.add_input(v.type, f"before{i}") for i, v in enumerate(wanted)]
    flags = flag_inputs(graph, flagged)
    others = flag_inputs(graph, range(len(floats), len(floats) + len(had)))
    args = [table[v] for v in operands]
    outputs = clone_into(b, body, args)[0] if body is not None else args
    forward = list(graph.nodes)
    results = [(outputs[i], dy, flags.get(k)) for k, (i, dy) in enumerate(
        zip(floats, given, strict=True))]
    found = finish_region(b, forward, results, [table[v] for v in wanted], before,
                  dict(zip((table[v] for v in had), others.values(), strict=True)))
    return graph, found


REGION_RULES.update({"scan": _scan_rule, "while": _while_rule})
