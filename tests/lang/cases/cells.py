"""Cells: attributes, containers of Cells, Parameters, calls in every form, Primitives."""
# The programs use Python in every way, good style or not.
# ruff: noqa

from __future__ import annotations

from typing import Any

import numpy as np

import cellc as ms
from cellc import Parameter, Tensor, nn, ops

from .table import X, Y, Table

case = Table(X, Y)
MAT = np.arange(6, dtype=np.float32).reshape(2, 3) / 2 - 1


def cell(fn: Any) -> Any:
    """A case whose network is made anew for each mode."""
    return case.on(make=True, python=False)(fn)


class Scale(nn.Cell):
    def __init__(self, k: float = 2.0) -> None:
        super().__init__()
        self.k = k
        self.w = Parameter(Tensor(np.array([1, 2, 3], np.float32)), name="w")

    def construct(self, x: Any, shift: Any = 0) -> Any:
        return x * self.w * self.k + shift


@cell
def simple() -> Any:
    return Scale()


@cell
def default_and_keyword() -> Any:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.s = Scale()

        def construct(self, x: Any) -> Any:
            return self.s(x), self.s(x, 1), self.s(x, shift=2), self.s(shift=3, x=x), self.s(*[x, 4])

    return Net()


@cell
def cell_list() -> Any:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.CellList([Scale(k) for k in (1.0, 0.5, 2.0)])

        def construct(self, x: Any) -> Any:
            out = []
            for layer in self.layers:
                x = layer(x)
            for i, layer in enumerate(self.layers):
                out.append(layer(x, i))
            for layer in self.layers[1:]:
                x = layer(x)
            return x, out, len(self.layers), self.layers[-1](x), self.layers[0].k

    return Net()


@cell
def sequential() -> Any:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.seq = nn.SequentialCell(Scale(), nn.ReLU(), Scale(0.5))

        def construct(self, x: Any) -> Any:
            for c in self.seq:
                x = c(x)
            return self.seq(x), self.seq[1](x), len(self.seq)

    return Net()


@cell
def cell_dict() -> Any:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.CellDict({"a": Scale(1.0), "b": Scale(3.0)})

        def construct(self, x: Any) -> Any:
            out = [self.table["a"](x)]
            for name in self.table.keys():
                out.append(self.table[name](x))
            for name, c in self.table.items():
                out.append(c(x, len(name)))
            for c in self.table.values():
                x = c(x)
            return out, x, "a" in self.table, len(self.table)

    return Net()


@cell
def cells_in_plain_containers() -> Any:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.cells_list = [Scale(1.0), Scale(2.0)]
            self.cells_dict = {"x": Scale(3.0)}
            self.pair = (Scale(4.0), nn.Tanh())

        def construct(self, x: Any) -> Any:
            for c in self.cells_list:
                x = c(x)
            return self.cells_dict["x"](x) + self.pair[0](x), self.pair[1](x)

    return Net()


@cell
def parameters_as_values() -> Any:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = Parameter(Tensor(np.ones(3, np.float32)), name="w")
            self.b = Parameter(Tensor(0.5), name="b")
            self.table = Tensor(np.array([1, 2, 3], np.float32))

        def construct(self, x: Any) -> Any:
            w = self.w
            total = 0
            for p in (self.w, self.b):
                total = total + p.sum()
            return x * w + self.b, total, self.w.shape, self.table * x, -self.w, self.w[0] + self.b, self.w.dtype == x.dtype

    return Net()


@cell
def parameter_assignment() -> Any:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = Parameter(Tensor(np.ones(3, np.float32)), name="w")
            self.n = Parameter(Tensor(0, ms.int32), name="n")

        def construct(self, x: Any) -> Any:
            before = self.w + 0
            self.w = self.w + x
            self.n += 1
            ops.assign(self.w, self.w * 2)
            self.w[0] = 7.0
            return before, self.w + 0, self.n + 0

    return Net()


@cell
def setattr_on_parameters() -> Any:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.a = Parameter(Tensor(np.ones(3, np.float32)), name="a")
            self.b = Parameter(Tensor(np.ones(3, np.float32)), name="b")

        def construct(self, x: Any) -> Any:
            for name in ("a", "b"):
                setattr(self, name, getattr(self, name) * 2 + x)
            return self.a + 0, self.b + 0, hasattr(self, "a"), hasattr(self, "c")

    return Net()


@cell
def assignment_under_conditions() -> Any:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = Parameter(Tensor(np.zeros(3, np.float32)), name="w")

        def construct(self, x: Any) -> Any:
            if x.sum() > 0:
                self.w = self.w + x
            else:
                self.w = x * 2
            n = 0
            while self.w.sum() < 20 and n < 5:
                self.w += 1
                n += 1
            return self.w + 0, n

    return Net()


@cell
def methods_of_the_cell() -> Any:
    class Net(nn.Cell):
        factor = 3

        def __init__(self) -> None:
            super().__init__()
            self.bias = 1

        def construct(self, x: Any) -> Any:
            return self.helper(x, k=2) + self.static(x) + self.size + self.of_class() + self._inner(x)

        def helper(self, x: Any, k: int = 1) -> Any:
            return x * k + self.bias

        def _inner(self, x: Any) -> Any:
            def f(v: Any) -> Any:
                return v + self.bias

            return f(x)

        @staticmethod
        def static(x: Any) -> Any:
            return x - 1

        @classmethod
        def of_class(cls) -> int:
            return cls.factor

        @property
        def size(self) -> int:
            return 10

    return Net()


