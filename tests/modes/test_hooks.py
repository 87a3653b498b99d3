"""Hooks on Cells, Tensors and gradients: the same program in both modes, and in MindSpore."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, nn, ops

from ..others import mindspore

PROGRAM = '''
import json
import numpy as np
{imports}

log = []


def flat(v):
    if isinstance(v, (tuple, list)):
        return [flat(x) for x in v]
    if isinstance(v, dict):
        return {k: flat(x) for k, x in v.items()}
    return v.asnumpy().tolist() if isinstance(v, Tensor) else v


def note(*values):
    log.append(flat(values))


class Inner(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor(np.array([3.0, 4.0], np.float32)), name="w")

    def construct(self, x, y=2.0):
        return x * self.w * y


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def construct(self, x):
        return self.inner(x * 1, y=3.0) * 2


def forward(n):
    return [n.inner.register_forward_hook(lambda c, a, o: note("f", type(c).__name__, a, o))]


def forward_replaces(n):
    return [n.inner.register_forward_hook(lambda c, a, o: o * 10 + a[0])]


def pre(n):
    return [n.inner.register_forward_pre_hook(lambda c, a: note("pre", a))]


def pre_replaces(n):
    return [n.inner.register_forward_pre_hook(lambda c, a: a[0] * 5),
            n.inner.register_forward_pre_hook(lambda c, a: (a[0] + 1,))]


def with_kwargs(n):
    return [n.inner.register_forward_pre_hook(lambda c, a, k: note("pk", a, k), with_kwargs=True),
            n.inner.register_forward_hook(lambda c, a, k, o: note("fk", a, k, o),
                                          with_kwargs=True)]


def prepended(n):
    return [n.inner.register_forward_hook(lambda c, a, o: note("one")),
            n.inner.register_forward_hook(lambda c, a, o: note("two"), prepend=True)]


def backward(n):
    return [n.inner.register_backward_hook(lambda c, gi, go: note("b", gi, go))]


def backward_replaces(n):
    return [n.inner.register_backward_hook(lambda c, gi, go: twice(gi)),
            n.inner.register_backward_hook(lambda c, gi, go: note("b", gi, go)),
            n.inner.register_backward_pre_hook(lambda c, go: note("bp", go)),
            n.inner.register_backward_pre_hook(lambda c, go: go[0] * 3)]


def twice(grads):
    return None if grads[0] is None else (grads[0] * 2,)


def all_of_them(n):
    return [n.inner.register_forward_pre_hook(lambda c, a: (a[0] * 5,)),
            n.inner.register_forward_hook(lambda c, a, o: o * 10),
            n.inner.register_backward_hook(lambda c, gi, go: note("b", gi, go)),
            n.inner.register_backward_pre_hook(lambda c, go: note("bp", go))]


x = Tensor(np.array([1.0, 2.0], np.float32))
out = []


def run(label, fn):
    log.clear()
    result = flat(fn())
    out.append([label, result, list(log)])


for register in (forward, forward_replaces, pre, pre_replaces, with_kwargs, prepended, backward,
                 backward_replaces, all_of_them):
    net = Net()
    handles = register(net)
    run(register.__name__, lambda: net(x))
    run(register.__name__ + " grad", lambda: ms.grad(net)(x))
    run(register.__name__ + " weights",
        lambda: ms.grad(net, None, net.trainable_params())(x))
    for h in handles:
        h.remove()
        h.remove()
    run(register.__name__ + " removed", lambda: [net(x), ms.grad(net)(x)])


def squares(v):
    z = v * 2
    z.register_hook(triple)
    return z * z


def squares_after_use(v):
    z = v * 2
    r = z * z
    z.register_hook(triple)
    return r


def two_hooks(v):
    z = v * 2
    z.register_hook(triple)
    z.register_hook(one_more)
    return z * z


def triple(g):
    note("triple", g)
    return g * 3


def one_more(g):
    note("one more", g)
    return g + 1


def nothing(g):
    note("nothing", g)


def leaf():
    y = Tensor(np.array([1.0, 2.0], np.float32))
    h = y.register_hook(triple)
    before = ms.grad(lambda v: v * v)(y)
    h.remove()
    return [before, ms.grad(lambda v: v * v)(y)]


def parameter():
    net = Net()
    f = ms.grad(net, None, net.trainable_params())
    first = f(x)
    h = net.inner.w.register_hook(triple)
    second = f(x)
    h.remove()
    return [first, second, f(x)]


for fn in (squares, squares_after_use, two_hooks):
    run(fn.__name__, lambda: ms.grad(fn)(x))
run("leaf", leaf)
run("parameter", parameter)
tapped = ops.HookBackward(lambda g: g[0] * 2)
silent = ops.HookBackward(nothing)
clipped = ops.InsertGradientOf(one_more_quietly)
run("HookBackward", lambda: ms.grad(lambda v: tapped(v * 2) * v)(x))
run("HookBackward None", lambda: ms.grad(lambda v: silent(v * 2) * v)(x))
run("InsertGradientOf", lambda: ms.grad(lambda v: clipped(v * 2) * v)(x))
print(json.dumps(out))
'''.replace("x = Tensor(np", "def one_more_quietly(g):\n    return g + 1\n\n\nx = Tensor(np", 1)

CELLC = "import cellc as ms\nfrom cellc import Parameter, Tensor, nn, ops"
MINDSPORE = "import mindspore as ms\nfrom mindspore import Parameter, Tensor, nn, ops\n" \
            "ms.set_context(mode=ms.PYNATIVE_MODE)"


@pytest.fixture(autouse=True)
def _mode() -> Iterator[None]:
    yield
    ms.set_context(mode=ms.GRAPH_MODE)


def ours(mode: int, tmp_path: Any) -> list[Any]:
    ms.set_context(mode=mode)
    file = tmp_path / f"hooks{mode}.py"
    file.write_text(PROGRAM.replace("{imports}", CELLC))
    found: list[str] = []
    names: dict[str, Any] = {"print": found.append, "__name__": "hooks"}
    exec(compile(file.read_text(), str(file), "exec"), names)
    result: list[Any] = json.loads(found[0])
    return result


def test_the_modes_agree(tmp_path: Any) -> None:
    eager, graph = ours(ms.PYNATIVE_MODE, tmp_path), ours(ms.GRAPH_MODE, tmp_path)
    for a, b in zip(eager, graph, strict=True):
        assert a == b


def test_recorded_facts(tmp_path: Any) -> None:
    """What MindSpore 2.10 gives in PyNative mode."""
    found = {label: (result, log) for label, result, log in ours(ms.GRAPH_MODE, tmp_path)}
    assert found["forward"] == ([18.0, 48.0], [["f", "Inner", [[1.0, 2.0]], [9.0, 24.0]]])
    assert found["forward_replaces grad"] == ([182.0, 242.0], [])
    assert found["with_kwargs"][1] == [
        ["pk", [[1.0, 2.0]], {"y": 3.0}], ["fk", [[1.0, 2.0]], {"y": 3.0}, [9.0, 24.0]]
    ]
    assert found["prepended"][1] == [["two"], ["one"]]
    assert found["backward"][1] == []
    assert found["backward grad"] == ([18.0, 24.0], [["b", [[18.0, 24.0]], [[2.0, 2.0]]]])
    assert found["backward weights"][1] == [["b", [None], [[2.0, 2.0]]]]
    assert found["all_of_them grad"] == (
        [900.0, 1200.0], [["bp", [[2.0, 2.0]]], ["b", [[180.0, 240.0]], [[2.0, 2.0]]]]
    )
    assert found["squares"] == found["squares_after_use"] == \
        ([24.0, 48.0], [["triple", [4.0, 8.0]]])
    assert found["two_hooks"] == (
        [26.0, 50.0], [["triple", [4.0, 8.0]], ["one more", [12.0, 24.0]]]
    )
    assert found["leaf"] == ([[6.0, 12.0], [2.0, 4.0]], [["triple", [2.0, 4.0]]])
    assert found["HookBackward"][0] == [6.0, 12.0]


def test_as_mindspore_does(tmp_path: Any) -> None:
    file = tmp_path / "theirs.py"
    file.write_text(PROGRAM.replace("{imports}", MINDSPORE))
    want = mindspore(file, folder=tmp_path)
    for a, b in zip(ours(ms.GRAPH_MODE, tmp_path), want, strict=True):
        assert a == b


# --- what only cellc says or does ----------------------------------------------------------------


class Layer(nn.Cell):
    def construct(self, x: Tensor) -> Any:
        return ops.tanh(x) * 2


class Loop(nn.Cell):
    """A hooked Cell in a branch, in a loop of fixed length and in one of run-time length."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.layer = Layer()
        self.kind = kind

    def construct(self, x: Tensor, n: Tensor) -> Any:
        if self.kind == "branch":
            if x.sum() > 0:
                x = self.layer(x) + x
        elif self.kind == "loop":
            for _ in range(3):
                x = self.layer(x) + x
        else:
            while n > 0:
                x = self.layer(x)
                n = n - 1
        return x


