"""Artifacts for several targets whose results must be the same bits on each: what is played."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import cellc as ms
from cellc import nn, ops
from cellc.compiled.traced import trace
from cellc_compiler import driver
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.op import Op, all_ops
from cellc_compiler.lower.machine import NoRule
from cellc_runtime import artifact
from cellc_runtime.target import Target

from ...ops.test_matrix import batch_of, fused
from ...samples.networks import NETWORKS

Array = np.ndarray[Any, Any]
ON_THE_HOST = {"custom_kernel"}
"""Ops whose code numba makes for the machine at hand."""


@dataclass
class Piece:
    """An entry of an artifact, to be compiled.

    Attributes:
        name: of the entry.
        graph: what it computes.
        arrays: what its inputs are given, in order, weights included.
    """

    name: str
    graph: Graph
    arrays: Sequence[Array]


def op_pieces(ops: Iterable[Op]) -> Iterator[Piece]:
    """The op matrix: each op's samples in all types, each among selections that fuse with it."""
    for op in ops:
        batch = batch_of(op)
        arrays = [np.asarray(True), *(a for case in batch for a in case.arrays)]
        yield Piece(op.name, fused(batch), arrays)


def every_op() -> list[Op]:
    """All ops that an artifact may hold and that have samples."""
    return [op for op in all_ops() if op.samples() and op.name not in ON_THE_HOST]


def network_pieces(names: Iterable[str]) -> Iterator[tuple[str, Piece]]:
    """The sample networks: inference and a training step, in an artifact each."""
    for name in names:
        sample = NETWORKS[name]
        yield f"{name}-infer", _traced("infer", sample.make().set_train(False), sample.input())
        yield f"{name}-train", _traced("train", sample.train_step(sample.make()), sample.batch())


def pool_piece() -> Piece:
    """Kernels that are worth several threads: products, a convolution, rows, sums, a sort."""
    ms.set_seed(5)
    rng = np.random.default_rng(5)
    x = ms.Tensor(rng.standard_normal((160, 200)).astype(np.float32))
    image = ms.Tensor(rng.standard_normal((2, 16, 24, 24)).astype(np.float32))
    return _traced("pool", _Wide(), (x, image))


class _Wide(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(200, 120)
        self.conv = nn.Conv2d(16, 24, 3)

    def construct(self, x: ms.Tensor, image: ms.Tensor) -> tuple[ms.Tensor, ...]:
        h = ops.gelu(self.dense(x))
        s = ops.softmax(h @ h.T)
        return (s, ops.tanh(self.conv(image)), ops.exp(x).sum(), ops.sort(x, axis=1)[0],
                ops.cumsum(x, 0), ops.dropout(x, 0.5))


def _traced(name: str, net: Any, inputs: tuple[ms.Tensor, ...]) -> Piece:
    ms.set_context(mode=ms.GRAPH_MODE)
    traced = trace(net, inputs, {})
    # (copies: what a program updates, another must find as it was)
    return Piece(name, traced.graph, [np.array(t.asnumpy()) for t in (*inputs, *traced.parameters)])


def write(file: Path, pieces: Iterable[Piece], targets: Sequence[Target]) -> list[str]:
    """Compile pieces for targets into an artifact with its inputs beside it.

    Returns:
        The names of pieces that a target has no code for.
    """
    entries: dict[str, artifact.Entry] = {}
    weights: dict[str, Array] = {}
    given: dict[str, Array] = {}
    left_out = []
    for piece in pieces:
        values = list(zip(piece.graph.inputs, piece.arrays, strict=True))
        for k, (v, a) in enumerate(values):
            if v.kind != "input":
                v.name = f"w{k}"
                weights[v.name] = a
        try:
            programs = [driver.compile_program(piece.graph, target) for target in targets]
        except NoRule:
            left_out.append(piece.name)
            continue
        entries[piece.name] = artifact.Entry(programs)
        plain = [a for v, a in values if v.kind == "input"]
        given |= {f"{piece.name}/{i}": np.frombuffer(a.tobytes(), np.uint8)
                  for i, a in enumerate(plain)}
    artifact.save(file, entries, weights)
    np.savez(file.with_suffix(".npz"), **given)
    return left_out
