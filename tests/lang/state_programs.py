"""Small programs with Python state: what PyNative does to Python objects, call after call.

A program is made anew for each mode: a function of one tensor, and what tells the state after a
call. Where a compiled network cannot do the same, the program names the error.
"""

from __future__ import annotations

import array
import contextlib
import datetime
import io
import itertools
import logging
import os
import random
import sys
import time
import uuid
import warnings
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import cellc as ms
from cellc import Parameter, Tensor, nn, ops
from cellc.common.initializer import initializer

Made = tuple[Callable[..., Any], Callable[[], Any]]


@dataclass(frozen=True)
class Program:
    """A program: its name, how it is made, and the code of its error in graph mode, or ""."""

    name: str
    make: Callable[[], Made]
    code: str


PROGRAMS: list[Program] = []


def program(make: Callable[[], Made] | None = None, *, code: str = "") -> Any:
    """Put a program into the table."""
    if make is None:
        return lambda fn: program(fn, code=code)
    PROGRAMS.append(Program(make.__name__, make, code))
    return make


def cell(construct: Callable[..., Any], **attributes: Any) -> Any:
    """A Cell with this `construct` and these attributes."""
    made = type("Net", (nn.Cell,), {"construct": construct})()
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def net(construct: Callable[..., Any], *shown: str, **attributes: Any) -> Made:
    """A Cell; its state is what the attributes `shown` hold (default: all that were given)."""
    made = cell(construct, **attributes)
    names = shown or tuple(attributes)
    return made, lambda: [getattr(made, n) for n in names]


@dataclass
class Helper:
    """A plain object that networks change."""

    count: int = 0
    seen: list[Any] = field(default_factory=list)

    def hit(self, by: int = 1) -> int:
        """Count; the new count."""
        self.count += by
        return self.count


# --- numbers --------------------------------------------------------------------------------------


@program
def counter() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.n = self.n + 1
        return x * self.n

    return net(construct, n=0)


@program
def counter_in_place() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        y = x * self.n
        self.n += 2
        return y + self.n

    return net(construct, n=5)


@program
def float_that_decays() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.rate = self.rate * 0.9
        return x * self.rate

    return net(construct, rate=0.1)


@program
def bool_that_toggles() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.odd = not self.odd
        return x + 1 if self.odd else x.sum()

    return net(construct, odd=False)


@program
def number_of_the_run() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.total = self.total + float(x.sum())
        return x / self.total

    return net(construct, total=1.0)


@program
def first_call_is_special() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.calls += 1
        if self.calls == 1:
            return x, x * 2
        return x

    return net(construct, calls=0)


@program
def every_third_call() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.step += 1
        if self.step % 3 == 0:
            self.fired = self.fired + 1
            x = -x
        return x

    return net(construct, step=0, fired=0)


@program
def number_as_a_shape() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.n = self.n % 3 + 1
        return ops.ones((self.n, 2)) * x

    return net(construct, n=0)


@program
def number_of_trips() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.n = (self.n + 1) % 4
        for i in range(self.n):
            x = x + i
        return x

    return net(construct, n=0)


@program
def number_as_an_index() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        y = self.scales[self.at] * x
        self.at = (self.at + 1) % 3
        return y

    return net(construct, scales=[1.0, 10.0, 100.0], at=0)


@program
def number_under_a_tensors_condition() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        if x.sum() > 4:
            self.large += 1
        return x * self.large

    return net(construct, large=0)


@program
def number_in_a_loop_of_the_run() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        while x.sum() < 20:
            x = x * 2
            self.doublings += 1
        return x + self.doublings

    return net(construct, doublings=0)


@program
def number_in_a_long_loop() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        for _ in range(40):
            self.k = self.k + 1
            x = ops.sin(x) * self.k + ops.cos(x) * ops.tanh(x) + ops.erf(x) / 3
        return x

    return net(construct, k=0)


@program
def number_that_changes_its_kind() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.n = self.n / 2
        return x * self.n

    return net(construct, n=8)


@program
def number_in_a_text() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.n += 1
        self.log.append(f"step {self.n} of {x.shape}")
        return x

    return net(construct, n=0, log=[])


@program
def number_given_to_math() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.n = self.n + 1
        return x * float(np.cos(self.n))

    return net(construct, n=0)


