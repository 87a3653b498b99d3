"""Updates of parameters: one kernel per formula whatever the shapes, one call for small ones."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import cellc as ms
import cellc_runtime
from cellc import nn, ops
from cellc.compiled.traced import trace
from cellc_compiler import driver
from cellc_compiler.backends.cpu.nests.flat import flat, many
from cellc_compiler.interpret import run
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.text import parse_graph
from cellc_compiler.lower.instructions import Call, walk
from cellc_runtime.target import Target, host_targets

from .jit import compile_kernel
from .plans import guarded

TARGETS = list(host_targets())
SIZES = (2, 15, 16, 17, 31, 63, 64, 65, 300, 4097, 9000)


def updates(*shapes: tuple[int, ...], more: str = "", returns: str = "%r") -> Graph:
    """Steps of momentum for parameters of these shapes, one learning rate for all."""
    inputs, nodes, ends = ["%r: float32[] input"], [], []
    for i, shape in enumerate(shapes):
        t = f"float32[{','.join(map(str, shape))}]"
        inputs += [f"%p{i}: {t} param", f"%m{i}: {t} param", f"%g{i}: {t} input"]
        nodes += [f"  %n{i}: {t} = add(%m{i}, %g{i}) {{}}", f"  %s{i}: {t} = mul(%n{i}, %r) {{}}",
                  f"  %q{i}: {t} = sub(%p{i}, %s{i}) {{}}"]
        ends += [f"  update %p{i} = %q{i}", f"  update %m{i} = %n{i}"]
    text = "\n".join([f"graph g({', '.join(inputs)}) {{", *nodes, more, f"  return {returns}",
                      *ends, "}"])
    return parse_graph(text)


def calls(graph: Graph, target: Target = TARGETS[0]) -> list[Call]:
    lowered = driver.lower(driver.optimize(graph, target=target), target)
    return [i for i in walk(lowered.instructions) if isinstance(i, Call)]


def check(graph: Graph, target: Target) -> None:
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal(v.shape).astype(np.float32) for v in graph.inputs]
    wanted = run(graph, arrays)
    compiled = driver.compile_graph(graph, target)
    for threads in (1, 2, 3):
        cellc_runtime.set_num_threads(threads)
        for a, b in zip(compiled(arrays), wanted, strict=True):
            assert np.asarray(a).tobytes() == b.tobytes()


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_small_parameters_of_all_shapes_by_one_call(target: Target) -> None:
    graph = updates(*((n,) for n in SIZES), (3, 5, 7), (40, 1, 2))
    (call,) = calls(graph, target)
    assert len(call.heads) == len(SIZES) + 2
    assert [n for _, n in call.heads[: len(SIZES)]] == list(SIZES)
    check(graph, target)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_large_parameters_have_calls_of_their_own_and_the_same_kernel(target: Target) -> None:
    graph = updates((700, 701), (5,), (700, 700), (33,))
    found = calls(graph, target)
    assert sorted(len(c.heads) for c in found) == [1, 1, 2]
    assert len({c.kernel.code for c in found}) == 1
    check(graph, target)


def test_tasks_are_chunks_of_equal_length() -> None:
    (call,) = calls(updates(*((n,) for n in SIZES)))
    starts = [first for first, _ in call.heads]
    assert starts[0] == 0
    sizes = np.diff([*starts, call.kernel.ntasks])
    longest = sizes[-1]
    assert list(sizes[:-1]) == [1] * 10
    assert 1 <= longest <= 3
    words = call.words()
    assert len(words) == call.kernel.buffers
    assert words[-1] == call.kernel.ntasks


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("at_end", [False, True])
def test_nothing_beside_the_parameters_is_touched(target: Target, at_end: bool) -> None:
    """Buffers end (or begin) at a page that cannot be read."""
    graph = driver.optimize(updates(*((n,) for n in SIZES)), target=target)
    low = driver.lower(graph, target)
    kernels = []
    for nest in (shown.nest for shown in low.nests):
        found = flat(nest, target)
        assert found is not None
        kernels.append(found)
    assert len({k.code for k in kernels}) == 1
    assert [k.length for k in kernels] == list(SIZES)
    kernel, heads = many(kernels)
    rng = np.random.default_rng(0)
    words: list[int] = []
    kept: list[Any] = []
    for (first, n), k in zip(heads, kernels, strict=True):
        words += [first, n]
        for b in k.buffers:
            size = 1 if not b.shape else n
            a = guarded(rng.standard_normal(size).astype(np.float32), at_end)
            kept.append(a)
            words.append(a.ctypes.data)
    words.append(kernel.ntasks)
    table = (ctypes.c_int64 * len(words))(*words)
    compiled = compile_kernel(kernel, target)
    for task in reversed(range(kernel.ntasks)):  # any order, any range
        compiled.entry(ctypes.addressof(table), task, task + 1)
    assert len(kept) == len(SIZES) * len(kernels[0].buffers)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_a_result_that_needs_updated_values_waits_for_them(target: Target) -> None:
    graph = updates(
        (40,), (50,), more="  %y: float32[1] = reduce_max(%q1) {axes=(0,), keepdims=True}\n"
        "  %z: float32[40] = cumsum(%q0) {axis=0, exclusive=False, reverse=False}",
        returns="%y, %z")
    at = [bool(c.heads) for c in calls(graph, target)]
    assert at.index(True) < len(at) - 1
    check(graph, target)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_parameters_that_read_one_another(target: Target) -> None:
    """Each new value needs the other's old one: they cannot run beside each other in place."""
    graph = parse_graph("""
graph g(%a: float32[100] param, %b: float32[100] param, %c: float32[90] param,
%x: float32[] input) {
  %0: float32[100] = mul(%b, %x) {}
  %1: float32[100] = add(%a, %x) {}
  %2: float32[90] = add(%c, %x) {}
  return %x
  update %a = %0
  update %b = %1
  update %c = %2
}
""")
    check(graph, target)


