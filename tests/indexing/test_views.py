"""Views and changes in place: numpy's own views are the reference, in both modes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cellc as ms
from cellc import Parameter, Tensor, mint, nn, ops

Array = np.ndarray[Any, Any]
BOTH = pytest.mark.parametrize("compiled", [False, True], ids=["pynative", "graph"])


def start(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def called(fn: Callable[..., Any], compiled: bool) -> Callable[..., Any]:
    return ms.jit(fn) if compiled else fn


# --- which functions give views -------------------------------------------------------------------

VIEWS: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array]]] = {
    "view": (lambda t: t.view(3, 2), lambda a: a.reshape(3, 2)),
    "view_as": (lambda t: t.view_as(ops.zeros((3, 2))), lambda a: a.reshape(3, 2)),
    "reshape": (lambda t: t.reshape((3, -1)), lambda a: a.reshape(3, 2)),
    "ops.reshape": (lambda t: ops.reshape(t, (3, 2)), lambda a: a.reshape(3, 2)),
    "Reshape": (lambda t: ops.Reshape()(t, (3, 2)), lambda a: a.reshape(3, 2)),
    "mint.reshape": (lambda t: mint.reshape(t, (3, 2)), lambda a: a.reshape(3, 2)),
    "flatten": (lambda t: t.flatten(), lambda a: a.reshape(-1)),
    "mint.flatten": (lambda t: mint.flatten(t), lambda a: a.reshape(-1)),
    "ravel": (lambda t: t.ravel(), lambda a: a.reshape(-1)),
    "T": (lambda t: t.T, lambda a: a.T),
    "transpose": (lambda t: t.transpose(1, 0), lambda a: a.T),
    "permute": (lambda t: ops.permute(t, (1, 0)), lambda a: a.T),
    "swapaxes": (lambda t: t.swapaxes(0, 1), lambda a: a.T),
    "mint.transpose": (lambda t: mint.transpose(t, 0, 1), lambda a: a.T),
    "int": (lambda t: t[1], lambda a: a[1]),
    "column": (lambda t: t[:, 1], lambda a: a[:, 1]),
    "steps": (lambda t: t[:, ::2], lambda a: a[:, ::2]),
    "backwards": (lambda t: t[::-1, ::-2], lambda a: a[::-1, ::-2]),
    "None": (lambda t: t[None, ..., 1:], lambda a: a[None, ..., 1:]),
    "split": (lambda t: t.split(1, 0)[1], lambda a: a[1:]),
    "uneven": (lambda t: ops.split(t, [1, 2], 1)[1], lambda a: a[:, 1:]),
    "chunk": (lambda t: t.chunk(2, 1)[0], lambda a: a[:, :2]),
    "tensor_split": (lambda t: t.tensor_split(2)[1], lambda a: a[1:]),
    "unbind": (lambda t: t.unbind(1)[2], lambda a: a[:, 2]),
    "unstack": (lambda t: ops.unstack(t, 1)[2], lambda a: a[:, 2]),
    "select": (lambda t: t.select(1, 2), lambda a: a[:, 2]),
    "narrow": (lambda t: t.narrow(1, 1, 2), lambda a: a[:, 1:]),
    "unsqueeze": (lambda t: t.unsqueeze(1), lambda a: a[:, None]),
    "squeeze": (lambda t: t.view(1, 2, 3).squeeze(0), lambda a: a[:]),
    "diagonal": (lambda t: t.diagonal(1), lambda a: np.lib.stride_tricks.as_strided(
        a[:, 1:], (2,), (16,))),
    "expanded": (lambda t: t.expand((2, 2, 3))[1], lambda a: a[:]),
    "nested": (lambda t: t.T[1:].view(2, 2, 1)[:, 1], lambda a: a.T[1:][:, 1:]),
}

WRITES: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Any]]] = {
    "all": (lambda b: b.__setitem__(Ellipsis, 9.0), lambda b: b.__setitem__(Ellipsis, 9.0)),
    "part": (lambda b: b.__setitem__(0, b[-1] + 7.0), lambda b: b.__setitem__(0, b[-1] + 7.0)),
    "overlapping": (lambda b: b.__setitem__(slice(1, None), b[:-1]),
                    lambda b: b.__setitem__(slice(1, None), b[:-1])),
    "mask": (lambda b: b.__setitem__(b > 2.0, -1.0), lambda b: b.__setitem__(b > 2.0, -1.0)),
    "positions": (lambda b: b.__setitem__([0], 3.0), lambda b: b.__setitem__([0], 3.0)),
    "add_": (lambda b: b.add_(b * 2), lambda b: np.add(b, b * 2, out=b)),
    "fill_": (lambda b: b.fill_(4.0), lambda b: b.fill(4.0)),
    "copy_": (lambda b: b.copy_(b + 1), lambda b: np.copyto(b, b + 1)),
    "assign": (lambda b: ops.assign(b, b + 1), lambda b: np.copyto(b, b + 1)),
    "Assign": (lambda b: ops.Assign()(b, b * 3), lambda b: np.copyto(b, b * 3)),
    "assign_add": (lambda b: ops.assign_add(b, b), lambda b: np.add(b, b, out=b)),
    "assign_sub": (lambda b: ops.assign_sub(b, 2.0), lambda b: np.subtract(b, 2.0, out=b)),
    "nothing": (lambda b: b.__setitem__(slice(0, 0), 1.0), lambda b: None),
}


@BOTH
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("view", VIEWS)
def test_views_and_their_base_are_one(view: str, write: str, compiled: bool) -> None:
    """A write to a view is seen in the base and in another view; one to the base in both."""
    def program(x: Any, number: int) -> Any:
        b, c = VIEWS[view][number](x), x.reshape(6)
        WRITES[write][number](b)
        c[1:3] = -5.0
        x[1] = x[1] * 2.0
        return x, b, c

    def on_tensors(x: Any) -> Any:
        return program(x * 1.0, 0)

    found = called(on_tensors, compiled)(Tensor(start(2, 3)))
    want = program(start(2, 3), 1)
    for f, w in zip(found, want, strict=True):
        assert np.array_equal(f.asnumpy(), w)


@BOTH
@pytest.mark.parametrize("copied", [
    lambda t: t.T.reshape(6), lambda t: t[:, :2].reshape(4), lambda t: t.copy(),
    lambda t: ops.flatten(t.view(1, 2, 3)), lambda t: t.T.contiguous(),
    lambda t: copy.deepcopy(t.T), lambda t: t.flatten("F"),
    lambda t: t + 0, lambda t: nn.Flatten()(t[None]),
])
def test_copies_share_nothing(copied: Callable[[Any], Any], compiled: bool) -> None:
    def program(x: Any) -> Any:
        x = x * 1.0
        y = copied(x)
        y[0] = 50.0
        x[1] = 60.0
        return x, y

    x, y = called(program, compiled)(Tensor(start(2, 3)))
    assert not (x == 50).any() and not (y == 60).any() and (y == 50).any() and (x == 60).any()


# --- random programs ------------------------------------------------------------------------------


@st.composite
def programs(draw: Any) -> list[tuple[Any, ...]]:
    """Statements on a list of arrays that begins with one of (4, 6)."""
    shapes: list[tuple[int, ...]] = [(4, 6)]
    out: list[tuple[Any, ...]] = []
    for _ in range(draw(st.integers(2, 9))):
        at = draw(st.integers(0, len(shapes) - 1))
        shape = shapes[at]
        kind = draw(st.sampled_from(["slice", "int", "permute", "reshape", "expand", "write",
                                     "write", "add", "new"]))
        if kind in ("slice", "write"):
            key = tuple([slice(draw(st.integers(-d - 1, d)), draw(st.integers(-d - 1, d + 1)),
                               draw(st.sampled_from([1, 1, 2, -1]))) for d in shape])
            out.append((kind, at, key, draw(st.integers(-9, 9))))
            if kind == "slice":
                shapes.append(np.empty(shape)[key].shape)
        elif kind == "int" and shape and shape[0]:
            i = draw(st.integers(-shape[0], shape[0] - 1))
            out.append((kind, at, i))
            shapes.append(shape[1:])
        elif kind == "permute":
            perm = tuple(draw(st.permutations(range(len(shape)))))
            out.append((kind, at, perm))
            shapes.append(tuple([shape[i] for i in perm]))
        elif kind == "reshape":
            size = int(np.prod(shape))
            new = draw(st.sampled_from([(size,), (1, size), (*shape, 1), (
                (2, size // 2) if size % 2 == 0 else (size, 1))]))
            out.append((kind, at, new))
            shapes.append(new)
        elif kind == "expand":
            out.append((kind, at, (2, *shape)))
            shapes.append((2, *shape))
        elif kind == "add":
            out.append((kind, at, draw(st.integers(1, 5))))
        elif kind == "new":
            out.append((kind, at))
            shapes.append(shape)
    return out


def run_on_arrays(program: list[tuple[Any, ...]], x: Array) -> list[Array]:
    values = [x]
    for kind, at, *rest in program:
        v = values[at]
        if kind == "slice":
            values.append(v[(*rest[0], ...)])
        elif kind == "int":
            values.append(v[rest[0], ...])  # not a number
        elif kind == "permute":
            values.append(v.transpose(rest[0]))
        elif kind == "reshape":
            values.append(v.reshape(rest[0]))
        elif kind == "expand":  # (numpy's own cannot be written)
            values.append(np.lib.stride_tricks.as_strided(v, rest[0], (0, *v.strides)))
        elif kind == "new":
            values.append(np.asarray(v + 1))  # (of one element a number)
        elif not _overlaps(v):  # `write`, `add`; an error here otherwise
            if kind == "write":
                v[rest[0]] = rest[1]
            else:
                v += rest[0]
    return values


def _overlaps(v: Array) -> bool:
    return any(d > 1 and s == 0 for d, s in zip(v.shape, v.strides, strict=True))


def run_on_tensors(program: list[tuple[Any, ...]], plan: list[bool], x: Any) -> list[Any]:
    values = [x]
    for (kind, at, *rest), skip in zip(program, plan, strict=True):
        v = values[at]
        if skip:
            continue
        if kind in ("slice", "int"):
            values.append(v[rest[0]])
        elif kind == "permute":
            values.append(v.permute(rest[0]))
        elif kind == "reshape":
            values.append(v.reshape(rest[0]))
        elif kind == "expand":
            values.append(v.broadcast_to(rest[0]))
        elif kind == "new":
            values.append(v + 1)
        elif kind == "write":
            v[rest[0]] = float(rest[1])
        else:
            v.add_(float(rest[0]))
    return values


def skipped(program: list[tuple[Any, ...]], x: Array) -> list[bool]:
    """Which writes go to views several of whose elements are one."""
    values = run_on_arrays(program, x)
    return [kind in ("write", "add") and _overlaps(values[at]) for kind, at, *_ in program]


@settings(max_examples=60, deadline=None)
@given(programs())
def test_random_programs(program: list[tuple[Any, ...]]) -> None:
    """Values in both modes are numpy's, and so is the argument; gradients are the same bits."""
    plan = skipped(program, start(4, 6))
    given_array = start(4, 6)
    want = run_on_arrays(program, given_array)

    def f(x: Any) -> Any:
        return tuple(run_on_tensors(program, plan, x))

    for compiled in (False, True):
        x = Tensor(start(4, 6))
        found = called(f, compiled)(x)
        assert np.array_equal(x.asnumpy(), given_array)
        for a, b in zip(found, want, strict=True):
            assert a.shape == b.shape and np.array_equal(a.asnumpy(), b)

    def loss(x: Any) -> Any:
        values = run_on_tensors(program, plan, x * 1.0)
        return sum((v * v * (i + 1.5)).sum() for i, v in enumerate(values))

    x = Tensor(start(4, 6))
    eager, graph = ms.grad(loss)(x), ms.jit(ms.grad(loss))(x)
    assert np.array_equal(eager.asnumpy(), graph.asnumpy())


