"""A user's script as type checkers have to read it: nothing here is an error, or of type Any."""

from typing import assert_type

import cellc as ms
from cellc import Parameter, Tensor, mint, nn, ops
from cellc import numpy as mnp
from cellc.nn.layer import Dense
from cellc.nn.optim import Adam
from cellc.ops import functional as F
from cellc.ops import operations as P

Pair = tuple[Tensor, Tensor]


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(2, 3)
        self.relu = ops.ReLU()

    def construct(self, x: Tensor, scale: float = 1.0) -> Tensor:
        hidden = self.relu(self.dense(x))
        assert_type(hidden, Tensor)
        return ops.softmax(hidden, axis=-1) * scale


class Deeper(Net):
    pass


class Both(nn.Cell):
    def construct(self, x: Tensor) -> Pair:
        return x, x


x = Tensor([[1.0, 2.0]])
net = Net()

# Cells give what their `construct` gives.
assert_type(net(x), Tensor)
assert_type(net(x, scale=2.0), Tensor)
assert_type(Deeper()(x), Tensor)
assert_type(Both()(x), Pair)
assert_type(nn.Dense(2, 3)(x), Tensor)
assert_type(Dense(2, 3)(x), Tensor)
assert_type(mint.nn.Linear(2, 3)(x), Tensor)
assert_type(nn.LSTMCell(2, 3).hidden_size, int)

# Functions: by hand, from op definitions, from tables, from modules that load later.
assert_type(ops.softmax(x), Tensor)
assert_type(ops.exp(x), Tensor)
assert_type(ops.arccos(x), Tensor)
assert_type(ops.multiply(x, 2), Tensor)
assert_type(ops.tensor_add(x, 2), Tensor)
assert_type(ops.topk(x, 1), Pair)
assert_type(ops.gcd(x, x), Tensor)
assert_type(ops.fft(x), Tensor)
assert_type(F.relu(x), Tensor)
assert_type(mint.bmm(x, x), Tensor)
assert_type(mint.add(x, 1, alpha=2), Tensor)
assert_type(mint.sort(x, dim=0), Pair)
assert_type(mint.nn.functional.gelu(x, approximate="tanh"), Tensor)
assert_type(mnp.sin(x), Tensor)
assert_type(mnp.add(x, 1, dtype=ms.float32), Tensor)
assert_type(mnp.zeros((2, 3)), Tensor)

# Primitives: arguments of the init, then operands.
assert_type(ops.Softmax(axis=-1)(x), Tensor)
assert_type(ops.MatMul(transpose_b=True)(x, x), Tensor)
assert_type(ops.ArgMaxWithValue(axis=1)(x), Pair)
assert_type(ops.Dropout(0.9)(x), Pair)
assert_type(P.ReLU()(x), Tensor)

# Operators, methods and properties of Tensor.
assert_type(x + 1, Tensor)
assert_type(2 * x, Tensor)
assert_type(x @ x.T, Tensor)
assert_type(x == x, Tensor)
assert_type(x < 1, Tensor)
assert_type(-x, Tensor)
assert_type(x[0, :], Tensor)
assert_type(x.sum(), Tensor)
assert_type(x.sum(axis=0, keepdims=True), Tensor)
assert_type(x.exp(), Tensor)
assert_type(x.float(), Tensor)
assert_type(x.cumsum(dim=0), Tensor)
assert_type(x.cumsum(axis=0), Tensor)
assert_type(x.add_(1), Tensor)
assert_type(x.reshape(2, 1).shape, tuple[int, ...])
assert_type(x.ndim, int)
assert_type(Parameter(x, name="weight") + 1, Tensor)


@ms.jit
def doubled(x: Tensor, times: int = 2) -> Tensor:
    return x * times


@ms.jit(dynamic=1)
def halved(x: Tensor) -> Tensor:
    return x / 2


assert_type(doubled(x, times=3), Tensor)
assert_type(halved(x), Tensor)

# Gradients and a step of training.
loss_fn = nn.CrossEntropyLoss()
optimizer = nn.Adam(net.trainable_params(), learning_rate=1e-3)


def forward(data: Tensor, label: Tensor) -> Pair:
    logits = net(data)
    return loss_fn(logits, label), logits


step = ms.value_and_grad(forward, None, optimizer.parameters, has_aux=True)
(loss, logits), gradients = step(x, label=x)
assert_type(loss, Tensor)
assert_type(gradients, tuple[Tensor, ...])
assert_type(optimizer(gradients), tuple[bool, ...])
assert_type(ms.value_and_grad(net)(x, scale=2.0), Pair)
assert_type(ms.grad(doubled)(x), Tensor)
assert_type(Adam(net.trainable_params()).parameters[0], Parameter)

model = ms.Model(net, loss_fn, optimizer, metrics={"accuracy": nn.Accuracy()})
model.train(1, [])
ms.save_checkpoint(net, "net.ckpt")
