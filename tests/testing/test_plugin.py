"""The plugin of pytest, in suites of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

NET = """
import numpy as np, pytest
import cellc as ms
from cellc import Tensor, nn, ops

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(4, 2)

    def construct(self, x):
        return ops.softmax(self.fc(x))

X = Tensor(np.ones((3, 4), np.float32))
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder for a suite in which every warning is an error, with the plugin and no other."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini("[pytest]\nfilterwarnings = error\n"
                     "addopts = -p cellc.testing.pytest_plugin --strict-markers\n")
    return pytester


def test_modes_and_threads(suite: pytest.Pytester) -> None:
    suite.makepyfile(NET + """
from cellc_runtime import loader
SEEN = []
BEFORE = ms.get_context("mode")

@pytest.mark.cellc_modes
def test_marked():
    SEEN.append(ms.get_context("mode"))

@pytest.mark.cellc_modes(modes=("graph",), threads=(1, 2))
def test_threads(cellc_mode):
    assert cellc_mode == ms.GRAPH_MODE == ms.get_context("mode")
    SEEN.append(loader.num_threads())

def test_fixture(cellc_mode):
    assert ms.get_context("mode") == cellc_mode

def test_afterwards():
    assert SEEN == [0, 1, 1, 2] and ms.get_context("mode") == BEFORE
""")
    result = suite.runpytest_subprocess("-v")
    result.assert_outcomes(passed=7)
    result.stdout.fnmatch_lines(["*test_marked?graph? PASSED*", "*test_marked?pynative? PASSED*",
                                 "*test_threads?graph-1threads? PASSED*"])


def test_dtypes_and_shapes(suite: pytest.Pytester) -> None:
    suite.makeconftest(NET.replace("X =", "#") + """
@pytest.fixture
def x(cellc_dtype, cellc_shape):
    return Tensor(np.ones(cellc_shape)).astype(cellc_dtype)
""")
    suite.makepyfile("""
import pytest
import cellc as ms
from cellc import ops

SEEN = []

@pytest.mark.cellc_modes(modes=("graph",))
class TestAll:
    @pytest.mark.cellc_modes(dtypes=("float32", ms.float16), shapes=((), (2, 3)))
    def test_fixture(self, x, cellc_shape):
        assert ms.get_context("mode") == ms.GRAPH_MODE and x.shape == cellc_shape
        SEEN.append((ops.exp(x).dtype, x.shape))

@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.cellc_modes(dtypes=["int8"])
def test_product(cellc_dtype, cellc_mode, k):
    assert cellc_dtype == ms.int8

def test_afterwards():
    assert SEEN == [(d, s) for d in (ms.float32, ms.float16) for s in ((), (2, 3))]
""")
    result = suite.runpytest_subprocess("-v")
    result.assert_outcomes(passed=9)
    result.stdout.fnmatch_lines(["*test_fixture?float32-scalar-graph? PASSED*",
                                 "*test_fixture?float16-2x3-graph? PASSED*",
                                 "*test_product?int8-pynative-1? PASSED*"])


@pytest.mark.parametrize(("mark", "told"), [
    ("cellc_modes(threads=(0,))", "threads must be a tuple of positive ints, but got (0,)"),
    ("cellc_modes(modes=('eager',))", "modes must be a tuple of 'graph' and 'pynative', but got"),
    ("cellc_modes(modes='graph')", "modes must be a tuple of 'graph' and 'pynative', but got 'g"),
    ("cellc_modes(modes=())", "modes must be a tuple of 'graph' and 'pynative', but got ()"),
    ("cellc_modes(device='CPU')", "cellc_modes takes modes=, threads=, dtypes=, shapes=, but "),
    ("cellc_modes('graph')", "cellc_modes takes modes=, threads=, dtypes=, shapes=, but "),
    ("cellc_modes(dtypes=('float33',))", "dtypes must be a tuple of element types of cellc or"),
    ("cellc_modes(shapes=(2, 3))", "shapes must be a tuple of tuples of sizes, but got (2, 3)"),
    ("cellc_modes(shapes=((-1,),))", "shapes must be a tuple of tuples of sizes, but got ((-1"),
    ("cellc_modes(dtypes=('int8',))", "gives dtypes=, but the test does not take the fixture c"),
    ("cellc_mode", "there is no marker 'cellc_mode': did you mean 'cellc_modes'?"),
    ("cellc_sweep(dtypes=('int8',))", "there is no marker 'cellc_sweep': did you mean"),
    ("celc_modes", "there is no marker 'celc_modes': did you mean 'cellc_modes'?"),
])
def test_wrong_marks(suite: pytest.Pytester, mark: str, told: str) -> None:
    suite.makeini("[pytest]\naddopts = -p cellc.testing.pytest_plugin\n"
                  "filterwarnings = ignore::pytest.PytestUnknownMarkWarning\n")
    suite.makepyfile(f"import pytest\n@pytest.mark.{mark}\ndef test_it(): pass\n")
    result = suite.runpytest_inprocess()
    assert result.ret != 0
    assert told in result.stdout.str() + result.stderr.str()


