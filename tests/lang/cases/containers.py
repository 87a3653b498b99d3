"""Containers: lists, tuples, dicts and sets of tensors, as values, inputs and outputs."""
# The programs use Python in every way, good style or not.
# ruff: noqa

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any, NamedTuple

import numpy as np

import cellc as ms

from .table import X, Y, Table

case = Table(X, Y)
Point = namedtuple("Point", "x y")


class State(NamedTuple):
    h: Any
    c: Any = 0


@case
def list_methods(x: Any) -> Any:
    l = [3, 1]
    l.append(x)
    l.extend([5, 6])
    l.insert(0, "a")
    l.insert(-1, "z")
    popped = l.pop(), l.pop(0)
    l.reverse()
    n = [3, 1, 2, 1]
    n.remove(1)
    n.sort()
    m = n.copy()
    m.clear()
    return l, popped, n, m, n.index(3), [1, 1, 2].count(1), len(l)


@case
def list_sort_with_key(x: Any) -> Any:
    l = [(2, "b"), (1, "c"), (3, "a")]
    l.sort(key=lambda t: t[1], reverse=True)
    m = ["bb", "a", "ccc"]
    m.sort(key=len)
    return x, l, m, sorted(l), sorted("hello", key=ord)


@case
def list_operators(x: Any) -> Any:
    a = [1, x]
    return a + [2], a * 2, 2 * [0], a == [1], [1, 2] < [1, 3], 1 in [1, 2], [1] != [2], not [], a is a


@case
def list_slices(x: Any) -> Any:
    l = [0, 1, 2, x, 4]
    m = list(range(8))
    m[1:3] = ["a", "b", "c"]
    m[::4] = [x, x + 1, x + 2]
    m[5:] = []
    return l[1:], l[:2], l[::-1], l[-2:], l[::2], l[10:], m


@case
def list_of_lists(x: Any) -> Any:
    g = [[0] * 3 for _ in range(2)]
    g[1][2] = x
    g[0][0] += 4
    flat = [v for row in g for v in row]
    return g, flat, list(zip(*[[1, 2], [3, 4]])), [list(r) for r in zip([1, 2], [3, 4])]


@case
def aliases(x: Any) -> Any:
    a = [x]
    b, c = a, a[:]
    b.append(1)
    a += [2]
    d = {"l": a}
    d["l"].append(3)
    return a, b, c, a is b, a is c


@case
def tuple_operations(x: Any) -> Any:
    t = (1, x, "s")
    return t + (2,), t * 2, t[1:], t[-1], t.index(1), (1, 1).count(1), len(t), () == (), (1, 2) < (2,)


@case
def dict_methods(x: Any) -> Any:
    d = {"a": 1, "b": x}
    d.update({"c": 3}, d=4)
    d.update([("e", 5)])
    d |= {"f": 6}
    e = d | {"a": 0}
    got = d.get("a"), d.get("zz"), d.get("zz", x), d.pop("c"), d.pop("zz", None)
    was = d.setdefault("g", 7), d.setdefault("a", 9)
    last = e.popitem()
    f = d.copy()
    f.clear()
    return d, e, got, was, last, f, list(d), "a" in d, len(d), dict.fromkeys("ab", 1)


@case
def dict_views(x: Any) -> Any:
    d = {"a": x, "b": 2}
    keys = d.keys()
    d["c"] = 3
    return list(keys), list(d.values()), tuple(d.items()), "c" in keys, sorted(d), max(d), d == dict(d.items())


@case
def dict_of_dicts(x: Any) -> Any:
    d = {"a": {"b": {"c": x}}}
    d["a"]["b"]["d"] = d["a"]["b"]["c"] + 1
    d["n"] = d["a"].get("q", {"z": 1})
    del d["a"]["b"]["c"]
    return d


@case
def dict_keys_of_many_types(x: Any) -> Any:
    d = {1: "int", "1": "str", (1, 2): x, None: 0, True: "replaces 1", 2.5: "f", frozenset([1]): 1}
    return d[1], d["1"], d[(1, 2)], d[None], d[2.5], len(d), d[1, 2]


@case
def sets(x: Any) -> Any:
    a, b = {1, 2, 3}, set([3, 4])
    a.add(9)
    a.discard(100)
    b.update([5], (6,))
    a.remove(1)
    return (x, sorted(a | b), sorted(a & b), sorted(a - b), sorted(a ^ b), 2 in a, len(b), a.issubset({2, 3, 9, 1}),
            frozenset("ab") == {"a", "b"}, sorted(a.union([7])), {1} < {1, 2}, a.isdisjoint({50}))


@case
def comprehensions_nested(x: Any) -> Any:
    return ([[i * j for j in range(3)] for i in range(2)], [i + j for i in range(3) for j in range(i) if j != 1],
            {i: [x * j for j in range(i)] for i in range(3)}, [y for y in [x + 1, x + 2] if len(y) > 1],
            [a if a > 1 else -a for a in range(4)])


@case
def comprehension_scopes(x: Any) -> Any:
    i = 100
    l = [i for i in range(3)]
    k = [i + j for j in range(2)]
    return x, l, k, i, [[i for i in range(i)] for i in range(3)], [x for x in (1, 2)], x


@case
def generator_expressions(x: Any) -> Any:
    g = (v * 2 for v in (1, 2, 3))
    first = next(g)
    return first, list(g), sum(x * i for i in range(3)), tuple(i for i in "ab"), max(i % 4 for i in range(6)), \
        any(i > 1 for i in range(3)), all(i for i in []), dict((k, x) for k in "ab"), ",".join(c for c in "abc")