def collect(seen: list[Any]) -> Callable[..., None]:
    def hook(cell: Any, *values: Any) -> None:
        seen.append([v[0].asnumpy().tolist() if isinstance(v, tuple) else v.asnumpy().tolist()
                     for v in values])
    return hook


@pytest.mark.parametrize("kind", ["branch", "loop", "while"])
def test_hooks_in_control_flow(kind: str) -> None:
    x, n = Tensor(np.array([0.3, 0.7], np.float32)), Tensor(2)
    found = []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        net, seen = Loop(kind), []
        net.layer.register_forward_hook(collect(seen))
        first = net(x, n).asnumpy().tobytes()
        forward = list(seen)
        seen.clear()
        if kind == "while" and mode == ms.GRAPH_MODE:
            with pytest.raises(TypeError, match="cannot call Python functions again"):
                ms.grad(net)(x, n)
            found.append((first, forward))
            continue
        net.layer.register_backward_hook(collect(seen))
        net.layer.register_backward_pre_hook(collect(seen))
        second = ms.grad(net)(x, n).asnumpy().tobytes()
        found.append((first, forward) if kind == "while" else (first, forward, second, seen))
    assert found[0] == found[1]


def test_backward_hooks_in_a_loop_of_run_time_length() -> None:
    x, n = Tensor(np.array([0.3, 0.7], np.float32)), Tensor(2)
    found = []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        net, seen = Loop("while"), []
        net.layer.register_backward_hook(collect(seen))
        net.layer.register_backward_pre_hook(collect(seen))
        found.append((ms.grad(net)(x, n).asnumpy().tobytes(), seen))
    assert found[0] == found[1] and len(found[0][1]) == 4


