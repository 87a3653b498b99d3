"""Convolutions of a GPU under the emulator: the CPU's bits, nothing read outside, no race."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cellc_compiler.backends.cuda import epilogues
from cellc_compiler.backends.cuda.kernels.tiles import DOUBLE, SINGLE, Choice
from cellc_compiler.backends.cuda.rules import convolution, images
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.types import TensorType
from cellc_compiler.loops.order import FEW_CHANNELS, image_runs
from cellc_runtime.cuda.emulated import EmulatedDevice
from cellc_runtime.dtypes import DType, bfloat16, float16, float32, float64
from cellc_runtime.records import dataclass, replace

from .accesses import CheckedDevice
from .tiled import ARCHITECTURES, assembled, cut, drawn, needs_ptxas, run_cpu, run_on, same

Shapes = list[tuple[int, ...]]
KINDS = ["forward", "data", "weight"]


@dataclass(frozen=True, slots=True)
class Conv:
    """A convolution of `n` images of `c` channels."""

    n: int
    c: int
    size: tuple[int, int]
    oc: int
    taps: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    @property
    def out(self) -> tuple[int, int]:
        """Rows and columns of the result."""
        rows, columns = (
            (self.size[d] + self.pads[2 * d] + self.pads[2 * d + 1]
             - self.dilation[d] * (self.taps[d] - 1) - 1) // self.stride[d] + 1 for d in (0, 1))
        return rows, columns


def graph_of(
    kind: str, c: Conv, dtype: DType = float32, relu: bool = False
) -> tuple[Graph, Shapes]:
    """A convolution or one of its gradients, and the shapes of its inputs."""
    graph = Graph("conv")
    builder = Builder(graph)
    x, w, y = (c.n, c.c, *c.size), (c.oc, c.c // c.groups, *c.taps), (c.n, c.oc, *c.out)
    shapes: Shapes = {"forward": [x, w], "data": [y, w], "weight": [x, y]}[kind]
    inputs = [graph.add_input(TensorType(s, dtype), f"x{i}", "input")
              for i, s in enumerate(shapes)]
    about: dict[str, Any] = {"stride": c.stride, "pads": c.pads, "dilation": c.dilation,
                             "groups": c.groups}
    if kind == "forward":
        out = builder.conv2d(*inputs, **about)
    elif kind == "data":
        out = builder.conv2d_backward_data(*inputs, size=c.size, **about)
    else:
        out = builder.conv2d_backward_weight(*inputs, kernel=c.taps, **about)
    graph.outputs = [builder.relu(out) if relu else out]
    return graph, shapes


ONES = (1, 1, 1, 1)
CASES = {
    "plain": Conv(2, 3, (9, 8), 24, (3, 3)),
    "border": Conv(2, 8, (9, 8), 24, (3, 3), pads=ONES),
    "stride": Conv(2, 8, (9, 11), 12, (3, 3), (2, 2), ONES),
    "all at once": Conv(1, 6, (12, 9), 20, (3, 2), (2, 3), (1, 0, 2, 1), (2, 1)),
    "pointwise": Conv(3, 8, (7, 7), 16, (1, 1)),
    "pointwise, whole vectors": Conv(2, 16, (8, 8), 32, (1, 1)),
    "pointwise stride": Conv(2, 8, (8, 8), 16, (1, 1), (2, 2)),
    "dilation and groups": Conv(2, 12, (9, 9), 24, (3, 3), (1, 1), ONES, (2, 2), 2),
    "many channels": Conv(2, 16, (8, 8), 160, (3, 3), pads=ONES),
    "depthwise": Conv(1, 6, (7, 8), 6, (3, 3), pads=ONES, groups=6),
    "depthwise, two each": Conv(2, 4, (7, 8), 8, (3, 3), (2, 2), ONES, groups=4),
    "large taps": Conv(2, 3, (9, 8), 18, (5, 5), (3, 3), (2, 2, 2, 2)),
    "runs": Conv(8, 16, (10, 10), 40, (3, 3), pads=ONES),
    "taps that miss": Conv(1, 8, (4, 4), 12, (2, 2), (3, 3)),
    "dilation in the stride": Conv(1, 4, (16, 16), 10, (3, 3), (4, 4), dilation=(2, 2)),
    "many images": Conv(20, 20, (14, 14), 24, (3, 3), pads=ONES),
    "few channels": Conv(2, 2, (20, 20), 5, (3, 3), pads=ONES),
    "few channels, runs": Conv(6, 8, (40, 30), 8, (3, 3), pads=ONES, groups=2),
    "one row": Conv(2, 5, (1, 30), 9, (1, 4), pads=(0, 0, 3, 0), dilation=(1, 2)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", KINDS)
def test_bits(kind: str, name: str) -> None:
    graph, shapes = graph_of(kind, CASES[name])
    arrays = drawn(shapes, float32)
    assert same(run_on(EmulatedDevice(seed=3), graph, arrays), run_cpu(graph, arrays))


@pytest.mark.parametrize("dtype", [float64, float16, bfloat16])
@pytest.mark.parametrize("kind", KINDS)
def test_dtypes(kind: str, dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    """In 16 bits, those that tensor cores do not take."""
    monkeypatch.setattr(convolution, "takes", lambda *_: False)
    for name in ("stride", "all at once", "pointwise", "depthwise", "runs", "few channels, runs"):
        graph, shapes = graph_of(kind, CASES[name], dtype)
        arrays = drawn(shapes, dtype)
        assert same(run_on(EmulatedDevice(), graph, arrays), run_cpu(graph, arrays))


@pytest.mark.parametrize("kind", KINDS)
def test_cuts(kind: str) -> None:
    """Every tile gives the same bits."""
    for dtype, tiles in ((float32, SINGLE), (float64, DOUBLE)):
        for name in ("border", "stride", "dilation and groups"):
            graph, shapes = graph_of(kind, CASES[name], dtype)
            arrays = drawn(shapes, dtype)
            want = run_cpu(graph, arrays)
            for tile in tiles:
                for vectors in (True, False):
                    with cut(Choice(tile, 1), vectors):
                        assert same(run_on(EmulatedDevice(), graph, arrays), want)


def test_runs_are_what_the_order_says() -> None:
    """The cases meet several runs of images, with many channels and with few."""
    for name in ("runs", "few channels, runs"):
        c = CASES[name]
        weights = c.oc * c.c // c.groups * c.taps[0] * c.taps[1]
        work = weights * c.n * c.out[0] * c.out[1]
        assert image_runs(c.n, weights, work) > 1
        assert (c.oc // c.groups <= FEW_CHANNELS) == name.startswith("few")


@pytest.mark.parametrize("dtype", [float32, float64, float16, bfloat16])
def test_epilogues(dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows a convolution is computed in its stores."""
    monkeypatch.setattr(convolution, "takes", lambda *_: False)
    fused: list[object] = []
    emit = epilogues.EpiloguePattern.emit

    def noted(self: epilogues.EpiloguePattern, *args: Any) -> None:
        fused.append(args)
        emit(self, *args)

    monkeypatch.setattr(epilogues.EpiloguePattern, "emit", noted)
    for name in ("border", "stride", "pointwise, whole vectors", "depthwise"):
        before = len(fused)
        graph, shapes = graph_of("forward", CASES[name], dtype, relu=True)
        arrays = drawn(shapes, dtype)
        assert same(run_on(EmulatedDevice(), graph, arrays), run_cpu(graph, arrays))
        assert len(fused) == before + 1


