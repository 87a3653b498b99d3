"""What is walked changes meanwhile; iterators that are advanced by hand."""
# The programs use Python in every way, good style or not.
# ruff: noqa

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np

from .table import X, Y, Table

case = Table(X, Y)


@case
def element_assigned(x: Any) -> Any:
    l, t = [x, x + 1], x * 0
    for v in l:
        t = t + v
        l[1] = x * 100
    return t, l


@case
def element_assigned_under_enumerate(x: Any) -> Any:
    l, t = [x, x + 1, x + 2], x * 0
    for i, v in enumerate(l, 1):
        t = t + v * i
        l[-1] = v * 10
    return t, l


@case
def element_assigned_under_zip(x: Any) -> Any:
    a, b, t = [x, x + 1], [1, 2, 3], x * 0
    for v, k in zip(a, b):
        t = t + v * k
        a[1], b[1] = x * 100, 7
    return t


@case
def element_assigned_under_reversed(x: Any) -> Any:
    l, t = [x, x + 1, x + 2], x * 0
    for v in reversed(l):
        t = t * 2 + v
        l[0] = x * 100
    return t


@case
def element_assigned_under_nested_builtins(x: Any) -> Any:
    l, t = [x, x + 1, x + 2], x * 0
    for i, (v, w) in enumerate(zip(reversed(l), l)):
        t = t * 2 + v * i - w
        l[0], l[2] = x * 100, x * 3
    return t


@case
def map_is_lazy(x: Any) -> Any:
    l, seen = [x, x + 1], []
    for v in map(lambda e: (seen.append(len(seen)), e * 2)[1], l):
        l[1] = x * 100
        seen.append(v)
    return seen


@case
def map_that_is_not_consumed(x: Any) -> Any:
    seen = []
    m = map(seen.append, [1, 2, 3])
    next(m)
    return x, seen


@case
def filter_is_lazy(x: Any) -> Any:
    l, out = [1, 2, 3, 4], []
    for v in filter(lambda e: e % 2 == 0, l):
        out.append(v)
        l[3] = 9
    return x, out


@case
def comprehension_over_a_changing_list(x: Any) -> Any:
    l = [x, x + 1, x + 2]
    return [(v, l.pop())[0] for v in l], l


@case
def generator_expression_is_lazy(x: Any) -> Any:
    l, k = [x, x + 1], 2
    g = (v * k for v in l)
    l[1], k = x * 100, 3
    first = next(g)
    k = 5
    return first, list(g), list(g)


@case
def generator_expression_evaluates_its_source_at_once(x: Any) -> Any:
    l = [1, 2]
    g = (v * w for v in l for w in l)
    l = [5]
    return x, list(g)


@case
def appended_while_walked(x: Any) -> Any:
    l = [x]
    for v in l:
        if len(l) < 5:
            l.append(v * 2)
    return l


@case
def removed_while_walked(x: Any) -> Any:
    l, out = [x, x + 1, x + 2, x + 3], []
    for v in l:
        out.append(v)
        del l[0]
    return out, l


@case
def popped_while_walked(x: Any) -> Any:
    l, out = [x, x + 1, x + 2, x + 3, x + 4], []
    for v in l:
        out.append(v + l.pop())
    return out, l


@case
def inserted_while_walked(x: Any) -> Any:
    l, out = [x, x + 1], []
    for v in l:
        out.append(v)
        if len(out) < 4:
            l.insert(0, x * 7)
    return out


@case
def slice_assigned_while_walked(x: Any) -> Any:
    l, out = [x, x + 1, x + 2], []
    for v in l:
        out.append(v)
        l[1:] = [x * 10, x * 20, x * 30][: 5 - len(out)]
    return out, l


@case
def cleared_while_walked(x: Any) -> Any:
    l, n = [x, x + 1], 0
    for v in l:
        n += 1
        l.clear()
    return x, n, l


@case
def name_bound_anew_while_walked(x: Any) -> Any:
    l, t = [x, x + 1], x * 0
    for v in l:
        l = [x * 100]
        t = t + v
    return t, l


@case
def augmented_while_walked(x: Any) -> Any:
    l, n = [x, x + 1], 0
    for v in l:
        n += 1
        if n < 3:
            l += [v * 2]
    return l, n


@case
def nested_over_the_same_list(x: Any) -> Any:
    l, out = [x, x + 1, x + 2], []
    for a in l:
        for b in l:
            out.append(a * b)
            l[2] = a - b
    return out


