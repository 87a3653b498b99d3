"""Model, callbacks and data: what runs when, what is printed and saved, in both modes.

Losses, printed text and names of files are what MindSpore 2.10 gives for the same program.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, dataset, nn
from cellc.train import (
    Accuracy,
    Callback,
    CheckpointConfig,
    EarlyStopping,
    History,
    LambdaCallback,
    LearningRateScheduler,
    Loss,
    LossMonitor,
    Model,
    ModelCheckpoint,
    OnRequestExit,
    ProgressBar,
    ReduceLROnPlateau,
    TimeMonitor,
)

from ..modes.law import ONCE

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 4)).astype(np.float32)
Y = RNG.integers(0, 3, 8).astype(np.int32)
BATCHES = [(X[:4], Y[:4]), (X[4:], Y[4:])]
LOSSES = [3.138002395629883, 0.8971541523933411, 2.7788915634155273, 0.8752282857894897,
          2.205817461013794, 0.8667999505996704]

pytestmark = pytest.mark.usefixtures("mode")


def make(**options):
    weight = Tensor(np.linspace(-1, 1, 12).reshape(3, 4).astype(np.float32))
    net = nn.Dense(4, 3, weight_init=weight, bias_init="zeros")
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    return net, Model(net, loss, optimizer, **options)


def numbers(text):
    return [float(x) for x in re.findall(r"loss is (\S+)", text)]


class Recorder(Callback):
    """Notes each call as (moment, step, epoch)."""

    def __init__(self):
        self.calls = []

    def __getattribute__(self, name):
        if name.startswith("on_"):
            return lambda context: self.calls.append((
                name, context.original_args().get("cur_step_num"),
                context.original_args().get("cur_epoch_num")))
        return super().__getattribute__(name)


# --- training -----------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["on_train_step_begin", "on_train_step_end",
                                    "on_train_epoch_begin", "on_train_epoch_end"])
def test_what_a_callback_evaluates_leaves_training_as_it_was(moment):
    """Layers that differ in training (BatchNorm) go on training after an evaluation in between."""
    def trained(look):
        ms.set_seed(3)
        net = nn.SequentialCell(nn.Dense(4, 5), nn.BatchNorm1d(5), nn.Dense(5, 3))
        loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
        model = Model(net, loss, nn.Momentum(net.trainable_params(), 0.1, 0.9), {"accuracy"})
        asked = LambdaCallback(**{moment: lambda _: look(model)})
        model.train(3, BATCHES, callbacks=[asked])
        return [p.asnumpy() for p in net.get_parameters()]

    plain = trained(lambda model: None)
    for look in (lambda m: m.eval(BATCHES), lambda m: m.predict(Tensor(X))):
        for a, b in zip(trained(look), plain, strict=True):
            np.testing.assert_array_equal(a, b)


def test_losses_and_their_printed_form(capsys):
    _, model = make()
    model.train(3, BATCHES, callbacks=LossMonitor())
    text = capsys.readouterr().out
    assert re.sub(r"loss is \S+", "loss is", text).splitlines() == [
        f"epoch: {e} step: {s}, loss is" for e in (1, 2, 3) for s in (1, 2)
    ]
    assert np.allclose(numbers(text), LOSSES, rtol=1e-6)


def test_every_other_step_and_later_epochs(capsys):
    _, model = make()
    model.train(2, BATCHES, callbacks=[LossMonitor(2)])
    model.train(3, BATCHES, callbacks=[LossMonitor()], initial_epoch=1)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == [
        "epoch: 1 step: 2", "epoch: 2 step: 2", "epoch: 2 step: 1", "epoch: 2 step: 2",
        "epoch: 3 step: 1", "epoch: 3 step: 2",
    ]
    assert np.allclose(numbers("\n".join(lines))[:2], [LOSSES[1], LOSSES[3]], rtol=1e-6)


def test_time_is_printed(capsys):
    _, model = make()
    model.train(2, BATCHES, callbacks=[TimeMonitor(), TimeMonitor(data_time=True)])
    plain, full = capsys.readouterr().out.splitlines()[:2]
    number = r"\d+\.\d{3} ms"
    assert re.fullmatch(f"Train epoch time: {number}, per step time: {number}", plain)
    assert re.fullmatch(f"Train epoch time: {number}, per step time: {number} "
                        rf"\(data time: {number}\)", full)


def test_what_is_called_when(mode):
    _, model = make(metrics={"acc"})
    recorder = Recorder()
    model.fit(2, BATCHES, BATCHES[:1], callbacks=[recorder])
    epoch = [("on_train_epoch_begin", 0, 1), ("on_train_step_begin", 1, 1),
             ("on_train_step_end", 1, 1), ("on_train_step_begin", 2, 1),
             ("on_train_step_end", 2, 1), ("on_eval_begin", 0, 1), ("on_eval_epoch_begin", 0, 1),
             ("on_eval_step_begin", 1, 1), ("on_eval_step_end", 1, 1),
             ("on_eval_epoch_end", 1, 1), ("on_eval_end", 1, 1), ("on_train_epoch_end", 2, 1)]
    assert recorder.calls[:13] == [("on_train_begin", 0, None), *epoch]
    assert recorder.calls[-1] == ("on_train_end", 4, 2)
    assert recorder.calls[13:16] == [("on_train_epoch_begin", 2, 2),
                                     ("on_train_step_begin", 3, 2), ("on_train_step_end", 3, 2)]


def test_callbacks_are_told_what_the_run_is_at():
    seen = {}

    class Look(Callback):
        def on_train_begin(self, run_context):
            seen["train"] = set(run_context.original_args())

        def on_eval_end(self, run_context):
            seen["eval"] = set(run_context.original_args())

    _, model = make(metrics={"acc"})
    model.train(1, BATCHES, callbacks=Look())
    model.eval(BATCHES, callbacks=Look())
    assert seen["train"] >= {
        "batch_num", "cur_step_num", "dataset_sink_mode", "device_number", "epoch_num",
        "initial_step", "last_save_ckpt_step", "latest_ckpt_file", "list_callback", "loss_fn",
        "loss_scale_mananger", "mode", "network", "optimizer", "parallel_mode", "train_dataset",
        "train_dataset_element", "train_network"}
    assert seen["eval"] >= {
        "batch_num", "cur_step_num", "dataset_sink_mode", "eval_dataset_element", "eval_network",
        "list_callback", "metrics", "mode", "net_outputs", "network", "valid_dataset"}


def test_older_names_and_context_managers():
    events = []

    class Old(Callback):
        def __enter__(self):
            events.append("enter")
            return self

        def __exit__(self, *error):
            events.append("exit")

        def begin(self, run_context):
            events.append("begin")

        def step_end(self, run_context):
            events.append(run_context.original_args().cur_step_num)
            if run_context.original_args().cur_step_num == 3:
                run_context.request_stop()

        def end(self, run_context):
            events.append("end")

    _, model = make(metrics={"acc"})
    model.train(5, BATCHES, callbacks=Old())
    assert events == ["enter", "begin", 1, 2, 3, "end", "exit"]
    with pytest.raises(ValueError, match=r"Old callback, .* may not be supported"):
        model.fit(1, BATCHES, BATCHES, callbacks=Old())


def test_fit_prints_metrics(capsys):
    _, model = make(metrics={"acc", "loss"})
    model.fit(2, BATCHES, BATCHES, callbacks=LossMonitor(0))
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(", metrics")[0] for line in lines] == [
        "Eval result: epoch 1", "Eval result: epoch 2"]
    assert "{'acc': 0.375, 'loss': 1.82603" in lines[0]


@pytest.mark.parametrize(("frequency", "epochs"), [(2, [2]), ([1, 3], [1, 3]), (1, [1, 2, 3])])
def test_how_often_fit_evaluates(capsys, frequency, epochs):
    _, model = make(metrics={"acc"})
    model.fit(3, BATCHES, BATCHES, valid_frequency=frequency, callbacks=LossMonitor(0))
    found = re.findall(r"Eval result: epoch (\d)", capsys.readouterr().out)
    assert found == [str(e) for e in epochs]


def test_evaluation():
    _, model = make(metrics={"A": Accuracy(), "L": Loss()})
    assert model.eval(BATCHES) == pytest.approx({"A": 0.375, "L": 2.0103675723075867})
    _, model = make()
    with pytest.raises(ValueError, match=r"Model.eval, the model argument 'metrics'"):
        model.eval(BATCHES)


def test_an_evaluation_network_of_one_s_own():
    net, _ = make()

    class Both(nn.Cell):
        def __init__(self):
            super().__init__()
            self.net = net

        def construct(self, x, y):
            return x.sum(), self.net(x), y

    assert Model(net, eval_network=Both(), metrics={"acc", "loss"}, eval_indexes=[0, 1, 2]).eval(
        BATCHES)["acc"] == 0.375
    assert Model(net, eval_network=Both(), metrics={"a": Accuracy().set_indexes([1, 2])}).eval(
        BATCHES) == {"a": 0.375}
    with pytest.raises(ValueError, match="gives 3 values"):
        Model(net, eval_network=Both(), metrics={"acc"}, eval_indexes=[0, 1, 3]).eval(BATCHES)


def test_networks_that_give_the_loss_or_do_the_step():
    class Lossy(nn.Cell):
        def __init__(self):
            super().__init__()
            self.net = nn.Dense(4, 3)

        def construct(self, x, y):
            return self.net(x).sum() * y.sum().astype(ms.float32)

    net = Lossy()
    before = net.net.weight.asnumpy().copy()
    Model(net, optimizer=nn.SGD(net.trainable_params(), 0.1)).train(1, BATCHES)
    assert not np.array_equal(before, net.net.weight.asnumpy())
    step = nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 0.1))
    before = net.net.weight.asnumpy().copy()
    Model(step).train(1, BATCHES)
    assert not np.array_equal(before, net.net.weight.asnumpy())


def test_prediction_is_in_eval_mode():
    drop = nn.SequentialCell(nn.Dense(4, 3), nn.Dropout(p=0.9))
    model = Model(drop, nn.MSELoss(), nn.SGD(drop.trainable_params(), 0.1))
    model.train(1, [(X, np.zeros((8, 3), np.float32))])
    assert drop.training
    assert np.array_equal(model.predict(Tensor(X)).asnumpy(), drop[0](Tensor(X)).asnumpy())
    with pytest.raises(TypeError, match="must be Tensors"):
        model.predict(X)
    with pytest.raises(ValueError, match="'backend' must be None"):
        model.predict(Tensor(X), backend="lite")


@ONCE
def test_both_modes_train_alike():
    results = []
    for each in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        ms.set_context(mode=each)
        net, model = make()
        model.train(4, BATCHES)
        results.append(net.weight.asnumpy().copy())
    assert np.array_equal(*results)


# --- data ---------------------------------------------------------------------------------------


class Loader:
    """What a torch DataLoader looks like."""

    def __init__(self, kind):
        self.kind = kind

    def __len__(self):
        return 2

    def __iter__(self):
        for x, y in BATCHES:
            yield {"dict": {"x": x, "y": y}, "list": [x, y], "tensor": (Tensor(x), Tensor(y)),
                   "foreign": (Foreign(x), Foreign(y))}[self.kind]


class Foreign:
    """An array of another library."""

    def __init__(self, array):
        self.array = array

    def numpy(self):
        return self.array


class Dataset:
    """What a MindSpore dataset looks like."""

    def create_tuple_iterator(self, num_epochs=-1, output_numpy=False):
        return iter([(Tensor(x), Tensor(y)) for x, y in BATCHES])

    def get_dataset_size(self):
        return 2


class OwnIterator:
    """A dataset that is its own iterator, as those of MindSpore's own tests."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.left = list(BATCHES)

    def get_dataset_size(self):
        return len(BATCHES)

    def create_tuple_iterator(self, num_epochs=-1, do_copy=True):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        if not self.left:
            raise StopIteration
        return tuple(map(Tensor, self.left.pop(0)))


