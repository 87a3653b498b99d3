"""Control flow on tensors: branches, loops and jumps decided when the network runs."""
# The programs use Python in every way, good style or not.
# ruff: noqa

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from cellc import ops

from .table import Table

case = Table(*[
    np.array(v, np.float32) for v in ((1, 2), (-1, -2), (3, 4), (0, 0.5), (-4, -5), (0.25, 20))
])


# --- if -------------------------------------------------------------------------------------------

@case
def early_return(x: Any) -> Any:
    if x.sum() > 0:
        return x + 1
    return x * 2


@case
def return_in_else(x: Any) -> Any:
    if x.sum() > 0:
        y = x + 1
    else:
        return x * 2
    y = y * 3
    return y


@case
def both_return(x: Any) -> Any:
    if x.sum() > 0:
        return x, 1
    else:
        return -x, 1


@case
def several_returns(x: Any) -> Any:
    s = x.sum()
    if s > 5:
        return x + 1
    if s > 2:
        x = x * 2
        if x[0] > 1:
            return x
    elif s < -2:
        return x - 1
    return x * 10


@case
def assigned_in_branches(x: Any) -> Any:
    y = x
    k = 1
    if x.sum() > 0:
        y = x + 1
        temporary = y * 2
        k = 2
    elif x.sum() < -5:
        y = x - 1
        k = 3
    return y, k


@case
def defined_in_both(x: Any) -> Any:
    if x.sum() > 0:
        a, b = x, [x, 1]
    else:
        a, b = x * 2, [x - 1, 1]
    return a, b


@case
def nested_ifs(x: Any) -> Any:
    if x.sum() > 0:
        if x[0] > 1:
            y = x
        else:
            y = x * 2
        y = y + 1
    else:
        y = x if x[1] > 0 else -x
    return y


@case
def static_inside_runtime(x: Any) -> Any:
    if x.sum() > 0:
        for i in range(3):
            if i == 1:
                continue
            x = x + i
        n = len(x)
    else:
        n = 0
    return x, n


@case
def runtime_inside_static(x: Any) -> Any:
    for i in range(4):
        if i % 2:
            if x.sum() > i:
                x = x - 1
            else:
                x = x + 2
    return x


@case
def return_inside_static_branch(x: Any) -> Any:
    if len(x) == 2:
        if x.sum() > 0:
            return x
        x = x + 5
    x = x * 2
    return x


@case
def conditional_expressions(x: Any) -> Any:
    s = x.sum()
    return (x if s > 0 else -x), (1 if s > 0 else 2), ((s, 3) if s > 1 else (s + 1, 3))


@case
def truth_values(x: Any) -> Any:
    s = x.sum()
    if s:
        x = x + 1
    if not s > 2:
        x = x * 2
    if s > 0 and s < 5 or s == -9:
        x = x - 1
    if s > 0 and x[0] > 1 and True:
        x = x * 3
    if s > 100 or len(x) > 1:
        x = x + 0.5
    return x, (0 < s < 4), not s > 0


@case
def short_circuit_values(x: Any) -> Any:
    s = x.sum()
    return (s > 0 and s < 5), (s > 0 or s < -5), (s > 0 and x[0] > 0.5), (x[0] and s)


@case
def lists_changed_in_branches(x: Any) -> Any:
    values = [x, x * 2]
    table = {"a": x}
    alias = values
    if x.sum() > 0:
        values[0] = x + 5
    else:
        values[1] = x - 5
        table["a"] = x * 7
    return values, table, alias


@case
def lists_made_in_branches(x: Any) -> Any:
    if x.sum() > 0:
        parts = []
        for r in x:
            parts.append(r * 2)
        y = sum(parts)
    else:
        d = {}
        d["k"] = x[0]
        y = d["k"]
    return y


@case
def elements_written_in_branches(x: Any) -> Any:
    z = x * 1
    w = z
    if x.sum() > 0:
        z[1] = 7.0
    return z, w


@case
def helper_with_branches(x: Any) -> Any:
    def pick(a: Any, b: Any) -> Any:
        if a.sum() > 0:
            return b
        b = b * 2
        return b + a

    return pick(x, x + 1) + pick(-x, x)


@case
def nonlocal_in_branch(x: Any) -> Any:
    count = 0

    def bump(k: int) -> None:
        nonlocal count
        count = count + k

    if x.sum() > 0:
        bump(2)
    else:
        bump(3)
    return count


@case
def none_in_both(x: Any) -> Any:
    y = None
    if x.sum() > 0:
        x = x + 1
    if y is None:
        x = x * 2
    return x, y


# --- while ----------------------------------------------------------------------------------------

