"""What only the run decides, where the paths have no form in common: lists and dicts of any length,
numbers as sizes, recursion, exceptions that are caught. Each program is called with several inputs
in one network, in both modes, and again with the first ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops
from cellc.compiled.staged import StagedEntry
from cellc.lang import CompileError

INPUTS = ((1, 2, 3, 4), (3, 1, -1, -2), (5, 4, 0, 0), (0, 0, 0, 0), (2, 3, -9, -9))


def _factorial(n: Any) -> Any:
    return n * 0 + 1 if n <= 1 else n * _factorial(n - 1)


def _even(n: Any) -> Any:
    return True if n == 0 else _odd(n - 1)


def _odd(n: Any) -> Any:
    return False if n == 0 else _even(n - 1)


def _fibonacci(n: Any) -> Any:
    if n < 2:
        return n
    return _fibonacci(n - 1) + _fibonacci(n - 2)


def appended_under_a_condition(x: Any) -> Any:
    found = []
    for i in range(4):
        if x[i] > 0:
            found.append(x[i] * x[i])
    return len(found), found, sum(found, x.sum())


def appended_in_a_loop_of_the_run(x: Any) -> Any:
    seen = [x]
    while x.sum() < 30 and len(seen) < 9:
        x = x * 1.5 + 1
        seen.append(x)
    return ops.stack(seen), len(seen)


def broken_off(x: Any) -> Any:
    seen = []
    while True:
        seen.append(x)
        x = x + 1
        if x.sum() > 8:
            break
    for i in range(4):
        if x[i] > 2:
            break
        if x[i] < 0:
            continue
        seen.append(x[i])
        if x[i] == 0:
            return seen, "early"
    else:
        seen.append("none")
    return seen


class _Grows(nn.Cell):
    def construct(self, x: Any, seen: list[Any]) -> Any:
        if x.sum() > 2:
            seen.append(x)
        return x * 2


_LAYERS = [_Grows() for _ in range(4)]


def through_cells(x: Any) -> Any:
    seen: list[Any] = []
    for layer in _LAYERS:
        x = layer(x, seen)
    return seen, x


def drawn(x: Any) -> Any:
    y = ops.dropout(x, 0.5, True)
    return [v for v in y if v > 0], ops.dropout(x, 0.5, True)


def written(x: Any) -> Any:
    y, places = x * 1, []
    for i in range(3):
        if x[i] > 1:
            y[i] = 0
            places.append(i)
    return y, places


def popped(x: Any) -> Any:
    both = [x, x + 1]
    if x[0] > 2:
        both.pop()
    elif x[0] > 1:
        both.clear()
    return both


def key_on_one_path(x: Any) -> Any:
    table = {"always": x}
    if x.sum() > 3:
        table["large"] = x * 2
    if x[0] == 0:
        del table["always"]
    return table


def keys_of_a_loop(x: Any) -> Any:
    table: dict[int, Any] = {}
    while x.sum() > 0:
        table[len(table)] = x
        x = x - 1
    return table


def filtered(x: Any) -> Any:
    return [v for v in x if v > 0], list(filter(lambda v: v < 1, x)), {int(v) for v in [1, 2]}


def numbers_as_sizes(x: Any) -> Any:
    n = int(x[0])
    ones = ops.ones((n,)) * x[1]
    return ones, ops.arange(n), x[:n], x.reshape(-1, 1).tile((1, n)), ops.zeros((n, 2)).shape


def number_that_is_negative(x: Any) -> Any:
    n = int(x[2])
    return x[:n], x[n:]


def size_in_a_branch(x: Any) -> Any:
    if x.sum() > 3:
        return ops.ones((int(x[0]), 2)).sum() + x[x > 1].sum()
    return x.sum()


def range_of_the_run(x: Any) -> Any:
    n = int(x[0])
    return [x * i for i in range(n)], list(enumerate(range(n))), [1, 2, 3, 4][:n], "ab" * n


def shapes_that_differ(x: Any) -> Any:
    y = ops.relu(x)
    if x.sum() > 3:
        y = y[:2]
    return y, y.shape


def nothing_on_one_path(x: Any) -> Any:
    extra = None
    if x.sum() > 3:
        extra = x + 1
    return x if extra is None else extra * 2


def functions_by_condition(x: Any) -> Any:
    act, name = ops.relu, "relu"
    if x[0] > 2:
        act, name = ops.tanh, "tanh"
    return act(x), name


def matched(x: Any) -> Any:
    match int(x[0]):
        case 0:
            return x
        case 1 | 2:
            return x, x + 1
        case n if n > 4:
            return [x]
    return {"rest": x}


def put_in_order(x: Any) -> Any:
    rows = [x[0], x[1], x[2]]
    names = sorted(["a", "b", "c"], key=lambda k: x["abc".index(k)])
    return sorted(rows), sorted(rows, reverse=True), names


def power_of_ints(x: Any) -> Any:
    n = int(x[2])
    return 2**n, int(x[1] + 3) ** n


def recursive(x: Any) -> Any:
    return _factorial(x[0]), _even(x[0]), _fibonacci(x[1])


def caught(x: Any) -> Any:
    try:
        if x.sum() > 3:
            raise ValueError("large")
        assert x[0] > 0, "none"
        return x
    except ValueError as e:
        return x + 1, str(e)
    except AssertionError:
        return x - 1


def caught_of_numbers(x: Any) -> Any:
    found = []
    for i in range(2):
        try:
            found.append(10 // int(x[i]))
            found.append([7, 8, 9][int(x[i])])
        except ZeroDivisionError as e:
            found.append(str(e))
        except IndexError:
            found.append(-1)
    while x.sum() < 5 and len(found) < 6:
        try:
            found.append(1 % int(x[3]))
        except ZeroDivisionError:
            x = x + 1
        x = x + 1
    return found


def branch_in_a_loop(x: Any) -> Any:
    out = []
    for i in range(2):
        if x[i] > 1:
            while x.sum() < 20:
                x = x + 3
                out.append(x)
    return out


def mask_in_a_loop_of_the_run(x: Any) -> Any:
    for _ in range(int(x[0])):
        if x[1] > 0:
            x = x + x[x > 0].sum() * 0.1
    return x


def behind_an_early_return(x: Any) -> Any:
    parts = [x, x]
    if x[0] > 2:
        return x
    parts.append(-x)
    return parts[-1]


def value_under_a_key(x: Any) -> Any:
    table = {"x": x, "last": x}
    while table["x"].sum() < 30:
        table = {"x": table["x"] * 0.5 + 10, "last": None}
    return table


PROGRAMS: list[Callable[[Any], Any]] = [
    appended_under_a_condition, appended_in_a_loop_of_the_run, broken_off, through_cells, drawn,
    written, popped, key_on_one_path,
    keys_of_a_loop, filtered, numbers_as_sizes, number_that_is_negative, size_in_a_branch,
    range_of_the_run, shapes_that_differ, nothing_on_one_path, functions_by_condition, matched,
    put_in_order, power_of_ints, recursive, caught, caught_of_numbers, branch_in_a_loop,
    mask_in_a_loop_of_the_run, behind_an_early_return, value_under_a_key,
]


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return str(value.dtype), value.shape, value.asnumpy().tobytes()
    if isinstance(value, (list, tuple, set)):
        return type(value).__name__, [_plain(v) for v in value]
    if isinstance(value, dict):
        return [(k, _plain(v)) for k, v in value.items()]
    return type(value).__name__, value


def _tensors() -> list[Tensor]:
    return [Tensor(np.array(v, np.float32)) for v in (*INPUTS, *INPUTS)]


def _results(make: Callable[[], Any], mode: int) -> list[Any]:
    ms.set_context(mode=mode)
    ms.set_seed(7)
    call = make()
    return [_plain(call(x)) for x in _tensors()]


def _net(program: Callable[[Any], Any]) -> Callable[[], Any]:
    class Net(nn.Cell):
        def construct(self, x: Any) -> Any:
            return program(x)

    return Net


@pytest.fixture(autouse=True)
def _mode() -> Any:
    before = ms.get_context("mode")
    yield
    ms.set_context(mode=before)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_modes_agree(program: Callable[[Any], Any]) -> None:
    assert _results(_net(program), 0) == _results(_net(program), 1)


def _sums(value: Any) -> Any:
    """One number that all tensors of a result matter for."""
    parts = value.values() if isinstance(value, dict) else value
    if isinstance(value, Tensor):
        return (value * value).sum()
    return sum([_sums(v) for v in parts if isinstance(v, (Tensor, list, tuple, dict))])


@pytest.mark.parametrize("program", [
    appended_under_a_condition, appended_in_a_loop_of_the_run, key_on_one_path, filtered,
    numbers_as_sizes, size_in_a_branch, shapes_that_differ, nothing_on_one_path, put_in_order,
    recursive, caught, mask_in_a_loop_of_the_run, behind_an_early_return,
], ids=lambda p: p.__name__)
def test_gradients_agree(program: Callable[[Any], Any]) -> None:
    def loss(x: Any) -> Any:
        return _sums(program(x)) + x.sum()

    assert _results(lambda: ms.grad(loss), 0) == _results(lambda: ms.grad(loss), 1)


class _Trained(nn.Cell):
    """What it does follows from its own parameters; it counts, logs and draws."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(4, 3)
        self.scale = ms.Parameter(Tensor(np.ones(3, np.float32)), name="scale")
        self.drop = nn.Dropout(p=0.5)
        self.calls = 0
        self.log: list[int] = []

    def construct(self, x: Any) -> Any:
        self.calls += 1
        y = self.drop(self.dense(x)) * self.scale
        parts = []
        for i in range(3):
            if y[i] > 0:
                parts.append(y[i] * y[i])
                self.log.append(i)
        self.log.append(len(parts))
        ops.assign(self.scale, self.scale * 1.5)
        return sum(parts) + x.sum() * 0


