"""The law of two modes for every op: eager, compiled alone and compiled among neighbours.

The neighbours are what fusion likes best: each operand comes out of arithmetic, and each result
goes into arithmetic, an exponential and a sum.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor
from cellc.core.dispatch import apply
from cellc.tensors.tensor import tensor_of
from cellc_compiler.driver import compile_graph
from cellc_compiler.ir.graph import Builder, Graph, Value
from cellc_compiler.ir.op import Op, Sample, all_ops
from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

from .law import Array, arrays_of, assert_same, dtype_of, mode, operands, type_of

OPS = [pytest.param(op, id=op.name) for op in all_ops() if op.samples()]
GRADS = [pytest.param(op, id=op.name) for op in all_ops()
         if op.samples() and op.differentiable and dtypes.float32 in op.dtypes]
OTHERS = (dtypes.bfloat16, dtypes.int32, dtypes.complex64, dtypes.bool_, dtypes.float64)
EVERYTHING = "CELLC_TEST_EVERYTHING" in os.environ
"""All samples of an op, not its first few: some ten minutes."""
SAMPLES, GRADIENTS = (None, None) if EVERYTHING else (5, 1)


def admissible(op: Op, arrays: Sequence[Array], attrs: Mapping[str, Any]) -> bool:
    """Whether the op takes these types."""
    graph = Graph("probe")
    ins = [graph.add_input(type_of(a), f"x{i}") for i, a in enumerate(arrays)]
    try:
        Builder(graph).node(op.name, ins, attrs)
    except TypeError:
        return False
    return True


def cases(op: Op) -> Iterator[tuple[list[Array], dict[str, Any]]]:
    """Every sample in the op's main dtype, the first in others."""
    main = next((d for d in (dtypes.float32, *OTHERS) if d in op.dtypes), op.dtypes[0])
    for i, sample in enumerate(list(op.samples())[:SAMPLES]):
        others = [d for d in OTHERS if d in op.dtypes and d is not main]
        kinds = [main, *(others if EVERYTHING else others[:2] if i == 0 else [])]
        for dtype in dict.fromkeys(kinds):
            arrays = operands(op, sample, dtype)
            if admissible(op, arrays, sample.attrs):
                yield arrays, dict(sample.attrs)


# --- neighbours, written once for both modes -----------------------------------------------------


class EagerBuilder:
    """`b.add(x, y)` runs the op at once."""

    def __getattr__(self, op: str) -> Any:
        return lambda *xs, **attrs: self.emit(op, *xs, **attrs)

    def emit(self, op: str, *xs: Tensor, **attrs: Any) -> Any:
        """Run an op of any number of results."""
        return apply(op, *xs, **attrs)

    def zeros_like(self, x: Tensor) -> Tensor:
        """Zeros of the type of `x`."""
        return tensor_of(np.zeros_like(x._data))

    def number(self, x: float, like: Tensor) -> Tensor:
        """A scalar of the type of `like`."""
        return tensor_of(np.asarray(x, like._data.dtype))


class GraphBuilder(Builder):
    """The same for a graph."""

    def number(self, x: float, like: Value) -> Value:
        """A scalar of the type of `like`."""
        value: Value = self.literal(np.asarray(x, like.dtype.numpy))
        return value


def before(b: Any, x: Any, dtype: DType) -> Any:
    """Arithmetic ahead of an operand; integers keep their values, which may be indices."""
    if dtype.is_inexact:
        return b.add(b.mul(x, b.number(1.5, x)), b.number(0.25, x))
    if dtype.kind == "bool":
        return b.logical_not(b.logical_not(x))
    return b.sub(b.add(x, b.number(1, x)), b.number(1, x))


def after(b: Any, y: Any, dtype: DType, rank: int) -> list[Any]:
    """What reads a result: an exponential, and a sum over all of it."""
    if dtype.kind == "bool":
        return [b.logical_not(y)]
    scaled = b.mul(y, b.number(3, y))
    if not dtype.is_float:
        return [scaled]
    e = b.exp(b.sub(b.number(0.5, y), scaled))
    return [e, b.reduce_sum(e, axes=tuple(range(rank)), keepdims=False)]


def chain(b: Any, op: Op, xs: Sequence[Any], types: Sequence[DType],
          attrs: Mapping[str, Any]) -> list[Any]:
    """The op between its neighbours: its results, then what comes of them."""
    inner = [before(b, x, t) for x, t in zip(xs, types, strict=True)]
    out = b.emit(op.name, *inner, **attrs)
    results = list(out) if isinstance(out, tuple) else [out]
    more = [z for r in results for z in after(b, r, r.dtype, len(r.shape))]
    return [*results, *more]


def graph_chain(cases_: Sequence[tuple[list[Array], dict[str, Any]]], op: Op) -> Graph:
    """All cases in one graph."""
    graph = Graph("chain")
    b = GraphBuilder(graph)
    for k, (arrays, attrs) in enumerate(cases_):
        ins = [graph.add_input(type_of(a), f"x{k}_{i}") for i, a in enumerate(arrays)]
        graph.outputs += chain(b, op, ins, [v.dtype for v in ins], attrs)
    return graph


