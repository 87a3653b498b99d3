"""What `finally` and the exits of context managers change where the run raises: Python objects are
afterwards what they are in PyNative mode, call after call. PYTEST_DONT_REWRITE: asserts of the
programs must stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor
from cellc.lang import check_call
from cellc.tracing.tracer import Tracer

INPUTS = ((1, 2, 3, 4), (3, 1, -1, -2), (5, 4, 0, 0), (0, 0, 0, 0), (2, 3, -9, -9), (0, 1, 1, 1),
          (1, 1, 9, 1))


class State:
    """What the programs change; a context manager that counts how deep it is."""

    def __init__(self) -> None:
        self.depth, self.count, self.log = 0, 0, ["made"]

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *told: Any) -> None:
        self.depth -= 1


class Counting:
    """A context manager that changes something only where an exception leaves it."""

    def __init__(self, state: State) -> None:
        self.state = state

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            self.state.log.append(kind.__name__)


def depth_is_put_back(x: Any, state: State) -> Any:
    state.depth += 1
    try:
        if x.sum() > 3:
            raise ValueError("large")
        y = x * 2
    finally:
        state.depth -= 1
    return y


def in_a_loop(x: Any, state: State) -> Any:
    for i in range(4):
        try:
            if x[i] > 2:
                raise ValueError(f"at {i}")
            state.count += 1
        finally:
            state.log.append(str(i))
    return x * state.count


def in_a_branch(x: Any, state: State) -> Any:
    if x.sum() > 0:
        try:
            if x[1] > 2:
                raise ValueError("in a branch")
            x = x * 2
        finally:
            state.count += 1
    return x


def in_a_loop_of_the_run(x: Any, state: State) -> Any:
    while x.sum() < 20:
        state.depth += 1
        try:
            assert x[1] < 7, "too much"
            x = x + 1
        finally:
            state.depth -= 1
        state.count += 1
    return x


def of_managers(x: Any, state: State) -> Any:
    with state:
        assert x[0] < 3, "outside"
        with state:
            if x[2] > 3:
                raise KeyError("inside")
            state.count += 1
    return x + state.count


def of_two_managers_of_one_statement(x: Any, state: State) -> Any:
    with Counting(state), state:
        if x[0] > 2:
            raise IndexError("first")
        assert x[1] < 3
    return x + state.depth


def of_a_function_that_is_called(x: Any, state: State) -> Any:
    def inner(y: Any) -> Any:
        state.depth += 1
        try:
            if y.sum() > 3:
                raise IndexError("in a function")
            return y * 2
        finally:
            state.depth -= 1
            state.count += 1

    return inner(x) + inner(x + 1)


def caught_further_out(x: Any, state: State) -> Any:
    try:
        return of_a_function_that_is_called(x, state)
    except IndexError:
        return x * state.count


def of_a_position(x: Any, state: State) -> Any:
    state.depth += 1
    try:
        y = x * [1, 2, 3][int(x[0])]
    finally:
        state.depth -= 1
    return y


def raises_after_all(x: Any, state: State) -> Any:
    try:
        if x.sum() > 3:
            raise ValueError("of the run")
        raise KeyError("in any case")
    finally:
        state.log.append("left")


def prints(x: Any, state: State) -> Any:
    try:
        if x.sum() > 3:
            raise ValueError("large")
    finally:
        print("left with", x)
    return x


PROGRAMS: tuple[Callable[[Any, State], Any], ...] = (
    depth_is_put_back, in_a_loop, in_a_branch, in_a_loop_of_the_run, of_managers,
    of_two_managers_of_one_statement, of_a_function_that_is_called, caught_further_out,
    of_a_position, raises_after_all, prints,
)


def _told(program: Callable[[Any, State], Any], compiled: bool) -> list[Any]:
    state = State()

    def function(x: Any) -> Any:
        return program(x, state)

    call, told = ms.jit(function) if compiled else function, []
    for values in INPUTS + INPUTS:
        try:
            found = call(Tensor(np.array(values, np.float32))).asnumpy().tolist()
        except Exception as e:
            found = next(k.__name__ for k in (ValueError, KeyError, IndexError, AssertionError)
                         if isinstance(e, k)), str(e).partition(" [CE")[0]
        told.append((found, state.depth, state.count, list(state.log)))
    return told


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_modes_agree(
    program: Callable[[Any, State], Any], capfd: pytest.CaptureFixture[str]
) -> None:
    want, printed = _told(program, False), capfd.readouterr().out
    got = _told(program, True)
    assert capfd.readouterr().out == printed
    assert bool(printed) == (program is prints)
    assert len({str(w[0]) for w in want}) > 1
    for number, (a, b) in enumerate(zip(want, got, strict=True)):
        assert a == b, f"call {number}"


@pytest.mark.parametrize("program", [depth_is_put_back, of_two_managers_of_one_statement, prints])
def test_a_check_finds_no_error(program: Callable[[Any, State], Any]) -> None:
    """What a call with other elements raises is none."""
    state = State()
    tracer = Tracer()
    x = tracer.input(Tensor(np.full(4, 3, np.float32))._type, "x")
    assert not check_call(tracer, lambda x: program(x, state), [x])