@program
def only_written() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.shape = x.shape
        self.last = float(x.sum())
        return x

    return net(construct, shape=None, last=0.0)


# --- other values ---------------------------------------------------------------------------------


@program
def string_that_alternates() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.turn = "b" if self.turn == "a" else "a"
        return x * 2 if self.turn == "a" else x

    return net(construct, turn="a")


@program(code="CE501")
def property_of_cells() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.phase = "predict"
        return x

    return net(construct, "phase")


@program
def none_first() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        if self.best is None:
            self.best = 0.0
        self.best = max(self.best, float(x.sum()))
        return x * self.best

    return net(construct, best=None)


@program
def tuple_that_shifts() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        a, b = self.pair
        self.pair = (b, a + b)
        return x * a

    return net(construct, pair=(1, 1))


@program
def new_attribute() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        if not hasattr(self, "scale"):
            self.scale = 3.0
        return x * self.scale

    return net(construct, "scale")


@program(code="CE502")
def string_under_a_tensors_condition() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        if x.sum() > 4:
            self.mode = "large"
        return x

    return net(construct, mode="small")


# --- containers -----------------------------------------------------------------------------------


@program
def history() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.hist.append(1)
        return x

    return net(construct, hist=[])


@program
def history_that_is_read() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.hist.append(2)
        return x * len(self.hist)

    return net(construct, hist=[])


@program
def history_of_tensors() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        y = x.sum()
        self.losses.append(y)
        return y

    return net(construct, losses=[])


@program
def history_under_a_condition() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        if x.sum() > 4:
            self.large.append(x.sum())
        return x

    return net(construct, large=[])


@program
def collected_features() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.features = []
        for k in range(3):
            x = x + k
            self.features.append(x)
        return x

    return net(construct, features=None)


@program
def memo() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        if x.shape not in self.cache:
            self.cache[x.shape] = ops.arange(x.shape[0]) * 2
        return x + self.cache[x.shape]

    return net(construct, cache={})


@program
def dict_of_counts() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.counts["calls"] = self.counts["calls"] + 1
        return x * self.counts["calls"]

    return net(construct, counts={"calls": 0})


@program
def set_of_shapes() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.shapes.add(x.shape)
        return x

    return net(construct, shapes=set())


@program
def queue() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.last.append(float(x.sum()))
        return x

    return net(construct, last=deque([0.0], maxlen=2))


@program
def list_item_in_place() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.box[0] += 1
        return x * self.box[0]

    return net(construct, box=[0])


@program
def popped() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        return x * self.todo.pop()

    return net(construct, todo=[1, 2, 3, 4, 5, 6, 7])


@program
def nested_containers() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.table["a"].append(float(x.sum()))
        return x

    return net(construct, table={"a": []})


@program
def default_dict() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.groups[x.ndim] += 1
        return x * self.groups[x.ndim]

    return net(construct, groups=defaultdict(int))


@program
def counter_of_collections() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.seen.update(["a", "b", "a"])
        return x * self.seen["a"]

    return net(construct, seen=Counter())


@program
def ordered_dict() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.order.move_to_end("a")
        first = next(iter(self.order))
        self.order["a"], self.order["b"] = self.order["b"], self.order["a"]
        return x * self.order[first]

    return net(construct, order=OrderedDict(a=1, b=2))


@program
def array_in_place() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.table[0] += 1.5
        return x + Tensor(self.table)

    return net(construct, table=np.zeros(2, np.float32))


@program
def alias() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        here = self.a
        here.append(len(here))
        self.b = here
        return x * len(self.b)

    return net(construct, a=[], b=None)


@program
def list_given_as_an_argument() -> Made:
    given: list[Any] = []

    def construct(self: Any, x: Tensor, out: list[Any]) -> Any:
        out.append(x * 2)
        return x

    made = cell(construct)
    return lambda x: made(x, given), lambda: given


@program
def mutable_default() -> Made:
    def construct(self: Any, x: Tensor, seen: list[int] = []) -> Any:  # noqa: B006
        seen.append(1)
        return x * len(seen)

    return net(construct, "training")


# --- tensors and parameters -----------------------------------------------------------------------


@program
def tensor_in_an_attribute() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.h = self.h * 0.5 + x
        return self.h

    return net(construct, h=Tensor(np.zeros(2, np.float32)))


