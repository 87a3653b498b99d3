"""The seam holds: a back end of plain loops, written over it alone, computes what the CPU does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc.compiled.traced import trace
from cellc_compiler import backends, driver
from cellc_compiler.backends.base import Rules
from cellc_compiler.driver import compile_graph
from cellc_compiler.interpret import run
from cellc_compiler.ir.op import Op
from cellc_compiler.ir.text import parse_graph
from cellc_compiler.loops import order
from cellc_compiler.lower.machine import NoRule, TooLarge
from cellc_runtime import device
from cellc_runtime.target import Target

from ..modes.law import bits
from ..ops.test_matrix import assert_close, batch_of, every_op, fused
from ..samples.networks import NETWORKS, Sample
from .scalar import CPU, TARGET, ScalarBackend, ScalarDevice

Array = np.ndarray[Any, Any]

BLOCKED = {"to_blocked", "from_blocked", "conv2d_blocked", "max_pool2d_blocked",
           "avg_pool2d_blocked", "pixel_sum_blocked", "regroup_blocked", "small_conv2d_blocked",
           "small_kernel", "winograd_input", "winograd_output", "matmul_prefix"}
"""What passes of the CPU back end write: no other back end has rules for it."""


@pytest.fixture(autouse=True, scope="module")
def _registered() -> Iterator[None]:
    scalar = ScalarDevice()
    device.register(scalar)
    backends.register("scalar", ScalarBackend)
    yield
    backends.unregister("scalar")
    device.unregister(scalar)


OTHER_ORDER = {
    # parts of overlapping windows are added in float32 and rounded once
    "adaptive_avg_pool2d_backward": {"float16[1,2,5,7]", "bfloat16[1,2,5,7]"},
}
"""Results whose sums the CPU's kernels take in another order. May only shrink."""


@pytest.mark.parametrize("op", [p for p in every_op() if p.id not in BLOCKED])
def test_ops(op: Op) -> None:
    """Every sample, fused between other ops: the CPU's bits, and near the float64 reference."""
    batch = batch_of(op)
    arrays = [np.asarray(True), *(a for case in batch for a in case.arrays)]
    flat = both(fused(batch), arrays)
    for case in batch:
        graph = case.graph()
        want = run(graph, case.arrays, precise=True)
        for v, reference in zip(graph.outputs, want, strict=True):
            mine, theirs = next(flat)
            assert_close(case, v.type, mine, np.asarray(reference))
            if str(v.type) not in OTHER_ORDER.get(op.name, ()):
                assert bits(mine) == bits(theirs), case


def both(graph: Any, arrays: list[Array]) -> Iterator[tuple[Array, Array]]:
    """What this back end and the CPU's give."""
    return zip(compile_graph(graph, TARGET)(arrays), compile_graph(graph, CPU)(arrays),
               strict=True)


@pytest.mark.parametrize("name", NETWORKS)
def test_inference(name: str) -> None:
    """The sample networks give the bits that the CPU's back end gives."""
    sample: Sample = NETWORKS[name]
    ms.set_context(mode=ms.GRAPH_MODE)
    inputs = sample.input()
    traced = trace(sample.make().set_train(False), inputs, {})
    arrays = [t.asnumpy() for t in (*inputs, *traced.parameters)]
    for mine, theirs in both(traced.graph, arrays):
        assert bits(mine) == bits(theirs)



@pytest.mark.parametrize("name", NETWORKS)
def test_training(name: str) -> None:
    """A training step, with its draws and updates: the bits of the CPU's back end."""
    sample: Sample = NETWORKS[name]
    ms.set_context(mode=ms.GRAPH_MODE)
    inputs = sample.batch()
    traced = trace(sample.train_step(sample.make()), inputs, {})
    arrays = [t.asnumpy() for t in (*inputs, *traced.parameters)]
    for mine, theirs in both(traced.graph, arrays):
        assert bits(mine) == bits(theirs)


EXACT = """
graph exact(%x: float32[7,33] input, %w: float32[33,19] param, %b: float32[19] param,
            %h: float16[7,33] input) {
  %0: float32[7,19] = matmul(%x, %w) {transpose_a=False, transpose_b=False}
  %1: float32[7,19] = add(%0, %b) {}
  %2: float32[7,19] = relu(%1) {}
  %3: float32[19] = reduce_sum(%2) {axes=(0,), keepdims=False}
  %4: float32[7,19] = div(%2, %3) {}
  %5: float16[7,33] = mul(%h, %h) {}
  %6: float16[7,33] = sub(%5, %h) {}
  %7: float32[7,1] = reduce_max(%4) {axes=(1,), keepdims=True}
  %8: bool[7,19] = ge(%4, %7) {}
  return %4, %6, %7, %8
}
"""


