"""Convolutions computed with the depthwise one behind them: the bits of two kernels, in bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cellc_compiler import driver
from cellc_compiler.backends.cpu.kernels.blocked import pair as conv_block_pair
from cellc_compiler.backends.cpu.kernels.blocked.tile import BlockConv
from cellc_compiler.backends.cpu.patterns import conv_pairs
from cellc_compiler.ir.graph import Builder, Graph, Value
from cellc_compiler.ir.types import TensorType
from cellc_compiler.lower.instructions import Call
from cellc_runtime.dtypes import DType, float32, float64
from cellc_runtime.records import dataclass, replace
from cellc_runtime.target import AVX2, AVX512, NEON, Target

from .jit import machine
from .plans import llvm, run_calls, x86_targets

Array = np.ndarray[Any, Any]
TARGETS = pytest.mark.parametrize("target", x86_targets(), ids=lambda t: t.name)
ONE = (1, 1)


@dataclass(frozen=True, slots=True)
class Case:
    """A convolution and a depthwise one; `scaled`: which have scale, shift and activation."""

    x: tuple[int, int, int, int]
    wide: int
    kernel: tuple[int, int] = ONE
    stride: tuple[int, int] = ONE
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    window: tuple[int, int] = (3, 3)
    step: tuple[int, int] = ONE
    dilation: tuple[int, int] = ONE
    around: tuple[int, int, int, int] = (1, 1, 1, 1)
    scaled: tuple[bool, bool] = (True, True)
    after: int = 0
    dtype: DType = float32


CASES = {
    "expansion": Case((2, 20, 9, 33), 80),
    "stride 2": Case((1, 16, 14, 12), 48, step=(2, 2)),
    "uneven": Case((1, 8, 13, 7), 16, step=(2, 1), around=(0, 2, 1, 0)),
    "stem": Case((1, 3, 17, 21), 32, (3, 3), (2, 2), (1, 1, 1, 1)),
    "no border": Case((1, 16, 9, 9), 32, (3, 3), pads=(1, 1, 1, 1), around=(0, 0, 0, 0)),
    "bare": Case((1, 16, 6, 19), 40, scaled=(False, False)),
    "bare first": Case((1, 16, 5, 6), 16, scaled=(False, True), around=(0, 0, 0, 0)),
    "5x5 dilated": Case((1, 16, 15, 40), 32, window=(5, 3), dilation=(2, 1), around=(4, 4, 1, 1)),
    "7x7": Case((1, 24, 12, 35), 16, window=(7, 7), around=(3, 3, 3, 3)),
    "rows between windows": Case((1, 16, 23, 9), 16, window=(1, 1), step=(3, 2),
                                 around=(0, 0, 0, 0)),
    "bordered result": Case((1, 16, 8, 10), 32, after=24),
    "f64": Case((1, 9, 10, 11), 24, dtype=float64),
}


def network(c: Case) -> Graph:
    """The graph of a case; weights are arguments."""
    g = Graph("pair")
    b: Any = Builder(g)

    def conv(x: Value, oc: int, kernel: tuple[int, int], groups: int, scaled: bool,
             **attrs: Any) -> Value:
        w = g.add_input(TensorType((oc, x.shape[1] // groups, *kernel), c.dtype), f"w{oc}{groups}")
        y: Value = b.conv2d(x, w, groups=groups, **attrs)
        if not scaled:
            return y
        scale, shift = (g.add_input(TensorType((1, oc, 1, 1), c.dtype), f"{n}{oc}{groups}")
                        for n in ("scale", "shift"))
        return b.relu6(b.add(b.mul(y, scale), shift))  # type: ignore[no-any-return]

    y = conv(g.add_input(TensorType(c.x, c.dtype), "x"), c.wide, c.kernel, 1, c.scaled[0],
             stride=c.stride, pads=c.pads)
    y = conv(y, c.wide, c.window, c.wide, c.scaled[1], stride=c.step, pads=c.around,
             dilation=c.dilation)
    if c.after:
        y = conv(y, c.after, (3, 3), 1, False, pads=(1, 1, 1, 1))
    g.outputs.append(y)
    return g


def arrays(graph: Graph) -> list[Array]:
    """Arguments, with what must not spread in the image."""
    rng = np.random.default_rng(7)
    out = [rng.standard_normal(v.shape).astype(v.dtype.numpy) for v in graph.inputs]
    out[0][0, 0, -1, -1], out[0][-1, 1, 0, 2], out[0][0, 2, 1, 1] = np.inf, np.nan, -0.0
    return out


def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on every pair is one kernel."""
    monkeypatch.setattr(conv_pairs.pairs, "pays", lambda pair, target: True)
    monkeypatch.setattr("cellc_compiler.backends.cpu.passes.layout.Choice._pays", _blocked)


def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on no pair is found."""
    monkeypatch.setattr(conv_pairs.PairPattern, "find", lambda *_: {})


def _blocked(self: Any, node: Any) -> bool:
    return bool(node.attrs["groups"] in (1, node.result.shape[1]))


def calls(graph: Graph, target: Target) -> list[Call]:
    """The kernel calls of a graph."""
    low = driver.lower(driver.optimize(graph, target=target), target)
    return [i for i in low.instructions if isinstance(i, Call)]


def paired(found: list[Call]) -> int:
    """How many calls do two convolutions."""
    return sum(c.label.count("conv2d_blocked") == 2 and c.most_expensive for c in found)


def run(graph: Graph, target: Target, inputs: list[Array]) -> list[Array]:
    """The kernels' results; see `run_calls`."""
    return run_calls(driver.optimize(graph, target=target), target, inputs)