def _training() -> Any:
    np.random.seed(1)
    net = _Trained()
    step = nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 0.01))
    step.set_train()
    return lambda x: (
        step(x), net.scale.value(), net.dense.weight.value(), net.calls, list(net.log))


def test_training_and_what_it_changes() -> None:
    """A wrong answer is noticed before anything is written, drawn or logged."""
    assert _results(_training, 0) == _results(_training, 1)


class _Counted:
    """Numbers of which each answer reads others."""

    def __init__(self) -> None:
        self.tried, self.failed, self.kinds = 0, 100, ["none"]

    def __enter__(self) -> None:
        self.tried += 1

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            self.failed += 3
            self.kinds.append(kind.__name__)


@pytest.mark.parametrize("first", [0, 1])
def test_each_answer_reads_its_own_numbers(first: int) -> None:
    """Not those that the answer before read at their places."""
    def make() -> Any:
        counted = _Counted()

        def program(x: Any) -> Any:
            try:
                with counted:
                    if x[0] > 2:
                        raise ValueError("large")
                if x[1] > 2:
                    raise KeyError("large, too")
                return x * counted.tried
            except ValueError:
                return x - counted.failed
            except KeyError:
                counted.failed += 7
                return x * counted.failed + counted.tried

        net = _net(program)()
        return lambda x: (net(x), counted.tried, counted.failed, list(counted.kinds))

    tensors = _tensors()[first:]
    found = []
    for mode in (0, 1):
        ms.set_context(mode=mode)
        call = make()
        found.append([_plain(call(x)) for x in tensors])
    assert found[0] == found[1]


