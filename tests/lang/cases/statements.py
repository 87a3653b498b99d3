"""Statements: assignment in every form, del, walrus, with, try, match, assert, imports."""
# The programs use Python in every way, good style or not.
# ruff: noqa

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from .table import X, Y, Table

case = Table(X, Y)
SETTING = {"scale": 2}
LIMIT = 3


@case
def swap(x: Any) -> Any:
    a, b, c = x, 2, 3
    a, b, c = c, a, b
    return a, b, c


@case
def swap_elements(x: Any) -> Any:
    l = [x, x + 1, 3]
    i = 0
    i, l[i] = 2, 9
    l[0], l[1] = l[1], l[0]
    return i, l


@case
def starred_targets(x: Any) -> Any:
    a, *b = [x, 1, 2]
    *c, d = (1, x)
    (e, *f), *g = [[1, 2, 3], x, 4]
    [h, *_, i] = range(5)
    return a, b, c, d, e, f, g, h, i


@case
def unpack_rows(x: Any) -> Any:
    a, b, c = x
    first, *rest = x
    return a + b * c, first, rest


@case
def unpack_string_and_dict(x: Any) -> Any:
    a, b = "xy"
    c, d = {"k": 1, "l": 2}
    return x, a, b, c, d


@case
def chained_to_many(x: Any) -> Any:
    a = b = c = [x]
    c.append(1)
    d = e, f = 1, x
    return a, b, d, e, f


@case
def chained_to_elements(x: Any) -> Any:
    d = {}
    l = [0, 0]
    d["a"] = l[0] = y = x * 2
    return d, l, y


@case
def augmented_elements(x: Any) -> Any:
    l = [1, x * 1, [2]]
    l[0] += 5
    l[1] *= 2
    l[2] += [x]
    l[2][0] -= 7
    d = {"a": {"b": 1}}
    d["a"]["b"] += 4
    d["a"]["c"] = d["a"].get("c", 0) + 1
    return l, d


@case
def augmented_tuple_and_string(x: Any) -> Any:
    t = (1,)
    t += (x,)
    s = "a"
    s += "b"
    s *= 2
    return t, s


@case
def augmented_tensor_keeps_others(x: Any) -> Any:
    y = x * 1
    z = y
    y = y + 1
    return y, z


@case
def augmented_with_tensor_on_the_right(x: Any) -> Any:
    k = 3
    k += x
    m = 2
    m **= 3
    f = 7
    f /= 2
    g = 7
    g //= 2
    return k, m, f, g


@case
def annotated_targets(x: Any) -> Any:
    a: int = 1
    b: "Any" = x
    l: list[Any] = []
    l.append(a)
    (c): float = 2.5
    return a, b, l, c


@case
def delete_many(x: Any) -> Any:
    a, b, c = 1, 2, x
    del a, b
    a = 5
    l = [1, 2, 3, 4, 5]
    del l[1:3], l[0]
    d = {"a": 1, "b": x}
    del d["a"]
    return a, c, l, d


@case
def delete_with_step(x: Any) -> Any:
    l = list(range(10))
    del l[::3]
    m = list(range(6))
    del m[-1], m[0]
    return x, l, m


@case
def walrus_everywhere(x: Any) -> Any:
    y = (n := 2) + n
    if (m := len(x)) > 2 and (k := m - 1):
        y = y + k
    l = [z := 1, z + 1, (z := 5)]
    while (n := n - 1) > -3:
        y += n
    return x * y, m, l, z, n


@case
def walrus_in_comprehension(x: Any) -> Any:
    l = [(last := i * 2) for i in range(4) if (t := i) != 1]
    return x, l, last, t


@case
def walrus_on_tensors(x: Any) -> Any:
    if (s := x.sum()) > 0:
        y = s * 2
    else:
        y = s - 1
    return y, s


@case
def pass_everywhere(x: Any) -> Any:
    for _ in range(2):
        pass
    if x.sum() > 0:
        pass
    else:
        pass
    while False:
        pass
    ...
    "text"
    return x


@case
def assert_on_known(x: Any) -> Any:
    assert x.ndim == 1
    assert len(x) > 1, f"too short: {len(x)}"
    assert "scale" in SETTING
    assert not []
    return x * SETTING["scale"]


