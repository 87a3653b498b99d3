"""Functions called with arguments that they do not take: an error that names the function and the
argument, in both modes, of the kind that MindSpore raises where it has one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
import cellc.dataset
from cellc import Tensor, nn, ops
from cellc_compiler.autodiff.reverse import gradient_graph
from cellc_compiler.interpret import run
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.types import TensorType

from ..modes.law import mode


def ones(*shape: int, dtype: Any = np.float32) -> Tensor:
    return Tensor(np.ones(shape, dtype))


def ints(*values: int) -> Tensor:
    return Tensor(np.array(values, np.int32))


class OwnDense(nn.Dense):
    """A user's class derived from one of the library."""

    def __init__(self, n: Any, fails: bool = False) -> None:
        if fails:
            n.own()
        super().__init__(n, 3)


Row = tuple[str, tuple[Any, ...], type[Exception], str]

ROWS: list[Row] = [
    ("diff", (ones(3), 1, -1, None, [ones(1)]), TypeError, "'append' must be a Tensor or None, bu"),
    ("cosine_similarity", (ones(2, 3), ones(2, 3), 1, 1j), TypeError, "'eps' must be a float, but"),
    ("lp_pool1d", (ones(1, 2, 8), 1, object()), TypeError, "'kernel_size' must be an int, but got"),
    ("reverse_sequence", (ones(2, 3), ones(2), 1), TypeError, "'seq_lengths' must be ints, but go"),
    ("index_fill", (ones(2, 3), 1, float("inf"), 1), TypeError, "'index' must be an int, or"),
    ("index_fill", (ones(2, 3), 1, 0, ones(2)), ValueError, "'value' must be one number, but has"),
    ("gather", (ones(0, 3), ints(1), 0), IndexError, "indices must be in [0, 0), but got"),
    ("vander", (None,), TypeError, "'x' must be a Tensor, but got NoneType"),
    ("vander", (ones(),), ValueError, "'x' must have 1 axis, but has shape ()"),
    ("vander", (ones(3), -1), ValueError, "'N' must not be negative, but got -1"),
    ("vander", (ones(3), 1 << 70), ValueError, "'N' must be at most"),
    ("cdist", (1, 2), TypeError, "'x1' must be a Tensor, but got int"),
    ("cdist", (ones(2, 3), ones(3)), ValueError, "'x2' must have 2 axes or more"),
    ("cdist", (ones(2, 3), ones(2, 4)), ValueError, "rows of one length"),
    ("block_diag", (), ValueError, "must hold at least one Tensor"),
    ("block_diag", (ones(2), 1), TypeError, "'inputs[1]' must be a Tensor, but got int"),
    ("block_diag", (ones(2, 2, 2),), ValueError, "'inputs[0]' must have 0 to 2 axes"),
    ("csr2coo", (ints(0, 1)[0], 1), ValueError, "'indptr' must have 1 axis"),
    ("csr2coo", (ones(2), 1), TypeError, "'indptr' must be a tensor of ints, but got Float32"),
    ("csr2coo", (ints(0, 1), -1), ValueError, "'nnz' must not be negative"),
    ("coo2csr", (ints(0, 1), "2"), TypeError, "'height' must be an int, but got str"),
    ("fold", (ones(2, 3), 4, 2), ValueError, "'input' must have 3 axes"),
    ("fold", (ones(1, 4, 9), 4, 2, 1, 0, 0), ValueError, "'stride' must be positive"),
    ("fold", (ones(1, 4, 9), 4, 2, 1, -1), ValueError, "'padding' must not be negative"),
    ("fold", (ones(1, 5, 9), 4, 2), ValueError, "columns of shape (N, C * 4, 9), but the input"),
    ("inplace_update", (ones(2, 3), None, 0), TypeError, "'v' must be a Tensor"),
    ("inplace_update", (ones(2, 3), ones(2, 4), (0, 1)), ValueError, "must have shape (2, 3)"),
    ("inplace_update", (ones(2, 3), ones(2, 3), (0, 9)), IndexError, "[-2, 2), but got 9"),
    ("inplace_update", (ones(2, 3), ones(1, 3), "a"), TypeError, "'indices' must be an int, or"),
    ("adaptive_avg_pool1d", (ones(1, 2, 8), ()), ValueError, "'output_size' must be an int"),
    ("adaptive_max_pool1d", (ones(1, 2, 8), "a"), TypeError, "'output_size' must be an int"),
    ("combinations", (ones(3), 1 << 40), ValueError, "'r' must be at most 65536"),
    ("combinations", (ones(30000), 4000), ValueError, "gives more than the 4294967296 positions"),
    ("arange", (float("nan"),), ValueError, "must be finite and fit 64 bits"),
    ("arange", (0, None, -(1 << 70)), ValueError, "must be finite and fit 64 bits"),
    ("bartlett_window", (1 << 70,), ValueError, "'window_length' must be at most"),
    ("hamming_window", (4, True, None), TypeError, "'alpha' must be a number, but got NoneType"),
    ("hann_window", ("4",), TypeError, "'window_length' must be an int, but got str"),
    ("tril_indices", (None, 3), TypeError, "'row' must be an int"),
    ("fftfreq", (1 << 70,), ValueError, "'n' must be at most"),
    ("fftfreq", (4, "1"), TypeError, "'d' must be a number, but got str"),
    ("bincount", (ints(1, 2), None, None), TypeError, "'minlength' must be an int"),
    ("bincount", (ints(1, 2), ones(3)), ValueError, "'weights' must have the shape of 'input'"),
    ("histc", (ones(3), 100, None), TypeError, "'min' must be a number, but got NoneType"),
    ("clamp", (ones(3), 1j), TypeError, "a bound must be a real number, but got 1j"),
    ("batch_dot", (ones(2, 3), ones(2, 3), ()), ValueError, "'axes' must be an int or 2 ints"),
    ("cross", (ones(3, 3), ones()), ValueError, "as many axes and axis 0 length 3"),
    ("batch_to_space_nd", (ones(4, 1, 2, 2), 1, None), TypeError, "'crops' must be a list or"),
    ("batch_to_space_nd", (ones(4, 1, 2, 2), 2, ()), ValueError, "block sizes () and 'crops'"),
    ("diff", (ones(4), -1), ValueError, "'n' must not be negative, but got -1"),
    ("tensor_split", (ones(4), 1 << 40), ValueError, "'indices_or_sections' must be at most"),
    ("diagonal_scatter", (ones(3, 3), ones(3), None), TypeError, "'offset' must be an int"),
    ("diagonal_scatter", (ones(3, 3), ones(3), 0, 1, 1), ValueError, "must differ, but both are 1"),
    ("affine_grid", (ones(2, 2, 3), True), TypeError, "'size' must be a tuple or list of int"),
    ("interpolate", (ones(1, 2, 8), 0), ValueError, "'size' must be positive, but got (0,)"),
    ("quantile", (ones(3), None), TypeError, "'q' must be a list or tuple, but got NoneType"),
    ("logit", (ones(3), "a"), TypeError, "'eps' must be a number, but got str"),
    ("nan_to_num", (ones(3), 1j), TypeError, "'nan' must be a number, but got complex"),
    ("slice_scatter", (ones(3), ones(3), 0, "a"), TypeError, "'start' must be an int"),
    ("unique_consecutive", (ones(3), False, False, "a"), TypeError, "'dim' must be an int"),
    ("mvlgamma", (ones(3), 1 << 40), ValueError, "'p' must be at most 65536"),
    ("amax", (ones(2, 3), ones(2)[0]), TypeError, "'axis' must be an int, but got a Float32"),
    ("amax", (ones(2, 3), 0, {}), TypeError, "'keepdims' must be a bool, but got dict"),
    ("cumsum", (ones(2, 3), ints(0, 1)), TypeError, "'axis' must be an int, but got an Int32"),
    ("topk", (ones(2, 3), 2, 0, "a"), TypeError, "'largest' must be a bool, but got str"),
    ("softmax", (ones(), 3), ValueError, "'axis' must be 0 or -1 for a scalar, but got 3"),
]


