"""CTC losses and their gradients. Runs under cellc and under MindSpore."""

import numpy as np


def run(ms, nn, blank, reduction, zero_infinity, form):
    random = np.random.RandomState(3)
    x = random.randn(7, 3, 5).astype(np.float32)
    targets = np.array([[1, 1, 2, 3], [4, 2, 0, 0], [3, 4, 1, 0]], np.int32)
    targets[targets == blank] = (blank + 1) % 5
    sizes, reach = [4, 2, 3], [7, 5, 6]
    if zero_infinity:  # two equal labels do not fit into two steps
        targets[2, 1], sizes[2], reach[2] = targets[2, 0], 2, 2
    if form == "one":
        x, targets, sizes, reach = x[:, :1], targets[:1], sizes[:1], reach[:1]
    sizes, reach = ms.Tensor(sizes, ms.int32), ms.Tensor(reach, ms.int32)
    loss = nn.CTCLoss(blank, reduction, zero_infinity)

    def of(v):
        logs = ms.ops.log_softmax(v, -1)
        return loss(logs, ms.Tensor(targets), reach, sizes).sum()

    value, gradient = ms.value_and_grad(of)(ms.Tensor(x))
    each = loss(ms.ops.log_softmax(ms.Tensor(x), -1), ms.Tensor(targets), reach, sizes)
    return float(value), each.asnumpy().tolist(), gradient.asnumpy().tolist()
