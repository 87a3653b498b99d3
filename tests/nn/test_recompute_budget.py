"""`recompute(budget=...)`: the same bits in fewer bytes, and clear errors where that cannot be."""

from __future__ import annotations

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc.calls.budget import parse

MODES = [ms.GRAPH_MODE, ms.PYNATIVE_MODE]


@pytest.fixture(autouse=True)
def _back():
    ms.set_context(mode=ms.GRAPH_MODE)
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


class Residual(nn.Cell):
    """A residual block of products with a norm and a draw."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm((width,))
        self.wide, self.back = nn.Dense(width, 4 * width), nn.Dense(4 * width, width)
        self.drop = nn.Dropout(p=0.2)

    def construct(self, x):
        return x + self.drop(self.back(ops.gelu(self.wide(self.norm(x)))))


class Conv(nn.Cell):
    """A residual block of convolutions with moving averages."""

    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3)

    def construct(self, x):
        return ops.relu(self.second(ops.relu(self.norm(self.first(x)))) + x)


class Attention(nn.Cell):
    """A transformer's block: causal attention with dropout, then a residual block."""

    def __init__(self, width, heads, length):
        super().__init__()
        self.heads = heads
        self.norm, self.mix = nn.LayerNorm((width,)), nn.Dense(width, 3 * width)
        self.out, self.drop = nn.Dense(width, width), nn.Dropout(p=0.1)
        self.mask = ms.Tensor(np.triu(np.full((length, length), -1e9, np.float32), 1))
        self.rest = Residual(width)

    def construct(self, x):
        b, t, d = x.shape
        parts = [p.reshape(b, t, self.heads, d // self.heads).swapaxes(1, 2)
                 for p in ops.split(self.mix(self.norm(x)), d, 2)]
        q, k, v = parts
        scores = ops.softmax(ops.matmul(q, k.swapaxes(-1, -2)) * 0.25 + self.mask, -1)
        mixed = ops.matmul(self.drop(scores), v).swapaxes(1, 2).reshape(b, t, d)
        return self.rest(x + self.out(mixed))


def network(kind):
    """A deep network, and an input of it."""
    ms.set_seed(7)
    rng = np.random.default_rng(4)
    if kind == "residual":
        net, shape = nn.SequentialCell([Residual(24) for _ in range(8)]), (64, 24)
    elif kind == "convolutions":
        net, shape = nn.SequentialCell([Conv(4) for _ in range(10)]), (4, 4, 12, 12)
    else:
        net, shape = nn.SequentialCell([Attention(16, 2, 16) for _ in range(4)]), (4, 16, 16)
    net.set_train()
    return net, ms.Tensor(rng.standard_normal(shape).astype(np.float32))


def step_of(net):
    return ms.value_and_grad(lambda x: (net(x) ** 2).mean(), 0, net.trainable_params())


def run(kind, budget=None, mode=ms.GRAPH_MODE, steps=2):
    """Losses, gradients and parameters over some steps; the table of the gradient."""
    ms.set_context(mode=mode)
    net, x = network(kind)
    optimizer = nn.Adam(net.trainable_params(), 0.01)
    step = step_of(net)
    within = step if budget is None else ms.recompute(step, budget=budget)
    out = []
    for _ in range(steps):
        loss, (dx, grads) = within(x)
        out += [t.asnumpy().copy() for t in (loss, dx, *grads)]
        optimizer(grads)
        out += [p.asnumpy().copy() for p in net.get_parameters()]
    return [*out, ops.rand(3).asnumpy()], step


def planned(step):
    """The planned bytes, and what was chosen."""
    facts = ms.explain(step).entries[-1]
    return facts.arena_bytes, facts.recomputed


@pytest.mark.parametrize(("kind", "shares"), [
    ("residual", (0.9, 0.75, 0.57)), ("convolutions", (0.57,)), ("attention", (0.57,))])
def test_the_same_bits_in_fewer_bytes(kind, shares):
    want, step = run(kind)
    full, plan = planned(step)
    assert plan is None
    eager, _ = run(kind, budget=full // 2, mode=ms.PYNATIVE_MODE)
    for a, b in zip(want, eager, strict=True):
        np.testing.assert_array_equal(a, b)
    before = full
    for share in shares:
        got, step = run(kind, budget=int(full * share))
        for a, b in zip(want, got, strict=True):
            np.testing.assert_array_equal(a, b)
        found, plan = planned(step)
        assert found == plan.chosen.arena_bytes <= min(full * share, before)
        assert plan.trials[0].arena_bytes > full * share
        assert plan.chosen.flops > 0
        assert plan.recomputed
        before = found


def test_a_budget_that_does_not_bind_changes_nothing():
    _, plain = run("residual", steps=1)
    full, _ = planned(plain)
    _, step = run("residual", budget="1 GiB", steps=1)
    found, plan = planned(step)
    assert found == full
    assert not plan.recomputed
    assert plan.chosen.how == "nothing again"
    assert len(plan.trials) == 1


def test_the_least_possible_is_said_and_possible():
    with pytest.raises(ValueError, match=r"The least they can be planned in is .* Give a larger"):
        run("residual", budget="1KiB")
    try:
        run("residual", budget="1KiB")
    except ValueError as e:
        least = e.least
    assert planned(run("residual", budget=least, steps=1)[1])[0] == least
    with pytest.raises(ValueError, match="least"):
        run("residual", budget=least - 1)


def test_a_block_keeps_programs_apart_and_finds_them_again():
    net, x = network("residual")
    step = step_of(net)
    step(x)
    full = ms.explain(step).entries[0].arena_bytes
    for _ in range(3):
        with ms.recompute(budget=full // 2):
            step(x)
            ops.relu(x)
            with ms.recompute(budget="1TiB"):
                step(x)
        step(x)
    found = ms.explain(step)
    assert [e.arena_bytes <= full // 2 for e in found.entries] == [False, True, False]
    assert len(found.history) == 3
    assert f"within {full // 2} bytes" in found.history[1].signature


def test_what_computes_no_gradient_has_one_program():
    net, x = network("residual")
    with ms.recompute(budget="1KiB"):
        inside = net(x)
    assert inside.shape == net(x).shape
    assert len(ms.explain(net).entries) == 1
    with ms.recompute(budget="1KiB"):
        net(x)
    assert len(ms.explain(net).history) == 1


def test_marked_cells():
    losses = []
    for budget in (None, "330KiB"):
        net, x = network("residual")
        cell = nn.WithLossCell(net, nn.MSELoss())
        step = nn.TrainOneStepCell(cell, nn.Momentum(net.trainable_params(), 0.1, 0.9))
        step.set_train()
        if budget is not None:
            assert ms.recompute(net[0], budget="1GiB") is net[0]
            assert ms.recompute(net[3], budget="330KiB") is net[3]
        losses.append([float(step(x, x * 0.5)) for _ in range(3)])
        (facts,) = ms.explain(step).entries
        if budget is not None:
            assert facts.recomputed.budget == 330 * 1024  # the least of all
            assert facts.arena_bytes <= 330 * 1024
            ms.recompute(net[3], budget="310KiB")
            step(x, x)
            assert ms.explain(step).entries[0].recomputed.budget == 310 * 1024
    assert losses[0] == losses[1]


def test_model_and_a_class_of_cells():
    def train(mark):
        net, x = network("convolutions")
        if mark:
            ms.recompute(net, budget="200KiB")
        model = ms.Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.01))
        data = [(x, x * 0.1)] * 3
        model.train(1, data)
        return [p.asnumpy().copy() for p in net.get_parameters()]

    for a, b in zip(train(False), train(True), strict=True):
        np.testing.assert_array_equal(a, b)

    @ms.recompute(budget="200KiB")
    class Deep(nn.Cell):
        def __init__(self):
            super().__init__()
            self.blocks = nn.SequentialCell([Residual(24) for _ in range(8)])

        def construct(self, x):
            return self.blocks(x).sum()

    grad = ms.grad(Deep())
    grad(ms.Tensor(np.ones((64, 24), np.float32)))
    assert planned(grad)[0] <= 200 * 1024


def test_jitted_functions_and_methods():
    net, x = network("residual")
    grads = step_of(net)

    @ms.recompute(budget="200KiB")
    @ms.jit
    def step(x):
        """Documented."""
        return grads(x)

    assert step.__doc__ == "Documented."
    step(x)
    assert planned(step)[0] <= 200 * 1024

    @ms.jit
    def outer(x):
        return within(x)[0]

    within = ms.recompute(grads, budget="200KiB")
    outer(x)
    assert planned(outer)[0] <= 200 * 1024


class Controlled(nn.Cell):
    """Blocks around branches and loops of the run."""

    def __init__(self):
        super().__init__()
        self.first, self.second = Residual(24), Residual(24)
        self.third = Residual(24)

    def construct(self, x):
        x = self.first(x)
        if x.sum() > 0:
            x = ops.sin(x) * 2.0
        x = self.second(x)
        n = 0
        while n < 3 and ops.abs(x).max() < 50.0:
            x = x * 1.5 + ops.tanh(x)
            n += 1
        for _ in range(12):
            x = x + ops.tanh(x) * 0.1
        return self.third(x)


@pytest.mark.parametrize("mode", MODES)
def test_branches_and_loops_are_kept(mode):
    found = []
    for budget in (None, "1.65 MiB"):
        ms.set_context(mode=mode)
        ms.set_seed(2)
        net = Controlled()
        net.set_train()
        step = step_of(net)
        within = step if budget is None else ms.recompute(step, budget=budget)
        value, (dx, grads) = within(ms.Tensor(np.linspace(-1, 1, 1536, dtype=np.float32)
                                              .reshape(64, 24)))
        found.append([t.asnumpy() for t in (value, dx, *grads)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_gradients_inside_loops():
    net, x = network("residual")
    net.set_train(False)

    @ms.jit
    def descend(x):
        for _ in range(4):
            x = x - 0.1 * ms.grad(lambda x: (net(x) ** 2).mean())(x)
        return x

    want = descend(x)
    full = ms.explain(descend).entries[0].arena_bytes
    with ms.recompute(budget=full // 2):
        got = descend(x)
    assert ms.explain(descend).entries[1].arena_bytes <= full // 2
    np.testing.assert_array_equal(want.asnumpy(), got.asnumpy())


def test_two_gradients_in_one_program():
    one, x = network("residual")
    two, _ = network("residual")

    @ms.jit
    def both(x):
        first = ms.grad(lambda x: (one(x) ** 2).sum())(x)
        return first, ms.grad(lambda x: (two(x) ** 3).sum())(x - 0.1 * first)

    one.set_train(False)
    two.set_train(False)
    want = both(x)
    full = ms.explain(both).entries[0].arena_bytes
    with ms.recompute(budget=full // 2):
        got = both(x)
    assert ms.explain(both).entries[1].arena_bytes <= full // 2
    for a, b in zip(want, got, strict=True):
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())


def test_beside_cells_marked_by_hand():
    want, plain = run("residual", steps=1)
    ms.set_context(mode=ms.GRAPH_MODE)
    net, x = network("residual")
    for block in list(net)[:3]:
        block.recompute()
    step = step_of(net)
    loss, (dx, grads) = ms.recompute(step, budget=planned(plain)[0] // 2)(x)
    for a, b in zip(want, [loss, dx, *grads], strict=False):
        np.testing.assert_array_equal(a, b.asnumpy())


def test_open_sizes():
    net, x = network("residual")

    @ms.jit(dynamic=1)
    def step(x):
        return ms.grad(lambda x: (net(x) ** 2).sum())(x)

    net.set_train(False)
    for n in (64, 40):
        want = step(x[:n])
        with ms.recompute(budget="200KiB"):
            got = step(x[:n])
        np.testing.assert_array_equal(want.asnumpy(), got.asnumpy())


def test_the_report():
    _, step = run("residual", budget="200KiB", steps=1)
    said = str(ms.explain(step))
    assert "of a budget of 200.0 KiB; without recomputation" in said
    assert "kept for the gradient" in said
    assert "computed again" in said
    assert "FLOP" in said
    assert "test_recompute_budget.py:" in said  # lines of the source
    _, plan = planned(step)
    assert max(plan.after) <= plan.chosen.arena_bytes
    assert max(plan.before) <= plan.trials[0].arena_bytes
    assert sum(row.flops for row in plan.recomputed) == plan.chosen.flops
    _, again = run("residual", budget="200KiB", steps=1)  # from the cache on disk
    assert planned(again)[1] == plan


def test_budgets_in_words():
    assert [parse(b) for b in (4096, "4096", "2KiB", "1.5 MiB", "2 GB", "10 kb", "1TiB")] == [
        4096, 4096, 2048, 3 << 19, 2 * 10**9, 10**4, 1 << 40]


@pytest.mark.parametrize(("budget", "error", "message"), [
    ("2 apples", ValueError, "one of the units B, KiB, .* but got '2 apples'"),
    ("", ValueError, "one of the units"), ("MiB", ValueError, "one of the units"),
    ("-1MiB", ValueError, "one of the units"), (0, ValueError, "at least one byte"),
    ("0.1B", ValueError, "at least one byte"), (-5, ValueError, "at least one byte"),
    (1.5, TypeError, r"must be int \(bytes\) or str \('256MiB'\), but got float"),
    (True, TypeError, "but got bool"), (None, TypeError, "but got NoneType"),
])
def test_budgets_that_are_none(budget, error, message):
    with pytest.raises(error, match=message):
        ms.recompute(budget=budget)


def test_what_can_have_no_budget():
    with pytest.raises(TypeError, match="a budget is for a Cell or a function"):
        ms.recompute(ms.Tensor([1.0]), budget="1MiB")
    with pytest.raises(TypeError, match="a budget is for a Cell or a function"):
        ms.recompute(int, budget="1MiB")
    with pytest.raises(TypeError, match="takes a block to call, or a budget"):
        ms.recompute()


def test_a_block_that_has_an_argument_called_budget():
    class Spend(nn.Cell):
        def construct(self, x, budget):
            return x * budget

    assert float(ms.recompute(Spend(), ms.Tensor(3.0), budget=2.0)) == 6.0
