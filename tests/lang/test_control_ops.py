"""`ops.cond`, `ops.while_loop`, `ops.fori_loop`, `ops.scan`, their Primitives, and Cells chosen by
a run-time index: both modes give the same bits, structures and kinds of errors.

The values and errors marked `MS` are those of MindSpore 2.10 in PyNative mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops

MODES = (ms.PYNATIVE_MODE, ms.GRAPH_MODE)
ONES = np.ones(3, np.float32)
WHILE, SCAN, FORI = ops.WhileLoop(), ops.Scan(), ops.ForiLoop()


def in_mode(mode: int, fn: Callable[..., Any]) -> Callable[..., Any]:
    ms.set_context(mode=mode)
    return fn if mode == ms.PYNATIVE_MODE else ms.jit(fn)


def plain(value: Any) -> Any:
    """A result with its tensors as (dtype, shape, bytes); -0.0 counts as 0.0."""
    if isinstance(value, Tensor):
        return str(value.dtype), value.shape, (value.asnumpy() + 0).tobytes()
    if isinstance(value, (tuple, list)):
        return type(value), [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return type(value), value


SAME = {
    "while: a tensor": lambda x: ops.while_loop(lambda v: v.sum() < 100, lambda v: v * 1.5, x),
    "while: nested": lambda x: WHILE(
        lambda v: v[0].sum() < 100,
        lambda v: (v[0] * 2, {"a": v[1]["a"] + v[0], "n": [v[1]["n"][0] + 1]}),
        (x, {"a": x, "n": [ops.zeros((), ms.int32)]})),
    "while: no trip": lambda x: WHILE(lambda v: v.sum() < 0, lambda v: v * 2, x),
    "while: numbers": lambda x: WHILE(lambda v: v < 10, lambda v: v + 3, 1),
    "while: number and tensor": lambda x: WHILE(
        lambda v: v[0] < 4, lambda v: (v[0] + 1, v[1] * 2), (0, x)),
    "while: dict": lambda x: WHILE(
        lambda v: v["i"] < 4, lambda v: {"i": v["i"] + 1, "x": v["x"] * 2}, {"i": 0, "x": x}),
    "while: nested loops": lambda x: ops.while_loop(
        lambda v: v.sum() < 50,
        lambda v: ops.while_loop(lambda w: w.max() < v.min() + 2, lambda w: w + 0.5, v), x),
    "scan: list": lambda x: SCAN(lambda c, e: (c + e, c), x, [1, 2, 3]),
    "scan: tuple of tensors": lambda x: SCAN(lambda c, e: (c * e, (c, e)), x, (x, x + 1)),
    "scan: rows": lambda x: ops.scan(lambda c, e: (c + e, c * e), x.sum(), x),
    "scan: no elements": lambda x: SCAN(lambda c, e: (c * 2, c), x, None, 3),
    "scan: empty": lambda x: SCAN(lambda c, e: (c + e, c), x, []),
    "scan: other length": lambda x: SCAN(lambda c, e: (c + e, c), x, [1, 2, 3], 2),  # MS: ignored
    "fori": lambda x: FORI(0, 4, lambda i, v: v + i, x),
    "fori: rolled": lambda x: ops.fori_loop(0, 4, lambda i, v: v + i, x, unroll=False),
    "fori: numbers": lambda x: FORI(0, 4, lambda i, v: v + i, 0),
    "fori: empty": lambda x: FORI(4, 0, lambda i, v: v + i, x),
    "fori: tensors": lambda x: FORI(Tensor(0), Tensor(4), lambda i, v: v + i, x),
    "fori: run time": lambda x: FORI(1, x.sum().astype(ms.int64) + 2, lambda i, v: v * 2 + i, x),
    "cond: then": lambda x: ops.cond(
        x.sum() > 2, lambda a, b: (a + b, b), lambda a, b: (a - b, a), x, x * 3),
    "cond: else": lambda x: ops.cond(
        x.sum() > 20, lambda a, b: (a + b, b), lambda a, b: (a - b, a), x, x * 3),
    "cond: known": lambda x: ops.cond(True, lambda a: a, lambda a: a * 2, x),
    "cond: no operands": lambda x: ops.cond(x.min() > 2, lambda: x, lambda: x * 2),
}


@pytest.mark.parametrize("fn", SAME.values(), ids=SAME)
def test_both_modes_agree(fn: Callable[[Tensor], Any]) -> None:
    eager, compiled = (plain(in_mode(m, fn)(Tensor(ONES))) for m in MODES)
    assert eager == compiled


def test_values_are_those_of_mindspore() -> None:
    for mode in MODES:
        x = Tensor(ONES)
        assert in_mode(mode, SAME["while: numbers"])(x) == 10
        assert in_mode(mode, SAME["fori: numbers"])(x) == 6
        n, y = in_mode(mode, SAME["while: number and tensor"])(x)
        assert n == 4
        assert y.asnumpy().tolist() == [16.0] * 3
        carry, ys = in_mode(mode, SAME["scan: list"])(x)
        assert carry.asnumpy().tolist() == [7.0] * 3
        assert isinstance(ys, list)
        assert [y.asnumpy()[0] for y in ys] == [1, 2, 4]


WRONG: dict[str, tuple[Callable[[Tensor], Any], type[Exception], str]] = {
    "while: no condition": (
        lambda x: WHILE(3, lambda v: v, x), TypeError, "'cond_func' must be a function"),  # MS
    "while: no body": (
        lambda x: WHILE(lambda v: False, 3, x), TypeError, "'loop_func' must be a function"),  # MS
    "while: shape": (
        lambda x: WHILE(lambda v: v.sum() < 10, lambda v: ops.concat((v, v)), x), ValueError,
        r"shape \(3,\).*shape \(6,\)"),
    "while: dtype": (
        lambda x: WHILE(lambda v: v.sum() < 10, lambda v: (v * 2).astype(ms.float64), x),
        ValueError, "Float32 and returns .* Float64"),
    "while: structure": (
        lambda x: WHILE(lambda v: v[0].sum() < 10, lambda v: (v[0] * 2, v[0]), (x,)),
        ValueError, "a tuple of 1 and returns a tuple of 2"),
    "while: place": (
        lambda x: WHILE(lambda v: v["a"][0].sum() < 10,
                        lambda v: {"a": [v["a"][0] * 2, v["a"][1].sum()]}, {"a": [x, x]}),
        ValueError, r"in the place \['a'\]\[1\]"),
    "scan: result": (
        lambda x: SCAN(lambda c, e: c, x, (x, x)), ValueError, "a tuple of two"),  # MS
    "scan: length": (lambda x: SCAN(lambda c, e: (c, e), x, None), TypeError, "'length'"),
    "scan: xs": (lambda x: SCAN(lambda c, e: (c, e), x, 3), TypeError, "'xs'"),
    "scan: unroll": (
        lambda x: SCAN(lambda c, e: (c, e), x, [1], 1, 5), TypeError, "'unroll' must be a bool"),
    "fori: float": (
        lambda x: FORI(0.0, 4, lambda i, v: v, x), TypeError, "'lower' must be an int"),  # MS
    "fori: bool": (
        lambda x: FORI(0, True, lambda i, v: v, x), TypeError, "'upper' must be an int"),  # MS
    "fori: shape": (
        lambda x: FORI(0, 3, lambda i, v: ops.concat((v, v)), x), ValueError, "'ForiLoop'"),
    "cond: no function": (
        lambda x: ops.cond(x.sum() > 2, 3, 4, x), TypeError, "'true_fun' must be a function"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("fn", "kind", "message"), WRONG.values(), ids=WRONG)
def test_errors(
    fn: Callable[[Tensor], Any], kind: type[Exception], message: str, mode: int
) -> None:
    with pytest.raises(kind, match=message):
        in_mode(mode, fn)(Tensor(ONES))


GRADIENTS = {
    "while": lambda x, w: ops.while_loop(
        lambda v: v.sum() < 40, lambda v: ops.tanh(v * w) * 3 + v, x).sum(),
    "fori": lambda x, w: ops.fori_loop(
        0, w.sum().astype(ms.int64), lambda i, v: ops.sin(v * w) + v * i, x).sum(),
    "scan": lambda x, w: ops.scan(lambda c, e: (ops.tanh(c * e + w), c), x, w)[0].sum(),
    "cond": lambda x, w: ops.cond(
        x.sum() > 2, lambda a: (a * w).sum(), lambda a: (a - w).sum(), x),
    "two carried": lambda x, w: ops.while_loop(
        lambda v: v[1].sum() < 30, lambda v: (v[0] * w + v[1], v[1] + w), (x, w))[0].sum(),
}


@pytest.mark.parametrize("fn", GRADIENTS.values(), ids=GRADIENTS)
def test_gradients(fn: Callable[..., Tensor]) -> None:
    rng = np.random.default_rng(3)
    x, w = (Tensor((rng.random(3) + 0.5).astype(np.float32)) for _ in range(2))
    found = []
    for mode in MODES:
        found.append(plain(in_mode(mode, ms.value_and_grad(fn, (0, 1)))(x, w)))
    assert found[0] == found[1]


class Chooser(nn.Cell):
    """A layer chosen by a tensor, and a function from a list."""

    def __init__(self, count: int) -> None:
        super().__init__()
        rng = np.random.default_rng(0)
        self.layers = nn.CellList([nn.Dense(3, 3) for _ in range(count)])
        self.functions = [ops.tanh, ops.sin, lambda x: x * x]
        for p in self.get_parameters():
            p.set_data(Tensor(rng.standard_normal(p.shape).astype(np.float32)))

    def construct(self, x, i):
        return self.layers[i](x) + self.functions[i % 3](x)


@pytest.mark.parametrize(("count", "index"), [(1, 0), (1, -1), (2, 1), (5, 0), (5, 3), (5, -2)])
def test_cells_chosen_by_an_index(count: int, index: int) -> None:
    net = Chooser(count)
    step = ms.value_and_grad(net, 0, net.trainable_params())
    x = Tensor(np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3))
    found = []
    for mode in MODES:
        ms.set_context(mode=mode)
        found.append(plain(step(x, Tensor(index))))
    assert found[0] == found[1]


def test_a_choice_among_many_cells_is_not_deep() -> None:
    """130 candidates: no limit of nesting is met."""
    net = Chooser(130)
    x = Tensor(np.ones((1, 3), np.float32))
    for mode in MODES:
        ms.set_context(mode=mode)
        got = net(x, Tensor(77))
        third = (ops.tanh(x), ops.sin(x), x * x)[77 % 3]
        want = net.layers[77](x) + third
        np.testing.assert_array_equal(got.asnumpy(), want.asnumpy())


@pytest.mark.parametrize("index", [2, -3])
@pytest.mark.parametrize("mode", MODES)
def test_an_index_out_of_range_is_an_error(index: int, mode: int) -> None:
    net = Chooser(2)
    ms.set_context(mode=mode)
    with pytest.raises(IndexError, match=str(index)):
        net(Tensor(np.ones((1, 3), np.float32)), Tensor(index))
