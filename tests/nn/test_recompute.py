"""Recomputation: the same bits, less memory, each effect once."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc.compiled.entries import EntryTable
from cellc.eager.recorder import recording
from cellc.tracing.pytree import tensors

MODES = [ms.GRAPH_MODE, ms.PYNATIVE_MODE]


@pytest.fixture(autouse=True)
def _back():
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


class Block(nn.Cell):
    """Convolutions, moving averages, a draw; the input is read three times."""

    def __init__(self, channels: int = 4):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3)
        self.drop = nn.Dropout(p=0.3)

    def construct(self, x):
        h = self.drop(ops.relu(self.norm(self.first(x))))
        return ops.tanh(self.second(h) + x * ops.sigmoid(x))


class Net(nn.Cell):
    """Blocks with a way around each, and a parameter that two places read."""

    def __init__(self, blocks: int = 3):
        super().__init__()
        self.scale = ms.Parameter(np.full((4, 1, 1), 0.7, np.float32), name="scale")
        self.blocks = nn.SequentialCell([Block() for _ in range(blocks)])

    def construct(self, x):
        for block in self.blocks:
            x = x * self.scale + block(x)
        return x


def whole(net):
    net.recompute()


def each(net):
    for block in net.blocks:
        block.recompute()


def nested(net):
    net.recompute()
    for block in net.blocks:
        block.recompute()
        block.norm.recompute()
        block.drop.recompute()


def train(mode, mark, steps=2, size=6):
    """Losses, gradients of the input and the weights, parameters after each step, a last draw."""
    ms.set_context(mode=mode)
    ms.set_seed(5)
    rng = np.random.default_rng(2)
    net = Net()
    for p in net.get_parameters():
        if p.ndim == 4:
            p.set_data(ms.Tensor(rng.standard_normal(p.shape).astype(np.float32)))
    net.set_train()
    if mark is not None:
        mark(net)
    x = ms.Tensor(rng.standard_normal((2, 4, size, size)).astype(np.float32))
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    step = ms.value_and_grad(lambda x: (net(x) ** 2).sum(), 0, net.trainable_params())
    out = []
    for _ in range(steps):
        loss, (dx, grads) = step(x)
        out += [loss, dx, *grads]
        optimizer(grads)
        out += list(net.get_parameters())
        out = [t.asnumpy().copy() if isinstance(t, ms.Tensor) else t for t in out]
    return [*out, ops.rand(3).asnumpy()]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("mark", [whole, each, nested])
def test_bits_are_those_of_the_unmarked_network(mode, mark):
    want, got = train(ms.PYNATIVE_MODE, None), train(mode, mark)
    assert len(want) == len(got)
    for a, b in zip(want, got, strict=True):
        np.testing.assert_array_equal(a, b)


def arena(function, *args) -> int:
    """Planned bytes of temporaries of a compiled call."""
    ms.set_context(mode=ms.GRAPH_MODE)
    function(*args)
    table = function.table
    assert isinstance(table, EntryTable)
    (entry,) = table.entries.values()
    return entry.executable.program.arena_bytes


def gradient_of(blocks, mark):
    ms.set_seed(1)
    net = Net(blocks)
    net.set_train()
    if mark is not None:
        mark(net)
    return ms.grad(lambda x: (net(x) ** 2).sum(), 0, net.trainable_params())


@pytest.mark.parametrize("mark", [each, nested])
def test_memory_of_a_deep_network_falls_by_more_than_half(mark):
    x = ms.Tensor(np.ones((4, 4, 24, 24), np.float32))
    plain, less = (arena(gradient_of(12, m), x) for m in (None, each))
    assert less < plain / 2
    if mark is nested:
        assert arena(gradient_of(12, nested), x) <= less * 1.3


def test_marking_compiles_again():
    net = Net(8)
    x = ms.Tensor(np.ones((4, 4, 24, 24), np.float32))
    grad = ms.grad(lambda x: net(x).sum())
    before = arena(grad, x)
    first = grad(x).asnumpy()
    each(net)
    assert np.array_equal(grad(x).asnumpy(), first)
    assert list(grad.table.entries.values())[-1].executable.program.arena_bytes < before


class Loud(nn.Cell):
    """Prints, and calls a Python function whose result the gradient reads."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def construct(self, x):
        ops.print_("once")
        y = ops.py_func(self.count, x, out_shape=(2,), out_dtype=ms.float32)
        return ops.tanh(x * ops.stop_gradient(y))

    def count(self, x):
        self.calls.append(1)
        return x + np.float32(len(self.calls))


