"""Names of parameters in containers, which published checkpoints depend on.

`container_names.json` holds what MindSpore 2.10 gave for some random programs
(`program_containers.py`); where MindSpore is installed, several hundred others are compared.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn

from ..others import mindspore, needs_oracle
from .program_containers import Builder

HERE = Path(__file__).parent
RECORDED: dict[str, Any] = json.loads((HERE / "container_names.json").read_text())


def _ours(seed: int) -> Any:
    return json.loads(json.dumps(Builder(ms, seed).run()))


def _block() -> nn.Cell:
    block = nn.Cell()
    block.blocks = nn.CellList([nn.Dense(1, 1, has_bias=False) for _ in range(2)])
    return block


def test_lists_that_grow_as_attributes() -> None:
    """What Swin and others of its kind are made of."""
    net = nn.Cell()
    net.layers = nn.CellList()
    for _ in range(2):
        net.layers.append(_block())
    assert [p.name for p in net.get_parameters()] == [
        "0.blocks.0.weight", "0.blocks.1.weight",
        "0.blocks.1.blocks.0.weight", "0.blocks.1.blocks.1.weight"]


@pytest.mark.parametrize("seed", RECORDED)
def test_recorded(seed: str) -> None:
    assert _ours(int(seed)) == RECORDED[seed]


@needs_oracle
def test_random_programs() -> None:
    seeds = list(range(1000, 1400))
    theirs = mindspore(HERE / "program_containers.py", ["mindspore"], given=seeds)
    different = [s for s, names in zip(seeds, theirs, strict=True) if _ours(s) != names]
    assert different == []


def _ones() -> nn.Cell:
    return nn.Dense(2, 2, weight_init="ones", has_bias=False)


class _Sliced(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.SequentialCell([_ones() for _ in range(3)])
        self.more = nn.CellList([_ones() for _ in range(3)])

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        x = self.layers[1:](x)
        for cell in self.more[:2]:
            x = cell(x)
        return x


def test_slices_within_construct() -> None:
    """The same in both modes; a graph leaves the names as they are."""
    x = ms.Tensor(np.ones((1, 2), np.float32))
    ms.set_context(mode=ms.GRAPH_MODE)
    net = _Sliced()
    before = [p.name for p in net.get_parameters()]
    assert net(x).asnumpy().tolist() == [[16.0, 16.0]]
    assert [p.name for p in net.get_parameters()] == before
    ms.set_context(mode=ms.PYNATIVE_MODE)
    assert net(x).asnumpy().tolist() == [[16.0, 16.0]]


def test_an_empty_container_is_no_cell_of_a_network() -> None:
    net = nn.Cell()
    net.empty, net.layer = nn.CellList(), nn.Dense(1, 1)
    assert [path for path, _ in net.cells_and_names()] == ["", "layer"]
