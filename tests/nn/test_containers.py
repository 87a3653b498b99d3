"""Containers of Cells: contents, names of parameters, use in both modes, errors."""

from __future__ import annotations

import re
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
    ("make", "error", "text"),
    [
        (lambda: nn.SequentialCell(3), TypeError,
         "For 'SequentialCell', the 'args[0]' must be Cell, list or orderedDict, but got int"),
        (lambda: nn.SequentialCell([nn.ReLU(), 3]), TypeError,
         "For 'SequentialCell', each cell must be subclass of Cell, but got int"),
        (lambda: nn.CellList([3]), TypeError, "each cell must be subclass of Cell, but got int"),
        (lambda: nn.CellDict([["a.b", nn.ReLU()]]), KeyError,
         "'For \\'CellDict\\', key can not contain \".\", but got key a.b'"),
        (lambda: nn.CellDict([["", nn.ReLU()]]), KeyError,
         "'For \\'CellDict\\', key can not be empty string \"\", but got key '"),
        (lambda: nn.CellDict({"keys": nn.ReLU()}), KeyError,
         "\"For 'CellDict', the key can not be same with the attributes of Cell"),
        (lambda: nn.Dense(0, 3), ValueError,
         "For 'Dense', 'in_channels' must be a positive int, but got 0"),
        (lambda: nn.Dense("a", 3), TypeError, "'in_channels' must be a positive int, but got 'a'"),
        (lambda: nn.Dense(3, 4, activation="foo"), KeyError,
         "The 'name' must be in ['softmin', 'softmax', 'softmax2d', 'logsoftmax'"),
        (lambda: nn.Dense(3, 4, has_bias=1), TypeError, "'has_bias' must be a bool, but got 1"),
        (lambda: nn.Dropout(p=1.0), ValueError,
         "For 'Dropout', 'p' must be a number in [0, 1), but got 1.0"),
        (lambda: nn.Conv2d(3, 4, 0), ValueError,
         "'kernel_size' must be a positive int or a tuple of 2, but got 0"),
        (lambda: nn.Conv2d(3, 4, "a"), TypeError,
         "For 'Conv2d', 'kernel_size' must be a positive int or a tuple of 2, but got 'a'"),
        (lambda: nn.Conv2d(3, 4, 3, pad_mode="foo"), ValueError,
         "'pad_mode' must be one of 'valid', 'same', 'pad', but got 'foo'"),
        (lambda: nn.Conv2d(3, 4, 3, padding=1), ValueError,
         "'padding' must be 0 unless 'pad_mode' is 'pad', but got 1 and 'same'"),
        (lambda: nn.Conv2d(3, 4, 3, group=2), ValueError,
         "'in_channels' and 'out_channels' must be divisible by 'group'"),
        (lambda: nn.Conv1d(3, 4, (3,)), TypeError,
         "For 'Conv1d', 'kernel_size' must be a positive int, but got ("),
        (lambda: nn.BatchNorm2d(0), ValueError, "'num_features' must be a positive int, but got 0"),
        (lambda: nn.BatchNorm2d(3, momentum=2), ValueError,
         "For 'BatchNorm2d', 'momentum' must be a number in [0, 1], but got 2"),
        (lambda: nn.LayerNorm(3), TypeError,
         "type of 'normalized_shape' must be tuple[int] or list[int]"),
        (lambda: nn.GroupNorm(3, 4), ValueError,
         "'num_channels' must be divided by 'num_groups'"),
        (lambda: nn.MaxPool2d(0), ValueError,
         "For 'MaxPool2d', the 'kernel_size' must be an positive int number or a tuple, but got 0"),
        (lambda: nn.MaxPool2d(2, padding=1), ValueError,
         "For MaxPool2d, padding and the options of windows can only be set when pad_mode is"),
        (lambda: nn.AdaptiveAvgPool2d("a"), TypeError,
         "For 'AdaptiveAvgPool2d', 'output_size' must be an int or a tuple, but got 'a'"),
        (lambda: nn.Embedding(3, 3, padding_idx=5), ValueError,
         "'padding_idx' must be in range of [0, 3), but got 5 with type 'int'"),
        (lambda: nn.PReLU(0), ValueError,
         "For 'PReLU', 'channel' must be a positive int, but got 0"),
        (lambda: nn.Pad([1, 1]), TypeError, "'paddings' must be a tuple, but got [1, 1]"),
        (lambda: nn.MSELoss("foo"), ValueError,
         "For 'MSELoss', 'reduction' must be one of 'mean', 'sum', 'none', but got 'foo'"),
        (lambda: nn.LSTM(0, 4), ValueError,
         "For 'LSTM', 'input_size' must be a positive int, but got 0"),
        (lambda: nn.RNN(3, 4, nonlinearity="foo"), ValueError,
         "For 'RNN', the 'nonlinearity' must be in ['tanh', 'relu'], but got foo"),
        (lambda: nn.MultiheadAttention(7, 2), ValueError,
         "The init argument 'embed_dim' must be divisible by 'num_heads'"),
        (lambda: nn.get_activation("foo"), KeyError,
         "\"The 'name' must be in ['softmin', 'softmax', 'softmax2d', 'logsoftmax'"),
    ],
)
def test_wrong_arguments(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        make()


def test_a_cell_that_is_held_twice_under_names() -> None:
    first, second = nn.ReLU(), nn.Tanh()
    cells = nn.SequentialCell(OrderedDict([("a", first), ("b", second)]))
    cells[1] = first
    assert list(cells.name_cells()) == ["a"]  # each cell once
    assert [c is first for c in cells] == [True, True]
    cells.append(second)
    assert list(cells) == [first, first, second]


def test_names_of_children_are_no_paths() -> None:
    for name in ("", "a.b"):
        with pytest.raises(KeyError, match="no dot"):
            nn.Cell().insert_child_to_cell(name, nn.ReLU())
