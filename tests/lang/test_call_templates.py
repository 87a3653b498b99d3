"""Calls like earlier ones are copied instead of traced: the graph is the one tracing would give.

`COPIED` programs must be copied from templates, `TRACED` ones must not; all give the same graph, to
the letter, as without templates, and the results of PyNative.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, nn, ops
from cellc.compiled.traced import Traced, trace
from cellc.lang import call_templates
from cellc_compiler.ir.printing import print_graph
from cellc_compiler.passes.cleanup import Cse

from ..modes.law import mode

DEPTH = 5


def normal(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Random numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class Layer(nn.Cell):
    """A matrix, a scale and what a program does with them."""

    def __init__(self, what: Callable[[Any, Any], Any], number: int) -> None:
        super().__init__()
        self.what = what
        self.w = Parameter(Tensor(normal(4, 4, seed=number) * 0.3), name="w")
        self.scale = 0.5
        self.mask = Tensor(np.tri(12, dtype=np.float32)[:, :4])
        self.parts = [1.0, {"a": 2.0}]
        self.dense = nn.Dense(4, 4, weight_init=Tensor(normal(4, 4, seed=number + 100)))

    def construct(self, x: Any) -> Any:
        return self.what(self, x)


class Net(nn.Cell):
    """Layers of one kind, one after the other."""

    def __init__(self, what: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.layers = nn.CellList([Layer(what, i) for i in range(DEPTH)])
        self.seen: list[Any] = []

    def construct(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


def plain(layer, x):
    return ops.tanh(ops.matmul(x, layer.w)) * layer.scale + x


def nested(layer, x):
    return layer.dense(ops.relu(layer.dense(x))) * layer.parts[1]["a"]


def constant(layer, x):
    return x * layer.mask[:2] + ops.matmul(x, layer.w)


def drawn(layer, x):
    return ops.dropout(x, 0.3) + ops.matmul(x, layer.w)


def assigned(layer, x):
    ops.assign(layer.w, layer.w * 0.5 + x.sum() * 0.01)
    return ops.matmul(x, layer.w)


def branch(layer, x):
    if x.sum() > 0:
        x = x * layer.w[0]
    else:
        x = x - layer.w[1]
    return x


def loop(layer, x):
    i = 0
    while x.sum() < 10 and i < 3:
        x = x + layer.w[0].abs()
        i = i + 1
    return x


def checked(layer, x):
    return ops.gather(layer.w, ops.cast(ops.abs(x[:, 0]) * 0.1, ms.int32), 0) + x


def gradient(layer, x):
    return ms.grad(lambda v: (ops.matmul(v, layer.w) ** 2).sum())(x)


def unchanged(layer, x):
    return x


SHARED = Parameter(Tensor(normal(4, seed=77)), name="shared")


def shared(layer, x):
    return x * SHARED + layer.w[0]


def prints(layer, x):
    print(x.shape)
    return x + layer.w[0]


def unread_number(layer, x):
    return x * layer.scale + layer.w[0]


COPIED = [plain, nested, constant, drawn, assigned, gradient, unchanged, shared, branch, loop,
          prints, unread_number]


def by_name(layer, x):
    return x * 2 if "layers.1" in layer.w.name else x + layer.w[0]


def by_identity(layer, x):
    return x * 3 if layer.w is FAVOURITE[0] else x + layer.w[0]


def by_table(layer, x):
    return x * TABLE.get(layer.w, 1.0)


def by_key(layer, x):
    if layer.w in TABLE:
        x = x + 1.0
    return x * layer.scale


def by_id(layer, x):
    return x * 3 if id(layer.w) == id(FAVOURITE[0]) else x + layer.w[0]


def by_number(layer, x):
    return x * layer.number + layer.w[0]


def by_getattr(layer, x):
    return x * getattr(layer, "number", 2) + layer.w[0]


def by_hasattr(layer, x):
    return x * 2 if hasattr(layer, "odd") else x + layer.w[0]


def by_helper(layer, x):
    return x * number_of(layer) + layer.w[0]


def number_of(layer):
    return layer.number


def by_elements(layer, x):
    return x * float(layer.table[0, 0]) + layer.w[0]


def appends(layer, x):
    layer.parts.append(1.0)
    return x * len(layer.parts)


def counts(layer, x):
    layer.scale = layer.scale + 1.0
    return x * layer.scale


def in_place(layer, x):
    x[0] = layer.w[0]
    return x * 1.0


TRACED = [by_name, by_identity, by_table, by_key, by_id, by_number, by_getattr, by_helper,
          by_elements, appends, counts, checked, in_place]
NUMBERED = [unread_number, by_number, by_getattr, by_helper]
FAVOURITE: list[Any] = [None]
TABLE: dict[Any, float] = {}


def net_of(what: Callable[[Any, Any], Any]) -> Net:
    """The network of a program."""
    ms.set_seed(3)
    net = Net(what)
    for i, layer in enumerate(net.layers):
        layer.number = i
        layer.table = Tensor(np.full((20, 20), i + 1.0, np.float32))
        if what is by_hasattr and i == 3:
            layer.odd = True
        if what not in NUMBERED:
            del layer.number
        if what is not by_elements:
            del layer.table
    FAVOURITE[0] = net.layers[3].w
    TABLE.clear()
    TABLE[net.layers[3].w] = 5.0
    return net


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was called where a template was copied: the class of a Cell."""
    found: list[str] = []
    append = call_templates._Copy.append

    def counting(self: Any) -> Any:
        found.append(type(self.objects[0]).__name__ if self.objects else "")
        return append(self)

    monkeypatch.setattr(call_templates._Copy, "append", counting)
    return found


