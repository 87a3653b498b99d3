"""Special methods of users' objects: cellc calls none that Python would not call there."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, jit, nn, ops
from cellc.verification import verify

X = Tensor(np.ones((2, 3), np.float32))
CALLED: list[str] = []
sys.special_methods_called = CALLED  # type: ignore[attr-defined]  # no global that verify compares


def told(name: str, error: type[Exception] | None) -> Callable[..., Any]:
    """A special method that notes its call, and fails, recurses or gives what Python's does."""
    def method(self: Any, *args: Any) -> Any:
        sys.special_methods_called.append(name)  # type: ignore[attr-defined]
        if error is not None:
            raise error(name)
        if name == "__getattr__":
            raise AttributeError(name)
        return {"__eq__": False, "__ne__": True, "__hash__": 1, "__bool__": True, "__len__": 1,
                "__contains__": False, "__iter__": iter(()), "__index__": 1}.get(name, "text")

    return method


NAMES = ("__eq__", "__ne__", "__hash__", "__bool__", "__len__", "__getattr__", "__repr__",
         "__str__", "__format__", "__iter__", "__contains__", "__getitem__", "__index__")
OF_CELLS = ("__eq__", "__ne__", "__hash__", "__bool__", "__len__", "__iter__", "__contains__",
            "__getitem__", "__str__", "__format__", "__index__")


class Odd:
    """Objects whose special methods may not be called: a config, a function, a Cell, a class."""

    def __init__(self, error: type[Exception] | None) -> None:
        special = {name: told(name, error) for name in NAMES}
        self.config = type("Config", (), {**special, "v": 2.0, "get": lambda s: s.v})
        self.function = type("Function", (), {**special, "__call__": lambda s, x: x * 2})
        self.cell = type("Layer", (Layer,), {n: told(n, error) for n in OF_CELLS})
        meta = type("Meta", (type,), {n: told(n, error) for n in ("__eq__", "__hash__", "__bool__",
                                                                   "__len__", "__iter__")})
        self.held = [type(base.__name__, (base,), {
            **{n: told(n, error) for n in NAMES if n != "__getattr__"},
            **{n: told(n, error) for n in ("keys", "values", "items") if base is dict}, "v": 2.0})
            for base in (list, dict, tuple, set)]
        self.kind = meta("Kind", (), {"v": 3.0, "__call__": lambda s, x: x * 2})