@program
def tensor_under_a_condition() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        if x.sum() > self.best.sum():
            self.best = x
        return self.best * 2

    return net(construct, best=Tensor(np.zeros(2, np.float32)))


@program
def last_output() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.last = ops.relu(x)
        return self.last.sum()

    return net(construct, last=None)


@program
def parameters_mixed_in() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.step += 1
        self.w += x * self.step
        ops.assign(self.v, self.w * self.step)
        return self.w + self.v

    return net(construct, step=0, w=Parameter(Tensor([0.0, 0.0]), name="w"),
               v=Parameter(Tensor([1.0, 1.0]), name="v"))


@program
def batch_norm_and_a_counter() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.n += 1
        return self.norm(ops.stack([x, x * self.n]))

    made = cell(construct, n=0, norm=nn.BatchNorm1d(2)).set_train()
    return made, lambda: [made.n, made.norm.moving_mean, made.norm.moving_variance]


# --- objects, classes, child Cells ----------------------------------------------------------------


@program
def child_cell() -> Made:
    def inside(self: Any, x: Tensor) -> Any:
        self.n += 1
        return x + self.n

    def construct(self: Any, x: Tensor) -> Any:
        return self.child(self.child(x))

    child = cell(inside, n=0)
    return cell(construct, child=child), lambda: child.n


@program
def child_cells_in_a_list() -> Made:
    def inside(self: Any, x: Tensor) -> Any:
        self.n += 1
        self.sums.append(x.sum())
        return x * self.n

    def construct(self: Any, x: Tensor) -> Any:
        for child in self.children_:
            x = child(x)
        return x

    children = [cell(inside, n=k, sums=[]) for k in range(3)]
    return cell(construct, children_=nn.CellList(children)), \
        lambda: [(c.n, c.sums) for c in children]


@program
def helper_object() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.helper.count += 1
        self.helper.seen.append(self.helper.count)
        return x * self.helper.count

    helper = Helper()
    return cell(construct, helper=helper), lambda: [helper.count, helper.seen]


@program
def method_of_a_helper() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        return x * self.helper.hit() + self.helper.hit(3)

    helper = Helper()
    return cell(construct, helper=helper), lambda: helper.count


@program
def class_attribute() -> Made:
    class Net(nn.Cell):
        made = 0

        def construct(self, x: Tensor) -> Any:
            Net.made += 1
            return x * Net.made

    return Net(), lambda: Net.made


@program
def class_attribute_shadowed() -> Made:
    class Net(nn.Cell):
        n = 10

        def construct(self, x: Tensor) -> Any:
            self.n += 1
            return x * self.n

    found = Net()
    return found, lambda: [found.n, Net.n]


@program
def property_with_a_setter() -> Made:
    class Gauge:
        def __init__(self) -> None:
            self._level = 0

        @property
        def level(self) -> int:
            return self._level

        @level.setter
        def level(self, value: int) -> None:
            self._level = value + 1

    def construct(self: Any, x: Tensor) -> Any:
        self.gauge.level = self.gauge.level * 2
        return x * self.gauge.level

    gauge = Gauge()
    return cell(construct, gauge=gauge), lambda: gauge._level


@program
def slots() -> Made:
    class Slotted:
        __slots__ = ("n",)

    def construct(self: Any, x: Tensor) -> Any:
        self.slotted.n += 1
        return x * self.slotted.n

    slotted = Slotted()
    slotted.n = 0
    return cell(construct, slotted=slotted), lambda: slotted.n


@program
def container_of_the_users() -> Made:
    class Ring:
        def __init__(self) -> None:
            self.items = [1.0, 2.0, 3.0]
            self.reads = 0

        def __getitem__(self, at: int) -> float:
            self.reads += 1
            return self.items[at]

        def __setitem__(self, at: int, value: float) -> None:
            self.items[at] = value

        def __len__(self) -> int:
            return len(self.items)

    def construct(self: Any, x: Tensor) -> Any:
        self.ring[1] = self.ring[0] + len(self.ring)
        self.ring[0] = self.ring[1]
        return x * self.ring[0]

    ring = Ring()
    return cell(construct, ring=ring), lambda: [ring.items, ring.reads]


