"""Data that networks fetch, parts of batches, and callbacks that keep or measure a training."""

from __future__ import annotations

import re

import numpy as np
import pytest

import cellc as ms
from cellc import nn
from cellc.train import (
    BackupAndRestore,
    Callback,
    DatasetHelper,
    FlopsUtilizationCollector,
    Model,
    TrainFaultTolerance,
    connect_network_with_dataset,
    data_sink,
)

pytestmark = pytest.mark.usefixtures("mode")


X = np.random.RandomState(0).randn(8, 4).astype(np.float32)
Y = np.random.RandomState(0).randint(0, 3, 8).astype(np.int32)
BATCHES = [(X[:4], Y[:4]), (X[4:], Y[4:])]


def _model():
    net = nn.Dense(4, 3, weight_init="ones", bias_init="zeros")
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    return net, optimizer, Model(net, loss, optimizer)


# --- backups ------------------------------------------------------------------------------------


class Steps(Callback):
    """Notes epoch, step and the optimizer's count at the start of each epoch."""

    def __init__(self, optimizer):
        self.optimizer, self.seen = optimizer, []

    def on_train_epoch_begin(self, run_context):
        params = run_context.original_args()
        self.seen.append((params.cur_epoch_num, params.cur_step_num,
                          int(self.optimizer.global_step.asnumpy()[0])))


def _train(epochs, *args, **options):
    net, optimizer, model = _model()
    steps = Steps(optimizer)
    model.train(epochs, BATCHES, callbacks=[BackupAndRestore(*args, **options), steps])
    return net, steps.seen


def test_a_training_goes_on_from_its_backup(tmp_path):
    # epochs, steps and counts are MindSpore 2.10's
    folder = str(tmp_path / "bk")
    first, seen = _train(2, folder, delete_checkpoint=False)
    assert seen == [(1, 0, 0), (2, 2, 2)]
    assert [f.name for f in (tmp_path / "bk").iterdir()] == ["backup.ckpt"]
    second, seen = _train(4, folder, delete_checkpoint=False)
    assert seen == [(1, 0, 4), (2, 2, 6), (3, 4, 8), (4, 6, 10)]
    straight, _, model = _model()
    model.train(6, BATCHES)
    assert second.weight.asnumpy().tobytes() == straight.weight.asnumpy().tobytes()
    assert first.weight.asnumpy().tobytes() != straight.weight.asnumpy().tobytes()
    _train(3, folder, save_freq=2)
    assert list((tmp_path / "bk").iterdir()) == []


@pytest.mark.parametrize(("args", "error"), [
    ((1,), TypeError), (("b", 0), ValueError), (("b", "step"), TypeError), (("b", 1.5), TypeError),
    (("b", "epoch", 1), TypeError),
])
def test_wrong_arguments_of_backups(args, error):
    with pytest.raises(error, match="For 'BackupAndRestore', '"):
        BackupAndRestore(*args)


def test_fault_tolerance_needs_other_devices(tmp_path):
    with pytest.raises(ValueError, match="ckpt_save_path"):
        TrainFaultTolerance()
    with pytest.raises(RuntimeError, match="one CPU"):
        TrainFaultTolerance(str(tmp_path))


# --- arithmetic ---------------------------------------------------------------------------------


def test_arithmetic_is_counted(mode, capsys):
    # The example of MindSpore's documentation: forward and the gradient of the weight.
    net = nn.Dense(10, 5)
    model = Model(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"),
                  nn.Momentum(net.trainable_params(), 0.01, 0.9))
    data = [(np.ones((32, 10), np.float32), np.zeros(32, np.int32))] * 2
    collector = FlopsUtilizationCollector(2, computility=10e6)
    if mode == ms.PYNATIVE_MODE:
        with pytest.raises(RuntimeError, match="GRAPH_MODE"):
            model.train(2, data, callbacks=collector)
        return
    model.train(2, data, callbacks=collector)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == ("Full model flops is 6400.0, Full hardware flops is 6400.0, "
                        "Shard model flops is 6400.0, Shard hardware flops is 6400.0.")
    number = r"\d+\.\d\d%"
    for line in lines[1:]:
        assert re.fullmatch(rf"Train per step time: +\d+\.\d{{3}} ms mfu:{number} hfu:{number}",
                            line), line
    assert len(lines) == 3