# --- arguments ------------------------------------------------------------------------------------


@BOTH
def test_arguments_changed_in_place_are_seen_by_the_caller(compiled: bool) -> None:
    def f(x: Any, y: Any, z: Any) -> Any:
        x.add_(y)
        z["k"][0].view(-1)[1] = 5.0
        return x * 2

    run = called(f, compiled)
    for _ in range(3):  # the second call is answered by what the first has compiled
        x, z = Tensor(start(2, 3)), Tensor(start(2, 2))
        view, turned = x[1], x.T
        out = run(x, Tensor(np.ones((2, 3), np.float32)), {"k": [z]})
        assert np.array_equal(x.asnumpy(), start(2, 3) + 1) and (out == x * 2).all()
        assert (view == x[1]).all() and (turned == x.T).all()
        assert z.tolist() == [[0.0, 5.0], [2.0, 3.0]]


@BOTH
def test_an_argument_that_is_a_view(compiled: bool) -> None:
    def f(x: Any) -> Any:
        x[0] = -1.0
        return x + 0

    base = Tensor(start(2, 3))
    out = called(f, compiled)(base.T)
    assert base.tolist() == [[-1, 1, 2], [-1, 4, 5]] and out.tolist() == base.T.tolist()


@BOTH
def test_a_parameter_as_argument(compiled: bool) -> None:
    def f(x: Any) -> Any:
        return x.mul_(2.0)

    p = Parameter(Tensor(start(2, 3)), name="p")
    row = p[1]
    called(f, compiled)(p)
    assert p.asnumpy().tolist() == (start(2, 3) * 2).tolist() and row.tolist() == [6, 8, 10]


