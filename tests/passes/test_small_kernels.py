"""Convolutions by weights of few bits: which read them as they are, and that no bit changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc.compiled.traced import trace
from cellc_compiler.backends.cpu.passes.small_kernels import SmallKernels, WidenKernels
from cellc_compiler.driver import compile_program, optimize
from cellc_compiler.interpret import run
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.text import parse_graph, print_graph
from cellc_compiler.ir.verify import verify
from cellc_compiler.passes.base import copy_graph
from cellc_runtime.executable import Executable
from cellc_runtime.target import AVX2, AVX512, NEON, Target, host_targets

from .test_layout import network, parameters

KINDS = pytest.mark.parametrize("kind", ["bfloat16", "int8", "int4"])
WEIGHT = """
  %1: float32[32,72,1] = dequantized(%q, %s) {steps=72, group=0}
  %2: float32[32,1,72] = transpose(%1) {perm=(0, 2, 1)}
"""


def traced(kind: Any, width: int = 32) -> tuple[Graph, Any, Any]:
    net, x = network(width)
    small = ms.quantize(net, kind, symmetric=False)
    return trace(small, (x,), {}).graph, small, x


def names(graph: Graph) -> list[str]:
    return [n.op for n in graph.walk()]


@pytest.mark.parametrize("target", [AVX512, AVX2, NEON], ids=lambda t: t.name)
@KINDS
def test_blocked_convolutions_read_few_bits(kind: str, target: Target) -> None:
    graph, net, x = traced(kind)
    after = optimize(graph, target=target)
    verify(after)
    found = names(after)
    assert found.count("small_conv2d_blocked") == 5
    assert not {"dequantized", "small_kernel", "conv2d", "conv2d_blocked"}.intersection(found)
    again = parse_graph(print_graph(after))
    verify(again)
    given = parameters(graph, net, x)
    for a, b in zip(run(graph, given, precise=True), run(again, given, precise=True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("width", [32, 20])
@KINDS
def test_the_bits_of_pynative(kind: str, width: int) -> None:
    graph, net, x = traced(kind, width)
    want = [t.asnumpy().tobytes() for t in net(x)]
    for target in host_targets():
        ready = Executable(compile_program(graph, target, use_cache=False))
        weights = {p.name: p.asnumpy() for p in net.get_parameters()}
        ready.bind([weights[v.name] for v in graph.inputs if v.name in weights])
        got = ready.call([x.asnumpy()])
        assert [np.asarray(a).tobytes() for a in got] == want, target


def convolved(weight: str, size: int = 16) -> Graph:
    out = size - 2
    return parse_graph(f"""graph g(%x: float32[1,8,{size},{size}] input, %q: int8[32,72,1] param,
        %s: float16[32,1,1] param) {{
      {WEIGHT}
      {weight}
      %9: float32[1,32,{out},{out}] = conv2d(%x, %8) {{stride=(1, 1), pads=(0, 0, 0, 0), \
dilation=(1, 1), groups=1}}
      return %9
    }}""")


def given(graph: Graph) -> list[Any]:
    rng = np.random.default_rng(1)
    return [rng.integers(-128, 128, v.shape).astype(v.dtype.numpy) if v.dtype.name == "int8" else
            rng.standard_normal(v.shape).astype(v.dtype.numpy) for v in graph.inputs]


def test_other_orders_are_widened() -> None:
    straight = convolved("%8: float32[32,8,3,3] = reshape(%2) {shape=(32, 8, 3, 3)}")
    turned = convolved("""%3: float32[32,3,3,8] = reshape(%2) {shape=(32, 3, 3, 8)}
      %8: float32[32,8,3,3] = transpose(%3) {perm=(0, 3, 1, 2)}""")
    assert "small_conv2d_blocked" in names(optimize(straight, target=AVX2))
    found = names(optimize(turned, target=AVX2))
    assert "conv2d_blocked" in found and "small_conv2d_blocked" not in found
    for graph in (straight, turned):
        arrays = given(graph)
        (a,), (b,) = (run(g, arrays, precise=True)
                      for g in (graph, optimize(graph, target=AVX2)))
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_what_is_not_blocked_is_as_without_the_passes() -> None:
    """The first pass names the weight; the last one widens what no kernel took."""
    graph = convolved("%8: float32[32,8,3,3] = reshape(%2) {shape=(32, 8, 3, 3)}", size=3)
    changed = copy_graph(graph)
    assert SmallKernels().run(changed) and not SmallKernels().run(copy_graph(optimize(graph)))
    assert names(changed).count("small_kernel") == 1
    assert WidenKernels().run(changed) and not WidenKernels().run(changed)
    arrays = given(graph)
    for g in (changed, optimize(graph, target=NEON), optimize(graph)):
        assert not {"small_kernel", "dequantized"}.intersection(names(g))
        np.testing.assert_allclose(run(g, arrays, precise=True)[0],
                                   run(graph, arrays, precise=True)[0], rtol=1e-9, atol=1e-9)