@case
def global_read(x: Any) -> Any:
    global LIMIT
    return x * LIMIT


@case
def imports(x: Any) -> Any:
    import math
    import collections.abc
    import os.path as p
    from functools import reduce as fold, partial
    from math import sqrt

    return x, math.pi, sqrt(4.0), fold(lambda a, b: a + b, [1, 2]), p.join("a", "b"), partial(sqrt, 9.0)()


@case
def multi_line_statements(x: Any) -> Any:
    y = (x
         + 1); z = [
        1,
        2]
    return y, \
        z


@case
def if_chain_on_known(x: Any) -> Any:
    out = []
    for k in range(5):
        if k == 0:
            out.append("zero")
        elif k % 2:
            out.append("odd")
        elif k > 3:
            out.append("big")
        else:
            out.append(k)
    return x, out


@case
def dead_branches_are_not_looked_at(x: Any) -> Any:
    if False:
        return undefined_name
    if len(x) > 100:
        x = x.no_such_method()
    return x if True else 1 / 0


# --- with -----------------------------------------------------------------------------------------

class Log:
    def __init__(self, name: str, log: list, swallow: bool = False) -> None:
        self.name, self.log, self.swallow = name, log, swallow

    def __enter__(self) -> Any:
        self.log.append(f"+{self.name}")
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> bool:
        self.log.append(f"-{self.name}" + (f":{kind.__name__}" if kind else ""))
        return self.swallow


@contextlib.contextmanager
def scaled(k: int) -> Any:
    yield k * 2


@case
def with_several(x: Any) -> Any:
    log: list = []
    with Log("a", log) as a, Log("b", log) as b:
        x = x + 1
        log.append(a.name + b.name)
    return x, log


@case
def with_parentheses(x: Any) -> Any:
    log: list = []
    with (
        Log("a", log),
        Log("b", log) as b,
    ):
        log.append(b.name)
    return x, log


@case
def with_return(x: Any) -> Any:
    log: list = []

    def inner() -> Any:
        with Log("a", log):
            return x + 1

    return inner(), log


@case
def with_break_and_continue(x: Any) -> Any:
    log: list = []
    for i in range(4):
        with Log(str(i), log):
            if i == 1:
                continue
            if i == 2:
                break
            x = x + 1
    return x, log


@case
def with_swallowed(x: Any) -> Any:
    log: list = []
    with Log("a", log, True):
        log.append(1)
        raise KeyError("k")
    with Log("b", log, True), Log("c", log):
        {}["missing"]
    return x, log


@case
def with_generator_manager(x: Any) -> Any:
    with scaled(3) as k:
        x = x * k
    with contextlib.suppress(ValueError):
        raise ValueError
    with contextlib.nullcontext(5) as n:
        x = x + n
    return x


@case
def with_target_tuple(x: Any) -> Any:
    with contextlib.nullcontext((1, 2)) as (a, b):
        return x * a + b


@case
def with_runtime_branch(x: Any) -> Any:
    log: list = []
    with Log("a", log):
        if x.sum() > 0:
            x = x + 1
        else:
            x = x * 2
    return x, log


@case
def with_runtime_return(x: Any) -> Any:
    with contextlib.nullcontext():
        if x.sum() > 0:
            return x + 1
        x = x * 2
    return x


# --- try ------------------------------------------------------------------------------------------

class Own(Exception):
    pass


class OwnValue(ValueError):
    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


@case
def try_kinds(x: Any) -> Any:
    out = []
    for action in range(7):
        try:
            if action == 0:
                [][0]
            elif action == 1:
                {}["k"]
            elif action == 2:
                int("z")
            elif action == 3:
                1 / 0
            elif action == 4:
                None.attribute
            elif action == 5:
                raise Own("mine")
            else:
                raise OwnValue(7)
        except IndexError:
            out.append("index")
        except (KeyError, ZeroDivisionError) as e:
            out.append(type(e).__name__)
        except OwnValue as e:
            out.append(e.code)
        except ValueError as e:
            out.append(str(e))
        except Own as e:
            out.append(e.args)
        except Exception as e:
            out.append("other")
    return x, out


@case
def try_bare_except(x: Any) -> Any:
    try:
        raise Own
    except:
        x = x + 1
    return x