def test_arguments_that_share_elements_are_refused() -> None:
    @ms.jit
    def f(x: Any, y: Any) -> Any:
        x[0] = 7.0
        return x + y

    t = Tensor(start(2, 3))
    for pair in ((t, t), (t, t.view(2, 3)), (t.view(6).view(2, 3), t)):
        with pytest.raises(ValueError, match="argument 'x' in place, which shares its elements"):
            f(*pair)
    assert np.array_equal(t.asnumpy(), start(2, 3))
    assert f(t, t.copy()).shape == (2, 3)
    with pytest.raises(ValueError, match="shares its elements"):
        ms.grad(lambda x, y: f(x, y).sum())(t, t)


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
def test_a_parameter_that_the_function_reads_too(mode: int) -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = Parameter(Tensor(start(2, 3)), name="w")

        def construct(self, x: Any) -> Any:
            x[0] = 1.0
            return x * self.w

    ms.set_context(mode=mode)
    net = Net()
    if mode == ms.GRAPH_MODE:
        with pytest.raises(ValueError, match="a Parameter or constant that the function reads"):
            net(net.w.view(6).view(2, 3))
    assert net(net.w).tolist() == [[1, 1, 1], [9, 16, 25]]
    assert net.w.asnumpy().tolist() == [[1, 1, 1], [3, 4, 5]]