@case
def named_tuples(x: Any) -> Any:
    p = Point(x, y=2)
    s = State(x)
    a, b = p
    return p, s, a, b, p._replace(y=x), p._asdict(), Point._fields, s.c, p[0], Point(*[1, 2]), p + (3,)


@case
def special_containers(x: Any) -> Any:
    od = OrderedDict(b=x, a=1)
    od.move_to_end("b")
    dd = defaultdict(list)
    dd["k"].append(x)
    dd["l"].append(1)
    dq = deque([1, 2, x], maxlen=3)
    dq.appendleft(0)
    return list(od), od["b"], dict(dd), list(dq)


@case
def returned_special_containers(x: Any) -> Any:
    return OrderedDict(a=x, b=[1]), Point(x, Point(1, x)), State(x, {"k": x})


@case
def returned_sets(x: Any) -> Any:
    return x, {1, 2}, frozenset(["a"]), set()


@case
def returned_other_values(x: Any) -> Any:
    return x, None, "text", 2.5, True, 3, (), [], {}, range(3), slice(1, 2), ..., 1 + 2j, b"ab", int, Point


@case.on(({"a": X, "b": [Y, 2]},), ({"a": Y, "b": [X, 2]},))
def dict_input(d: Any) -> Any:
    return d["a"] + d["b"][0] * d["b"][1], d, list(d)


@case.on(([X, (Y, [X, 3])], 2), ([Y, (X, [Y, 3])], 5))
def nested_list_input(l: Any, k: Any) -> Any:
    a, (b, (c, d)) = l
    return [c, a * k], (b + d, l[1])


@case.on((X, [], (), {}), (Y, [], (), {}))
def empty_inputs(x: Any, l: Any, t: Any, d: Any) -> Any:
    return x, l, t, d, len(l)


@case.on((X, "mean"), (X, "sum"), (X, None))
def string_input(x: Any, how: Any) -> Any:
    if how == "mean":
        return x.mean()
    if how is None:
        return x
    return x.sum()


@case.on((X, Point(Y, 2)))
def named_tuple_input(x: Any, p: Any) -> Any:
    return x + p.x * p.y, p


@case.on((X, [1, 2.5, True, "s", None]))
def list_of_constants_input(x: Any, l: Any) -> Any:
    return x * l[0] + l[1], l[2], l[3:], l


@case
def runtime_choice_of_elements(x: Any) -> Any:
    l = [x, x + 1]
    if x.sum() > 0:
        l = [l[1], l[0]]
    return l


@case
def runtime_writes_to_lists(x: Any) -> Any:
    l, d = [x, 1, x], {"k": x}
    if x.sum() > 0:
        l[0] = x + 1
        d["k"] = x * 2
    else:
        l[2] = x - 1
    return l, d


@case
def runtime_appends_in_both(x: Any) -> Any:
    l = []
    if x.sum() > 0:
        l.append(x + 1)
    else:
        l.append(x - 1)
    return l


@case
def list_indexed_by_tensor(x: Any) -> Any:
    l = [x, x * 2, x * 3]
    i = (x.sum() > 0) + (x[0] > 0) * 1
    return l[int(i)]


@case
def carried_in_structures(x: Any) -> Any:
    state = {"h": x, "n": 0}
    while state["h"].sum() < 9:
        state["h"] = state["h"] + 1
        state["n"] = state["n"] + 1
    return state


@case
def carried_in_named_tuple(x: Any) -> Any:
    s = State(x, 0.0)
    while s.h.sum() < 9:
        s = State(s.h + 1, s.c + 0.5)
    return s


@case
def stack_and_queue(x: Any) -> Any:
    todo, out = [(x, 0)], []
    while todo:
        v, depth = todo.pop(0)
        out.append(v)
        if depth < 2:
            todo.append((v + 1, depth + 1))
            todo.append((v * 2, depth + 1))
    return out


@case
def containers_of_functions_and_types(x: Any) -> Any:
    table = {int: "i", float: "f"}
    return x, table[type(3)], table[type(2.5)], [f(-2.5) for f in (abs, int, float, round)]


@case
def star_displays(x: Any) -> Any:
    a, d = [1, x], {"k": 1}
    return [*a, *a], (*a, 3), {**d, "k": 2, **{"z": x}}, [*x], [*range(2), *"ab"], {*[1], *(2,)} == {1, 2}


@case
def truth_of_containers(x: Any) -> Any:
    return [bool(v) for v in ([], [0], (), {}, {1: 1}, "", "a", set(), None, 0, 0.0)], ([] or [x]), ({} and 1)


@case
def list_of_rows(x: Any) -> Any:
    rows = list(x)
    rows[0] = rows[1] + rows[2]
    rows.append(rows[0] * 2)
    return rows, tuple(x)


@case
def membership_of_tensors(x: Any) -> Any:
    return x.sum() in [2.0, -4.5], 7 in x, 3 in x, x[0] not in (9.0, 8.0)


@case
def unhashable_and_copy(x: Any) -> Any:
    import copy

    l = [x, [1, {"a": 2}]]
    m = copy.copy(l)
    n = copy.deepcopy([1, [2, {"a": 3}]])
    m[1].append(5)
    n[1].append(6)
    return l, m, n


KNOWN = [ms.Tensor(1), ms.Tensor([2.0])]


@case
def sequences_of_known_tensors(x: Any) -> Any:
    made = [ms.Tensor(1), ms.Tensor([2.0])]
    return (KNOWN == made, KNOWN != made, tuple(KNOWN) == (ms.Tensor(1), ms.Tensor([3.0])),
            tuple(KNOWN) < (ms.Tensor(1), ms.Tensor([3.0])), KNOWN.count(ms.Tensor(1)),
            [KNOWN, 1] == [made, 1], x)
