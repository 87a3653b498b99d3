"""Networks of `samples/` whose layers' primitives have strategies at random, cut over ranks.

A strategy is drawn for what a primitive of a layer (`net.fc.matmul`) computes there, then the graph
that it leads to is cut as in `ranks.py`: each rank's part of the results is that of one process.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import cellc as ms
from cellc import Tensor, nn, ops
from cellc.calls.inner_primitives import _OPS
from cellc.compiled.traced import trace
from cellc.nn.layer.inner import INNER
from cellc.ranks.layout import _convolution_keys, _keys
from cellc.testing.ranks import run_ranks
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.op import lookup
from cellc_compiler.passes.sharding.plan import LAY_OUT
from cellc_compiler.passes.sharding.rewrite import common_mesh

from ...modes.law import Array
from ...samples.networks import NETWORKS

NAMES = ("gpt", "lenet", "lstm", "mlp", "mobilenet", "unet")
"""Of the samples: those that the interpreter computes soon."""
RANKS = (2, 3, 4, 6, 8)
_SHARE = 0.5
"""Of the primitives that are said something of."""
Strategy = tuple[tuple[int, ...], ...]
Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Placed:
    """A network and what is said of its layers.

    Attributes:
        name: of the sample.
        gradients: whether those of its weights are computed, too.
        ranks: how many work on it.
        said: by paths of layers and names of primitives.
    """

    name: str
    gradients: bool
    ranks: int
    said: Mapping[tuple[str, str], Strategy]

    def text(self) -> str:
        """The first line of a case, which `read` reads, and one for each strategy."""
        lines = [f"{cell} {name} {strategy}" for (cell, name), strategy in self.said.items()]
        return "\n".join((f"placed {self.name} {int(self.gradients)} {self.ranks}", *lines)) + "\n"

    def network(self) -> nn.Cell:
        """The network, its primitives told."""
        net: nn.Cell = NETWORKS[self.name].make()
        cells = dict(net.cells_and_names())
        for (cell, name), strategy in self.said.items():
            getattr(cells[cell], name).shard(strategy)
        return net

    def graph(self) -> tuple[Graph, list[Array], tuple[int, ...]]:
        """The graph of all ranks, values for its inputs, and the sizes of the mesh."""
        net, given = self.network(), NETWORKS[self.name].input()
        called: Any = net
        if self.gradients:
            called = ms.value_and_grad(lambda *args: ops.mean(_first(net(*args))), None,
                                       net.trainable_params())
        ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel")
        try:  # (one traces: the others would find layers that are being traced)
            traced = run_ranks(self.ranks, lambda rank: trace(called, given, {}) if rank == 0
                               else None)[0]
        finally:
            ms.reset_auto_parallel_context()
        arrays = [np.asarray(t.asnumpy()) for t in (*given, *traced.parameters)]
        matrices = [n.attrs["matrix"] for n in traced.graph.nodes if n.op == LAY_OUT]
        mesh = common_mesh(matrices or [(self.ranks,)], tuple(range(self.ranks)))
        return traced.graph, arrays, mesh.sizes


def _first(out: Any) -> Tensor:
    found: Tensor = out[0] if isinstance(out, tuple) else out
    return found


def drawn(seed: int) -> Placed:
    """A network of a seed; no two strategies ask for arrays of ranks that have no common one."""
    rng = np.random.default_rng([seed, 23])
    name, ranks = NAMES[int(rng.integers(len(NAMES)))], RANKS[int(rng.integers(len(RANKS)))]
    net = NETWORKS[name].make()
    graph = trace(net, NETWORKS[name].input(), {}).graph
    said: dict[tuple[str, str], Strategy] = {}
    matrices: list[tuple[int, ...]] = []
    for cell, attribute, shapes in _primitives(net, graph):
        if rng.random() < _SHARE:
            kind = getattr(dict(net.cells_and_names())[cell], attribute)
            strategy, matrix = _strategy(rng, kind, shapes, ranks)
            try:
                common_mesh([*matrices, matrix], tuple(range(ranks)))
            except ValueError:
                continue
            matrices.append(matrix)
            said[cell, attribute] = strategy
    return Placed(name, bool(rng.integers(2)), ranks, said)


def _primitives(net: nn.Cell, graph: Graph) -> Iterator[tuple[str, str, Shapes]]:
    """The primitives of layers that stand for one op of a graph, and shapes of what that reads."""
    for path, cell in net.cells_and_names():
        own = [n for n in graph.nodes if n.scope == path]
        tables = [INNER.get(kind.__name__, {}) for kind in type(cell).__mro__]
        for attribute in sorted({name for table in tables for name in table}):
            kind = getattr(getattr(cell, attribute), "name", "")
            found = [n for n in own if n.op in _OPS.get(kind, ())
                     or lookup(n.op).primitive == kind]
            if len(found) == 1 and kind not in ("Dropout", "OneHot", "ExpandDims", "Squeeze"):
                shapes = tuple(v.type.dims for v in found[0].operands)
                if kind == "BiasAdd":
                    shapes = shapes[0], shapes[1][:1]
                yield path, attribute, shapes


def _strategy(
    rng: np.random.Generator, primitive: Any, shapes: Shapes, ranks: int
) -> tuple[Strategy, tuple[int, ...]]:
    """A strategy for operands of these shapes, and the array of ranks that it means."""
    kind = primitive.name
    flipped = (bool(primitive.attrs.get("transpose_a")), bool(primitive.attrs.get("transpose_b")))
    longest = max(map(len, shapes))
    keys = _convolution_keys(kind, shapes) or [
        _keys(len(dims), i, kind, flipped, False, longest) for i, dims in enumerate(shapes)]
    parts = dict.fromkeys((key for names in keys for key in names), 1)
    for at in map(int, rng.permutation(len(parts))):
        key = list(parts)[at]
        dims = [d for names, shape in zip(keys, shapes, strict=True)
                for k, d in zip(names, shape, strict=True) if k == key]
        left = ranks // math.prod(parts.values())
        fit = [n for n in range(1, left + 1) if left % n == 0 and all(d % n == 0 for d in dims)]
        parts[key] = fit[int(rng.integers(len(fit)))]
    if kind.startswith("Conv") and any(parts[k] > 1 for names in keys for k in names[2:]):
        parts |= {k: 1 for names in keys for k in names[2:]}
    matrix = [parts[key] for key in sorted(parts)]
    rest = ranks // math.prod(matrix)
    return (tuple(tuple(parts[key] for key in names) for names in keys),
            tuple(matrix) + ((rest,) if rest > 1 else ()))


def smaller(placed: Placed, shows: Callable[[Placed], bool]) -> Placed:
    """With as few strategies as show something."""
    for key in list(placed.said):
        fewer = replace(placed, said={k: v for k, v in placed.said.items() if k != key})
        if shows(fewer):
            placed = fewer
    return placed


def read(text: str) -> Placed:
    """What `Placed.text` has written."""
    head, *lines = text.strip().split("\n")
    _, name, gradients, ranks = head.split()
    said = {}
    for line in lines:
        cell, attribute, strategy = line.split(" ", 2)
        said[cell, attribute] = ast.literal_eval(strategy)
    return Placed(name, bool(int(gradients)), int(ranks), said)