@pytest.mark.parametrize(("make", "error", "text"), [
    (lambda: FlopsUtilizationCollector(0), ValueError,
     "'data_size' must be a positive int, but got 0"),
    (lambda: FlopsUtilizationCollector(1, full_flops=1), TypeError,
     "'full_flops' must be a bool, but got 1"),
    (lambda: FlopsUtilizationCollector(1, computility=0), ValueError,
     "For 'FlopsUtilizationCollector', 'computility' must be a positive number, but got 0"),
])
def test_wrong_arguments_of_the_count(make, error, text):
    with pytest.raises(error, match=re.escape(text)):
        make()


# --- fetching -----------------------------------------------------------------------------------


def test_a_helper_gives_an_epoch():
    helper = DatasetHelper(BATCHES, dataset_sink_mode=False)
    assert [x.shape for x, _ in helper] == [(4, 4), (4, 4)]
    assert len(list(helper)) == 2
    for asked in (helper.sink_size, helper.types_shapes, helper.get_data_info, helper.fetch):
        with pytest.raises(RuntimeError, match="dataset_sink_mode=True"):
            asked()


def test_a_network_fetches_its_data():
    helper = DatasetHelper(BATCHES, dataset_sink_mode=True)
    assert helper.sink_size() == 2
    assert helper.types_shapes() == ([ms.float32, ms.int32], [(4, 4), (4,)])
    net, _, model = _model()
    step = connect_network_with_dataset(model.train_network, helper)
    losses = [float(step().asnumpy()) for _ in range(3) for _ in helper]
    other, _, straight = _model()
    straight.train(3, BATCHES)
    assert len(losses) == 6
    assert net.weight.asnumpy().tobytes() == other.weight.asnumpy().tobytes()
    helper.stop_send()
    with pytest.raises(RuntimeError, match="continue_send"):
        step()
    helper.continue_send()
    helper.release()
    assert float(step().asnumpy()) > 0


def test_a_function_fetches_its_data():
    seen = []

    def step(x, y):
        seen.append(x.shape)
        return x.sum() + y.sum()

    call = data_sink(step, BATCHES, sink_size=3)
    want = [float(x.sum() + y.sum()) for x, y in BATCHES]
    assert abs(float(call().asnumpy()) - want[0]) < 1e-4
    assert abs(float(call().asnumpy()) - want[1]) < 1e-4
    assert len(seen) == 6
    compiled = data_sink(step, BATCHES, jit_config=ms.JitConfig())
    assert abs(float(compiled().asnumpy()) - want[0]) < 1e-4
    signed = data_sink(step, BATCHES, input_signature=(ms.Tensor(X[:2]), ms.Tensor(Y[:2])))
    with pytest.raises(TypeError, match="a batch must be"):
        signed()


@pytest.mark.parametrize(("wrong", "error", "text"), [
    (lambda: DatasetHelper(BATCHES, 1), TypeError,
     "For 'DatasetHelper', 'dataset_sink_mode' must be a bool, but got 1"),
    (lambda: DatasetHelper(BATCHES, True, 0),
     ValueError, "'sink_size' must be -1 or a positive int, but got 0"),
    (lambda: DatasetHelper(3), TypeError,
     "'dataset' must be iterable (a list of batches, a loader), a function that gives an"),
    (lambda: data_sink(len, BATCHES, 0), ValueError,
     "'sink_size' must be a positive int, but got 0"),
    (lambda: data_sink(3, BATCHES), TypeError, "'fn' must be a function, but got 3"),
    (lambda: connect_network_with_dataset(nn.ReLU(), DatasetHelper(BATCHES, False)), RuntimeError,
     "The API 'connect_network_with_dataset' should be called in dataset sink mode"),
    (lambda: connect_network_with_dataset(3, DatasetHelper(BATCHES)), TypeError,
     "a Cell and a DatasetHelper are wanted, but got <class 'int'> and <class"),
    (lambda: DatasetHelper(lambda: iter(BATCHES)).sink_size(), ValueError,
     "For 'DatasetHelper', the data do not say how many batches they have: give 'sink_size'"),
])
def test_wrong_arguments_of_fetching(wrong, error, text):
    with pytest.raises(error, match=re.escape(text)):
        wrong()


