"""Mistakes of a user that a type checker has to find: each line says which error it is."""

import cellc as ms
from cellc import Tensor, mint, nn, ops
from cellc import numpy as mnp


class Net(nn.Cell):
    def construct(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return x * scale


x = Tensor([[1.0, 2.0]])

ops.softmaxx(x)  # wrong: attr-defined
ops.softmax(x, axes=0)  # wrong: call-arg
ops.exp(x, x)  # wrong: call-arg
ops.exp()  # wrong: call-arg
ops.ReLu()  # wrong: attr-defined
ops.Softmax(axes=0)  # wrong: call-arg
ops.Softmax()(x, x)  # wrong: call-arg
mint.bmmm(x, x)  # wrong: attr-defined
mint.bmm(x)  # wrong: call-arg
mint.nn.functional.gelu(x, aproximate="tanh")  # wrong: call-arg
mnp.sinn(x)  # wrong: attr-defined
mnp.sin(x, x, x)  # wrong: call-arg
nn.Dens(2, 3)  # wrong: attr-defined
nn.Dense(2, 3, bias=True)  # wrong: call-arg
nn.Dense(2, 3)(x, x)  # wrong: call-arg
Net()(x, factor=2.0)  # wrong: call-arg
Net()()  # wrong: call-arg
x.summ()  # wrong: attr-defined
x.sum(axes=0)  # wrong: call-arg
ms.Modell(Net())  # wrong: attr-defined
x.astype(ms.common.float33)  # wrong: attr-defined
ms.dataset.GeneratorDatasett([])  # wrong: attr-defined
ms.train.LossMonitorr()  # wrong: attr-defined


@ms.jit
def doubled(x: Tensor) -> Tensor:
    return x * 2


doubled(x, x)  # wrong: call-arg
ms.value_and_grad(doubled)(y=x)  # wrong: call-arg