@pytest.mark.parametrize(("test", "told"), [
    ("def test_it(cellc_dtype): pass", "takes cellc_dtype, but no cellc_modes gives dtypes="),
    ("import unittest, pytest\n@pytest.mark.cellc_modes\nclass TestIt(unittest.TestCase):\n"
     "    def test_it(self): pass", "a TestCaseFunction, which pytest does not parametrize"),
])
def test_sweeps_that_would_do_nothing(suite: pytest.Pytester, test: str, told: str) -> None:
    suite.makepyfile(test)
    result = suite.runpytest_inprocess()
    assert result.ret != 0
    assert told in result.stdout.str() + result.stderr.str()


def test_markers_of_others_are_theirs(suite: pytest.Pytester) -> None:
    suite.makeconftest("def pytest_configure(config):\n"
                       "    config.addinivalue_line('markers', 'cell_modes: ours')\n")
    suite.makepyfile("import pytest\n@pytest.mark.cell_modes\ndef test_it(): pass\n")
    suite.runpytest_inprocess().assert_outcomes(passed=1)


SUITE = NET + """
net = Net()

def test_graph():
    ms.set_context(mode=ms.GRAPH_MODE)
    net(X)
    net(X)

def test_pynative():
    ms.set_context(mode=ms.PYNATIVE_MODE)
    net(X)                      # this signature is known
    net(Tensor(np.ones((1, 4), np.float32)))
    ms.grad(net)(Tensor(np.ones((2, 4), np.float32)))
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.grad(net)(Tensor(np.ones((5, 4), np.float32)))

def test_step():
    step = nn.TrainOneStepCell(nn.WithLossCell(Net(), nn.MSELoss()), nn.SGD(net.trainable_params()))
    step(X, Tensor(np.ones((3, 2), np.float32)))
"""


def test_verify(suite: pytest.Pytester) -> None:
    suite.makepyfile(SUITE)
    result = suite.runpytest_subprocess("--cellc-verify")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*cellc-verify*", "5 signatures of 2 Cells verified: 0 differ*",
                                 "worst op: * ulps, *% of what is allowed"])


def test_a_fault_fails_the_test_that_called_the_cell(suite: pytest.Pytester) -> None:
    suite.makepyfile(NET + """
class Odd(nn.Cell):
    def construct(self, x):
        return x * helper()

def helper():
    return 2.0

@pytest.fixture
def planted(monkeypatch):
    import ast, operator
    from cellc.lang import operators
    monkeypatch.setitem(operators.BINARY, ast.Mult, operator.add)

def test_good():
    Net()(X)

def test_bad(planted):
    Odd()(X)
""")
    result = suite.runpytest_subprocess("--cellc-verify")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([
        "*cellc-verify: Odd(x: float32?3,4?): forward: output: * elements differ*",
        "2 signatures of 2 Cells verified: 1 differ*",
        "differs: Odd(x: float32?3,4?) (*test_bad): forward: output: *"])


def test_functions_under_jit_are_verified(suite: pytest.Pytester) -> None:
    suite.makepyfile(NET + """
net = Net()
opt = nn.SGD(net.trainable_params())

class Half(nn.Cell):
    def construct(self, x):
        return x * x
    def bprop(self, x, out, dout):
        return (dout * x,)

half = Half()

@ms.jit
def good(x):
    return net(x).sum()

@ms.jit
def wrong(x):
    return half(net(x)).sum()

class Holder:
    scale = 3.0
    @ms.jit
    def method(self, x):
        return x * self.scale

step_of = ms.value_and_grad(lambda x: net(x).sum(), None, opt.parameters)

@ms.jit
def step(x):
    loss, grads = step_of(x)
    opt(grads)
    return loss

def test_good():
    ms.set_context(mode=ms.GRAPH_MODE)
    good(X)
    good(X)
    Holder().method(X)
    ms.grad(lambda x: net(x).sum())(X)
    ms.set_context(mode=ms.PYNATIVE_MODE)
    step(X)

def test_wrong():
    wrong(X)

def test_wrong_cell():
    Half()(X)
""")
    result = suite.runpytest_subprocess("--cellc-verify")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines([
        "*cellc-verify: wrong(x: float32?3,4?): gradient: bprop of Half: custom_grad*not the der*",
        "*cellc-verify: Half(x: float32?3,4?): gradient: bprop of Half: custom_grad*not the der*",
        "6 signatures of 1 Cell and 5 functions verified: 2 differ, 0 not compared*"])


def test_a_cell_with_an_eq_of_its_own_is_verified(suite: pytest.Pytester) -> None:
    suite.makepyfile(NET + """
class Odd(Net):
    def __eq__(self, other):
        raise AttributeError("eq")
    def __hash__(self):
        raise AttributeError("hash")

def test_it():
    Odd()(X)
    Odd()(X)
""")
    result = suite.runpytest_subprocess("--cellc-verify")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["2 signatures of 1 Cell verified: 0 differ, 0 not compared*"])


