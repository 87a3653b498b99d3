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


@pytest.mark.parametrize(("mark", "told"), [
    ("threads=(0,)", "threads holds positive ints, but got (0,)"),
    ("modes=('eager',)", "modes holds 'graph' and 'pynative', but got ('eager',)"),
    ("device='CPU'", "cellc_modes takes modes= and threads=, but got device"),
])
def test_wrong_marks(suite: pytest.Pytester, mark: str, told: str) -> None:
    suite.makepyfile(f"import pytest\n@pytest.mark.cellc_modes({mark})\ndef test_it(): pass\n")
    result = suite.runpytest_inprocess()
    assert result.ret != 0
    assert told in result.stdout.str() + result.stderr.str()


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
