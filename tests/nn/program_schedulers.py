"""Rates of groups under a scheduler. Runs under cellc and under MindSpore."""

import importlib

import numpy as np


def run(ms, nn, expression, steps=12, jump=None):
    optim = importlib.import_module(ms.__name__ + ".experimental.optim")
    schedulers = importlib.import_module(ms.__name__ + ".experimental.optim.lr_scheduler")
    ps = [ms.Parameter(ms.Tensor(np.ones(2, np.float32)), name=n) for n in ("a", "b")]
    o = optim.SGD([{"params": ps[:1], "lr": 0.1}, {"params": ps[1:]}], 0.4)
    s = eval(expression, {"s": schedulers, "o": o})
    plateau = expression.startswith("s.ReduceLROnPlateau")
    losses = [1.0, 0.9, 0.95, 0.9, 0.9, 0.9, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6]

    def rates():
        return [float(group["lr"].asnumpy()) for group in o.param_groups]

    seen = [rates()]
    for i in range(steps):
        if plateau:
            s.step(losses[i])
        elif jump is not None and i == 3:
            s.step(jump)
        else:
            s.step()
        seen.append(rates())
        assert [float(r.asnumpy()) for r in s.get_last_lr()] == rates()
    return seen
