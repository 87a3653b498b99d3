"""Programs for all sizes: their bits are those of programs for known sizes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc.compiled import dynamic, program_entry, traced
from cellc_compiler import driver, open_sizes
from cellc_compiler.ir.dims import SymbolInfo, Undecided, deciding, estimate
from cellc_compiler.ir.dims import evaluate as value_of
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.op import Op, all_ops
from cellc_compiler.ir.shapes import Shapes
from cellc_compiler.passes.instantiate import instantiate
from cellc_runtime import dtypes
from cellc_runtime import open_sizes as runtime_sizes
from cellc_runtime.errors import ArtifactError
from cellc_runtime.executable import Executable
from cellc_runtime.program import Program
from cellc_runtime.records import replace

from ..ops.test_matrix import Case, cases, type_of

PER_SIZE = {
    "conv2d_backward_data": "channels and windows are open",
    "conv2d_backward_weight": "as conv2d_backward_data",
    "conv2d_blocked": "as conv2d_backward_data",
    "custom_kernel": "users' own kernels know their sizes",
    "dequantized_matmul": "the length of its sums is that of a weight, which is known",
}
"""Ops whose code is made per size where all their sizes are open. May only shrink."""
WITH_CHANNELS = ("conv2d", "to_blocked", "group_norm")
"""Ops whose channels, which weights have too, are known."""

Sizes = Mapping[str, int]


# --- ops ------------------------------------------------------------------------------------------


def opened(case: Case) -> tuple[Graph, Shapes]:
    """The graph of a case with a symbol for each different size."""
    shapes, table = Shapes(), {}
    graph = Graph(case.op.name)
    known: set[int] = set()
    if case.op.name in WITH_CHANNELS:
        known = {case.arrays[0].shape[1], *(d for a in case.arrays[1:] for d in a.shape)}
    with deciding(shapes):
        values = []
        for i, a in enumerate(case.arrays):
            ty = type_of(a)
            for d in ty.dims:
                if d >= open_sizes.LEAST and d not in table and d not in known:
                    table[d] = shapes.new(f"s{d}", d, SymbolInfo(open_sizes.LEAST))
            values.append(graph.add_input(ty.with_shape(table.get(d, d) for d in ty.dims), f"x{i}"))
        graph.outputs = list(Builder(graph).node(case.op.name, values, case.attrs).results)
    return graph, shapes


def sizes_of(shapes: Shapes, more: int) -> dict[str, int] | None:
    """Each size as in the case and so much more; None if the graph does not allow that."""
    sizes = {s: n + more for s, n in shapes.hints.items()}
    sizes.update({s: value_of(x, sizes) for s, x in shapes.equal.items()})
    return sizes if all(g.holds(sizes) for g in shapes.guards) else None


def call(program: Program, arrays: Sequence[Any]) -> list[bytes]:
    """The bytes of what a program gives."""
    return [np.asarray(a).tobytes() for a in Executable(program).call(arrays)]


@pytest.mark.parametrize("op", [op for op in all_ops() if op.samples() and not op.collective],
                         ids=lambda op: op.name)
def test_ops(op: Op) -> None:
    """The first sample of an op, with all its sizes open: the same code at several sizes."""
    case = next(cases(op, (dtypes.float32, dtypes.int32, dtypes.bool_, *dtypes.ALL)))
    graph, shapes = opened(case)
    if not set(shapes.symbols) - set(shapes.equal):
        return
    if op.name in PER_SIZE:
        with pytest.raises(Undecided, match=r"size|known|code|table"):
            open_sizes.compile_open(graph, shapes)
        return
    program = open_sizes.compile_open(graph, shapes)
    program = Program.from_bytes(program.to_bytes())
    assert program.open is not None
    for more in (0, 1, 40):
        sizes = sizes_of(shapes, more)
        if sizes is None or program.open.refusal(sizes):
            continue
        try:
            known = driver.compile_program(instantiate(graph, sizes))
        except ValueError:
            continue  # an attribute belongs to the sizes of the case
        arrays = [np.resize(a, [value_of(d, sizes) for d in v.shape])
                  for a, v in zip(case.arrays, graph.inputs, strict=True)]
        assert call(program.at(sizes), arrays) == call(known, arrays), (str(case), sizes)


# --- networks -------------------------------------------------------------------------------------


class Perceptron(nn.Cell):
    """Two dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Dense(40, 64), nn.Dense(64, 10)

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        return self.b(ops.relu(self.a(x)))


