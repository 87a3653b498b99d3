"""Networks that MindSpore and cellc each write as MindIR and read from each other.

    python networks.py write FOLDER [NAME ...]    # export them, with inputs and results beside
    python networks.py read FOLDER [NAME ...]     # load each, run it, and compare; as JSON

The program runs under either framework: a Python that has MindSpore, or one that has cellc.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

try:
    import mindspore as ms
    from mindspore import mint, nn, ops
except ImportError:
    import cellc as ms
    from cellc import mint, nn, ops

RNG = np.random.RandomState
Case = tuple[Callable[[], Any], list[Any]]
NETWORKS: dict[str, Case] = {}


def f32(*shape, seed=0):
    return RNG(seed + len(shape)).standard_normal(shape).astype(np.float32)


def i32(high, *shape, seed=0):
    return RNG(seed).randint(0, high, shape).astype(np.int32)


def case(*inputs):
    """Register a class, or a function that makes a Cell, for inputs."""
    def register(make):
        NETWORKS[make.__name__] = (make, list(inputs))
        return make
    return register


@case(f32(2, 1, 20, 20))
class LeNet(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 5, pad_mode="valid")
        self.conv2 = nn.Conv2d(4, 6, 5, pad_mode="valid", has_bias=True)
        self.pool = nn.MaxPool2d(2, 2)
        self.flatten = nn.Flatten()
        self.fc1 = nn.Dense(24, 16)
        self.fc2 = nn.Dense(16, 10)
        self.relu = nn.ReLU()

    def construct(self, x):
        x = self.pool(self.relu(self.conv1(x)))
        x = self.pool(self.relu(self.conv2(x)))
        return self.fc2(self.relu(self.fc1(self.flatten(x))))


@case(f32(3, 6))
def MLP():
    return nn.SequentialCell(nn.Dense(6, 8, activation="relu"), nn.Dense(8, 8), nn.Tanh(),
                             nn.Dense(8, 2), nn.Softmax())


@case(f32(3, 6))
class Activations(nn.Cell):
    def __init__(self):
        super().__init__()
        self.layers = nn.CellList([
            nn.Sigmoid(), nn.GELU(), nn.ELU(), nn.LeakyReLU(0.1), nn.HSwish(), nn.HSigmoid(),
            nn.ReLU6(), nn.SiLU(), nn.Mish(), nn.LogSoftmax(), nn.PReLU(1)])

    def construct(self, x):
        out = x
        for layer in self.layers:
            out = out + layer(x)
        return out + ops.softplus(x)


@case(f32(2, 3, 12, 12))
class ConvBnPool(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2)
        self.bn = nn.BatchNorm2d(8)
        self.pool = nn.AvgPool2d(2, 2)
        self.dense = nn.Dense(8 * 9, 5)

    def construct(self, x):
        x = self.pool(ops.relu(self.bn(self.conv(x))))
        return self.dense(x.reshape(x.shape[0], -1))


@case(f32(2, 4, 8, 8))
class ResidualBlock(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(4, 8, 3, stride=2, pad_mode="pad", padding=1)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, pad_mode="same")
        self.bn2 = nn.BatchNorm2d(8)
        self.down = nn.SequentialCell(nn.Conv2d(4, 8, 1, stride=2), nn.BatchNorm2d(8))

    def construct(self, x):
        out = ops.relu(self.bn1(self.conv1(x)))
        return ops.relu(self.bn2(self.conv2(out)) + self.down(x))


@case(f32(1, 8, 7, 7))
class MobileBlock(nn.Cell):
    def __init__(self):
        super().__init__()
        self.body = nn.SequentialCell(
            nn.Conv2d(8, 16, 1), nn.BatchNorm2d(16), nn.ReLU6(),
            nn.Conv2d(16, 16, 3, group=16), nn.BatchNorm2d(16), nn.ReLU6(),
            nn.Conv2d(16, 8, 1), nn.BatchNorm2d(8))
        self.mean = ops.ReduceMean(keep_dims=False)

    def construct(self, x):
        return self.mean(x + self.body(x), (2, 3))


@case(f32(2, 3, 16))
class Conv1d(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 6, 3)
        self.pool = nn.MaxPool1d(2, 2)

    def construct(self, x):
        return self.pool(ops.tanh(self.conv(x)))


@case(f32(1, 4, 5, 5))
def Upconv():
    return nn.SequentialCell(nn.Conv2dTranspose(4, 3, 3, stride=2), nn.Sigmoid())


@case(f32(1, 2, 4, 6, 6))
def Conv3d():
    return nn.SequentialCell(nn.Conv3d(2, 3, 3), nn.ReLU())


@case(f32(2, 5, 4))
class LSTM(nn.Cell):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 6, num_layers=1, batch_first=True)
        self.out = nn.Dense(6, 3)

    def construct(self, x):
        y, (h, c) = self.lstm(x)
        return self.out(y), h, c


@case(f32(5, 2, 4))
class GRU(nn.Cell):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(4, 6, num_layers=1, bidirectional=True)

    def construct(self, x):
        y, h = self.gru(x)
        return y, h


@case(f32(2, 5, 4))
class RNN(nn.Cell):
    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(4, 6, batch_first=True)

    def construct(self, x):
        y, h = self.rnn(x)
        return y + h[0].expand_dims(1)


@case(f32(3, 4), f32(3, 5, seed=3))
class LSTMCell(nn.Cell):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(4, 5)

    def construct(self, x, h):
        return self.cell(x, (h, h))


@case(f32(2, 6, 8))
class Attention(nn.Cell):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Dense(8, 24)
        self.out = nn.Dense(8, 8)
        self.softmax = nn.Softmax(-1)

    def construct(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).reshape(b, t, 3, 2, 4).transpose(
            2, 0, 3, 1, 4)
        scores = ops.matmul(q, k.swapaxes(-1, -2)) / 2.0
        mask = ops.tril(ops.ones((t, t), ms.float32))
        scores = ops.masked_fill(scores, mask == 0, -1e9)
        y = ops.matmul(self.softmax(scores), v).transpose(0, 2, 1, 3).reshape(b, t, d)
        return self.out(y)


@case(f32(4, 2, 8))
class MultiheadAttention(nn.Cell):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2)

    def construct(self, x):
        return self.attention(x, x, x)


@case(f32(4, 2, 8))
def TransformerEncoder():
    layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16)
    return nn.TransformerEncoder(layer, 2)


@case(f32(3, 2, 8), f32(4, 2, 8, seed=5))
def TransformerDecoderLayer():
    return nn.TransformerDecoderLayer(8, 2, dim_feedforward=16)


@case(i32(20, 2, 5))
class Embedding(nn.Cell):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 6)
        self.position = ms.Parameter(ms.Tensor(f32(5, 6)), name="position")
        self.norm = nn.LayerNorm((6,))
        self.dense = nn.Dense(6, 20)

    def construct(self, ids):
        x = self.norm(self.table(ids) + self.position)
        return self.dense(x).argmax(-1), ops.log_softmax(self.dense(x), -1)


@case(f32(2, 4, 6))
class Mixer(nn.Cell):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm((6,))
        self.tokens = nn.SequentialCell(nn.Dense(4, 8), nn.GELU(), nn.Dense(8, 4))
        self.channels = nn.SequentialCell(nn.Dense(6, 8), nn.GELU(False), nn.Dense(8, 6))
        self.drop = nn.Dropout(p=0.2)

    def construct(self, x):
        x = x + self.tokens(self.norm(x).swapaxes(1, 2)).swapaxes(1, 2)
        return x + self.drop(self.channels(self.norm(x)))


@case(f32(2, 4, 5, 5))
class Norms(nn.Cell):
    def __init__(self):
        super().__init__()
        self.group = nn.GroupNorm(2, 4)
        self.instance = nn.InstanceNorm2d(4)

    def construct(self, x):
        return self.group(x) + ops.sqrt(ops.abs(x))


@case(f32(3,), np.int32(2))
class If(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = ms.Parameter(ms.Tensor(f32(3, seed=9)), name="w")

    def construct(self, x, n):
        if n > 1:
            y = x * self.w
        else:
            y = x - self.w
        return y + 1


@case(f32(3,), np.int32(4))
class While(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = ms.Parameter(ms.Tensor(f32(3, seed=9)), name="w")

    def construct(self, x, n):
        i = ms.Tensor(0, ms.int32)
        while i < n:
            x = ops.tanh(x * self.w) + x
            i = i + 1
        return x, i


@case(f32(3, 4))
class For(nn.Cell):
    def __init__(self):
        super().__init__()
        self.layers = nn.CellList([nn.Dense(4, 4) for _ in range(3)])

    def construct(self, x):
        for layer in self.layers:
            x = ops.relu(layer(x)) + x
        for i in range(3):
            x = x * (i + 1)
        return x


@case(f32(3,), np.int32(6))
class NestedFlow(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = ms.Parameter(ms.Tensor(f32(3, seed=9)), name="w")

    def construct(self, x, n):
        i = ms.Tensor(0, ms.int32)
        while i < n:
            if x.sum() > 3:
                x = x * self.w
            else:
                x = x + self.w
            i = i + 1
        return x


@case(f32(3,), np.int32(6))
class LoopInLoop(nn.Cell):
    def construct(self, x, n):
        i = ms.Tensor(0, ms.int32)
        while i < n:
            j = ms.Tensor(0, ms.int32)
            while j < i:
                x = x * 0.5 + 1
                j = j + 1
            i = i + 1
        return x


@case(f32(3,))
class WhileBreak(nn.Cell):
    def construct(self, x):
        i = ms.Tensor(0, ms.int32)
        total = x
        while i < 10:
            total = total + x * 0.25
            if total.max() > 2:
                break
            i = i + 1
        return total, i


@case(f32(4, 5), i32(3, 4))
def TrainMomentum():
    net = nn.SequentialCell(nn.Dense(5, 6), nn.ReLU(), nn.Dense(6, 3))
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    return _step(net, loss, lambda p: nn.Momentum(p, 0.1, 0.9))


@case(f32(4, 5), f32(4, 2, seed=4))
def TrainAdam():
    net = nn.SequentialCell(nn.Dense(5, 6), nn.Tanh(), nn.Dense(6, 2))
    return _step(net, nn.MSELoss(), lambda p: nn.Adam(p, 0.01))


@case(f32(4, 5), f32(4, 2, seed=4))
def TrainSGD():
    net = nn.SequentialCell(nn.Dense(5, 6), nn.Sigmoid(), nn.Dense(6, 2))
    return _step(net, nn.L1Loss(), lambda p: nn.SGD(p, 0.1))


@case(f32(4, 5), f32(4, 2, seed=4))
def TrainAdamWeightDecay():
    net = nn.SequentialCell(nn.Dense(5, 6), nn.GELU(), nn.Dense(6, 2))
    return _step(net, nn.MSELoss(), lambda p: nn.AdamWeightDecay(p, 0.01))


@case(f32(2, 1, 8, 8), i32(3, 2))
class TrainConv(nn.Cell):
    """A training step of a convolutional network; a function that makes it is in `__new__`."""

    def __new__(cls):
        net = nn.SequentialCell(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2, 2), nn.Flatten(),
            nn.Dense(64, 3))
        loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
        return _step(net, loss, lambda p: nn.Momentum(p, 0.1, 0.9))


def _step(net, loss, optimizer):
    step = nn.TrainOneStepCell(nn.WithLossCell(net, loss), optimizer(net.trainable_params()))
    step.set_train()
    return step


@case(f32(4, 6))
class Autoencoder(nn.Cell):
    def __init__(self):
        super().__init__()
        self.encode = nn.SequentialCell(nn.Dense(6, 4), nn.ReLU(), nn.Dense(4, 2))
        self.decode = nn.SequentialCell(nn.Dense(2, 4), nn.ReLU(), nn.Dense(4, 6), nn.Sigmoid())

    def construct(self, x):
        code = self.encode(x)
        return self.decode(code), code


@case(f32(1, 2, 8, 8))
class UNet(nn.Cell):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(2, 4, 3)
        self.pool = nn.MaxPool2d(2, 2)
        self.middle = nn.Conv2d(4, 4, 3)
        self.up = nn.Conv2d(8, 1, 1)

    def construct(self, x):
        a = ops.relu(self.down(x))
        b = ops.relu(self.middle(self.pool(a)))
        b = ops.interpolate(b, size=(8, 8), mode="bilinear", align_corners=False)
        return self.up(ops.cat((a, b), 1))


@case(f32(2, 3), f32(2, 3, seed=7))
class ManyResults(nn.Cell):
    def construct(self, x, y):
        s = x + y
        return s, (x * y, x / (ops.abs(y) + 1)), ops.maximum(x, y)


@case(f32(5, 4), i32(5, 3))
class Gathers(nn.Cell):
    def construct(self, x, index):
        picked = ops.gather(x, index, 0)
        elements = ops.gather_elements(x, 0, index.expand_dims(1).astype(ms.int64))
        hot = ops.one_hot(index, 5, ms.Tensor(1.0, ms.float32), ms.Tensor(0.0, ms.float32))
        return picked, elements, hot


@case(f32(4, 6))
class Sorting(nn.Cell):
    def construct(self, x):
        values, places = ops.topk(x, 2)
        ordered, _ = ops.sort(x, 1)
        return values, places, ordered, ops.argmin(x, 0), ops.cumsum(x, 1)


@case(f32(2, 3, 4), f32(2, 4, 5))
class Products(nn.Cell):
    def construct(self, a, b):
        c = ops.bmm(a, b)
        return c, ops.matmul(a, b[0]), mint.einsum("bij,bjk->bik", a, b)


@case(f32(3, 4, 5))
class Reductions(nn.Cell):
    def construct(self, x):
        return (x.sum(1), x.mean((0, 2)), x.max(), ops.amax(x, 1, True), ops.std(x, 0),
                ops.prod(ops.abs(x), 2), ops.logsumexp(x, 1), x.min(axis=1))


@case(f32(3, 4), f32(3, 4, seed=2))
class Selecting(nn.Cell):
    def construct(self, x, y):
        mask = ops.logical_and(x > 0, y < 0.5)
        return ops.where(mask, x, y), ops.select(mask, y, x), ops.clamp(x, -0.5, 0.5), \
            ops.isnan(x), ops.sign(x)


@case(f32(4, 6, 5))
class Slicing(nn.Cell):
    def construct(self, x):
        return x[1:, ::2], x[..., -1], x[0], x[:, 1:3, None]


@case(f32(2, 6), f32(2, 6, seed=8))
class Joining(nn.Cell):
    def construct(self, x, y):
        a, b = ops.split(x, 3, 1)
        return (ops.cat((a, y), 1), ops.stack((x, y), 0), ops.tile(b, (2, 1)),
                ops.flip(x, (1,)), ops.squeeze(ops.unsqueeze(y, 0), 0),
                ops.broadcast_to(y[:, :1], (2, 4)), ops.pad(x, (1, 1), value=0.5))


@case(f32(3, 4).astype(np.float16))
class Half(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(4, 4).to_float(ms.float16)

    def construct(self, x):
        return ops.cast(self.dense(x), ms.float32) + ops.cast(x, ms.float32)


@case(i32(50, 3, 4), i32(7, 3, 4, seed=3))
class Integers(nn.Cell):
    def construct(self, a, b):
        b = b + 1
        return a // b, a % b, ops.bitwise_and(a, b), a - b * 2, ops.cast(a, ms.float32) / 3, a == b


@case(f32(3,))
class Counter(nn.Cell):
    def __init__(self):
        super().__init__()
        self.count = ms.Parameter(ms.Tensor(np.float32(1)), name="count", requires_grad=False)
        self.total = ms.Parameter(ms.Tensor(np.zeros(3, np.float32)), name="total")

    def construct(self, x):
        ops.assign_add(self.count, ms.Tensor(1, ms.float32))
        self.total = self.total + x * self.count
        return self.total * 2


@case(f32(3, 4))
class Gradient(nn.Cell):
    def __init__(self):
        super().__init__()
        self.net = nn.Dense(4, 2)
        self.grad = ops.GradOperation()

    def construct(self, x):
        return self.grad(self.net)(x)


@case(f32(2, 4), f32(2, 4, seed=6))
class Distances(nn.Cell):
    def construct(self, x, y):
        n = ops.norm(x, dim=1)
        return n, ops.cosine_similarity(x, y, dim=1), ops.exp(-ops.square(x - y)), \
            ops.erf(x), ops.pow(ops.abs(x), 1.5), ops.floor(x), ops.log1p(ops.abs(y))


@case(f32(2, 4, 6))
class Mint(nn.Cell):
    def __init__(self):
        super().__init__()
        self.linear = mint.nn.Linear(6, 4)
        self.norm = nn.LayerNorm((4,))

    def construct(self, x):
        y = self.norm(mint.nn.functional.relu(self.linear(x)))
        return (mint.sum(y, dim=-1), mint.cat((y, y), 2), mint.mean(y, 1),
                mint.nn.functional.softmax(y, 1))


def tensors(value):
    """The tensors of nested results."""
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in tensors(v)]
    return [value]


def build(name):
    ms.set_seed(3)
    np.random.seed(3)
    make, inputs = NETWORKS[name]
    net = make()
    rng = RNG(17)
    for p in net.get_parameters():
        if p.dtype == ms.float32 and p.requires_grad:
            p.set_data(ms.Tensor((rng.standard_normal(p.shape) * 0.4).astype(np.float32)))
        elif "variance" in p.name:
            p.set_data(ms.Tensor((rng.rand(*p.shape) + 0.5).astype(np.float32)))
        elif "moving_mean" in p.name:
            p.set_data(ms.Tensor((rng.standard_normal(p.shape) * 0.1).astype(np.float32)))
    if not name.startswith("Train"):
        net.set_train(False)
    return net, inputs


def write(folder, names):
    report = {}
    for name in names:
        try:
            net, inputs = build(name)
            given = [ms.Tensor(v) for v in inputs]
            path = folder / f"{name}.mindir"
            if path.exists():
                path.chmod(0o600)
                path.unlink()
            ms.export(net, *given, file_name=str(path), file_format="MINDIR")
            path.chmod(0o600)
            found = [t.asnumpy() for _ in range(2 if name.startswith("Train") or name == "Counter"
                                                else 1) for t in tensors(net(*given))]
            outs = {f"out_{i}": f for i, f in enumerate(found)}
            np.savez(folder / f"{name}.npz", *inputs, **outs)
            report[name] = ""
        except Exception as error:
            report[name] = f"{type(error).__name__}: {error}"[:1500]
    return report


def read(folder, names):
    report = {}
    for name in names:
        try:
            stored = np.load(folder / f"{name}.npz")
            given = [ms.Tensor(stored[f"arr_{i}"]) for i in range(len(NETWORKS[name][1]))]
            net = nn.GraphCell(ms.load(str(folder / f"{name}.mindir")))
            if name.startswith("Train"):
                net.set_train()
            found = [t.asnumpy() for _ in range(2 if name.startswith("Train") or name == "Counter"
                                                else 1) for t in tensors(net(*given))]
            wanted = [stored[f"out_{i}"] for i in range(sum(k.startswith("out_") for k in stored))]
            if [(a.shape, a.dtype) for a in found] != [(a.shape, a.dtype) for a in wanted]:
                report[name] = f"shapes {[(a.shape, str(a.dtype)) for a in found]}, wanted " \
                    f"{[(a.shape, str(a.dtype)) for a in wanted]}"
                continue
            report[name] = max((float(np.max(np.abs(a.astype(np.float64) - b)
                                             / np.maximum(1, np.abs(b))))
                                for a, b in zip(found, wanted, strict=True) if a.size), default=0.0)
        except Exception as error:
            report[name] = f"{type(error).__name__}: {error}"[:3000]
    return report


if __name__ == "__main__":
    ms.set_context(mode=ms.PYNATIVE_MODE if os.environ.get("MODE") == "pynative"
                   else ms.GRAPH_MODE)
    action, place, *chosen = sys.argv[1:]
    print(json.dumps({"write": write, "read": read}[action](Path(place), chosen or list(NETWORKS))))
