"""Training with datasets: MindSpore's quick start as it is written, Model, sinking."""

from __future__ import annotations

import struct

import numpy as np
import pytest

import cellc as ms
from cellc import nn
from cellc.dataset import GeneratorDataset, MnistDataset, NumpySlicesDataset, transforms, vision


def write_idx(path, array):
    header = struct.pack(">I", 0x800 | array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(header + array.astype(np.uint8).tobytes())


@pytest.fixture(scope="module")
def mnist(tmp_path_factory):
    """Images whose bright stripe says their label, in files of the MNIST format."""
    folder, draw = tmp_path_factory.mktemp("MNIST_Data"), np.random.default_rng(0)
    for part, count in (("train", 480), ("t10k", 100)):
        labels = draw.integers(0, 10, count)
        images = draw.integers(0, 60, (count, 28, 28))
        for image, label in zip(images, labels, strict=True):
            image[2 * label + 2 : 2 * label + 5] += 180
        write_idx(folder / f"{part}-images-idx3-ubyte", images)
        write_idx(folder / f"{part}-labels-idx1-ubyte", labels)
    return str(folder)


def datapipe(path, usage, batch_size):
    image_transforms = [
        vision.Rescale(1.0 / 255.0, 0),
        vision.Normalize(mean=(0.1307,), std=(0.3081,)),
        vision.HWC2CHW(),
    ]
    label_transform = transforms.TypeCast(ms.int32)
    dataset = MnistDataset(path, usage)
    dataset = dataset.map(image_transforms, "image")
    dataset = dataset.map(label_transform, "label")
    return dataset.batch(batch_size)


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.dense_relu_sequential = nn.SequentialCell(
            nn.Dense(28 * 28, 32), nn.ReLU(), nn.Dense(32, 10))

    def construct(self, x):
        x = self.flatten(x)
        return self.dense_relu_sequential(x)


def quick_start(mnist):
    """The tutorial, with a narrower network; what the last epoch gives."""
    train_dataset = datapipe(mnist, "train", 64)
    test_dataset = datapipe(mnist, "test", 64)
    model = Network()
    loss_fn = nn.CrossEntropyLoss()
    optimizer = nn.SGD(model.trainable_params(), 5e-2)

    def forward_fn(data, label):
        logits = model(data)
        loss = loss_fn(logits, label)
        return loss, logits

    grad_fn = ms.value_and_grad(forward_fn, None, optimizer.parameters, has_aux=True)

    def train_step(data, label):
        (loss, _), grads = grad_fn(data, label)
        optimizer(grads)
        return loss

    for _ in range(4):
        size = train_dataset.get_dataset_size()
        model.set_train()
        for batch, (data, label) in enumerate(train_dataset.create_tuple_iterator()):
            loss = train_step(data, label)
            last = batch == size - 1
        assert last

    model.set_train(False)
    total, correct = 0, 0
    for data, label in test_dataset.create_tuple_iterator():
        pred = model(data)
        total += len(data)
        correct += (pred.argmax(1) == label).asnumpy().sum()
    assert (total, data.dtype, label.dtype) == (100, ms.float32, ms.int32)
    return correct / total, loss.asnumpy()


def test_quick_start_in_both_modes(mnist):
    found = []
    for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        ms.set_context(mode=mode)
        ms.set_seed(1)
        found.append(quick_start(mnist))
    assert found[0][0] > 0.9
    assert found[0][1].tobytes() == found[1][1].tobytes()


def test_model(mnist):
    ms.set_seed(2)
    net = Network()
    model = ms.Model(net, nn.CrossEntropyLoss(), nn.Momentum(net.trainable_params(), 0.05, 0.9),
                     metrics={"accuracy"})
    train, valid = datapipe(mnist, "train", 64), datapipe(mnist, "test", 50)
    seen = ms.History()
    model.fit(2, train, valid, callbacks=[seen])
    assert model.eval(valid, dataset_sink_mode=True)["accuracy"] > 0.9
    assert len(seen.epoch["epoch"]) == 2
    model.train(1, train.take(2), dataset_sink_mode=True)
    steps = []
    model.train(2, train.repeat(2), dataset_sink_mode=True, sink_size=3, callbacks=[
        ms.LambdaCallback(on_train_step_end=lambda c: steps.append(c.original_args().batch_num))])
    assert len(steps) == 6


def test_epochs_of_a_training_have_different_orders():
    class Keep(nn.Cell):
        def __init__(self):
            super().__init__()
            self.w = ms.Parameter(ms.Tensor([0.0]))

        def construct(self, x):
            return self.w * x

    ms.set_seed(3)
    data = NumpySlicesDataset({"x": np.arange(8, dtype=np.float32).reshape(8, 1)})
    net = Keep()
    model = ms.Model(net, None, nn.SGD(net.trainable_params(), 0.1))
    orders = [[], []]

    def note(context):
        params = context.original_args()
        orders[params.cur_epoch_num - 1].append(float(params.train_dataset_element[0].asnumpy()[0]))

    model.train(2, data, callbacks=[ms.LambdaCallback(on_train_step_end=note)])
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(8))
    assert orders[0] != orders[1]


def test_helpers():
    data = NumpySlicesDataset({"x": np.arange(6, dtype=np.float32)}, shuffle=False).batch(2)
    helper = ms.DatasetHelper(data, dataset_sink_mode=False)
    assert [b[0].asnumpy().tolist() for b in helper] == [[0, 1], [2, 3], [4, 5]]
    sinking = ms.DatasetHelper(data, dataset_sink_mode=True)
    assert sinking.sink_size() == 3
    assert sinking.types_shapes() == ([ms.float32], [(2,)])
    total = ms.data_sink(lambda x: x.sum(), data, sink_size=2)
    assert [float(total()) for _ in range(3)] == [5.0, 1.0, 9.0]


def test_errors_come_through_training():
    data = GeneratorDataset(lambda: iter([(np.ones(2, np.float32), 1 // 0)]), ["x", "y"])
    net = nn.Dense(2, 1)
    model = ms.Model(net, nn.MSELoss(), nn.SGD(net.trainable_params()))
    with pytest.raises(RuntimeError, match=r"column\(s\) \['x', 'y'\].*ZeroDivisionError"):
        model.train(1, data.batch(1))