@pytest.mark.parametrize("mode", MODES)
def test_effects_happen_once(mode, capfd):
    ms.set_context(mode=mode)
    cell = Loud()
    x = ms.Tensor([0.5, 1.5])
    want = ms.grad(lambda x: cell(x).sum())(x).asnumpy()
    capfd.readouterr()
    assert len(cell.calls) == 1
    cell.calls.clear()
    cell.recompute()
    assert np.array_equal(ms.grad(lambda x: cell(x).sum())(x).asnumpy(), want)
    assert capfd.readouterr().out.count("once") == 1
    assert len(cell.calls) == 1


class Writer(nn.Cell):
    """Writes into its argument."""

    def construct(self, x):
        x[0] = x[1] * 2.0
        return ops.exp(x)


@pytest.mark.parametrize("mode", MODES)
def test_what_is_written_into_an_argument_is_seen_outside(mode):
    ms.set_context(mode=mode)
    writer = Writer()

    def run(x):
        y = x * 3.0
        return (writer(y) * y).sum()

    x = ms.Tensor([0.1, 0.2, 0.3])
    want = ms.value_and_grad(run)(x)
    writer.recompute()
    for a, b in zip(want, ms.value_and_grad(run)(x), strict=True):
        assert np.array_equal(a.asnumpy(), b.asnumpy())


class Branchy(nn.Cell):
    """Branches and loops of the run, and results of every kind."""

    def __init__(self):
        super().__init__()
        self.w = ms.Parameter(np.array([1.1, 0.9], np.float32), name="w")
        self.seen = ms.Parameter(0, name="seen", requires_grad=False)

    def construct(self, x, scale=2.0):
        self.seen += 1
        n = ms.Tensor(0)
        while x.sum() < 20.0:
            x = x * self.w * scale
            n += 1
        if x[0] > x[1]:
            x = ops.sin(x)
        return {"x": x, "n": n, "name": "branchy"}


def run_branchy(mode, marked):
    ms.set_context(mode=mode)
    cell = Branchy()
    if marked:
        cell.recompute()

    def run(x):
        out = cell(x, scale=1.5)
        assert out["name"] == "branchy"
        return (out["x"] * out["n"]).sum()

    value, (dx, (dw,)) = ms.value_and_grad(run, 0, [cell.w])(ms.Tensor([1.0, 2.0]))
    assert int(cell.seen) == 1
    return [t.asnumpy() for t in (value, dx, dw)]


@pytest.mark.parametrize("mode", MODES)
def test_structures_branches_and_assignments(mode):
    want, got = run_branchy(ms.PYNATIVE_MODE, False), run_branchy(mode, True)
    for a, b in zip(want, got, strict=True):
        assert np.array_equal(a, b)


class Keeper(nn.Cell):
    """Keeps what it computes beside its result."""

    def construct(self, x, kept):
        kept.append(x * 2.0)
        return ops.exp(x)


def test_what_is_kept_beside_the_results_is_an_error_in_a_graph():
    ms.set_context(mode=ms.GRAPH_MODE)
    cell = Keeper()
    cell.recompute()

    def run(x):
        kept = []
        return (cell(x, kept) + kept[0]).sum()

    with pytest.raises(TypeError, match="marked by recompute"):
        ms.grad(run)(ms.Tensor([1.0]))


@pytest.mark.parametrize("mode", MODES)
def test_second_derivatives(mode):
    ms.set_context(mode=mode)

    class Cube(nn.Cell):
        def construct(self, x):
            return x * x * x

    cell = Cube()
    cell.recompute()
    x = ms.Tensor([1.0, 2.0])
    second = ms.grad(lambda x: ms.grad(lambda x: cell(x).sum())(x).sum())(x)
    assert np.array_equal(second.asnumpy(), [6.0, 12.0])


class Chain(nn.Cell):
    """Ops whose results the gradients of the next ones read."""

    def __init__(self, mark):
        super().__init__()
        self.ops = [ops.Exp(), ops.Sigmoid(), ops.Tanh(), ops.Square()] * 3
        self.drop = ops.Dropout(0.8, 3, 4)
        if mark:
            for op in (*self.ops, self.drop):
                assert op.recompute() is op

    def construct(self, x):
        for op in self.ops:
            x = ops.sin(op(x) * x)
        return x * self.drop(x)[0]