def test_prints_once(capfd: pytest.CaptureFixture[str]) -> None:
    def program(x: Any) -> Any:
        print("in", x.sum())
        found = []
        if x[0] > 2:
            found.append(x)
        print("out", len(found))
        return found

    texts = []
    for mode in (0, 1):
        _results(_net(program), mode)
        texts.append(capfd.readouterr().out)
    assert texts[0] == texts[1] and texts[0].count("in") == 2 * len(INPUTS)


def test_an_error_of_the_path_that_is_taken() -> None:
    """It is raised when the network runs, behind the question, not when it is traced."""
    def program(x: Any) -> Any:
        found = []
        if x[0] > 2:
            found.append(x)
        if x[1] > 3:
            raise ValueError("too large")
        return found

    net = ms.jit(program)
    for x in _tensors():
        if x[1] > 3:
            with pytest.raises(ValueError, match="too large"):
                net(x)
        else:
            assert _plain(net(x)) == _plain(program(x))


def test_a_loop_that_another_answer_would_not_end() -> None:
    """A program for another answer must not be run into a loop without end."""
    def program(x: Any) -> Any:
        found = []
        if x[0] > 0:
            found.append(x)
            while x[0] < 100:
                x = x * 2
        return x, found

    net = ms.jit(program)
    for first in (1.0, -1.0, 3.0, 0.0):
        x = Tensor(np.array([first], np.float32))
        assert _plain(net(x)) == _plain(program(x))


