"""Spread of the parameters a layer draws by default. Runs under cellc and under MindSpore."""

import numpy as np


def run(ms, nn, make):
    ms.set_seed(1)
    net = eval(make, {"nn": nn, "ms": ms, "init": ms.common.initializer})
    tensors = [(p.name, p) for p in net.get_parameters()] if isinstance(net, nn.Cell) else \
        [("tensor", net.init_data())]
    out = []
    for name, t in tensors:
        a = t.asnumpy().astype(np.float64)
        out.append([name, float(a.mean()), float(a.std()), float(np.abs(a).max()), a.size])
    return out
