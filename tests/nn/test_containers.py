"""Containers of Cells: contents, names of parameters, use in both modes, errors."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn


def _names(cell: nn.Cell) -> list[str]:
    return [p.name for p in cell.get_parameters()]


def test_sequential_cell_edits() -> None:
    net = nn.SequentialCell(nn.Dense(2, 3), nn.ReLU())
    net.append(nn.Dense(3, 4))
    assert _names(net) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert len(net) == 3 and isinstance(net[-2], nn.ReLU)
    net[1] = nn.Tanh()
    assert isinstance(net[1], nn.Tanh)
    assert [type(c).__name__ for c in net[1:]] == ["Tanh", "Dense"]
    del net[1]
    assert [type(c).__name__ for c in net] == ["Dense", "Dense"]
    with pytest.raises(IndexError, match=r"must be a number in range \[-2, 2\), but got 2"):
        net[2]


def test_sequential_cell_with_names() -> None:
    net = nn.SequentialCell(OrderedDict([("first", nn.Dense(2, 3)), ("act", nn.ReLU())]))
    assert _names(net) == ["first.weight", "first.bias"]
    assert list(net.name_cells()) == ["first", "act"]


class _Blocks(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.CellList([nn.Dense(2, 2) for _ in range(2)])
        self.named = nn.CellDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})

    def construct(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return self.named["tanh"](x) + self.blocks[0](x)


def test_lists_and_dicts_in_both_modes() -> None:
    net = _Blocks()
    assert _names(net) == [f"blocks.{i}.{n}" for i in (0, 1) for n in ("weight", "bias")]
    x = ms.Tensor(np.ones((3, 2), np.float32))
    ms.set_context(mode=ms.PYNATIVE_MODE)
    eager = net(x).asnumpy()
    ms.set_context(mode=ms.GRAPH_MODE)
    np.testing.assert_array_equal(net(x).asnumpy(), eager)


def test_a_change_of_a_sequential_cell_is_seen() -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    net = nn.SequentialCell(nn.ReLU())
    x = ms.Tensor(np.array([-1.0, 2.0], np.float32))
    assert net(x).asnumpy().tolist() == [0.0, 2.0]
    net.append(nn.Threshold(3.0, 7.0))
    assert net(x).asnumpy().tolist() == [7.0, 7.0]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: nn.SequentialCell(3), TypeError),
        (lambda: nn.SequentialCell([nn.ReLU(), 3]), TypeError),
        (lambda: nn.CellList([3]), TypeError),
        (lambda: nn.CellDict([["a.b", nn.ReLU()]]), KeyError),
        (lambda: nn.CellDict([["", nn.ReLU()]]), KeyError),
        (lambda: nn.CellDict({"keys": nn.ReLU()}), KeyError),
        (lambda: nn.Dense(0, 3), ValueError),
        (lambda: nn.Dense("a", 3), TypeError),
        (lambda: nn.Dense(3, 4, activation="foo"), KeyError),
        (lambda: nn.Dense(3, 4, has_bias=1), TypeError),
        (lambda: nn.Dropout(p=1.0), ValueError),
        (lambda: nn.Conv2d(3, 4, 0), ValueError),
        (lambda: nn.Conv2d(3, 4, "a"), TypeError),
        (lambda: nn.Conv2d(3, 4, 3, pad_mode="foo"), ValueError),
        (lambda: nn.Conv2d(3, 4, 3, padding=1), ValueError),
        (lambda: nn.Conv2d(3, 4, 3, group=2), ValueError),
        (lambda: nn.Conv1d(3, 4, (3,)), TypeError),
        (lambda: nn.BatchNorm2d(0), ValueError),
        (lambda: nn.BatchNorm2d(3, momentum=2), ValueError),
        (lambda: nn.LayerNorm(3), TypeError),
        (lambda: nn.GroupNorm(3, 4), ValueError),
        (lambda: nn.MaxPool2d(0), ValueError),
        (lambda: nn.MaxPool2d(2, padding=1), ValueError),
        (lambda: nn.AdaptiveAvgPool2d("a"), TypeError),
        (lambda: nn.Embedding(3, 3, padding_idx=5), ValueError),
        (lambda: nn.PReLU(0), ValueError),
        (lambda: nn.Pad([1, 1]), TypeError),
        (lambda: nn.MSELoss("foo"), ValueError),
        (lambda: nn.LSTM(0, 4), ValueError),
        (lambda: nn.RNN(3, 4, nonlinearity="foo"), ValueError),
        (lambda: nn.MultiheadAttention(7, 2), ValueError),
        (lambda: nn.get_activation("foo"), KeyError),
    ],
)
def test_wrong_arguments(make: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        make()
