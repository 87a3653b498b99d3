"""Attributes from a file that somebody made: of every op, each number in turn far too large, of the
wrong kind, or not there. The verifier answers at once, without memory, whatever the answer is."""

from __future__ import annotations

import signal
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, ops
from cellc_compiler.ir import attributes as attr_module
from cellc_compiler.ir.dims import Dim, Ratio, evaluate_number
from cellc_compiler.ir.graph import Builder, Graph, Literal, Node
from cellc_compiler.ir.op import Op, Sample, all_ops
from cellc_compiler.ir.types import TensorType
from cellc_compiler.ir.verify import VerifyError, untrusted_graph, verify
from cellc_runtime import dtypes, portable
from cellc_runtime.errors import ArtifactError

HOSTILE: tuple[Any, ...] = (
    1 << 31, -(1 << 31), 1 << 62, 10**30, 0, -1, float("nan"), "x", None, (), (1 << 40,) * 3, True,
)
SECONDS, BYTES = 5.0, 8 << 20
Path = tuple[int, ...]


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    """The places of an attribute's value, of tuples and of what is in them."""
    yield path
    if isinstance(value, tuple):
        for i, part in enumerate(value):
            yield from leaves(part, (*path, i))


def put(value: Any, path: Path, new: Any) -> Any:
    """The value with another one at a place."""
    if not path:
        return new
    return (*value[: path[0]], put(value[path[0]], path[1:], new), *value[path[0] + 1 :])


def one_node(op: Op, sample: Sample) -> tuple[Graph, Node]:
    """A graph of the op on a sample."""
    graph = Graph("g")
    values = []
    for i, given in enumerate(sample.operands):
        dtype = dtypes.from_numpy(given.dtype) if isinstance(given, np.ndarray) else \
            given.dtype or op.dtypes[0]
        values.append(graph.add_input(TensorType(tuple(given.shape), dtype), f"x{i}"))
    node = Builder(graph).node(op.name, values, sample.attrs)
    graph.outputs = list(node.results)
    return graph, node


@pytest.fixture
def in_time() -> Iterator[None]:
    """A verification that takes too long is an error at its line (a counted size takes minutes, a
    busy machine's collection of garbage half a second)."""
    def late(signum: int, frame: Any) -> None:
        raise TimeoutError("the verifier counts along an attribute")

    before = signal.signal(signal.SIGALRM, late)
    tracemalloc.start()
    yield
    tracemalloc.stop()
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_every_attribute_of_every_op_is_bounded(in_time: None) -> None:
    refused = met = 0
    for op in all_ops():
        for sample in op.samples()[:1]:
            graph, node = one_node(op, sample)
            for name, value in dict(node.attrs).items():
                for path in leaves(value):
                    for new in HOSTILE:
                        node.attrs[name] = put(value, path, new)
                        refused += hostile(graph, f"{op.name} {name}{list(path)} {new!r}")
                        met += 1
                node.attrs[name] = value
            verify(graph)
    assert met > 4000 and refused > met / 2