@pytest.mark.parametrize("mode", MODES)
def test_primitives(mode):
    ms.set_context(mode=mode)
    x = ms.Tensor(np.linspace(-1, 1, 200_000).astype(np.float32))
    found = [ms.value_and_grad(net)(x) for net in (Chain(False), Chain(True))]
    for a, b in zip(*found, strict=True):
        assert np.array_equal(a.asnumpy(), b.asnumpy())


def test_marked_matmuls_are_not_kept():
    class Products(nn.Cell):
        def __init__(self, mark):
            super().__init__()
            self.product = ops.MatMul()
            if mark:
                self.product.recompute()

        def construct(self, x, w):
            for _ in range(12):
                x = ops.tanh(x + ops.sin(self.product(x, w)) * 0.1)
            return x

    x, w = ms.Tensor(np.ones((256, 64), np.float32)), ms.Tensor(np.eye(64, dtype=np.float32))
    plain, less = (arena(ms.grad(Products(mark), (0, 1)), x, w) for mark in (False, True))
    assert less < 0.8 * plain


def test_the_mark_of_a_primitive():
    assert repr(ops.ReLU().recompute()) == "Prim[ReLU]<recompute=True>"
    assert repr(ops.MatMul().recompute(False)) == (
        "Prim[MatMul]<transpose_a=False, transpose_b=False, recompute=False>")
    with pytest.raises(TypeError, match="must be a bool, but got int"):
        ops.ReLU().recompute(1)


class Through(nn.Cell):
    """Calls a Cell by `recompute`."""

    def __init__(self, again, **options):
        super().__init__()
        self.block, self.again, self.options = Block(), again, options

    def construct(self, x):
        if self.again:
            return ms.recompute(self.block, x, **self.options) + x
        return self.block(x) + x


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("options", [{}, {"use_reentrant": False, "output_recompute": True}])
def test_the_function(mode, options):
    ms.set_context(mode=mode)
    x = ms.Tensor(np.linspace(-1, 1, 2 * 4 * 36).astype(np.float32).reshape(2, 4, 6, 6))
    found = []
    for again in (False, True):
        ms.set_seed(3)
        net = Through(again, **options)
        net.set_train()
        value, (dx, grads) = ms.value_and_grad(net, 0, net.trainable_params())(x)
        found.append([value, dx, *grads, *net.get_parameters()])
    for a, b in zip(*found, strict=True):
        assert np.array_equal(a.asnumpy(), b.asnumpy())


@pytest.mark.parametrize("mode", MODES)
def test_the_function_follows_the_mode_of_its_block(mode):
    ms.set_context(mode=mode)
    net = Through(True)
    net.set_train()
    x = ms.Tensor(np.ones((1, 4, 6, 6), np.float32))
    grad = ms.grad(net)
    before = grad(x).asnumpy()
    net.set_train(False)
    assert not np.array_equal(before, grad(x).asnumpy())


@pytest.mark.parametrize("mode", MODES)
def test_functions_that_are_no_cells(mode):
    ms.set_context(mode=mode)

    def f(x, y):
        return ops.sin(x) * y

    def run(x, y):
        return ms.recompute(f, x, y, use_reentrant=False).sum()

    x, y = ms.Tensor([0.5, 1.0]), ms.Tensor([2.0, 3.0])
    dx, dy = ms.grad(run, (0, 1))(x, y)
    assert np.allclose(dx.asnumpy(), np.cos(x.asnumpy()) * y.asnumpy())
    assert np.allclose(dy.asnumpy(), np.sin(x.asnumpy()))


def test_what_the_function_refuses():
    with pytest.raises(TypeError, match="only support block which inherited from Cell"):
        ms.recompute(lambda x: x, ms.Tensor([1.0]))
    with pytest.raises(TypeError, match="'int' object is not callable"):
        ms.recompute(1, ms.Tensor([1.0]), use_reentrant=False)


def test_contexts_of_the_first_run_and_of_those_for_gradients():
    ms.set_context(mode=ms.PYNATIVE_MODE)
    seen = []

    class Noted:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            seen.append(self.name)

        def __exit__(self, *_):
            seen.append("-" + self.name)

    def run(x):
        return ms.recompute(ops.sin, x, use_reentrant=False,
                            context_fn=lambda: (Noted("first"), Noted("again"))).sum()

    ms.grad(run)(ms.Tensor([1.0]))
    assert seen == ["first", "-first", "again", "-again"]


