"""Loops of the graph and their gradients in an artifact: the bits of PyNative."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np

import cellc as ms
from cellc import cli
from cellc_runtime import artifact

NETWORK = '''
import cellc as ms
from cellc import nn, ops


class Net(nn.Cell):
    """A rolled loop, a loop of unknown length, a choice."""

    def __init__(self):
        super().__init__()
        ms.set_seed(5)
        self.layer = nn.Dense(4, 4, activation="tanh")

    def construct(self, x):
        for i in range(100):
            x = self.layer(x) * 0.5 + i * 0.01
        while x.sum() < 12:
            x = x * 1.01 + ops.cond(x.max() > 3, lambda a: a * 0.01, lambda a: a * 0.02, x)
        return x


def step(net):
    class Step(nn.Cell):
        def __init__(self):
            super().__init__()
            self.net = net
            self.update = nn.SGD(net.trainable_params(), learning_rate=0.1)
            self.grad = ms.value_and_grad(self.loss, None, self.update.parameters)

        def loss(self, x):
            return (self.net(x) ** 2).mean()

        def construct(self, x):
            value, grads = self.grad(x)
            self.update(grads)
            return value

    return Step()
'''


def test_loops_in_an_artifact(tmp_path: Path) -> None:
    file, out = tmp_path / "net.py", tmp_path / "net.cellc"
    file.write_text(NETWORK)
    assert cli.main(["compile", f"{file}:Net", "-i", "x=float32[2,4]", "-o", str(out),
                     "--train", "step"]) == 0
    spec = importlib.util.spec_from_file_location("net", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = artifact.load(out, trust_native_code=True)
    net = module.Net()
    for p in net.get_parameters():  # (the step renames them)
        p.set_data(ms.Tensor(made.weights[p.name]))
    step = module.step(net)
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    ms.set_context(mode=ms.PYNATIVE_MODE)
    assert made(x).tobytes() == net(ms.Tensor(x)).asnumpy().tobytes()
    for _ in range(3):
        loss = step(ms.Tensor(x))
        assert made.call("train", x).tobytes() == loss.asnumpy().tobytes()