def test_bits() -> None:
    """Contractions, columns, and single operations."""
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((7, 33), (33, 19), (19,))]
    arrays.append(rng.standard_normal((7, 33)).astype(np.float16))
    for mine, theirs in both(parse_graph(EXACT), arrays):
        assert bits(mine) == bits(theirs)


LOOPS = """
graph loops(%x: float32[4,3] input, %n: int64[] input) {
  %0: float32[3] = constant() {value=lit<float32[3]>[0.0e+00, 1.0e+00, 2.0e+00]}
  %1: float32[3], %2: float32[4,3] = scan(%0, %x) {carried=1, sequences=1, length=4, reverse=True, limited=False} [
    graph body(%c: float32[3] input, %r: float32[3] input, %i: int64[] input) {
      %0: float32[3] = add(%c, %r) {}
      return %0, %c
    }
  ]
  %3: int64[] = while(%n) {carried=1} [
    graph test(%k: int64[] input) {
      %0: int64[] = constant() {value=lit<int64[]>[1]}
      %1: bool[] = gt(%k, %0) {}
      return %1
    }
    graph body(%k: int64[] input) {
      %0: int64[] = constant() {value=lit<int64[]>[2]}
      %1: int64[] = floor_div(%k, %0) {}
      return %1
    }
  ]
  return %1, %2, %3
}
"""  # noqa: E501


@pytest.mark.parametrize(("dtype", "rows", "count"), [
    ("float32", 5, 200), ("float64", 5, 200), ("int32", 5, 200), ("float32", 2, order.LONG_ROW)])
def test_a_column_is_summed_along_its_rows(dtype: str, rows: int, count: int) -> None:
    """A product by one column takes its sums in an order of its own, but for integers: that of a
    row, in parts if it is long."""
    graph = parse_graph(f"""graph g(%x: {dtype}[{rows},{count}] input, %v: {dtype}[{count},1] input) {{
  %0: {dtype}[{rows},1] = matmul(%x, %v) {{transpose_a=False, transpose_b=False}}
  return %0
}}""")  # noqa: E501
    rng = np.random.default_rng(2)
    arrays = [(10 * rng.normal(size=shape)).astype(dtype) for shape in ((rows, count), (count, 1))]
    ((mine, theirs),) = both(graph, arrays)
    assert bits(mine) == bits(theirs)


def test_control_flow() -> None:
    graph = parse_graph(LOOPS)
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    for mine, theirs in both(graph, [x, np.asarray(37)]):
        assert bits(mine) == bits(theirs)


# --- what cannot be ------------------------------------------------------------------------------

FOREIGN = """
graph foreign(%x: float32[1,5,3,3] input) {
  %0: float32[1,2,3,3,4] = to_blocked(%x) {block=4} @net.conv loc("net.py":12:8)
  return %0
}
"""


def test_an_op_without_a_rule() -> None:
    """The op, its line and the back end, before anything is compiled."""
    with pytest.raises(NoRule, match=r"back end 'scalar' has no rule for the op 'to_blocked' at "
                                     r"net\.py:12 \(in net\.conv\)"):
        driver.compile_program(parse_graph(FOREIGN), TARGET)


LARGE = """
graph large(%x: float32[1] input) {
  %0: float32[1024,1024,300] = broadcast_to(%x) {shape=(1024, 1024, 300)} loc("net.py":7:4)
  %1: float32[1024,1024,300] = exp(%0) {} loc("net.py":8:4)
  return %1
}
"""


def test_a_graph_that_does_not_fit() -> None:
    message = (r"large needs \d+ bytes, and the memory of scalar \(back end 'scalar'\) has "
               r"1073741824; the largest value, float32\[1024,1024,300\], is that of the op '\w+' "
               r"at net\.py:[78]")
    with pytest.raises(TooLarge, match=message):
        driver.compile_program(parse_graph(LARGE), TARGET)


def test_an_unknown_target() -> None:
    other = Target("riscv-rvv", "riscv64-unknown-linux-gnu", "generic", "", 16, 32, frozenset())
    with pytest.raises(backends.UnknownTarget, match=r"unknown target 'riscv-rvv': no back end "
                                                     r"compiles for it \(cpu: .*; scalar: scalar"):
        driver.compile_program(parse_graph(EXACT), other)
    with pytest.raises(backends.UnknownTarget, match="unknown target 'z80'"):
        backends.target_named("z80")


def test_two_rules_for_an_op() -> None:
    rules: Rules[Any] = Rules("scalar")
    rules.lowers("matmul")(print)
    with pytest.raises(ValueError, match="the back end 'scalar' has two rules for 'matmul'"):
        rules.lowers("matmul")(print)
