"""Programs whose objects come to be held outside while they are still made, and generators that
are closed."""

from __future__ import annotations

import contextlib
from array import array
from collections import Counter, UserList
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

from cellc import Tensor, nn

from .state_programs import Made, cell, program


class Thing:
    """An object without anything."""


class Slotted:
    """An object with slots."""

    __slots__ = ("count", "tensor")
    count: int
    tensor: Tensor


@dataclass
class Record:
    """An object with defaults."""

    count: int = 1
    seen: list[Any] = field(default_factory=list)


class Registered:
    """An object that registers itself before it has its attributes."""

    def __init__(self, register: list[Any], count: int) -> None:
        register.append(self)
        self.count = count
        self.number = len(register)


def kept(held: list[Any], construct: Any) -> Made:
    """A Cell that puts objects into a list; its state is what they hold, and who is who."""
    def state() -> list[Any]:
        return [len({id(o) for o in held}), *(
            [(n, getattr(o, n, None)) for n in ("count", "number", "tensor", "seen")]
            for o in held)]

    return cell(construct), state


@program
def attributes_after_an_append() -> Made:
    held: list[Any] = []

    def construct(self: Any, x: Tensor) -> Any:
        thing = Thing()
        held.append(thing)
        thing.count = len(held)  # type: ignore[attr-defined]
        thing.tensor = x * 2  # type: ignore[attr-defined]
        thing.count += 10  # type: ignore[attr-defined]
        return x + sum([t.count for t in held]) + held[-1].tensor

    return kept(held, construct)


@program
def objects_that_register_themselves() -> Made:
    held: list[Any] = []

    def construct(self: Any, x: Tensor) -> Any:
        made = Registered(held, 3)
        made.count -= 1
        return x * made.count + made.number

    return kept(held, construct)


@program
def slots_that_are_filled_later() -> Made:
    held: list[Any] = []

    def construct(self: Any, x: Tensor) -> Any:
        made = Slotted()
        held.append(made)
        made.count = len(held)
        made.tensor = x + made.count
        self.last = made
        return held[0].tensor + self.last.count

    return kept(held, construct)


@program
def slots_of_an_attribute() -> Made:
    def construct(self: Any, x: Tensor) -> Any:
        self.made = Slotted()
        self.made.count = 2
        self.made.tensor = x * 3
        return x

    made = cell(construct, made=None)
    return made, lambda: [made.made and (made.made.count, made.made.tensor)]


@program
def records_in_a_dict() -> Made:
    held: dict[str, Any] = {}

    def construct(self: Any, x: Tensor) -> Any:
        record = held.setdefault("record", Record())
        record.count += 1
        record.seen.append(x.sum())
        held["pair"] = (record, [record])
        return x + record.count + len(held["pair"][1][0].seen)

    return cell(construct), lambda: [
        (held[k].count, held[k].seen) if k == "record" else held[k][1][0] is held["record"]
        for k in held]


@program
def an_attribute_deleted_after_an_append() -> Made:
    class Default:
        count = 9

    held: list[Any] = []

    def construct(self: Any, x: Tensor) -> Any:
        made = Default()
        made.count = 1
        held.append(made)
        del made.count
        return x + made.count

    return cell(construct), lambda: [vars(o) for o in held]


@program
def a_linked_list() -> Made:
    class Link:
        def __init__(self, after: Any) -> None:
            self.after, self.depth = after, 0

    head: list[Any] = [None]

    def construct(self: Any, x: Tensor) -> Any:
        link = Link(head[0])
        head[0] = link
        link.depth = 1 if link.after is None else link.after.depth + 1
        return x * link.depth

    def state() -> list[int]:
        found, link = [], head[0]
        while link is not None:
            found.append(link.depth)
            link = link.after
        return found

    return cell(construct), state


@program
def objects_that_hold_each_other() -> Made:
    held: list[Any] = []

    def construct(self: Any, x: Tensor) -> Any:
        first, second, pair = Thing(), Thing(), []  # type: ignore[var-annotated]
        first.other, second.other = second, first  # type: ignore[attr-defined]
        pair += [first, second, pair]
        held.append(first)
        self.pair = pair
        self.both = (second, [second])
        first.count = len(held)  # type: ignore[attr-defined]
        return x + held[-1].other.other.count

    made = cell(construct, pair=None, both=None)
    return made, lambda: held and [
        [o.other.other is o and o.count for o in held], made.pair[2] is made.pair,
        made.pair[0] is held[-1], made.both[0] is made.both[1][0]]


