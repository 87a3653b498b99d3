"""Programs of which Python does a part when they run: functions of one float32 tensor [2, 3].

They use only what has one meaning in both modes (arrays that are written are copies first).
"""

# ruff: noqa: B007, C416, C417, E731, UP031

from __future__ import annotations

import collections
import fractions
import functools
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import cellc as ms
from cellc import Tensor, ops

PROGRAMS: dict[str, Callable[..., Any]] = {}


def program(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Add a program to the table."""
    PROGRAMS[fn.__name__] = fn
    return fn


Pair = collections.namedtuple("Pair", "first second")


class Holder:
    def __init__(self, elements):
        self.elements = elements

    def total(self):
        return self.elements.sum()


def scaled(a, b=2):
    return np.array(a) * b


@ms.jit
def compiled_inside(x):
    return Tensor(x.asnumpy() + 1)


@program
def array_and_back(x):
    return Tensor(x.asnumpy() * 2)


@program
def numpy_of_an_array(x):
    return x + Tensor(np.exp(x.asnumpy()))


@program
def numpy_of_a_tensor(x):
    return np.add(x, 1), np.stack([x.asnumpy(), x.asnumpy()]), np.abs(x)


@program
def length_of_a_string(x):
    return x + len(f"{int(x.sum())}")


@program
def loop_over_few(x):
    total = 0
    for v in x.asnumpy().ravel():
        total += float(v)
    return total


@program
def loop_over_many(x):
    total = 0
    for v in np.concatenate([x.asnumpy().ravel()] * 20):
        total += v
    return total


@program
def greatest_of_many(x):
    best = None
    for v in np.concatenate([x.asnumpy().ravel()] * 20):
        if best is None:
            best = v
        if v > best:
            best = v
    return best


@program
def branch_not_taken_at_first(x):
    if x.sum() > 20:
        a = x.asnumpy()
        return Tensor(np.sin(a).max())
    if x.sum() < 0:
        return Tensor(x.asnumpy().min())
    return Tensor(1.0)


@program
def branch_taken_in_a_later_trip(x):
    total = 0
    for i in range(x.sum().astype(ms.int32) + 200):
        if i == 150:
            total = total + int(np.max(x.asnumpy()))
        if i == 160:
            total = total + len(x.asnumpy())
    return total


@program
def objects_of_two_branches(x):
    a = x.asnumpy()
    if a.sum() > 20:
        b = a + 1
    else:
        b = a * 2
    return Tensor(b)


@program
def none_or_an_array(x):
    b = None
    if x.sum() > 20:
        b = x.asnumpy()
    return b


@program
def list_or_another(x):
    a = [1]
    if x.sum() > 20:
        a = x.asnumpy().tolist()
    a.append(3)
    return a, len(a)


@program
def known_array_or_another(x):
    y = x.asnumpy() if x.sum() > 20 else np.zeros((2, 3), np.float32)
    return Tensor(y)


@program
def strings_of_two_branches(x):
    name = "low"
    if x.sum() > 20:
        name = f"high {int(x.sum())}"
    return name, len(name)


@program
def while_over_an_object(x):
    a, i = x.asnumpy(), 0
    while a.sum() < 100 and i < 5:
        a = a + np.abs(a).max()
        i += 1
    return Tensor(a), i


@program
def while_true(x):
    a, i = x.asnumpy(), 0
    while True:
        a = a / 2
        i += 1
        if np.abs(a).max() < 1:
            break
    return a, i


@program
def nested_loops(x):
    a = x.asnumpy()
    s = 0.0
    i = 0
    while i < a.shape[0]:
        j = 0
        while j < a.shape[1]:
            s += a[i, j]
            j += 1
        i += 1
    return s


@program
def return_out_of_a_loop(x):
    for v in x.asnumpy().ravel().tolist():
        if v == 3.0 or v == 7.0:
            return v
    return -1.0


@program
def size_that_differs(x):
    u = np.unique(np.clip(x.asnumpy(), 0, 7))
    return Tensor(u), len(u), u.shape


@program
def layout_is_known(x):
    a = x.asnumpy()
    return (a.shape[0] + 1, a.dtype == np.float32, a.ndim, a.size, len(a), ops.ones(a.shape),
            [i for i in range(len(a))])


@program
def types_are_known(x):
    a = x.asnumpy()
    return isinstance(a, np.ndarray), type(a.sum()) is np.float32, isinstance(a, (int, str)), \
        hasattr(a, "shape"), getattr(a, "absent", 5), callable(a)


@program
def unpacked(x):
    a, b = x.asnumpy()
    first, *rest = a.tolist()
    return Tensor(a) + Tensor(b), [float(v) for v in a], first, rest


@program
def number_beside_a_tensor(x):
    return x * x.asnumpy().sum() + x.asnumpy().max()


@program
def number_as_an_index(x):
    n = np.abs(x.asnumpy()).argmax()
    return x[n // 3], [1, 2, 3, 4, 5, 6][n], ops.ones((3,)) * n


@program
def formats(x):
    a = x.asnumpy()
    return "sum %.2f" % float(x.sum()), f"{int(x.sum()):>8}", f"{a.mean():.3f}", \
        f"{a[0]} {x.sum()}", str(a), repr(a.dtype), "%d" % a.max(), f"{int(x.sum()):>{6}}"


@program
def string_methods(x):
    s = f"{int(x.sum())}"
    return s == "15", s[0], s.upper(), "1" in s, s + "!", "-".join([s, s]), s.split("5")


@program
def run_time_keys(x):
    d = {15: "a", 45: "b", -165: "c"}
    e = {int(x.sum()): 1}
    e[f"{int(x.sum())}"] = x.asnumpy().sum()
    return d[int(x.sum())], e, len(e), list(e), {str(k): k for k in x.asnumpy()[0].tolist()}


@program
def containers_asked_and_changed(x):
    n = int(x.sum())
    d = {15: "a", 45: "b", -165: "c"}
    e = dict(d)
    popped = e.pop(n)
    numbers = [1, 2, 3]
    numbers.remove(x.asnumpy().sum() * 0 + 2)
    return d.get(n, "none"), n in d, 16 in d, [15, 20].count(x.asnumpy().sum()), popped, e, numbers


@program
def known_array_is_written(x):
    a = np.zeros((2, 3), np.float32)
    a[0] = x.asnumpy()[0]
    w = np.zeros(3)
    w[1] = float(x.sum())
    return Tensor(a), w


@program
def array_is_written(x):
    a = x.asnumpy().copy()
    a[a > 3] = 0
    a += 1
    a[0, :] *= 2
    b = a.copy()
    b.fill(7)
    return Tensor(a), Tensor(b)


@program
def elements_are_written_in_loops(x):
    m = x.asnumpy().copy()
    for i in range(m.shape[0]):
        for j in range(m.shape[1]):
            m[i, j] = i * j + m[i, j]
    return Tensor(m)


@program
def operators(x):
    q = x.asnumpy().astype(int)
    return q[0] // 2, q % 3, q << 1, ~q, q ** 2, 1 - q, q == q, (q > 1) | (q < 0), -q, q @ q.T


@program
def subscripts(x):
    a = x.asnumpy()
    return a[0, 1], a[:, 1], a[0][1], a[..., 0], a.T, a.reshape(-1)[::2], a[:, 1:int(x.shape[1])]


@program
def identity_and_membership(x):
    a = x.asnumpy()
    return a is x, a is None, 3.0 in a, a is not None, not a.any(), 99 not in a


@program
def conditions(x):
    a = x.asnumpy()
    if a[0, 0] == 0:
        y = x * 2
    elif a[0, 0] == 5 and a.any():
        y = x * 3
    else:
        y = -x
    return y


@program
def builtins_of_elements(x):
    flat = x.asnumpy().ravel()
    m = max(flat)
    return m, sum(flat), sorted(flat, reverse=True), abs(m), round(float(m), 1), \
        divmod(int(m), 3), complex(float(m), 1)


@program
def sets_and_lists(x):
    a = x.asnumpy().tolist()
    a.append([1, 2])
    s = set(x.asnumpy().ravel().tolist())
    s.add(3.5)
    return a, len(a), sorted(a[0], reverse=True), len(s), 3.5 in s


@program
def containers_of_objects(x):
    m = {"x": x.asnumpy(), "y": [x.asnumpy(), 2]}
    m["x"] = m["x"] + 1
    out = {k: (v.sum() if isinstance(v, np.ndarray) else v[0].max()) for k, v in m.items()}
    pair = Pair(x.asnumpy(), x * 2)
    return out, pair.second + Tensor(pair.first)


@program
def objects_of_user_classes(x):
    holder = Holder(x.asnumpy())
    holder.more = holder.elements + 1
    return Tensor(holder.more), holder.total()


@program
def sequences_of_objects_compared(x):
    a = x.asnumpy().sum()
    low, high = ((a, 1), a + 1), ((a, 2), a - 1)
    return low < high, low <= high, low > high, low >= high, [a, 1] == [a, 1], (a,) != (a + 1,)


@program
def third_party_objects(x):
    f = fractions.Fraction(int(x.sum()), 7)
    counted = collections.Counter(x.asnumpy().ravel().astype(int).tolist())
    return f.numerator, float(f), str(f), f + 1, f > 2, counted


@program
def third_party_functions(x):
    clip = functools.partial(np.clip, a_min=0, a_max=4)
    return json.dumps({"a": x.asnumpy().tolist(), "n": int(x.sum())}), clip(x.asnumpy()), \
        math.sin(float(x.sum())), Tensor(scaled(x.asnumpy(), b=3))


@program
def tensors_of_objects(x):
    a = x.asnumpy()
    return Tensor(a, ms.float16), ms.tensor(a), Tensor.from_numpy(a.copy()), Tensor(a.tolist()), \
        Tensor([a[0, 0], 2.0]), ops.stack([Tensor(r) for r in a])


@program
def old_value_of_a_name(x):
    x = x + 1
    y = x.asnumpy()
    x = x * 2
    return x + Tensor(y)


@program
def iterators(x):
    i = iter(x.asnumpy())
    a = next(i)
    total = 0
    for n, row in enumerate(x.asnumpy()):
        total += n * row.sum()
    return a - next(i), total, [*zip(x.asnumpy()[0], [1, 2, 3], strict=True)], \
        list(map(lambda r: float(r.sum()), x.asnumpy()))


@program
def rows_of_a_tensor(x):
    k = 0
    for row in x:
        k = k + row.asnumpy().max()
    return k


@program
def long_loop_with_a_piece(x):
    z, r = x.asnumpy(), x
    for i in range(40):
        r = r + Tensor(z) * i
    return r


@program
def functions_in_functions(x):
    def twice(a):
        return a * 2

    add = lambda a: a + 1
    return twice(x.asnumpy()), add(x.asnumpy()), compiled_inside(compiled_inside(x)) * 2


@program
def exceptions_are_caught(x):
    r = 0
    for s in ["1", "x"]:
        try:
            r += int(s + str(abs(int(x.asnumpy()[0, 0]))))
        except ValueError:
            r -= 1
    try:
        v = json.loads("[1,2" + str(int(x.sum())))
    except ValueError as e:
        v = str(e)
    return r, v


@program
def behind_a_recomputed_value(x):
    v = ops.relu(x) * 2
    for i in range(3):
        v = v * Tensor(np.cos(v.asnumpy()))
    return v.sum()