@case
def zipped_with_itself(x: Any) -> Any:
    it = iter([x, x + 1, x + 2, x + 3, x + 4])
    return [a * b for a, b in zip(it, it)], next(it, None)


@case
def zip_takes_one_too_many(x: Any) -> Any:
    a, b = iter([1, 2, 3]), iter([4])
    return x, list(zip(a, b)), list(a), list(b)


@case
def enumerate_of_an_iterator(x: Any) -> Any:
    it = iter([x, x + 1, x + 2])
    for i, v in enumerate(it):
        if i == 1:
            break
    return v, list(it)


@case
def iterator_shares_its_place(x: Any) -> Any:
    it = iter([x, x + 1, x + 2, x + 3])
    out = [next(it)]
    for v in it:
        out.append(v + next(it, 0))
    return out, iter(it) is it


@case
def iterator_sees_what_is_appended(x: Any) -> Any:
    l = [x]
    it = iter(l)
    a = next(it)
    l.append(x * 3)
    b = next(it)
    c = next(it, None)
    l.append(x * 5)
    return a, b, c, next(it, None)


@case
def star_takes_the_rest(x: Any) -> Any:
    it = iter([x, x + 1, x + 2])
    first = next(it)
    head, *rest = it
    return first, [*rest, *it], head


@case
def any_and_all_stop_early(x: Any) -> Any:
    it, other = iter([0, 1, 2, 3]), iter([1, 0, 5])
    return x, any(it), list(it), all(other), list(other)


@case
def dict_values_change_while_walked(x: Any) -> Any:
    d, out = {"a": x, "b": x + 1}, []
    for k in d:
        out.append(d[k])
        d["b"] = x * 100
    for v in d.values():
        out.append(v)
        d["b"] = x * 200
    for k, v in d.items():
        out.append((k, v))
        d["b"] = x * 300
    return out


@case.on(X, raises=RuntimeError)
def dict_grows_while_walked(x: Any) -> Any:
    d = {"a": x}
    for k in d:
        d[k + "b"] = x
    return d


@case.on(X, raises=RuntimeError)
def dict_shrinks_while_walked(x: Any) -> Any:
    d = {"a": x, "b": x}
    for k in d.items():
        d.pop("b", None)
    return x


@case.on(X, raises=RuntimeError)
def dict_keys_replaced_while_walked(x: Any) -> Any:
    d = {"a": x, "b": x}
    for k in d:
        del d["a"]
        d["a"] = x
    return x


@case.on(X, raises=RuntimeError)
def set_grows_while_walked(x: Any) -> Any:
    s = {1}
    for v in s:
        s.add(v + 100)
    return x


@case
def dict_with_holes_and_a_run_time_branch(x: Any) -> Any:
    d = {"a": x, "b": x + 1, "c": x + 2, "d": x + 3}
    del d["a"], d["c"]
    out = []
    for k in d:
        if x.sum() > 0:
            d["d"] = x * 100
        out.append(d[k])
    return out


@case
def list_changed_in_a_run_time_branch(x: Any) -> Any:
    l, t = [x, x + 1, x + 2], x * 0
    for v in l:
        t = t + v
        if t.sum() > 0:
            l[2] = x * 100
        else:
            l[1] = x * 10
    return t


@case
def list_changed_behind_a_run_time_break(x: Any) -> Any:
    l, t = [x, x + 1, x + 2], x * 0
    for v in l:
        t = t + v
        if t.sum() > 3:
            break
        l[2] = t * 10
    return t, l


@case
def iterator_in_both_branches(x: Any) -> Any:
    it = iter([1, 2, 3])
    a = next(it)
    if x.sum() > 0:
        x = x + next(it)
        a = a + next(it)
    else:
        for k in it:
            x = x * k
    return x, a


@case
def iterator_goes_on_after_equal_branches(x: Any) -> Any:
    it = iter([1, 2, 3])
    if x.sum() > 0:
        x = x + next(it)
    else:
        x = x * next(it) - 4
    return x * next(it), list(it)


@case
def pairs_walked_in_both_branches(x: Any) -> Any:
    pairs = zip([1, 2], [3.0, 4.0])
    if x.sum() > 0:
        for a, b in pairs:
            x = x + a * b
    else:
        x = x - sum(a for a, _ in pairs)
    return x