@case
def simple_while(x: Any) -> Any:
    while x.sum() < 20:
        x = x + 1
    return x


@case
def counters_become_tensors(x: Any) -> Any:
    i = 0
    total = 0.0
    while x.sum() < 10:
        x = x + 1
        i += 1
        total = total + i
    return x, i, total


@case
def number_takes_the_type_of_its_successor(x: Any) -> Any:
    s = 0
    n = 0
    while n < 3:
        s = s + x[n % 2] if x.sum() > 0 else s + x[0]
        n = n + 1
    while s < 3:
        s = s + 1.5
    return s


@case
def while_break_and_continue(x: Any) -> Any:
    i = 0
    while x.sum() < 50:
        i = i + 1
        if i == 2:
            continue
        if i > 6:
            break
        x = x + i
    return x, i


@case
def read_behind_a_break_only(x: Any) -> Any:
    i = x.sum() * 0
    n = 0
    while n < 5:
        n = n + 1
        i = i + 1
        if x[0] > 0:
            if x.sum() > 8:
                break
            x = x + 1
        elif x[1] > -9:
            i = i + 2
        i = x.max()
    return x, i


@case
def while_return(x: Any) -> Any:
    i = 0
    while i < 10:
        x = x + 1
        if x.sum() > 12:
            return x, i
        i = i + 1
    return x * 2, i


@case
def while_with_else(x: Any) -> Any:
    i = 0
    while x.sum() < 8:
        x = x + 1
        i = i + 1
        if i == 4:
            break
    else:
        x = x + 100
    return x, i


@case
def while_on_number_until_tensor(x: Any) -> Any:
    i = 0
    while i < 5:
        if x.sum() > 10:
            break
        x = x + 1
        i += 1
    return x, i


@case
def nested_whiles(x: Any) -> Any:
    total = x * 0
    i = x[0] * 0
    while i < 3:
        j = i * 0
        while j < 2:
            total = total + i * 10 + j
            j = j + 1
            if total.sum() > 70:
                break
        i = i + 1
    return total


@case
def while_true_with_break(x: Any) -> Any:
    while True:
        x = x + 1
        if x.sum() > 6:
            break
    return x


@case
def walrus_in_test(x: Any) -> Any:
    n = 0
    while (s := x.sum()) < 6:
        x = x + 1
        n = n + 1
    return x, s, n


@case
def effects_in_the_test(x: Any) -> Any:
    n = 0

    def inc(k: int) -> Any:
        nonlocal n
        n = n + k
        return n

    while inc(1) < x.sum():
        x = x - 0.25
    return x, n


@case
def structures_carried(x: Any) -> Any:
    state = (x, [x * 2])
    while state[0].sum() < 10:
        state = (state[0] + 1, [state[1][0] + state[0]])
    return state


@case
def list_elements_carried(x: Any) -> Any:
    state = [x, x * 0]
    while state[0].sum() < 10:
        state[0] = state[0] + 1
        state[1] = state[1] + state[0]
    return state


@case
def elements_written_in_loop(x: Any) -> Any:
    y = x * 1
    while y.sum() < 20:
        y[0] = y[0] + 3
    return y


@case
def temporaries_of_another_type(x: Any) -> Any:
    while x.sum() < 10:
        t = x.sum()
        x = x + 1
        t = x * 2
        x = x + t * 0
    t = 5
    return x, t


@case
def if_inside_while(x: Any) -> Any:
    while x.sum() < 15:
        if x[0] > 3:
            x = x + 2
        else:
            x = x + 1
    return x


@case
def while_inside_if(x: Any) -> Any:
    if x.sum() > 0:
        while x.sum() < 15:
            x = x + 1
        return x
    while x.sum() < 0:
        x = x + 2
    return x - 1


@case
def while_with_static_loop(x: Any) -> Any:
    while x.sum() < 15:
        for i in range(3):
            if x[1] > i:
                continue
            x = x + i
        x = x + 1
    return x


@case
def while_inside_helper(x: Any) -> Any:
    def halve(v: Any, limit: Any) -> Any:
        n = 0
        while v > limit:
            v = v / 2
            n = n + 1
        return v, n

    return halve(x.sum() + 100, 3.0), halve(x[0] + 50, x.sum() * 0 + 1)


# --- for ------------------------------------------------------------------------------------------

@case
def for_break(x: Any) -> Any:
    for i in range(6):
        if x.sum() > 8:
            break
        x = x + i
    return x, i


@case
def for_return(x: Any) -> Any:
    for i in range(6):
        x = x + 1
        if x.sum() > 8:
            return x, i
    return -x, 99


@case
def for_continue(x: Any) -> Any:
    for i in range(5):
        if x.sum() > 3:
            x = x - i
            continue
        x = x + 2
    return x