def test_each_answer_is_compiled_once() -> None:
    net = _net(appended_under_a_condition)()
    ms.set_context(mode=0)
    for x in _tensors():
        net(x)
    (entry,) = net._entries.entries.values()
    assert isinstance(entry, StagedEntry)

    def programs(entry: StagedEntry) -> int:
        return 1 + sum(map(programs, entry.others.values()))

    assert programs(entry) == len({_plain(appended_under_a_condition(x))[1][0] for x in _tensors()})


def test_the_run_knows_better_than_who_foresees() -> None:
    """Where the last digit of `tanh` decides, numpy's may be another one; what the run found is
    what the next trace goes by."""
    def program(x: Tensor) -> tuple[Tensor, int]:
        w = ops.tanh(x[0])
        out = [w]
        if w > x[1]:
            out.append(x[0])
        return ops.stack(out).sum(), len(out)

    xs = np.random.default_rng(0).uniform(0, 4, 20000).astype(np.float32)
    own = ops.tanh(Tensor(xs)).asnumpy()
    other = np.tanh(xs.astype(np.float64)).astype(np.float32)
    unlike = np.flatnonzero(own != other)[:12]
    found = set()
    for x, mine, theirs in zip(xs[unlike], own[unlike], other[unlike], strict=True):
        given = Tensor(np.float32([x, min(mine, theirs)]))
        assert ms.jit(program)(given)[1] == program(given)[1]
        found.add(program(given)[1])
    assert found == {1, 2}


def test_recursion_without_end_says_so() -> None:
    def halve(v: Any) -> Any:
        return v if v.sum() < -1e30 else halve(v / 2)

    with pytest.raises(RecursionError, match=r"recursion without end.*\[CE304\]"):
        ms.jit(halve)(_tensors()[0])


def test_too_many_questions_are_the_error_they_were() -> None:
    def program(x: Any) -> Any:
        found = []
        while x.sum() < 10000:
            x = x + 1
            found.append(x)
        return len(found)

    with pytest.raises(CompileError, match=r"a list changes its structure .*\[CE208\]") as e:
        ms.jit(program)(_tensors()[0])
    assert e.value.place is not None and "while x.sum()" in e.value.place.text


def test_what_python_decides_is_not_asked() -> None:
    """The result of a Python function is not known before the network runs: an error, not a
    guess."""
    def program(x: Any) -> Any:
        found = []
        if ops.py_func(np.negative, x, out_shape=(4,), out_dtype=ms.float32)[0] > 2:
            found.append(x)
        return found

    with pytest.raises(CompileError, match="CE208"):
        ms.jit(program)(_tensors()[0])


@pytest.mark.parametrize("kinds", [(1, 2.5), (1, "x"), ("x", 2)])
def test_numbers_of_two_kinds_stay_an_error(kinds: tuple[Any, Any]) -> None:
    """As in MindSpore: which of them it is follows from no structure."""
    def program(x: Any) -> Any:
        a, b = (x if k == "x" else k for k in kinds)
        return a if x.sum() > 0 else b

    with pytest.raises(CompileError, match="CE204"):
        ms.jit(program)(_tensors()[0])