@case
def try_else_finally_order(x: Any) -> Any:
    log = []

    def run(fail: bool) -> str:
        try:
            log.append("try")
            if fail:
                raise Own
        except Own:
            log.append("except")
            return "e"
        else:
            log.append("else")
            return "n"
        finally:
            log.append("finally")

    return x, run(True), run(False), log


@case
def try_nested(x: Any) -> Any:
    log = []
    try:
        try:
            raise KeyError("inner")
        except ValueError:
            log.append("no")
        finally:
            log.append("inner finally")
    except KeyError as e:
        log.append(e.args[0])
    return x, log


@case
def try_raise_from(x: Any) -> Any:
    try:
        try:
            raise KeyError("a")
        except KeyError as e:
            raise Own("b") from e
    except Own as e:
        return x, str(e), type(e.__cause__).__name__


@case
def try_reraise_outer(x: Any) -> Any:
    def fail() -> Any:
        try:
            raise Own("deep")
        except Own:
            raise

    try:
        fail()
    except Own as e:
        return x + 1, e.args


@case
def try_in_loop(x: Any) -> Any:
    seen = []
    for v in (1, "a", None, 2):
        try:
            seen.append(v + 1)
        except TypeError:
            seen.append("bad")
            continue
        if v == 2:
            break
    return x, seen


@case
def try_finally_overrides(x: Any) -> Any:
    def f() -> int:
        try:
            return 1
        finally:
            return 2

    return x, f()


@case
def try_around_tensor_work(x: Any) -> Any:
    try:
        y = x + 1
    except TypeError:
        y = x
    try:
        z = y.no_such_attribute
    except AttributeError:
        z = y * 2
    return y, z


@case
def try_shape_error(x: Any) -> Any:
    try:
        y = x.reshape((7, 11))
    except ValueError:
        y = x * 5
    return y


@case
def try_inside_runtime_branch(x: Any) -> Any:
    if x.sum() > 0:
        try:
            y = x + {}["k"]
        except KeyError:
            y = x + 2
    else:
        y = x
    return y


@case
def runtime_branch_inside_try(x: Any) -> Any:
    try:
        if x.sum() > 0:
            y = x + 1
        else:
            y = x - 1
    finally:
        z = y * 2
    return z


@case
def exception_name_is_gone(x: Any) -> Any:
    e = 3
    try:
        raise Own
    except Own as f:
        g = f
    return x, e, type(g).__name__


# --- match ----------------------------------------------------------------------------------------

@case
def match_literals(x: Any) -> Any:
    def name(v: Any) -> str:
        match v:
            case 0:
                return "zero"
            case -1 | 1:
                return "unit"
            case 2.5:
                return "float"
            case "a" | "b":
                return "letter"
            case None:
                return "none"
            case True:
                return "never"
            case _:
                return "other"

    return x, [name(v) for v in (0, -1, 1, 2.5, "b", None, 7)]


@case
def match_sequences(x: Any) -> Any:
    def shape(v: Any) -> Any:
        match v:
            case []:
                return "empty"
            case [a]:
                return a
            case (a, b):
                return a + b
            case [1, *rest, 9]:
                return rest
            case [[a, b], *_]:
                return a * b
            case [*all]:
                return len(all)

    return x, [shape(v) for v in ([], [4], (1, 2), [1, 2, 3, 9], [[2, 3], 1, 1], [5, 5, 5])]


@case
def match_mappings_and_guards(x: Any) -> Any:
    def read(v: Any) -> Any:
        match v:
            case {"op": "add", "n": n}:
                return x + n
            case {"op": str(o), **rest} if rest:
                return o, rest
            case {"op": o}:
                return o
            case int(n) if n > 3:
                return n
            case int() | float():
                return "number"

    return [read(v) for v in ({"op": "add", "n": 2}, {"op": "z", "k": 1}, {"op": 5}, 4, 1, 2.0)]


@case
def match_on_shape(x: Any) -> Any:
    match x.shape:
        case (2,):
            return x
        case (n,) if n > 2:
            return x * n
        case (_, _):
            return -x


@case
def match_as_pattern(x: Any) -> Any:
    match [1, [2, 3]]:
        case [int() as a, [_, *_] as inner]:
            return x * a, inner


@case
def match_values_of_names(x: Any) -> Any:
    match 3:
        case np.pi:
            return x
        case k:
            return x * k
