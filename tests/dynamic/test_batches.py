"""A few programs that serve batches of any size: which networks they can be for, and the bits."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cellc as ms
from cellc import Tensor, nn, ops
from cellc.cli import main
from cellc.compiled import dynamic
from cellc.compiled.traced import Traced, trace
from cellc_compiler.driver import compile_program
from cellc_compiler.ir.graph import Graph
from cellc_compiler.passes.batch_axis import NotBatchIndependent, batch_sizes
from cellc_compiler.passes.instantiate import graph_symbols, instantiate
from cellc_runtime import artifact
from cellc_runtime.batched import Batched, windows
from cellc_runtime.executable import Executable

from ..c_library.library import CLibrary, Failed
from .networks import Block, Cnn, Lstm, Mlp, floats, numbers

SIZES = (0, 1, 2, 3, 7, 9, 33, 71)


def traced(net: Any, *inputs: Tensor) -> Traced:
    """A network with an open batch."""
    types = [x._type for x in inputs]
    axes: dict[int, Any] = {i: (None, *t.dims[1:]) for i, t in enumerate(types)}
    n = ms.Symbol(unique=True)
    axes = {i: (n, *a[1:]) for i, a in axes.items()}
    pattern = dynamic.make_pattern(types, [f"x{i}" for i in range(len(types))], axes, True)
    made = trace(net, inputs, {}, pattern.types, pattern.shapes)
    assert made.guards == []
    return made


def batched(made: Traced) -> Batched:
    """The programs for some sizes, together."""
    (symbol,) = graph_symbols(made.graph)
    executables = {}
    for n in batch_sizes(made.graph):
        executables[n] = Executable(compile_program(instantiate(made.graph, {symbol: n})))
        executables[n].bind([p._data for p in made.parameters])
    return Batched(executables, range(made.arguments))


class Mixed(nn.Cell):
    """Many ops that leave rows apart."""

    def __init__(self) -> None:
        super().__init__()
        self.table = ms.Parameter(floats(9, 6), name="table")

    def construct(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        a = ops.concat([x, y[:, ::-1]], 1).transpose(1, 0)
        b = ops.softmax(a.T.reshape(-1, 3, 4), 1).sum(2)
        i = ops.argmax(x, 1) % 9
        c = self.table[i] * ops.one_hot(i, 6, Tensor(1.0), Tensor(0.0))
        d = ops.sort(x, 1)[0] + ops.cumsum(y, 1) + ops.arange(6).astype(ms.float32)
        e = ops.matmul(x.expand_dims(1), y.expand_dims(2)).squeeze(1)
        return b, c, d, e, ops.ones_like(x) + ops.zeros((x.shape[0], 1)), ops.amax(x, 1)


CASES: dict[str, tuple[Callable[[], nn.Cell], Callable[[int], Sequence[Tensor]]]] = {
    "mlp": (Mlp, lambda n: [floats(n, 20)]),
    "cnn": (Cnn, lambda n: [floats(n, 3, 9, 9)]),
    "lstm": (Lstm, lambda n: [floats(n, 7, 6)]),
    "block": (Block, lambda n: [numbers(n, 13)]),
    "mixed": (Mixed, lambda n: [floats(n, 6), floats(n, 6) * 2]),
}


@pytest.mark.parametrize("name", ["mlp", "cnn", "block", "mixed"])
def test_bits(name: str) -> None:
    make, inputs = CASES[name]
    net = make().set_train(False)
    made = traced(net, *inputs(4))
    run = batched(made)
    assert run.sizes == (1, 2, 8, 32)
    for n in SIZES:
        got = run.call([x._data for x in inputs(n)])
        want = net(*inputs(n)) if n else None
        for a, b in zip(got, want if isinstance(want, tuple) else [want], strict=n > 0):
            assert a.shape[0] == n
            if n:
                np.testing.assert_array_equal(a, b.asnumpy())


def test_state_beside_the_batch_is_refused() -> None:
    """The last state of an LSTM has the batch as its second axis."""
    with pytest.raises(NotBatchIndependent, match=r"output 1 .* its first axis is not the batch"):
        batch_sizes(traced(Lstm(), floats(4, 7, 6)).graph)


def graph(fn: Callable[..., Any], *inputs: Tensor) -> Graph:
    return traced(fn, *inputs).graph


REFUSED: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "mean over the batch": (lambda x: x - x.mean(0), "reduce_sum"),
    "running sum": (lambda x: ops.cumsum(x, 0), "cumsum"),
    "reversed": (lambda x: x[::-1], "slice|flip"),
    "shifted": (lambda x: x[1:], "slice"),
    "product along the batch": (lambda x: ops.matmul(x.T, x), "matmul"),
    "all pairs": (lambda x: ops.matmul(x, x.T), "matmul"),
    "numbered": (lambda x: x + ops.arange(x.shape[0]).expand_dims(1), "iota"),
    "sorted": (lambda x: ops.sort(x, 0)[0], "sort_lines"),
    "grouped": (lambda x: x.reshape(-1), "first axis is not the batch"),
    "transposed result": (lambda x: x.T, "first axis is not the batch"),
    "joined": (lambda x: ops.concat([x, x], 0), "join|concat"),
    "one row": (lambda x: x + x[0], "slice"),
    "scaled by the size": (lambda x: x / x.shape[0], "depends on the size of the batch"),
    "as wide as long": (lambda x: ops.pad(x, (0, x.shape[0])), "depends on the size|pad"),
    "positions of another length": (lambda x: x.sum(1, keepdims=True) + ops.arange(
        x.shape[0] + 3).astype(ms.float32), "depends on the size"),
    "mask of pairs": (lambda x: ops.tril(x), "tril"),
    "dropout": (lambda x: ops.dropout(x, 0.5), "the network writes|random"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_mixes_rows_is_refused(name: str) -> None:
    fn, words = REFUSED[name]
    with pytest.raises(NotBatchIndependent, match=words):
        batch_sizes(graph(fn, floats(4, 6)))


def test_a_table_of_rows_is_no_batch() -> None:
    """The batch that a graph is analysed for fits no table of 64 rows; that is no error."""
    table = floats(64, 6)
    net = ms.jit(input_signature=Tensor(shape=[None, 6], dtype=ms.float32))(
        lambda x: x * 2 + table[: x.shape[0]])
    for n in (3, 4, 5, 6, 7, 33):  # graph mode looks for programs for all sizes after a few
        x = floats(n, 6)
        np.testing.assert_array_equal(net(x).asnumpy(), (x * 2 + table[:n]).asnumpy())


def test_long_reductions_are_the_same_in_any_batch() -> None:
    run = batched(traced(lambda x: x.sum(1), floats(2, 70000)))
    for n in (1, 3, 7, 9, 17):
        x = floats(n, 70000)
        np.testing.assert_array_equal(run(x._data), x.sum(1).asnumpy())


@settings(max_examples=200, deadline=None)
@given(st.integers(2, 500), st.sampled_from([(1, 2), (1, 2, 8, 32), (1, 2, 3, 4, 5, 6, 7, 8, 32)]))
def test_windows_cover_all_rows_and_stay_inside(n: int, sizes: tuple[int, ...]) -> None:
    found = windows(n, sizes)
    covered = {i for start, size in found for i in range(start, start + size)}
    assert covered == set(range(n))
    least = 8 if len(sizes) == 9 else 2
    assert n in sizes or all(size in sizes and size >= least for _, size in found)
    assert sum(size for _, size in found) <= n + max(s for s in sizes if s <= n)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An artifact of a network for any batch, made by the command line."""
    source = Path(__file__).parent / "networks.py"
    path = tmp_path / "mlp.cellc"
    command = ["compile", f"{source}:Mlp", "--input", "x=float32[N,20]", "-o", str(path)]
    assert main(command) == 0
    return path


