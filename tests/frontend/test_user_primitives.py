"""Primitives that users define, and functions that run while a graph is made."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from cellc.ops.function.grad.grad_func import custom_vjp

import cellc as ms
from cellc import nn, ops
from cellc.lang.errors import CompileError
from cellc.ops.primitive import _primexpr

ONES = np.ones((2, 3), np.float32)
MODES = (ms.GRAPH_MODE, ms.PYNATIVE_MODE)


class Twice(ops.PrimitiveWithInfer):
    """Of a constant; of a tensor what no primitive of `ops` does."""

    @ops.prim_attr_register
    def __init__(self, factor: int = 2) -> None:
        self.init_prim_io_names(inputs=["x"], outputs=["y"])

    def infer_shape(self, x: list[int]) -> list[int]:
        return x

    def infer_dtype(self, x: object) -> object:
        return x

    def infer_value(self, x: int) -> int:
        return self.factor * x


class MatMul(ops.PrimitiveWithCheck):
    """Of the name of a primitive of `ops`, with a check of its own."""

    @ops.prim_arg_register
    def __init__(self, transpose_a: bool = False, transpose_b: bool = False) -> None:
        pass

    def check_shape(self, x: list[int], y: list[int]) -> None:
        if len(x) != 2 or len(y) != 2:
            raise ValueError(f"matrices only, but got {x} and {y}")


@ms.constexpr
def halves(shape: tuple[int, ...], to: int = 2) -> tuple[int, ...]:
    return tuple(int(np.floor(n / to)) for n in shape)


@_primexpr
def rank(x: ms.Tensor) -> int:
    return x.ndim


class Net(ms.nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.twice, self.product = Twice(3), MatMul(transpose_b=True)

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        y = self.product(x, x)
        return y * self.twice(2) + ops.ones(halves((5, 4)), ms.float32).sum() + rank(x)


@pytest.mark.parametrize("mode", MODES)
def test_both_modes(mode: int) -> None:
    ms.set_context(mode=mode)
    assert np.array_equal(Net()(ms.Tensor(ONES)).asnumpy(), np.full((2, 2), 3 * 6 + 4 + 2))


def test_attributes_as_mindspore_has_them() -> None:
    made = Twice(5)
    assert (made.name, made.factor, made.init_attrs) == ("Twice", 5, {"factor": 5})
    assert made.get_attr_dict() == {"factor": 5, "input_names": ["x"], "output_names": ["y"]}
    assert repr(made) == "Prim[Twice]<factor=5>"
    plain = ops.Primitive("mine")
    assert (plain.name, plain.attrs, plain.update_parameter) == ("mine", {}, False)
    plain.add_attr("a", 1)
    plain.set_user_data("k", [2])
    assert (plain.a, plain.get_user_data("k"), plain.get_user_data("m")) == (1, [2], None)
    plain.del_attr("a")
    assert not hasattr(plain, "a") and plain.check_elim(1) == (False, None)


def test_a_primitive_without_a_computation() -> None:
    with pytest.raises(RuntimeError, match=r"cellc\.ops has no primitive 'Twice'"):
        Twice()(ms.Tensor(ONES))
    with pytest.raises(RuntimeError, match=r"cellc\.ops has no primitive 'mine'"):
        ops.Primitive("mine")(ms.Tensor(ONES))
    with pytest.raises(TypeError, match="is made with its name"):
        ops.Primitive()
    with pytest.raises(ValueError, match=r"matrices only, but got \[2, 3\] and \[3\]"):
        MatMul()(ms.Tensor(ONES), ms.Tensor(ONES[0]))


def test_what_infer_finds() -> None:
    class Counted(ops.PrimitiveWithInfer):
        def __init__(self) -> None:
            super().__init__("Counted")

        def __infer__(self, x: dict[str, object], y: dict[str, object]) -> dict[str, object]:
            return {"shape": (), "dtype": None, "value": (x["shape"], x["value"], y["value"])}

    assert Counted()(ms.Tensor(ONES), 7) == ([2, 3], None, 7)


def test_constexpr_by_itself() -> None:
    assert halves((4, 6)) == (2, 3) and halves((4, 6), to=4) == (1, 1)
    assert repr(halves) == "Prim[halves]<constexpr_prim=True>"
    made = ms.constexpr(get_instance=False, name="other")(len)
    assert made()((1, 2)) == 2 and made().name == "other"


@ms.jit
def _of_a_tensor(x: ms.Tensor) -> ms.Tensor:
    return x * halves(x)


def test_constexpr_refuses_tensors_of_the_graph() -> None:
    with pytest.raises((CompileError, TypeError), match="argument 0 is a tensor of the graph"):
        _of_a_tensor(ms.Tensor(ONES))


def test_a_hook_belongs_to_a_tensor() -> None:
    with pytest.raises(RuntimeError, match=r"ops\.HookBackward"):
        ops.ReLU().set_hook_fn(print)


def test_signatures() -> None:
    """`inspect` and `help` show what a primitive is made with."""
    assert str(inspect.signature(ops.MatMul)) == "(transpose_a=False, transpose_b=False)"
    assert list(inspect.signature(ops.Conv2D).parameters)[:2] == ["out_channel", "kernel_size"]
    size = inspect.signature(ops.Conv2D).parameters["kernel_size"]
    assert size.default is inspect.Parameter.empty
    assert list(inspect.signature(Twice).parameters) == ["factor"]


@pytest.mark.parametrize("mode", MODES)
def test_a_function_with_a_gradient_of_its_own(mode: int) -> None:
    """`custom_vjp`: called by itself, in a jitted function, in a Cell, and around a gradient."""
    ms.set_context(mode=mode)

    @custom_vjp
    def fn(x, y):
        return 2 * x + y

    x, y = ms.Tensor([1.0], ms.float32), ms.Tensor([2.0], ms.float32)
    every = ops.GradOperation(get_all=True)
    def backward(x, y, out, dout):
        return out + dout, 2 * y

    fn.defbwd(backward)

    @ms.jit
    def within(x, y):
        return fn(x, y) + x + 2 * y

    class Net(nn.Cell):
        def construct(self, x, y):
            return fn(x, y)

    assert fn(x, y).item() == 4.0
    cases = [(fn, [5.0, 4.0]), (Net(), [5.0, 4.0]), (within, [6.0, 6.0])]
    for function, want in cases:
        assert [g.item() for g in every(function)(x, y)] == want
        assert [g.item() for g in ops.vjp(function, x, y)[1](x)] == want


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_a_network_without_inputs(mode: int) -> None:
    ms.set_context(mode=mode)

    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = ms.Parameter(ms.Tensor([2.0, 3.0]), name="w")

        def construct(self):
            return (self.w * self.w).sum()

    net = Net()
    weights = net.trainable_params()
    assert ops.GradOperation(get_by_list=True)(net, weights)()[0].asnumpy().tolist() == [4.0, 6.0]
    scaled = ops.GradOperation(get_by_list=True, sens_param=True)(net, weights)(ms.Tensor(2.0))
    assert scaled[0].asnumpy().tolist() == [8.0, 12.0]
