"""Buffers and the state of Cells: registration, paths, loading, in both modes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn


class Inner(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("shift", ms.Tensor([1.0, 2.0]))
        self.register_buffer("scratch", ms.Tensor([0.0]), persistent=False)
        self.w = ms.Parameter(ms.Tensor([1.0, 1.0]))

    def construct(self, x: Any) -> Any:
        """x * w + shift"""
        return x * self.w + self.shift


class Outer(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.register_buffer("scale", ms.Tensor([3.0]))

    def construct(self, x: Any) -> Any:
        """inner(x) * scale"""
        return self.inner(x) * self.scale


def test_paths() -> None:
    net = Outer()
    assert list(net.state_dict()) == ["scale", "inner.w", "inner.shift"]
    assert [n for n, _ in net.named_buffers()] == ["scale", "inner.shift", "inner.scratch"]
    assert [n for n, _ in net.named_buffers(recurse=False)] == ["scale"]
    assert net.get_buffer("inner.shift") is net.inner.shift
    assert net.get_sub_cell("inner") is net.inner
    assert [p.name for p in net.trainable_params()] == ["inner.w"]
    with pytest.raises(AttributeError, match="no buffer named"):
        net.get_buffer("inner.w")
    with pytest.raises(AttributeError, match="no cell named"):
        net.get_sub_cell("inner.w")


def test_loaded_values_are_computed_with(mode: str) -> None:
    net, x = Outer(), ms.Tensor([1.0, 1.0])
    assert net(x).asnumpy().tolist() == [6.0, 9.0]
    given = {"scale": ms.Tensor([1.0]), "inner.w": ms.Tensor([2.0, 2.0]),
             "inner.shift": ms.Tensor([10.0, 20.0])}
    net.load_state_dict(given)
    assert net(x).asnumpy().tolist() == [12.0, 22.0]
    net.inner.shift = ms.Tensor([0.0, 5.0])
    assert net(x).asnumpy().tolist() == [2.0, 7.0]
    assert net.state_dict()["inner.shift"].asnumpy().tolist() == [0.0, 5.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [({"scale": None}, "missing: scale"), ({"more": ms.Tensor([1.0])}, "unexpected: more"),
     ({"inner.w": ms.Tensor([1.0])}, "size mismatch for inner.w")],
)
def test_nothing_is_loaded_of_a_wrong_state(change: dict[str, Any], message: str) -> None:
    net = Outer()
    given = {k: ms.Tensor(v.asnumpy() + 1) for k, v in net.state_dict().items()} | change
    given = {k: v for k, v in given.items() if v is not None}
    before = {k: v.asnumpy().copy() for k, v in net.state_dict().items()}
    with pytest.raises(RuntimeError, match=message):
        net.load_state_dict(given)
    after = net.state_dict()
    assert all(np.array_equal(before[k], after[k].asnumpy()) for k in before)


def test_partial_state() -> None:
    net = Outer()
    missing, unexpected = net.load_state_dict(
        {"scale": ms.Tensor([7.0]), "more": ms.Tensor([1.0])}, strict=False
    )
    assert (missing, unexpected) == (["inner.w", "inner.shift"], ["more"])
    assert net.scale.asnumpy().tolist() == [7.0]


@pytest.mark.parametrize(
    ("name", "value", "error", "text"),
    [("a.b", ms.Tensor([1.0]), KeyError,
      "a buffer name must not be empty or contain a dot, but got 'a.b'"),
     ("", ms.Tensor([1.0]), KeyError,
      "a buffer name must not be empty or contain a dot, but got ''"),
     ("construct", ms.Tensor([1.0]), KeyError, "attribute 'construct' already exists"),
     ("x", 3, TypeError, "cannot assign int as the buffer 'x': a Tensor or None is wanted"),
     (3, None, TypeError, "buffer name should be a string, but got int")],
)
def test_what_is_no_buffer(name: Any, value: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        nn.Cell().register_buffer(name, value)


def test_inserted_and_deleted_cells_rename_parameters() -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.CellList([nn.Dense(2, 2, has_bias=False)])

    net = Net()
    first = net.layers[0].weight
    net.layers.insert(0, nn.Dense(2, 2, has_bias=False))
    assert [p.name for p in net.get_parameters()] == ["layers.0.weight", "layers.1.weight"]
    assert first.name == "layers.1.weight"
    del net.layers[0]
    assert first.name == "layers.0.weight"


def test_initialised_parameters_are_a_map_of_each_to_itself() -> None:
    net = nn.Dense(2, 2)
    assert all(a is b for a, b in net.init_parameters_data().items())