def hostile(graph: Graph, what: str) -> bool:
    """Whether the verifier refuses the graph, in time and within memory."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        verify(graph)
        refused = False
    except VerifyError:
        refused = True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    assert tracemalloc.get_traced_memory()[1] - before < BYTES, what
    return refused


POOL = """graph g(%x: float32[1,1,8,8] input) {
  %0: float32[1,1,8,8] = avg_pool2d(%x) {kernel=(1, 1), stride=(1, 1), pads=(0, 0, 0, PADS), \
ceil_mode=False, count_include_pad=True, divisor=None}
  return %0
}"""


def size_of(expression: str) -> str:
    """A graph with an input of this size."""
    return f"graph g(%x: float32[{expression}] input) {{ return %x }}"


@pytest.mark.parametrize(("text", "says"), [
    (POOL.replace("PADS", str(1 << 31)), "'pads' must be .* each an int from 0 to 65536, but got"),
    (POOL.replace("PADS", "(" * 50 + "1" + ",)" * 50), "each an int from 0 to 65536"),
    (POOL.replace("PADS", "9" * 4000), r"but got \(0, 0, 0, 999.*\.\.\.\."),
    ("graph g(%x: float32[1099511627776,1099511627776] input) { return %x }", "more than 128 TiB"),
    ("graph g(%x: float32[] input) { %0: float32[4611686018427387904] = broadcast_to(%x) "
     "{shape=(4611686018427387904,)} return %0 }", "a result of broadcast_to would be a tensor"),
    (POOL.replace("PADS", "0").replace("=False", "=1099511627776"),
     "For 'avg_pool2d', 'ceil_mode' must be a bool, but got 1099511627776"),
    (POOL.replace("PADS", "0").replace("(1, 1)", "(True, 1)", 1), "'kernel' must be a tuple"),
    (size_of("9**9**9"), "the expression of a size must have at most"),
    (size_of("*".join(["(a+b+c+d+1)"] * 40)), "the expression of a size must have at most"),
    (size_of("(((a**8)**8)**8)**8"), "the expression of a size must have at most"),
    (size_of("a*" * 8000 + "a"), "the expression of a size must have at most|is no size"),
    (size_of("(" * 300 + "a" + ")" * 300), "is no size"),
    (size_of("a+" * 9000 + "a"), "the text of a size must have at most 16384 characters"),
    (size_of("a//0"), "is no size"),
    ("graph g() { %0: int8[] = constant() {value=lit<int8[0,n]>[]} return %0 }", "not known"),
    (f"graph g(%x: float32[{'1,' * 65}] input) {{ return %x }}", "65 axes, which is more than 64"),
    ("graph g(%x: float32[8] input) { %0: float32[-1] = reshape(%x) {shape=(-1,)} return %0 }",
     "malformed"),
])
def test_texts(text: str, says: str, in_time: None) -> None:
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    with pytest.raises(ArtifactError, match=says):
        untrusted_graph(text, "it")


def test_every_declaration_refuses_other_types() -> None:
    values: tuple[Any, ...] = (True, 1, 1.5, 1j, "x", None, (None,), dtypes.float32, b"x",
                               Literal(np.zeros(1)))
    for op in all_ops():
        for name, attr in op.attrs.items():
            assert attr.default is attr_module.REQUIRED or attr.test(attr.default), (op.name, name)
            taken = [v for v in values if attr.test(v)]
            assert all(type(v) in attr.types for v in taken), (op.name, name, taken)
            with pytest.raises(TypeError, match=f"For '{op.name}', '{name}' must be "):
                attr_module.check_attributes(op.name, {name: b"x"}, op.attrs)


def test_a_power_of_sizes_is_bounded() -> None:
    power = Ratio("**", Dim.symbol("n"), 1 << 40)
    with pytest.raises(ValueError, match="the expression of a size must have at most"):
        evaluate_number(power, {"n": 10})
    assert evaluate_number(power, {"n": 1}) == 1


def test_a_resealed_file(tmp_path: Any) -> None:
    """All hashes of the file are right."""
    file = str(tmp_path / "net.cir")

    class Net(ms.nn.Cell):
        def construct(self, x: Tensor) -> Tensor:
            return ops.max_pool2d(x, 2, 1)

    ms.export(Net(), Tensor(np.ones((1, 1, 8, 8), np.float32)), file_name=file,
              file_format="CIR")
    network = portable.load(file)
    assert "pads=(0, 0, 0, 0)" in network.graph
    text = network.graph.replace("pads=(0, 0, 0, 0)", f"pads=(0, 0, 0, {1 << 31})")
    portable.save(file, portable.Network(text, network.weights, network.meta))
    start = time.perf_counter()
    with pytest.raises(RuntimeError, match="For 'max_pool2d', 'pads' must be"):
        ms.load(file)
    assert time.perf_counter() - start < SECONDS