@pytest.mark.parametrize("data", [
    BATCHES, Dataset(), OwnIterator(), *map(Loader, ("dict", "list", "tensor", "foreign")),
    lambda: iter(BATCHES), lambda: (b for b in BATCHES),
])  # fmt: skip
def test_any_source_of_batches(capsys, data):
    if isinstance(data, OwnIterator):
        data.reset()  # after the other mode
    _, model = make()
    model.train(3, data, callbacks=LossMonitor())
    assert np.allclose(numbers(capsys.readouterr().out), LOSSES, rtol=1e-6)


def test_sources_that_cannot_serve():
    _, model = make()
    with pytest.raises(TypeError, match="must be iterable"):
        model.train(1, 3)
    with pytest.raises(ValueError, match="gave no batch"):
        model.train(1, [])
    with pytest.raises(ValueError, match=r"gone through once only"):
        model.train(2, iter(BATCHES))
    with pytest.raises(TypeError, match="no array"):
        model.train(1, [(object(), Y)])


def test_epochs_of_a_number_of_steps(capsys):
    _, model = make()
    model.train(2, BATCHES, callbacks=LossMonitor(), dataset_sink_mode=True, sink_size=3)
    assert np.allclose(numbers(capsys.readouterr().out), LOSSES, rtol=1e-6)