def attempt(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    try:
        return function(*args)
    except Exception as error:
        return error


@pytest.mark.parametrize(("name", "args", "kind", "text"), ROWS,
                         ids=[f"{row[0]}-{row[3][:30]}" for row in ROWS])
def test_a_function(name: str, args: tuple[Any, ...], kind: type[Exception], text: str) -> None:
    function = getattr(ops, name)
    for call in (function, ms.jit(lambda *args: function(*args))):
        error = attempt(call, args)
        assert isinstance(error, kind), repr(error)
        assert f"For '{name}'" in str(error)
        assert text in str(error)


@pytest.mark.parametrize(("call", "kind", "text"), [
    (lambda x: x.view_as(None), TypeError, "For 'view_as', 'other' must be a Tensor"),
    (lambda x: x.type_as(None), TypeError, "For 'type_as', 'other' must be a Tensor"),
    (lambda x: x.to(device=0), TypeError, "For 'to', 'device' must be a string, but got int"),
    (lambda x: x.fill(None), TypeError, "None of type NoneType is no number of the type Float32"),
    (lambda x: x.scatter_(0, ints(0), x, reduce="no"), ValueError, "'reduce' must be one of"),
    (lambda x: ms.mint.ones(size=3.5), TypeError, "For 'ones', 'shape' must be an int, or a tuple"),
    (lambda x: ms.mint.select(x, -1, 7), IndexError, "For 'select', 'index' must be in [-3, 3), b"),
    (lambda x: ms.mint.remainder(x, ones(2)), ValueError,
     "For 'remainder', these arguments do not fit: input = a Float32 tensor of shape (1, 2, 3), "),
    (lambda x: ms.numpy.arange((1,)), TypeError, "For 'arange', these arguments do not fit: start"),
    (lambda x: ms.numpy.ones(2, [None]), TypeError, "dtype must be one of"),
    (lambda x: ops.Split(0, 2)(["a"]), TypeError, "For 'Split', 'input_x' must be a Tensor, but g"),
    (lambda x: ops.MatMul()(x, 3), TypeError, "For 'MatMul', 'y' must be a Tensor, but got 3"),
    (lambda x: ops.grid_sample(x, x, mode=x), ValueError, "but got a Float32 tensor of shape (1, "),
    (lambda x: x + [[1], [2, 3]], TypeError, "contain unsupported element: pass nested lists"),
    (lambda x: ops.hardshrink(x, "a"), TypeError, "For 'hard_shrink', 'lambd' must be a number"),
    (lambda x: ops.adaptive_avg_pool2d(x, 1 << 40), ValueError,
     "For 'adaptive_avg_pool2d', 'output_size' must be"),
], ids=["view_as", "type_as", "to", "fill", "scatter_", "ones", "select", "remainder", "arange",
        "dtype", "Split", "MatMul", "grid_sample", "list", "attribute", "bound"])
def test_what_stands_below_a_function(
    call: Callable[[Tensor], Any], kind: type[Exception], text: str
) -> None:
    """Where what fails is below a function, it says what it was given."""
    x = ones(1, 2, 3)
    for way in (call, ms.jit(lambda x: call(x))):
        error = attempt(way, (x,))
        assert isinstance(error, kind), repr(error)
        assert text in str(error)


@pytest.mark.parametrize("shape", [(1 << 70,), (0, 1 << 70), (1 << 40, 1 << 20)])
def test_a_tensor_larger_than_memory_can_be(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"'shape' would be a tensor .* more than 128 TiB"):
        Tensor(shape=shape, dtype=ms.float32)


@pytest.mark.parametrize("kind", ["update", "add", "mul", "max"])
@pytest.mark.parametrize("op", ["scatter", "scatter_lines"])
def test_the_gradient_of_updates_of_no_element(op: str, kind: str) -> None:
    """All positions lie outside of an empty axis: the updates get zeros."""
    graph = Graph("g")
    index = (2,) if op == "scatter" else (2, 3)
    x, i, u = (graph.add_input(TensorType(shape, dtype), name) for shape, dtype, name in (
        ((0, 3), ms.float32, "x"), (index, ms.int64, "i"), ((2, 3), ms.float32, "u")))
    b = Builder(graph)
    out = b.emit(op, x, i, u, axis=0, mode=kind)
    graph.outputs = [b.emit("reduce_sum", out, axes=(0, 1), keepdims=False)]
    given = np.ones((0, 3), np.float32), np.zeros(index, np.int64), np.ones((2, 3), np.float32)
    _, dx, du = run(gradient_graph(graph, [0, 2]), given)
    assert dx.shape == (0, 3)
    np.testing.assert_array_equal(du, np.zeros((2, 3)))


class Outer(nn.Cell):
    """A network around a layer."""

    def __init__(self, layer: nn.Cell) -> None:
        super().__init__()
        self.layer = layer

    def construct(self, *inputs: Any) -> Any:
        return self.layer(*inputs)


@pytest.mark.parametrize("m", [ms.PYNATIVE_MODE, ms.GRAPH_MODE], ids=["eager", "graph"])
@pytest.mark.parametrize(("layer", "args", "kind", "text"), [
    (nn.BatchNorm2d(4), ([1, 2],), TypeError, "For 'BatchNorm2d', 'x' must be a Tensor, but got"),
    (nn.AvgPool2d(2), (None,), TypeError, "For 'AvgPool2d', 'x' must be a Tensor, but got None"),
    (nn.LayerNorm((3,)), (ones(),), ValueError, "For 'LayerNorm', 'input_x' must have 1 axis or"),
    (nn.Conv2dTranspose(1, 1, 4), (ones(1, 2),), ValueError, "'Conv2dTranspose', 'input' must ha"),
    (nn.FocalLoss(), (ones(3), ones(3)), ValueError, "'logits' must have 2 axes or more"),
    (nn.LSTMCell(3, 8), (ones(2, 3), True), TypeError, "'LSTMCell', 'hx' must be a list or tuple"),
    (nn.LSTM(4, 2), (ones(2, 3, 4), (ones(1, 3, 2),)), ValueError, "'hx' must hold 2 states"),
    (nn.GRU(4, 2), (ones(2, 3, 4), ones(3, 2)), ValueError, "'GRU', 'hx' must have 3 axes"),
], ids=lambda x: type(x).__name__ if isinstance(x, nn.Cell) else None)
def test_a_layer(
    m: int, layer: nn.Cell, args: tuple[Any, ...], kind: type[Exception], text: str
) -> None:
    """Alone and in a network."""
    with mode(m):
        for call in (layer, Outer(layer)):
            error = attempt(call, args)
            assert isinstance(error, kind), repr(error)
            assert text in str(error)


def test_a_function_of_the_user_that_is_called_back_fails_as_it_does() -> None:
    def own(row: Any) -> Any:
        return row.no_such_name

    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        ms.numpy.apply_along_axis(own, 0, ones(2, 3))


@pytest.mark.parametrize("make", [
    lambda n: nn.LSTM(2, 2, n), lambda n: nn.GRU(2, 2, num_layers=n),
    lambda n: nn.TransformerEncoder(nn.TransformerEncoderLayer(2, 1, 2), n),
    lambda n: nn.warmup_lr(0.1, n, 2, 2), lambda n: nn.piecewise_constant_lr([n], [0.1]),
], ids=["LSTM", "GRU", "TransformerEncoder", "warmup_lr", "piecewise_constant_lr"])
@pytest.mark.parametrize("count", [1 << 40, 1 << 70])
def test_what_is_made_one_by_one_is_bounded(make: Callable[[int], Any], count: int) -> None:
    with pytest.raises(ValueError, match=f"must be at most .*, but got {count}"):
        make(count)


@pytest.mark.parametrize(("make", "text"), [
    (lambda: nn.ImageGradients(flags=[1]), "'flags' must be a dict"),
    (lambda: nn.probability.distribution.Geometric(0.5, dtype=[1]), "'dtype' should be an int or"),
    (lambda: nn.Conv2d(1, 1, 3, dtype=np.ones(3)), "'dtype'"),
    (lambda: ms.Generator((1, 2)), "Seed must be an integer"),
    (lambda: nn.Transformer("x"), "^For 'Transformer', 'd_model' must be an int, but got 'x'"),
    (lambda: nn.LazyAdam([ms.Parameter(ones(1))], weight_decay=""), "^For 'LazyAdam', the argum"),
    (lambda: nn.SGD(3), "^For 'SGD', these arguments do not fit: params = 3 .For 'Optimizer', al"),
    (lambda: ms.train.DynamicLossScaleManager(None), r"^For 'Dynam.*'init_loss_scale' must"),
    (lambda: cellc.dataset.DictIterator(1, 2, 3, True), r"^For 'DictIterator', .*dataset = 1, col"),
    (lambda: OwnDense("x"), "^For 'Dense', 'in_channels' must be a positive int, but got 'x'"),
    (lambda: nn.ReLU(7), r"^ReLU.__init__\(\) takes 1 positional argument but 2 were given"),
], ids=lambda x: x if isinstance(x, str) else "")
def test_what_a_class_is_made_with(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        make()


def test_constructors_are_as_they_were() -> None:
    """Only those of the library's classes name the class; how they are called is what it was."""
    assert OwnDense.__init__.__code__.co_filename == __file__
    assert OwnDense.__init__.__code__.co_name == "__init__"
    assert list(inspect.signature(nn.Dense).parameters)[:2] == ["in_channels", "out_channels"]
    assert str(inspect.signature(ops.Softmax)) == "(axis=-1)"
    with pytest.raises(AttributeError, match=r"^'str' object has no attribute 'own'"):
        OwnDense("", fails=True)


def test_a_network_of_the_user_fails_as_it_does() -> None:
    class Own(nn.Cell):
        def construct(self, x: Tensor) -> Any:
            return x.ndim

    with mode(ms.PYNATIVE_MODE), pytest.raises(AttributeError, match="'list' object has no"):
        Own()([1])