# --- gradients ------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("view", VIEWS)
def test_gradients_pass_through_changes(view: str, compiled: bool) -> None:
    """What is overwritten has no gradient; what was read before keeps the value it had."""
    def loss(x: Any) -> Any:
        y = x * 2.0
        square = y * y
        b = VIEWS[view][0](y)
        b.mul_(b)
        return square.sum() + (y * y).sum()

    numbers = start(2, 3) + 1
    places = np.zeros((2, 3), bool)
    VIEWS[view][1](places.view(np.uint8) if view != "diagonal" else
                   np.zeros((2, 3), np.float32))[...] = True
    if view == "diagonal":
        places[0, 1] = places[1, 2] = True
    found = called(ms.grad(loss), compiled)(Tensor(numbers)).asnumpy()
    want = np.where(places, 8 * numbers + 64 * numbers ** 3, 16 * numbers)
    assert np.array_equal(found, want)


@BOTH
def test_a_differentiated_argument_that_is_changed(compiled: bool) -> None:
    def loss(x: Any) -> Any:
        x.T[0] = 100.0
        return (x * x).sum()

    x = Tensor(start(2, 3))
    row = x[1]
    grad = called(ms.grad(loss), compiled)(x)
    assert grad.tolist() == [[0, 2, 4], [0, 8, 10]]
    assert x.tolist() == [[100, 1, 2], [100, 4, 5]] and row.tolist() == [100, 4, 5]


# --- Parameters -----------------------------------------------------------------------------------


