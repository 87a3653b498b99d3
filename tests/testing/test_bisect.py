"""What `bisect` does beside the planted faults: nothing wrong, crashes, loops, the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops, testing
from cellc.cli import main
from cellc.testing import judging, probe, reducing, rules, stages
from cellc.testing.cases import traced_call
from cellc_compiler.autodiff.reverse import gradient_graph
from cellc_compiler.backends.llvm.expressions import ExpressionEmitter
from cellc_compiler.build import workers
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.text import parse_graph
from cellc_compiler.ir.verify import verify

RNG = np.random.default_rng(0)


def tensor(*shape: int) -> Tensor:
    return Tensor(RNG.standard_normal(shape).astype(np.float32))


class Loops(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        y, i = x, ops.zeros((), ms.int32)
        while i < 3:
            y, i = ops.tanh(y - x) + 1.0, i + 1
        return y * 2


NETWORKS: dict[str, Any] = {
    "convolutions": (lambda: nn.SequentialCell(
        nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3),
        nn.MaxPool2d(2, 2), nn.Flatten(), nn.Dense(16 * 64, 10)), (tensor(2, 3, 16, 16),)),
    "attention": (lambda: nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True),
                  (tensor(2, 6, 16),)),
    "recurrence": (lambda: nn.LSTM(4, 8, batch_first=True), (tensor(2, 5, 4),)),
    "loops": (Loops, (tensor(3, 4),)),
    "reductions": (lambda: lambda x: (ops.logsumexp(x, 1).mean(), x.std(), ops.cumsum(x, 0)),
                   (tensor(300, 2000),)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_nothing_is_wrong(name: str) -> None:
    """No stage changes a value or a bit, so that none is blamed for the fault of another."""
    make, inputs = NETWORKS[name]
    traced, arrays = traced_call(make(), inputs)
    judge = judging.Judge()
    graphs = [traced.graph]
    if name in ("convolutions", "attention"):
        wanted = [i for i, v in enumerate(traced.graph.inputs) if v.dtype.is_float]
        graphs.append(gradient_graph(traced.graph, wanted))
    for graph in graphs:
        assert judge.symptom(graph, arrays) is None
        assert rules.wrong_rule(graph, judge.alone(graph, arrays)) is None
        stage = stages.find_stage(judge, graph, arrays, judging.Symptom("modes", ""))
        assert stage.name == "code generation", stage


def test_kinks_are_no_faults() -> None:
    """At a tie of a maximum and at the kink of a relu there is no derivative to compare."""
    x = Tensor(np.zeros((2, 1, 4, 4), np.float32))
    for fn in (lambda x: ops.max_pool2d(x, 2), ops.relu, ops.abs, lambda x: x.max(-1),
               lambda x: ops.sort(x)[0], lambda x: ops.relu(x) * ops.floor(x)):
        assert not testing.bisect(fn, x, grad=True, isolate=False).found


def test_a_fault_inside_a_loop_is_taken_out_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CELLC_CACHE_DIR", str(tmp_path))
    old = ExpressionEmitter._compute

    def swapped(self: Any, e: Any, scope: Any) -> Any:
        if e.op == "sub":
            e = type(e)(e.op, tuple(reversed(e.args)), e.dtype, e.payload)
        return old(self, e, scope)

    monkeypatch.setattr(ExpressionEmitter, "_compute", swapped)
    found = testing.bisect(Loops(), tensor(3, 4) * 0.1, isolate=False)
    assert found.symptom == "reference" and found.op == "sub"
    assert found.case is not None and found.case.graph is not None
    assert [n.op for n in found.case.graph.nodes] == ["sub"]
    assert all(a.size == 1 for a in found.case.arrays)


CRASHES = '''
"""A network, and a compiler whose `exp` writes to nowhere."""
from cellc import nn, ops
from cellc_compiler.backends.llvm.expressions import ExpressionEmitter

old = ExpressionEmitter._compute

def compute(self, e, scope):
    if e.op == "exp":
        self.f.line("store volatile i32 0, ptr inttoptr (i64 8 to ptr)")
    return old(self, e, scope)

ExpressionEmitter._compute = compute

class Net(nn.Cell):
    def construct(self, x):
        y = ops.tanh(x)
        return ops.relu(ops.exp(y) - 1.0) * y
'''


def test_a_crash_is_survived(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELLC_CACHE_DIR", str(folder))
    monkeypatch.setattr(ExpressionEmitter, "_compute", ExpressionEmitter._compute)  # put back
    Path("net.py").write_text(CRASHES)
    assert main(["bisect", "net.py:Net", "--input", "x=float32[5,4]", "-o", "small.txt"]) == 1
    out = capsys.readouterr().out
    assert "Net: it crashes" in out and "ended with signal 11" in out
    assert "node:  exp (top) at net.py:18:24" in out.replace(str(folder) + "/", "")
    case = testing.load_case("small.txt")
    assert case.graph is not None and [n.op for n in case.graph.nodes] == ["exp"]


def test_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = ("from mindspore import nn, ops\n\nclass Net(nn.Cell):\n"
            "    def construct(self, x):\n        return ops.softmax(x)\n")
    Path("net.py").write_text(text)
    Path("once.py").write_text("import sys\nmain = sys.modules['__main__']\n"
                               "assert 'probe' not in getattr(main, '__file__', ''), 'not here'\n"
                               + text)
    assert main(["bisect", "net.py:Net", "--input", "x=float32[5,4]", "--grad"]) == 0
    assert "nothing is wrong" in capsys.readouterr().out
    testing.record("case.cellcase", ops.exp, tensor(2))
    assert main(["replay", "case.cellcase"]) == 0
    assert "bit for bit" in capsys.readouterr().out
    assert main(["bisect", "case.cellcase"]) == 0
    for wrong, told in (
        (["replay", "nothing.txt"], "nothing.txt: No such file"),
        (["replay", "net.py"], "this is not a cellc case"),
        (["bisect", "nothing.txt"], "nothing.txt: No such file"),
        (["bisect", "case.cellcase", "--input", "x=float32[2]"], "a recorded case has its inputs"),
        (["bisect", "net.py:Net"], "Net takes x"),
        (["bisect", "once.py:Net", "--input", "x=float32[2]"],
         "once.py does not load in a process of its own: AssertionError: not here"),
    ):
        assert main(wrong) == 2
        assert told in capsys.readouterr().err


def graph_of(text: str) -> Graph:
    graph = parse_graph(text)
    verify(graph)
    return graph


CHAIN = graph_of("""graph chain(%x: float32[8,6] input, %y: float32[6,8] input) {
  %0: float32[8,6] = exp(%x) {}
  %1: float32[8,8] = matmul(%0, %y) {transpose_a=False, transpose_b=False}
  %2: float32[8,8] = tanh(%1) {}
  %3: float32[8] = reduce_sum(%2) {axes=(1,), keepdims=False}
  %4: float32[8,1] = reshape(%3) {shape=(8, 1)}
  %5: float32[8,8] = sub(%2, %4) {}
  return %5, %0
}
""")


@pytest.mark.parametrize(("ops_", "nodes"), [
    ({"tanh"}, ["tanh"]),
    ({"exp", "tanh"}, ["exp", "tanh"]),
    ({"reshape"}, ["reshape"]),
    ({"exp", "sub"}, ["exp", "sub"]),
])
def test_the_smallest_graph(ops_: set[str], nodes: list[str]) -> None:
    """A fault that shows where some ops are together: these alone are left, of the least size."""
    arrays = [RNG.standard_normal(v.shape).astype(np.float32) for v in CHAIN.inputs]

    def test(graph: Graph, given: Any) -> bool:
        verify(graph)
        assert [a.shape for a in given] == [v.shape for v in graph.inputs]
        return ops_ <= {n.op for n in graph.nodes}

    small, few, tried = reducing.reduce(CHAIN, arrays, test)
    assert [n.op for n in small.nodes] == nodes
    assert all(a.size == 1 for a in few) and len(small.outputs) <= len(nodes)
    assert tried < 80


def test_sizes_that_matter_stay() -> None:
    arrays = [RNG.standard_normal(v.shape).astype(np.float32) for v in CHAIN.inputs]

    def test(graph: Graph, given: Any) -> bool:
        return any(n.op == "matmul" and n.operands[0].shape[1] >= 3 for n in graph.nodes)

    _, few, _ = reducing.reduce(CHAIN, arrays, test)
    assert [a.shape for a in few] == [(1, 3), (3, 1)]


def test_python_functions_are_refused() -> None:
    def called(x: Tensor) -> Tensor:
        return ops.py_func(np.square, x, out_shape=(2,), out_dtype=ms.float32) * 2

    with pytest.raises(ValueError, match=r"test_bisect\.py:\d+: the network calls the Python"):
        testing.bisect(called, tensor(2), isolate=False)


def test_state_of_python_is_an_input() -> None:
    class Counts(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.n = 1

        def construct(self, x: Tensor) -> Tensor:
            self.n = self.n + 1
            return x * self.n

    net = Counts()
    assert not testing.bisect(net, tensor(2), isolate=False).found
    assert net.n == 1


def test_nothing_to_write() -> None:
    found = testing.bisect(ops.exp, tensor(2), isolate=False)
    with pytest.raises(ValueError, match="nothing was found"):
        found.save("nowhere.txt")


@pytest.mark.parametrize("name", ["json", "numpy", "cellc_runtime"])
def test_modules_of_the_current_folder_are_not_imported(
        name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the processes that judge a case, and that compile."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{name}.py").write_text("open('ran', 'w')\n")
    graph = parse_graph("graph g(%x: float32[2] input) {\n  %0: float32[2] = abs(%x) {}\n"
                        "  return %0\n}\n")
    with probe.ChildJudge() as judge:
        assert judge.symptom(graph, [np.ones(2, np.float32)]) is None
    worker = workers.start_worker("-c", f"import {name}")
    worker.communicate()
    assert worker.returncode == 0 and not (tmp_path / "ran").exists()
