"""Operators of users' own kernels in both modes: gradients, control flow, errors, artifacts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops
from cellc.cli import main
from cellc.compiled.traced import trace
from cellc.ops import CustomRegOp, DataType, custom_info_register
from cellc_compiler.driver import compile_graph
from cellc_compiler.interpret import run
from cellc_compiler.ir.text import parse_graph, print_graph

from ..modes.law import MODES, assert_same, in_both_modes, mode
from ..others import mindspore, needs_oracle
from . import functions as f

pytest.importorskip("numba")

Array = np.ndarray[Any, Any]


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


class Soft(nn.Cell):
    """A kernel between layers, with the gradient of a second kernel."""

    def __init__(self) -> None:
        super().__init__()
        gradient = ops.Custom(f.softplus_grad, func_type="hybrid")
        self.op = ops.Custom(f.softplus, lambda s: s, lambda d: d, "hybrid",
                             bprop=lambda x, out, dout: (gradient(x, dout),))
        self.dense = nn.Dense(3, 4, weight_init="ones", bias_init="zeros")

    def construct(self, x: Tensor) -> Tensor:
        return self.op(self.dense(x)).sum()


def test_forward_and_gradient_in_both_modes() -> None:
    x = numbers(2, 3)

    def make() -> Any:
        net = Soft()
        return ms.value_and_grad(net, 0, net.trainable_params())

    eager, graph = in_both_modes(make, x, calls=2)
    assert_same(graph, eager)
    exact = Soft().dense(x).asnumpy().astype(np.float64)
    np.testing.assert_allclose(eager[0], np.log1p(np.exp(exact)).sum(), rtol=1e-5)
    np.testing.assert_allclose(eager[1], (1 / (1 + np.exp(-exact))).sum(1)[:, None] * np.ones(3),
                               rtol=1e-5)


@pytest.mark.parametrize("m", MODES)
def test_without_bprop_a_gradient_is_an_error(m: int) -> None:
    op = ops.Custom(f.softplus, func_type="hybrid")
    with mode(m), pytest.raises(TypeError, match=r"`bprop` of its ops\.Custom computes: give it"):
        ms.grad(lambda x: op(x).sum())(numbers(2, 3))


def test_results_follow_the_reference_and_text_round_trips() -> None:
    graph = trace(Soft(), (numbers(2, 3),), {}).graph
    text = print_graph(graph)
    assert "custom_kernel" in text and "def softplus(a):" in text
    again = parse_graph(text)
    assert print_graph(again) == text
    arrays = [np.ones(v.type.dims, np.float32) for v in again.inputs]
    np.testing.assert_allclose(compile_graph(again)(arrays)[0], run(again, arrays)[0], rtol=1e-6)


def test_control_flow_and_vmap() -> None:
    op = ops.Custom(f.stacked, func_type="hybrid")

    def make() -> Any:
        def loop(x: Tensor) -> Tensor:
            for _ in range(3):
                if x.sum() > 0:
                    x = op(x)[1:3]
            return x + ms.vmap(op)(ops.stack([x, x + 1]))[1, :2]

        return ms.jit(loop) if ms.get_context("mode") == ms.GRAPH_MODE else loop

    eager, graph = in_both_modes(make, Tensor(np.ones((2, 3), np.float32)))
    assert_same(graph, eager)
    assert eager[0].tolist() == [[14.0] * 3, [7.0] * 3] or eager[0].shape == (2, 3)


def test_open_sizes() -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.op = ops.Custom(f.stacked, lambda s: [2 * s[0], s[1]], lambda d: d, "hybrid")

        def construct(self, x: Tensor) -> Tensor:
            return self.op(x) + 1

    with mode(ms.GRAPH_MODE):
        net = Net()
        net.set_inputs(Tensor(shape=[None, 3], dtype=ms.float32))
        for n in (1, 2, 5):
            x = numbers(n, 3, seed=n).asnumpy()
            assert net(Tensor(x)).asnumpy().tobytes() == (f.stacked(x) + 1).tobytes()


@pytest.mark.parametrize("m", MODES)
@pytest.mark.parametrize(("function", "by", "text"), [
    (f.too_far, [1], r"kernel too_far\(\) the index 3 is out of bounds for axis 0 with size 3"),
    (f.too_far, [-9], r"the index -9 is out of bounds for axis 0 with size 3"),
    (f.written_too_far, [0, 4, 5, 99], "the index 5 is out of bounds for axis 1 with size 5"),
])
def test_positions_out_of_bounds(m: int, function: Any, by: list[int], text: str) -> None:
    """An IndexError with the kernel's line, and the call goes on to be usable."""
    op = ops.Custom(function, func_type="hybrid")

    class Net(nn.Cell):
        def construct(self, x: Tensor, k: Tensor) -> Tensor:
            return op(x, k) * 2

    with mode(m):
        net, x = Net(), Tensor(np.arange(3, dtype=np.float32))
        with pytest.raises(IndexError, match=text) as caught:
            net(x, Tensor(by))
        line = next(i for i, s in enumerate(Path(f.__file__).read_text().splitlines(), 1)
                    if ("a[i + by[0]]" if function is f.too_far else "c[1, by[i]]") in s)
        assert f"functions.py:{line})" in str(caught.value)
        fine = [-2] if function is f.too_far else [0, -1]
        want = function(x.asnumpy(), np.array(fine)) * 2
        assert net(x, Tensor(fine)).asnumpy().tobytes() == want.tobytes()