def test_registering_and_removing_recompiles_what_used_the_cell() -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    net, other, x = Loop("loop"), Loop("loop"), Tensor(np.ones(2, np.float32))
    for n in (net, other, net, other):
        n(x, Tensor(1))
    seen: list[Any] = []
    handle = net.layer.register_forward_hook(collect(seen))
    for n in (net, other):
        n(x, Tensor(1))
    assert len(seen) == 3 and not other._entries.causes
    (cause,) = net._entries.causes
    assert cause.startswith("the hooks of Layer: None -> 1 hook (read at test_hooks.py:")
    with handle:
        net(x, Tensor(1))
    assert len(seen) == 6
    net(x, Tensor(1))
    assert len(seen) == 6 and len(net._entries.causes) == 2


def test_a_hook_on_a_called_network_itself() -> None:
    seen: list[Any] = []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        net = Layer()
        x = Tensor(np.ones(2, np.float32))
        for _ in range(3):
            net(x)  # the native site has learnt it
        handle = net.register_forward_hook(lambda c, a, o: seen.append(1) or o + 1)
        assert net(x).asnumpy().tolist() == (ops.tanh(x) * 2 + 1).asnumpy().tolist()
        handle.remove()
        assert net(x).asnumpy().tolist() == (ops.tanh(x) * 2).asnumpy().tolist()
    assert seen == [1, 1]


def test_a_hook_must_keep_types_in_graph_mode() -> None:
    for change, kind in ((lambda c, a, o: o.sum(), ValueError), (lambda c, a, o: (o, 1), TypeError),
                         (lambda c, a, o: o.astype(ms.float16), TypeError)):
        ms.set_context(mode=ms.GRAPH_MODE)
        net = Layer()
        net.register_forward_hook(change)
        with pytest.raises(kind, match="forward hook of Layer"):
            net(Tensor(np.ones(2, np.float32)))


