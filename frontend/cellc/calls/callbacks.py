"""Host callbacks: Python functions that compiled graphs call at run time, and printing.

A function is traced as a `host_call` node, which knows it by number; `Traced.functions` holds the
functions of a graph. Its results have declared types, so that the graph can be compiled; what it
returns is checked against them before native code sees it. In PyNative mode it is just called.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from cellc_compiler.driver import callback_name
from cellc_compiler.ir.graph import Graph, Node
from cellc_compiler.ir.op import lookup
from cellc_compiler.ir.types import TensorType
from cellc_runtime.lazy import lazy_imports

from ..core import watching
from ..core.dispatch import active_tracer
from ..core.journal import given_by
from ..tensors.tensor import Grads, Tensor, Tensors, elements_now, tensor_of
from .bprop import Rule, with_gradient

with lazy_imports(__name__):  # one process needs none
    from cellc_runtime import collectives

Array = np.ndarray[Any, Any]
HostFunction = Callable[..., Any]
"""Takes Tensors (copies, which it may keep); gives one, a tuple of them, or None for none."""


def host_call(
    function: HostFunction, name: str, operands: Tensors, results: Sequence[TensorType],
    rule: Rule | None = None,
) -> list[Tensor]:
    """Call a Python function in program order, in either mode.

    Args:
        function: see `HostFunction`.
        name: what messages call it.
        results: the types of what it returns.
        rule: its gradient; without one, to ask for a gradient through it is an error.
    """
    tracer = active_tracer()
    if tracer is not None and rule is None:
        return tracer.host_call(function, name, operands, results)

    def forward(given: Tensors) -> list[Tensor]:
        if tracer is not None:
            return tracer.host_call(function, name, given, results)
        made = given_by(lambda: checked(
            name, function(*[tensor_of(elements_now(t).copy()) for t in given]), results))
        out = [tensor_of(a.copy()) for a in made]
        if watching.active:
            watching.active[-1].gave(name, given, out)
        return out

    def refuse(*_: Any) -> Grads:
        raise TypeError(
            f"the gradient of the Python function {name}() is not known: give it a bprop"
        )

    return with_gradient(operands, forward, rule or refuse)


def checked(name: str, given: Any, results: Sequence[TensorType]) -> list[Array]:
    """Return the results of a host function as arrays of the declared types.

    Python numbers are converted; everything else must have exactly the declared type.
    """
    many = [] if given is None else list(given) if isinstance(given, (tuple, list)) else [given]
    if len(many) != len(results):
        declared = ", ".join(map(str, results)) or "nothing"
        raise TypeError(
            f"{name}() must return {declared}, but returned {len(many)} value"
            f"{'s' * (len(many) != 1)}"
        )
    return [_array(name, i, v, t) for i, (v, t) in enumerate(zip(many, results, strict=True))]


def _array(name: str, number: int, value: Any, ty: TensorType) -> Array:
    which = f"result {number} of {name}()"
    if isinstance(value, Tensor):
        array: Array = elements_now(value)
    elif isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
        array = np.array(value, ty.dtype.numpy)
    elif isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
    else:
        raise TypeError(f"{which}: declared as {ty}, got a {type(value).__name__}")
    if array.dtype.newbyteorder("=") != ty.dtype.numpy:
        raise TypeError(f"{which}: declared as {ty}, got an array of {array.dtype}")
    if array.shape != ty.dims:
        raise ValueError(f"{which}: declared as {ty}, got the shape {array.shape}")
    return array


# --- callbacks of compiled graphs ----------------------------------------------------------------


def host_callbacks(
    graph: Graph, functions: Sequence[HostFunction] = ()
) -> dict[str, Callable[..., None]]:
    """Return the functions for the callbacks of a graph, by the names the compiler gives them.

    Args:
        graph: what is compiled.
        functions: those of its `host_call` nodes, by number.
    """
    out: dict[str, Callable[..., None]] = {}
    calls = [n for n in executed(graph) if n.op == "host_call"]
    present = [functions[n.attrs["number"]] for n in calls]
    for node, function in zip(calls, present, strict=True):
        link = getattr(function, "linked", None)  # it depends on what else is called
        out[callback_name(node)] = _caller(node, function if link is None else link(present))
    for node in executed(graph):
        if node.op == "print":
            out[callback_name(node)] = _printer(node)
    return {**out, **_collectives(graph)}


def _collectives(graph: Graph) -> dict[str, Callable[..., None]]:
    """The collectives of a graph, which say where the source asks for them."""
    places: dict[str, list[str]] = {}
    for node in executed(graph):
        if lookup(node.op).collective:
            lines = places.setdefault(callback_name(node), [])
            if (line := f"{node.span.file}:{node.span.line}") not in lines:
                lines.append(line)
    return {called: collectives.callback(called, f" ({' or '.join(lines)})")
            for name, lines in places.items()
            for called in (name, *(collectives.phased(name, phase)
                                   for phase in (collectives.START, collectives.ASK)))}


def executed(graph: Graph) -> Iterator[Node]:
    """All nodes but those of gradients that nobody takes."""
    for node in graph.nodes:
        yield node
        for region in node.regions[:1] if node.op == "custom_grad" else node.regions:
            yield from executed(region)


def _printer(node: Node) -> Callable[..., None]:
    parts = node.attrs["parts"]

    def show(*arrays: Array) -> None:
        # The arrays are views of memory that is used again, and what is printed may be kept.
        print_parts(parts, [tensor_of(np.array(a)) for a in arrays])

    return show


def _caller(node: Node, function: HostFunction) -> Callable[..., None]:
    name, count = node.attrs["name"], len(node.operands)
    types = [r.type for r in node.results]

    def call(*arrays: Array) -> None:
        given = function(*[tensor_of(np.array(a)) for a in arrays[:count]])
        for place, array in zip(arrays[count:], checked(name, given, types), strict=True):
            np.copyto(place, array)

    return call


def print_parts(parts: Sequence[Any], tensors: Tensors) -> None:
    """Write strings (separators and the line's end among them) and values.

    A tensor stands where a part is None or a triple (kind of number or "", style, spec); see
    `lang.values.Formatted`.
    """
    it = iter(tensors)
    sys.stdout.write("".join(p if isinstance(p, str) else written_part(p, next(it)) for p in parts))
    sys.stdout.flush()


_NUMBERS: dict[str, type] = {"bool": bool, "int": int, "float": float}


def written_part(mark: tuple[str, str, str] | None, tensor: Tensor) -> str:
    """A run-time value in a text; `mark` as in `print_parts`."""
    if mark is None:
        return str(tensor)
    kind, style, spec = mark
    value: Any = _NUMBERS[kind](elements_now(tensor).item()) if kind else tensor
    if style == "!r":
        return repr(value)
    return str(spec % (value,)) if style == "%" else format(value, spec)
