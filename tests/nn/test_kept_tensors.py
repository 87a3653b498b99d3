"""Hooks on what gradients keep, and on Parameters, as the law of two modes wants them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops

MODES = [ms.PYNATIVE_MODE, ms.GRAPH_MODE]


def _in_both(make: Callable[[], Callable[..., Any]], *args: Tensor) -> list[list[np.ndarray]]:
    found = []
    for mode in MODES:
        ms.set_context(mode=mode)
        out = make()(*args)
        flat = out if isinstance(out, tuple) else (out,)
        found.append([t.asnumpy().copy() for t in flat])
    return found


def _same_bits(found: list[list[np.ndarray]]) -> None:
    for a, b in zip(*found, strict=True):
        assert a.dtype == b.dtype
        assert np.array_equal(a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}"))


def _halves(t: Tensor) -> Tensor:
    return t.astype(ms.float16)


def _wide(t: Tensor) -> Tensor:
    return t.astype(ms.float32)


def _itself(t: Tensor) -> Tensor:
    return t


def _network(x: Tensor, w: Tensor) -> Tensor:
    with ms.saved_tensors_hooks(_halves, _wide):
        h = ops.softmax(ops.matmul(x, w), axis=-1) * ops.tanh(x)
        if h.sum() > 0:
            h = h * h + ops.layer_norm(h, (4,), ops.ones(4), ops.zeros(4))
        return (h / (1 + ops.exp(x))).sum()


def _values(*shape: int) -> Tensor:
    n = int(np.prod(shape))
    return Tensor(np.cos(np.arange(n, dtype=np.float32) * 1.37).reshape(shape))


def test_a_network_keeps_halves_in_both_modes() -> None:
    found = _in_both(lambda: ms.grad(_network, (0, 1)), _values(3, 4), _values(4, 4))
    _same_bits(found)
    plain = ms.grad(lambda x, w: _without(x, w), (0, 1))(_values(3, 4), _values(4, 4))
    for a, b in zip(found[0], plain, strict=True):
        np.testing.assert_allclose(a, b.asnumpy(), rtol=0.1, atol=5e-3)
        assert not np.array_equal(a, b.asnumpy())


def _without(x: Tensor, w: Tensor) -> Tensor:
    with ms.saved_tensors_hooks(_itself, _itself):
        with ms.saved_tensors_hooks(lambda t: t * 1, lambda t: t / 1):
            h = ops.softmax(ops.matmul(x, w), axis=-1) * ops.tanh(x)
            if h.sum() > 0:
                h = h * h + ops.layer_norm(h, (4,), ops.ones(4), ops.zeros(4))
        return (h / (1 + ops.exp(x))).sum()


@pytest.mark.parametrize("order", [1, 2, 3])
def test_hooks_that_change_nothing_change_no_derivative(order: int) -> None:
    def plain(x: Tensor) -> Tensor:
        return ops.sin(x) * x * x

    def hooked(x: Tensor) -> Tensor:
        with ms.saved_tensors_hooks(_itself, _itself):
            return ops.sin(x) * x * x

    def derived(fn: Any) -> Any:
        for _ in range(order):
            fn = ms.grad(fn)
        return fn

    x = _values(5)
    found = _in_both(lambda: derived(hooked), x)
    _same_bits(found)
    _same_bits([found[0], [derived(plain)(x).asnumpy()]])


def test_a_marked_cell_keeps_through_the_hooks_too() -> None:
    class Block(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = ms.Parameter(_values(4), name="w")

        def construct(self, x: Tensor) -> Tensor:
            return ops.exp(x * self.w) * x

    def make() -> Any:
        net = Block()
        net.register_saved_tensors_hooks(_halves, _wide)
        net.register_parameter_forward_hook(lambda p: p * 2)
        net.recompute()
        return ms.grad(net, 0, net.trainable_params())

    found = []
    for mode in MODES:
        ms.set_context(mode=mode)
        dx, (dw,) = make()(_values(4))
        found.append([dx.asnumpy(), dw.asnumpy()])
    _same_bits(found)


@pytest.mark.parametrize("mode", MODES)
def test_registering_after_a_call_counts(mode: int) -> None:
    ms.set_context(mode=mode)
    net = nn.Dense(2, 2, "ones", has_bias=False)
    x = Tensor(np.ones((1, 2), np.float32))
    assert net(x).asnumpy().tolist() == [[2.0, 2.0]]
    net.register_saved_tensors_hooks(_itself, _itself)
    assert net(x).asnumpy().tolist() == [[2.0, 2.0]]
    net.register_parameter_forward_hook([{"params": [net.weight], "hook": lambda p: p * 3}])
    assert net(x).asnumpy().tolist() == [[6.0, 6.0]]
    assert net.weight.asnumpy().tolist() == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("pack", "unpack", "kind", "text"), [
    (_itself, lambda t: 3, TypeError, "must return a Tensor, but returned int"),
    (_itself, lambda t: ops.ones(3), ValueError, r"shape that was packed, \(2,\)"),
    (_halves, _itself, TypeError, "dtype that was packed, Float32, but returned Float16"),
    (lambda t: t.add_(1), _itself, RuntimeError, "changed the tensor it was given in place"),
])
def test_errors(mode: int, pack: Any, unpack: Any, kind: type[Exception], text: str) -> None:
    ms.set_context(mode=mode)

    def fn(x: Tensor) -> Tensor:
        with ms.saved_tensors_hooks(pack, unpack):
            return x * x

    with pytest.raises(kind, match=text):
        ms.grad(fn)(Tensor([1.0, 2.0]))


def test_what_is_no_function() -> None:
    for pair in ((1, _itself), (_itself, None)):
        with pytest.raises(TypeError, match="must be a function"):
            ms.saved_tensors_hooks(*pair)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="decorates a function"):
        ms.register_saved_tensors_hooks(_itself, _itself)(3)


def test_a_failing_pack_leaves_nothing_behind() -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)

    def broken(t: Tensor) -> Tensor:
        raise OSError("disk full")

    def fn(x: Tensor) -> Tensor:
        with ms.saved_tensors_hooks(broken, _itself):
            return x * x

    with pytest.raises(OSError, match="disk full"):
        ms.grad(fn)(Tensor([1.0]))
    assert ms.grad(lambda x: x * x)(Tensor([3.0])).asnumpy().tolist() == [6.0]


@pytest.mark.parametrize("mode", MODES)
def test_none_of_a_bprop_adds_nothing(mode: int) -> None:
    class Half(nn.Cell):
        def construct(self, x: Tensor, y: Tensor) -> Tensor:
            return x + y

        def bprop(self, x: Tensor, y: Tensor, out: Tensor, dout: Tensor) -> Any:
            return dout, None

    ms.set_context(mode=mode)
    half = Half()
    # What comes back to y from the product is -0.0; None adds nothing to it.
    dy = ms.grad(lambda x, y: half(x, y) + y * Tensor([-0.0]), 1)(Tensor([1.0]), Tensor([2.0]))
    assert np.signbit(dy.asnumpy()).tolist() == [True]


def test_dlpack() -> None:
    t = Tensor([1.0, 2.0])
    again = ms.from_dlpack(ms.to_dlpack(t))
    again[0] = 5.0
    assert t.asnumpy().tolist() == [5.0, 2.0]
    assert ms.from_dlpack(np.arange(3)).asnumpy().tolist() == [0, 1, 2]
    capsule = ms.to_dlpack(t)
    ms.from_dlpack(capsule)
    with pytest.raises(ValueError, match="cannot take this PyCapsule"):
        ms.from_dlpack(capsule)
    with pytest.raises(TypeError, match="takes a DLPack capsule"):
        ms.from_dlpack([1.0])
    with pytest.raises(TypeError, match="takes a Tensor"):
        ms.to_dlpack(np.ones(2))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="cannot be given by DLPack"):
        ms.to_dlpack(Tensor([1.0], ms.bfloat16))


@pytest.mark.parametrize("mode", MODES)
def test_swapped_parameters_of_a_network(mode: int) -> None:
    ms.set_context(mode=mode)
    net = nn.SequentialCell(nn.Dense(2, 2, "ones", has_bias=False),
                            nn.Dense(2, 2, "zeros", has_bias=False))
    x = Tensor(np.ones((1, 2), np.float32))
    assert net(x).asnumpy().tolist() == [[0.0, 0.0]]
    other = ms.Parameter(Tensor(np.full((2, 2), 3.0, np.float32)), name="other")
    ms.swap_tensors(net[1].weight, other)
    assert net(x).asnumpy().tolist() == [[12.0, 12.0]]
    assert (net[1].weight.name, other.name) == ("other", "1.weight")


def test_set_mixed_precision_type() -> None:
    net = nn.SequentialCell(nn.Dense(2, 2), nn.Dense(2, 2))
    kind = type(net.get_mixed_precision_type())
    net[0].set_mixed_precision_type(kind.FP16)
    assert net[0](Tensor(np.ones((1, 2), np.float32))).dtype == ms.float16
    assert net[1].get_mixed_precision_type() is kind.NOTSET
    net[0].set_mixed_precision_type(kind.NOTSET)
    assert net[0](Tensor(np.ones((1, 2), np.float32))).dtype == ms.float32
    with pytest.raises(TypeError, match="takes a MixedPrecisionType"):
        net.set_mixed_precision_type("fp16")  # type: ignore[arg-type]