def test_what_cannot_be_compared_is_told(suite: pytest.Pytester) -> None:
    suite.makepyfile(NET + """
class Eager(nn.Cell):
    def construct(self, x):
        return x * eval("2.0")

def test_eager():
    ms.set_context(mode=ms.PYNATIVE_MODE)
    Eager()(X)

def test_raises():
    with pytest.raises(Exception):
        Net()(Tensor(np.ones((3, 5), np.float32)))
""")
    result = suite.runpytest_subprocess("--cellc-verify")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["1 signature of 1 Cell verified: 0 differ, 1 not compared*",
                                 "not compared: Eager(*): it cannot be compiled: *"])


def test_workers_hand_over_what_they_found(suite: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    suite.makepyfile(SUITE)
    result = suite.runpytest_subprocess("-p", "xdist", "-n", "2", "--cellc-verify")
    result.assert_outcomes(passed=3)
    result.stdout.re_match_lines([r"\d signatures of 2 Cells verified: 0 differ.*"])


def test_the_plugin_costs_nothing_before_it_is_used() -> None:
    code = ("import pytest, sys; before = set(sys.modules); import cellc.testing.pytest_plugin; "
            "new = {m.partition('.')[0] for m in set(sys.modules) - before}; "
            "print(sorted(new), sorted(m for m in sys.modules if m.startswith('cellc.')))")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "numpy" not in out.stdout and "llvmlite" not in out.stdout
    assert out.stdout.split("]")[1].replace("[", "").strip() == \
        "'cellc.testing', 'cellc.testing.pytest_plugin'"


def test_transformed_functions_are_verified(suite: pytest.Pytester) -> None:
    suite.makepyfile(NET + """
from functools import partial
net = Net()
CALLS = []

class Half(nn.Cell):
    def construct(self, x):
        return x * x
    def bprop(self, x, out, dout):
        return (dout * x,)

half = Half()

def loss(x):
    return net(x).sum()

def row(x):
    return ops.softmax(net.fc(x)).sum()

def wrong(x):
    return half(x).sum()

def counted(x):
    CALLS.append(1)
    return x * len(CALLS)

class Scaled:
    __slots__ = ("by",)
    def __init__(self, by):
        self.by = by
    def __call__(self, x):
        return x * x * self.by

@pytest.mark.cellc_modes
def test_grad(cellc_mode):
    x = Tensor(np.ones((2 + cellc_mode, 4), np.float32))
    ms.grad(loss)(x)
    ms.value_and_grad(loss, None, net.trainable_params())(x)
    ms.ops.GradOperation(sens_param=True)(loss)(x, Tensor(1.0))
    ms.ops.GradOperation(sens_param=True)(loss)(x, sens=Tensor(1.0))
    ms.grad(ms.jit(loss))(x)
    ms.grad(partial(ops.mul, 2.0))(x)
    ms.jit(Scaled(3.0))(x)

@pytest.mark.cellc_modes
def test_others(cellc_mode):
    x = Tensor(np.ones((4 + cellc_mode, 4), np.float32))
    ms.vmap(row)(x)
    ms.jacrev(loss)(x)
    ms.grad(ms.grad(lambda x: (x * x * x).sum()))(Tensor(2.0 + cellc_mode))
    ms.grad(lambda x: ms.vmap(row)(x).sum())(x)
    ms.jvp(loss, x, x)
    ms.vmap(counted)(x)

@pytest.mark.cellc_modes
def test_wrong_grad(cellc_mode):
    ms.grad(wrong)(Tensor(np.ones((2 + cellc_mode, 4), np.float32)))

def test_wrong_vmap():
    ms.set_context(mode=ms.PYNATIVE_MODE)
    ms.vmap(wrong)(X)

def test_effects():
    ms.set_context(mode=ms.PYNATIVE_MODE)
    ms.grad(lambda x: counted(x).sum())(X)
""")
    result = suite.runpytest_subprocess("--cellc-verify")
    result.assert_outcomes(passed=5, failed=3)
    result.stdout.fnmatch_lines([
        "*cellc-verify: wrong(x: float32?2,4?): gradient: bprop of Half: custom_grad*not the der*",
        "*cellc-verify: wrong(x: float32?3,4?): gradient: bprop of Half: custom_grad*not the der*",
        "*cellc-verify: vmap_wrong(float32?3,4?): gradient: bprop of Half: custom_grad*not the d*",
        "22 signatures of 0 Cells and 11 functions verified: 3 differ, 0 not compared*"])


def test_an_effect_lost_under_a_transformation_is_found(suite: pytest.Pytester) -> None:
    suite.makepyfile(NET + """
import random

def noisy(x):
    return x * ms.context.in_graph_mode()

def test_grad():
    ms.set_context(mode=ms.PYNATIVE_MODE)
    ms.grad(noisy)(X)

def test_jacobian():
    ms.set_context(mode=ms.PYNATIVE_MODE)
    ms.jacfwd(noisy)(X)
""")
    result = suite.runpytest_subprocess("--cellc-verify")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*cellc-verify: noisy(x: float32?3,4?): *",
                                 "*cellc-verify: jacfwd_noisy(float32?3,4?): *"])