@case
def long_list_that_changes(x: Any) -> Any:
    l, t = [float(i) for i in range(64)], x * 0
    for v in l:
        t = t * 0.5 + (x * v - t) * 0.25 - x * x * 0.25 + t * x * 0.125
        l[63] = 1000.0
    return t


@case
def long_list_of_tensors_that_changes(x: Any) -> Any:
    l, t = [x] * 64, x * 0
    for v in l:
        t = t * 0.5 + (x * v - t) * 0.25 - x * v * 0.25 + t * x * 0.125
        l[63] = x * 10
    return t, l[63]


@case
def long_list_that_changes_under_zip(x: Any) -> Any:
    l, t = [1.0] * 64, x * 0
    for i, v in zip(range(64), l):
        t = t * 0.5 + (x * v - t) * 0.25 - x * v * 0.25 + t * x * 0.125
        l[40] = 100.0
    return t


@case
def long_list_that_grows(x: Any) -> Any:
    l, t = [1.0] * 40, x * 0
    for v in l:
        t = t * 0.5 + (x * v - t) * 0.25 - x * v * 0.25 + t * x * 0.125
        if len(l) < 44:
            l.append(9.0)
    return t, len(l)


@case
def long_iterator_advanced_in_the_body(x: Any) -> Any:
    it, t = iter([float(i) for i in range(80)]), x * 0
    for v in it:
        t = t * 0.5 + (x * v - t) * 0.25 - x * v * 0.25 + x * 0.125 * next(it)
    return t, next(it, None)


@case
def long_iterator_is_over_after_the_loop(x: Any) -> Any:
    it, t = iter([float(i) for i in range(40)]), x * 0
    for v in it:
        t = t * 0.5 + (x * v - t) * 0.25 - x * v * 0.25 + t * x * 0.125
    return t, next(it, "over")


@case
def long_loop_with_an_iterator_outside(x: Any) -> Any:
    it, t = iter([float(i) for i in range(80)]), x * 0
    for i in range(40):
        t = t * 0.5 + (x * i - t) * 0.25 - x * 0.25 + x * 0.125 * next(it)
    return t, next(it)


@case
def long_loop_with_failures_that_are_caught(x: Any) -> Any:
    l = [1.0] * 6
    for i in range(40):
        try:
            k = l[i] + 1.0
        except IndexError:
            k = 7.0
        x = x * 0.5 + k - (x - k) * 0.25 + x * x * 0.001 - x * 0.125
    return x


@case
def long_loop_with_a_division_that_is_caught(x: Any) -> Any:
    for i in range(40):
        try:
            k = 4.0 / (i - 20)
        except ZeroDivisionError:
            k = 7.0
        x = x * 0.5 + k - (x - k) * 0.25 + x * x * 0.001 - x * 0.125
    return x


@case
def long_loop_with_continue_in_finally(x: Any) -> Any:
    for i in range(40):
        try:
            x = x * 0.5 + i - (x - i) * 0.25 + x * x * 0.001 - x * 0.125
            x = x if i % 2 else x + 1
        finally:
            continue
    return x


@case
def reduced_over_what_changes(x: Any) -> Any:
    l = [x, x + 1, x + 2]

    def step(a: Any, b: Any) -> Any:
        l[2] = x * 100
        return a * 2 + b

    return functools.reduce(step, l)


@case
def foreign_iterators(x: Any) -> Any:
    l = [x, x + 1]
    out = []
    for v in itertools.chain(l, iter([x * 3])):
        out.append(v)
        l[1] = x * 50
    count = itertools.count(3)
    return out, next(count), [k for k, _ in zip(count, "ab")], next(count)


@case
def foreign_iterator_made_in_a_branch(x: Any) -> Any:
    if x.sum() > 0:
        for a, b in itertools.product([1, 2], [3, 4]):
            x = x + a * b
    return x


@case.on(X, raises=ValueError)
def strict_zip(x: Any) -> Any:
    for a, b in zip([x, x], [x], strict=True):
        x = x + a
    return x


@case.on(X, raises=TypeError)
def reversed_of_a_set(x: Any) -> Any:
    return x, list(reversed({1, 2}))


@case
def reversed_of_other_things(x: Any) -> Any:
    d = {"a": 1, "b": 2}
    return x, [*reversed("abc")], [*reversed(range(3))], [*reversed(d)], [*reversed((1, x))]


@case
def tensors_walked_together(x: Any) -> Any:
    y = x * 2
    return [a + b * i for i, (a, b) in enumerate(zip(x, reversed(y)))]