def test_draws_of_python_code_that_runs_again(mode):
    """It draws what it drew: the gradient is that of the elements which the result kept."""
    def run(x):
        return ms.recompute(lambda v: ops.dropout(v * 2, 0.5), x, use_reentrant=False,
                            context_fn=lambda: (nullcontext(), nullcontext()))

    ms.set_seed(1)
    x = ms.Tensor(np.arange(1, 41, dtype=np.float32))
    out, grad = ms.value_and_grad(run)(x)
    factors = out.asnumpy() / x.asnumpy()
    assert 5 < np.count_nonzero(factors) < 35
    np.testing.assert_array_equal(grad.asnumpy(), factors)
    again, _ = ms.value_and_grad(run)(x)
    assert not np.array_equal(again.asnumpy(), out.asnumpy()), "the draws go on"


class Wave(nn.Cell):
    """A small Cell with a weight."""

    def __init__(self):
        super().__init__()
        self.w = ms.Parameter(np.array([1.5, 0.5], np.float32), name="w")

    def construct(self, x):
        return ops.sin(x * self.w) * ops.exp(x)


def _hooked(cell, x):
    cell.register_forward_hook(lambda cell, inputs, out: out * 2)
    cell.register_backward_hook(lambda cell, given, out: (given[0] * 3,))
    return ms.grad(lambda x: cell(x).sum())(x)


def _half(cell, x):
    cell.to_float(ms.float16)
    return ms.grad(lambda x: cell(x).sum().astype(ms.float32), 0, [cell.w])(x)


def _rolled(cell, x):
    def run(x):
        for _ in range(20):
            x = cell(x) * 0.5
        return x.sum()

    return ms.value_and_grad(run, 0, [cell.w])(x)


def _while(cell, x):
    def run(x):
        while x.sum() < 5:
            x = cell(x) + x
        return x.sum()

    return ms.value_and_grad(run, 0, [cell.w])(x)


def _sizes(cell, x):
    step = ms.value_and_grad(lambda x: cell(x).sum(), None, cell.trainable_params())
    optimizer = nn.Adam(cell.trainable_params(), 0.1)
    out = []
    for n in (1, 2, 3, 5, 7):
        value, grads = step(ms.Tensor(np.full((n, 2), 0.3, np.float32)))
        optimizer(grads)
        out += [value, *grads]
    return out