@TARGETS
@pytest.mark.parametrize("name", CASES)
def test_bits_and_bounds(name: str, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = network(CASES[name])
    inputs = arrays(graph)
    always(monkeypatch)
    assert paired(calls(graph, target)) == 1
    one = run(graph, target, inputs)
    never(monkeypatch)
    assert paired(calls(graph, target)) == 0
    two = run(graph, target, inputs)
    np.testing.assert_array_equal(one[0], two[0])
    assert np.isnan(one[0]).any() and not np.isnan(one[0]).all()


def problems(c: Case, target: Target) -> tuple[BlockConv, BlockConv]:
    """The two convolutions of a case, the image of the first with its padding."""
    block, (n, ic, h, w) = target.lanes(c.dtype.itemsize), c.x

    def size(length: int, k: int, s: int, d: int, pads: int) -> int:
        return (length + pads - (k - 1) * d - 1) // s + 1

    def problem(c_: int, hw: tuple[int, int], k: tuple[int, int], s: tuple[int, int],
                d: tuple[int, int], pads: tuple[int, int, int, int],
                border: tuple[int, int, int, int], groups: int) -> BlockConv:
        return BlockConv(
            n=n, c=c_, oc=c.wide, bi=block if c_ >= block else 1, bo=block,
            ph=hw[0] + pads[0] + pads[1], pw=hw[1] + pads[2] + pads[3],
            oh=size(hw[0], k[0], s[0], d[0], pads[0] + pads[1]),
            ow=size(hw[1], k[1], s[1], d[1], pads[2] + pads[3]), kh=k[0], kw=k[1], stride=s,
            dilation=d, origin=(0, 0), border=border, groups=groups, dtype=c.dtype)

    first = problem(ic, (h, w), c.kernel, c.stride, ONE, c.pads, c.around, 1)
    return first, problem(c.wide, (first.oh, first.ow), c.window, c.step, c.dilation, c.around,
                          (0, 0, 0, 0), c.wide)


LARGE = {
    "MobileNetV2 112": Case((1, 16, 112, 112), 96, step=(2, 2)),
    "MobileNetV2 56": Case((1, 24, 56, 56), 144),
    "stem": Case((1, 3, 224, 224), 32, (3, 3), (2, 2), (1, 1, 1, 1)),
    "MobileNetV1 112": Case((1, 32, 112, 112), 64, step=(2, 2)),
}


@pytest.mark.parametrize("target", [AVX512, AVX2], ids=lambda t: t.name)
def test_images_larger_than_a_cache_are_not_written(target: Target) -> None:
    for name, c in LARGE.items():
        pair = conv_block_pair.choose_pair(*problems(c, target), target)
        assert conv_block_pair.pays(pair, target), name
        # Every row of the result is some band's, and few rows are computed twice.
        assert pair.bands * pair.per >= pair.second.oh > (pair.bands - 1) * pair.per
        rows = conv_block_pair._computed(pair.first, pair.second, pair.per)
        assert pair.first.oh - pair.second.stride[0] < rows <= 1.25 * pair.first.oh, name
        assert pair.groups * pair.bands >= 4, name


APART = {
    "Xception 150": Case((1, 64, 150, 150), 128),
    "Xception 150, stride 2": Case((1, 128, 150, 150), 128, step=(2, 2)),
    "Xception 75": Case((1, 256, 75, 75), 256, step=(2, 2)),
    "Xception 10": Case((1, 1536, 10, 10), 1536),
}


@pytest.mark.parametrize("name", APART)
def test_what_each_group_of_channels_would_read_again_runs_apart(name: str) -> None:
    # Images, or weights, that no near cache holds from one group to the next, or row to row.
    pair = conv_block_pair.choose_pair(*problems(APART[name], AVX512), AVX512)
    assert not conv_block_pair.pays(pair, AVX512)


def test_what_is_not_possible() -> None:
    first, second = problems(LARGE["stem"], AVX512)
    assert conv_block_pair.fits(first, second)
    assert not conv_block_pair.fits(first, first)
    assert not conv_block_pair.fits(second, second)
    assert not conv_block_pair.fits(replace(first, border=(0, 0, 0, 0)), second)
    assert not conv_block_pair.fits(replace(first, spread=(2, 2)), second)
    wide = problems(Case((1, 16, 4, 1 << 14), 16), AVX512)
    assert not conv_block_pair.fits(*wide)  # the ring would not stay in a cache


@TARGETS
def test_a_result_that_is_read_elsewhere_is_stored(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = network(CASES["expansion"])
    wide = next(n for n in graph.nodes if n.op == "relu6").result
    graph.outputs.append(wide)
    always(monkeypatch)
    assert paired(calls(graph, target)) == 0


def test_code_for_every_target(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch)
    for target in (AVX512, AVX2, NEON):
        found = calls(network(CASES["stride 2"]), target)
        assert paired(found) == 1
        pair = next(c for c in found if c.label.count("conv2d_blocked") == 2 and c.most_expensive)
        mod = llvm.parse_assembly(pair.kernel.code)
        mod.verify()
        assert machine(target).emit_object(mod)[:4] == b"\x7fELF"


def test_weights_of_both_can_be_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch)
    graph = network(CASES["expansion"])
    for v in graph.inputs[1:]:
        v.kind = "param"
    low = driver.lower(driver.optimize(graph, target=AVX2), AVX2)
    packed = [k.packing for k in low.precomputed if k.packing is not None]
    weights = [v.type for v in graph.inputs if v.name.startswith("w")]
    assert sorted(p.stored_bytes for p in packed) == sorted(t.nbytes for t in weights)