class Layer(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.w = ms.Parameter(np.ones(3, np.float32), name="w")

    def construct(self, x: Tensor) -> Tensor:
        return x * self.w


class Net(nn.Cell):
    """`body` is its construct, of itself and x."""

    def __init__(self, odd: Odd) -> None:
        super().__init__()
        self.dense = nn.Dense(3, 3)
        self.o, self.f, self.c, self.k = odd.config(), odd.function(), odd.cell(), odd.kind()
        self.kind = odd.kind
        self.functions, self.cells_too = [odd.function(), odd.cell()], nn.CellList([odd.cell()])
        self.by_name = {"f": odd.function(), "c": odd.cell(), "o": odd.config()}
        self.p = functools.partial(odd.function())
        self.li, self.di, self.tu, self.se = (kind() for kind in odd.held)
        self.kept: list[Any] = []


def loop(self: Any, x: Any) -> Any:
    for _ in range(30):
        x = x + self.o.v
    return x


def condition(self: Any, x: Any) -> Any:
    if x.sum() > 0:
        return x * self.o.v
    return self.c(x)


def several(self: Any, x: Any) -> Any:
    for f in (*self.functions, *self.cells_too):
        x = f(x)
    return x


def state(self: Any, x: Any) -> Any:
    self.o.v = self.o.v + 1
    self.last = self.o
    self.kept.append(self.o)
    return x * self.o.v * len(self.kept)


def told_apart(self: Any, x: Any) -> Any:
    found = any(o is self.o for o in (self.f, self.o))
    return x * 2 if found and self.o is not None and isinstance(self.o, type(self.o)) else x


BODIES: dict[str, Callable[[Any, Any], Any]] = {
    "config": lambda self, x: self.dense(x) * self.o.v,
    "method": lambda self, x: self.dense(x) * self.o.get(),
    "derived containers": lambda self, x: x * self.li.v * self.di.v * self.tu.v * self.se.v,
    "function": lambda self, x: self.f(x),
    "cell": lambda self, x: self.c(x),
    "container": lambda self, x: self.by_name["f"](x) + self.by_name["c"](x) * self.by_name["o"].v,
    "partial": lambda self, x: self.p(x),
    "class": lambda self, x: self.k(x) * self.kind.v * self.kind().v,
    "map": lambda self, x: sum(map(self.f, [x, x])),
    "reduce": lambda self, x: functools.reduce(lambda a, f: f(a), self.functions, x),
    "key": lambda self, x: x * sorted([1.0, 2.0], key=self.f)[0],
    "callable": lambda self, x: x if callable(self.f) else x * 2,
    "hasattr": lambda self, x: x * (self.o.v if hasattr(self.o, "v") else 1),
    "dict": lambda self, x: x * {"a": self.o}["a"].v,
    "result": lambda self, x: (x * 2, self.o)[0],
    "grad": lambda self, x: ms.grad(lambda y: self.f(y).sum())(x),
    "vmap": lambda self, x: ms.vmap(self.f)(x),
    "loop": loop, "condition": condition, "several": several, "state": state,
    "told apart": told_apart,
}
ERRORS = (None, AttributeError, RecursionError, KeyError)


def outputs(body: Callable[[Any, Any], Any], error: type[Exception] | None) -> list[Any]:
    """Three calls, gradients, a step of training and a verification of a network."""
    net = type("Net", (Net,), {"construct": body})(Odd(error))
    out = [net(X).asnumpy() for _ in range(3)]
    loss = type("Loss", (nn.Cell,), {"construct": lambda self, x: self.net(x).sum()})()
    loss.net = net
    out.append(ms.value_and_grad(loss, 0, net.trainable_params())(X)[0].asnumpy())
    step = nn.TrainOneStepCell(loss, nn.Adam(net.trainable_params(), 0.1))
    out += [step(X).asnumpy() for _ in range(2)]
    return out


@pytest.mark.parametrize("name", list(BODIES))
def test_no_special_method_is_called(name: str) -> None:
    CALLED.clear()
    found = []
    for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        ms.set_context(mode=mode)
        for error in ERRORS if mode == ms.GRAPH_MODE else ERRORS[:1]:
            ms.set_seed(0)
            found.append(outputs(BODIES[name], error))
    assert CALLED == []
    for other in found[:-1]:
        for a, b in zip(other, found[-1], strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["config", "several", "class", "state", "reduce"])
def test_verify_and_the_tools_of_cells_call_none(name: str) -> None:
    CALLED.clear()
    net = type("Net", (Net,), {"construct": BODIES[name]})(Odd(RecursionError))
    report = verify(net, X)
    assert report.status == 0, report
    assert len(net.parameters_dict()) == len(list(net.get_parameters())) > 3
    paths = [path for path, _ in net.cells_and_names()]
    assert paths == ["", "dense", "c", "cells_too", "cells_too.0"]
    net.set_train()
    net.to_float(ms.float16)
    net.update_parameters_name("a.")
    net.load_state_dict(net.state_dict())
    assert CALLED == []


# --- hints of a length ----------------------------------------------------------------------------


class Noted:
    """An object that notes the calls of its methods in a list that both modes can change."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def __iter__(self) -> Any:
        self.log.append("iter")
        return iter([1, 2])


class Sized(Noted):
    def __len__(self) -> int:
        self.log.append("len")
        return 2


class Hinted(Noted):
    def __length_hint__(self) -> int:
        self.log.append("hint")
        return 2


class Unsized(Hinted):
    def __len__(self) -> int:
        self.log.append("len")
        raise TypeError("no length")


class Hidden(Sized, Hinted):
    __len__ = None


class Negative(Sized):
    def __len__(self) -> int:
        self.log.append("len")
        return -1


class Elements(list[int]):
    def __init__(self, log: list[str]) -> None:
        super().__init__([1, 2])
        self.log = log

    def __len__(self) -> int:
        self.log.append("len")
        return 2


class Members(set[int]):
    def __init__(self, log: list[str]) -> None:
        super().__init__([1, 2])
        self.log = log

    def __len__(self) -> int:
        self.log.append("len")
        return 2


def last(*args: Any) -> Any:
    return args[-1]


class Walking(nn.Cell):
    """Walks through an object in each way that asks for a hint, or in each that asks for none."""

    def __init__(self, noted: Any, hints: bool) -> None:
        super().__init__()
        self.noted, self.hints = noted, hints

    def construct(self, x: Tensor) -> Tensor:
        o = self.noted
        if self.hints:
            a: list[int] = []
            a += o
            a.extend(o)
            return x + sum(list(o)) + tuple(o)[1] + [*o][1] + (0, *o)[1] + last(0, *o) \
                + sorted(o)[0] + sum(a)
        b = [0]
        b[:] = o
        first, *rest = o
        for v in o:
            x = x + v
        return x + max(o) + sum(v for v in o) + list(zip(o))[1][0] + len({*o}) + b[0] \
            + first + rest[0]


@pytest.mark.parametrize("hints", [True, False])
@pytest.mark.parametrize("kind", [Noted, Sized, Hinted, Unsized, Hidden, Elements, Members])
def test_a_list_asks_for_a_hint_where_python_does(kind: Any, hints: bool) -> None:
    noted: dict[int, Any] = {}
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        log: list[str] = []
        net = Walking(kind(log), hints)
        noted[mode] = [net(X).asnumpy().tolist() for _ in range(2)], log
    assert noted[ms.GRAPH_MODE] == noted[ms.PYNATIVE_MODE]


def test_a_hint_that_raises_is_an_error() -> None:
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        with pytest.raises(ValueError, match=r"__len__\(\) should return >= 0"):
            Walking(Negative([]), True)(X)


class Scale:
    """An object whose `__call__` is compiled by itself."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    @jit
    def __call__(self, x: Tensor) -> Tensor:
        return x * x * self.factor


class Scaled(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.scale = Scale(2.0)

    def construct(self, x: Tensor) -> Any:
        return self.scale(x), ops.GradOperation()(self.scale)(x)


def test_a_call_method_made_by_jit_is_part_of_the_graph() -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    net = Scaled()
    found = [[v.asnumpy().tolist() for v in net(Tensor([3.0]))]]
    net.scale.factor = 4.0
    found.append([v.asnumpy().tolist() for v in net(Tensor([3.0]))])
    assert found == [[[18.0], [12.0]], [[36.0], [24.0]]]
    assert ops.grad(net.scale)(Tensor([1.0])).item() == 8.0