# --- callbacks ----------------------------------------------------------------------------------


def test_nan_ends_the_training():
    class Broken(nn.Cell):
        def __init__(self):
            super().__init__()
            self.net = nn.Dense(4, 1)

        def construct(self, x, y):
            return self.net(x).sum() * float("nan")

    net = Broken()
    model = Model(net, optimizer=nn.SGD(net.trainable_params(), 0.1))
    with pytest.raises(ValueError, match="epoch: 1 step: 1, loss is NAN or INF"):
        model.train(1, BATCHES, callbacks=LossMonitor())


def test_history():
    _, model = make(metrics={"acc"})
    history = History()
    model.fit(2, BATCHES, BATCHES, callbacks=history)
    assert history.epoch == {"epoch": [1, 2]}
    assert history.history["acc"] == [0.375, 0.5]
    assert np.allclose(history.history["net_output"], [LOSSES[1], LOSSES[3]], rtol=1e-6)


def test_early_stopping(capsys):
    _, model = make(metrics={"loss"})
    model.fit(8, BATCHES, BATCHES, callbacks=EarlyStopping(patience=1, verbose=True, min_delta=0.5))
    assert capsys.readouterr().out == "Epoch 00002: early stopping\n"
    net, model = make(metrics={"loss"})
    best = []
    model.fit(8, BATCHES, BATCHES, callbacks=[
        EarlyStopping("loss", patience=1, verbose=True, min_delta=0.5, restore_best_weights=True),
        LambdaCallback(on_train_epoch_end=lambda _: best.append(net.bias.asnumpy().copy()))])
    assert capsys.readouterr().out == (
        "Restoring model weights from the end of the best epoch.\nEpoch 00002: early stopping\n")
    assert np.allclose(net.bias.asnumpy(), [-0.06050315, 0.03736167, 0.02314149], atol=1e-6)


