"""Reverse mode through regions that run at most once: branches, recomputed parts, users' rules.

A backward region takes what the forward one takes, the cotangents of its results and those so far
of its inputs, and gives the sums of the latter: contributions are added one by one, as if the
region were not there. See `conditional` for those that may be absent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cellc_runtime import dtypes

from ..ir.graph import Builder, Graph, Node, Value, clone_into
from ..ir.types import TensorType, seedable
from .conditional import IsPresent, Presence, as_flag, give, is_present, select_presence
from .effects import SavedResult, save_host_results, use_saved, without_effects
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


def first_places(values: Values) -> list[int]:
    """For each value, where it stands first: one that stands twice has one cotangent."""
    first: dict[Value, int] = {}
    return [first.setdefault(v, i) for i, v in enumerate(values)]


def _cond_rule(
    b: Builder, node: Node, dys: list[Value | None], flags: Flags, cotangents: Cotangents,
    active: set[Value],
) -> Presence:
    captures = node.operands[1:]
    same = first_places(captures)
    slots = [i for i, v in enumerate(captures) if v in active and same[i] == i]
    results = [i for i, dy in enumerate(dys) if dy is not None]
    given = [dy for dy in dys if dy is not None]
    before = [start_cotangent(b, cotangents, captures[i]) for i in slots]
    saved = save_host_results(node)
    flagged = [k for k, i in enumerate(results) if flags[i] is not None]
    backward = [backward_region(region, slots, results, same, flagged, saved, i)
                for i, region in enumerate(node.regions)]
    operands = [node.operands[0], *dict.fromkeys(captures), *given, *before]
    operands += [f for i in results if (f := flags[i]) is not None]
    operands += [node.results[k.result] for k in saved]
    return branched(b, node.operands[0], operands, backward, [captures[i] for i in slots],
                     cotangents)


def branched(
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


def backward_region(
    region: Graph, slots: Sequence[int], results: Sequence[int], same: Sequence[int],
    flagged: Sequence[int] = (), saved: Sequence[SavedResult] = (), branch: int = 0,
) -> tuple[Graph, list[IsPresent]]:
    """Inputs, cotangents of some results, cotangents so far of some inputs -> the latter's sums.

    Further inputs are the flags of those of `results` that `flagged` counts, and with `saved`
    those values, of which the ones of `branch` are used. The region's inputs at `same` places
    (see `first_places`) are one input.

    Returns:
        The graph, and to which of the inputs it contributes.
    """
    graph = Graph(region.name + "_grad")
    b = Builder(graph)
    args = _shared_inputs(graph, region, same)
    dys = [graph.add_input(region.outputs[i].type, f"dy{i}") for i in results]
    before = [graph.add_input(region.inputs[i].type, f"before{i}") for i in slots]
    flags = flag_inputs(graph, flagged)
    outputs, table = clone_into(b, region, args)
    forward = list(graph.nodes)
    use_saved(graph, saved, branch, table)
    without_effects(graph)
    given = [(outputs[i], dy, flags.get(k)) for k, (i, dy) in enumerate(
        zip(results, dys, strict=True))]
    return graph, finish_region(b, forward, given, [args[i] for i in slots], before)


def flag_inputs(graph: Graph, flagged: Sequence[int]) -> dict[int, Value]:
    """New inputs for flags, by what they are the flags of."""
    return {i: graph.add_input(TensorType((), dtypes.bool_), f"flag{i}") for i in flagged}


def finish_region(
    b: Builder, forward: Sequence[Node], given: Sequence[tuple[Value, Value, Value | None]],
    wanted: Values, before: Values, had: Mapping[Value, Value] | None = None,
) -> list[IsPresent]:
    """Complete a backward region: it gives the cotangents of `wanted`, `before` at first.

    Args:
        given: outputs of the forward nodes, their cotangents, and the flags of those.
        had: of `wanted`, what says whether others have contributed before.

    Returns:
        To which of them it, or what was before, contributes.
    """
    cotangents: Cotangents = dict(zip(wanted, before, strict=True))
    presence: Presence = dict.fromkeys(wanted, b.literal(False, dtypes.bool_))
    presence.update(had or {})
    for output, dy, flag in given:
        give(b, cotangents, output, dy, presence, flag)
    grads = reverse(b, forward, cotangents, wanted, presence)
    b.graph.outputs = [v for v in grads if v is not None]
    return [is_present(v, old, new, presence)
            for v, old, new in zip(wanted, before, grads, strict=True)]


def _shared_inputs(graph: Graph, region: Graph, same: Sequence[int]) -> list[Value]:
    """New inputs of `graph` for those of a region, one for all that stand for one value."""
    args: list[Value] = []
    for i, place in enumerate(same):
        v = region.inputs[i]
        args.append(args[place] if place < i else graph.add_input(v.type, f"arg{i}"))
    return args


def _custom_rule(
    b: Builder, node: Node, dys: list[Value | None], flags: Flags, cotangents: Cotangents,
    active: set[Value],
) -> Presence:
    given = [zero_cotangent(b, dy, r) for dy, r in zip(dys, node.results, strict=True)]
    with b.at(scope=""):  # (nodes of a region have whole paths)
        grads, _ = clone_into(b, node.regions[1], [*node.operands, *node.results, *given])
    for i, (operand, grad) in enumerate(zip(node.operands, grads, strict=True)):
        if operand in active and i not in node.attrs["none"] and seedable(operand.type):
            accumulate(b, cotangents, operand, grad)
    return {}


def _given_rule(
    b: Builder, node: Node, dys: list[Value | None], flags: Flags, cotangents: Cotangents,
    active: set[Value],
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


def _alias_rule(
    b: Builder, node: Node, dys: list[Value | None], flags: Flags, cotangents: Cotangents,
    active: set[Value],
) -> Presence:
    """To the value that the first operand is, as the run decides (see `aliases`)."""
    (dy,) = dys
    assert dy is not None
    value, *pairs = node.operands
    nothing = b.broadcast_to(b.literal(-0.0, dy.dtype), shape=dy.type.shape)
    found: Presence = {}
    other: Value | None = None
    for flag, v in zip(pairs[::2], pairs[1::2], strict=True):
        other = flag if other is None else b.logical_or(other, flag)
        if v in active:
            accumulate(b, cotangents, v, b.given(flag, dy, nothing))
            found[v] = b.logical_or(found[v], flag) if v in found else flag
    if value in active:
        accumulate(b, cotangents, value, dy if other is None else b.given(other, nothing, dy))
        if value in found:
            found[value] = b.logical_or(found[value], b.logical_not(other))
        elif other is not None:
            found[value] = b.logical_not(other)
    return found


def _recompute_rule(
    b: Builder, node: Node, dys: list[Value | None], flags: Flags, cotangents: Cotangents,
    active: set[Value],
) -> Presence:
    """Compute the region again, from its operands once the results' cotangents are known.

    So nothing in the region lives from the forward to the backward part. Contributions are added
    one by one to the cotangents that came from after the region, as if it were not there.
    """
    saved = save_host_results(node)
    same = first_places(node.operands)
    slots = [i for i, v in enumerate(node.operands) if v in active and same[i] == i]
    results = [i for i, dy in enumerate(dys) if dy is not None]
    given = [dy for dy in dys if dy is not None]
    before = {i: cotangents[v] for i, v in enumerate(node.operands) if i in slots
              and v in cotangents}
    flagged = [k for k, i in enumerate(results) if flags[i] is not None]
    graph, reached, open_ = recomputed(
        node.regions[0], slots, results, tuple(before), flagged, saved, same)
    again = [b.after(v, *given) for v in dict.fromkeys(node.operands)]
    stored = [f for i in results if (f := flags[i]) is not None]
    stored += [node.results[k.result] for k in saved]
    with b.at(scope=""):
        out, _ = clone_into(b, graph, [*again, *given, *before.values(), *stored])
    cotangents.update((node.operands[i], grad) for i, grad in zip(reached, out, strict=False))
    return {node.operands[i]: v for i, v in zip(open_, out[len(reached):], strict=True)}


def recomputed(
    region: Graph, slots: Sequence[int], results: Sequence[int], before: Sequence[int],
    flagged: Sequence[int], saved: Sequence[SavedResult], same: Sequence[int],
) -> tuple[Graph, list[int], list[int]]:
    """Inputs, cotangents of some results, those so far of some inputs, flags of some of the
    former, kept values -> the sums.

    Args:
        region: computed again in the graph.
        slots: inputs whose cotangents are requested; `before` are those that have one already.
        results: outputs with cotangents.
        flagged, saved, same: see `backward_region`.

    Returns:
        The graph, of which inputs its outputs are the cotangents, and for which of them flags
        follow (see `conditional`).
    """
    graph = Graph(region.name + "_grad")
    b = Builder(graph)
    args = _shared_inputs(graph, region, same)
    dys = [graph.add_input(region.outputs[i].type, f"dy{i}") for i in results]
    had = [graph.add_input(region.inputs[i].type, f"before{i}") for i in before]
    flags = flag_inputs(graph, flagged)
    outputs, table = clone_into(b, region, args)
    forward = list(graph.nodes)
    use_saved(graph, saved, 0, table)
    without_effects(graph)
    cotangents: Cotangents = {args[i]: v for i, v in zip(before, had, strict=True)}
    presence: Presence = dict.fromkeys((args[i] for i in before), b.literal(False, dtypes.bool_))
    for k, (i, dy) in enumerate(zip(results, dys, strict=True)):
        give(b, cotangents, outputs[i], dy, presence, flags.get(k))
    grads = reverse(b, forward, cotangents, [args[i] for i in slots], presence)
    old = dict(zip(before, had, strict=True))
    found = [(i, v, is_present(args[i], old.get(i), v, presence))
             for i, v in zip(slots, grads, strict=True)]
    given = [(i, v) for i, v, answer in found if v is not None and answer is not False]
    conditional = [(i, answer) for i, _, answer in found if not isinstance(answer, bool)]
    graph.outputs = [*(v for _, v in given), *(v for _, v in conditional)]
    return graph, [i for i, _ in given], [i for i, _ in conditional]


REGION_RULES.update(
    alias=_alias_rule, cond=_cond_rule, custom_grad=_custom_rule, given=_given_rule,
    recompute=_recompute_rule)