def eager(op: Op, arrays: Sequence[Array], attrs: Mapping[str, Any]) -> list[Array]:
    """The op at once."""
    return arrays_of(apply(op.name, *(tensor_of(a) for a in arrays), **attrs))


def single(op: Op, arrays: Sequence[Array], attrs: Mapping[str, Any]) -> list[Array]:
    """The op as a graph of its own, with names that no eager entry shares."""
    graph = Graph("single")
    ins = [graph.add_input(type_of(a), f"in{i}") for i, a in enumerate(arrays)]
    graph.outputs = list(Builder(graph).node(op.name, ins, attrs).results)
    return compile_graph(graph)(arrays)


@pytest.mark.parametrize("op", OPS)
def test_one_result_however_it_is_run(op: Op) -> None:
    batch = list(cases(op))
    assert batch
    for arrays, attrs in batch[:1]:
        assert_same(single(op, arrays, attrs), eager(op, arrays, attrs), (op.name, attrs))
    together = compile_graph(graph_chain(batch, op))([a for arrays, _ in batch for a in arrays])
    at = 0
    for arrays, attrs in batch:
        xs = [tensor_of(a) for a in arrays]
        want = arrays_of(chain(EagerBuilder(), op, xs, [dtype_of(a) for a in arrays], attrs))
        assert_same(together[at : at + len(want)], want,
                    (op.name, [str(type_of(a)) for a in arrays], attrs))
        at += len(want)
    assert at == len(together)


# --- behind padding: elements that are computed only where some lanes ask for them ---------------

FUSED = [pytest.param(op, id=op.name) for op in all_ops()
         if op.samples() and (op.value is not None or op.expand is not None)]


def padded(b: Any, y: Any) -> Any:
    """A result between zeros."""
    rank = len(y.shape)
    return b.pad(y, low=(1,) * rank, high=(2,) * rank)


def interleaved(b: Any, y: Any) -> Any:
    """A result's elements after zeros, in turn."""
    return b.stack(b.zeros_like(y), y, axis=len(y.shape))


@pytest.mark.parametrize("op", FUSED)
def test_behind_padding(op: Op) -> None:
    """A result has one reader, so that it is computed where it is read."""
    arrays, attrs = next(cases(op))
    xs = [tensor_of(a) for a in arrays]
    out = apply(op.name, *xs, **attrs)
    for wrap in (padded, interleaved):
        graph = Graph("padded")
        ins = [graph.add_input(type_of(a), f"x{i}") for i, a in enumerate(arrays)]
        b = GraphBuilder(graph)
        graph.outputs = [wrap(b, r) for r in b.node(op.name, ins, attrs).results]
        want = arrays_of([wrap(EagerBuilder(), y) for y in
                          (out if isinstance(out, tuple) else (out,))])
        assert_same(compile_graph(graph)(arrays), want, (op.name, wrap.__name__, attrs))


# --- gradients -----------------------------------------------------------------------------------


def weighted(op: Op, sample: Sample, arrays: Sequence[Array]) -> tuple[Any, list[int]]:
    """A function of the op's float operands: its float results, each times fixed numbers."""
    wanted = [i for i, a in enumerate(arrays) if dtype_of(a).is_float]
    rng = np.random.default_rng(1)
    weights: dict[int, Tensor] = {}
    for i, r in enumerate(eager(op, arrays, sample.attrs)):
        if dtype_of(r).is_float:
            weights[i] = tensor_of(
                np.asarray(rng.uniform(0.5, 2, r.shape)).astype(r.dtype))
    fixed = [tensor_of(a) for a in arrays]
    name, attrs = op.name, dict(sample.attrs)

    def fn(*xs: Tensor) -> Any:
        given = list(fixed)
        for k, i in enumerate(wanted):
            given[i] = xs[k]
        out = apply(name, *given, **attrs)
        results = out if isinstance(out, tuple) else (out,)
        return [apply("mul", results[i], weights[i]) for i in weights]

    return fn if weights else None, wanted


@pytest.mark.parametrize("op", GRADS)
def test_gradients(op: Op) -> None:
    done = 0
    for sample in op.samples():
        arrays = operands(op, sample, dtypes.float32)
        if not sample.grad or done == GRADIENTS or not admissible(op, arrays, sample.attrs):
            continue
        fn, wanted = weighted(op, sample, arrays)
        if fn is None or not wanted:
            continue
        xs = [tensor_of(arrays[i]) for i in wanted]
        both = []
        for m in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
            with mode(m):
                both.append(arrays_of(ms.value_and_grad(fn, tuple(range(len(xs))))(*xs)))
        assert_same(both[1], both[0], (op.name, [a.shape for a in arrays], sample.attrs))
        done += 1
