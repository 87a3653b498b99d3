"""Assignments into parts and containers within branches, loops and nested functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cellc import ops

FLOW: list[Callable[[Any, Any], Any]] = []


def program(fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Put a program on the list."""
    FLOW.append(fn)
    return fn


@program
def part_from_outside_written_in_a_branch(x: Any, i: Any) -> Any:
    y = x[0]
    if x.sum() > 0:
        y[1] = 5.0
    return x + 0, y


@program
def part_from_outside_written_in_a_loop(x: Any, i: Any) -> Any:
    y = x[0]
    n = i * 0
    while n < 3:
        y[n] = n * 10.0 + x[1, n]
        n = n + 1
    return x + 0, y


@program
def parts_in_a_list(x: Any, i: Any) -> Any:
    rows = [x[0], x[1]]
    if x.sum() > 0:
        rows[0][1] = 3.0
    else:
        rows[1][0] = 2.0
    return x + 0, rows[0], rows[1]


@program
def part_made_in_a_loop(x: Any, i: Any) -> Any:
    n = i * 0
    while n < 3:
        r = x[n]
        r[n] = 7.0
        x[n][0] += 1.0
        n = n + 1
    return x


@program
def in_a_dict_under_a_condition(x: Any, i: Any) -> Any:
    d = {"a": x * 1}
    if x.sum() > 0:
        d["a"][0] = 1.0
    return d["a"], x


@program
def other_tensors_on_the_two_sides(x: Any, i: Any) -> Any:
    if i > 0:
        z = x * 2
        z[0][1] = 5.0
    else:
        z = x
    return z


@program
def rows_under_conditions(x: Any, i: Any) -> Any:
    for r in x:
        if r.sum() > 10:
            r[0] = -1.0
    return x


@program
def filled_row_by_row(x: Any, i: Any) -> Any:
    out = ops.zeros((3, 4))
    n = i * 0
    while n < 3:
        if n > 1:
            out[n, 1:] = x[n, 1:]
        else:
            out[n] = -x[n]
        n = n + 1
    return out


@program
def in_a_nested_function(x: Any, i: Any) -> Any:
    def put(t: Any, k: Any, v: float) -> Any:
        t[k] = v
        return t

    return put(x, 0, 1.0) + put(x, i, 2.0)


@program
def two_names(x: Any, i: Any) -> Any:
    a = b = x * 1
    a[0] = 5.0
    return a, b


@program
def targets_of_a_tuple(x: Any, i: Any) -> Any:
    t = [x * 1, x * 2]
    x[0], y = x[1] * 2, x[0] * 3
    t[0][0], t[1][1] = t[1][1], t[0][0]
    return x + 0, y, t[0], t[1]


@program
def run_time_parts(x: Any, i: Any) -> Any:
    x[i : i + 2][0] = 3.0
    x[:, i][1] = 9.0
    x[i][i:] = 1.0
    return x


@program
def a_run_time_row_and_the_rest_of_it(x: Any, i: Any) -> Any:
    n = i * 0
    while n < 3:
        x[n, n:] = 1.0
        x[:n, -1 - n] *= 2.0
        x[n, x[0] > 2] += 0.5
        x[x[:, 0] > 3, n] = x[n, 0]
        n = n + 1
    return x


@program
def the_rest_of_a_run_time_row(x: Any, i: Any) -> Any:
    return x[i, i:] * 2, x[i:, i], x[x[:, 0] > 3, i], x[i, 1 + i :: -1]
