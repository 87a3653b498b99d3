"""Batching rules: every op on many examples against the op on each, alone and in native code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from cellc_compiler.autodiff.batching import BatchingError, batch_graph
from cellc_compiler.driver import compile_program
from cellc_compiler.interpret import run
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.op import Op, Sample, Spec, all_ops, lookup
from cellc_compiler.ir.verify import verify
from cellc_compiler.ops import batching
from cellc_runtime import dtypes
from cellc_runtime.executable import Executable

from ..modes.law import assert_same
from ..ops.gradients import graph_of, operands_of

Array = np.ndarray[Any, Any]
N = 3

REGROUPED = {"conv2d_backward_weight"}
"""Ops whose sums are split by shapes that the examples change: equal to a tolerance."""


def sampled() -> list[Any]:
    return [pytest.param(op, id=op.name) for op in all_ops()
            if op.samples() and op.name != "measure"]  # (see `test_found_sizes`)


def kind_of(op: Op) -> dtypes.DType:
    return dtypes.float32 if dtypes.float32 in op.dtypes else op.dtypes[0]


def examples(sample: Sample, kind: dtypes.DType) -> list[list[Array]]:
    """Operands for each example; exact operands are the same ones in another order of rows."""
    out = [operands_of(sample, kind, seed) for seed in range(N)]
    for i, spec in enumerate(sample.operands):
        if not isinstance(spec, Spec) and out[0][i].ndim and out[0][i].dtype.kind in "iu":
            for k in range(N):
                out[k][i] = np.roll(out[k][i], k, axis=0)
    return out


def subsets(count: int) -> Iterator[list[bool]]:
    """Which operands are mapped: all, each alone, all but each."""
    seen: set[tuple[bool, ...]] = set()
    for flags in ([True] * count, *([j == i for j in range(count)] for i in range(count)),
                  *([j != i for j in range(count)] for i in range(count))):
        if any(flags) and tuple(flags) not in seen:
            seen.add(tuple(flags))
            yield list(flags)


def shared(given: list[list[Array]], mapped: Sequence[bool]) -> list[list[Array]]:
    """The operands of each example where those that are not mapped are those of the first."""
    return [[x if m else given[0][i] for i, (x, m) in enumerate(zip(row, mapped, strict=True))]
            for row in given]


def stacked(given: list[list[Array]], mapped: Sequence[bool]) -> list[Array]:
    return [np.stack([row[i] for row in given]) if m else given[0][i]
            for i, m in enumerate(mapped)]


@pytest.mark.parametrize("op", sampled())
def test_reference(op: Op) -> None:
    kind = dtypes.float64 if dtypes.float64 in op.dtypes else op.dtypes[0]
    for sample in op.samples():
        given = examples(sample, kind)
        graph = graph_of(op, given[0], sample.attrs)
        for mapped in subsets(len(given[0])):
            many, flags = batch_graph(graph, mapped, N)
            verify(many)
            rows = [run(graph, row, precise=True) for row in shared(given, mapped)]
            got = run(many, stacked(given, mapped), precise=True)
            for i, (g, flag) in enumerate(zip(got, flags, strict=True)):
                want = np.stack([r[i] for r in rows]) if flag else rows[0][i]
                np.testing.assert_allclose(g, want, rtol=1e-9, atol=1e-9, equal_nan=True,
                                           err_msg=f"{op.name} {sample.attrs} {mapped}")


def compiled(graph: Graph, arrays: Sequence[Array]) -> list[Array]:
    out = Executable(compile_program(graph)).entry(*arrays)
    return [np.array(a) for a in (out if isinstance(out, tuple) else (out,))]


@pytest.mark.parametrize("op", sampled())
def test_compiled_bits(op: Op) -> None:
    """All operands mapped, and the first alone: the bits of the op on each example."""
    kind = kind_of(op)
    sample = op.samples()[0]
    given = examples(sample, kind)
    count = len(given[0])
    if not count:
        return
    graph = graph_of(op, given[0], sample.attrs)
    for mapped in [[True] * count, [True] + [False] * (count - 1)][: 1 + (count > 1)]:
        many, flags = batch_graph(graph, mapped, N)
        rows = [compiled(graph, row) for row in shared(given, mapped)]
        got = compiled(many, stacked(given, mapped))
        want = [np.stack([r[i] for r in rows]) if flag else rows[0][i]
                for i, flag in enumerate(flags)]
        if op.name in REGROUPED:
            for g, w in zip(got, want, strict=True):
                np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-5)
        else:
            assert_same(got, want, f"{op.name} {sample.attrs} {mapped}")


def test_found_sizes() -> None:
    """A size that elements decide would differ from example to example."""
    sample = lookup("measure").samples()[0]
    graph = graph_of(lookup("measure"), operands_of(sample, dtypes.int64), sample.attrs)
    with pytest.raises(BatchingError, match="differ from example to example"):
        batch_graph(graph, [True], N)


def test_a_wrong_rule_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    flip = lookup("flip")
    monkeypatch.setattr(type(flip), "batch", batching.pointwise)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        test_reference(flip)
