"""The gradient of a network against difference quotients of its forward graph (`derivatives`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cellc_compiler.interpret import run
from cellc_runtime.records import dataclass

from ..compiled.traced import Traced
from ..tensors.parameter import Parameter
from ..tracing.pytree import Box, leaves_of, take_apart_call
from .derivatives import ALLOWED_IN_ALL, Forward, Quotient, Unknown, check, smooth
from .report import Report
from .values import widened

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Pair:
    """A network and its gradient, traced, with the arrays of all inputs."""

    forward: Traced
    arrays: list[Array]
    gradient: Traced
    gradient_arrays: list[Array]
    # the arguments of the network; `positions` those that are differentiated
    inputs: tuple[Any, ...]
    positions: tuple[int, ...]
    weights: tuple[Parameter, ...]  # parameters that are
    sens: int  # how many of the gradient's arguments, after the network's, are cotangents


def check_gradient(pair: Pair, report: Report) -> None:
    """Judge the rules of all ops in the network, then its gradient as a whole."""
    try:
        forward = Forward(pair.forward.graph)
        check_rules(forward, pair.arrays, report)
        _whole(forward, pair, report)
    except Unknown as e:
        report.not_compared[f"gradient: difference quotients: {e}"] += 1


def check_rules(forward: Forward, arrays: Sequence[Array], report: Report) -> None:
    """Compare the rule of each op, and each `bprop`, with differences near its operands."""
    for node, operands in forward.nodes(arrays):
        try:
            told = check(node, operands)
        except Unknown:
            continue  # the whole network's gradient is judged all the same
        report.compared["gradient: op rules"] += 1
        if told:
            what = f"bprop of {node.attrs['rule']}" if node.regions else "the rule of an op"
            report.find("rule", f"gradient: {what}", told, node)


def _whole(forward: Forward, pair: Pair, report: Report) -> None:
    names, quotient = _quotient(forward, pair)
    if not quotient.wanted:
        return
    if quotient.check(ALLOWED_IN_ALL):
        guilty = quotient.guilty(ALLOWED_IN_ALL)
        if guilty and forward.unknown_rules:
            raise Unknown("it differs, and hooks or Python functions have gradients of their own")
        if guilty and forward.declared:
            report.notes.append("gradient: as a whole it is not the derivative, as bprop_differs "
                                f"of {', '.join(forward.declared)} declares")
            return
        for i, told in guilty:
            report.find("rule", f"gradient: of {names[i]}", told)
    report.compared["gradient: gradients in float64"] += len(quotient.wanted)


def _quotient(forward: Forward, pair: Pair) -> tuple[dict[int, str], Quotient]:
    """The network beside its gradient, both functions of the gradient's inputs; and what those
    inputs are called that are differentiated."""
    inner, outer = pair.forward, pair.gradient
    structure, leaves = take_apart_call(pair.inputs, {})
    places = inner.arguments - len(leaves)
    at_parameter = {id(p): outer.arguments + k for k, p in enumerate(outer.parameters)}
    sources = [*range(len(leaves)), *(len(leaves) + pair.sens + k for k in range(places)),
               *(at_parameter.get(id(p), -1) for p in inner.parameters)]
    assert isinstance(structure, Box) and isinstance(structure.parts[0], Box)
    arguments = structure.parts[0].parts
    chosen = [leaf.number for p in pair.positions for leaf in leaves_of(arguments[p])]
    wanted = [*chosen, *(at_parameter.get(id(p), -1) for p in pair.weights)]
    names = dict(zip(wanted, [*(f"argument {inner.graph.inputs[i].name}" for i in chosen),
                              *(p.name for p in pair.weights)], strict=True))
    count = len(inner.graph.outputs)
    kept = [(k, i) for k, i in enumerate(wanted)
            if i >= 0 and outer.graph.inputs[i].dtype.is_inexact]
    seeded = [i for i, v in enumerate(inner.graph.outputs) if v.dtype.is_inexact]
    cotangents = _cotangents(pair, inner, len(leaves), seeded)

    wide = smooth(outer.graph)

    def gradients(at: list[Array]) -> list[Array]:
        out = run(wide, at, precise=True)
        return [out[count + k] for k, _ in kept]

    def total(at: list[Array]) -> float:
        given = [pair.arrays[n] if i < 0 else at[i] for n, i in enumerate(sources)]
        outs = forward(given)
        return sum(float(np.real(np.sum(np.conj(c) * outs[i]))) for i, c in cotangents)

    return names, Quotient(outer.graph.inputs, [i for _, i in kept], list(pair.gradient_arrays),
                           gradients, total)


def _cotangents(
    pair: Pair, inner: Traced, first: int, seeded: Sequence[int]
) -> list[tuple[int, Array]]:
    """The float outputs, each with its cotangent: ones if none are given."""
    numbers = [i for i, v in enumerate(inner.graph.outputs)
               if v.dtype.is_inexact or v.dtype.is_integer]
    if not pair.sens:
        return [(i, np.ones(inner.graph.outputs[i].shape)) for i in seeded]
    given = pair.gradient_arrays[first : first + pair.sens]
    return [(i, widened(a)) for i, a in zip(numbers, given, strict=True) if i in seeded]
