"""What Cells and Parameters say of several processes, done on ranks that threads play."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, nn, ops
from cellc.testing.ranks import run_ranks


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    yield
    ms.reset_auto_parallel_context()


class Net(nn.Cell):
    """y = x * shared * own."""

    def __init__(self, start: float = 1.0) -> None:
        super().__init__()
        self.shared = Parameter(Tensor(np.full(4, start, np.float32)), name="shared")
        self.own = Parameter(Tensor(np.full(4, start, np.float32)), name="own")
        self.own.layerwise_parallel = True
        self.relu = ops.ReLU()

    def construct(self, x: Any) -> Any:
        return (self.relu(x) * self.shared * self.own).sum()


def test_slices_by_layouts() -> None:
    """A mesh of 2 x 2: the first axis of a matrix along its last axis, and the second one along
    its first."""
    whole = np.arange(24, dtype=np.float32).reshape(4, 6)

    def run(rank: int) -> Any:
        net = nn.Dense(6, 4, Tensor(whole))
        net.parameter_layout_dict = {"weight": [[2, 2], [0, 1], [2, 3]], "absent": [[4], [0]]}
        net.load_parameter_slice(None)
        net.load_parameter_slice(None)  # cut once
        net.set_parallel_input_with_inputs(Tensor(whole), 3)
        return net.weight.asnumpy(), net.weight.sliced, net.bias.shape, net._parallel_inputs_run

    for rank, (part, sliced, bias, inputs) in enumerate(run_ranks(4, run)):
        first, last = divmod(rank, 2)
        assert np.array_equal(part, whole[2 * last : 2 * last + 2, 3 * first : 3 * first + 3])
        assert sliced and bias == (4,) and inputs[1] == 3
        assert np.array_equal(inputs[0].asnumpy(), whole[rank : rank + 1])
    with pytest.raises(RuntimeError, match=r"over \(2, 2\) devices, but there are 2 ranks"):
        run_ranks(2, run)
    with pytest.raises(ValueError, match="axis 0 of 4 cannot be cut into 3 parts"):
        run_ranks(3, lambda r: nn.Cell().set_parallel_input_with_inputs(Tensor(whole)))


@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
@pytest.mark.parametrize(("flag", "started"), [(True, 1.0), (False, 2.0), (None, 2.0)])
def test_flags_of_training(mode: int, flag: bool | None, started: float) -> None:
    """`set_broadcast_flag` decides with whose parameters it starts; what is `layerwise_parallel`
    is never sent, and its gradient not added up."""
    ms.set_context(mode=mode)
    ms.set_seed(1)
    ms.set_auto_parallel_context(parallel_mode="data_parallel")

    def run(rank: int) -> list[Any]:
        net = Net(rank + 1.0)
        if flag is not None:
            net.set_broadcast_flag(flag)
        step = nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 1.0))
        before = net.shared.asnumpy()[0], net.own.asnumpy()[0]
        step(Tensor(np.float32([1, 1, 1, 1]) * (rank + 1)))
        return [*before, before[0] - net.shared.asnumpy()[0], before[1] - net.own.asnumpy()[0]]

    for rank, (shared, own, shared_slope, own_slope) in enumerate(run_ranks(2, run)):
        assert shared == (1.0 if rank == 0 else started) and own == rank + 1
        assert own_slope == (rank + 1) * shared  # of this rank alone
        assert shared_slope == 1 * 1 + 2 * 2  # x times own, of both


def test_marks_of_cells() -> None:
    net = nn.SequentialCell(Net())
    net.set_data_parallel()
    assert net[0].relu.strategy_gen_mode == "data_parallel"
    net.set_auto_parallel()
    assert net.get_flags()["auto_parallel"] is True
    lazy = Net()
    lazy.parallel_parameter_name_list = ["own"]
    assert list(lazy.init_parameters_data(auto_parallel_mode=True)) == [lazy.own]
    assert list(lazy.init_parameters_data()) == [lazy.shared, lazy.own]