def test_errors() -> None:
    net = Layer()
    for register in (net.register_forward_hook, net.register_forward_pre_hook,
                     net.register_backward_hook, net.register_backward_pre_hook,
                     Tensor([1.0]).register_hook):
        with pytest.raises(TypeError, match="Expected a callable hook function, but got int"):
            register(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'hook_fn' must be a function"):
        ops.HookBackward(3)
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        net = Layer()
        net.register_backward_hook(lambda c, gi, go: (gi[0], gi[0]))
        with pytest.raises(TypeError, match="return value size is 2 not equal to expect grad "
                                            "input size 1"):
            ms.grad(net)(Tensor([1.0]))
        net = Layer()
        net.register_forward_hook(lambda c, a, o: 1 // 0)
        with pytest.raises(ZeroDivisionError, match="integer division or modulo by zero"):
            net(Tensor([1.0]))


def test_a_hook_that_is_always_called() -> None:
    class Fails(nn.Cell):
        def construct(self, x: Tensor) -> Any:
            raise ValueError("no")

    ms.set_context(mode=ms.PYNATIVE_MODE)
    net, seen = Fails(), []
    net.register_forward_hook(lambda c, a, o: seen.append(o), always_call=True)
    net.register_forward_hook(lambda c, a, o: seen.append("not"))
    with pytest.raises(ValueError, match="no"):
        net(Tensor([1.0]))
    assert seen == [None]


def test_training_with_hooks() -> None:
    """A training step sees the hooks; the modes give the same weights."""
    found = []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        ms.set_seed(1)
        net = nn.SequentialCell(nn.Dense(3, 4), nn.ReLU(), nn.Dense(4, 2))
        calls: list[int] = []
        net[0].register_forward_hook(lambda c, a, o, calls=calls: calls.append(1) or o * 2)
        net[2].register_backward_hook(lambda c, gi, go: (gi[0] * 0.5,))
        weight = net[0].weight
        assert isinstance(weight, Parameter)
        weight.register_hook(lambda g: g * 3)
        loss = nn.WithLossCell(net, nn.MSELoss())
        step = nn.TrainOneStepCell(loss, nn.Momentum(net.trainable_params(), 0.1, 0.9))
        x, y = Tensor(np.ones((5, 3), np.float32)), Tensor(np.zeros((5, 2), np.float32))
        for _ in range(3):
            step(x, y)
        assert len(calls) == 3
        found.append([p.asnumpy().tobytes() for p in net.trainable_params()])
    assert found[0] == found[1]


@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
def test_a_parameter_has_hooks_from_outside_and_for_a_call(mode: int) -> None:
    class Weighed(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = Parameter(Tensor([1.0, 2.0]), name="w")

        def construct(self, x: Tensor) -> Tensor:
            w = self.w * 1
            w.register_hook(lambda g: g * x)
            return (w * x).sum()

    ms.set_context(mode=mode)
    net = Weighed()
    seen: list[Any] = []
    net.w.register_hook(lambda g: seen.append(g.asnumpy().tolist()))
    net.w.register_hook(lambda g: g + 1)
    for _ in range(2):
        (slope,) = ms.grad(net, None, net.trainable_params())(Tensor([3.0, 4.0]))
        assert slope.tolist() == [10.0, 17.0]
    assert seen == [[9.0, 16.0]] * 2


def test_a_compiled_function_registers_no_hook_of_a_parameter() -> None:
    """PyNative mode adds one more with each call; MindSpore's graphs refuse it, too."""
    class Weighed(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = Parameter(Tensor([1.0, 2.0]), name="w")

        def construct(self, x: Tensor) -> Tensor:
            self.w.register_hook(lambda g: g * x)
            return (self.w * x).sum()

    net = Weighed()
    slopes = ms.grad(net, None, net.trainable_params())
    ms.set_context(mode=ms.GRAPH_MODE)
    with pytest.raises(ValueError, match="each call would add one more hook") as e:
        slopes(Tensor([3.0, 4.0]))
    assert "self.w.register_hook(" in str(e.value) and not net.w.hooks()
    ms.set_context(mode=ms.PYNATIVE_MODE)
    assert [slopes(Tensor([3.0, 4.0]))[0].tolist() for _ in range(2)] == [[9, 16], [27, 64]]


def test_a_hook_of_a_tensor_is_removed_by_its_number() -> None:
    x = Tensor(np.array([1.0, 2.0], np.float32))

    def gradient(wanted: Callable[[Any], int]) -> Any:
        def f(x: Tensor) -> Tensor:
            y = x * 3
            y.register_hook(lambda g: g * 2)
            y.remove_hook(wanted(y.register_hook(lambda g: g * 5)))
            return (y * y).sum()

        return ms.grad(f)(x).asnumpy().tolist()

    assert gradient(lambda handle: int(handle.id)) == [36.0, 72.0]
    assert gradient(lambda handle: 12345) == [180.0, 360.0]
    with pytest.raises(TypeError, match="must be the int 'id'"):
        gradient(lambda handle: handle)


def test_a_compiled_function_keeps_its_hooks() -> None:
    @ms.jit
    def f(x: Tensor) -> Tensor:
        y = x * 3
        y.register_hook(lambda g: g * 2)
        y.remove_hook(1)
        return y * y

    with pytest.raises(RuntimeError, match="takes a hook away in PyNative mode"):
        f(Tensor([1.0]))
    with pytest.raises(RuntimeError, match="memory of an Ascend device"):
        Tensor([1.0]).set_device_address(0, (1,), ms.float32)
