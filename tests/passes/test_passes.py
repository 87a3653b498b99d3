"""Passes: programs before and after, honesty of `changed`, bits kept, on one program at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, ops
from cellc.compiled.traced import trace
from cellc_compiler.autodiff.reverse import gradient_graph
from cellc_compiler.driver import optimize
from cellc_compiler.interpret import run
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.op import Op, all_ops
from cellc_compiler.ir.text import parse_graph, print_graph
from cellc_compiler.ir.types import TensorType
from cellc_compiler.ir.verify import verify
from cellc_compiler.passes.base import Pass, copy_graph
from cellc_compiler.passes.cleanup import Cse, Dce, FoldConstants, Simplify
from cellc_compiler.passes.expand import Expand
from cellc_compiler.passes.pipeline import PIPELINE, run_pipeline
from cellc_compiler.passes.split import SplitReductions
from cellc_runtime import dtypes

from ..modes.law import draw

Array = np.ndarray[Any, Any]


def graph(body: str, inputs: str = "%x: float32[2,3] input") -> Graph:
    """A verified graph from the lines of its body."""
    out = parse_graph(f"graph g({inputs}) {{\n{body}\n}}")
    verify(out)
    return out


def canonical(g: Graph) -> str:
    """The text of a graph, values numbered anew."""
    return print_graph(g, spans=False)


def check(p: Pass, before: Graph, after: Graph) -> None:
    """The pass turns one graph into the other, says so, and then has nothing more to do."""
    work = copy_graph(before)
    same = canonical(before) == canonical(after)
    assert p.run(work) == (not same)
    verify(work)
    assert canonical(work) == canonical(after)
    assert not p.run(work), "a second run changes something"
    assert canonical(work) == canonical(after)


X = "%x: float32[2,3] input"
CASES: list[Any] = []


def case(name: str, p: Pass, before: str, after: str | None = None, inputs: str = X) -> None:
    """Record a test; without `after` the graph must stay as it is."""
    CASES.append(pytest.param(p, before, before if after is None else after, inputs, id=name))


case("dce-removes", Dce(), """
  %0: float32[2,3] = exp(%x) {}
  %1: float32[2,3] = neg(%x) {}
  %2: float32[2,3] = abs(%1) {}
  return %0""", """
  %0: float32[2,3] = exp(%x) {}
  return %0""")
case("dce-keeps-effects", Dce(), """
  %0: float32[2,3] = exp(%x) {}
  print(%0) {parts=("x", None)}
  return %x""")
case("dce-keeps-updates", Dce(), """
  %0: float32[2,3] = exp(%x) {}
  return
  update %w = %0""", inputs=X + ", %w: float32[2,3] param")
case("dce-keeps-a-branch-that-prints", Dce(), """
  %0: float32[2,3] = cond(%p, %x) {} [
    graph then(%a: float32[2,3] input) {
      print(%a) {parts=(None,)}
      return %a
    }
    graph else(%a: float32[2,3] input) {
      return %a
    }
  ]
  return %x""", inputs=X + ", %p: bool[] input")
case("dce-within-regions", Dce(), """
  %0: float32[2,3] = cond(%p, %x) {} [
    graph then(%a: float32[2,3] input) {
      %0: float32[2,3] = exp(%a) {}
      %1: float32[2,3] = neg(%a) {}
      return %1
    }
    graph else(%a: float32[2,3] input) {
      return %a
    }
  ]
  return %0""", """
  %0: float32[2,3] = cond(%p, %x) {} [
    graph then(%a: float32[2,3] input) {
      %0: float32[2,3] = neg(%a) {}
      return %0
    }
    graph else(%a: float32[2,3] input) {
      return %a
    }
  ]
  return %0""", X + ", %p: bool[] input")
case("cse-merges", Cse(), """
  %0: float32[2,3] = exp(%x) {}
  %1: float32[2,3] = exp(%x) {}
  %2: float32[2,3] = add(%0, %1) {}
  return %2, %1""", """
  %0: float32[2,3] = exp(%x) {}
  %1: float32[2,3] = add(%0, %0) {}
  return %1, %0""")
case("cse-transitively", Cse(), """
  %0: float32[2,3] = exp(%x) {}
  %1: float32[2,3] = exp(%x) {}
  %2: float32[2,3] = neg(%0) {}
  %3: float32[2,3] = neg(%1) {}
  %4: float32[2,3] = add(%2, %3) {}
  return %4""", """
  %0: float32[2,3] = exp(%x) {}
  %1: float32[2,3] = neg(%0) {}
  %2: float32[2,3] = add(%1, %1) {}
  return %2""")
case("cse-tells-zeros-apart", Cse(), """
  %0: float32[] = constant() {value=lit<float32[]>[0.0]}
  %1: float32[] = constant() {value=lit<float32[]>[-0.0]}
  %2: float32[2,3] = mul(%x, %0) {}
  %3: float32[2,3] = mul(%x, %1) {}
  return %2, %3""")
case("cse-tells-attributes-apart", Cse(), """
  %0: float32[2] = reduce_sum(%x) {axes=(1,), keepdims=False}
  %1: float32[3] = reduce_sum(%x) {axes=(0,), keepdims=False}
  return %0, %1""")
case("cse-keeps-operand-order", Cse(), """
  %0: float32[2,3] = sub(%x, %y) {}
  %1: float32[2,3] = sub(%y, %x) {}
  return %0, %1""", inputs=X + ", %y: float32[2,3] input")
case("cse-prints-twice", Cse(), """
  print(%x) {parts=(None,)}
  print(%x) {parts=(None,)}
  return %x""")
case("simplify-mul-by-one", Simplify(), """
  %0: float32[] = constant() {value=lit<float32[]>[1.0]}
  %1: float32[2,3] = mul(%x, %0) {}
  %2: float32[2,3] = mul(%0, %1) {}
  return %2""", """
  %0: float32[] = constant() {value=lit<float32[]>[1.0]}
  return %x""")
case("simplify-keeps-a-broadcasting-one", Simplify(), """
  %0: float32[2,3] = constant() {value=lit<float32[2,3]>[1.0, 1.0, 1.0, 1.0, 1.0, 1.0]}
  %1: float32[2,3] = mul(%y, %0) {}
  return %1""", inputs="%y: float32[3] input")
case("simplify-keeps-adding-zero", Simplify(), """
  %0: float32[] = constant() {value=lit<float32[]>[0.0]}
  %1: float32[2,3] = add(%x, %0) {}
  return %1""")  # -0.0 + 0.0 is 0.0
case("simplify-keeps-times-zero", Simplify(), """
  %0: float32[] = constant() {value=lit<float32[]>[0.0]}
  %1: float32[2,3] = mul(%x, %0) {}
  return %1""")  # NaN * 0 is NaN
case("simplify-double-negation", Simplify(), """
  %0: float32[2,3] = neg(%x) {}
  %1: float32[2,3] = neg(%0) {}
  return %1""", """
  %0: float32[2,3] = neg(%x) {}
  return %x""")
case("simplify-transpositions", Simplify(), """
  %0: float32[3,2] = transpose(%x) {perm=(1, 0)}
  %1: float32[2,3] = transpose(%0) {perm=(1, 0)}
  return %1""", """
  %0: float32[3,2] = transpose(%x) {perm=(1, 0)}
  return %x""")
case("simplify-reshapes", Simplify(), """
  %0: float32[6] = reshape(%x) {shape=(6,)}
  %1: float32[3,2] = reshape(%0) {shape=(3, 2)}
  return %1""", """
  %0: float32[6] = reshape(%x) {shape=(6,)}
  %1: float32[3,2] = reshape(%x) {shape=(3, 2)}
  return %1""")
case("simplify-transposed-product", Simplify(), """
  %0: float32[4,3] = transpose(%y) {perm=(1, 0)}
  %1: float32[2,4] = matmul(%x, %y) {transpose_a=False, transpose_b=False}
  %2: float32[4,2] = transpose(%1) {perm=(1, 0)}
  %3: float32[4,4] = matmul(%2, %1) {transpose_a=False, transpose_b=False}
  return %3, %0""", """
  %0: float32[4,3] = transpose(%y) {perm=(1, 0)}
  %1: float32[2,4] = matmul(%x, %y) {transpose_a=False, transpose_b=False}
  %2: float32[4,2] = transpose(%1) {perm=(1, 0)}
  %3: float32[4,4] = matmul(%1, %1) {transpose_a=True, transpose_b=False}
  return %3, %0""", X + ", %y: float32[3,4] input")
case("simplify-transposed-beside-one-column", Simplify(), """
  %0: float32[3,4] = transpose(%y) {perm=(1, 0)}
  %1: float32[1,4] = matmul(%v, %0) {transpose_a=False, transpose_b=False}
  %2: float32[3,1] = matmul(%0, %c) {transpose_a=False, transpose_b=False}
  return %1, %2""", """
  %0: float32[3,4] = transpose(%y) {perm=(1, 0)}
  %1: float32[1,4] = matmul(%v, %y) {transpose_a=False, transpose_b=True}
  %2: float32[3,1] = matmul(%0, %c) {transpose_a=False, transpose_b=False}
  return %1, %2""", "%c: float32[4,1] input, %y: float32[4,3] input, %v: float32[1,3] input")
case("simplify-casts", Simplify(), """
  %0: float32[2,3] = cast(%x) {dtype=dtype.float32}
  %1: float16[2,3] = cast(%0) {dtype=dtype.float16}
  %2: float32[2,3] = cast(%1) {dtype=dtype.float32}
  return %2""", """
  %0: float16[2,3] = cast(%x) {dtype=dtype.float16}
  %1: float32[2,3] = cast(%0) {dtype=dtype.float32}
  return %1""")
case("fold", FoldConstants(), """
  %0: int32[2] = constant() {value=lit<int32[2]>[1, 2]}
  %1: int32[2] = constant() {value=lit<int32[2]>[10, 20]}
  %2: int32[2] = add(%0, %1) {}
  return %2""", """
  %0: int32[2] = constant() {value=lit<int32[2]>[1, 2]}
  %1: int32[2] = constant() {value=lit<int32[2]>[10, 20]}
  %2: int32[2] = constant() {value=lit<int32[2]>[11, 22]}
  return %2""")
case("fold-keeps-what-numpy-rounds-otherwise", FoldConstants(), """
  %0: float32[2] = constant() {value=lit<float32[2]>[0.1, 0.2]}
  %1: float32[2] = exp(%0) {}
  return %1""")
case("fold-keeps-what-is-large", FoldConstants(), """
  %0: float32[] = constant() {value=lit<float32[]>[2.0]}
  %1: float32[100] = broadcast_to(%0) {shape=(100,)}
  return %1""")
case("split-small", SplitReductions(), """
  %0: float32[2] = reduce_sum(%x) {axes=(1,), keepdims=False}
  return %0""")
case("split-large", SplitReductions(), """
  %0: float32[] = reduce_sum(%y) {axes=(0,), keepdims=False}
  return %0""", """
  %0: float32[8,16384] = reshape(%y) {shape=(8, 16384)}
  %1: float32[8] = reduce_sum(%0) {axes=(1,), keepdims=False}
  %2: float32[] = reduce_sum(%1) {axes=(0,), keepdims=False}
  %3: float32[] = reshape(%2) {shape=()}
  return %3""", "%y: float32[131072] input")
case("expand-nothing", Expand(), """
  %0: float32[2,3] = add(%x, %x) {}
  return %0""")


@pytest.mark.parametrize(("p", "before", "after", "inputs"), CASES)
def test_before_and_after(p: Pass, before: str, after: str, inputs: str) -> None:
    check(p, graph(before, inputs), graph(after, inputs))


def test_empty_reductions_are_left_alone() -> None:
    """The number of strips of no lanes is not divided by."""
    g = graph("  %0: float32[0] = reduce_sum(%y) {axes=(0,), keepdims=False}\n  return %0",
              "%y: float32[70000,0] input")
    assert not SplitReductions().run(g)


def test_a_lying_pass_is_noticed() -> None:
    """The check of `changed` can fail."""

    class Lies(Pass):
        name = "lies"

        def run(self, graph: Graph) -> bool:
            Dce().run(graph)
            return False

    before = graph("  %0: float32[2,3] = exp(%x) {}\n  return %x")
    with pytest.raises(AssertionError, match="False"):
        check(Lies(), before, graph("  return %x"))


# --- all passes over every op and over programs --------------------------------------------------


def after_each_pass(g: Graph) -> Iterator[tuple[str, Graph]]:
    """Run the pipeline on a copy; each pass must tell the truth and leave a good graph."""
    work = copy_graph(g)
    for p in PIPELINE:
        before = print_graph(work)
        changed = p.run(work)
        assert changed == (print_graph(work) != before), f"{p.name} says {changed} of\n{before}"
        verify(work)
        yield p.name, work


def close(got: list[Array], want: list[Array], what: str) -> None:
    """Equal up to rounding: an expansion in numpy rounds as its parts do."""
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype, what
        if a.dtype.kind in "fc":
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11, err_msg=what)
        else:
            np.testing.assert_array_equal(a, b, err_msg=what)


@pytest.mark.parametrize("op", [pytest.param(o, id=o.name) for o in all_ops() if o.samples()])
def test_every_op_through_the_pipeline(op: Op) -> None:
    """The interpreter gives one answer after every pass, in float64."""
    for sample in list(op.samples())[:3]:
        dtype = next((d for d in (dtypes.float64, dtypes.int32) if d in op.dtypes), op.dtypes[0])
        rng = np.random.default_rng(sum(op.name.encode()))
        arrays = [draw(s, dtype, rng) for s in sample.operands]
        g = Graph(op.name)
        ins = [g.add_input(_type(a), f"x{i}") for i, a in enumerate(arrays)]
        g.outputs = list(Builder(g).node(op.name, ins, sample.attrs).results)
        want = run(g, arrays, precise=True)
        for name, work in after_each_pass(g):
            close(run(work, arrays, precise=True), want, f"{name} of {op.name} {sample.attrs}")


def _type(a: Array) -> Any:
    return TensorType(a.shape, dtypes.from_numpy(a.dtype))


def loops(x: Tensor) -> Tensor:
    total = ops.zeros_like(x[0])
    for row in x:
        if row.sum() > 0:
            total = total + ops.tanh(row) * 1.0
        else:
            total = ops.gelu(total - row)
    while total.sum() < 10.0:
        total = total * 1.5 + 0.5
    return ops.softmax(total, axis=-1)


def network(x: Tensor) -> Tensor:
    w = Tensor(np.linspace(-1, 1, 15).reshape(3, 5))
    h = ops.gelu(ops.matmul(x, w))
    return ops.cross_entropy(h.astype(ms.float64), Tensor([1, 0], ms.int32)) + h.std() * 1.0


@pytest.mark.parametrize("fn", [loops, network], ids=lambda f: f.__name__)
def test_programs_and_their_gradients_through_the_pipeline(fn: Any) -> None:
    x = Tensor(np.array([[1.0, -0.5, 2.0], [-1.0, 0.3, -2.0]]))
    forward = trace(fn, (x,), {}).graph
    backward = gradient_graph(forward, [0], seeded=[0])
    for g in (forward, backward):
        want = run(g, [x.asnumpy()], precise=True)
        for name, work in after_each_pass(g):
            close(run(work, [x.asnumpy()], precise=True), want, name)


def test_observers_see_each_pass_in_order() -> None:
    seen: list[str] = []
    run_pipeline(graph("  return %x"), observe=lambda name, g: seen.append(name))
    assert seen == [p.name for p in PIPELINE] and len(set(seen)) >= 5


def test_the_original_is_left_alone() -> None:
    g = trace(loops, (Tensor(np.ones((2, 3), np.float32)),), {}).graph
    before = print_graph(g)
    assert print_graph(optimize(g)) != before
    assert print_graph(g) == before
