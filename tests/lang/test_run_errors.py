"""Errors that only a run can find: raised by compiled code as PyNative raises them.

Each program runs in both modes: the same kind of exception with the same text, and in graph mode a
note with the user's line. PYTEST_DONT_REWRITE: asserts of the programs must stay as they are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, nn, ops
from cellc_runtime import artifact


class Refused(ValueError):
    """An exception of the user's own."""


class Coded(Exception):
    """One whose `__init__` takes other arguments than its text."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(code, why)
        self.code = code

    def __str__(self) -> str:
        return f"E{self.code}"


PLUS = Tensor(np.array([1.0, 2.0], np.float32))
MINUS = Tensor(np.array([-1.0, -2.0], np.float32))


def asserts(x: Tensor) -> Tensor:
    assert x.sum() > 0, "the sum must be positive"
    return x * 2


def asserts_with_tensors(x: Tensor) -> Tensor:
    assert x.sum() > 0, f"sum {x.sum()} of {x}"
    return x * 2


def asserts_without_text(x: Tensor) -> Tensor:
    assert x.min() > 0
    return x * 2


def asserts_twice(x: Tensor) -> Tensor:
    assert x.min() > -5, "first"
    assert x.max() > 0, "second"
    return x


def raises_in_branch(x: Tensor) -> Tensor:
    if x.sum() < 0:
        raise ValueError("negative")
    return x * 2


def raises_class(x: Tensor) -> Tensor:
    if x.sum() < 0:
        raise TypeError
    return x


def raises_in_else(x: Tensor) -> Tensor:
    if x.sum() > 0:
        y = x * 2
    else:
        raise Refused("no %d" % 3)  # noqa: UP031
    return y


def raises_own(x: Tensor) -> Tensor:
    if x.sum() < 0:
        raise Coded(7, "why")
    return x


def raises_on_each_path(x: Tensor) -> Tensor:
    if x.sum() > 0:
        raise TypeError("plus")
    raise KeyError("minus")


def raises_deep(x: Tensor) -> Tensor:
    if x.sum() < 0:
        if x.max() > 0:
            return x
        raise ValueError("deep")
    return x * 3


def refuse(x: Tensor) -> Tensor:
    raise RuntimeError("from a helper")


def raises_in_call(x: Tensor) -> Tensor:
    return x if x.sum() > 0 else refuse(x)


def raises_in_unrolled_loop(x: Tensor) -> Tensor:
    for _ in range(3):
        x = x + 1 if x.sum() > -2 else refuse(x)
    return x


def raises_in_loop(x: Tensor) -> Tensor:
    n = x.sum()
    while n < 10:
        n = n + 2
        if n < 1:
            raise ValueError(f"too low: {n}")
    return n


def raises_loop_body(x: Tensor) -> Tensor:
    n = x.sum()
    while n < 0:
        raise ValueError("the body")
    return n


def raises_after_loop(x: Tensor) -> Tensor:
    n = x.sum()
    while n < 5:
        n = n + 3
    assert n != 6, f"ends at {n}"
    return n


def breaks_and_raises(x: Tensor) -> Tensor:
    for _ in range(4):
        if x.sum() > 5:
            break
        if x.sum() < 0:
            raise ValueError("negative")
        x = x + 1
    return x


def raises_through_finally(x: Tensor) -> Tensor:
    try:
        if x.sum() < 0:
            raise ValueError("in try")
        y = x + 1
    finally:
        z = 3
    return y * z


def finally_raises_too(x: Tensor) -> Tensor:
    try:
        if x.sum() < 4:
            raise ValueError("first")
        y = x + 1
    finally:
        if x.sum() < 2:
            raise TypeError("second")
        if x.sum() < 3:
            raise
        assert x.sum() > -100
    return y


def reraises_unhandled(x: Tensor) -> Tensor:
    if x.sum() < 0:
        try:
            raise ValueError("passes by")
        except KeyError:
            return x
    return x + 1


def list_in_dying_branch(x: Tensor) -> Tensor:
    parts = [x]
    if x.sum() < 0:
        parts.append(x)
        raise ValueError("the list differs")
    return parts[0] + len(parts)


class RaisesAnother:
    """A context manager that raises another exception for one, each way differently."""

    def __init__(self, way: str) -> None:
        self.way = way

    def __enter__(self) -> None:
        pass

    def __exit__(self, *told: Any) -> None:
        if self.way == "raise" and told[0] is not None:
            raise KeyError("the second")
        if self.way == "assert":
            assert told[1] is None, f"not {told[1]}"
        if self.way == "call":
            self.refuse(*told)

    def refuse(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is ValueError:
            raise TypeError("called")


def with_raises_another(x: Tensor) -> Tensor:
    with RaisesAnother("raise"):
        if x.sum() < -4:
            raise ValueError("first")
    with RaisesAnother("assert"):
        if x.sum() < 0:
            raise ValueError("first")
    with RaisesAnother("call"):
        if x.sum() < 4:
            raise ValueError("first")
    return x


def unused(x: Tensor) -> Tensor:
    ops.gather(x, ops.cast(x.sum() + 1, ms.int32), 0)
    return x


def dead_branch(x: Tensor) -> Tensor:
    if x.sum() > 100:
        assert x.sum() > 1000, "never here"
    return x


PROGRAMS: tuple[Callable[[Tensor], Any], ...] = (
    asserts, asserts_with_tensors, asserts_without_text, asserts_twice, raises_in_branch,
    raises_class, raises_in_else, raises_own, raises_on_each_path, raises_deep, raises_in_call,
    raises_in_unrolled_loop, raises_in_loop, raises_loop_body, raises_after_loop,
    breaks_and_raises, raises_through_finally, finally_raises_too, reraises_unhandled,
    list_in_dying_branch, with_raises_another, unused, dead_branch,
)


def test_a_run_time_error_says_what_came_before_it() -> None:
    """What Python gives as the context, or the cause, of an exception."""
    def from_another(x: Tensor) -> Tensor:
        if x.sum() < 4:
            raise ValueError("second") from KeyError("first")
        return x

    for fn, words in ((finally_raises_too, "during handling of ValueError: first"),
                      (from_another, "caused by KeyError: first")):
        with pytest.raises((TypeError, ValueError), match="second") as e:
            ms.jit(fn)(Tensor([1.0]))
        assert words in "\n".join(e.value.__notes__)


def outcome(fn: Callable[..., Any], *args: Any) -> Any:
    try:
        return np.asarray(fn(*args).asnumpy())
    except Exception as e:
        return e


def compare(fn: Callable[..., Any], *args: Any) -> Any:
    """Run in both modes; what graph mode gave."""
    eager, compiled = outcome(fn, *args), outcome(ms.jit(fn), *args)
    if not isinstance(eager, Exception):
        assert not isinstance(compiled, Exception), compiled
        assert np.array_equal(eager, compiled, equal_nan=True)
        return compiled
    assert isinstance(compiled, type(eager)), (eager, compiled)
    assert str(compiled) == str(eager)
    (note,) = compiled.__notes__
    assert compiled.file == __file__ and f"line {compiled.line}, in " in note and "^" in note
    return compiled


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_modes_agree(program: Callable[..., Any]) -> None:
    found = [compare(program, x) for x in (PLUS, MINUS, MINUS * 10)]
    assert program is dead_branch or any(isinstance(f, Exception) for f in found)


def test_note_has_place_and_calls() -> None:
    error = compare(raises_in_call, MINUS)
    assert error.__notes__[0].replace(__file__, "FILE").splitlines() == [
        "  an exception raised while the network ran [CE702]",
        f'  File "FILE", line {refuse.__code__.co_firstlineno + 1}, in refuse',
        '    raise RuntimeError("from a helper")',
        "    " + "^" * 35,
        f'  called from File "FILE", line {raises_in_call.__code__.co_firstlineno + 1}, in '
        "raises_in_call: return x if x.sum() > 0 else refuse(x)",
    ]


# --- positions -----------------------------------------------------------------------------------

TABLE = Tensor(np.arange(12, dtype=np.float32).reshape(4, 3))
CELLS = nn.CellList([nn.ReLU(), nn.Sigmoid()])
INDEXED: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]] = {
    "index": (lambda i: TABLE[i], (0, 3, -4), (4, -5)),
    "index_pair": (lambda i: TABLE[1, i], (0, -3), (3, -4)),
    "index_array": (lambda i: TABLE[ops.stack((i, i * 0))], (0, -4), (4,)),
    "gather": (lambda i: ops.gather(TABLE, i, 0), (0, -4), (4, -5)),
    "gather_d": (lambda i: ops.gather_d(TABLE, 0, ops.broadcast_to(i, (1, 3))), (3,), (4,)),
    "index_select": (lambda i: ops.index_select(TABLE, 0, i), (3,), (9,)),
    "take": (lambda i: ops.gather(TABLE, i, 1), (2,), (3,)),
    "gather_nd": (lambda i: ops.gather_nd(TABLE, ops.stack((i * 0, i)).reshape(1, 2)), (2,), (3,)),
    "tensor_scatter": (lambda i: ops.tensor_scatter_add(
        TABLE, ops.stack((i, i * 0)).reshape(1, 2), Tensor([1.0])), (3, -4), (4, -5)),
    "cross_entropy": (lambda i: ops.cross_entropy(TABLE[:1], i.reshape(1)), (2, -100), (3,)),
    "cross_entropy_ignored": (lambda i: ops.cross_entropy(
        TABLE[:2], ops.stack((i, i * 0)), ignore_index=7), (2, 7), (3,)),
    "nll_loss_weights": (lambda i: ops.nll_loss(TABLE[:1], i.reshape(1), Tensor([1.0, 2.0, 3.0])),
                         (2,), (3,)),
    "segments": (lambda i: ops.unsorted_segment_sum(TABLE[:1], i.reshape(1), 2), (1, -7), (2,)),
    "list": (lambda i: [TABLE[0], TABLE[1], TABLE[2]][i], (2, -3), (3, -4)),
    "cells": (lambda i: CELLS[i](TABLE), (1, -2), (2, -3)),
    "index_fill": (lambda i: ops.index_fill(TABLE, 0, i, 7.0), (1,), (4,)),
}


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("name", INDEXED)
def test_positions(name: str, dtype: Any) -> None:
    fn, good, bad = INDEXED[name]
    for i in good:
        assert not isinstance(compare(fn, Tensor(np.array(i, dtype))), Exception)
    for i in bad:
        error = compare(fn, Tensor(np.array(i, dtype)))
        assert isinstance(error, IndexError)
        assert isinstance(error, RuntimeError)  # what MindSpore's kernels raise
        assert str(i) in str(error) or name == "list"


@pytest.mark.parametrize("count", [1, 2, 7, 31, 32, 33, 64, 1000])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64])
def test_every_position_is_looked_at(count: int, dtype: Any) -> None:
    """Vectors, their tails, and which of several bad positions is named: the first."""
    table = Tensor(np.arange(9, dtype=np.float32))
    run = ms.jit(lambda i: ops.gather(table, i, 0))
    good = (np.arange(count) % 9).astype(dtype)
    for at in sorted({0, count // 2, count - 1}):
        bad = good.copy()
        bad[at:] = 100
        bad[at] = 9
        with pytest.raises(IndexError, match="but got 9\\."):
            run(Tensor(bad))
    assert np.array_equal(run(Tensor(good)).asnumpy(), good.astype(np.float32))


def test_a_type_that_cannot_be_outside() -> None:
    table = Tensor(np.arange(300, dtype=np.float32))
    run = ms.jit(lambda i: ops.gather(table, i, 0))
    assert run(Tensor(np.array([0, 255], np.uint8))).asnumpy().tolist() == [0.0, 255.0]
    empty = Tensor(np.zeros(0, np.int32))
    assert ms.jit(lambda i: ops.gather(Tensor(np.zeros((0, 2), np.float32)), i, 0))(
        empty).shape == (0, 2)


# --- effects -------------------------------------------------------------------------------------


class Counter(nn.Cell):
    """Writes parameters before, in and after a branch with a check."""

    def __init__(self) -> None:
        super().__init__()
        self.early = Parameter(np.ones(3, np.float32), name="early")
        self.inner = Parameter(np.ones(3, np.float32), name="inner")
        self.late = Parameter(np.ones(3, np.float32), name="late")

    def construct(self, x: Tensor) -> Tensor:
        self.early = self.early * 2
        if x.sum() < 0:
            self.inner = self.inner + x
            print("before")
            assert x.max() > -5, "low"
            print("after")
        self.late = self.late + 1
        return x * self.early


def test_a_failing_call_writes_nothing(graph_mode: None, capsys: Any) -> None:
    """Not even what stands before the check; what it has printed stays printed."""
    net, x = Counter(), Tensor(np.ones(3, np.float32))
    for _ in range(40):
        net(x)
    for _ in range(5):
        before = [p.asnumpy().copy() for p in net.get_parameters()]
        with pytest.raises(AssertionError, match="low"):
            net(x * -10)
        assert capsys.readouterr().out == "before\n"
        for p, old in zip(net.get_parameters(), before, strict=True):
            assert np.array_equal(p.asnumpy(), old), p.name
        net(x * -1)
        assert capsys.readouterr().out == "before\nafter\n"
        assert not np.array_equal(net.inner.asnumpy(), before[1])


def test_a_failing_training_step_writes_nothing(graph_mode: None) -> None:
    net = nn.SequentialCell(nn.Embedding(10, 4), nn.Dense(4, 3))
    loss = nn.MSELoss()
    opt = nn.Adam(net.trainable_params())
    grads = ms.value_and_grad(lambda ids: loss(net(ids), 0.0 * net(ids)), None, opt.parameters)

    @ms.jit
    def step(ids: Tensor) -> Tensor:
        value, g = grads(ids)
        opt(g)
        return value

    ids = Tensor(np.arange(8).reshape(2, 4), ms.int32)
    step(ids)
    before = [p.asnumpy().copy() for p in opt.get_parameters()]
    with pytest.raises(IndexError, match="but got 10"):
        step(ids + 5)
    for p, old in zip(opt.get_parameters(), before, strict=True):
        assert np.array_equal(p.asnumpy(), old), p.name
    assert float(step(ids)) >= 0.0


def test_checks_in_gradients(capsys: Any) -> None:
    """A branch computed again for its gradient neither checks nor prints again."""
    def fn(x: Tensor, i: Tensor) -> Tensor:
        s, n = x, x.sum()
        if n > 0:
            assert n < 100, f"n={n}"
            print("in")
            s = x * x[i]
        for k in range(2):
            s = s * ops.gather(x, i + k, 0)
        return s.sum()

    x = Tensor(np.array([1, 2, 3], np.float32))
    eager, compiled = ms.grad(fn), ms.jit(ms.grad(fn))
    for i in (0, 1, -3, 2, 5):
        for y in (x, x * 50, -x):
            a, b = outcome(eager, y, Tensor(i)), outcome(compiled, y, Tensor(i))
            assert type(a) in type(b).__mro__
            assert str(a) == str(b)
            printed = capsys.readouterr().out
            assert printed.count("in") in (0, 2), printed


def test_effects_keep_their_order(capsys: Any) -> None:
    """A print that waits for much comes before one that waits for nothing."""
    def fn(x: Tensor) -> Tensor:
        y = x
        for _ in range(4):
            y = ops.matmul(y, x)
        print("first", y.sum())
        print("second", x.sum())
        assert x.sum() < 0, "third"
        print("fourth")
        return x

    with pytest.raises(AssertionError, match="third"):
        ms.jit(fn)(Tensor(np.eye(3, dtype=np.float32)))
    assert capsys.readouterr().out == "first 3.0\nsecond 3.0\n"


def test_check_before_a_loop_without_end() -> None:
    def fn(x: Tensor, step: Tensor) -> Tensor:
        n = ops.relu(ops.exp(x) * 0 + x).sum()
        assert step > 0, "no end"
        while n < 5:
            n = n + step
        return n

    run = ms.jit(fn)
    assert float(run(PLUS, Tensor(2.0))) == 5.0
    with pytest.raises(AssertionError, match="no end"):
        run(PLUS, Tensor(0.0))


def test_errors_do_not_pile_up() -> None:
    """Failing calls keep nothing, and calls from several threads get their own messages."""
    run = ms.jit(asserts_with_tensors)
    run(PLUS)
    found: list[str] = []

    def work(k: int) -> None:
        for _ in range(200):
            try:
                run(Tensor(np.array([-k, -k], np.float32)))
            except AssertionError as e:
                found.append(str(e) if str(e).startswith(f"sum -{2 * k}.0 of") else f"{k}: {e}")

    threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 600 and len(set(found)) == 3 and not any(":" in f for f in found)
    assert np.array_equal(run(PLUS).asnumpy(), PLUS.asnumpy() * 2)


def test_caught_by_try() -> None:
    def fn(x: Tensor) -> Tensor:
        try:
            if x.sum() < 0:
                raise ValueError("no")
            return x
        except ValueError:
            return x * 2

    net = ms.jit(fn)
    for x in (PLUS, -PLUS, PLUS):
        assert np.array_equal(net(x).asnumpy(), fn(x).asnumpy())


def test_in_an_artifact(tmp_path: Any) -> None:
    """The runtime alone raises, with message and place; the file carries them."""
    from cellc.cli import main

    source = tmp_path / "net.py"
    source.write_text(
        "from cellc import nn, ops\n"
        "class Net(nn.Cell):\n"
        "    def construct(self, x, i):\n"
        "        assert x.sum() > 0, f'sum of {x}'\n"
        "        return ops.gather(x, i, 0)\n"
    )
    file = tmp_path / "net.cellc"
    assert main(["compile", f"{source}:Net", "--input", "x=float32[2]", "--input", "i=int64[3]",
                 "-o", str(file)]) == 0
    loaded = artifact.load(str(file), trust_native_code=True)
    x, i = np.array([1, 2], np.float32), np.array([0, 1, 1])
    assert np.array_equal(loaded.call("infer", x, i), x[i])
    with pytest.raises(AssertionError, match=r"^sum of \[-1\. -2\.\]") as caught:
        loaded.call("infer", -x, i)
    assert 'net.py", line 4, in Net.construct' in caught.value.__notes__[0]
    with pytest.raises(IndexError, match="but got 2"):
        loaded.call("infer", x, i + 1)


def sized_by_a_loop_that_fails(x, n):
    if x[0] < 0:
        raise ValueError("first")
    while n < 1:
        n = n + 1
        assert x[1] < 1, "second"
    return ops.ones((int(n), 3)).sum(axis=0)


@pytest.mark.parametrize("before", [(), ((1.0, 0.0),)], ids=["while tracing", "compiled"])
def test_of_two_errors_the_first_is_raised(before: Any) -> None:
    """The second is met first by what works out a size."""
    net = ms.jit(sized_by_a_loop_that_fails)
    n = Tensor(0)
    for good in before:
        assert net(Tensor(np.float32(good)), n).asnumpy().tolist() == [1, 1, 1]
    for bad, text in (((-1.0, 2.0), "first"), ((-1.0, 0.0), "first"), ((1.0, 2.0), "second")):
        for call in (sized_by_a_loop_that_fails, net):
            with pytest.raises((ValueError, AssertionError), match=text):
                call(Tensor(np.float32(bad)), n)
