"""What changes nothing is the same node, or none, in both modes.

Cotangents of one value are added in the order in which they arrive. Where one mode has a value more
than the other (a copy, a reshape to the same shape), its readers' contributions are summed on their
own first, and the last bits differ once there are three. So all that may be the identity is tried
among other readers of the same value, for arguments and for Parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
import cellc.numpy as cnp
from cellc import Parameter, Tensor, mint, nn, ops

from .law import mode

X = (np.random.default_rng(0).standard_normal((4, 64)) * 2).astype(np.float32)

SAME: dict[str, Callable[[Any], Any]] = {
    "astype": lambda x: x.astype(ms.float32),
    "astype by name": lambda x: x.astype("float32"),
    "astype without copy": lambda x: x.astype(ms.float32, copy=False),
    "cast": lambda x: ops.cast(x, ms.float32),
    "Cast": lambda x: ops.Cast()(x, ms.float32),
    "to": lambda x: x.to(ms.float32),
    "float": lambda x: x.float(),
    "type_as": lambda x: x.type_as(x),
    "through float64": lambda x: x.astype(ms.float64).astype(ms.float32),
    "copy": lambda x: x.copy(),
    "clone": lambda x: x.clone(),
    "deepcopy": lambda x: ops.deepcopy(x),
    "value": lambda x: x.value(),
    "contiguous": lambda x: x.contiguous(),
    "reshape": lambda x: x.reshape(x.shape),
    "reshape twice": lambda x: x.reshape(-1).reshape(x.shape),
    "view": lambda x: x.view(*x.shape),
    "view_as": lambda x: x.view_as(x),
    "Identity": lambda x: ops.Identity()(x),
    "nn.Identity": lambda x: nn.Identity()(x),
    "SequentialCell": lambda x: nn.SequentialCell([])(x),
    "stop_gradient": lambda x: ops.stop_gradient(x),
    "broadcast_to": lambda x: ops.broadcast_to(x, x.shape),
    "expand_as": lambda x: x.expand_as(x),
    "transpose": lambda x: ops.transpose(x, (0, 1)),
    "transpose twice": lambda x: x.T.T,
    "permute": lambda x: x.permute(0, 1),
    "swapaxes": lambda x: x.swapaxes(1, 1),
    "movedim": lambda x: ops.movedim(x, 0, 0),
    "flatten": lambda x: ops.flatten(x),
    "nn.Flatten": lambda x: nn.Flatten()(x),
    "squeeze": lambda x: x.squeeze(),
    "unsqueeze, squeeze": lambda x: ops.squeeze(ops.expand_dims(x, 0), 0),
    "atleast_2d": lambda x: ops.atleast_2d(x),
    "all rows": lambda x: x[:],
    "all elements": lambda x: x[:, :],
    "ellipsis": lambda x: x[...],
    "slice": lambda x: x[0:4],
    "narrow": lambda x: x.narrow(0, 0, 4),
    "tile": lambda x: ops.tile(x, (1, 1)),
    "concat": lambda x: ops.concat([x], 0),
    "split": lambda x: ops.split(x, 4)[0],
    "chunk": lambda x: ops.chunk(x, 1)[0],
    "stack, unstack": lambda x: ops.unstack(ops.stack([x]))[0],
    "pad": lambda x: ops.pad(x, [0, 0]),
    "nn.Pad": lambda x: nn.Pad(((0, 0), (0, 0)))(x),
    "roll": lambda x: ops.roll(x, 0),
    "rot90": lambda x: ops.rot90(x, 4, (0, 1)),
    "flip": lambda x: ops.flip(x, ()),
    "tril": lambda x: ops.tril(x, 99),
    "real": lambda x: ops.real(x),
    "conj": lambda x: x.conj(),
    "plus": lambda x: +x,
    "times one": lambda x: x * 1,
    "plus zero": lambda x: x + 0,
    "over one": lambda x: x / 1,
    "to the power of one": lambda x: x**1,
    "sum over one": lambda x: x.unsqueeze(0).sum(0),
    "mean over one": lambda x: x.unsqueeze(0).mean(0),
    "cumsum of one": lambda x: x.unsqueeze(0).cumsum(0)[0],
    "dropout of none": lambda x: ops.dropout(x, 0.0),
    "nn.Dropout of none": lambda x: nn.Dropout(p=0.0)(x),
    "dropout in inference": lambda x: ops.dropout(x, 0.5, training=False),
    "pooling by one": lambda x: nn.AvgPool1d(1, 1)(x.unsqueeze(0))[0],
    "adaptive pooling": lambda x: nn.AdaptiveAvgPool1d(64)(x.unsqueeze(0))[0],
    "depend": lambda x: ops.depend(x, x),
    "where": lambda x: ops.where(Tensor(True), x, x),
    "gather": lambda x: ops.gather(x, Tensor(np.arange(4)), 0),
    "numpy array": lambda x: cnp.array(x),
    "numpy copy": lambda x: cnp.copy(x),
    "numpy asarray": lambda x: cnp.asarray(x),
    "numpy squeeze": lambda x: cnp.squeeze(x),
    "numpy moveaxis": lambda x: cnp.moveaxis(x, 0, 0),
    "mint clone": lambda x: mint.clone(x),
    "mint reshape": lambda x: mint.reshape(x, x.shape),
    "mint broadcast_to": lambda x: mint.broadcast_to(x, x.shape),
    "mint narrow": lambda x: mint.narrow(x, 0, 0, 4),
    "mint flatten": lambda x: mint.flatten(x, 0, 0),
}


def readers(x: Any, a: Any, y: Any) -> Any:
    """Several contributions to the gradient of `x`, some of them by way of `a`."""
    return (ops.sin(x) * ops.exp(a) * 1.7 + ops.cos(a) * y + ops.tanh(x) * a + ops.sin(a * x)).sum()


class Net(nn.Cell):
    def __init__(self, same: Callable[[Any], Any]) -> None:
        super().__init__()
        self.p = Parameter(Tensor(X), name="p")
        self.same = same

    def construct(self, x: Any) -> Any:
        return readers(self.p, self.same(self.p), x)


@pytest.mark.parametrize("name", SAME)
def test_gradient(name: str) -> None:
    same = SAME[name]

    def of_argument(x: Any) -> Any:
        return readers(x, same(x), x)

    def of_computed(x: Any) -> Any:
        y = x * 1.1
        return readers(y, same(same(y)), x)

    found = []
    for m in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        with mode(m):
            net = Net(same).set_train()
            grads = [ms.grad(fn) for fn in (of_argument, of_computed)]
            grads = [ms.jit(g) if m == ms.GRAPH_MODE else g for g in grads]
            (of_weight,) = ms.grad(net, None, net.trainable_params())(Tensor(X * 0.5))
            found.append([of_weight.asnumpy(), *(g(Tensor(X)).asnumpy() for g in grads)])
    for eager, graph in zip(*found, strict=True):
        np.testing.assert_array_equal(eager, graph)


@pytest.mark.parametrize("name", [n for n in SAME if n not in ("where", "depend")])
def test_writes_into_it(name: str) -> None:
    """Whether it has memory of its own is the same in both modes too."""
    same = SAME[name]

    def fn(x: Any) -> Any:
        x = x * 1
        y = same(x)
        y[0] = 9.0
        return x + 0, y

    with mode(ms.PYNATIVE_MODE):
        eager = fn(Tensor(X))
    with mode(ms.GRAPH_MODE):
        graph = ms.jit(fn)(Tensor(X))
    for a, b in zip(eager, graph, strict=True):
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())