USES = {
    "hooks": _hooked, "half precision": _half, "a rolled loop": _rolled, "a run-time loop": _while,
    "batches of several sizes": _sizes,
    "jvp": lambda cell, x: ms.jvp(cell, x, x),
    "vmap": lambda cell, x: ms.vmap(ms.grad(lambda x: cell(x).sum()))(ms.ops.stack([x, x * 2])),
    "second order": lambda cell, x: ms.grad(lambda x: ms.grad(lambda y: cell(y).sum())(x).sum())(x),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("use", USES)
def test_marked_cells_elsewhere(mode, use):
    ms.set_context(mode=mode)
    found = []
    for mark in (False, True):
        cell = Wave()
        if mark:
            cell.recompute()
        found.append([t.asnumpy() for t in tensors(USES[use](cell, ms.Tensor([0.3, 0.7])))])
    for a, b in zip(*found, strict=True):
        assert np.array_equal(a, b)


def test_saved_graphs_of_marked_cells(tmp_path):
    cell = Wave()
    cell.recompute()
    x = ms.Tensor([0.3, 0.7])
    path = str(tmp_path / "wave.cir")
    ms.export(cell, x, file_name=path, file_format="CIR")
    for mode in MODES:
        ms.set_context(mode=mode)
        loaded = nn.GraphCell(ms.load(path))
        assert np.array_equal(loaded(x).asnumpy(), cell(x).asnumpy())


# --- recordings: a marked call is one op of them --------------------------------------------------


class Deep(nn.Cell):
    """Equal blocks, marked or not."""

    def __init__(self, mark, blocks=4):
        super().__init__()
        self.blocks = nn.CellList([Wave() for _ in range(blocks)])
        if mark:
            for block in self.blocks:
                block.recompute()

    def construct(self, x):
        for block in self.blocks:
            x = block(x) * x
        return x.sum()


def test_equal_blocks_are_one_graph_and_run_python_once(monkeypatch):
    ms.set_context(mode=ms.PYNATIVE_MODE)
    net, calls = Deep(True), []
    construct = Wave.construct
    monkeypatch.setattr(Wave, "construct", lambda self, x: calls.append(1) or construct(self, x))
    x = ms.Tensor([0.3, 0.7])
    ms.grad(net, 0, net.trainable_params())(x)
    assert len(calls) == 4
    with recording() as r:
        r.track(x)
        net(x)
    r.absorb()
    marked = [s for s in r.steps if s.applied is not None and s.applied.op == "recompute"]
    assert len(marked) == 4 and len({s.applied for s in marked}) == 1
    assert not r.custom
    kept = [t.shape for t in r.tensors]
    with recording() as plain:
        plain.track(x)
        Deep(False)(x)
    plain.absorb()
    assert len(kept) < len(plain.tensors)


def test_a_marked_cell_among_gradients_of_the_users():
    """The recording is walked op by op: the marked Cell is a program of its own in that."""
    class Own(nn.Cell):
        def construct(self, x):
            return ops.sin(x)

        def bprop(self, x, out, dout):
            return (dout * 3.0,)

    ms.set_context(mode=ms.PYNATIVE_MODE)
    own, x = Own(), ms.Tensor([0.3, 0.7])
    found = []
    for mark in (False, True):
        net = Deep(mark)
        run = ms.value_and_grad(lambda x, net=net: net(own(x)) + net(x), 0, net.trainable_params())
        value, (dx, grads) = run(x)
        found.append([t.asnumpy() for t in (value, dx, *grads)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


class Again(nn.Cell):
    """Gives results of every kind: an argument, one value twice, an integer."""

    def __init__(self):
        super().__init__()
        self.w = ms.Parameter(np.array([1.5, 0.5], np.float32), name="w")
        self.seen = ms.Parameter(np.ones(2, np.float32), name="seen", requires_grad=False)

    def construct(self, x):
        h = ops.sin(x) * self.w * self.seen
        ops.assign(self.seen, self.seen * 2.0 + self.w)
        return h, h, x, ops.argmax(x), h * self.seen


@pytest.mark.parametrize("mode", MODES)
def test_results_of_every_kind(mode):
    ms.set_context(mode=mode)
    found = []
    for mark in (False, True):
        cell = Again()
        if mark:
            cell.recompute()

        def run(x, cell=cell):
            a, b, c, i, d = cell(x)
            e, *_ = cell(a)
            return (a * a + b * 3.3 + a * b * c + d * e).sum() + i

        value, (dx, (dw,)) = ms.value_and_grad(run, 0, [cell.w])(ms.Tensor([0.4, 0.9]))
        found.append([t.asnumpy() for t in (value, dx, dw, cell.seen)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("mode", MODES)
def test_numbers_drawn_in_a_marked_cell(mode):
    """Draws that follow from nothing followed: kept if they are few, else drawn again."""
    class Noisy(nn.Cell):
        def construct(self, x):
            return ops.sin(x * ops.rand(*x.shape)) * x

    ms.set_context(mode=mode)
    for size in (4, 40_000):
        found = []
        for mark in (False, True):
            ms.set_seed(3)
            cell = Noisy()
            if mark:
                cell.recompute()
            x = ms.Tensor(np.linspace(0, 1, size).astype(np.float32))
            value, dx = ms.value_and_grad(lambda x, cell=cell: cell(x).sum())(x)
            found.append([value.asnumpy(), dx.asnumpy(), ops.rand(2).asnumpy()])
        for a, b in zip(*found, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", ["jvp", "jacrev", "jacfwd", "vmap", "hessian"])
def test_other_derivatives(mode, how):
    ms.set_context(mode=mode)
    found = []
    x = ms.Tensor([0.3, 0.7])
    for mark in (False, True):
        cell = Wave()
        if mark:
            cell.recompute()
        run = {
            "jvp": lambda c=cell: ms.jvp(c, x, x),
            "jacrev": lambda c=cell: ms.jacrev(c)(x),
            "jacfwd": lambda c=cell: ms.jacfwd(c)(x),
            "vmap": lambda c=cell: ms.vmap(ms.grad(lambda x: c(x).sum()))(ops.stack([x, x * 2])),
            "hessian": lambda c=cell: ms.jacfwd(ms.jacrev(lambda x: c(x).sum()))(x),
        }[how]
        found.append([t.asnumpy() for t in tensors(run())])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)