@program
def operators_of_the_users() -> Made:
    class Meter:
        def __init__(self) -> None:
            self.total, self.looks = 0.0, 0

        def __iadd__(self, value: float) -> Meter:
            self.total += value
            return self

        def __mul__(self, by: Any) -> Any:
            self.looks += 1
            return by * self.total

        def __contains__(self, value: float) -> bool:
            self.looks += 1
            return value < self.total

        def __bool__(self) -> bool:
            return self.total > 9

        def __iter__(self) -> Iterator[float]:
            return iter([self.total, 1.0])

        def __eq__(self, other: object) -> bool:
            self.looks += 1
            return other == self.total

        __hash__ = None  # type: ignore[assignment]

    def construct(self: Any, x: Tensor) -> Any:
        self.meter += float(x.sum())
        y = self.meter * x
        if 5.0 in self.meter:
            y = y + 1
        if self.meter == 3.0:
            y = y + 2
        for v in self.meter:
            y = y + v
        return y * 2 if self.meter else y

    meter = Meter()
    return cell(construct, meter=meter), lambda: [meter.total, meter.looks]


@program(code="CE404")
def operand_with_an_effect() -> Made:
    class Meter:
        looks = 0

        @property
        def open(self) -> bool:
            self.looks += 1
            return self.looks > 2

    def construct(self: Any, x: Tensor) -> Any:
        return x * 2 if x.sum() > 4 or self.meter.open else x

    meter = Meter()
    return cell(construct, meter=meter), lambda: meter.looks


@program
def generator_function() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        for k in numbers(self.helper):
            x = x + k
        return x

    def numbers(helper: Helper) -> Iterator[int]:
        yield from range(helper.count, helper.count + len(table))

    def call(x: Tensor) -> Any:
        helper.count += 1
        table.append(0)
        return made(x)

    helper, table = Helper(), [0]
    made = cell(construct, helper=helper)
    return call, lambda: [helper.count, table]


@program
def generator_function_that_changes() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        for k in numbers(self.helper):
            x = x + k
        return x

    def numbers(helper: Helper) -> Iterator[int]:
        helper.count += 1
        yield helper.count

    helper = Helper()
    return cell(construct, helper=helper), lambda: helper.count


class Doubling(list):  # type: ignore[type-arg]
    """A list that stores what it is not given."""

    def __init__(self, *values: Any) -> None:
        super().__init__(*values)
        self.stored = 0

    def append(self, value: Any) -> None:
        self.stored += 1
        super().append(value * 2)

    def __setitem__(self, place: Any, value: Any) -> None:
        super().__setitem__(place, value + 1)


class Filling(dict):  # type: ignore[type-arg]
    """A dict that stores more, fills itself and counts what is deleted."""

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value * 2)

    def __missing__(self, key: Any) -> Any:
        self[key] = 5
        return self.get(key)

    def __delitem__(self, key: Any) -> None:
        super().__delitem__(key)
        self["deleted"] = len(self)


@program
def containers_with_methods_of_their_own() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.some.append(3)
        self.some[0] = self.some[0] + 1
        self.named["new"] = self.named["asked"]
        del self.named["new"]
        own = Doubling([x.sum()])
        self.kept.append(own)
        own.append(1)
        return x + len(self.some) + self.named["asked"]

    kept: list[Any] = []
    made, state = net(construct, some=Doubling([1]), named=Filling(a=1), kept=kept)
    return made, lambda: [*state(), made.some.stored, [k.stored for k in kept]]


@program
def missing_keys() -> Made:
    def made_and_told() -> list[Any]:
        log.append("made")
        return []

    def inner() -> defaultdict[Any, int]:
        return defaultdict(int)

    def construct(self: Any, x: Tensor) -> Any:
        self.lists["k"].append(len(self.lists))
        if x.sum() > 4:
            self.lists["large"].append(1)
        self.told[len(self.told)].append(self.lists["k"])
        self.deep["a"]["b"] += 1
        return x + self.deep["a"]["b"] + self.deep["z"]["read"]

    log: list[Any] = []
    made, state = net(construct, lists=defaultdict(list), told=defaultdict(made_and_told),
                      deep=defaultdict(inner))
    return made, lambda: [*state(), list(log)]