class Block(nn.Cell):
    """A layer of a transformer: products along open sizes, softmax over one."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Dense(32, 32) for _ in range(4))
        self.norm = nn.LayerNorm((32,))

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        b, s, d = x.shape
        q, k, v = (f(self.norm(x)).reshape(b, s, 2, d // 2).transpose(0, 2, 1, 3)
                   for f in (self.q, self.k, self.v))
        weights = ops.softmax(ops.matmul(q, k.transpose(0, 1, 3, 2)) * 0.25, -1)
        return x + self.o(ops.matmul(weights, v).transpose(0, 2, 1, 3).reshape(b, s, d))


class Pictures(nn.Cell):
    """Convolutions, a depthwise one, pools and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(3, 16, 3, stride=2), nn.Conv2d(16, 16, 3, group=16)
        self.norm, self.pool = nn.BatchNorm2d(16), nn.MaxPool2d(2, 2)
        self.out = nn.Dense(16, 10)

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        x = ops.relu(self.norm(self.c1(x)))
        return self.out(self.pool(x + self.c2(x)).mean((2, 3)))


def loss_of(net: nn.Cell) -> Callable[[ms.Tensor, ms.Tensor], Any]:
    """Loss and gradients of a classifier."""
    criterion = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    weights = ms.ParameterTuple(net.trainable_params())

    def loss(x: ms.Tensor, y: ms.Tensor) -> ms.Tensor:
        return criterion(net(x), y)

    return lambda x, y: ms.value_and_grad(loss, None, weights)(x, y)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def labels(n: int) -> np.ndarray[Any, Any]:
    return (np.arange(n) % 10).astype(np.int32)


class Served:
    """A call traced and compiled with open sizes."""

    def __init__(self, fn: Any, arrays: Sequence[Any], axes: Mapping[int, Any]) -> None:
        tensors = [ms.Tensor(a) for a in arrays]
        self.pattern = dynamic.make_pattern(
            [t._type for t in tensors], [f"x{i}" for i in range(len(tensors))], axes, True)
        self.traced = traced.trace(fn, tensors, {}, self.pattern.types, self.pattern.shapes)
        self.program = open_sizes.compile_open(self.traced.graph, self.pattern.shapes)

    def sizes(self, arrays: Sequence[Any]) -> dict[str, int]:
        return self.pattern.bind([ms.Tensor(a)._type for a in arrays])

    def run(self, program: Program, arrays: Sequence[Any]) -> list[bytes]:
        """Outputs, then what became of the parameters."""
        executable = Executable(program)
        executable.bind([np.array(p.asnumpy()) for p in self.traced.parameters])
        out = executable.call(arrays)
        return [np.asarray(a).tobytes() for a in (*out, *executable.params)]

    def same(self, arrays: Sequence[Any], program: Program | None = None) -> bool:
        """Whether the program and one for these sizes alone give the same bits."""
        sizes = self.sizes(arrays)
        known = driver.compile_program(instantiate(self.traced.graph, sizes))
        return self.run((program or self.program).at(sizes), arrays) == self.run(known, arrays)


def test_any_batch() -> None:
    served = Served(Perceptron(), [floats(32, 40)], {0: (None, 40)})
    assert served.program.open is not None and not served.program.open.guards
    for n in (2, 3, 31, 64, 500):
        assert served.same([floats(n, 40)])


def test_any_batch_of_a_training_step() -> None:
    served = Served(loss_of(Perceptron()), [floats(32, 40), labels(32)],
                    {0: (None, 40), 1: (None,)})
    for n in (2, 15, 31, 33, 200):
        assert served.same([floats(n, 40), labels(n)])


def test_any_batch_and_length() -> None:
    served = Served(Block(), [floats(2, 20, 32)], {0: (None, None, 32)})
    for b, s in ((2, 2), (3, 15), (2, 16), (2, 31), (4, 33), (2, 70), (2, 130), (2, 400)):
        assert served.same([floats(b, s, 32)]), (b, s)


@pytest.mark.parametrize("training", [False, True])
def test_any_batch_of_pictures(training: bool) -> None:
    net = Pictures().set_train(training)
    fn = loss_of(net) if training else net
    arrays = lambda n: [floats(n, 3, 20, 20), *([labels(n)] if training else [])]  # noqa: E731
    served = Served(fn, arrays(8), {0: (None, 3, 20, 20), 1: (None,)} if training
                    else {0: (None, 3, 20, 20)})
    for n in (2, 3, 7, 17):
        assert served.same(arrays(n)), n


def test_sizes_it_does_not_serve() -> None:
    program = Served(Block(), [floats(2, 20, 32)], {0: (2, None, 32)}).program
    for n in (0, 1, -5, 70_000, 1 << 40):
        with pytest.raises(ValueError, match=r"x0_1"):
            program.at({"x0_1": n})
    with pytest.raises(ValueError, match="open sizes"):
        Executable(program)


def test_temporaries_larger_than_memory() -> None:
    program = Served(Perceptron(), [floats(32, 40)], {0: (None, 40)}).program
    with pytest.raises((ValueError, ArtifactError), match="bytes"):
        program.at({"x0_0": 1 << 44})


# --- planted faults -------------------------------------------------------------------------------


def planted(program: Program, **changes: Any) -> Program:
    """The program with a fault in how it follows from sizes."""
    assert program.open is not None
    return replace(program, open=replace(program.open, **changes))