def test_artifact_for_any_batch(file: Path) -> None:
    with pytest.raises(PermissionError, match="trust_native_code=True"):
        artifact.load(file)(np.zeros((3, 20), np.float32))
    loaded = artifact.load(file, trust_native_code=True)
    assert loaded.signature().inputs == (("x", "float32", (-1, 20)),)
    assert "float32[N,20]" in loaded.graph_text()
    net = Mlp()
    for p in net.get_parameters():
        p.set_data(Tensor(np.array(loaded.weights[p.name])))
    for n in (1, 3, 40):
        x = floats(n, 20)
        np.testing.assert_array_equal(loaded(x._data), net(x).asnumpy())
    assert loaded(np.zeros((0, 20), np.float32)).shape == (0, 10)
    for bad, error in ((np.zeros((3, 21), np.float32), ValueError), (np.zeros(20), ValueError),
                       (np.full((3, 20), 0.1), TypeError), (None, TypeError)):
        with pytest.raises(error, match=r"'x' must be float32\[N, 20\], but got "):
            loaded(bad)
    assert str(loaded.sizes()) == "N any"
    with pytest.raises(TypeError, match="got 2 arguments"):
        loaded(np.zeros((3, 20), np.float32), np.zeros((3, 20), np.float32))


@pytest.mark.parametrize(("change", "words"), [
    ({"sizes": [["N"], [[0, 0, 0]], [[[-1], [[1, -1]], [2, 1], 0]]]}, "malformed"),
    ({"sizes": []}, "malformed"), ({"sizes": None}, "malformed"),
    ({"sizes": [["N"], [[7, 0, 0]], [[[-1], [[1, -1]], [1], 0]]]}, "malformed"),
    ({"sizes": [["N"], [[0, 0, 0]], [[[-1], [[1, -1]], [1, 2, 3], 0]]]}, "program:infer|malformed"),
    ({"sizes": [["N"], [[0, 0, 0]], [[[-1], [[1, -1]], [1], 1]]]}, "malformed"),
    ({"graphs": 2}, "malformed"), ({"graphs": -1}, "malformed"), ({"graphs": "1"}, "malformed"),
    ({"inputs": [["x", "float32", [3, 20]]]}, "malformed"),
])
def test_damaged_headers_are_refused(
    change: dict[str, Any], words: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = artifact.unpack(file.read_bytes(), artifact.MAGIC, artifact.VERSION, "artifact")
    meta = json.loads(json.dumps(dict(box.meta)))
    meta["entries"]["infer"].update(change)
    object.__setattr__(box, "meta", meta)
    with pytest.raises(artifact.ArtifactError, match=words):
        artifact._File(box)


@pytest.mark.parametrize(("source", "spec", "words"), [
    ("class Net(ms.nn.Cell):\n    def construct(self, x):\n"
     "        return x * len('a' * x[x > 0].shape[0])\n", "x=float32[N,4]",
     "an artifact has one program for all"),
])
def test_networks_without_an_artifact_for_any_batch(
    source: str, spec: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "net.py"
    path.write_text("import cellc as ms\n" + source)
    code = main(["compile", f"{path}:Net", "--input", spec, "-o", str(tmp_path / "a.cellc")])
    assert code != 0
    assert re.search(words, capsys.readouterr().err)


def test_few_sizes_whose_results_have_no_batch(tmp_path: Path) -> None:
    """A result that sums over the batch is not put together from rows: each size that is served
    has a program of its own."""
    path = tmp_path / "net.py"
    path.write_text("""
import numpy as np
import cellc as ms
from cellc import nn, ops

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.kept = ms.Parameter(np.zeros((8, 3), np.float32), name="kept", requires_grad=False)

    def construct(self, x):
        ops.assign(self.kept, x * 2)
        return self.kept.sum(0), x + 1
""")
    for suffix in ("cellc", "so"):
        out = tmp_path / f"libnet.{suffix}"
        option = "-o" if suffix == "cellc" else "--shared"
        assert main(["compile", f"{path}:Net", "--input", "x=float32[N,3]", option, str(out)]) == 0
    net = artifact.load(tmp_path / "libnet.cellc", trust_native_code=True)
    assert str(net.sizes()) == "N 1, 8"
    with CLibrary(tmp_path / "libnet.so").session() as session:
        for n in (8, 1, 8):
            x = np.arange(n * 3, dtype=np.float32).reshape(n, 3)
            want = (x * 2).sum(0) * (8 // n)
            given = [np.empty(3, np.float32), np.empty((n, 3), np.float32)]
            for got in (net(x), net(x, out=given), session.run("infer", x)):
                np.testing.assert_array_equal(got[0], want)
                np.testing.assert_array_equal(got[1], x + 1)
        x = np.zeros((3, 3), np.float32)
        with pytest.raises(ValueError, match="no program serves N = 3; served: N 1, 8"):
            net(x)
        with pytest.raises(Failed, match="For 'infer', the sizes must be N 1, 8, but got N = 3"):
            session.run("infer", x)