@program
def containers_written_in_python() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.named["k"] = self.named["k"] + 1
        self.named.setdefault("z", []).append(1)
        self.listed.append(len(self.listed))
        self.listed += [2]
        self.listed.sort(key=lambda v: -v)
        self.chain["k"] = self.chain["k"] + 1
        self.counts.update("abc")
        self.counts.subtract(a=2)
        self.ordered.move_to_end("a")
        self.ordered.popitem(last=False)
        self.ordered[str(len(self.counts))] = x.sum()
        return x * self.named["k"] + self.listed[0] + self.chain["k"]

    made, state = net(
        construct, named=UserDict(k=1), listed=UserList([1]), chain=ChainMap({}, {"k": 1}),
        counts=Counter("aab"), ordered=OrderedDict(a=1, b=2))
    return made, lambda: [made.named.data, made.listed.data, made.chain.maps, *state()[3:]]


@program
def containers_of_machine_numbers() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.ints.append(3)
        self.ints[0] = self.ints[0] + 1
        self.raw.extend(b"zz")
        del self.raw[0]
        own = array.array("d", [1.5])
        self.kept.append(own)
        own.append(2.5)
        return x + self.ints[0] + len(self.raw)

    made, _ = net(construct, ints=array.array("i", [1, 2]), raw=bytearray(b"ab"), kept=[])
    return made, lambda: [made.ints.tolist(), list(made.raw), [k.tolist() for k in made.kept]]


@program
def containers_that_grow_by_what_is_in_them() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.listed.append(len(self.listed))
        self.some.add(max(self.some) + 1)
        self.kept.extend(self.kept)
        return x + len(self.listed) + len(self.some) + len(self.kept)

    return net(construct, listed=[1], some={1}, kept=[1])


@program
def iterators_into_containers() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.listed.extend(map(int, "12"))
        self.listed += (i for i in (1, 2))
        self.listed[0:1] = reversed([3, 4])
        self.listed.sort(key=lambda v: -v)
        self.named.update(zip("ab", enumerate((5, 6)), strict=True))
        self.some.update(filter(None, (0, 1)))
        return x + len(self.listed)

    return net(construct, listed=[0], named={}, some={5})


@program
def attributes_of_numbers_of_the_run() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.n += 1
        n, f = int(x[0] * 2), float(x[1])
        self.seen = [n.real, n.imag, f.real, f.imag, n.bit_length(), n.numerator, n.denominator,
                     n.conjugate(), f.is_integer(), f.as_integer_ratio(), f.hex(), pow(n, 2, 5),
                     self.n.bit_length(), n.to_bytes(2, "big")]
        return x, f.is_integer(), n.bit_length(), self.n.real

    return net(construct, "seen", n=0, seen=None)


@program
def layer_without_parameters_made_in_construct() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        both = nn.SequentialCell([self.norm, nn.ReLU()])
        return both(x) + ops.ones_like(initializer("ones", (2,), ms.float32).init_data())

    return net(construct, "training", norm=nn.LayerNorm((2,)))


@program(code="CE501")
def layer_made_in_construct() -> Made:
    return net(lambda self, x: nn.Dense(2, 2)(x), "training")


