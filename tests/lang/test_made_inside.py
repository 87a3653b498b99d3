"""Objects and Cells of the user's classes that are made in `construct`: each call makes its own."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from cellc._extends import cell_attr_register

import cellc as ms
from cellc import Parameter, Tensor, nn, ops
from cellc.common.initializer import initializer
from cellc.lang.errors import CompileError

from ..modes.law import mode

X = Tensor(np.array([[1.0, 2.0]], np.float32))
STATE = {"count": 0, "value": 5}
TICKS = itertools.count()


def tick() -> int:
    STATE["count"] += 1
    return STATE["count"]


def value() -> int:
    return STATE["value"]


class Scale(nn.Cell):
    """Multiplies by what it was given or has counted."""

    def __init__(self, k: Any = None) -> None:
        super().__init__()
        self.k = tick() if k is None else k

    def construct(self, x: Any) -> Any:
        return x * self.k


class Inner(nn.Cell):
    def __init__(self, make: Callable[[], Any]) -> None:
        super().__init__()
        self.__dict__["made"] = [make()]

    def construct(self, x: Any) -> Any:
        return self.made[0](x) if callable(self.made[0]) else x + self.made[0]


class Dense(nn.Dense):
    def __init__(self, width: int) -> None:
        super().__init__(width, 2)


class Relu(nn.ReLU):
    def __init__(self) -> None:
        super().__init__()
        self.k = tick()

    def construct(self, x: Any) -> Any:
        return super().construct(x) * self.k


class Rows(nn.SequentialCell):
    def __init__(self, *cells: Any) -> None:
        super().__init__(*cells)
        self.many = len(cells) * value()

    def construct(self, x: Any) -> Any:
        return super().construct(x) * self.many


class Registered(nn.Cell):
    @cell_attr_register
    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k * tick()

    def construct(self, x: Any) -> Any:
        return x * self.k


class Setting(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.k = 1

    def __setattr__(self, name: str, given: Any) -> None:
        super().__setattr__(name, given + value() if name == "k" else given)

    def construct(self, x: Any) -> Any:
        return x * self.k


class NewCell(nn.Cell):
    def __new__(cls) -> Any:
        made = super().__new__(cls)
        made.__dict__["k"] = tick()
        return made

    def construct(self, x: Any) -> Any:
        return x * self.k


class Held(nn.Cell):
    def __init__(self, weight: Any) -> None:
        super().__init__()
        self.weight = weight

    def construct(self, x: Any) -> Any:
        return x * self.weight + self.weight


class Counting(type):
    def __call__(cls, *args: Any) -> Any:
        made = super().__call__(*args)
        made.k += tick()
        return made


class OfMeta(metaclass=Counting):
    def __init__(self, k: int) -> None:
        self.k = k + value()


class Kept(type):
    made: dict[Any, Any] = {}

    def __call__(cls, *args: Any) -> Any:
        if cls not in cls.made:
            cls.made[cls] = super().__call__(*args)
        return cls.made[cls]


class Single(metaclass=Kept):
    def __init__(self) -> None:
        self.k = tick()


class NewTuple(tuple[int, ...]):
    def __new__(cls, k: int) -> Any:
        return super().__new__(cls, (k, value()))


class NewPlain:
    def __new__(cls, k: int) -> Any:
        made = object.__new__(cls)
        made.k = k * value()
        return made


@dataclasses.dataclass
class Fields:
    k: int
    made: list[int] = dataclasses.field(default_factory=lambda: [tick()])
    start: dataclasses.InitVar[int] = 3
    total: int = dataclasses.field(default=0, init=False)

    def __post_init__(self, start: int) -> None:
        self.total = start + value()


@dataclasses.dataclass(frozen=True)
class Frozen:
    k: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", self.k * value())


@dataclasses.dataclass(slots=True)
class Slotted:
    k: int
    more: int = dataclasses.field(default=4, init=False)


class Told:
    """A descriptor that goes by what was there when it was set."""

    def __set_name__(self, owner: Any, name: str) -> None:
        self.name = "_" + name

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return getattr(owner, self.name) + value()

    def __set__(self, owner: Any, given: Any) -> None:
        setattr(owner, self.name, given * value())


class Described:
    k = Told()

    def __init__(self, k: int) -> None:
        self.k = k


class Pair(NamedTuple):
    a: int
    b: int = 2


ALIKE: dict[str, Callable[[Any], Any]] = {
    "a number": lambda x: Scale(2)(x),
    "a count": lambda x: Scale()(x),
    "a global that changes": lambda x: Scale(value())(x),
    "a tensor of the call": lambda x: Scale(x + 1)(x),
    "a draw": lambda x: Scale(random.random())(x),
    "a draw of ops": lambda x: Scale(ops.randn(1, 2))(x),
    "a Parameter it is given": lambda x: Held(WEIGHT)(x),
    "of a layer": lambda x: Relu()(x),
    "of a sequence": lambda x: Rows(nn.ReLU(), Scale())(x),
    "registered": lambda x: Registered(3)(x),
    "its own __setattr__": lambda x: Setting()(x),
    "its own __new__": lambda x: NewCell()(x),
    "under a condition": lambda x: Scale(2)(x) if x.sum() > 9 else Scale(3)(x),
    "a gradient": lambda x: ops.grad(Scale())(x),
    "a metaclass": lambda x: x * OfMeta(1).k,
    "a singleton": lambda x: x * Single().k,
    "a tuple with __new__": lambda x: x * NewTuple(3)[1],
    "__new__ alone": lambda x: x * NewPlain(3).k,
    "a factory of a field": lambda x: x * Fields(1).made[0],
    "__post_init__": lambda x: x * Fields(1, start=7).total + Frozen().k,
    "slots of a dataclass": lambda x: x * Slotted(1).more,
    "a descriptor": lambda x: x * Described(2).k,
    "a named tuple": lambda x: x * Pair(value()).a + Pair(1).b,
}
WEIGHT = Parameter(Tensor([3.0]), name="weight")


def calls(fn: Callable[[Any], Any], in_mode: int) -> list[Any]:
    """What three calls give, between which a value changes that they may read."""
    STATE.update(count=0, value=5)
    Kept.made.clear()
    random.seed(3)
    ms.set_seed(3)

    class Net(nn.Cell):
        def construct(self, x: Any) -> Any:
            return fn(x)

    net, found = Net(), []
    with mode(in_mode):
        for _ in range(3):
            found.append(net(X).asnumpy().tolist())
            STATE["value"] += 2
    return found


@pytest.mark.parametrize("name", ALIKE)
def test_each_call_makes_its_own(name: str) -> None:
    assert calls(ALIKE[name], ms.GRAPH_MODE) == calls(ALIKE[name], ms.PYNATIVE_MODE)


REFUSED: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "a layer": (lambda x: nn.Dense(2, 2)(x), "CE501", "nn.Dense(2, 2)(x)"),
    "a layer within": (lambda x: Inner(lambda: nn.Dense(2, 2))(x), "CE501", "nn.Dense(2, 2)"),
    "a layer by its base": (lambda x: Dense(2)(x), "CE501", "super().__init__(width, 2)"),
    "a layer in a sequence": (lambda x: Rows(nn.Dense(2, 2))(x), "CE501", "nn.Dense(2, 2)"),
    "a Parameter": (
        lambda x: Inner(lambda: Parameter(initializer("normal", (1, 2), ms.float32)))(x),
        "CE501", 'initializer("normal"'),
    "initial values": (
        lambda x: Inner(lambda: initializer("normal", (1, 2), ms.float32).init_data())(x),
        "CE501", 'initializer("normal"'),
    "an array of numpy": (lambda x: Inner(lambda: np.random.rand(1, 2))(x), "CE307", "rand(1, 2)"),
    "an iterator": (lambda x: Scale(next(TICKS))(x), "CE308", "next(TICKS)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_draws_once(name: str) -> None:
    fn, code, text = REFUSED[name]
    with pytest.raises(CompileError, match=rf"\[{code}\]\n  File ") as raised:
        calls(fn, ms.GRAPH_MODE)
    assert text in str(raised.value).split("\n  called from")[0]


def test_without_a_source() -> None:
    space: dict[str, Any] = {"tick": tick}
    exec("class Plain:\n    def __init__(self):\n        self.k = tick()\n", space)
    with pytest.raises(CompileError, match=r"Plain.__init__\(\) is not available(.|\n)*CE001"):
        calls(lambda x: x * space["Plain"]().k, ms.GRAPH_MODE)


class Unready(nn.Cell):
    def __init__(self) -> None:
        self.k = 4


def test_without_the_constructor_of_its_base() -> None:
    with pytest.raises(CompileError, match=r"super\(\).__init__(.|\n)*Unready\(\)\(x\)"):
        calls(lambda x: Unready()(x), ms.GRAPH_MODE)