# --- parts of batches ---------------------------------------------------------------------------


class Squares(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(4, 2, weight_init="ones", bias_init="zeros")

    def construct(self, x, y):
        return ((self.fc(x).sum(-1) - y) ** 2).sum()


@pytest.mark.parametrize("wrap", [nn.GradAccumulationCell, nn.PipelineCell,
                                  nn.MicroBatchInterleaved])
def test_parts_add_up(wrap):
    x, y = ms.Tensor(X), ms.Tensor(Y.astype(np.float32))
    whole, parts = Squares(), Squares()
    cut = wrap(parts, 4)
    want, wanted = ms.value_and_grad(whole, None, whole.trainable_params())(x, y)
    got, grads = ms.value_and_grad(cut, None, parts.trainable_params())(x, y)
    assert np.allclose(got.asnumpy(), want.asnumpy(), rtol=1e-5)
    for a, b in zip(grads, wanted, strict=True):
        assert np.allclose(a.asnumpy(), b.asnumpy(), rtol=1e-4)
    assert [p.name for p in cut.trainable_params()] == ["fc.weight", "fc.bias"]
    with pytest.raises(ValueError, match="divided"):
        wrap(parts, 3)(x, y)


@pytest.mark.parametrize("wrap", [nn.GradAccumulationCell, nn.PipelineCell,
                                  nn.MicroBatchInterleaved])
def test_wrong_arguments_of_parts(wrap):
    for error, args, text in (
        (ValueError, (Squares(), 0), "must be a positive int, but got 0"),
        (TypeError, (Squares(), "a"), "must be a positive int, but got 'a'"),
        (TypeError, (1, 2), "'network' must be a Cell, but got 1"),
    ):
        with pytest.raises(error, match=text):
            wrap(*args)


def test_gradients_of_one_process_stay():
    grads = (ms.Tensor([1.0]), ms.Tensor([2.0]))
    assert nn.DistributedGradReducer([])(grads)[1].asnumpy().tolist() == [2.0]
    assert nn.PipelineGradReducer([], 2.0)(grads)[1].asnumpy().tolist() == [1.0]
    with pytest.raises(ValueError, match="degree"):
        nn.DistributedGradReducer([], degree=0)


class Accumulating(nn.Cell):
    """MindSpore's documented recipe: gradients added to Parameters, applied every few steps."""

    def __init__(self, net, optimizer, every):
        super().__init__()
        self.net, self.optimizer, self.every = net, optimizer, every
        self.sums = optimizer.parameters.clone(prefix="accum_grad", init="zeros")
        self.counter = ms.Parameter(ms.Tensor(1, ms.int32), name="counter")
        self.grad_fn = ms.value_and_grad(net, None, optimizer.parameters)

    def construct(self, x, y):
        loss, grads = self.grad_fn(x, y)
        for i in range(len(self.sums)):
            ms.ops.assign_add(self.sums[i], grads[i])
        if self.counter % self.every == 0:
            self.optimizer(tuple([s / self.every for s in self.sums]))
            for s in self.sums:
                ms.ops.assign(s, ms.ops.zeros_like(s))
        ms.ops.assign_add(self.counter, ms.Tensor(1, ms.int32))
        return loss


def test_the_recipe_of_accumulation():
    net, other = Squares(), Squares()
    step = Accumulating(net, nn.SGD(net.trainable_params(), 0.01), 2)
    optimizer = nn.SGD(other.trainable_params(), 0.01)
    grad_fn = ms.value_and_grad(other, None, optimizer.parameters)
    for _ in range(2):
        grads = []
        for x, y in BATCHES:
            given = ms.Tensor(x), ms.Tensor(y.astype(np.float32))
            step(*given)
            grads.append(grad_fn(*given)[1])
        optimizer(tuple((a + b) / 2 for a, b in zip(*grads, strict=True)))
    assert int(step.counter.asnumpy()) == 5
    np.testing.assert_allclose(net.fc.weight.asnumpy(), other.fc.weight.asnumpy(), rtol=1e-5)
