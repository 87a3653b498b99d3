"""Sizes that follow from elements: networks that find them as they run, in stages."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from string import Template
from typing import Any, NamedTuple

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops

from .networks import floats, open_tensor
from .test_open_sizes import assert_same, eagerly

pytestmark = pytest.mark.usefixtures("graph_mode")


def spread(x: Tensor) -> Tensor:
    return ops.round(x * 2)


FUNCTIONS: dict[str, Callable[[Tensor], Any]] = {
    "nonzero": lambda x: ops.nonzero(x > 0.5),
    "nonzero of floats": lambda x: ops.nonzero(spread(x)),
    "nonzero as tuple": lambda x: ops.nonzero(x > 0, as_tuple=True),
    "masked_select": lambda x: ops.masked_select(x, x > 0),
    "masked_select of a row mask": lambda x: ops.masked_select(x, x[0] > 0),
    "mask": lambda x: x[x > 0] * 2 + 1,
    "mask of rows": lambda x: x[x.sum(1) > 0],
    "mask of columns": lambda x: x[:, x.sum(0) > 0],
    "rows up to a number": lambda x: (x[ops.argmax(x[:, 0]) :: -1], x[: x[:, 1].argmin() : -2]),
    "unique": lambda x: ops.unique(spread(x).astype(ms.int32)),
    "unique of int64": lambda x: ops.unique(spread(x).astype(ms.int64)),
    "unique of floats": lambda x: ops.unique(ops.where(x > 1, float("nan"), spread(x))),
    "runs": lambda x: ops.unique_consecutive(spread(x), True, True),
    "runs of rows": lambda x: ops.unique_consecutive(x > 0, True, True, 0),
    "one after the other": lambda x: ops.masked_select(x, x > 0)[ops.masked_select(x, x > 0) < 1],
    "number": lambda x: x[x > 0].sum() / x[x > 0].shape[0],
    "made of that size": lambda x: ops.ones((ops.nonzero(x > 0).shape[0], 2)),
    "branch": lambda x: x if x[x > 0].shape[0] > 6 else x * 2,
    "product": lambda x: ops.matmul(x[x.sum(1) > 0], x.T),
    "two that meet": lambda x: x[x > 0] + ops.masked_select(x, x > 0),
    "gradient": lambda x: ms.grad(
        lambda z: (z[z > 0] ** 2).sum() + ops.masked_select(z, z < 0).mean())(x),
    "gradient of gradient": lambda x: ms.grad(
        lambda z: ms.grad(lambda y: (y[y > 0] ** 3).sum())(z).sum())(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    fn = FUNCTIONS[name]
    jitted = ms.jit(fn)
    rng = np.random.default_rng(0)
    for scale in (1, 1, 0, -1):
        x = Tensor((rng.standard_normal((4, 5)) * max(scale, 0) + min(scale, 0)).astype(np.float32))
        assert_same(jitted(x), eagerly(fn, x))


@pytest.mark.parametrize("name", ["nonzero", "mask of rows", "unique", "gradient"])
def test_any_size_of_the_input_too(name: str) -> None:
    fn = FUNCTIONS[name]
    jitted = ms.jit(fn, input_signature=open_tensor(None, 5))
    for n in (4, 2, 7, 1):
        assert_same(jitted(floats(n, 5)), eagerly(fn, floats(n, 5)))


class Counting(nn.Cell):
    """Keeps a running total and prints between the stages."""

    def __init__(self) -> None:
        super().__init__()
        self.total = ms.Parameter(np.zeros((), np.float32), name="total")
        self.w = ms.Parameter(floats(3, 2), name="w")

    def construct(self, x: Tensor) -> Tensor:
        print("in", x.sum())
        kept = x[x[:, 0] > 0]
        self.total = self.total + kept.sum()
        print("kept", kept)
        few = kept[kept[:, 1] > 0]
        print("few", few)
        self.total = self.total - few.sum()
        return ops.matmul(kept, self.w) + self.total


def test_parameters_and_prints(capfd: Any) -> None:
    net, plain = Counting(), Counting()
    for n in (4, 6, 4):
        got = net(floats(n, 3))
        shown = capfd.readouterr().out
        want = eagerly(plain, floats(n, 3))
        assert shown == capfd.readouterr().out, "each print once, in order"
        assert_same(got, want)
        assert_same(net.total, plain.total)


def test_training_on_the_rows_a_mask_chooses() -> None:
    def train() -> list[Any]:
        net = nn.Dense(3, 2, weight_init="ones", bias_init="zeros")
        opt = nn.Momentum(net.trainable_params(), 0.1, 0.9)

        def loss(x: Tensor) -> Tensor:
            return (net(x[x[:, 0] > 0]) ** 2).mean()

        step = ms.value_and_grad(loss, None, opt.parameters)

        @ms.jit
        def train_step(x: Tensor) -> Tensor:
            value, grads = step(x)
            opt(grads)
            return value

        out = [train_step(floats(n, 3)) for n in (5, 7, 5)]
        return [*out, *net.get_parameters()]

    compiled = train()
    ms.set_context(mode=ms.PYNATIVE_MODE)
    assert_same(compiled, train())


def test_what_was_read_is_watched() -> None:
    class Above(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.least = 0.0

        def construct(self, x: Tensor) -> Tensor:
            return x[x > self.least]

    net = Above()
    x = Tensor(np.array([1.0, 2.0, 3.0], np.float32))
    assert net(x).shape == (3,)
    net.least = 2.5
    assert net(x).shape == (1,)


WITH_OTHERS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "operand": lambda x, y: ops.masked_select(x, x > 0) + y,
    "joined": lambda x, y: ops.stack((x[x > 0], y)),
    "product": lambda x, y: ops.matmul(y, x[x > 0]),
    "sensitivity": lambda x, y: ms.vjp(lambda z: z[z > 0] ** 2, x)[1](y),
    "of a gradient": lambda x, y: ms.grad(lambda z: (z[z > 0] * y).sum())(x),
}


@pytest.mark.parametrize("name", WITH_OTHERS)
def test_sizes_that_fit_those_of_arguments(name: str) -> None:
    fn = WITH_OTHERS[name]
    jitted = ms.jit(fn)
    for n in (6, 7, 5, 6):
        x = Tensor(np.linspace(-1, 1, 2 * n, dtype=np.float32))
        y = Tensor(np.arange(n, dtype=np.float32))
        assert_same(jitted(x, y), eagerly(fn, x, y))
    with pytest.raises(ValueError, match=r"9|11"):
        jitted(Tensor(np.ones(11, np.float32)), Tensor(np.ones(9, np.float32)))


def test_sizes_that_turn_out_to_differ() -> None:
    @ms.jit
    def fn(x: Tensor) -> Tensor:
        a = x[x > 0]
        b = x[x < 1]
        return a + b

    assert_same(fn(Tensor([0.5, 0.25])), Tensor([1.0, 0.5]))
    with pytest.raises(ValueError, match="axis -1 is found_a_bool_index") as caught:
        fn(Tensor([0.5, 0.75, 2.0, 3.0]))
    text = str(caught.value)
    assert "return a + b" in text and "from line" in text
    assert "is 4 in this call: the number that 'a bool index' found at" in text


@pytest.mark.parametrize("body", ["branch", "loop"])
def test_in_a_branch_or_loop_that_depends_on_elements(body: str) -> None:
    @ms.jit
    def fn(x: Tensor) -> Tensor:
        total = x.sum()
        if body == "branch":
            if x.sum() > 0:
                total = x[x > 0].sum()
        else:
            while total < 10:
                total = total + x[x > 0].sum() + 1
        return total

    for x in (floats(3), -floats(3), floats(3) * 4):
        assert_same(fn(x), eagerly(fn, x))


@pytest.mark.parametrize("power", [
    lambda n: n**5, lambda n: n**20, lambda n: 2**n, lambda n: n**n, lambda n: (1000000 * n) ** 8,
    lambda n: n**-1, lambda n: n**0.5])
def test_powers_of_sizes(power: Callable[[int], Any]) -> None:
    """Of ints they are ints, of any size: floats lose bits beyond 2^53."""
    def fn(x: ms.Tensor) -> ms.Tensor:
        return x + power(x.shape[0])

    compiled = ms.jit(fn)
    for n in (3, 5, 7, 9):
        x = ms.Tensor(np.zeros(n, np.int64))
        want, got = fn(x), compiled(x)
        assert got.dtype == want.dtype
        assert got.asnumpy().tobytes() == want.asnumpy().tobytes()


class Pair(NamedTuple):
    n: int


@dataclass(frozen=True)
class Point:
    n: int
    n7: int = 4


LOOKED_AT: dict[str, Callable[[Any, int], Any]] = {
    "f-string": lambda x, n: f"{n}" == "7", "format": lambda x, n: f"{n:3d}" == "  7",
    "str.format": lambda x, n: "{}".format(n) == "7",  # noqa: UP032
    "percent": lambda x, n: "%d" % n == "7",  # noqa: UP031
    "str": lambda x, n: str(x.shape) == "(7,)", "repr": lambda x, n: repr([n]) == "[7]",
    "float": lambda x, n: str(n / 2) == "3.5", "method": lambda x, n: n.__str__() == "7",
    "starts": lambda x, n: f"{n}".startswith("7"),
    "key of text": lambda x, n: {"layer7": 3}.get(f"layer{n}", 1),
    "dict": lambda x, n: {3: 1, 5: 2, 7: 3}.get(n, 9), "item": lambda x, n: {3: 1, 5: 2, 7: 3}[n],
    "key": lambda x, n: len({n: 1, 7: 2}),
    "pairs": lambda x, n: len(dict(zip([n, 7], [1, 2], strict=True))),
    "keys of a dict": lambda x, n: n in {3: 1, 7: 2}.keys(),  # noqa: SIM118
    "fromkeys": lambda x, n: dict.fromkeys([n], 3).get(7, 1),
    "comprehension": lambda x, n: {k: k + 0 for k in (n, 3)}.get(7, 0),
    "set": lambda x, n: len({n, 7}), "elements": lambda x, n: len(set([n, 7])),  # noqa: C405
    "in a set": lambda x, n: n in {3, 5}, "in a dict": lambda x, n: (n, 1) in {(7, 1): 2},
    "hash": lambda x, n: hash((n, 2)) == hash((7, 2)), "type": lambda x, n: type(n) is int,
    "type of a float": lambda x, n: type(n / 2) is float, "same": lambda x, n: x.shape[0] is not n,
    "slice": lambda x, n: slice(n).stop, "count": lambda x, n: Counter([n, 7])[7],
    "ordered": lambda x, n: OrderedDict([(n, 1)]).get(7, 0),
    "template": lambda x, n: Template("$n").substitute(n=n) == "7",
    "tuple": lambda x, n: hash(Pair(n)) == hash(Pair(7)),
    "text of a tuple": lambda x, n: str(Pair(n)) == "Pair(n=7)",
    "object": lambda x, n: len({Point(n), Point(7)}),
    "text of an object": lambda x, n: f"{Point(n)}" == "Point(n=7, n7=4)",
    "object as a key": lambda x, n: {Point(7): 3}.get(Point(n), 1),
    "attribute": lambda x, n: getattr(Point(7), f"n{n}", 1),
}


@pytest.mark.parametrize("what", LOOKED_AT)
def test_sizes_that_python_shows_or_hashes(what: str) -> None:
    """There an open size counts as the int that it is in the call."""
    looked = LOOKED_AT[what]

    def fn(x: ms.Tensor) -> ms.Tensor:
        return x + looked(x, x.shape[0])

    compiled = ms.jit(fn)
    for n in (3, 5, 7):
        x = ms.Tensor(np.zeros(n, np.float32))
        assert compiled(x).asnumpy().tolist() == fn(x).asnumpy().tolist(), n


def test_keys_that_are_assigned() -> None:
    def fn(x: ms.Tensor) -> ms.Tensor:
        table: dict[int, int] = {}
        table[x.shape[0]] = 5
        return x + table.get(7, 2)

    compiled = ms.jit(fn)
    for n in (3, 5, 7):
        x = ms.Tensor(np.zeros(n, np.float32))
        assert compiled(x).asnumpy().tolist() == fn(x).asnumpy().tolist(), n
