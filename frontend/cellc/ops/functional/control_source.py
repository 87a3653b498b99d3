"""The meaning of `cond`, `while_loop`, `scan` and `fori_loop`, as plain Python.

PyNative runs these functions as they are; in graph mode the construct compiler interprets them
like the user's own code (see `cellc.lang.trust`), so run-time conditions become `cond` and
`while` of the graph by the same rules, and both modes have one definition.
"""

from __future__ import annotations

from typing import Any

from .control_checks import pair, steady


def cond(pred: Any, true_fun: Any, false_fun: Any, operands: Any) -> Any:
    """One of two calls."""
    if pred:
        return true_fun(*operands)
    return false_fun(*operands)


def while_loop(cond_func: Any, loop_func: Any, init_val: Any) -> Any:
    """Repeat while the condition holds."""
    val = init_val
    while cond_func(val):
        val = steady("WhileLoop", val, loop_func(val))
    return val


def fori_loop(lower: Any, upper: Any, loop_func: Any, init_val: Any) -> Any:
    """Repeat for each number of a range."""
    val = init_val
    for i in range(lower, upper):
        val = steady("ForiLoop", val, loop_func(i, val))
    return val


def scan(loop_func: Any, init: Any, xs: Any) -> Any:
    """Carry a value over the elements; what is carried last, and a list of what each step gave."""
    carry = init
    ys = []
    for x in xs:
        new, y = pair(loop_func(carry, x))
        carry = steady("Scan", carry, new)
        ys.append(y)
    return carry, ys
