"""`numerics="fast"`: what the extra passes rewrite, and that results stay close."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc_compiler import driver
from cellc_compiler.interpret import run
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.text import parse_graph
from cellc_compiler.ir.types import TensorType
from cellc_compiler.ir.verify import verify
from cellc_runtime import dtypes as dt
from cellc_runtime.executable import Executable

CONV = "%x: float32[2,3,8,8] input, %w: float32[4,3,3,3] param, %c: float32[4,1,1] param"
CONV_OP = "conv2d(%x, %w) {stride=(1, 1), pads=(1, 1, 1, 1), dilation=(1, 1), groups=1}"


def graph(inputs: str, body: str) -> Graph:
    out = parse_graph(f"graph g({inputs}) {{\n{body}\n}}")
    verify(out)
    return out


def ops_of(g: Graph) -> list[str]:
    fast = driver.optimize(g, numerics="fast")
    verify(fast)
    return [n.op for n in fast.nodes if n.op not in ("constant", "reshape")]


def test_a_scale_moves_into_the_weights() -> None:
    g = graph(CONV, f"""
        %0: float32[2,4,8,8] = {CONV_OP}
        %1: float32[2,4,8,8] = sub(%0, %c) {{}}
        %2: float32[2,4,8,8] = mul(%1, %c) {{}}
        %3: float32[2,4,8,8] = add(%c, %2) {{}}
        %4: float32[2,4,8,8] = relu(%3) {{}}
        return %4""")
    found = ops_of(g)
    assert found.count("conv2d") == 1
    assert found[-3:] == ["conv2d", "add", "relu"]


@pytest.mark.parametrize("body", [
    # a bias alone is left to the epilogue
    f"%0: float32[2,4,8,8] = {CONV_OP}\n%1: float32[2,4,8,8] = add(%0, %c) {{}}\nreturn %1",
    # somebody else reads the convolution
    f"%0: float32[2,4,8,8] = {CONV_OP}\n%1: float32[2,4,8,8] = mul(%0, %c) {{}}\nreturn %0, %1",
    # the scale changes along another axis
    f"%0: float32[2,4,8,8] = {CONV_OP}\n%s: float32[4,1] = reshape(%c) {{shape=(4, 1)}}\n"
    "%t: float32[4,8] = broadcast_to(%s) {shape=(4, 8)}\n"
    "%u: float32[4,1,8] = reshape(%t) {shape=(4, 1, 8)}\n"
    "%1: float32[2,4,8,8] = mul(%0, %u) {}\nreturn %1",
    # the weights change in the call
    f"%0: float32[2,4,8,8] = {CONV_OP}\n%1: float32[2,4,8,8] = mul(%0, %c) {{}}\n"
    "%2: float32[4,1,1] = neg(%c) {}\nreturn %1 update %c = %2",
], ids=["bias", "read twice", "other axis", "updated"])
def test_what_may_not_be_folded_is_not(body: str) -> None:
    g = graph(CONV, body)
    strict = [n.op for n in driver.optimize(g).nodes if n.op not in ("constant", "reshape")]
    assert ops_of(g) == strict


def test_constants_meet() -> None:
    g = graph("%x: float32[5] input", """
        %a: float32[] = constant() {value=lit<float32[]>[3.0]}
        %b: float32[] = constant() {value=lit<float32[]>[7.0]}
        %0: float32[5] = mul(%x, %a) {}
        %1: float32[5] = div(%0, %b) {}
        %2: float32[5] = add(%1, %a) {}
        %3: float32[5] = sub(%2, %b) {}
        return %3""")
    assert ops_of(g) == ["mul", "add"]
    x = np.arange(5, dtype=np.float32)
    program = driver.compile_program(g, numerics="fast")
    assert program.target
    np.testing.assert_allclose(Executable(program).entry(x), x * 3 / 7 - 4, rtol=1e-6)


class Net(nn.Cell):
    """Convolutions and products behind which BatchNorms stand."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, has_bias=True, bias_init="normal")
        self.bn = nn.BatchNorm2d(8)
        self.dense = nn.Dense(8, 6)
        self.bn1 = nn.BatchNorm1d(6)

    def construct(self, x: Any) -> Any:
        y = ops.relu(self.bn(self.conv(x)))
        return self.bn1(self.dense(y.mean((2, 3)))) / 3


