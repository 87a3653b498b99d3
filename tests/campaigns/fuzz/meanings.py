"""The same mathematics said otherwise: in a Cell, in parts, in a loop, in a batch of one, in a
file.

Each way is a function of a network that raises `Different`, as in `network.py`.
"""

from __future__ import annotations

import copy
import io
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import cellc as ms
from cellc import nn, ops
from cellc.tensors.tensor import tensor_of
from cellc_compiler.driver import compile_program
from cellc_compiler.ir.op import lookup
from cellc_compiler.ir.text import print_graph
from cellc_runtime import artifact as artifacts
from cellc_runtime.target import host_targets

from ...modes.law import arrays_of, mode
from .network import Block, Network, same


class Parts(nn.Cell):
    """Two functions, the second one of what the first gives, each compiled alone."""

    def __init__(self, first: Any, rest: Any) -> None:
        super().__init__()
        self.first, self.rest = ms.jit(first), ms.jit(rest)

    def construct(self, *xs: Any) -> Any:
        return self.rest(*self.first(*xs))


def cell(net: Network) -> None:
    """In `construct` of a Cell, in graph mode, called twice and copied deeply."""
    with mode(ms.GRAPH_MODE):
        block = Block(net.function())
        for made in (block, block, copy.deepcopy(block)):
            same(arrays_of(made(*net.tensors())), net.results, "a Cell and PyNative")


def nested(net: Network) -> None:
    """Through functions, a comprehension and arguments in a list and a dict."""
    fn = net.function()

    def inner(given: list[Any]) -> dict[str, Any]:
        return {str(i): out for i, out in enumerate(fn(*given))}

    def outer(*xs: Any) -> list[Any]:
        found = inner([x for x in xs])  # noqa: C416
        return [found[key] for key in found]

    with mode(ms.GRAPH_MODE):
        same(arrays_of(ms.jit(outer)(*net.tensors())), net.results, "nested functions and PyNative")


def parts(net: Network) -> None:
    """Cut in two, each half compiled on its own."""
    graph = net.graph
    count = len(graph.nodes) // 2
    head = Network(graph.__class__("head"), net.arrays)
    head.graph.inputs, head.graph.nodes = graph.inputs, graph.nodes[:count]
    made = [*graph.inputs, *(r for n in head.graph.nodes for r in n.results)]
    head.graph.outputs = made
    tail = Network(graph.__class__("tail"), [])
    tail.graph.inputs, tail.graph.nodes = made, graph.nodes[count:]
    tail.graph.outputs = graph.outputs
    if not tail.graph.nodes or not head.graph.nodes:
        return
    with mode(ms.PYNATIVE_MODE):
        got = Parts(head.function(), tail.function())(*net.tensors())
    same(arrays_of(got), net.results, "two halves and PyNative")


def trip(net: Network) -> None:
    """As a loop of one trip, whose number only the run knows."""
    fn, kept = net.function(), [v.type for v in net.graph.outputs]
    first = [tensor_of(np.zeros(t.shape, t.dtype.numpy)) for t in kept]

    def loop(n: Any, *xs: Any) -> list[Any]:
        outs = [ops.identity(f) for f in first]
        i = n * 0
        while i < n:
            outs = list(fn(*xs))
            i = i + 1
        return outs

    with mode(ms.GRAPH_MODE):
        got = ms.jit(loop)(tensor_of(np.asarray(1, np.int32)), *net.tensors())
    same(arrays_of(got), net.results, "a loop of one trip and PyNative")


def row(net: Network) -> None:
    """As a scan of one row, which holds all that the network is given."""
    fn = net.function()

    def step(carry: Any, given: list[Any]) -> tuple[Any, list[Any]]:
        return carry + 1, list(fn(*given))

    def loop(zero: Any, *xs: Any) -> Any:
        _, rows = ops.Scan()(step, zero, [list(xs)])
        return rows[0]

    with mode(ms.GRAPH_MODE):
        got = ms.jit(loop)(tensor_of(np.asarray(0, np.int32)), *net.tensors())
    same(arrays_of(got), net.results, "a scan of one row and PyNative")


def artifact(net: Network) -> None:
    """Written as an artifact for each kind of processor, read and run by the runtime alone."""
    graph = net.graph
    programs = [compile_program(graph, target) for target in host_targets()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "net.cellc")
        artifacts.save(path, {"infer": artifacts.Entry(programs, [print_graph(graph)])}, {}, {})
        got = artifacts.load(path, trust_native_code=True)(*map(np.array, net.arrays))
    got = got if isinstance(got, tuple) else (got,)
    same([np.asarray(a) for a in got], net.results, "an artifact and PyNative")


def batch(net: Network) -> None:
    """`vmap` over a batch of one."""
    if any(n.op.startswith("random") or lookup(n.op).effect for n in net.graph.nodes):
        return  # draws of a batch are others, as MindSpore's randomness says
    if any(n.op == "measure" for n in net.graph.nodes):
        return  # the elements of an example are no sizes of a batch (CE606)
    with mode(ms.GRAPH_MODE):
        mapped = ms.vmap(net.function())
        got = mapped(*[tensor_of(np.array(a)[None]) for a in net.arrays])
    same([a[0] for a in arrays_of(got)], net.results, "vmap of one and PyNative")


def exported(net: Network) -> None:
    """Written as CIR, read and run."""
    if not net.arrays:
        return
    with tempfile.TemporaryDirectory() as folder, mode(ms.GRAPH_MODE):
        path = str(Path(folder, "net.cir"))
        ms.export(Block(net.function()), *net.tensors(), file_name=path, file_format="CIR")
        loaded = nn.GraphCell(ms.load(path))
        same(arrays_of(loaded(*net.tensors())), net.results, "an exported file and PyNative")


def pickled(net: Network) -> None:
    """What goes in and out is pickled; a tensor keeps its bits."""
    stream = io.BytesIO()
    pickle.dump([tensor_of(a) for a in net.results], stream)
    stream.seek(0)
    same([np.array(t._data) for t in pickle.load(stream)], net.results, "pickled and not")


MEANINGS: tuple[Callable[[Network], None], ...] = (
    cell, nested, parts, trip, row, batch, exported, artifact, pickled,
)