class Scaled(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.w = Parameter(Tensor(start(2, 3)), name="w")

    def construct(self, x: Any) -> Any:
        row = self.w[1]
        flat = self.w.view(6)
        row[0] = 10.0
        ops.assign_add(self.w, x)
        return row + 0, flat * 1


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
def test_views_of_parameters(mode: int) -> None:
    ms.set_context(mode=mode)
    net = Scaled()
    outside = net.w.T
    row, flat = net(Tensor(np.ones((2, 3), np.float32)))
    want = start(2, 3) + 1
    want[1, 0] = 11
    assert np.array_equal(net.w.asnumpy(), want) and np.array_equal(outside.asnumpy(), want.T)
    assert np.array_equal(row.asnumpy(), want[1]) and np.array_equal(flat.asnumpy(), want.ravel())
    net.w.set_data(Tensor(start(2, 3)))
    assert np.array_equal(outside.asnumpy(), start(2, 3).T)
    outside[0, 1] = 30.0
    assert net.w.asnumpy()[1, 0] == 30


@pytest.mark.parametrize("copied", [
    copy.copy, copy.deepcopy, Parameter.clone, lambda p: pickle.loads(pickle.dumps(p))])
def test_a_copy_of_a_parameter_has_none_of_its_views(copied: Any) -> None:
    p = Parameter(Tensor(start(2, 3)), name="p")
    row = p[0]
    other = copied(p)
    other[0] = 5.0
    assert np.array_equal(row.asnumpy(), start(2, 3)[0])
    row.add_(1.0)
    assert np.array_equal(p.asnumpy()[0], start(2, 3)[0] + 1)
    assert np.array_equal(other.asnumpy(), [[5, 5, 5], start(2, 3)[1]])


def test_a_view_follows_the_steps_of_a_compiled_optimizer() -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    net = nn.Dense(3, 2)
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params()))
    row = net.weight[1]
    before = row.asnumpy().copy()
    step(Tensor(start(4, 3)), Tensor(start(4, 2)))
    assert np.array_equal(row.asnumpy(), net.weight.asnumpy()[1])
    assert not np.array_equal(row.asnumpy(), before)


# --- where views go -------------------------------------------------------------------------------


def _fills(part: Any) -> None:
    part[0] = 8.0


class Inner(nn.Cell):
    def construct(self, part: Any) -> Any:
        part.add_(1.0)
        return part.view(-1)[1:]


