"""Python functions called by compiled networks: order, results, errors, gradients."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops
from cellc.cli import main

SEEN: list[Any] = []


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    SEEN.clear()
    yield
    ms.set_context(mode=ms.GRAPH_MODE)


def tensor(*values: float) -> Tensor:
    return Tensor(np.array(values, np.float32))


def ordered(a: Any) -> Any:
    SEEN.append(a.tolist())
    return np.sort(a)


def ordered_bprop(x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor]:
    return (dout * 2 + out,)


def sort_on_host(x: Tensor) -> Any:
    return ops.py_func(ordered, x, out_shape=x.shape, out_dtype=x.dtype, bprop=ordered_bprop)


def plain(x: Tensor) -> Any:
    return sort_on_host(x) * x


def in_a_branch(x: Tensor) -> Any:
    if x.sum() > 0:
        y = sort_on_host(x) * x
    else:
        y = x
    return y


def in_nested_branches(x: Tensor) -> Any:
    y = x
    for _ in range(2):
        if y.sum() > 0:
            if y.sum() > 1:
                y = sort_on_host(y) * y
            y = y + 1
    return y


def repeated(x: Tensor) -> Any:
    y = x
    for _ in range(3):
        y = sort_on_host(y) + x
    return y


def in_another_shape(x: Tensor) -> Any:
    return sort_on_host(x.reshape(1, 2)).sum()


def both(fn: Callable[..., Any], *args: Any) -> list[tuple[Any, list[Any]]]:
    """The result and what Python saw, in PyNative mode and compiled."""
    out = []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        SEEN.clear()
        result = (ms.jit(fn) if mode == ms.GRAPH_MODE else fn)(*args)
        out.append((result, list(SEEN)))
    return out


@pytest.mark.parametrize("fn", [plain, in_a_branch, in_nested_branches, repeated, in_another_shape])
def test_calls_and_gradients_agree(fn: Callable[..., Any]) -> None:
    x = tensor(2.0, 1.0)
    eager, graph = both(fn, x)
    assert eager[1] == graph[1] != []
    assert eager[0].asnumpy().tobytes() == graph[0].asnumpy().tobytes()
    eager, graph = both(ms.grad(fn), x)
    assert eager[1] == graph[1] != []  # each call happens once, also under a gradient
    assert eager[0].asnumpy().tobytes() == graph[0].asnumpy().tobytes()


def test_values_of_a_known_case() -> None:
    for result, seen in both(plain, tensor(2.0, 1.0)):
        assert result.asnumpy().tolist() == [2.0, 2.0]
        assert seen == [[2.0, 1.0]]
    for result, _ in both(ms.grad(plain), tensor(2.0, 1.0)):
        assert result.asnumpy().tolist() == [6.0, 6.0]  # sorted + 2 x + sorted, with the bprop


def test_in_a_loop_of_run_time_length() -> None:
    def fn(x: Tensor, n: Tensor) -> Any:
        while n > 0:
            x = sort_on_host(x) * 2
            n = n - 1
        return x

    for result, seen in both(fn, tensor(2.0, 1.0), Tensor(2)):
        assert result.asnumpy().tolist() == [4.0, 8.0]
        assert seen == [[2.0, 1.0], [2.0, 4.0]]
    with pytest.raises(TypeError, match="cannot call Python functions again"):
        ms.grad(fn)(tensor(2.0, 1.0), Tensor(2))


def test_results_may_be_several_or_none() -> None:
    def note(a: Any) -> None:
        SEEN.append(a.sum())

    def fn(x: Tensor) -> Any:
        ops.py_func(note, x, out_shape=(), out_dtype=())
        return ops.py_func(
            lambda a, k: (a * k, a.sum() > 2), x, 3, out_shape=((2,), ()),
            out_dtype=(ms.float32, ms.bool_),
        )

    for (values, flag), seen in both(fn, tensor(2.0, 1.0)):
        assert values.asnumpy().tolist() == [6.0, 3.0]
        assert flag.dtype == ms.bool_ and bool(flag)
        assert seen == [3.0]


def test_arrays_are_copies() -> None:
    kept: list[Any] = []

    def keep(a: Any) -> Any:
        kept.append(a)
        a[0] = 100
        return a

    def fn(x: Tensor) -> Any:
        y = x + 1
        ops.py_func(keep, y, out_shape=(2,), out_dtype=ms.float32)
        return y

    for result, _ in both(fn, tensor(2.0, 1.0)):
        assert result.asnumpy().tolist() == [3.0, 2.0]
    assert all(a.tolist() == [100.0, 2.0] for a in kept)


def returns(value: Any) -> Callable[[Any], Any]:
    return lambda a: value


BAD = {
    "another shape": (returns(np.zeros(3, np.float32)), ValueError, r"float32\[2\], got the shape"),
    "another type": (returns(np.zeros(2)), TypeError, "got an array of float64"),
    "too many": (returns((1, 2)), TypeError, "must return float32.2., but returned 2 values"),
    "nothing": (returns(None), TypeError, "returned 0 values"),
    "text": (returns("x"), TypeError, "got a str"),
}


@pytest.mark.parametrize("name", BAD)
def test_wrong_results_are_errors(name: str) -> None:
    function, kind, message = BAD[name]

    def fn(x: Tensor) -> Any:
        return ops.py_func(function, x, out_shape=(2,), out_dtype=ms.float32)

    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        with pytest.raises(kind, match=message):
            (ms.jit(fn) if mode == ms.GRAPH_MODE else fn)(tensor(1.0, 2.0))


def explode(a: Any) -> Any:
    SEEN.append("before")
    raise KeyError("mine")


def test_an_exception_ends_the_call_with_its_traceback() -> None:
    after: list[int] = []

    @ms.jit
    def fn(x: Tensor) -> Any:
        y = ops.py_func(explode, x, out_shape=(), out_dtype=ms.bool_)
        while y:  # would not end if it went on with whatever is in memory
            y = ops.py_func(lambda a: after.append(1) or True, x, out_shape=(), out_dtype=ms.bool_)
        return x

    for _ in range(2):
        with pytest.raises(KeyError, match="mine") as caught:
            fn(tensor(1.0))
        assert "explode" in [t.name for t in caught.traceback]
    assert SEEN == ["before", "before"] and not after


def test_a_gradient_without_bprop_is_an_error() -> None:
    def fn(x: Tensor) -> Any:
        return ops.py_func(ordered, x, out_shape=(2,), out_dtype=ms.float32)

    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        with pytest.raises(TypeError, match=r"of the Python function ordered\(\) is not known"):
            ms.grad(fn)(tensor(1.0, 2.0))


def test_a_function_may_run_networks() -> None:
    inner = nn.Dense(2, 2)

    def run(a: Any) -> Any:
        return inner(Tensor(a)).asnumpy()

    @ms.jit
    def fn(x: Tensor) -> Any:
        return ops.py_func(run, x, out_shape=(1, 2), out_dtype=ms.float32) + inner(x)

    x = Tensor(np.ones((1, 2), np.float32))
    assert fn(x).asnumpy().tolist() == (inner(x) * 2).asnumpy().tolist()


def test_pyfunc_and_custom() -> None:
    f32 = ms.float32

    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.py = ops.PyFunc(lambda a: (a, a * 2), [f32], [(2,)], [f32, f32], [(2,), (2,)])
            self.sin = ops.Custom(np.sin, out_shape=lambda s: s, out_dtype=lambda d: d,
                                  bprop=lambda x, out, dout: (dout * 3,))

        def construct(self, x: Tensor) -> Any:
            a, b = self.py(x)
            return self.sin(x) + ops.stop_gradient(a + b)

    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        net, x = Net(), tensor(1.0, 2.0)
        want = np.sin(x.asnumpy()) + x.asnumpy() * 3
        assert net(x).asnumpy().tobytes() == want.astype(np.float32).tobytes()
        assert ms.grad(net.sin)(x).asnumpy().tolist() == [3.0, 3.0]
        with pytest.raises(TypeError, match="declared"):
            net.py(tensor(1.0, 2.0, 3.0))


@pytest.mark.parametrize(("make", "kind", "text"), [
    (lambda: ops.Custom(lambda a: a, (2,), ms.float32, "zzz"), ValueError,
     "For 'Custom', 'func_type' must be one of ['hybrid', 'pyfunc', 'aot'], but got 'zzz'"),
    (lambda: ops.Custom(lambda a: a), TypeError,
     "For 'Custom', 'out_shape' must be given: a value or a function"),
    (lambda: ops.Custom("no.so:f", (2,), ms.float32), TypeError,
     "For 'Custom', the function must be callable, but got str"),
    (lambda: ops.py_func(3, tensor(1.0), out_shape=(1,), out_dtype=ms.float32), TypeError,
     "For 'py_func', the function must be callable, but got int"),
    (lambda: ops.py_func(abs, tensor(1.0), out_shape=(-1,), out_dtype=ms.float32), ValueError,
     "For 'py_func', a shape must hold non-negative ints, but got (-1,)"),
    (lambda: ops.py_func(abs, tensor(1.0), out_shape=(1,), out_dtype="f"), TypeError,
     "For 'py_func', 'out_dtype' must be a dtype or a tuple of dtypes, but got 'f'"),
    (lambda: ops.py_func(abs, tensor(1.0), out_shape=((1,), ()), out_dtype=ms.int8), ValueError,
     "For 'py_func', 2 shapes are declared but 1 types"),
])
def test_bad_declarations(make: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        make()


def test_a_nested_function_cannot_read_tensors_of_the_graph() -> None:
    @ms.jit
    def fn(x: Tensor) -> Any:
        y = x + 1
        return ops.py_func(lambda a: a + y, x, out_shape=(1,), out_dtype=ms.float32)

    with pytest.raises(TypeError, match="reads 'y' of the compiled function"):
        fn(tensor(1.0))


def test_prints_and_calls_keep_the_order_of_the_program(capsys: Any) -> None:
    def fn(x: Tensor) -> Any:
        y = x
        for _ in range(3):
            y = ops.tanh(y) + ops.sqrt(ops.exp(y)).sum()
        print("first", (y > 0).all())
        print("second", x)
        ops.Print()("third", 3)
        if x.sum() > 0:
            print(f"fourth {x.sum()}")
            y = y * 2
        n = Tensor(2)
        while n > 0:
            print("{} left".format(n))  # noqa: UP032
            y = y * 1.5
            n = n - 1
        print("last")
        return y

    lines = "first True\nsecond [1. 2.]\nthird\n3\nfourth 3.0\n2 left\n1 left\nlast\n"
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        run = ms.jit(fn) if mode == ms.GRAPH_MODE else fn
        run(tensor(1.0, 2.0))
        assert capsys.readouterr().out == lines
        ms.grad(fn)(tensor(1.0, 2.0))
        assert capsys.readouterr().out == lines  # once, though gradients compute things again


def test_artifacts_cannot_call_python(tmp_path: Any, capsys: Any) -> None:
    file = tmp_path / "net.py"
    file.write_text(
        "import cellc as ms\nfrom cellc import nn, ops\n"
        "class Net(nn.Cell):\n"
        "    def construct(self, x):\n"
        "        return ops.py_func(abs, x, out_shape=(2,), out_dtype=ms.float32)\n"
    )
    out = tmp_path / "net.cellc"
    code = main(["compile", f"{file}:Net", "--input", "x=float32[2]", "-o", str(out)])
    text = "".join(capsys.readouterr())
    assert code != 0 and "calls the Python function abs()" in text and "net.py:5" in text
    assert not out.exists()
