"""`record` and `replay`, `assert_no_recompile`, `assert_modes_equal`: what they say of calls."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops, testing
from cellc.core import observers
from cellc.testing.cases import MAGIC, VERSION, Case
from cellc_compiler.ir.text import parse_graph
from cellc_compiler.passes import cleanup
from cellc_runtime.container import pack
from cellc_runtime.errors import ArtifactError

X = Tensor(np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32))


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Dense(4, 2)
        self.factor = 2.0

    def construct(self, x: Tensor) -> Tensor:
        return ops.softmax(self.fc(x)) * self.factor


class Counts(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def construct(self, x: Tensor) -> Tensor:
        self.n = self.n + 1
        return x * self.n


def training() -> nn.Cell:
    net = nn.SequentialCell(nn.Dense(4, 8), nn.Dropout(p=0.5), nn.BatchNorm1d(8))
    return net.set_train()


# --- record and replay ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["case.cellcase", "case.txt"])
def test_a_call_is_recorded_and_given_again(folder: Path, mode: int, name: str) -> None:
    net = training()
    with testing.record(name):
        net(X)
        want = net(X)
    found = testing.replay(name, isolate=False)
    assert found.status == 0 and not found.versions
    case = found.case
    assert case.options["mode"] == ("graph" if mode == ms.GRAPH_MODE else "pynative")
    if name.endswith(".cellcase"):
        np.testing.assert_array_equal(case.outputs[0], want.asnumpy())
        assert len(case.outputs) > 1  # what the call updates: averages, the generator
        assert "bit for bit" in str(found)
    assert not testing.bisect(name, isolate=False).found


def test_the_call_is_made_as_without_it(folder: Path, mode: int) -> None:
    net = Counts()
    with testing.record("case.cellcase"):
        first, second = net(X), net(X)
    np.testing.assert_array_equal(second.asnumpy(), 2 * first.asnumpy())
    assert net.n == 2 and not observers.calls
    assert testing.record("case.cellcase", net, X).asnumpy()[0, 0] == X.asnumpy()[0, 0] * 3
    assert testing.replay("case.cellcase", isolate=False).status == 0


def test_functions_are_recorded(folder: Path) -> None:
    @ms.jit
    def doubled(x: Any) -> Any:
        return {"y": (x * 2, x.sum())}

    with testing.record("a.cellcase"):
        doubled(X)
    assert len(testing.load_case("a.cellcase").outputs) == 2
    testing.record("b.cellcase", lambda x: x + 1, X)
    assert testing.replay("b.cellcase", isolate=False).status == 0


def test_gradients_are_recorded(folder: Path, mode: int) -> None:
    net = Net()
    gradient = ms.grad(net, None, net.trainable_params())
    want = testing.record("a.cellcase", gradient, X)
    case = testing.load_case("a.cellcase")
    np.testing.assert_array_equal(case.outputs[0], want[0].asnumpy())
    assert testing.replay("a.cellcase", isolate=False).status == 0
    with testing.record("b.cellcase"):
        gradient(X)
    assert testing.replay("b.cellcase", isolate=False).status == 0
    assert not testing.bisect(gradient, X, isolate=False).found


def test_sizes_that_follow_from_elements(folder: Path) -> None:
    """The case has the graph for the sizes that the call finds."""
    def positive(x: Tensor) -> Tensor:
        return x[x > 0].sum()

    testing.record("case.cellcase", positive, X)
    assert testing.replay("case.cellcase", isolate=False).status == 0
    assert not testing.bisect(positive, X, isolate=False).found


def test_the_call_that_fails_is_the_one_that_is_recorded(folder: Path, graph_mode: None) -> None:
    take = nn.CellList([Net()])[0]
    with pytest.raises(IndexError, match="out of"), testing.record("case.cellcase"):
        take(X)
        Take()(X, Tensor(7))
    found = testing.replay("case.cellcase", isolate=False)
    assert found.status == 1 and found.symptom is not None
    assert "there it failed: " in str(found) and "here: error" in str(found)
    assert testing.bisect("case.cellcase", isolate=False).symptom == "error"


class Take(nn.Cell):
    def construct(self, x: Tensor, i: Tensor) -> Tensor:
        return ops.exp(x)[i]


def test_a_call_without_a_graph(folder: Path, graph_mode: None) -> None:
    with pytest.raises(ValueError, match="CE602"), testing.record("case.cellcase"):
        Net()(Tensor(np.ones((3, 5), np.float32)))
    found = testing.replay("case.cellcase")
    assert found.status == 2
    assert "CE602" in str(found) and "before there was a graph" in str(found)
    with pytest.raises(ValueError, match="has no graph: the call failed before"):
        testing.bisect("case.cellcase")
    with pytest.raises(ValueError, match="the case has no graph"):
        found.case.save("case.txt")


def test_what_cannot_be_recorded(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"nothing to write to case\.cellcase"), \
            testing.record("case.cellcase"):
        pass

    class Calls(nn.Cell):
        def construct(self, x: Tensor) -> Tensor:
            return ops.py_func(np.square, x, out_shape=(3, 4), out_dtype=ms.float32)

    with pytest.raises(ValueError, match=r"calls the Python function .*, whose results only it"), \
            testing.record("case.cellcase"):
        Calls()(X)
    assert not Path("case.cellcase").exists()


def test_other_versions_and_outputs_are_told(folder: Path) -> None:
    testing.record("case.cellcase", Net(), X)
    case = testing.load_case("case.cellcase")
    Case(case.graph, case.arrays, [case.outputs[0] * 2], "", {**case.versions, "numpy": "0.1"},
         case.options).save("other.cellcase")
    found = testing.replay("other.cellcase")
    assert found.status == 1
    assert f"numpy: 0.1 there, {np.__version__} here" in str(found)
    assert "other than there: output 0: 6 of 6 elements differ" in str(found)


def damaged() -> dict[str, Callable[[bytes], bytes]]:
    """Ways to damage a file."""
    graph = b"graph g(%x: float32[2] input) {\n  return %x\n}\n"

    def file(graph: bytes, arrays: bytes, meta: Any) -> bytes:
        return b"".join(pack(MAGIC, VERSION, meta, [("graph", graph), ("arrays", arrays)]))

    meta: dict[str, Any] = {"message": "", "versions": {}, "options": {}}
    header = json.dumps({"in0": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}).encode()
    three = struct.pack("<Q", len(header)) + header + bytes(12)
    return {
        "cut off": lambda data: data[:-40],
        "a byte": lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:],
        "empty": lambda data: b"",
        "other graph": lambda data: file(b"graph g(", three, meta),
        "not text": lambda data: file(b"\xff\xfe", three, meta),
        "another type": lambda data: file(graph, three, meta),
        "header": lambda data: file(graph, three, {**meta, "versions": {"numpy": 1}}),
        "no such op": lambda data: file(graph.replace(
            b"return", b"%0: float32[2] = system(%x) {}\n  return"), three, meta),
        "text": lambda data: b"# cellc case\n# in lit<float32[9]>[1.0]\n" + graph,
        "no input": lambda data: b"# cellc case\n" + graph,
        "huge and empty": lambda data: b"# cellc case\n# in lit<float32[0,%s]>[]\n" % (b"9" * 99)
            + graph,
        "too large": lambda data: b"# cellc case\n# in lit<float32[2]>[1.0, 2.0]\n" +
            graph.replace(b"return %x", b"%0: float32[65536,65536,2] = broadcast_to(%x) "
                          b"{shape=(65536, 65536, 2)}\n  return %0"),
    }


@pytest.mark.parametrize("how", damaged())
def test_damaged_files_are_refused(folder: Path, how: str) -> None:
    testing.record("case.cellcase", Net(), X)
    path = Path("case.cellcase")
    path.write_bytes(damaged()[how](path.read_bytes()))
    with pytest.raises(ArtifactError, match="case"):
        testing.replay(path)


def test_a_graph_by_hand_is_a_case(folder: Path) -> None:
    graph = parse_graph("graph g(%x: float32[2] input) {\n  %0: float32[2] = exp(%x) {}\n"
                        "  return %0\n}\n")
    Case(graph, [np.float32([1, 2])]).save("case.txt")
    assert testing.replay("case.txt", isolate=False).status == 0


# --- recompilation -------------------------------------------------------------------------------


def test_compilations_are_counted_and_explained(graph_mode: None) -> None:
    net = Net()
    with testing.assert_no_recompile(allowed=1):
        net(X)
    with testing.assert_no_recompile():
        net(X)
    with pytest.raises(AssertionError, match="2 compilations") as found, \
            testing.assert_no_recompile():
        net.factor = 3.0
        net(X)
        net(Tensor(np.ones((1, 4), np.float32)))
    lines = str(found.value).splitlines()
    assert lines[0] == "assert_no_recompile: 2 compilations, where none is allowed"
    assert lines[1].startswith("  Net(x: float32[3,4]), ")
    assert "factor of Net: 2.0 -> 3.0 (read at test_calls.py:" in lines[1]
    assert "(x: float32[3,4]) -> (x: float32[1,4])" in lines[2]


def test_a_test_can_be_decorated(graph_mode: None) -> None:
    @testing.assert_no_recompile
    def calls(net: nn.Cell) -> str:
        net(X)
        return "done"

    net = Net()
    with pytest.raises(AssertionError, match="1 compilation, where none is allowed\n  Net"):
        calls(net)
    assert calls(net) == "done"
    assert not observers.compilations
    with pytest.raises(ValueError, match="'allowed' must not be negative, but got -1"):
        testing.assert_no_recompile(allowed=-1)


def test_gradients_and_functions_count() -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    with pytest.raises(AssertionError, match="1 compilation"), testing.assert_no_recompile():
        ms.jit(lambda x: x * 2)(X)
    ms.set_context(mode=ms.GRAPH_MODE)
    with pytest.raises(AssertionError, match="1 compilation"), testing.assert_no_recompile():
        ms.grad(lambda x: (x * 2).sum())(X)


def test_errors_pass_through() -> None:
    with pytest.raises(KeyError, match="own"), testing.assert_no_recompile():
        raise KeyError("own")


# --- both modes ----------------------------------------------------------------------------------


def test_modes_are_equal() -> None:
    testing.assert_modes_equal(training(), X)
    testing.assert_modes_equal(Net(), X, train_step=lambda net: nn.TrainOneStepCell(
        net, nn.SGD(net.trainable_params(), 0.1)))
    testing.assert_modes_equal(lambda x: x * float("nan"), X, grad=False)


def test_modes_that_differ(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CELLC_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cleanup, "attrs_key", lambda attrs: ())

    def sums(x: Tensor) -> Tensor:
        y = ops.abs(x)
        return ops.cumsum(y, 0) * ops.cumsum(y, 1)

    with pytest.raises(AssertionError, match="the modes differ") as found:
        testing.assert_modes_equal(sums, X, grad=False)
    text = str(found.value)
    assert "assert_modes_equal: sums: the modes differ" in text
    assert "forward: output" in text and "elements differ" in text


@pytest.mark.parametrize("name", ["json.py", "numpy.py", "random.py", "cellc.py"])
def test_modules_beside_a_case_do_not_run(folder: Path, name: str) -> None:
    """`replay` and `bisect` start Python in the current folder, whose modules are not theirs."""
    testing.record("case.cellcase", Net(), X)
    (folder / name).write_text("open('ran', 'w').close()\n")
    assert testing.replay("case.cellcase").status == 0
    assert not testing.bisect("case.cellcase").found
    assert not (folder / "ran").exists()