class Bag(nn.Cell):
    """Parameters of many shapes, all of which the loss reads."""

    def __init__(self) -> None:
        super().__init__()
        rng = np.random.default_rng(0)
        shapes = ((3,), (4, 5), (2, 3, 4), (1,), (17,), (300, 7), (64, 64), ())
        self.all = ms.ParameterTuple([
            ms.Parameter(rng.standard_normal(s).astype(np.float32), name=f"p{i}")
            for i, s in enumerate(shapes)])

    def construct(self, x):
        total = x * 0.0
        for p in self.all:
            total = total + (p * p * x).sum()
        return total


OPTIMIZERS = ["SGD", "Momentum", "Adam", "AdamWeightDecay", "Adagrad", "RMSProp", "Lamb", "FTRL",
              "AdaMax", "Rprop", "ASGD", "Adadelta", "LazyAdam", "AdaFactor", "ProximalAdagrad"]


def make(name: str, net: nn.Cell) -> nn.Optimizer:
    options: dict[str, Any] = {"learning_rate": 0.1}
    if name == "Momentum":
        options["momentum"] = 0.9
    if name == "AdaFactor":
        options = {"learning_rate": None}
    if name in ("SGD", "Momentum", "Adam"):
        options["weight_decay"] = 0.01
        options["loss_scale"] = 2.0
    return getattr(nn, name)(net.trainable_params(), **options)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_in_both_modes(name: str) -> None:
    ends = []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        ms.set_seed(0)
        net = Bag()
        optimizer = make(name, net)
        grad = ms.value_and_grad(net, None, net.trainable_params())

        def step(x, grad=grad, optimizer=optimizer):
            loss, grads = grad(x)
            return loss, optimizer(ops.clip_by_global_norm(grads, 5.0))

        if mode == ms.GRAPH_MODE:
            step = ms.jit(step)
        for i in range(4):
            step(ms.Tensor(0.1 + 0.01 * i, ms.float32))
        ends.append([p.asnumpy() for p in (*net.trainable_params(), *optimizer.get_parameters())])
    for a, b in zip(*ends, strict=True):
        assert a.tobytes() == b.tobytes()


def test_calls_of_a_training_step() -> None:
    """The weights of three layers by one call: of what is no product, here of convolutions."""
    net = nn.SequentialCell([nn.Conv2d(a, b, 3) for a, b in ((5, 20), (20, 30), (30, 4))])
    loss = nn.WithLossCell(net, nn.MSELoss())
    step = nn.TrainOneStepCell(loss, nn.Adam(net.trainable_params())).set_train()
    x, y = (ms.Tensor(np.ones((2, c, 8, 8), np.float32)) for c in (5, 4))
    (found,) = (c for c in calls(trace(step, (x, y), {}).graph) if c.heads)
    assert sorted(n for _, n in found.heads) == [900, 1080, 5400]