class Outer(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def construct(self, x: Any) -> Any:
        y = x * 1.0
        for i in range(2):
            tail = self.inner(y[i])
            tail[0] = 20.0 + i
        return y


def across_functions(x: Any, n: Any) -> Any:
    y = x * 1.0
    parts = [y[0], {"k": y.T[1]}]
    _fills(parts[0])
    _fills(parts[1]["k"])

    def inner() -> None:
        parts[0][1] = -3.0

    inner()
    return y


def under_a_condition(x: Any, n: Any) -> Any:
    y = x * 1.0
    row, turned = y[1], y.T
    if n > 1:
        row[0] = 50.0
    else:
        turned[1, 0] = 60.0
    y[0, 2] = 70.0
    return y, row + 0, turned + 0


def in_a_loop(x: Any, n: Any) -> Any:
    y = x * 1.0
    flat = y.view(-1)
    i = n * 0
    while i < n:
        flat[1] = flat[1] + 1.0
        y[1].mul_(2.0)
        part = y.T
        part[0] = part[0] + 1.0
        i = i + 1
    return y, flat + 0


def rolled(x: Any, n: Any) -> Any:
    y = ops.zeros((64, 3)) + x[0]
    for row in y:
        row[1] = row[0] + 1.0
    for i in range(64):
        part = y[i]
        part[0] = part[1] * 2.0
    return y


def chosen_alike(x: Any, n: Any) -> Any:
    y = x * 1.0
    if n > 1:
        row = y[0]
    else:
        row = y[0]
    row[1] = 9.0
    y[0, 0] = 4.0
    return y, row + 0


def chosen_and_read(x: Any, n: Any) -> Any:
    y = x * 1.0
    row = y[0] if n > 1 else y[1]
    double = row * 2.0
    y[0] = 5.0
    return y, double


def chosen_of_what_is_gone(x: Any, n: Any) -> Any:
    if n > 1:
        v = (x * 2.0).T
    else:
        v = (x * 3.0).T
    v[0] = 1.0
    return v


def taken_in_each_trip(x: Any, n: Any) -> Any:
    y = x * 1.0
    v = y[0]
    i = n * 0
    while i < n:
        v = y[1]
        v[0] = v[0] + 1.0
        i = i + 1
    return y


def tail_of(t: Any) -> Any:
    return t.view(-1)[1:]


def from_equal_calls(x: Any, n: Any) -> Any:
    y = x * 1.0
    for i in range(6):
        tail = tail_of(y)
        tail[i % 3] = tail[i % 3] + 1.0
    return y


def of_a_constant(x: Any, n: Any) -> Any:
    zeros = Tensor(np.zeros((2, 3), np.float32))
    turned = zeros.T
    zeros[0, 1] = 5.0
    return turned + x.T


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("fn", [
    across_functions, under_a_condition, in_a_loop, rolled, chosen_alike, chosen_and_read,
    chosen_of_what_is_gone, taken_in_each_trip, from_equal_calls, of_a_constant,
])
def test_views_within_programs(fn: Callable[..., Any], n: int) -> None:
    args = Tensor(start(2, 3)), Tensor(n)
    eager, graph = fn(*args), ms.jit(fn)(*args)
    many = eager if isinstance(eager, tuple) else (eager,)
    others = graph if isinstance(graph, tuple) else (graph,)
    for a, b in zip(many, others, strict=True):
        assert np.array_equal(a.asnumpy(), b.asnumpy())
    if fn is in_a_loop:
        want = start(2, 3)
        for _ in range(n):
            want.reshape(-1)[1] += 1
            want[1] *= 2
            want[:, 0] += 1
        assert np.array_equal(many[0].asnumpy(), want)


def chosen_and_written(x: Any, n: Any) -> Any:
    y = x * 1.0
    row = y[0] if n > 1 else y[1]
    row[1] = 9.0
    return y


def chosen_and_read_later(x: Any, n: Any) -> Any:
    y = x * 1.0
    row = y[0] if n > 1 else y[1]
    y[0] = 5.0
    return y, row * 2.0


def carried_and_written(x: Any, n: Any) -> Any:
    y = x * 1.0
    row = y[0]
    i = n * 0
    while i < n:
        row[0] = row[0] + 1.0
        row = row * 1.0
        i = i + 1
    return y


@pytest.mark.parametrize(("fn", "text"), [
    (chosen_and_written, "is changed in place: write to the tensor that it was taken from"),
    (chosen_and_read_later, "is read after the tensor that it may be a view of was changed"),
    (carried_and_written, "is changed in place: write to the tensor that it was taken from"),
])
def test_what_only_the_run_knows_is_refused(fn: Callable[..., Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        ms.jit(fn)(Tensor(start(2, 3)), Tensor(1))


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
def test_views_across_cells(mode: int) -> None:
    ms.set_context(mode=mode)
    assert Outer()(Tensor(start(2, 3))).tolist() == [[1, 20, 3], [4, 21, 6]]


# --- what a view is -------------------------------------------------------------------------------


def test_strides_and_offsets() -> None:
    """As MindSpore 2.10 gives them."""
    t = Tensor(start(2, 3))
    for view, strides, offset, contiguous in (
        (t, [3, 1], 0, True), (t.T, [1, 3], 0, False), (t[:, 1], [3], 1, False),
        (t[1], [1], 3, True), (t.expand((2, 2, 3)), [0, 3, 1], 0, False),
        (t.diagonal(), [4], 0, False), (t[:, 1:], [3, 1], 1, False),
        (t.view(3, 2), [2, 1], 0, True), (t.T.unsqueeze(0), [3, 1, 3], 0, False),
    ):
        assert view.stride() == strides and view.storage_offset() == offset
        assert view.is_contiguous() is contiguous
        if view.size and offset is not None:
            assert view.data_ptr() - t.data_ptr() == 4 * offset
    assert t.contiguous() is t and t.T.contiguous().is_contiguous() and t.stride(0) == 3


@BOTH
def test_a_view_whose_elements_are_one_is_not_written(compiled: bool) -> None:
    def f(x: Any) -> Any:
        x.broadcast_to((2, 2, 3)).add_(1.0)
        return x

    with pytest.raises(ValueError, match="several elements of this view are one element"):
        called(f, compiled)(Tensor(start(2, 3)))


def test_copies_of_views() -> None:
    t = Tensor(start(2, 3))
    for made in (copy.copy(t.T), copy.deepcopy(t.T), pickle.loads(pickle.dumps(t.T))):
        made[0] = 9.0
        assert np.array_equal(t.asnumpy(), start(2, 3)) and made.shape == (3, 2)


def test_views_that_are_gone_cost_nothing() -> None:
    t = Tensor(start(2, 3))
    for _ in range(1000):
        t.view(3, 2)
    assert len(t.__dict__["_views"]) < 32
    t[0] = 1.0
    assert not t.__dict__["_views"]