def test_a_fault_in_a_size_is_found() -> None:
    """The rows after the last whole tile of a product."""
    served = Served(Perceptron(), [floats(32, 40)], {0: (None, 40)})
    table = tuple(0 if len(x) > 2 and "//" in json.dumps(x) else x
                  for x in served.program.open.table)  # type: ignore[union-attr]
    assert table != served.program.open.table  # type: ignore[union-attr]
    assert not served.same([floats(31, 40)], planted(served.program, table=table))


def test_a_fault_in_the_plan_of_temporaries_is_found() -> None:
    served = Served(Block(), [floats(2, 20, 32)], {0: (2, None, 32)})
    arena = served.program.open.arena  # type: ignore[union-attr]
    flat = replace(arena, below=((),) * len(arena.below))
    assert not served.same([floats(2, 33, 32)], planted(served.program, arena=flat))


def test_a_fault_in_the_order_of_a_sum_is_found() -> None:
    """A product along an open size has as many segments as a known size gives it."""
    served = Served(lambda x: ops.matmul(x.T, x), [floats(300, 8)], {0: (None, 8)})
    assert served.same([floats(500, 8)])
    table = tuple(("sum", (1, "x0_0")) if "choose" in json.dumps(x) else x
                  for x in served.program.open.table)  # type: ignore[union-attr]
    assert table != served.program.open.table  # type: ignore[union-attr]
    assert not served.same([floats(500, 8)], planted(served.program, table=table))


def test_a_guard_that_is_missing_is_found() -> None:
    """Rows that are longer than a guard says are summed in another order."""
    served = Served(lambda x: x.sum(-1), [floats(9, 300)], {0: (9, None)})
    arrays = [floats(9, 70_000)]
    assert served.program.open.refusal(served.sizes(arrays))  # type: ignore[union-attr]
    assert not served.same(arrays, planted(served.program, guards=()))


# --- files ----------------------------------------------------------------------------------------


DAMAGES: list[Callable[[Any], object]] = [
    lambda o: o.pop("table"),
    lambda o: o["table"][1].append(["sum", [1, "nobody"]]),
    lambda o: o["table"].__setitem__(0, -8),
    lambda o: o["guards"].append([">>", 0]),
    lambda o: o["shapes"].pop(),
    lambda o: o["shapes"][0].append(3),
    lambda o: o["plans"][0][2].append([9]),
    lambda o: o["plans"][0][2].__setitem__(0, [0]),
    lambda o: o["symbols"].__setitem__("x", [2]),
    lambda o: o["table"][1].__setitem__(0, ["**", 9, ["**", 9, 9]]) or o["table"][1].append(
        ["+", 1e300, 1]),
    lambda o: o["table"][1].__setitem__(0, nested(200)),
    lambda o: o["scalars"].append([1 << 40, "float32", 1.0]),
    lambda o: o["messages"].append([[0, []]]),
]


def nested(depth: int) -> Any:
    """A number as deep."""
    x: Any = 1
    for _ in range(depth):
        x = ["+", x, 1.0]
    return x


@pytest.mark.parametrize("number", range(len(DAMAGES)))
def test_damaged_open_sizes(number: int) -> None:
    program = Served(Perceptron(), [floats(32, 40)], {0: (None, 40)}).program
    data = json.loads(json.dumps(runtime_sizes.to_json(program.open)))  # type: ignore[arg-type]
    assert replace(program, open=runtime_sizes.from_json(data)).open == program.open
    DAMAGES[number](data)
    with pytest.raises((ArtifactError, ValueError, TypeError, KeyError), match=r"\w"):
        replace(program, open=runtime_sizes.from_json(data))


# --- graph mode -----------------------------------------------------------------------------------


def test_the_second_size_is_the_last_that_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    net, compiled = Block(), []
    original, original_open = program_entry.compile_program, open_sizes.compile_open
    monkeypatch.setattr(program_entry, "compile_program",
                        lambda *a, **k: compiled.append("fixed") or original(*a, **k))
    monkeypatch.setattr(dynamic.open_sizes, "compile_open",
                        lambda *a, **k: compiled.append("open") or original_open(*a, **k))
    ms.set_context(mode=ms.GRAPH_MODE)
    for b, s in ((2, 20), (3, 31), (4, 5), (7, 100), (2, 64)):
        x = ms.Tensor(floats(b, s, 32))
        got = net(x).asnumpy()
        ms.set_context(mode=ms.PYNATIVE_MODE)
        want = net(x).asnumpy()
        ms.set_context(mode=ms.GRAPH_MODE)
        assert got.tobytes() == want.tobytes(), (b, s)
    assert compiled == ["fixed", "open"]


def test_estimates_assume_nothing() -> None:
    shapes = Shapes(general=True)
    n = shapes.new("n", 7, SymbolInfo(2))
    with deciding(shapes):
        assert estimate(n * 2 + 1) == 15 and not shapes.guards
        assert n != 7 and n % 7 and not shapes.guards
        assert n > 5 and len(shapes.guards) == 1