def test_learning_rates_fall(capsys):
    _, model = make(metrics={"acc"})
    model.fit(5, BATCHES, BATCHES,
              callbacks=ReduceLROnPlateau("acc", patience=1, verbose=True, mode="max"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Epoch 00003: ReduceLROnPlateau reducing learning rate to 0.010000001."
    assert len(lines) == 3
    _, model = make()
    model.train(2, BATCHES, callbacks=[LearningRateScheduler(lambda rate, step: rate * 0.5),
                                       LossMonitor()])
    assert np.allclose(numbers(capsys.readouterr().out),
                       [3.138002395629883, 0.8971541523933411, 2.8586463928222656,
                        0.8836864233016968], rtol=1e-6)


def test_checkpoints(folder):
    _, model = make()
    config = CheckpointConfig(save_checkpoint_steps=1, keep_checkpoint_max=3)
    model.train(2, BATCHES, callbacks=ModelCheckpoint("P", "cks", config))
    assert sorted(os.listdir("cks")) == ["P-1_2.ckpt", "P-2_1.ckpt", "P-2_2.ckpt"]
    info = CheckpointConfig(save_checkpoint_steps=2, append_info=["epoch_num", "step_num",
                                                                  {"a": 3}])
    again = ModelCheckpoint("P", "cks", info)
    model.train(1, BATCHES, callbacks=again)
    assert again.latest_ckpt_file_name.endswith("P_1-1_2.ckpt")
    saved = ms.load_checkpoint("cks/P_1-1_2.ckpt")
    assert list(saved) == ["weight", "bias", "global_step", "learning_rate", "momentum",
                           "moments.weight", "moments.bias", "epoch_num", "step_num", "a"]
    assert [saved[k].asnumpy().item() for k in ("epoch_num", "step_num", "a")] == [1, 2, 3]
    _, model = make()
    model.train(2, BATCHES, callbacks=ModelCheckpoint("Q", "all"))
    assert sorted(os.listdir("all")) == ["Q-1_1.ckpt", "Q-1_2.ckpt", "Q-2_1.ckpt", "Q-2_2.ckpt"]
    hourly = CheckpointConfig(save_checkpoint_steps=0, save_checkpoint_seconds=3600)
    model.train(2, BATCHES, callbacks=ModelCheckpoint("Q", "hourly", hourly))
    assert sorted(os.listdir("hourly")) == ["Q-2_2.ckpt"]
    net, model = make()
    later = CheckpointConfig(save_checkpoint_steps=3, saved_network=net, format="safetensors")
    model.train(2, BATCHES, callbacks=ModelCheckpoint("R", "few", later))
    assert sorted(os.listdir("few")) == ["R-2_1.safetensors", "R-2_2.safetensors"]
    assert sorted(ms.load_checkpoint("few/R-2_2.safetensors", format="safetensors")) == [
        "bias", "weight"]


def test_a_checkpoint_of_the_moment_of_an_exception(folder):
    def fail(context):
        if context.original_args().cur_step_num == 3:
            raise RuntimeError("stop here")

    _, model = make()
    config = CheckpointConfig(save_checkpoint_steps=100, exception_save=True)
    with pytest.raises(RuntimeError, match="stop here"):
        model.train(2, BATCHES, callbacks=[ModelCheckpoint("E", config=config),
                                           LambdaCallback(on_train_step_end=fail)])
    assert os.listdir(".") == ["E-2_1_breakpoint.ckpt"]


def test_resuming_from_a_checkpoint(folder):
    net, model = make()
    model.train(3, BATCHES, callbacks=ModelCheckpoint("S"))
    expected = net.weight.asnumpy().copy()
    net, model = make()
    ms.load_checkpoint("S-2_2.ckpt", net=model.train_network, strict_load=True)
    model.train(3, BATCHES, initial_epoch=2)
    assert np.array_equal(expected, net.weight.asnumpy())


def test_a_signal_saves_and_stops(folder):
    _, model = make()
    steps = []

    def ask(context):
        steps.append(1)
        if len(steps) == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    model.train(9, BATCHES, callbacks=[LambdaCallback(on_train_step_end=ask),
                                       OnRequestExit(file_name="net")])
    assert len(steps) in (3, 4)
    assert sorted(os.listdir(".")) == ["net_train.ckpt", "net_train.mindir"]
    assert "epoch_num" in ms.load_checkpoint("net_train.ckpt")
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_bar_shows_the_progress(capsys):
    _, model = make(metrics={"acc"})
    model.fit(2, BATCHES, BATCHES, callbacks=ProgressBar())
    text = capsys.readouterr().out
    assert "epoch 1" in text and "2/2" in text and "acc 0.375" in text and "loss 0.89" in text


TRAINED = """
import sys
import numpy as np
import cellc as ms
from cellc import nn, train

net = nn.Dense(4, 3)
loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
model = train.Model(net, loss, nn.SGD(net.trainable_params(), 0.1))
rows = [(np.ones((4, 4), np.float32), np.zeros(4, np.int32))] * 2
model.train(20, rows, callbacks=[getattr(train, sys.argv[1])()])
print("trained", file=sys.stderr)
"""


@ONCE
@pytest.mark.parametrize("callback", ["LossMonitor", "TimeMonitor", "ProgressBar"])
def test_a_training_goes_on_when_nobody_reads_its_output(callback, tmp_path):
    (tmp_path / "trained.py").write_text(TRAINED)
    reads, writes = os.pipe()
    os.close(reads)
    try:
        done = subprocess.run([sys.executable, tmp_path / "trained.py", callback], stdout=writes,
                              stderr=subprocess.PIPE, text=True)
    finally:
        os.close(writes)
    assert (done.returncode, done.stderr) == (0, "trained\n")


# --- arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("call", "kind", "text"), [
    (lambda n, m: Model(3), TypeError, "'network' must be a Cell, but got 3"),
    (lambda n, m: Model(n, 3), TypeError, "'loss_fn'"),
    (lambda n, m: Model(n, None, 3), TypeError, "'optimizer' must be a Cell or None"),
    (lambda n, m: Model(n, metrics=3), TypeError, "must be None, dict or set, but got 3"),
    (lambda n, m: Model(n, metrics={"foo"}), KeyError, "Unsupported metric 'foo'"),
    (lambda n, m: Model(n, metrics={"acc"}), ValueError, "`eval_network` (or `loss_fn`) must"),
    (lambda n, m: Model(n, metrics={"a": 3}), TypeError, "names to metrics"),
    (lambda n, m: Model(n, eval_network=3), TypeError, "'eval_network'"),
    (lambda n, m: Model(n, eval_indexes=[0, 1]), ValueError, "length of it must be three"),
    (lambda n, m: Model(n, amp_level="O7"), ValueError, "'amp_level'"),
    (lambda n, m: Model(n, foo=3), ValueError, "'foo' is not known"),
    (lambda n, m: m.train("a", BATCHES), TypeError, "'epoch' must be a positive int"),
    (lambda n, m: m.train(0, BATCHES), ValueError, "must be a positive int, but got 0"),
    (lambda n, m: m.train(1, BATCHES, callbacks=3), TypeError, "must be a Callback, but got 3"),
    (lambda n, m: m.train(1, BATCHES, initial_epoch=2), ValueError, "bigger than"),
    (lambda n, m: m.train(1, BATCHES, initial_epoch=-1), ValueError,
     "must be a non-negative int, but got -1"),
    (lambda n, m: m.fit(1, BATCHES, BATCHES), ValueError, "'metrics' of Model"),
    (lambda n, m: m.infer_predict_layout(Tensor(X)), RuntimeError, "one device"),
    (lambda n, m: LossMonitor(-1), ValueError, "must be a non-negative int"),
    (lambda n, m: LossMonitor("a"), TypeError, "must be a non-negative int"),
    (lambda n, m: TimeMonitor(data_time=3), TypeError, "'data_time' must be a bool, but got 3"),
    (lambda n, m: ModelCheckpoint(3), ValueError, "must be a function or a string"),
    (lambda n, m: ModelCheckpoint("a/b"), ValueError, "without '/', but got 'a/b'"),
    (lambda n, m: ModelCheckpoint(config=3), TypeError, "must be a CheckpointConfig"),
    (lambda n, m: CheckpointConfig(save_checkpoint_steps=-1), ValueError,
     "must be a non-negative int"),
    (lambda n, m: EarlyStopping(mode="x"), ValueError, "'auto', 'min', 'max', but got 'x'"),
    (lambda n, m: ReduceLROnPlateau(factor=2), TypeError, "must be a float"),
])  # fmt: skip
def test_wrong_arguments(call, kind, text):
    with pytest.raises(kind, match=re.escape(text)):
        call(*make())


@pytest.mark.parametrize(("columns", "said"), [
    ({"a": X, "b": Y, "c": Y}, ["note: the data set gives a = a Float32 tensor of shape (4, 4), b",
                                "hint: with a loss_fn it must give 2 columns, the data and"]),
    ({"a": X, "b": Y[:, None]}, ["note: the data set gives a = a Float32 tensor of shape (4, 4), b "
                                 "= an Int32 tensor of shape (4, 1)"]),
])
def test_an_error_of_a_step_names_the_columns(columns, said):
    data = dataset.NumpySlicesDataset(columns, shuffle=False).batch(4)
    _, model = make(metrics={"acc"})
    for run in (lambda: model.train(1, data), lambda: model.eval(data)):
        with pytest.raises((TypeError, ValueError), match=r"construct|labels|indices") as caught:
            run()
        notes = caught.value.__notes__
        assert all(any(note.startswith(part) for note in notes) for part in said)
