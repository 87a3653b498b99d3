"""Nests that transpose: tiles turned in registers, odd sizes, neighbours, no byte out of bounds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from cellc_compiler.backends.cpu.nests import transpose as nest_transpose
from cellc_compiler.driver import compile_graph
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.types import TensorType
from cellc_compiler.loops.build import Domain, Group, build_nest
from cellc_compiler.loops.nest import Nest
from cellc_runtime import dtypes
from cellc_runtime.target import Target, host_targets

from .jit import compile_kernel
from .plans import guarded, x86_targets

SHAPES = [((4, 4), (1, 0)), ((16, 16), (1, 0)), ((33, 70), (1, 0)), ((5, 129), (1, 0)),
          ((130, 67), (1, 0)), ((3, 64, 50), (0, 2, 1)), ((2, 7, 9, 33), (0, 2, 3, 1)),
          ((2, 7, 9, 33), (3, 2, 1, 0)), ((19, 4, 21), (2, 1, 0)), ((64, 200), (1, 0))]
DTYPES = [dtypes.float32, dtypes.float64, dtypes.int8, dtypes.bfloat16, dtypes.bool_]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
@pytest.mark.parametrize(("shape", "perm"), SHAPES, ids=str)
def test_transpositions(shape: tuple[int, ...], perm: tuple[int, ...], dtype: dtypes.DType) -> None:
    g = Graph("turned")
    x = g.add_input(TensorType(shape, dtype), "x")
    g.outputs.append(Builder(g).transpose(x, perm=perm))
    values = np.random.default_rng(3).integers(0, 2 if dtype is dtypes.bool_ else 100, shape)
    array = values.astype(dtype.numpy)
    for target in host_targets():
        (out,) = compile_graph(g, target)([array])
        np.testing.assert_array_equal(out, array.transpose(perm))


@pytest.mark.parametrize("target", host_targets(), ids=lambda t: t.name)
def test_the_expression_around_a_transposition(target: Target) -> None:
    """Turned operands of two types, a plain one and a broadcast one, with a function."""
    g = Graph("mixed")
    a, b = (g.add_input(TensorType((45, 37), d), n)
            for d, n in ((dtypes.float32, "a"), (dtypes.int32, "b")))
    c = g.add_input(TensorType((37, 45), dtypes.float32), "c")
    row = g.add_input(TensorType((45,), dtypes.float32), "row")
    k = Builder(g)
    transposed = k.transpose(a, perm=(1, 0))
    whole = k.cast(k.transpose(b, perm=(1, 0)), dtype=dtypes.float32)
    g.outputs.append(k.add(k.mul(k.exp(transposed), whole), k.sub(c, row)))
    rng = np.random.default_rng(1)
    xs = [rng.standard_normal((45, 37)).astype(np.float32),
          rng.integers(-9, 9, (45, 37)).astype(np.int32),
          rng.standard_normal((37, 45)).astype(np.float32),
          rng.standard_normal(45).astype(np.float32)]
    (out,) = compile_graph(g, target)(xs)
    e = Graph("exp")
    v = e.add_input(TensorType((45, 37), dtypes.float32), "v")
    e.outputs.append(Builder(e).exp(v))
    (exps,) = compile_graph(e, target)(xs[:1])
    np.testing.assert_array_equal(out, exps.T * xs[1].T.astype(np.float32) + (xs[2] - xs[3]))


def nest_of(shape: tuple[int, ...], perm: tuple[int, ...], dtype: dtypes.DType) -> Nest:
    g = Graph("t")
    y = Builder(g).transpose(g.add_input(TensorType(shape, dtype), "x"), perm=perm)
    assert y.node is not None
    return build_nest(Group(Domain(y.shape), [y.node]), set(), {y})


def test_which_nests_are_tiled() -> None:
    def turns(shape: tuple[int, ...], perm: tuple[int, ...]) -> bool:
        return nest_transpose.find_transposition(nest_of(shape, perm, dtypes.float32)) is not None

    assert turns((64, 64), (1, 0)) and turns((2, 8, 9, 9), (0, 2, 3, 1))
    assert not turns((8, 64, 64), (1, 0, 2))  # rows move whole
    assert not turns((2, 64), (1, 0)) and not turns((64, 2), (1, 0))


def test_only_tiny_blocks_go_together() -> None:
    """A large transposition is work for several threads."""
    for size, alone in ((16, True), (2048, False)):
        for target in x86_targets():
            kernel, _ = nest_transpose.emit(nest_of((size, size), (1, 0), dtypes.float32), target)
            assert (kernel.ntasks == 1) == alone


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.int8], ids=lambda d: d.name)
@pytest.mark.parametrize(("rows", "cols"), [(17, 31), (40, 65), (64, 64), (4, 300)])
def test_reads_and_writes_stay_inside(rows: int, cols: int, dtype: dtypes.DType) -> None:
    x = np.random.default_rng(2).integers(0, 99, (rows, cols)).astype(dtype.numpy)
    for target, at_end in itertools.product(x86_targets(), (True, False)):
        kernel, values = nest_transpose.emit(nest_of((rows, cols), (1, 0), dtype), target)
        out = guarded(np.zeros((cols, rows), dtype.numpy), at_end)
        run = compile_kernel(kernel, target)
        assert [v.shape for v in values] == [(rows, cols), (cols, rows)]
        for task in reversed(range(kernel.ntasks)):
            run([guarded(x, at_end), out], task, task + 1)
        np.testing.assert_array_equal(out, x.T)