@program
def generators_that_are_closed() -> Made:
    log: list[Any] = []

    class Tool:
        def close(self) -> None:
            log.append("tool closed")

    def inner() -> Iterator[Any]:
        try:
            yield 1
            yield 2
        except GeneratorExit:
            log.append("inner left")
            return
        finally:
            log.append("inner done")

    def outer() -> Iterator[Any]:
        with contextlib.closing(Tool()):
            try:
                yield from inner()
                log.append("never")
            finally:
                log.append("outer done")

    def stubborn() -> Iterator[Any]:
        try:
            yield 1
        except BaseException as e:
            log.append(isinstance(e, GeneratorExit))
            yield 2

    def other() -> Iterator[Any]:
        try:
            yield 1
        except GeneratorExit:
            raise ValueError("other") from None

    def construct(self: Any, x: Tensor) -> Any:
        walk = outer()
        first = next(walk)
        walk.close()
        walk.close()
        for make in (stubborn, other):
            made = make()
            next(made)
            try:
                made.close()
            except (RuntimeError, ValueError) as e:
                log.append(str(e))
        return x * first + len(log)

    return cell(construct), lambda: list(log)


# --- attributes of functions and modules, and special methods that set and delete -----------------


@program
def attributes_of_a_function() -> Made:
    def counted(x: Tensor) -> Tensor:
        counted.calls += 1  # type: ignore[attr-defined]
        counted.last = x  # type: ignore[attr-defined]
        return x * counted.calls  # type: ignore[attr-defined]

    counted.calls = 0  # type: ignore[attr-defined]

    def construct(self: Any, x: Tensor) -> Any:
        if x.sum() > 3:
            x = counted(x)
        return counted(x) + counted.calls  # type: ignore[attr-defined]

    return cell(construct), lambda: (
        counted.calls, counted.last)  # type: ignore[attr-defined]


@program
def attributes_of_a_module() -> Made:
    settings = ModuleType("settings")
    settings.calls = 1  # type: ignore[attr-defined]

    def construct(self: Any, x: Tensor) -> Any:
        settings.calls += 1  # type: ignore[attr-defined]
        settings.seen = [settings.calls]  # type: ignore[attr-defined]
        return x * settings.calls  # type: ignore[attr-defined]

    return cell(construct), lambda: [
        getattr(settings, n, None) for n in ("calls", "seen")]


@program
def special_methods_that_set_and_delete() -> Made:
    log: list[Any] = []

    class Logged:
        def __setattr__(self, name: str, value: Any) -> None:
            log.append(name)
            object.__setattr__(self, name, value)

        def __delattr__(self, name: str) -> None:
            log.append(f"no {name}")
            super().__delattr__(name)

    outside = Logged()

    def construct(self: Any, x: Tensor) -> Any:
        outside.count = len(log)  # type: ignore[attr-defined]
        outside.count += 1  # type: ignore[attr-defined]
        y = x * outside.count  # type: ignore[attr-defined]
        del outside.count  # type: ignore[attr-defined]
        made = Logged()
        made.x = x  # type: ignore[attr-defined]
        delattr(made, "x")
        return y + len(log) + hasattr(outside, "count")

    return cell(construct), lambda: (list(log), vars(outside))


@program
def a_cell_that_sees_its_attributes_set() -> Made:
    log: list[Any] = []

    def put(self: Any, name: str, value: Any) -> None:
        log.append(name)
        nn.Cell.__setattr__(self, name, value)

    def construct(self: Any, x: Tensor) -> Any:
        self.count = self.count + 1
        self.last = x * self.count
        return self.last + len(log)

    made = type("Seen", (nn.Cell,), {"construct": construct, "__setattr__": put})()
    made.count = 0
    return made, lambda: (list(log), made.count, getattr(made, "last", None))


@program
def a_config_that_checks_what_it_is_given() -> Made:
    class Config:
        def __init__(self) -> None:
            self.__dict__["table"] = {"k": 1}

        def __getattr__(self, name: str) -> Any:
            return self.table[name]

        def __setattr__(self, name: str, value: Any) -> None:
            if value > 1000:
                raise ValueError("too large")
            self.table[name] = value

    config = Config()

    def construct(self: Any, x: Tensor) -> Any:
        config.k = config.k + 3
        return x * config.k

    return cell(construct), lambda: dict(config.table)


