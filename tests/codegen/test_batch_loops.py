"""Loops cut by rows: which are, and that not one bit changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellc as ms
import cellc_runtime
from cellc import nn
from cellc.compiled.traced import trace
from cellc_compiler import driver
from cellc_compiler.backends.cpu.machine import CpuMachine
from cellc_compiler.interpret import run
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.text import parse_graph
from cellc_compiler.lower import batch_loops, memory
from cellc_compiler.lower.batch_loops import split_batch, task_count
from cellc_compiler.lower.instructions import Call, For, Tasks, walk
from cellc_runtime.target import Target, host_targets

TARGETS = list(host_targets())
ATTRS = "sequences=1, length=400, saved=False, limited=False, stepwise=False"


def loop(body: str, rows: int = 16, width: int = 24, captures: str = "", types: str = "",
         reverse: bool = False, returns: str = "%0, %1") -> Graph:
    """400 steps over `%h` and rows of `%x`, both `rows` x `width`."""
    t = f"float32[{rows},{width}]"
    given = ", ".join(f"%{n}" for n in captures.split())
    named = "".join(f", %{n}: {ty} input" for n, ty in
                    zip(captures.split(), types.split("; "), strict=False))
    return parse_graph(f"""
graph g(%h: {t} input, %x: float32[400,{rows},{width}] input{named}) {{
  %0: {t}, %1: float32[400,{rows},{width}] = scan(%h, %x{", " + given if given else ""}) \
{{carried=1, {ATTRS}, reverse={reverse}}} [
    graph body(%h: {t} input, %r: {t} input, %i: int64[] input{named}) {{
{body}
    }}
  ]
  return {returns}
}}
""")


STEP = """      %0: float32[16,24] = matmul(%h, %w) {transpose_a=False, transpose_b=True}
      %1: float32[16,24] = add(%0, %r) {}
      %2: float32[16,24] = tanh(%1) {}
      return %2, %2"""
PRODUCT = loop(STEP, captures="w", types="float32[24,24]")
BACKWARDS = loop(STEP, captures="w", types="float32[24,24]", reverse=True)
SQUARE = loop(STEP.replace("24]", "16]"), 16, 16, "w", "float32[16,16]")
"""The weights have as many rows as the state."""
OWN_ROWS = loop("""      %0: float32[16,24] = mul(%h, %s) {}
      %1: float32[16,24] = add(%0, %r) {}
      return %1, %h""", captures="s", types="float32[16,1]")
STATISTICS = loop("""      %0: float32[16,1] = reduce_sum(%h) {axes=(1,), keepdims=True}
      %1: float32[16,24] = sub(%r, %0) {}
      %2: float32[16,24] = sigmoid(%1) {}
      return %2, %1""")
PARTS = loop("""      %0: float32[16,12] = slice(%h) {start=(0, 0), stop=(16, 12), step=None}
      %1: float32[16,12] = slice(%r) {start=(0, 12), stop=(16, 24), step=None}
      %2: float32[16,24] = join(%1, %0) {axis=1}
      %3: float32[1,24] = constant() {value=lit<float32[1,24]>[ONES]}
      %4: float32[16,24] = broadcast_to(%3) {shape=(16, 24)}
      %5: float32[16,24] = sub(%2, %4) {}
      %6: float32[16,2,12] = reshape(%5) {shape=(16, 2, 12)}
      %7: float32[16,24] = reshape(%6) {shape=(16, 24)}
      return %7, %h""".replace("ONES", ", ".join(["1.0e+00"] * 24)))
TWO_PRODUCTS = loop(STEP.replace("      return %2, %2", """\
      %3: float32[16,24] = matmul(%2, %w) {transpose_a=False, transpose_b=True}
      %4: float32[16,24] = tanh(%3) {}
      return %4, %4"""), captures="w", types="float32[24,24]")
SWAPPED = loop("""      %0: float32[16,24] = mul(%h, %r) {}
      %1: float32[16,24] = tanh(%0) {}
      return %r, %1""")
CUT = {"product": PRODUCT, "backwards": BACKWARDS, "square": SQUARE, "own-rows": OWN_ROWS,
       "statistics": STATISTICS, "parts": PARTS, "swapped": SWAPPED,
       "two-products": TWO_PRODUCTS}

MIXED = loop("""      %0: float32[1,24] = reduce_sum(%h) {axes=(0,), keepdims=True}
      %1: float32[16,24] = sub(%r, %0) {}
      return %1, %1""")
FLIPPED = loop("""      %0: float32[16,24] = flip(%h) {axes=(0,)}
      return %0, %r""")
TURNED = loop("""      %0: float32[16,16] = transpose(%h) {perm=(1, 0)}
      return %0, %r""", 16, 16)
SCORES = loop("""      %0: float32[16,16] = matmul(%h, %r) {transpose_a=False, transpose_b=True}
      return %0, %r""", 16, 16)
ODD = loop(STEP.replace("[16,", "[13,"), 13, 24, "w", "float32[24,24]")
SHORT = parse_graph("""
graph g(%h: float32[16,4] input, %x: float32[3,16,4] input) {
  %0: float32[16,4] = scan(%h, %x) {carried=1, sequences=1, length=3, saved=False,
limited=False, stepwise=False, reverse=False} [
    graph body(%h: float32[16,4] input, %r: float32[16,4] input, %i: int64[] input) {
      %0: float32[16,4] = add(%h, %r) {}
      return %0
    }
  ]
  return %0
}
""")
CHEAP = loop("""      %0: float32[16,24] = add(%h, %r) {}
      return %0, %h""")
"""Too little to do for several threads."""
WHOLE = {"cheap": CHEAP, "mixed": MIXED, "flipped": FLIPPED, "turned": TURNED, "scores": SCORES,
         "odd": ODD, "short": SHORT}


def tasks_of(graph: Graph, target: Target) -> list[Tasks]:
    lowered = driver.lower(driver.optimize(graph, target=target), target)
    return [i for i in walk(lowered.instructions) if isinstance(i, Tasks)]


def results(graph: Graph, target: Target, threads: int = 2) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(3)
    arrays = [rng.uniform(-0.2, 0.2, v.shape).astype(np.float32) for v in graph.inputs]
    cellc_runtime.set_num_threads(threads)
    return [np.array(a) for a in driver.compile_graph(graph, target)(arrays)]


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("graph", CUT.values(), ids=CUT)
def test_a_loop_cut_by_rows_gives_the_same_bits(
    graph: Graph, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tasks,) = tasks_of(graph, target)
    assert tasks.length == 4
    assert [type(i) for i in tasks.body] == [For]
    cut = [results(graph, target, threads) for threads in (1, 2, 3)]
    monkeypatch.setattr(CpuMachine, "cut", lambda self, node: None)
    assert tasks_of(graph, target) == []
    whole = results(graph, target)
    for one in cut:
        for a, b in zip(one, whole, strict=True):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("graph", CUT.values(), ids=CUT)
def test_against_the_interpreter(graph: Graph) -> None:
    rng = np.random.default_rng(3)
    arrays = [rng.uniform(-0.2, 0.2, v.shape).astype(np.float32) for v in graph.inputs]
    for a, b in zip(results(graph, TARGETS[0]), run(graph, arrays), strict=True):
        np.testing.assert_allclose(a, b, 2e-4, 2e-5)


@pytest.mark.parametrize("graph", WHOLE.values(), ids=WHOLE)
def test_loops_that_stay_whole(graph: Graph) -> None:
    assert tasks_of(graph, TARGETS[0]) == []


def test_weights_beyond_the_cache_of_a_core_are_shared_out_by_columns() -> None:
    wide = STEP.replace("24]", "640]")
    (node,) = (n for n in loop(wide, 16, 640, "w", "float32[640,640]").nodes if n.op == "scan")
    assert split_batch(node) is None
    (node,) = (n for n in loop(STEP.replace("24]", "512]"), 16, 512, "w",
                               "float32[512,512]").nodes if n.op == "scan")
    found = split_batch(node)
    assert found is not None
    assert found.batched == (True, True, False, False)


@pytest.mark.parametrize(("rows", "tasks"), [
    (1, 0), (2, 0), (3, 0), (4, 0), (7, 0), (8, 2), (9, 0), (12, 2), (16, 4), (20, 4), (24, 4),
    (32, 4), (64, 8), (96, 12), (128, 16), (130, 10), (1024, 16), (13, 0)])
def test_numbers_of_tasks(rows: int, tasks: int) -> None:
    assert task_count(rows) == tasks


def test_temporaries_of_a_task_are_its_own() -> None:
    lowered = driver.lower(driver.optimize(TWO_PRODUCTS, target=TARGETS[0]), TARGETS[0])
    memory.plan(b for b in lowered.buffers if b.first >= 0)
    (tasks,) = (i for i in walk(lowered.instructions) if isinstance(i, Tasks))
    frames = {p.base.frame for i in walk(tasks.body) if isinstance(i, Call) for p in i.places
              if isinstance(p.base, memory.Buffer) and p.base.frame is not None}
    (frame,) = frames
    assert frame is not None
    assert frame.number == tasks.number
    assert frame.whole in lowered.buffers
    assert frame.whole.nbytes == tasks.length * frame.nbytes
    assert all(b.offset + b.nbytes <= frame.nbytes for b in frame.locals)
    packed = {p.base for i in walk(tasks.body) if isinstance(i, Call) for p in i.places
              if isinstance(p.base, memory.Buffer) and p.base.name.startswith("packed")}
    assert packed  # weights are packed once, for all tasks
    assert all(b.frame is None for b in packed)


class Sequence(nn.Cell):
    """A recurrent layer and a projection."""

    def __init__(self, kind: str, **options: Any) -> None:
        super().__init__()
        self.layer = getattr(nn, kind)(12, 64, batch_first=True, **options)
        self.head = nn.Dense(128 if options.get("bidirectional") else 64, 3)

    def construct(self, x, length):
        out, _ = self.layer(x, None, length)
        return self.head(out).sum()


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("options", [
    {}, {"num_layers": 2, "bidirectional": True}], ids=["plain", "deep"])
@pytest.mark.parametrize("lengths", [False, True], ids=["full", "lengths"])
def test_recurrent_layers_and_their_gradients_in_both_modes(
    kind: str, options: dict[str, Any], lengths: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ms.set_seed(1)
    net = Sequence(kind, **options)
    rng = np.random.default_rng(0)
    x = ms.Tensor(rng.standard_normal((8, 30, 12)).astype(np.float32))
    length = ms.Tensor(rng.integers(1, 31, 8).astype(np.int32)) if lengths else None
    graph = trace(net, (x, length), {}).graph
    assert tasks_of(graph, TARGETS[0])

    def step() -> list[Any]:
        grad = ms.value_and_grad(net, 0, net.trainable_params())
        value, (dx, dw) = grad(x, length)
        return [t.asnumpy() for t in (value, dx, *dw)]

    both = []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        both.append(step())
    monkeypatch.setattr(batch_loops, "LEAST_CYCLES", 1e30)
    assert tasks_of(graph, TARGETS[0]) == []
    monkeypatch.setattr(driver, "source_stamp", lambda: "another compiler")  # another program
    both.append(run_whole(net, x, length))
    for other in both[1:]:
        for a, b in zip(both[0], other, strict=True):
            assert a.tobytes() == b.tobytes()


def run_whole(net: nn.Cell, x: ms.Tensor, length: ms.Tensor | None) -> list[Any]:
    """The same by a function compiled anew, with its loops in one piece."""

    @ms.jit
    def step(x, length):
        return ms.value_and_grad(net, 0, net.trainable_params())(x, length)

    value, (dx, dw) = step(x, length)
    return [t.asnumpy() for t in (value, dx, *dw)]


def test_a_profile_of_a_loop_cut_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    net = Sequence("LSTM")
    x = ms.Tensor(np.ones((8, 30, 12), np.float32))
    found = ms.profile(net, x, None)
    apart = [s for s in found.sites if s.apart]
    assert apart
    inside = sum(r.seconds for r in found.rows())
    assert 0 < inside < 2 * max(found.seconds)