@pytest.mark.parametrize("m", MODES)
@pytest.mark.parametrize(("function", "good", "bad", "line"), [
    (f.carried, [-1, 2, -0.5, 3], [-1, -0.5, 3], "c[i] = t if"),
    (f.behind_a_loop, [0.5, 1], [1, 0.5], "c[0] = t"),
])
def test_variables_that_are_read_too_early(
    m: int, function: Any, good: list[float], bad: list[float], line: str
) -> None:
    """An error with the line where no value is there, in the reference too; else Python's value."""
    op = ops.Custom(function, func_type="hybrid")
    lines = Path(f.__file__).read_text().splitlines()
    number = next(i for i, s in enumerate(lines, 1) if line in s)
    said = (rf"{function.__name__}\(\) reads a variable before it is assigned "
            rf".*functions.py:{number}\)")

    class Net(nn.Cell):
        def construct(self, x: Tensor) -> Tensor:
            return op(x)

    with mode(m):
        net, x = Net(), np.array(good, np.float32)
        assert net(Tensor(x)).asnumpy().tobytes() == function(x).tobytes()
        wrong = np.array(bad, np.float32)
        with pytest.raises(UnboundLocalError, match=said):
            net(Tensor(wrong))
    with pytest.raises(UnboundLocalError, match=said):
        run(trace(net, (Tensor(wrong),), {}).graph, [wrong])


def test_a_variable_that_no_path_assigns() -> None:
    with pytest.raises(ValueError, match=r"'t' is read before it is assigned\n.*c\[i\] = t"):
        ops.Custom(f.never, func_type="hybrid")(numbers(3))


def test_no_python_runs_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the function nor numpy is called once it is compiled."""
    op = ops.Custom(f.softplus, func_type="hybrid")

    def refuse(*_: Any) -> None:
        raise AssertionError("Python runs")

    monkeypatch.setattr("cellc_compiler.hybrid.python.call", refuse)
    called: list[str] = []
    for m in MODES:
        with mode(m):
            run_ = ms.jit(lambda x: op(x)) if m == ms.GRAPH_MODE else op
            run_(numbers(4, 4))
            sys.setprofile(lambda frame, event, arg: called.append(frame.f_code.co_filename))
            try:
                run_(numbers(4, 4))
            finally:
                sys.setprofile(None)
    assert f.__file__ not in called


ALONE = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("cellc", "cellc_compiler", "numba", "llvmlite"):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import numpy as np
from cellc_runtime import load
net = load(sys.argv[1], trust_native_code=True)
print(net(np.ones((2, 3), np.float32)).tolist())
try:
    load(sys.argv[2], trust_native_code=True)(np.ones(3, np.float32), np.array([7]))
except IndexError as e:
    print(str(e))
assert not [m for m in sys.modules if m.split(".")[0] in ("numba", "cellc_compiler", "cellc")]
"""


NETS = """
import sys
sys.path.insert(0, {folder!r})
import functions as f
from cellc import nn, ops
class Soft(nn.Cell):
    def __init__(self):
        super().__init__()
        self.op = ops.Custom(f.softplus, func_type="hybrid")
    def construct(self, x):
        return self.op(x * 2)
class Far(nn.Cell):
    def __init__(self):
        super().__init__()
        self.op = ops.Custom(f.too_far, func_type="hybrid")
    def construct(self, x, k):
        return self.op(x, k)
"""


