"""Sizes that follow from open ones by divisions: parts, windows, padding. Where one is 1, sums have
another order, so there is a further program; none is made for each size, and the bits are
PyNative's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import cellc as ms
from cellc import Tensor, nn, ops
from cellc.compiled import dynamic
from cellc_compiler.backends.cpu.kernels.pool_axes import OpenAxis
from cellc_compiler.backends.cpu.passes import open_padding
from cellc_compiler.ir.dims import SymbolInfo, Undecided, deciding
from cellc_compiler.ir.shapes import Shapes

from .test_open_programs import Served, floats
from .test_open_sizes import assert_same, eagerly, traces

pytestmark = pytest.mark.usefixtures("graph_mode")
Fn = Callable[[Any], Any]

LENGTHS = [(2, 6, 8), (3, 9, 8), (4, 12, 8), (2, 21, 8), (2, 7, 8), (2, 3, 8), (2, 4, 8), (5, 3, 8)]
EVEN = [(2, 6, 8), (3, 8, 8), (4, 4, 8), (2, 20, 8), (2, 64, 8)]
VECTORS = [(16,), (4,), (12,), (400,), (4,), (8,)]
PICTURES = [(2, 4, 8, 9), (3, 4, 16, 12), (2, 4, 7, 7), (5, 4, 33, 40), (2, 4, 2, 3), (2, 4, 3, 3)]
FIRST = [(2, 3, 32, 40), (3, 3, 33, 41), (2, 3, 40, 31), (3, 3, 13, 8), (2, 3, 9, 9),
         (5, 3, 64, 63), (2, 3, 7, 12), (2, 3, 2, 2)]


def halves(x: Any) -> tuple[int, int]:
    return x.shape[2] // 2, x.shape[3] // 2


def same(inputs: int, outputs: int, **given: Any) -> Fn:
    """A convolution by steps of 2 whose padding follows from the size."""
    w = Tensor(floats(outputs, inputs // given.get("groups", 1), 3, 3))
    return lambda x: ops.conv2d(x, w, stride=2, pad_mode="same", **given)


def gradient(fn: Fn) -> Fn:
    return lambda x: ms.grad(lambda y: ops.square(fn(y)).sum())(x)


def weight_gradient(x: Any) -> Any:
    w = Tensor(floats(8, 3, 3, 3))
    return ms.grad(lambda w: ops.square(ops.conv2d(x, w, stride=2, pad_mode="same")).sum())(w)


CASES: dict[str, tuple[Fn, Sequence[tuple[int, ...]], int]] = {  # (the last: programs at most)
    "parts of half": (lambda x: ops.split(x, x.shape[1] // 2, 1), EVEN, 1),
    "parts of half and a rest": (lambda x: ops.split(x, x.shape[1] // 2, 1)[0], LENGTHS, 4),
    "three parts": (lambda x: [c.mean(1) for c in ops.chunk(x, 3, 1)], LENGTHS, 6),
    "the first of three parts": (lambda x: ops.chunk(x, 3, 1)[0].mean(1), LENGTHS, 3),
    "four rows": (lambda x: ops.softmax(x.reshape(4, -1) * 2, -1).sum(0), VECTORS, 2),
    "four rows less their means": (
        lambda x: x.reshape(4, -1) - x.reshape(4, -1).mean(-1, keep_dims=True), VECTORS, 2),
    "pairs": (lambda x: x.reshape(x.shape[0], x.shape[1] // 2, 2, 8).mean(2),
              [*EVEN, (3, 2, 8), (5, 2, 8)], 2),
    "average of all": (lambda x: ops.avg_pool2d(x, (x.shape[2], x.shape[3])), PICTURES, 2),
    "maximum of all": (lambda x: ops.max_pool2d(x, (x.shape[2], x.shape[3])), PICTURES, 1),
    "average of a window that may be all": (
        lambda x: ops.avg_pool2d(x, 7, 7),
        [(2, 4, 14, 14), (2, 4, 7, 7), (3, 4, 21, 15), (2, 4, 7, 9), (3, 4, 7, 7)], 4),
    "average of a window as high as the image": (
        lambda x: ops.avg_pool2d(x, 7, 7),
        [(2, 4, 7, 14), (3, 4, 7, 9), (2, 4, 7, 7), (3, 4, 7, 15)], 3),
    "average with padding": (
        lambda x: ops.avg_pool2d(x, 4, 3, 1), [(2, 4, h, w) for h, w in (
            (9, 9), (12, 10), (2, 2), (3, 3), (3, 12), (2, 3), (4, 4))], 3),
    "average with padding, gradient": (
        gradient(lambda x: ops.avg_pool2d(x, 4, 3, 1)), [(2, 4, h, w) for h, w in (
            (9, 9), (12, 10), (2, 2), (3, 3), (3, 12), (2, 3), (4, 4))], 3),
    "averages of halves": (lambda x: ops.adaptive_avg_pool2d(x, halves(x)), PICTURES, 2),
    "same": (same(3, 8), FIRST, 1),
    "same, gradient": (gradient(same(3, 8)), FIRST, 1),
    "same, gradient of the weight": (weight_gradient, FIRST, 1),
    "same, depthwise": (same(3, 3, groups=3), FIRST, 1),
    "same, depthwise, gradient": (gradient(same(3, 3, groups=3)), FIRST, 1),
    "same, twice": (lambda x: same(4, 4)(ops.relu(same(3, 4)(x))), FIRST, 2),
}


@pytest.mark.parametrize("name", CASES)
def test_no_program_for_each_size(name: str) -> None:
    fn, shapes, programs = CASES[name]
    compiled = ms.jit(lambda x: fn(x))
    for shape in shapes:
        x = Tensor(floats(*shape))
        assert_same(compiled(x), eagerly(lambda x: fn(x), x))
    found = traces(compiled.table)
    assert not any(o.refusals for o in found), [o.refusals for o in found]
    assert 1 <= sum(len(o.open) for o in found) <= programs


def test_a_size_without_a_program_for_all_leaves_the_others_one(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sizes are refused, and compiled for themselves; `explain` says why, and forgets it."""
    original = dynamic.open_sizes.compile_open

    def refusing(graph: Any, shapes: Any, **given: Any) -> Any:
        if max(shapes.hints.values()) % 2:
            raise Undecided("odd sizes are hard")
        return original(graph, shapes, **given)

    monkeypatch.setattr(dynamic.open_sizes, "compile_open", refusing)
    fn = ms.jit(lambda x: ops.softmax(x, 0))
    for n in (4, 9, 11, 8, 13):
        x = Tensor(floats(n, 3))
        assert_same(fn(x), eagerly(fn, x))
    (once,) = traces(fn.table)
    assert once.refusals == ["odd sizes are hard"] * 2 and len(once.open) == 1 and not once.per_size
    assert "odd sizes are hard" in str(ms.explain(fn))