# --- results --------------------------------------------------------------------------------------


@program
def results_that_the_caller_changes() -> Made:
    @dataclass
    class Options:
        k: int = 1
        seen: list[int] = field(default_factory=list)

    def construct(self: Any, x: Tensor) -> Any:
        thing, slotted = Thing(), Slotted()
        thing.k, thing.tensor, slotted.count = 3, x, 4  # type: ignore[attr-defined]
        return {"o": [Options(), thing, slotted], "a": (np.ones(2), array("i", [1])),
                "c": Counter("ab"), "u": UserList([thing])}

    made = cell(construct)

    def call(x: Tensor) -> Any:
        found = made(x)
        options, thing, slotted = found["o"]
        said = [options.k, list(options.seen), thing.k, thing.tensor, slotted.count,
                found["a"][0].copy(), found["a"][1].tolist(), dict(found["c"]),
                len(found["u"]), found["u"][0] is thing]
        options.k = thing.k = slotted.count = 50
        options.seen.append(1)
        found["a"][0][0] = 7
        found["a"][1].append(3)
        found["c"]["z"] = 9
        found["u"].append(1)
        return said

    return call, lambda: None


@program
def results_that_are_held_as_well() -> Made:
    held: list[Any] = []
    before = Thing()

    def construct(self: Any, x: Tensor) -> Any:
        thing, numbers = Thing(), [1]
        held.append(thing)
        held.append(numbers)
        thing.count = len(held)  # type: ignore[attr-defined]
        numbers.append(2)
        before.count = thing.count  # type: ignore[attr-defined]
        return thing, {"n": numbers, "t": thing}, before

    made = cell(construct)

    def call(x: Tensor) -> Any:
        thing, found, old = made(x)
        found["n"].append(99)
        thing.seen = 5
        return [thing is held[-2], found["t"] is thing, found["n"] is held[-1], old is before,
                thing.count]

    return call, lambda: [vars(o) if isinstance(o, Thing) else o for o in held]


@program
def numbers_and_exceptions_with_attributes() -> Made:
    class Count(int):
        pass

    class Text(str):
        pass

    held: list[Any] = []

    def construct(self: Any, x: Tensor) -> Any:
        count, text = Count(3), Text("abc")
        held.append(count)
        held.append(text)
        count.k, text.k = 5, x  # type: ignore[attr-defined]
        try:
            raise ValueError("a", len(held))
        except ValueError as error:
            error.k = 1  # type: ignore[attr-defined]
            held.append(error)
        return x * count + len(text)

    return cell(construct), lambda: [(repr(o), o.k, getattr(o, "args", None)) for o in held]


@program
def getters_that_have_no_such_attribute() -> Made:
    table = {"given": 3.0, "missing": False}

    class Descriptor:
        def __get__(self, holder: Any, kind: Any = None) -> Any:
            if table["missing"]:
                raise AttributeError("missing")
            return 4

    class Options:
        described = Descriptor()

        @property
        def given(self) -> Any:
            if table["missing"]:
                raise AttributeError("given")
            return table["given"]

        @property
        def broken(self) -> Any:
            raise KeyError("broken")

        def __getattr__(self, name: str) -> Any:
            return 70.0

    options = Options()

    def construct(self: Any, x: Tensor) -> Any:
        try:
            options.broken  # noqa: B018  # its read raises
        except KeyError:
            x = x + 100
        first = x * options.given + options.described + options.other
        table["missing"] = not table["missing"]
        return first - options.given

    return cell(construct), lambda: dict(table)


@program
def results_of_special_methods_that_python_refuses() -> Made:
    found: list[Any] = [-1, "a", 1, None]

    class Bad:
        def __len__(self) -> Any:
            return found[0]

        def __bool__(self) -> Any:
            return found[0]

        def __str__(self) -> Any:
            return found[0]

        def __iter__(self) -> Any:
            return found

        def __hash__(self) -> Any:
            return found[0]

    class Returns:
        def __init__(self) -> None:
            return found[0]

    bad = Bad()

    def construct(self: Any, x: Tensor) -> Any:
        errors = 0
        for number, function in enumerate((len, bool, str, iter, hash)):
            try:
                function(bad)
            except (TypeError, ValueError):
                errors += 2 ** number
        try:
            Returns()
        except TypeError:
            errors += 100
        found.append(found.pop(0))
        return x + errors

    return cell(construct), lambda: list(found)