@cell
def inherited_construct() -> Any:
    class Base(nn.Cell):
        def __init__(self, k: int) -> None:
            super().__init__()
            self.k = k

        def pre(self, x: Any) -> Any:
            return x + 1

        def construct(self, x: Any) -> Any:
            return self.pre(x) * self.k

    class Child(Base):
        def __init__(self) -> None:
            super().__init__(5)

        def pre(self, x: Any) -> Any:
            return super().pre(x) * 2

        def construct(self, x: Any) -> Any:
            return super().construct(x) - 1, super(Child, self).construct(x)

    return Child()


@cell
def primitives_inside_construct() -> Any:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.add = ops.Add()
            self.sum = ops.ReduceSum(keep_dims=True)

        def construct(self, x: Any) -> Any:
            mul = ops.Mul()
            return self.add(x, 1), self.sum(x, 0), mul(x, x), ops.ReduceMean()(x), ops.Cast()(x, ms.int32), \
                ops.Concat(axis=0)((x, x)), ops.Transpose()(x.reshape(1, 3), (1, 0)), ops.OnesLike()(x)

    return Net()


@cell
def cells_made_inside_construct() -> Any:
    class Net(nn.Cell):
        def construct(self, x: Any) -> Any:
            return nn.ReLU()(x), nn.Softmax(axis=0)(x), nn.Flatten()(x.reshape(1, 3)), nn.LeakyReLU(0.1)(x)

    return Net()


@cell
def tensors_made_inside_construct() -> Any:
    class Net(nn.Cell):
        def construct(self, x: Any) -> Any:
            c = Tensor([1, 2, 3], ms.float32)
            z = ops.zeros((2, 3), ms.float32)
            return x + c, z, ops.ones_like(x), ops.full((2,), 7, dtype=ms.int32), ops.arange(4), Tensor(2.5), \
                ops.eye(2, 2, ms.float32), ms.tensor([1.5]), Tensor(np.arange(3)), ms.numpy_like if False else 0

    return Net()


@cell
def training_flag_and_mode() -> Any:
    class Net(nn.Cell):
        def construct(self, x: Any) -> Any:
            if self.training:
                return x + 1
            return x - 1

    return Net().set_train(False)


@cell
def attributes_of_every_kind() -> Any:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.i, self.f, self.s, self.n, self.t = 2, 0.5, "mean", None, (1, 2)
            self.d = {"a": 1, "b": [1, 2]}
            self.fn = lambda v: v * 10
            self.dtype = ms.float16
            self.act = ops.relu
            self.shape = [3, 1]

        def construct(self, x: Any) -> Any:
            y = self.act(x) * self.i + self.f
            if self.n is None and self.s == "mean":
                y = y + self.d["b"][1]
            a, b = self.t
            return y * a + b, self.fn(x), x.astype(self.dtype), x.reshape(self.shape), self.s, self.d, self.t

    return Net()


@cell
def cells_as_arguments() -> Any:
    def run(cell: Any, x: Any) -> Any:
        return cell(x) + 1

    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = Scale(1.0), Scale(2.0)

        def construct(self, x: Any) -> Any:
            pick = self.a if len(x) > 5 else self.b
            return run(self.a, x), pick(x), [c(x) for c in (self.a, self.b)], list(map(self.a, [x]))

    return Net()


@cell
def cell_chosen_at_run_time() -> Any:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = Scale(1.0), Scale(2.0)
            self.branches = nn.CellList([Scale(1.0), Scale(3.0), Scale(5.0)])

        def construct(self, x: Any) -> Any:
            y = self.a(x) if x.sum() > 0 else self.b(x)
            i = (x > 0).astype(ms.int32).sum()
            return y, self.branches[int(i) % 3](x)

    return Net()


@cell
def shared_cell() -> Any:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.a = Scale(1.0)
            self.b = self.a
            self.inner = nn.CellList([self.a, self.a])

        def construct(self, x: Any) -> Any:
            return self.b(self.a(x)), self.inner[0](x) + self.inner[1](x)

    return Net()


@cell
def star_arguments_of_construct() -> Any:
    class Inner(nn.Cell):
        def construct(self, x: Any, *more: Any, scale: Any = 1, **named: Any) -> Any:
            return x * scale + sum(more) + named.get("z", 0)

    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def construct(self, x: Any) -> Any:
            return self.inner(x), self.inner(x, 1, 2), self.inner(x, scale=3), self.inner(x, 1, z=x, scale=2)

    return Net()


@cell
def nested_outputs() -> Any:
    class Net(nn.Cell):
        def construct(self, x: Any) -> Any:
            return {"a": (x, [x + 1]), "b": {"c": x * 2, "d": None}}, (x,), []

    return Net()


@cell
def while_with_cells() -> Any:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.step = nn.Dense(3, 3, weight_init=0.1, bias_init=0.2)

        def construct(self, x: Any) -> Any:
            h, n = x.reshape(1, 3), 0
            while n < 4 and abs(h).max() > 0.3:
                h = self.step(h)
                n += 1
            return h, n

    return Net()


@cell
def parameter_tuple() -> Any:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.ps = ms.ParameterTuple([Parameter(Tensor(np.full(3, k, np.float32)), name=f"p{k}") for k in (1, 2)])

        def construct(self, x: Any) -> Any:
            for p in self.ps:
                x = x + p
            return x * self.ps[0], len(self.ps)

    return Net()


@cell
def hooks_of_python_inside() -> Any:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.names = []
            for i in range(2):
                setattr(self, f"layer{i}", Scale(float(i + 1)))

        def construct(self, x: Any) -> Any:
            for i in range(2):
                x = getattr(self, f"layer{i}")(x)
            return x

    return Net()


@cell
def gradient_inside() -> Any:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.f = lambda v: (v * v).sum()
            self.grad = ms.grad(self.f)

        def construct(self, x: Any) -> Any:
            return self.grad(x), ms.grad(lambda v: (v ** 3).sum())(x), ms.value_and_grad(self.f)(x)

    return Net()
