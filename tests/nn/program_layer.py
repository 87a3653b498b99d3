"""A layer, its result and its gradients. Runs under cellc and under MindSpore."""

import numpy as np


def values(x):
    return x.asnumpy().astype(np.float64).ravel().tolist()

def flat(x):
    if not isinstance(x, tuple):
        return [x]
    return [leaf for part in x for leaf in flat(part)]


def run(ms, nn, make, shapes, train):
    random = np.random.RandomState(2)
    net = eval(make, {"nn": nn, "ms": ms, "np": np})
    for p in net.get_parameters():
        value = random.uniform(0.2, 1.0, p.shape).astype(np.float32)
        p.set_data(ms.Tensor(value))
    net.set_train(train)
    inputs = []
    for s in shapes:
        if isinstance(s, str):
            inputs.append(eval(s, {"ms": ms, "np": np}))
        else:
            inputs.append(ms.Tensor(random.uniform(-1, 1, s).astype(np.float32)))
    weights = net.trainable_params()
    # Labels are given as text; MindSpore's kernels give them no (or a wrong) gradient.
    floats = tuple(i for i, x in enumerate(inputs)
                   if "Float" in str(getattr(x, "dtype", ""))
                   and (i == 0 or not isinstance(shapes[i], str)))

    def forward(*xs):
        out = net(*xs)
        first = out[0] if isinstance(out, tuple) else out
        factor = np.cos(np.arange(first.size)).astype(np.float32).reshape(first.shape)
        return (first * ms.Tensor(factor)).sum(), out

    fn = ms.value_and_grad(
        forward, floats if floats else None, weights if weights else None, has_aux=True)
    (_, out), grads = fn(*inputs)
    outs = flat(out)
    if floats and weights:
        by_input, by_weight = grads
    else:
        by_input, by_weight = (grads, ()) if floats else ((), grads)
    if not isinstance(by_input, tuple):
        by_input = (by_input,)
    return {
        "shapes": [list(o.shape) for o in outs],
        "dtypes": [str(o.dtype) for o in outs],
        "out": [values(o) for o in outs],
        "inputs": [values(g) for g in by_input],
        "weights": [values(g) for g in by_weight],
        "state": [values(p) for p in net.get_parameters() if not p.requires_grad],
    }