@program(code="CE501")
def cell_with_parameters_made_in_construct() -> Made:
    class Scale(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.scale = Parameter(ops.ones(2), name="scale")

    def construct(self: Any, x: Tensor) -> Any:
        return x * Scale().scale

    return net(construct, "training")


@program(code="CE501")
def initial_values_drawn_in_construct() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        return x + initializer("normal", (2,), ms.float32).init_data()

    return net(construct, "training")


@program(code="CE501")
def elements_of_a_view_of_memory() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.view[0] = 1
        return x

    return net(construct, "training", view=memoryview(bytearray(b"ab")))


@contextlib.contextmanager
def entered(log: list[Any], tag: str, caught: Any = ()) -> Iterator[str]:
    """A manager that tells what it does."""
    log.append(f"{tag} in")
    try:
        yield tag
    except caught:
        log.append(f"{tag} caught")
    finally:
        log.append(f"{tag} out")


@program
def managers_of_generators() -> Made:
    @contextlib.contextmanager
    def plain(log: list[Any]) -> Iterator[list[Any]]:
        with entered(log, "inner"):
            yield log
        log.append("end")

    def construct(self: Any, x: Tensor) -> Any:
        with plain(self.log) as log, entered(self.log, "b"):
            log.append(len(self.log))
            if x.sum() > 4:
                return x
        return x * 2

    return net(construct, log=[])


@program
def managers_that_catch() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        with entered(self.log, "a", KeyError):
            raise KeyError("k")
        with entered(self.log, "b", ValueError), contextlib.suppress(KeyError):
            if x.sum() > 4:
                raise ValueError("large")
            {}["k"]
        return x

    return net(construct, log=[])


@program
def exit_stack() -> Made:
    class Tool:
        def __init__(self, log: list[Any]) -> None:
            self.log = log

        def close(self) -> None:
            self.log.append("closed")

    def construct(self: Any, x: Tensor) -> Any:
        with contextlib.ExitStack() as stack:
            for tag in ("a", "b"):
                stack.enter_context(entered(self.log, tag))
            stack.enter_context(contextlib.closing(Tool(self.log)))
            stack.callback(self.log.append, "called")
            stack.push(lambda *error: self.log.append(error[0] is None))
            kept = stack.pop_all()
        self.log.append("between")
        kept.close()
        return x

    return net(construct, log=[])


@program
def managers_as_decorators() -> Made:
    log: list[Any] = []

    class Own(contextlib.ContextDecorator):
        def __enter__(self) -> None:
            log.append("own in")

        def __exit__(self, *error: Any) -> None:
            log.append("own out")

    @entered(log, "deco")
    @Own()
    def doubled(x: Tensor) -> Tensor:
        log.append("body")
        return x * 2

    def construct(self: Any, x: Tensor) -> Any:
        return doubled(x)

    return cell(construct), lambda: list(log)


@program
def generators_over_tensors() -> Made:
    def inner(x: Tensor, log: list[Any]) -> Iterator[Any]:
        for i in range(2):
            log.append((yield x * i))
        return 5

    def outer(x: Tensor, log: list[Any]) -> Iterator[Any]:
        log.append((yield from inner(x, log)))
        if x.sum() > 4:
            log.append("large")
            yield x

    def construct(self: Any, x: Tensor) -> Any:
        sent = inner(x, self.log)
        next(sent)
        total = sent.send("sent")
        sent.close()
        for part in outer(x, self.log):
            total = total + part
        return total

    return net(construct, log=[])


@program(code="CE308")
def exit_stack_made_outside() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.stack.callback(len, "")
        return x

    return net(construct, "training", stack=contextlib.ExitStack())


@program(code="CE501")
def standard_output_redirected() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        with contextlib.redirect_stdout(self.text):
            print(x.shape)
        return x

    return net(construct, "training", text=Helper())


@program
def new_object_each_call() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.latest = Helper(self.latest.count + 1, [x.sum()])
        return x * self.latest.count

    made = cell(construct, latest=Helper())
    return made, lambda: [made.latest.count, made.latest.seen]


# --- functions ------------------------------------------------------------------------------------

_CALLS = 0
_LAST: Any = None
_SEEN: list[int] = []


@program
def global_number() -> Made:
    global _CALLS
    _CALLS = 0

    @ms.jit
    def fn(x: Tensor) -> Any:
        global _CALLS
        _CALLS += 1
        return x * _CALLS

    return fn, lambda: _CALLS


@program
def global_list() -> Made:
    _SEEN.clear()

    @ms.jit
    def fn(x: Tensor) -> Any:
        _SEEN.append(1)
        return x * len(_SEEN)

    return fn, lambda: _SEEN


@program
def global_tensor_under_a_condition() -> Made:
    global _LAST
    _LAST = None

    @ms.jit
    def fn(x: Tensor) -> Any:
        global _LAST
        _LAST = x + 1
        if x.sum() > 4:
            _LAST = x * 2
        return _LAST * 3

    return fn, lambda: _LAST


@program
def nonlocal_tensor_of_a_helper() -> Made:
    seen, last = 0, Tensor([0.0, 0.0])

    def note(v: Tensor) -> None:
        nonlocal seen, last
        seen += 1
        last = last + v

    @ms.jit
    def fn(x: Tensor) -> Any:
        note(x)
        note(x * 2)
        return last * seen

    return fn, lambda: (seen, last)


@program
def nonlocal_number() -> Made:
    n = 0

    @ms.jit
    def fn(x: Tensor) -> Any:
        nonlocal n
        n += 1
        return x * n

    return fn, lambda: n


@program
def captured_list() -> Made:
    seen = [0]

    @ms.jit
    def fn(x: Tensor) -> Any:
        seen[0] += 1
        return x * seen[0]

    return fn, lambda: seen


@program
def captured_object() -> Made:
    helper = Helper()

    @ms.jit
    def fn(x: Tensor) -> Any:
        return x * helper.hit()

    return fn, lambda: helper.count


@program
def jitted_method() -> Made:
    class Model:
        def __init__(self) -> None:
            self.n = 0

        @ms.jit
        def run(self, x: Tensor) -> Any:
            self.n += 1
            return x * self.n

    model = Model()
    return model.run, lambda: model.n


# --- iterators, generators, files -----------------------------------------------------------------


@program(code="CE308")
def iterator() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        return x * next(self.numbers)

    return net(construct, "training", numbers=itertools.count(1))


@program(code="CE308")
def generator() -> Made:
    def numbers() -> Iterator[int]:
        yield from range(100)

    def construct(self: Any, x: Tensor) -> Any:
        for k in itertools.islice(self.numbers, 2):
            x = x + k
        return x

    return net(construct, "training", numbers=numbers())


@program(code="CE308")
def iterator_in_zip() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        for k, _ in zip((1, 2), self.numbers, strict=False):
            x = x + k
        return x

    return net(construct, "training", numbers=iter(range(100)))


@program(code="CE307")
def file_that_is_read_on() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        return x + len(self.file.readline())

    return net(construct, "training", file=io.StringIO("a\nb\n"))


@program(code="CE303")
def file_that_is_opened() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        with open(__file__) as f:
            return x + len(f.read())

    return net(construct, "training")


@program(code="CE307")
def file_of_a_path() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        return x + len(self.path.read_text())

    return net(construct, "training", path=Path(__file__))


# --- the world ------------------------------------------------------------------------------------


@program
def random_numbers() -> Made:
    random.seed(3)

    def construct(self: Any, x: Tensor) -> Any:
        return x * random.random() + random.randint(0, 9) + random.uniform(1.0, 2.0)

    return net(construct, "training")


@program
def random_under_a_condition() -> Made:
    random.seed(4)

    def construct(self: Any, x: Tensor) -> Any:
        if x.sum() > 4:
            x = x * random.random()
        return x + random.random()

    return net(construct, "training")


@program(code="CE307")
def random_choice() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        return x * random.choice([1, 2, 3])

    return net(construct, "training")


@program
def numpy_random_number() -> Made:
    np.random.seed(5)

    def construct(self: Any, x: Tensor) -> Any:
        return x * np.random.rand()

    return net(construct, "training")


@program(code="CE307")
def numpy_random_array() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        return x * Tensor(np.random.rand(2).astype(np.float32))

    return net(construct, "training")


@program
def numpy_generator() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        return x * float(self.rng.normal())

    return net(construct, "training", rng=np.random.default_rng(1))


@program
def generator_made_of_a_seed() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        return x * random.Random(7).random()

    return net(construct, "training")


@program
def the_time() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        now = time.perf_counter()
        self.later = self.later + (now > self.last)
        self.last = now
        return x * (time.time() > 1e9)

    return net(construct, "later", later=0, last=0.0)


@program(code="CE307")
def the_date() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        return x * datetime.datetime.now().year

    return net(construct, "training")


@program(code="CE307")
def an_identifier() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.name_ = uuid.uuid4().hex
        return x

    return net(construct, "training")


@program
def the_environment() -> Made:
    os.environ["CELLC_STATE_TEST"] = "1"

    def construct(self: Any, x: Tensor) -> Any:
        return x * int(os.environ["CELLC_STATE_TEST"]) + int(os.getenv("CELLC_STATE_TEST", "0"))

    made = cell(construct)

    def call(x: Tensor) -> Any:
        os.environ["CELLC_STATE_TEST"] = str(int(os.environ["CELLC_STATE_TEST"]) + 1)
        return made(x)

    return call, lambda: os.environ["CELLC_STATE_TEST"]


@program(code="CE307")
def the_folder() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        return x * len(os.listdir("."))

    return net(construct, "training")


@program
def arguments_of_the_process() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        return x * len(sys.argv)

    return net(construct, "training")


@program
def a_log() -> Made:
    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    lines: list[str] = []
    logger = logging.Logger("state")
    logger.addHandler(Kept())

    def construct(self: Any, x: Tensor) -> Any:
        self.n += 1
        logger.warning("call %d", self.n)
        return x

    return cell(construct, n=0), lambda: lines


@program
def a_warning() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        warnings.warn("old", stacklevel=1)
        return x

    made, found = cell(construct), []

    def call(x: Tensor) -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            out = made(x)
        found.append(len(caught))
        return out

    return call, lambda: found


# --- gradients and training -----------------------------------------------------------------------


@program
def under_grad() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.n += 1
        self.losses.append(x.sum())
        return (x * x * self.n).sum()

    made = cell(construct, n=0, losses=[])
    return ms.grad(made), lambda: [made.n, made.losses]


@program
def under_value_and_grad() -> Made:
    def loss(x: Tensor) -> Any:
        y = made(x)
        made.seen = made.seen + 1
        return (y * made.seen).sum()

    def construct(self: Any, x: Tensor) -> Any:
        self.last = x * 3
        self.n += 1
        return self.last * x * self.n

    made = cell(construct, n=0, seen=0, last=None)
    return ms.value_and_grad(loss), lambda: [made.n, made.seen, made.last]


@program
def read_after_a_gradient() -> Made:
    def inside(x: Tensor) -> Any:
        box.last = x * 2
        box.n = box.n + 1
        return (box.last * x).sum()

    def construct(self: Any, x: Tensor) -> Any:
        slope = ms.grad(inside)(x)
        return slope + box.last * box.n

    class Box:
        last: Any = None
        n = 0

    box = Box()
    return cell(construct), lambda: [box.last, box.n]


@program
def training_step() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.steps += 1
        return ((self.w * x - self.steps) ** 2).mean()

    made = cell(construct, steps=0, w=Parameter(Tensor([1.0, 2.0]), name="w"))
    step = nn.TrainOneStepCell(made, nn.SGD(made.trainable_params(), 0.1)).set_train()
    return step, lambda: [made.steps, made.w]


@program
def recomputed() -> Made:
    def inside(self: Any, x: Tensor) -> Any:
        self.n += 1
        return ops.exp(x) * self.n

    def construct(self: Any, x: Tensor) -> Any:
        return self.block(x).sum()

    block = cell(inside, n=0)
    block.recompute()
    return ms.grad(cell(construct, block=block)), lambda: block.n


# --- what raises, what Python sees ----------------------------------------------------------------


@program
def raise_in_the_middle() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.before += 1
        self.steps.append("before")
        if x.sum() > 4:
            raise ValueError("too large")
        self.after += 1
        self.steps.append("after")
        return x

    return net(construct, before=0, after=0, steps=[])


@program
def assert_in_the_middle() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.tried += 1
        assert x.sum() < 5
        self.done += 1
        return x * self.done

    return net(construct, tried=0, done=0)


@program
def python_in_the_middle() -> Made:
    def look(x: Tensor) -> Any:
        seen.append(made.n)
        return x

    def construct(self: Any, x: Tensor) -> Any:
        self.n += 1
        x = ops.py_func(look, x, out_shape=x.shape, out_dtype=x.dtype)
        self.n += 10
        return x

    seen: list[int] = []
    made = cell(construct, n=0)
    return made, lambda: [seen, made.n]


@program
def try_and_except() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        try:
            self.tried += 1
            value = self.table[self.tried]
        except KeyError:
            self.failed += 1
            value = 0
        return x * value

    return net(construct, tried=0, failed=0, table={1: 5, 3: 7})


# --- what is easily overlooked --------------------------------------------------------------------


@program
def list_put_away_then_changed() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        inner: list[Any] = []
        self.box.append(inner)
        inner.append(x.sum())
        self.groups.setdefault("a", []).append(1)
        return x * len(self.groups["a"])

    return net(construct, box=[], groups={})


@program
def long_int() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.n = self.n * 1000003
        return x * (self.n % 7)

    return net(construct, n=3**30)


@program
def set_past_the_cell() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        object.__setattr__(self, "n", self.n + 1)
        return x * self.n

    return net(construct, n=0)


@program
def tensor_written_in_place() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        here = self.buffer
        here[0] = x[0]
        return self.buffer * 1

    return net(construct, buffer=Tensor([0.0, 0.0]))


@program
def dict_of_the_object() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.__dict__["n"] = self.n + 1
        return x * self.n

    return net(construct, n=0)
