"""Wrong arguments, awkward arrays and broken networks: a clear error, or simply right."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, ops
from cellc.nn.cell import Cell
from cellc_compiler.ir.graph import Builder, Graph

from ..modes.law import mode

BOTH = pytest.mark.parametrize("m", [ms.PYNATIVE_MODE, ms.GRAPH_MODE], ids=["eager", "graph"])


class Affine(Cell):
    """x @ w + b."""

    def __init__(self) -> None:
        super().__init__()
        self.w = Parameter(Tensor(np.arange(6, dtype=np.float32).reshape(3, 2)), name="w")
        self.b = Parameter(Tensor(np.ones(2, np.float32)), name="b")

    def construct(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return (ops.matmul(x, self.w) + self.b) * scale


def ones(*shape: int, dtype: Any = np.float32) -> Tensor:
    return Tensor(np.ones(shape, dtype))


@BOTH
@pytest.mark.parametrize(("args", "kind", "message"), [
    ((lambda: ones(4, 4),), ValueError, r"4.*3|3.*4"),
    ((lambda: ones(3, 1),), ValueError, r"1.*3|3.*1"),
    ((), TypeError, "x"),
    ((lambda: ones(1, 3), lambda: 1.0, lambda: 2.0), TypeError, "argument"),
    ((lambda: None,), (TypeError, ValueError, AttributeError), "None"),
    ((lambda: "text",), (TypeError, ValueError, AttributeError), "str|text"),
], ids=["inner", "outer", "none", "many", "None", "str"])
def test_wrong_arguments(
    m: int, args: tuple[Callable[[], Any], ...], kind: Any, message: str
) -> None:
    with mode(m):
        net = Affine()
        good = net(ones(1, 3)).asnumpy()
        with pytest.raises(kind, match=message):
            net(*(a() for a in args))
        np.testing.assert_array_equal(net(ones(1, 3)).asnumpy(), good)


@BOTH
def test_unknown_keyword(m: int) -> None:
    with mode(m), pytest.raises(TypeError, match="speed"):
        Affine()(ones(1, 3), speed=3)


@BOTH
def test_a_numpy_array_for_a_tensor(m: int) -> None:
    """Right (as a tensor) or a TypeError that says what it is."""
    with mode(m):
        try:
            out = Affine()(np.ones((1, 3), np.float32))
        except TypeError as e:
            assert "ndarray" in str(e) or "numpy" in str(e)
        else:
            np.testing.assert_array_equal(out.asnumpy(), Affine()(ones(1, 3)).asnumpy())


def awkward() -> Iterator[Any]:
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    yield pytest.param(base[:, ::2], id="strided")
    yield pytest.param(base.T[:3].T, id="transposed")
    yield pytest.param(base[::-1, :3], id="reversed")
    yield pytest.param(np.asfortranarray(base[:, :3]), id="fortran")
    yield pytest.param(base[:, :3].astype(">f4"), id="big-endian")
    frozen = base[:, :3].copy()
    frozen.flags.writeable = False
    yield pytest.param(frozen, id="read-only")
    raw = np.zeros(4 * 3 * 4 + 1, np.uint8)
    odd = raw[1:].view(np.float32).reshape(4, 3)
    odd[...] = base[:, :3]
    yield pytest.param(odd, id="unaligned")
    yield pytest.param(np.broadcast_to(base[0, :3], (4, 3)), id="broadcast")
    yield pytest.param(base[:, :3].view(np.matrix), id="subclass")


@BOTH
@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("array", list(awkward()))
def test_awkward_arrays(m: int, array: Any) -> None:
    """A Tensor of any layout is as one of a plain copy, and the array stays as it was."""
    before = array.copy()
    want = np.asarray(np.array(before, np.float32) @ np.arange(6).reshape(3, 2) + 1, np.float32)
    with mode(m):
        for t in (Tensor(array), Tensor.from_numpy(array)):
            assert t._data.flags.c_contiguous and t._data.dtype.isnative
            np.testing.assert_array_equal(Affine()(t).asnumpy(), want)
            t += 1
    np.testing.assert_array_equal(array, before) if not array.flags.writeable else None


@BOTH
def test_not_a_number_passes_through(m: int) -> None:
    x = Tensor(np.array([[np.nan, 1, 2], [np.inf, 0, 0], [-np.inf, 0, 0]], np.float32))
    with mode(m):
        with np.errstate(all="ignore"):
            want = x.asnumpy() @ np.arange(6, dtype=np.float32).reshape(3, 2) + 1
        np.testing.assert_array_equal(Affine()(x).asnumpy(), want)

        def fn(x: Tensor) -> Any:
            return x.max(), x.sum(), ops.relu(x), ops.softmax(x, axis=-1), x == x, ops.exp(x)

        top, total, relu, soft, same, e = (ms.jit(fn) if m == ms.GRAPH_MODE else fn)(x)
        assert np.isnan(top.asnumpy()) and np.isnan(total.asnumpy())
        np.testing.assert_array_equal(relu.asnumpy()[1:, 0], [np.inf, 0])
        assert np.isnan(soft.asnumpy()[0]).all() and not same.asnumpy()[0, 0]
        np.testing.assert_array_equal(e.asnumpy()[1:, 0], [np.inf, 0])


@BOTH
def test_nothing_at_all(m: int) -> None:
    """Zero-size tensors through a network, reductions, branches, loops and gradients."""
    with mode(m):
        out = Affine()(ones(0, 3))
        assert out.shape == (0, 2)

        def fn(x: Tensor) -> Any:
            if x.sum() > 0:
                x = x + 1
            for _ in range(2):
                x = x * 2
            return x, ops.concat([x, ones(2, 3)]), ops.matmul(x.T, x), x.sum(axis=0)

        y, joined, product, total = (ms.jit(fn) if m == ms.GRAPH_MODE else fn)(ones(0, 3))
        assert y.shape == (0, 3) and joined.shape == (2, 3)
        np.testing.assert_array_equal(product.asnumpy(), np.zeros((3, 3)))
        np.testing.assert_array_equal(total.asnumpy(), np.zeros(3))
        g = ms.grad(lambda x: (x * x).sum())(ones(0, 3))
        assert g.shape == (0, 3)
        with pytest.raises((ValueError, RuntimeError), match=r"max|zero|empty|no element"):
            (ms.jit(lambda x: x.max()) if m == ms.GRAPH_MODE else lambda x: x.max())(ones(0, 3))


def test_an_unknown_op() -> None:
    from cellc.core.dispatch import apply

    with pytest.raises(KeyError, match="unknown op 'flurb'"):
        apply("flurb", ones(2))
    with pytest.raises(KeyError, match="unknown op"):
        Builder(Graph("g")).flurb()
    with pytest.raises(AttributeError, match="flurb"):
        ops.flurb  # noqa: B018
    with pytest.raises(AttributeError, match="flurb"):
        ones(2).flurb  # noqa: B018


# --- programs ------------------------------------------------------------------------------------


def test_syntax_the_compiler_does_not_accept() -> None:
    def fn(x: Tensor) -> Tensor:
        class Local:
            pass

        return x

    with pytest.raises(Exception, match=r"CE101") as caught:
        ms.jit(fn)(ones(2))
    assert "test_calls.py" in str(caught.value) and "^" in str(caught.value)


def test_numpy_on_a_tensor_of_a_network_that_is_not_called() -> None:
    class Mean(Cell):
        def construct(self, x: Tensor) -> Any:
            return np.mean(x)

    class Plus(Cell):
        def construct(self, x: Tensor) -> Any:
            return x.asnumpy() + 1

    with pytest.raises(TypeError, match=r"numpy.mean\(\).*CE301"):
        Mean().compile(ones(2))
    with pytest.raises(TypeError, match="not known while"):
        Plus().compile(ones(2))


def test_endless_recursion() -> None:
    class Endless(Cell):
        def construct(self, x: Tensor) -> Tensor:
            return self.construct(x + 1)

    net = Endless()
    with mode(ms.GRAPH_MODE), pytest.raises(RecursionError, match="CE304"):
        net(ones(2))
    with mode(ms.PYNATIVE_MODE), pytest.raises(RecursionError, match="recursion depth"):
        net(ones(2))
    with mode(ms.GRAPH_MODE):  # nothing is left over
        assert Affine()(ones(1, 3)).shape == (1, 2)


def test_the_end_of_the_stack_in_a_native_comparison() -> None:
    """A tuple is compared with the one that a site knows: no room for that is no error of its."""
    x = ones(2)

    def endless() -> None:
        x.reshape((1, 2))
        ops.transpose(x.reshape((2, 1)), (1, 0))
        endless()

    def below(depth: int) -> None:
        below(depth - 1) if depth else endless()

    with mode(ms.PYNATIVE_MODE):
        for _ in range(30):
            ops.transpose(x.reshape((2, 1)), (1, 0))
        for depth in range(8):
            with pytest.raises(RecursionError, match="recursion depth"):
                below(depth)


def test_a_cell_in_itself() -> None:
    class Knot(Cell):
        def construct(self, x: Tensor) -> Tensor:
            return x

    net = Knot()
    net.inner = net
    assert list(net.get_parameters()) == []
    with mode(ms.GRAPH_MODE):
        np.testing.assert_array_equal(net(ones(2)).asnumpy(), [1, 1])


def test_an_error_in_construct_keeps_its_kind() -> None:
    class Own(Exception):
        pass

    class Fails(Cell):
        def construct(self, x: Tensor, what: int) -> Tensor:
            if what == 0:
                raise Own("mine")
            if what == 1:
                return [x][3]
            return {"a": x}["b"]

    for m in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        with mode(m):
            for what, (kind, text) in enumerate(((Own, "mine"), (IndexError, "out of range"),
                                                 (KeyError, "'b'"))):
                with pytest.raises(kind, match=text):
                    Fails()(ones(2), what)


# --- Cells ---------------------------------------------------------------------------------------


def test_a_cell_without_super_init() -> None:
    class Hasty(Cell):
        def __init__(self) -> None:
            self.w = Parameter(Tensor([1.0]), name="w")

    with pytest.raises((AttributeError, TypeError, RuntimeError), match=r"super\(\)\.__init__"):
        Hasty()

    class Plain(Cell):
        def __init__(self) -> None:
            self.number = 3

        def construct(self, x: Tensor) -> Tensor:
            return x * self.number

    with mode(ms.GRAPH_MODE), pytest.raises(AttributeError, match=r"super\(\)\.__init__"):
        Plain()(ones(2))


@BOTH
def test_a_cell_without_construct(m: int) -> None:
    class Empty(Cell):
        pass

    with mode(m), pytest.raises(AttributeError, match="construct"):
        Empty()(ones(2))


@pytest.mark.parametrize("value", ["text", 1.0, [1, 2], object()], ids=["str", "float", "list",
                                                                        "object"])
def test_a_wrong_type_for_a_parameter(value: Any) -> None:
    net = Affine()
    with pytest.raises(TypeError, match="w"):
        net.w = value
    assert isinstance(net.w, Parameter) and net(ones(1, 3)).shape == (1, 2)


@BOTH
def test_a_tensor_of_another_type_for_a_parameter(m: int) -> None:
    class Assigns(Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = Parameter(Tensor([1.0, 2.0]), name="w")

        def construct(self, x: Tensor) -> Tensor:
            ops.assign(self.w, x)
            return self.w * 1

    net = Assigns()
    with mode(m):
        with pytest.raises((TypeError, ValueError), match=r"w|shape"):
            net(ones(3))
        np.testing.assert_array_equal(net.w.asnumpy(), [1, 2])
        np.testing.assert_array_equal(net(ones(2)).asnumpy(), [1, 1])


def test_a_parameter_replaced_by_another_shape() -> None:
    """set_data may change the shape; the compiled entry notices."""
    net = Affine()
    with mode(ms.GRAPH_MODE):
        net(ones(1, 3))
        net.w.set_data(Tensor(np.ones((4, 2), np.float32)))
        np.testing.assert_array_equal(net(ones(1, 4)).asnumpy(), [[5, 5]])
        with pytest.raises(ValueError, match=r"axis of input \(1, 3\) must be as long as the"):
            net(ones(1, 3))
        net.w.set_data(Tensor(np.ones((3, 2), np.float32)))
        np.testing.assert_array_equal(net(ones(1, 3)).asnumpy(), [[4, 4]])


def test_an_attribute_changed_after_compilation() -> None:
    class Scaled(Cell):
        def __init__(self) -> None:
            super().__init__()
            self.k = 2

        def construct(self, x: Tensor) -> Tensor:
            return x * self.k

    net = Scaled()
    with mode(ms.GRAPH_MODE):
        assert net(ones(1)).asnumpy() == 2
        net.k = 5
        assert net(ones(1)).asnumpy() == 5
        del net.k
        with pytest.raises(AttributeError, match="k"):
            net(ones(1))


def test_an_error_leaves_the_parameters_as_they_were() -> None:
    class Late(Cell):
        def __init__(self) -> None:
            super().__init__()
            self.n = Parameter(Tensor(0.0), name="n")

        def construct(self, x: Tensor) -> Tensor:
            self.n += 1
            return ops.matmul(x, x)

    net = Late()
    with mode(ms.GRAPH_MODE):
        with pytest.raises(ValueError, match="For 'matmul', the last axis of input"):
            net(ones(2, 3))
        assert float(net.n.asnumpy()) == 0
        net(ones(2, 2))
        assert float(net.n.asnumpy()) == 1


# --- copies --------------------------------------------------------------------------------------


def test_pickling_and_copying() -> None:
    with mode(ms.GRAPH_MODE):
        net = Affine()
        want = net(ones(2, 3)).asnumpy()
        for twin in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net)):
            np.testing.assert_array_equal(twin(ones(2, 3)).asnumpy(), want)
            twin.w.set_data(twin.w * 0)
            assert not np.array_equal(twin(ones(2, 3)).asnumpy(), want)
            np.testing.assert_array_equal(net(ones(2, 3)).asnumpy(), want)
    t = Tensor(np.arange(3))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(t)).asnumpy(), t.asnumpy())


def test_what_cannot_be_pickled_says_so() -> None:
    class Local(Cell):
        def construct(self, x: Tensor) -> Tensor:
            return x

    with pytest.raises((pickle.PicklingError, AttributeError), match="Local"):
        pickle.dumps(Local())


@pytest.mark.parametrize(("call", "kind", "message"), [
    (lambda: ms.set_context(mode=7), ValueError, "mode"),
    (lambda: ms.set_context(speed=7), ValueError, "speed"),
    (lambda: ms.set_context(device_target="GPU"), RuntimeError, "CPU"),
    (lambda: ms.set_seed(-1), ValueError, "seed"),
    (lambda: ms.set_seed(1.5), TypeError, "seed"),
    (lambda: Tensor(np.array(["a", "b"])), TypeError, r"\w"),
    (lambda: Tensor(np.array([object()])), TypeError, r"\w"),
    (lambda: Tensor([[1, 2], [3]]), (TypeError, ValueError), r"\w"),
    (lambda: ones(2, 3) + ones(4), ValueError, r"\(2, 3\).*\(4,\)"),
    (lambda: ones(2, 3).reshape(7), ValueError, "7"),
    (lambda: ones(2, 3)[5], IndexError, "5"),
    (lambda: ones(2, 3)[0, 0, 0], IndexError, r"\w"),
    (lambda: bool(ones(2)), ValueError, r"\w"),
    (lambda: ms.grad(3), TypeError, "fn"),
    (lambda: ms.grad(lambda x: x, 4)(ones(2)), IndexError, "4"),
    (lambda: ms.jit(3), TypeError, r"\w"),
    (lambda: Parameter("nothing"), (TypeError, ValueError), r"\w"),
])
def test_wrong_use_of_the_library(call: Callable[[], Any], kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_bounds_of_clamp_beyond_an_integer_type() -> None:
    """A bound that every element keeps is none; one that none keeps is an error that says so."""
    for dtype, low, high, want in ((np.uint8, -1, 2, [0, 2, 2]), (np.int8, -1000, 300, [0, 5, 100]),
                                   (np.uint64, -(2**70), 2**70, [0, 5, 100])):
        x = Tensor(np.array([0, 5, 100], dtype))
        for clamp in (ops.clamp, ms.jit(ops.clamp)):
            found = clamp(x, low, high).asnumpy()
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, want)
    for low, high in ((300, None), (None, -1)):
        with pytest.raises(ValueError, match="no number of UInt8, which has 0 to 255"):
            ops.clamp(Tensor(np.array([1], np.uint8)), low, high)
