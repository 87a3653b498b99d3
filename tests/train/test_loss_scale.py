"""Loss scaling: scalers, managers, update Cells and training steps that skip an overflow."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, amp, nn, ops

from ..modes.law import ONCE
from ..others import mindspore

pytestmark = pytest.mark.usefixtures("mode")


def test_a_static_scale():
    scaler = amp.StaticLossScaler(2**10)
    assert scaler.scale(Tensor([1.0], ms.float32)).asnumpy().tolist() == [1024]
    grads = (Tensor(np.array([1.5, 1.0]), ms.float16), Tensor(np.array([1.2]), ms.float16))
    back = scaler.unscale(grads)
    assert [g.dtype for g in back] == [ms.float16] * 2
    assert np.allclose(back[0].asnumpy(), [1.4648e-3, 9.7656e-4], rtol=1e-3)
    assert scaler.adjust(Tensor(False)) is False


@pytest.mark.parametrize("compiled", [False, True])
def test_a_dynamic_scale_follows_overflows(compiled):
    scaler = amp.DynamicLossScaler(1024, 2, 3)
    adjust = ms.jit(lambda ok: scaler.adjust(ok)) if compiled else scaler.adjust
    found = []
    for finite in (True, True, False, True, True, True, True, False, False):
        assert adjust(Tensor(finite))
        found.append((scaler.scale_value.asnumpy().item(), scaler.counter.asnumpy().item()))
    assert found == [(1024, 1), (1024, 2), (512, 0), (512, 1), (512, 2), (1024, 0), (1024, 1),
                     (512, 0), (256, 0)]


def test_the_scale_stays_between_one_and_infinity():
    low = amp.DynamicLossScaler(1.5, 2, 1)
    low.adjust(Tensor(False))
    assert low.scale_value.asnumpy() == 1.0
    high = amp.DynamicLossScaler(3e38, 2, 1)
    high.adjust(Tensor(True))
    assert high.scale_value.asnumpy() == np.float32(3e38)


def test_all_finite():
    good, bad = Tensor([1.0, 2.0]), Tensor([1.0, np.inf])
    assert amp.all_finite((good, [good])).asnumpy()
    assert not amp.all_finite((good, bad)).asnumpy()
    assert not ms.jit(lambda x: amp.all_finite((x,)))(Tensor([np.nan])).asnumpy()
    with pytest.raises(ValueError, match="must hold a Tensor"):
        amp.all_finite(())


def drive(ms, overflows):
    """The scale after each step, by the update Cell and by the manager."""
    cell = ms.nn.DynamicLossScaleUpdateCell(64.0, 2, 3)
    scale = ms.Parameter(ms.Tensor(64.0, ms.float32), name="scale")
    manager = ms.amp.DynamicLossScaleManager(64.0, 2, 3)
    out = []
    for overflow in overflows:
        cell(scale, ms.Tensor(overflow))
        manager.update_loss_scale(overflow)
        out.append([float(scale.asnumpy()), float(manager.get_loss_scale())])
    return out


PATTERN = [False, False, False, True, False, False, False, False, True, True] + [True] * 8 + \
    [False] * 8  # fmt: skip
FACTS = [[64, 64], [64, 64], [128, 128], [64, 64], [64, 64], [64, 64], [128, 128], [128, 128],
         [64, 64], [32, 32], [16, 16], [8, 8], [4, 4], [2, 2], [1, 1], [1, 1], [1, 1], [1, 1],
         [1, 1], [1, 1], [2, 2], [2, 2], [2, 2], [4, 4], [4, 4], [4, 4]]


def test_update_cells_and_managers():
    assert drive(ms, PATTERN) == FACTS
    assert nn.FixedLossScaleUpdateCell(212)(Tensor(1.0), Tensor(True)).asnumpy()
    assert nn.FixedLossScaleUpdateCell(212).get_loss_scale() == 212


def test_updates_are_mindspore_s():
    text = (f"import json, mindspore as ms, mindspore.amp\n{inspect.getsource(drive)}\n"
            f"print(json.dumps(drive(ms, {PATTERN})))")
    assert mindspore(text) == FACTS


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.weight = Parameter(Tensor(np.full((3, 2), 0.5, np.float32)), name="weight")

    def construct(self, x):
        return ops.matmul(x, self.weight)


def step(scale, optimizer=None):
    net = Net()
    with_loss = nn.WithLossCell(net, nn.MSELoss())
    optimizer = optimizer or nn.Momentum(net.trainable_params(), 0.1, 0.9)
    return net, nn.TrainOneStepWithLossScaleCell(with_loss, optimizer, scale)


X = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
Y = Tensor(np.ones((2, 2), np.float32))


def test_a_scaled_step_is_the_unscaled_step():
    plain = Net()
    cell = nn.TrainOneStepCell(nn.WithLossCell(plain, nn.MSELoss()),
                               nn.Momentum(plain.trainable_params(), 0.1, 0.9))
    net, scaled = step(nn.DynamicLossScaleUpdateCell(2**12, 2, 1000))
    for _ in range(3):
        loss = cell(X, Y)
        again, overflow, scale = scaled(X, Y)
        assert np.array_equal(loss.asnumpy(), again.asnumpy())
        assert not overflow.asnumpy()
        assert scale.asnumpy() == 4096
    assert np.array_equal(plain.weight.asnumpy(), net.weight.asnumpy())


def test_an_overflowing_step_is_skipped_and_the_scale_falls():
    net, train = step(nn.DynamicLossScaleUpdateCell(2.0**100, 2.0**20, 2))
    before = net.weight.asnumpy().copy()
    big = X * 1e10
    scales, skipped = [], []
    for x in (big, big, X, X, X):
        _, overflow, scale = train(x, Y)
        scales.append(float(scale.asnumpy()))
        skipped.append(bool(overflow.asnumpy()))
        if skipped[-1]:
            assert np.array_equal(before, net.weight.asnumpy())
    assert skipped[0] and not skipped[-1]
    assert scales[:2] == [2.0**100, 2.0**80]
    assert not np.array_equal(before, net.weight.asnumpy())
    assert train.scale_sense.asnumpy() >= 1


def test_a_scale_set_by_hand():
    _, train = step(Tensor([1024.0], ms.float32))
    scale = train(X, Y)[2]
    assert scale.asnumpy().tolist() == [1024]
    train.set_sense_scale(Tensor([1.0], ms.float32))
    assert train(X, Y)[2].asnumpy().tolist() == [1]
    with pytest.raises(TypeError, match="must be Tensor"):
        train.set_sense_scale(3)
    with pytest.raises(TypeError, match="must be Cell or Tensor"):
        step(3.0)
    with pytest.raises(ValueError, match=r"must be \(1,\) or \(\)"):
        step(Tensor([1.0, 2.0]))
    _, dynamic = step(nn.FixedLossScaleUpdateCell(8.0))
    with pytest.raises(ValueError, match="updated by a Cell"):
        dynamic.set_sense_scale(Tensor(1.0))


@ONCE
def test_both_modes_give_the_same_bits():
    found = []
    for each in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        ms.set_context(mode=each)
        net, train = step(nn.DynamicLossScaleUpdateCell(2.0**120, 2.0**10, 2))
        losses = [train(x, Y)[0].asnumpy() for x in (X * 1e9, X, X, X)]
        found.append((net.weight.asnumpy().copy(), losses))
    assert np.array_equal(found[0][0], found[1][0])
    assert np.array_equal(found[0][1], found[1][1])


@pytest.mark.parametrize("manager", [
    None, amp.FixedLossScaleManager(256.0, False), amp.FixedLossScaleManager(256.0),
    amp.DynamicLossScaleManager(2.0**10, 2, 2),
])  # fmt: skip
def test_build_train_network_and_model(manager):
    def trained(use_model):
        net = Net()
        scale = 256.0 if isinstance(manager, amp.FixedLossScaleManager) and \
            not manager.get_drop_overflow_update() else 1.0
        optimizer = nn.Momentum(net.trainable_params(), 0.01, 0.9, loss_scale=scale)
        options = {} if manager is None else {"loss_scale_manager": manager}
        if use_model:
            ms.Model(net, nn.MSELoss(), optimizer, **options).train(3, [(X, Y)])
        else:
            cell = amp.build_train_network(net, optimizer, nn.MSELoss(), **options)
            for _ in range(3):
                cell(X, Y)
        return net.weight.asnumpy()

    plain = Net()
    cell = nn.TrainOneStepCell(nn.WithLossCell(plain, nn.MSELoss()),
                               nn.Momentum(plain.trainable_params(), 0.01, 0.9))
    for _ in range(3):
        cell(X, Y)
    for use_model in (False, True):
        assert np.allclose(trained(use_model), plain.weight.asnumpy(), rtol=1e-6)


def test_wrong_arguments():
    net = Net()
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    for call, kind, text in (
        (lambda: amp.build_train_network(3, optimizer), TypeError,
         "For 'build_train_network', 'network' must be a Cell, but got 3"),
        (lambda: amp.build_train_network(net, 3), TypeError,
         "For 'build_train_network', 'optimizer' must be an Optimizer, but got 3"),
        (lambda: amp.build_train_network(net, optimizer, level="O9"), ValueError,
         "'level' must be one of 'O0', 'O1', 'O2', 'O3', 'auto', but got 'O9'"),
        (lambda: amp.build_train_network(net, optimizer, loss_scale_manager=3), TypeError,
         "'loss_scale_manager' must be a LossScaleManager or None, but got 3"),
        (lambda: amp.build_train_network(net, optimizer, foo=3), ValueError,
         "the option 'foo' is not known; there are cast_model_type, keep_batchnorm_fp32"),
        (lambda: amp.FixedLossScaleManager(0.5), ValueError,
         "For 'FixedLossScaleManager', the argument 'loss_scale' must be >= 1, but got 0.5"),
        (lambda: amp.DynamicLossScaleManager(0.5), ValueError,
         "For 'DynamicLossScaleManager', the argument 'init_loss_scale' must be >= 1, but got 0.5"),
        (lambda: amp.StaticLossScaler(-1), ValueError,
         "For 'StaticLossScaler', 'scale_value' must be a positive number, but got -1"),
        (lambda: amp.DynamicLossScaler("a", 2, 2), TypeError,
         "For 'DynamicLossScaler', 'scale_value' must be a positive number, but got 'a'"),
    ):
        with pytest.raises(kind, match=re.escape(text)):
            call()
    manager = amp.DynamicLossScaleManager()
    with pytest.raises(RuntimeError, match="overflow"):
        for _ in range(1002):
            manager.update_loss_scale(True)
