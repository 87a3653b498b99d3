"""`boost.GradientAccumulation`: several steps count as one, in both modes."""

from __future__ import annotations

import numpy as np
import pytest
from cellc.boost.grad_accumulation import gradient_accumulation_op, gradient_clear_op

import cellc as ms
from cellc import boost, nn


class Step(nn.Cell):
    def __init__(self, net: nn.Cell, optimizer: nn.Cell, steps: int) -> None:
        super().__init__(auto_prefix=False)
        self.value = ms.value_and_grad(net, None, optimizer.parameters)
        self.accumulate = boost.GradientAccumulation(steps, optimizer)

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        loss, grads = self.value(x)
        return self.accumulate(loss, grads)


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.w = ms.Parameter(ms.Tensor([1.0, 2.0]), name="w")

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        return (self.w * x).sum()


@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
def test_every_second_step_counts(mode: int) -> None:
    ms.set_context(mode=mode)
    net = Net()
    step = Step(net, nn.SGD(net.trainable_params(), 0.5), 2)
    w = np.array([1.0, 2.0])
    for i in range(4):
        assert float(step(ms.Tensor([1.0 + i, 2.0]))) == (w * [1.0 + i, 2.0]).sum()
        if i % 2:
            w = w - 0.5 * np.array([(i + i + 1) / 2, 2.0])
        assert np.allclose(net.w.asnumpy(), w)
    assert int(step.accumulate._accumulation_step.asnumpy()) == 0


def test_the_operations_by_themselves() -> None:
    total = ms.Parameter(ms.Tensor([1.0]), name="total")
    gradient_accumulation_op(4, total, ms.Tensor([2.0]))
    assert total.asnumpy().tolist() == [1.5]
    gradient_clear_op(total)
    assert total.asnumpy().tolist() == [0.0]


def test_a_number_of_steps_is_positive() -> None:
    with pytest.raises(ValueError, match="max_accumulation_step"):
        boost.GradientAccumulation(0, nn.SGD(Net().trainable_params()))
