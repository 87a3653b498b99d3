"""Objects whose parts a network changes, read by code that is generated or Python's own."""

from __future__ import annotations

import calendar
import collections
import copy
import dataclasses
import enum
import functools
import hashlib
import operator
import pprint
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn

from ..modes.law import mode

X = Tensor([1.0, 2.0])


@dataclasses.dataclass
class Held:
    """A number and a list."""

    n: int = 0
    parts: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Outer:
    """An object in an object, one field that is not shown."""

    inner: Held = dataclasses.field(default_factory=Held)
    hidden: int = dataclasses.field(default=3, repr=False)


@dataclasses.dataclass(frozen=True)
class Frozen:
    """An object that cannot be changed."""

    n: int = 1


class Kind(enum.Enum):
    """A member."""

    A = 1


def answers(made: Callable[[], tuple[Any, Any]], run_in: int) -> list[tuple[Any, Any]]:
    """What three calls give and leave."""
    body, state = made()
    net = type("Net", (nn.Cell,), {"construct": lambda self, x: body(x)})()
    found = []
    with mode(run_in):
        for _ in range(3):
            found.append((np.asarray(net(X).asnumpy()).tolist(), repr(state)))
    return found


def grown_and_copied() -> tuple[Any, Any]:
    held = types.SimpleNamespace(parts=[])

    def body(x: Tensor) -> Any:
        held.parts.append(1)
        return x * len(copy.copy(held).parts) + len(copy.deepcopy(held).parts)

    return body, held


def copied_and_grown() -> tuple[Any, Any]:
    held = types.SimpleNamespace(parts=[])

    def body(x: Tensor) -> Any:
        other = copy.copy(held)
        mine = other.parts
        held.parts.append(1)
        return x * len(other.parts) + len(mine)

    return body, held


def grown_and_replaced() -> tuple[Any, Any]:
    held = Held()

    def body(x: Tensor) -> Any:
        held.parts.append(1)
        other = dataclasses.replace(held, n=3)
        other.parts.append(2)
        return x * len(held.parts) + len(dataclasses.asdict(held)["parts"])

    return body, held


def grown_set() -> tuple[Any, Any]:
    held = types.SimpleNamespace(seen=set(), n=[0])

    def body(x: Tensor) -> Any:
        held.n[0] += 1
        held.seen.add(held.n[0])
        return x * len(copy.deepcopy(held).seen)

    return body, held


def grown_and_compared() -> tuple[Any, Any]:
    held, other = types.SimpleNamespace(parts=[]), types.SimpleNamespace(parts=[1])

    def body(x: Tensor) -> Any:
        held.parts.append(1)
        return x * (2 if held == other else 3)

    return body, held


def written() -> tuple[Any, Any]:
    held, outer, space, log = Held(), Outer(), types.SimpleNamespace(n=1), []

    def body(x: Tensor) -> Any:
        held.n += 1
        outer.inner.n += 2
        space.n += 1
        log.append(str(held) + f"{outer} {space!r}")
        log.append("%s" % space + "{} {!r}".format(space, held))  # noqa: UP031, UP032
        log.append(f"{[held]}")
        return x * len(repr(held))

    return body, log


def through_methods() -> tuple[Any, Any]:
    box: list[int] = []
    put, both = box.append, functools.partial(box.append, 5)
    table = {"put": box.append}

    def by_default(v: int, act: Any = box.append) -> None:
        act(v)

    def body(x: Tensor) -> Any:
        put(1)
        both()
        table["put"](2)
        by_default(3)
        return x * len(box)

    return body, box


def frozen() -> tuple[Any, Any]:
    held, log = Frozen(), []

    def body(x: Tensor) -> Any:
        try:
            held.n = 5  # type: ignore[misc]
        except dataclasses.FrozenInstanceError as error:
            log.append(str(error))
        try:
            del held.n
        except dataclasses.FrozenInstanceError as error:
            log.append(str(error))
        try:
            setattr(Kind, "A", 5)  # noqa: B010
        except AttributeError as error:
            log.append(str(error))
        return x * held.n

    return body, log


MADE = [grown_and_copied, copied_and_grown, grown_and_replaced, grown_set, grown_and_compared,
        written, through_methods, frozen]


@pytest.mark.parametrize("made", MADE, ids=lambda m: m.__name__)
def test_both_modes_see_what_the_call_has_changed(made: Callable[[], tuple[Any, Any]]) -> None:
    assert answers(made, ms.GRAPH_MODE) == answers(made, ms.PYNATIVE_MODE)


def test_generated_code_that_reads_a_change_is_an_error() -> None:
    held = Held()

    def body(x: Tensor) -> Any:
        held.parts.append(1)
        return x * len(repr(held))

    net = type("Net", (nn.Cell,), {"construct": lambda self, x: body(x)})()
    with mode(ms.GRAPH_MODE), pytest.raises(TypeError, match=r"__repr__\(\) runs Python.*CE501"):
        net(X)


def test_a_text_of_python_with_values_of_the_run_is_an_error() -> None:
    counts, log = [1], collections.deque([0])

    def body(x: Tensor) -> Any:
        counts[0] += 1
        log.append(counts[0])
        return x * len(f"{collections.UserList([counts[0]])}")

    net = type("Net", (nn.Cell,), {"construct": lambda self, x: body(x)})()
    with mode(ms.GRAPH_MODE):
        try:
            found = [net(X).asnumpy().tolist() for _ in range(2)]
        except TypeError as error:
            assert "known only at run time" in str(error)
        else:
            assert found == [[3.0, 6.0]] * 2


@pytest.mark.parametrize("act", [
    lambda: pprint.pprint([1]), lambda: calendar.prmonth(2024, 1),
    functools.partial(operator.methodcaller("update", b"a"), hashlib.md5()),
], ids=["pprint", "calendar", "hash"])
def test_output_and_hashes_that_would_happen_once_are_refused(act: Callable[[], Any]) -> None:
    def body(x: Tensor) -> Any:
        act()
        return x

    net = type("Net", (nn.Cell,), {"construct": lambda self, x: body(x)})()
    with mode(ms.GRAPH_MODE), pytest.raises(RuntimeError, match=r"only once \[CE307\]"):
        net(X)