@case
def for_else_with_break(x: Any) -> Any:
    for i in range(3):
        if x.sum() > 4:
            x = x - 100
            break
        x = x + 1
    else:
        x = x + 1000
    return x


@case
def break_of_inner_loop(x: Any) -> Any:
    for i in range(3):
        for j in range(3):
            if x.sum() > 4 * i + j:
                break
            x = x + 1
        else:
            if x.sum() > 6:
                break
        x = x + 0.5
    return x, i, j


@case
def range_of_tensor(x: Any) -> Any:
    total = x.sum() * 0
    for i in range(int(abs(x.sum()))):
        if i == 1:
            continue
        if i == 4:
            break
        total = total + i
    return total


@case
def range_of_tensor_with_step(x: Any) -> Any:
    n = int(abs(x.sum()))
    out = x * 0
    for i in range(n, -2, -2):
        out = out + i
    for i in range(1, n, 3):
        out = out * 2 + i
    return out


@case
def for_over_rows(x: Any) -> Any:
    best = x[0]
    for row in x:
        if row > best:
            best = row
    return best


@case
def minimum_and_maximum(x: Any) -> Any:
    return min(x[0], x[1]), max(x[0], x[1], x.sum()), any([x[0] > 1, x[1] > 1]), \
        all(v > 0 for v in x)


@case
def numbers_from_tensors(x: Any) -> Any:
    return int(x.sum()), float(x[0]), bool(x[0])


@case
def membership(x: Any) -> Any:
    s = x.sum()
    return s in [3.0, 7.0], s not in (3.0, 1.0)


# --- finally --------------------------------------------------------------------------------------

@case
def finally_returns_instead(x: Any) -> Any:
    try:
        if x.sum() > 0:
            return x * 2
        x = x + 10
    finally:
        if x.sum() > 5:
            return x * 3
    return x


@case
def finally_reads_what_a_return_left(x: Any) -> Any:
    try:
        if x.sum() > 0:
            x = x * 7
            return x
        x = x + 10
    finally:
        x = x + 1
        if x.sum() > 30:
            return x * 3
    return x


@case
def finally_returns_behind_a_return(x: Any) -> Any:
    try:
        return x * 2
    finally:
        if x.sum() > 2:
            return x * 3


@case
def finally_breaks(x: Any) -> Any:
    total = x * 0
    for k in range(3):
        try:
            if x.sum() > k:
                continue
            total = total + 10
        finally:
            total = total + k
            if total.sum() > 24:
                break
    else:
        return total * 2
    return total


@case
def finally_returns_from_a_loop(x: Any) -> Any:
    count = x.sum() * 0
    while count < 4:
        count = count + 1
        try:
            if x.sum() > count:
                break
            x = x + 10
        finally:
            if x.sum() > 15:
                return x * 3
            x = x + 1
    return x


@case
def finally_drops_an_exception(x: Any) -> Any:
    try:
        if x.sum() > 0:
            raise ValueError("dropped, or there is no sum over 1000")
        x = x + 10
    finally:
        if x.sum() < 1000:
            return x * 3
    return x


@case
def finally_within_finally(x: Any) -> Any:
    try:
        try:
            if x.sum() > 0:
                return x * 2
            x = x + 10
        finally:
            if x.sum() > 5:
                return x * 3
            x = x + 1
    finally:
        if x.sum() > 2:
            return x * 7
        x = x * 5
    return x


@case
def else_of_a_while_assigns_what_its_body_does(x: Any) -> Any:
    last, t = x, x[0] * 0
    while t < 2:
        t = t + 1
        if x.sum() > 20:
            return x, t
        last = x * t
    else:
        last = x - t
    return last, t


@case
def else_of_a_for_assigns_what_its_body_does(x: Any) -> Any:
    last = x
    for i in range(x.argmax() + 2):
        if x.sum() > 20:
            if x[0] > 0:
                return x, x * i
            last = x + i
        last = last * i
    else:
        last = x - 1
    return last, x


# --- else of try ----------------------------------------------------------------------------------

@case
def else_of_a_try_that_breaks_sometimes(x: Any) -> Any:
    total = x * 0
    for limit in (1000, -1000):
        for k in range(2):
            try:
                if x.sum() > limit:
                    break
                total = total + k
            except KeyError:
                total = total + 100
            else:
                total = total * 2 + 3
        total = total + 10
    return total


@case
def else_of_a_try_that_returns_sometimes(x: Any) -> Any:
    for limit in (1000, 500, -1000):
        try:
            if x.sum() > limit:
                return x * 7
        except KeyError:
            x = x * 3
        else:
            x = x + 1
            if x.sum() > limit:
                continue
        finally:
            x = x + 20
        x = x + limit
    return x