@pytest.mark.parametrize("name", ["border", "stride", "all at once", "pointwise", "depthwise",
                                  "dilation and groups", "taps that miss", "one row"])
@pytest.mark.parametrize("kind", KINDS)
def test_accesses(kind: str, name: str) -> None:
    c = replace(CASES[name], n=min(CASES[name].n, 2))
    graph, shapes = graph_of(kind, c)
    device = CheckedDevice(seed=5, capacity=1 << 22)
    run_on(device, graph, drawn(shapes, float32))
    accesses = device.accesses()
    assert not accesses.lost
    assert not accesses.outside.any()
    assert not accesses.races()
    shared = accesses.shared_traffic()
    assert shared.moved == shared.least


def test_rows_of_images_are_read_whole() -> None:
    """Lanes go along the pixels of an image: sectors are ideal for a pointwise convolution, and for
    one with taps what shifted rows cost."""
    for taps, pads, most in (((1, 1), (0, 0, 0, 0), 1.0), ((3, 3), ONES, 1.35)):
        graph, shapes = graph_of("forward", Conv(2, 8, (32, 32), 64, taps, pads=pads))
        device = CheckedDevice(capacity=1 << 22)
        run_on(device, graph, drawn(shapes, float32))
        moved = device.accesses().global_traffic()
        assert moved.least <= moved.moved <= moved.least * most


def test_planted_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong border, step or phase is found."""
    def found(kind: str, name: str) -> bool:
        graph, shapes = graph_of(kind, CASES[name])
        arrays = drawn(shapes, float32)
        device = CheckedDevice(capacity=1 << 22)
        result = run_on(device, graph, arrays)
        return bool(device.accesses().outside.any()) or not same(result, run_cpu(graph, arrays))

    plane, phases = images._plane, images.phases
    assert not found("forward", "stride")
    with monkeypatch.context() as patch:
        patch.setattr(images, "_plane", lambda size, grid, step, whole: plane(
            size, grid, (step[0], 1), whole))
        assert found("forward", "stride")
    with monkeypatch.context() as patch:
        patch.setattr(convolution, "phases", lambda g, axis: [
            replace(p, place=p.place - 1) for p in phases(g, axis)])
        assert found("data", "stride")
    with monkeypatch.context() as patch:
        patch.setattr(images.order, "image_runs", lambda *_: 1)
        assert found("weight", "few channels, runs")


ASSEMBLED = [
    Conv(32, 64, (56, 56), 64, (3, 3), pads=ONES),
    Conv(32, 256, (14, 14), 256, (3, 3), (2, 2), ONES),
    Conv(32, 256, (56, 56), 64, (1, 1)),
    Conv(32, 3, (224, 224), 64, (7, 7), (2, 2), (3, 3, 3, 3)),
    Conv(32, 128, (28, 28), 128, (3, 3), pads=ONES, groups=32),
    Conv(32, 128, (28, 28), 128, (3, 3), pads=ONES, groups=128),
    Conv(4, 512, (7, 7), 512, (3, 3), pads=(2, 2, 2, 2), dilation=(2, 2)),
]


@needs_ptxas
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_assembled(architecture: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is spilled."""
    monkeypatch.setattr(convolution, "takes", lambda *_: False)
    for c in ASSEMBLED:
        for dtype in (float32, float64, bfloat16):
            graph, _ = graph_of(kind, c, dtype, relu=True)
            for cubin in assembled(graph, architecture):
                assert (cubin.spill_bytes, cubin.stack, cubin.warnings) == (0, 0, ())


def test_weights_that_are_infinite_meet_the_border() -> None:
    """As on the CPU: what is outside is 0, and is multiplied."""
    graph, shapes = graph_of("forward", CASES["border"])
    x, w = drawn(shapes, float32)
    w[3, 2, 0, 0] = np.inf
    assert same(run_on(EmulatedDevice(), graph, [x, w]), run_cpu(graph, [x, w]))