@pytest.mark.usefixtures("graph_mode")
def test_a_network_changes_with_the_option_and_stays_close() -> None:
    rng = np.random.default_rng(0)
    net = Net().set_train(False)
    for p in net.get_parameters():
        p.set_data(ms.Tensor(rng.random(p.shape, np.float32) + 0.5))
    x = ms.Tensor(rng.standard_normal((2, 3, 9, 9)).astype(np.float32))
    strict = net(x).asnumpy()
    ms.set_context(numerics="fast")
    fast = net(x).asnumpy()
    net.bn.gamma.set_data(ms.Tensor(np.full(8, 2, np.float32)))
    changed = net(x).asnumpy()
    ms.set_context(numerics="strict")
    np.testing.assert_allclose(fast, strict, rtol=1e-5)
    np.testing.assert_allclose(changed, net(x).asnumpy(), rtol=1e-5)
    assert not np.allclose(changed, fast, rtol=1e-3)


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(ValueError, match="'strict', 'fast'"):
        ms.set_context(numerics="faster")


def conv_graph(shape: tuple[int, ...], weight: tuple[int, ...], kind: str = "param",
               **attrs: Any) -> Graph:
    full = {"stride": (1, 1), "pads": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1, **attrs}
    g = Graph("conv")
    x = g.add_input(TensorType(shape, dt.float32), "x")
    w = g.add_input(TensorType(weight, dt.float32), "w", kind)
    c = g.add_input(TensorType((weight[0], 1, 1), dt.float32), "c", "param")
    b = Builder(g)
    g.outputs = [b.relu(b.add(b.conv2d(x, w, **full), c))]
    verify(g)
    return g


@pytest.mark.parametrize(("shape", "weight", "pads"), [
    ((1, 96, 28, 28), (128, 96, 3, 3), (1, 1, 1, 1)),
    ((2, 200, 22, 23), (256, 200, 3, 3), (0, 2, 1, 0)),
    ((1, 64, 66, 70), (32, 64, 3, 3), (0, 0, 0, 0)),
])
def test_winograd_is_close(shape: Any, weight: Any, pads: Any) -> None:
    g = conv_graph(shape, weight, pads=pads)
    assert "winograd_output" in ops_of(g)
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(v.shape).astype(np.float32) for v in g.inputs]
    exact = run(g, arrays, precise=True)[0]
    executable = Executable(driver.compile_program(g, numerics="fast"))
    executable.bind(arrays[1:])
    scale = np.abs(exact).max()
    np.testing.assert_allclose(executable.entry(arrays[0]), exact, rtol=0, atol=3e-5 * scale)


@pytest.mark.parametrize("g", [
    conv_graph((1, 96, 28, 28), (128, 96, 3, 3), kind="input"),
    conv_graph((1, 96, 28, 28), (128, 96, 3, 3), stride=(2, 2)),
    conv_graph((1, 96, 28, 28), (128, 96, 3, 3), dilation=(2, 2)),
    conv_graph((1, 64, 28, 28), (64, 32, 3, 3), groups=2),
    conv_graph((1, 96, 28, 28), (128, 96, 5, 5)),
    conv_graph((1, 3, 28, 28), (4, 3, 3, 3)),
    conv_graph((1, 512, 3, 3), (512, 512, 3, 3)),
], ids=["weights change", "stride", "dilation", "groups", "5 x 5", "few channels", "few tiles"])
def test_winograd_is_for_what_it_suits(g: Graph) -> None:
    assert "winograd_output" not in ops_of(g)
