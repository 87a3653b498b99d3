"""`mutable(values, dynamic_len=True)`, and other lists and tuples where the run decides a place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, jit, mutable, ops

UNKNOWN = (True, True)


def asked(x: Any) -> tuple[bool, bool]:
    return ops.is_sequence_value_unknown(x), ops.is_sequence_shape_unknown(x)


def plain_lists():
    return asked([1, 2]), asked((1, 2)), asked([Tensor([1])])


def of_constant_length():
    a = mutable([1, 2, 3])
    return asked(a), ops.isconstant(len(a)), ops.isconstant(a[0]), ops.isconstant(a)


def made():
    a = mutable([1, 2, 3], True)
    return asked(a), ops.isconstant(len(a)), ops.isconstant(a[0]), isinstance(a, list), a


def searched():
    a = mutable((1, 2, 2), dynamic_len=True)
    return a.index(2), ops.isconstant(a.index(2)), a.count(2), ops.isconstant(a.count(2)), 2 in a


def test_what_a_graph_knows():
    assert jit(plain_lists)() == ((False, False), (False, False), (False, False))
    assert jit(of_constant_length)() == ((True, False), True, False, False)
    assert jit(made)() == (UNKNOWN, False, False, True, [1, 2, 3])
    assert jit(searched)() == (1, False, 2, False, True)


def sliced(a, i):
    return a[1:], a[i:], a * 2, a + a, list(a), tuple(a), list(a).copy()


def repeated(a, i):
    return a * i, a[:i], a[::-1] * i, a[i - 1:]


@pytest.mark.parametrize(("case", "given", "expected"), [
    (sliced, mutable([1, 2, 3], True), 7), (sliced, [1, 2, 3], 1),
    (repeated, [1, 2, 3], 4), (repeated, mutable((1, 2), True), 4),
])
def test_unknown_lengths_spread(case: Callable[..., Any], given: Any, expected: int):
    def call(a, i):
        results = case(a, i)
        return results, [ops.is_sequence_shape_unknown(r) for r in results]

    results, found = jit(call)(given, mutable(2))
    assert results == case(type(given)(given), 2)
    assert sum(found) == expected


def changed():
    a = mutable([1, 2, 3, 4], True)
    a[0] = 5
    a.append(6)
    a.insert(1, 7)
    a.extend([8])
    a[0:2] = [9, 10, 11]
    return a, ops.is_sequence_shape_unknown(a), ops.isconstant(a[3])


def sliced_into(i):
    a, b = [1, 2, 3], [1, 2, 3]
    a[0:1] = mutable([4, 5], True)
    b[i:2] = [6]
    return a, asked(a), b, asked(b)


def test_lists_of_unknown_length_are_changed():
    assert jit(changed)() == ([9, 10, 11, 2, 3, 4, 6, 8], True, False)
    assert jit(sliced_into)(mutable(1)) == ([4, 5, 2, 3], UNKNOWN, [1, 6, 3], UNKNOWN)


def empty():
    a = mutable([], True)
    before = ops.is_dynamic_sequence_element_unknown(a)
    a.append(Tensor([2]))
    return before, ops.is_dynamic_sequence_element_unknown(a), asked(a)


def test_an_empty_list_takes_the_type_of_its_first_element():
    assert jit(empty)() == (True, False, UNKNOWN)


def empties(a):
    parts = tuple(a), list(a), a[:], a + a, mutable((), True)
    return [asked(p) for p in parts], [type(p) is tuple for p in parts], parts


def test_empty_sequences_of_unknown_length():
    for given in ((), []):
        unknown, tuples, parts = jit(empties)(mutable(given, True))
        assert unknown == [UNKNOWN] * 5
        assert tuples == [True, False, given == (), given == (), True]
        assert parts == ((), [], given, given, ())


def constants():
    held = mutable(Tensor([1, 2])), mutable((Tensor([1]), Tensor([2]))), mutable({"a": Tensor(1)})
    known = [ops.isconstant(v) for v in (Tensor([1, 2]), *held, held[0].shape)]
    return known, asked(held[1]), held[0] + held[1][0]


def test_mutable_tensors_are_values_of_the_run():
    known, pair, total = jit(constants)()
    assert known == [True, False, False, False, True]
    assert pair == (True, False)
    assert total.asnumpy().tolist() == [2, 3]


def keeps(t):
    m = mutable((t, t))
    mutable(t)[0] = 5
    return m[0] is t, m[1], t


def test_mutable_tensors_are_the_same_objects():
    for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        ms.set_context(mode=mode)
        given = Tensor([1, 2])
        same, other, itself = (jit(keeps) if mode == ms.GRAPH_MODE else keeps)(given)
        assert same
        assert [v.asnumpy().tolist() for v in (other, itself, given)] == [[5, 2]] * 3


def appends(a, v):
    a.append(v)
    return a


def puts(a, v):
    a[0] = v
    return a


def adds(a, v):
    return a + [v]


def inserts_slice(a, v):
    a[0:1] = [v]
    return a


@pytest.mark.parametrize("case", [appends, puts, adds, inserts_slice])
@pytest.mark.parametrize(("given", "value"), [
    ([1, 2], 1.0), ([Tensor([1]), Tensor([2])], 3), ([Tensor([1])], Tensor([1, 2])),
    ([(1, 2)], (1, 2, 3))])
def test_elements_are_of_one_type(case: Callable[..., Any], given: list[Any], value: Any):
    with pytest.raises(TypeError, match="a sequence of dynamic length must be of one type"):
        jit(case)(mutable(given, True), value)


@pytest.mark.parametrize(("given", "kind"), [
    ((1, 2.0), ValueError), ([True, 1], ValueError), ([(1,), [1]], ValueError),
    ([1, Tensor([1])], ValueError), ([Tensor([1]), Tensor([1.0])], TypeError)])
def test_mixed_elements(given: Any, kind: type[Exception]):
    def inside():
        return mutable(given, True)

    def argument(a):
        return a

    for fn, args in ((inside, ()), (argument, (mutable(given, True),))):
        with pytest.raises(kind, match=r"For 'mutable', the .* of a sequence of dynamic length"):
            jit(fn)(*args)


def fixed():
    return mutable(mutable([1], True))


def no_open_length():
    return ops.is_dynamic_sequence_element_unknown([])


def test_lengths_stay_unknown():
    with pytest.raises(RuntimeError, match="cannot get a constant length"):
        jit(fixed)()
    with pytest.raises(TypeError, match="should be variable length sequence"):
        jit(no_open_length)()


def test_an_argument_has_any_length():
    def total(a, i):
        s = Tensor([0.0])
        for v in a:
            s = s + v * v
        return s, a[i], a[-1], len(a), asked(a), a

    compiled = jit(total)
    for n in (1, 2, 4):
        values = [Tensor([float(k)]) for k in range(n)]
        s, picked, last, length, unknown, same = compiled(mutable(values, True), mutable(0))
        assert s == sum(k * k for k in range(n))
        assert (picked, last, length, unknown, len(same)) == (0, n - 1, n, UNKNOWN, n)


def test_changes_reach_the_list_of_the_caller():
    given = mutable([1, 2], True)
    assert jit(appends)(given, 3) is given
    assert given == [1, 2, 3]


def test_gradients_of_elements():
    def square(a):
        return a[0] * a[0] * a[1]

    for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        ms.set_context(mode=mode)
        got = ops.grad(square)(mutable((Tensor([2.0]), Tensor([3.0])), True))
        assert [g.asnumpy().tolist() for g in got] == [[12.0], [4.0]]


def test_pynative_has_pythons_meaning():
    ms.set_context(mode=ms.PYNATIVE_MODE)
    a = mutable([1, 2.0], True)
    a.append("text")
    assert isinstance(a, list)
    assert a == [1, 2.0, "text"]
    assert mutable((1, 2), True) + (3,) == (1, 2, 3)
    assert ops.reshape(Tensor(np.arange(6)), mutable((2, 3), True)).shape == (2, 3)


# --- places and numbers that the run decides ------------------------------------------------------


def numbers(i, v):
    a = [1, 2, 3]
    a[i] = v
    return a, ops.isconstant(a[0])


def tensors(x, i):
    a = [x, x + 1, x - 1]
    a[i] = x * 10
    b = [0.0] * 3
    for k in range(i):
        b[k] = float(k)
    del a[i]
    return a, b


def test_a_list_is_assigned_at_an_index_of_the_run():
    compiled = jit(numbers)
    for i, expected in ((0, [7, 2, 3]), (-1, [1, 2, 7]), (1, [1, 7, 3])):
        assert compiled(mutable(i), mutable(7)) == (expected, False)
    with pytest.raises(IndexError, match="list assignment index out of range"):
        compiled(mutable(3), mutable(7))
    assert len(compiled.table.entries) == 1
    compiled = jit(tensors)
    for i in (0, 1, 2):
        got, counted = compiled(Tensor([1.0]), mutable(i))
        want, reference = tensors(Tensor([1.0]), i)
        assert [t.asnumpy().tolist() for t in got] == [t.asnumpy().tolist() for t in want]
        assert counted == reference


def ranged(n):
    r = range(n)
    return r, len(r), isinstance(r, range), {"r": [r]}


def test_a_range_of_the_run_leaves_as_a_range():
    compiled = jit(ranged)
    for n in (0, 3, 5):
        assert compiled(mutable(n)) == (range(n), n, True, {"r": [range(n)]})


def made_of_numbers(n):
    return Tensor([n, n + 1]), Tensor([[1.5, n]]), ops.tuple_to_array((n, 2)), Tensor((n > 1, True))


def test_tensors_of_numbers_of_the_run():
    graph, eager = jit(made_of_numbers)(mutable(4)), made_of_numbers(4)
    for a, b in zip(graph, eager, strict=True):
        assert a.dtype == b.dtype
        assert a.asnumpy().tolist() == b.asnumpy().tolist()


def python_first(x, n):
    values = np.sort(x.asnumpy())
    if values.sum() > 3:
        return Tensor(values) * n
    return Tensor(values) + n


def test_numbers_stay_inputs_when_a_call_is_traced_again():
    compiled = jit(python_first)
    for given, n in (([2.0, 1.0], 1), ([5.0, 2.0], 3), ([5.0, 2.0], 4), ([2.0, 1.0, 0.0], 2)):
        got = compiled(Tensor(given), mutable(n))
        assert got.asnumpy().tolist() == python_first(Tensor(given), n).asnumpy().tolist()