@case
def else_of_a_try_in_a_loop_of_the_run(x: Any) -> Any:
    count, total = x.sum() * 0, x * 0
    while count < 6:
        count = count + 1
        try:
            if count > 3:
                continue
            total = total + 1
        except KeyError:
            total = total + 100
        else:
            total = total * 2
    return total


@case
def else_of_a_try_leaves_the_loop(x: Any) -> Any:
    total = x * 0
    while total.sum() < 100:
        try:
            if x.sum() > total.sum():
                total = total + x + 1
                continue
        except KeyError:
            pass
        else:
            break
        total = total + 1000
    else:
        return total * 5
    return total


# --- what drops an exception of the run -----------------------------------------------------------

class Drops:
    """Doubles what it is given, and drops a ValueError."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __enter__(self) -> Any:
        return self.value * 2

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        return kind is ValueError


@contextlib.contextmanager
def guarded() -> Any:
    try:
        yield 3
    except ValueError:
        pass


@case
def with_drops_what_a_branch_raises(x: Any) -> Any:
    with Drops(x) as twice:
        if x.sum() > 0:
            raise ValueError("dropped")
        x = twice + 100
    with Drops(x) as twice:
        if x.sum() > 1000:
            raise ValueError("not raised")
        x = x + twice
    return x


@case
def with_drops_behind_a_return(x: Any) -> Any:
    with Drops(x) as twice:
        if x.sum() > 1000:
            return x
        if x.sum() < 2000:
            raise ValueError("dropped")
        x = twice + 100
    return x + 1


@case
def with_suppress_and_generators(x: Any) -> Any:
    with contextlib.suppress(IndexError):
        x = x + x[x.argmax() + 1]
    with guarded() as k:
        if x.sum() > 0:
            raise ValueError("dropped")
        x = x * k
    for limit in (-1000, 1000):
        with contextlib.suppress(ValueError):
            if x.sum() > limit:
                raise ValueError("dropped for the first")
            x = x + limit
    return x


@contextlib.contextmanager
def guarded_from_all() -> Any:
    try:
        yield 3
    except:
        pass


@contextlib.contextmanager
def guarded_within() -> Any:
    with contextlib.suppress(ValueError):
        yield 3


@case
def with_generators_that_name_no_exception(x: Any) -> Any:
    with guarded_from_all() as k:
        if x.sum() > 0:
            raise ValueError("dropped")
        x = x * k
    with guarded_within() as k:
        if x.sum() < 0:
            raise ValueError("dropped")
        x = x * k
    return x


@case
def with_inner_that_keeps(x: Any) -> Any:
    try:
        with contextlib.nullcontext(), Drops(x) as twice:
            if x.sum() > 0:
                raise KeyError("passes the inner one")
            x = twice
    except KeyError:
        x = x + 7
    return x


@case
def finally_drops_what_a_handler_raises(x: Any) -> Any:
    try:
        raise KeyError("handled")
    except KeyError:
        x = x + x[x.argmax() * 0 + 5]
    finally:
        if x.sum() < 1000:
            return x * 3
    return x


@case
def finally_drops_what_an_else_raises(x: Any) -> Any:
    try:
        x = x + 1
    except KeyError:
        x = x + 2
    else:
        if x.sum() > 0:
            raise ValueError("dropped")
    finally:
        if x.sum() < 1000:
            return x * 3
    return x


@case
def with_drops_around_a_size_of_the_run(x: Any) -> Any:
    n = x.argmax() + 1
    with Drops(x) as twice:
        if (ops.ones((int(n) % 3, 2)).sum(axis=0) > twice).any():
            twice = ops.ones((int(n) % 3, 2)).sum(axis=0)
        x = x + twice
    return x


@case
def finally_returns_behind_a_size_of_the_run(x: Any) -> Any:
    n = x.argmax() + 1
    try:
        if x[0] < 0.5:
            x = x + 1
        else:
            x = ops.ones((int(n) % 3, 2)).sum(axis=0)
        n = n + n
    finally:
        if x[0] < 5:
            return ops.ones((int(n) % 3, 2)).sum(axis=0), n
    return x, n


@case
def finally_returns_behind_a_handler(x: Any) -> Any:
    n = x.argmax() + 1
    try:
        if x[0] < 0.5:
            x = x + 1
        else:
            x = ops.ones((int(n) % 3, 2)).sum(axis=0)
        raise KeyError("handled")
    except KeyError:
        n = n + n
    finally:
        if x[0] < 5:
            return ops.ones((int(n) % 3, 2)).sum(axis=0), n
    return x, n