def text_of(traced: Traced) -> str:
    """The graph with its spans, equal nodes as one, and what was read where."""
    Cse().run(traced.graph)
    reads = [f"{r.label} {r.where} {r.before}" for r in traced.reads]
    return "\n".join([print_graph(traced.graph), *reads, *(n for _, n in traced.attributes)])


def traced_texts(
    call: Any, args: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> tuple[str, str]:
    """The graph with templates, and without."""
    with mode(ms.GRAPH_MODE):
        one = text_of(trace(call, args, {}))
        with monkeypatch.context() as m:
            m.setattr(call_templates.CallTemplates, "_usable", lambda self: False)
            other = text_of(trace(call, args, {}))
    return one, other


@pytest.mark.parametrize("what", [*COPIED, *TRACED, by_hasattr], ids=lambda f: f.__name__)
def test_the_graph_is_that_of_tracing(what, copies, monkeypatch):
    x = Tensor(normal(2, 4))
    with_templates, without = traced_texts(net_of(what), (x,), monkeypatch)
    assert with_templates == without
    if what in COPIED:
        assert copies.count("Layer") == DEPTH - 2, copies
    results = []
    for kind in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        with mode(kind):
            net = net_of(what)
            results.append([net(Tensor(normal(2, 4))).asnumpy() for _ in range(2)])
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("what", TRACED, ids=lambda f: f.__name__)
def test_what_tells_layers_apart_is_traced(what, copies, monkeypatch):
    with mode(ms.GRAPH_MODE):
        trace(net_of(what), (Tensor(normal(2, 4)),), {})
    assert "Layer" not in copies, copies


def differing(change: Callable[[Any], None]) -> Net:
    net = net_of(nested)
    change(net.layers[3])
    return net


CHANGES: dict[str, Callable[[Any], Any]] = {
    "flag": lambda layer: layer.set_train(True),
    "precision": lambda layer: layer.to_float(ms.float16),
    "hook": lambda layer: layer.register_forward_hook(lambda c, a, out: out * 2),
    "inner hook": lambda layer: layer.dense.register_forward_hook(lambda c, a, out: out * 2),
    "recompute": lambda layer: layer.recompute(),
    "frozen": lambda layer: setattr(layer.dense.weight, "requires_grad", False),
    "other layer": lambda layer: setattr(layer, "dense", nn.Dense(4, 4, has_bias=False)),
    "wider": lambda layer: setattr(layer, "dense", nn.SequentialCell(nn.Dense(4, 4), nn.ReLU())),
    "number": lambda layer: layer.parts[1].update(a=-0.0),
    "tied": lambda layer: setattr(layer.dense, "weight", layer.w),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_layer_that_differs(change, copies, monkeypatch):
    x = Tensor(normal(2, 4))
    one, other = traced_texts(differing(change), (x,), monkeypatch)
    assert one == other
    with mode(ms.PYNATIVE_MODE):
        eager = differing(change)(x).asnumpy()
    with mode(ms.GRAPH_MODE):
        np.testing.assert_array_equal(differing(change)(x).asnumpy(), eager)


def watched(layer, x):
    return nested(layer, x) * layer.scale


def test_a_copied_layer_is_watched():
    x = Tensor(normal(2, 4))
    net = net_of(watched)
    with mode(ms.GRAPH_MODE):
        before = net(x).asnumpy()
        for change in (lambda: net.layers[4].parts[1].update(a=7.0),
                       lambda: setattr(net.layers[3], "scale", 0.75),
                       lambda: net.layers[4].register_forward_hook(lambda c, a, out: out * 2)):
            change()
            after = net(x).asnumpy()
            assert not np.array_equal(before, after)
            with mode(ms.PYNATIVE_MODE):
                np.testing.assert_array_equal(net(x).asnumpy(), after)
            before = after


class Counting(nn.Cell):
    """Reads an attribute of a copied layer, and changes it later."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.CellList([Layer(plain, i) for i in range(DEPTH)])

    def construct(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        self.layers[4].scale = self.layers[4].scale + 1.0
        return x


def test_what_a_copied_layer_read_may_change_later():
    results = []
    for kind in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        with mode(kind):
            net = Counting()
            results.append([net(Tensor(normal(2, 4))).asnumpy() for _ in range(3)])
    np.testing.assert_array_equal(*results)
    assert not np.array_equal(results[0][0], results[0][1])


def step(x, w, rate=0.1):
    return x - rate * ops.tanh(x * w), w.sum()


def functions(x, ws):
    total = 0.0
    for w in ws:
        x, s = step(x, w, rate=0.2)
        total = total + s
    return x, total


def aliased(x, ws):
    for a, b in ((ws[0], ws[1]), (ws[1], ws[2]), (ws[2], ws[2]), (ws[0], ws[3])):
        x = pair(x, a, b)
    return x


def pair(x, a, b):
    return x * a + b if a is b else x * a - b


def rates(x, ws):
    for rate in (0.1, 0.2, 0.1, 0.2, 0.3, -0.0, 0.0):
        x, _ = step(x, ws[0], rate)
    return x


@pytest.mark.parametrize("program", [functions, aliased, rates], ids=lambda f: f.__name__)
def test_functions(program, copies, monkeypatch):
    given = Tensor(normal(4)), tuple(Tensor(normal(4, seed=i)) for i in range(1, 6))
    one, other = traced_texts(program, given, monkeypatch)
    assert one == other
    assert bool(copies) == (program is not aliased)


STEPS: dict[str, Callable[[Any], Any]] = {
    **{c.__name__: lambda ps, c=c: c(ps, learning_rate=0.01, weight_decay=0.1)
       for c in (nn.Adam, nn.AdamWeightDecay, nn.AdaMax, nn.Lamb)},
    "amsgrad": lambda ps: nn.Adam(ps, use_amsgrad=True),
    "SGD": lambda ps: nn.SGD(ps, momentum=0.9, nesterov=True),
    "Momentum": lambda ps: nn.Momentum(ps, 0.1, 0.9, use_nesterov=True),
}


@pytest.mark.parametrize("make", STEPS.values(), ids=STEPS)
def test_steps_of_optimizers(make, copies, monkeypatch):
    net = net_of(nested)
    optimizer = make(net.trainable_params())
    call = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer)
    batch = Tensor(normal(2, 4)), Tensor(normal(2, 4, seed=5))
    one, other = traced_texts(call, batch, monkeypatch)
    assert one == other
    assert len(copies) >= 2 * (DEPTH - 2)


def test_many_kinds_of_layers_are_given_up(copies):
    class Numbered(nn.Cell):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

        def construct(self, x: Any) -> Any:
            return x + self.number

    net = nn.SequentialCell(*[Numbered(i) for i in range(call_templates.MOST_KINDS + 9)])
    with mode(ms.GRAPH_MODE):
        net(Tensor(normal(2)))
    assert not copies


# --- what the trace itself makes and changes ------------------------------------------------------


class Context:
    """An object that is made in a trace."""

    n: Any = 0


def with_object(context, x):
    return x * context.n + 1


def changed_object(x):
    context = Context()
    for i in range(DEPTH):
        context.n = i
        x = with_object(context, x)
    return x


def applied(function, x):
    return function(x)


def captured_variable(x):
    k = 1

    def scaled(v):
        return v * k + 1

    for i in range(DEPTH):
        k = i
        x = applied(scaled, x)
    return x


def taken(iterator, x):
    return x * next(iterator) + 1


def iterator(x):
    numbers = iter([1, 2, 3, 4, 5])
    for _ in range(DEPTH):
        x = taken(numbers, x)
    return x


def added(box, x):
    box[0] = box[0] + x
    return x * 1.5


def list_of_tensors(x):
    box = [x]
    for _ in range(DEPTH):
        x = added(box, x)
    return x + box[0]


def dict_of_tensors(x):
    box = {0: x}
    for _ in range(DEPTH):
        x = added(box, x)
    return x + box[0]


def counted(box, x):
    box[0] += 1
    return x * float(box[0])


def array(x):
    box = np.ones(2, np.float32)
    for _ in range(DEPTH):
        x = counted(box, x)
    return x * float(box[0])


def of_length(box, x):
    return x * len(box) * 0.5


def growing_set(x):
    box = set()
    for i in range(DEPTH):
        box.add(i)
        x = of_length(box, x)
    return x


def itself(x):
    return x


def given_back(x):
    out = x * 1.0
    for i in range(DEPTH):
        y = itself(out)
        y[0] = i * 1.0
    return out


def viewed(x):
    return x.view_as(x)


def not_given_back(x):
    out = x * 1.0
    for i in range(DEPTH):
        y = viewed(out)
        y[0] = i * 1.0
    return out + y


ASIDE = Parameter(Tensor(np.ones(4, np.float32)), name="aside")


def beside(x):
    return x * 0.5 + ASIDE * 2.0


def same_value_for_once(x):
    row = x[0]
    ops.assign(ASIDE, row)
    row = beside(row)
    ops.assign(ASIDE, row)
    for _ in range(DEPTH):
        row = beside(row)
    return row


CHANGED = [changed_object, captured_variable, iterator, list_of_tensors, dict_of_tensors, array,
           growing_set, given_back, not_given_back, same_value_for_once]


@pytest.mark.parametrize("program", CHANGED, ids=lambda f: f.__name__)
def test_what_a_trace_changes_is_seen(program):
    results = []
    for kind in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ASIDE.set_data(Tensor(np.ones(4, np.float32)))
        with mode(kind):
            call = ms.jit(program) if kind == ms.GRAPH_MODE else program
            results.append(call(Tensor(normal(2, 4))).asnumpy())
    np.testing.assert_array_equal(*results)


class Hidden(Layer):
    """Reads its number where the language does not look."""

    @cached_property
    def factor(self) -> float:
        return 1.0 + self.number


class Dynamic(Layer):
    def __getattr__(self, name: str) -> Any:
        if name == "factor":
            return 1.0 + self.__dict__["number"]
        return super().__getattr__(name)


def by_factor(layer, x):
    return x * layer.factor


@pytest.mark.parametrize("cls", [Hidden, Dynamic])
def test_numbers_that_python_reads(cls):
    results = []
    for kind in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        with mode(kind):
            layers = [cls(by_factor, i) for i in range(DEPTH)]
            for i, layer in enumerate(layers):
                layer.number = i
            results.append(nn.SequentialCell(*layers)(Tensor(normal(2, 4))).asnumpy())
    np.testing.assert_array_equal(*results)