def test_a_quotient_bounds_what_it_divides() -> None:
    shapes = Shapes()
    n = shapes.new("n", 7, SymbolInfo(1))
    with deciding(shapes):
        assert n // 4 == 1
        assert n >= 4 and n <= 7 and n // 8 == 0 and (n + 1) // 2 >= 2
        assert len(shapes.guards) == 1
        assert n % 4 == 3
        assert shapes.known("n") or n == 7
    assert all(g.holds({"n": 7}) for g in shapes.guards)
    assert not all(g.holds({"n": 8}) for g in shapes.guards)


# --- planted faults -------------------------------------------------------------------------------


def test_an_average_in_the_order_of_windows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpenAxis, "covers", False)
    broken = Served(lambda x: ops.avg_pool2d(x * 1.25, (x.shape[2], x.shape[3])),
                    [floats(2, 4, 30, 32)], {0: (None, 4, None, None)})
    monkeypatch.undo()
    assert not broken.same([floats(3, 4, 20, 21)])


def test_a_padding_that_is_missing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = open_padding.padded

    def wrong(b: Any, x: Any, before: Any, after: Any) -> Any:
        return right(b, x, (0, 0), tuple(map(sum, zip(before, after, strict=True))))

    monkeypatch.setattr(open_padding, "padded", wrong)
    broken = Served(lambda x: same(3, 4)(x * 1.25), [floats(2, 3, 9, 9)],
                    {0: (None, 3, None, None)})
    monkeypatch.undo()
    assert not broken.same([floats(2, 3, 7, 7)])


def test_layers_of_the_default_padding() -> None:
    """`nn.Conv2d` pads as `same` by default: steps of 2 of odd and even images."""
    net = nn.SequentialCell(nn.Conv2d(3, 16, 3, 2), nn.BatchNorm2d(16), nn.ReLU(),
                            nn.Conv2d(16, 16, 3, 2, group=16), nn.Conv2d(16, 24, 1))
    net.set_train(False)
    for shape in [*FIRST[:-2], (4, 3, 21, 50)]:
        x = Tensor(floats(*shape))
        assert_same(net(x), eagerly(net, x))
    assert not any(o.refusals for o in traces(net._entries))
