"""A few steps of an optimizer. Runs under cellc and under MindSpore."""

import numpy as np


def run(ms, nn, expression, steps=4):
    random = np.random.RandomState(1)
    shapes = {"a.weight": (3, 4), "a.gamma": (4,), "b.bias": (2,)}
    ps = [ms.Parameter(ms.Tensor(random.randn(*s).astype(np.float32)), name=n)
          for n, s in shapes.items()]
    optimizer = eval(expression, {"nn": nn, "ps": ps, "ms": ms})
    trajectory = []
    for _ in range(steps):
        gradients = [random.randn(*p.shape).astype(np.float32) for p in optimizer.parameters]
        optimizer(tuple(ms.Tensor(g) for g in gradients))
        trajectory.append([p.asnumpy().ravel().tolist() for p in ps])
    names = [p.name for p in optimizer.get_parameters()]
    return trajectory, sorted(names), repr(optimizer)