def test_artifacts_need_the_runtime_alone(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(NETS.format(folder=str(Path(f.__file__).parent)))
    for name, given in (("Soft", ["x=float32[2,3]"]), ("Far", ["x=float32[3]", "k=int64[1]"])):
        inputs = [part for g in given for part in ("--input", g)]
        assert main(["compile", f"{tmp_path}/nets.py:{name}", *inputs, "-o",
                     f"{tmp_path}/{name}.cellc"]) == 0
    done = subprocess.run([sys.executable, "-c", ALONE, "Soft.cellc", "Far.cellc"], cwd=tmp_path,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    want = ops.Custom(f.softplus, func_type="hybrid")(Tensor(np.full((2, 3), 2, np.float32)))
    assert first == str(want.asnumpy().tolist()) and "the index 7 is out of bounds" in second


WITHOUT = """
import sys
sys.modules['numba'] = None
sys.path.insert(0, sys.argv[1])
import numpy as np, cellc as ms
import functions as f
op = ms.ops.Custom(f.stacked, func_type="hybrid")
print(f.stacked(np.ones((1, 2), np.int32)).tolist())
try:
    op(ms.Tensor(np.ones((1, 2), np.float32)))
except ImportError as e:
    print(e)
"""


def test_a_report_shows_its_code(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(NETS.format(folder=str(Path(f.__file__).parent)))
    page, net = tmp_path / "page.html", f"{tmp_path}/nets.py:Soft"
    assert main(["inspect", net, "-i", "x=float32[2,3]", "-o", str(page)]) == 0
    assert page.stat().st_size > 10_000


def test_without_numba(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(Path(f.__file__).parent)], capture_output=True,
        text=True, check=False, env={**os.environ, "CELLC_CACHE_DIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "[[1, 1], [2, 2]]" and "pip install 'cellc[numba]'" in second


def test_numba_is_not_imported_before_a_kernel_is_compiled() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys, cellc as ms; ms.ops.Custom, ms.ops.kernel; "
         "print('numba' in sys.modules)"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


EXAMPLE = """
import numpy as np
import mindspore as ms
from mindspore import Tensor, nn, ops
from mindspore.ops import CustomRegOp, DataType, kernel, ms_kernel

info = CustomRegOp().input(0, "a").input(0, "b").output(0, "y") \\
    .dtype_format(DataType.F32_None, DataType.F32_None, DataType.F32_None) \\
    .target("CPU").get_op_info()

@kernel(reg_info=info, compile_attrs={"test1": True, "test3": 12})
def product(a, b):
    d = allocate(a.shape, a.dtype)
    c = output_tensor(a.shape, a.dtype)
    for i0 in range(a.shape[0]):
        for i1 in range(b.shape[1]):
            c[i0, i1] = 0.0
            for i2 in range(a.shape[1]):
                d[i0, i2] = 2 * a[i0, i2]
                c[i0, i1] = c[i0, i1] + sin(d[i0, i2] * b[i2, i1])
    return c

@ms_kernel
def older(a):
    c = output_tensor(a.shape, a.dtype)
    for i, j in grid(a.shape):
        c[i, j] = a[i, j]
    return c

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        def infer(x, y):
            return x
        self.op = ops.Custom(product, out_shape=infer, out_dtype=infer, func_type="hybrid")
        self.older = ops.Custom(older, func_type="hybrid")

    def construct(self, x, y):
        return self.older(self.op(x, y))

x = np.arange(16, dtype=np.float32).reshape(4, 4) / 16
for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
    ms.set_context(mode=mode, device_target="CPU")
    out = Net()(Tensor(x), Tensor(x)).asnumpy()
    assert np.allclose(out, product(x, x), 1e-6), out
    other = ops.Custom(product, lambda a, _: a, lambda a, _: a, "pyfunc")(Tensor(x), Tensor(x))
    assert np.allclose(out, other.asnumpy(), 1e-6)
print("runs")
"""


def test_an_example_of_mindspores(tmp_path: Path) -> None:
    """The forms in which its documentation writes such functions."""
    (tmp_path / "example.py").write_text(EXAMPLE)
    done = subprocess.run([sys.executable, "-m", "cellc", "run", "example.py"], cwd=tmp_path,
                          capture_output=True, text=True, check=False)
    assert done.stdout == "runs\n", done.stderr


# --- registration, and functions of libraries -----------------------------------------------------


def test_registration_information() -> None:
    info = (CustomRegOp().input(0, "a").input(0, "b", "dynamic").output(0, "y")
            .dtype_format(DataType.F32_None, DataType.F32_None, DataType.F32_Default)
            .attr("n", "required", "int", "3").target("CPU").get_op_info())
    assert info == {
        "op_name": "Custom", "inputs": [
            {"index": 0, "name": "a", "paramType": "required"},
            {"index": 0, "name": "b", "paramType": "dynamic"}],
        "outputs": [{"index": 0, "name": "y", "paramType": "required"}],
        "attr": [{"name": "n", "paramType": "required", "type": "int", "defaultValue": "3"}],
        "fusion_type": "", "target": "CPU",
        "dtype_format": [(("float32", ""), ("float32", ""), ("float32", "DefaultFormat"))],
    }

    @custom_info_register(info)
    def plus(a: Array, b: Array) -> Array:
        return a + b

    assert plus.reg_info == (info,)
    op = ops.Custom(plus, lambda a, b: a, lambda a, b: a, "pyfunc", reg_info=info)
    assert op(Tensor([1.0]), Tensor([2.0])).asnumpy().tolist() == [3.0]
    with pytest.raises(ValueError, match="sum of input tensors and output tensors, but got 1 vs 0"):
        CustomRegOp().dtype_format(DataType.F32_None)
    with pytest.raises(TypeError, match="3 value must be str"):
        CustomRegOp().input(0, 3)  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="DataType has no 'F33_None'"):
        DataType.F33_None  # noqa: B018


C = """
#include <stdint.h>
#include <string.h>
int Add(int n, void **params, int *ndims, int64_t **shapes, const char **dtypes, void *s, void *e) {
    if (n != 3 || strcmp(dtypes[0], "float32") || ndims[0] != 2) return 4;
    for (int64_t i = 0; i < shapes[2][0] * shapes[2][1]; ++i)
        ((float *)params[2])[i] = ((float *)params[0])[i] + ((float *)params[1])[i];
    return 0;
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no such machine: it has no gcc")
def test_functions_of_libraries(tmp_path: Path) -> None:
    (tmp_path / "add.c").write_text(C)
    library = tmp_path / "add.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "add.c"], check=True)
    op = ops.Custom(f"{library}:Add", lambda a, b: a, lambda a, b: a, "aot",
                    bprop=lambda a, b, out, dout: (dout, dout))
    a, b = numbers(2, 3), numbers(2, 3, seed=1)
    for m in MODES:
        with mode(m):
            run_ = ms.jit(lambda x, y: op(x, y)) if m == ms.GRAPH_MODE else op
            assert run_(a, b).asnumpy().tobytes() == (a + b).asnumpy().tobytes()
            assert ms.grad(run_)(a, b).asnumpy().tolist() == [[1.0] * 3] * 2
    with mode(ms.PYNATIVE_MODE), pytest.raises(
            RuntimeError, match=r"the function Add\(\) of .*add.so returned 4"):
        op(a.astype(ms.float64), b)
    for where, kind, text in (
        (f"{library}:Sub", ValueError, "has no function 'Sub'"),
        ("nowhere.so:Add", OSError, "nowhere.so"), ("add.cc:Add", ValueError, "is a source"),
        ("add.so", TypeError, "should be like 'file_name:func_name'"),
    ):
        with pytest.raises(kind, match=text):
            ops.Custom(where, (2,), ms.float32, "aot")


# --- MindSpore ------------------------------------------------------------------------------------

THEIRS = """
import json, sys
import numpy as np
sys.path.insert(0, sys.argv[1])
import mindspore.ops
sys.modules["cellc.ops"] = mindspore.ops
import functions as f
given = json.load(sys.stdin)
out = {}
for name, arrays in given.items():
    made = getattr(f, name)(*[np.array(a, np.float32) for a in arrays])
    made = made if isinstance(made, tuple) else (made,)
    out[name] = [[str(m.dtype), np.asarray(m, np.float64).tolist()] for m in made]
print(json.dumps(out))
"""


@needs_oracle
def test_functions_run_as_python_as_in_mindspore() -> None:
    given = {
        "outer_product": [numbers(4, 4), numbers(4, 4, seed=1)], "scheduled": [numbers(3, 6)],
        "with_memory": [numbers(2, 3), numbers(3, 4, seed=1)], "softplus": [numbers(2, 3)],
        "in_place": [numbers(4), numbers(4, seed=1)], "stacked": [numbers(2, 3)],
    }
    theirs = mindspore(THEIRS, [str(Path(f.__file__).parent)],
                       {k: [t.asnumpy().tolist() for t in v] for k, v in given.items()})
    for name, tensors in given.items():
        made = getattr(f, name)(*[t.asnumpy().copy() for t in tensors])
        native = ops.Custom(getattr(f, name), func_type="hybrid")(*tensors)
        many = [x if isinstance(x, tuple) else (x,) for x in (made, native)]
        for (dtype, values), ours, built in zip(theirs[name], *many, strict=True):
            assert str(ours.dtype) == dtype and np.allclose(ours, values, 1e-6)
            np.testing.assert_allclose(built.asnumpy(), values, rtol=1e-5)
