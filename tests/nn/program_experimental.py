"""A few steps of an experimental optimizer. Runs under cellc and under MindSpore."""

import importlib

import numpy as np


def run(ms, nn, expression, steps=6):
    optim = importlib.import_module(ms.__name__ + ".experimental.optim")
    random = np.random.RandomState(1)
    shapes = {"a.weight": (3, 4), "a.gamma": (4,), "b.bias": (2,)}
    ps = [ms.Parameter(ms.Tensor(random.randn(*s).astype(np.float32)), name=n)
          for n, s in shapes.items()]
    optimizer = eval(expression, {"optim": optim, "ps": ps, "ms": ms})
    trajectory = []
    for i in range(steps):
        gradients = [random.randn(*p.shape).astype(np.float32) for p in optimizer.parameters]
        optimizer(tuple(ms.Tensor(g) for g in gradients))
        trajectory.append([p.asnumpy().ravel().tolist() for p in ps])
        if i == 3:
            ms.ops.assign(optimizer.param_groups[0]["lr"], 0.05)
    names = [p.name for p in optimizer.get_parameters()]
    return trajectory, sorted(names), repr(optimizer)
