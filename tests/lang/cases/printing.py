"""Strings of values known while compiling, and printing at run time in program order."""
# The programs use Python in every way, good style or not.
# ruff: noqa

from __future__ import annotations

from typing import Any

import numpy as np

from .table import X, Y, Table

case = Table(X, Y)


@case
def print_known_values(x: Any) -> Any:
    print("a", 1, 2.5, None, [1, "b"], {"k": (1,)}, sep="|", end="!\n")
    print()
    print("no end", end="")
    print("", "x", "", sep="-")
    return x


@case
def print_tensors(x: Any) -> Any:
    print(x)
    y = x + 1
    print("y is", y, "and its sum", y.sum())
    print(x, y, sep="\n", end="\n\n")
    return y


@case
def print_in_order(x: Any) -> Any:
    print("first")
    print(x[0])
    x = x * 2
    print("second", x)
    print("third")
    return x


@case
def print_in_branches(x: Any) -> Any:
    if x.sum() > 0:
        print("positive", x.sum())
    else:
        print("negative", x[0])
        x = x + 1
    print("after", x)
    return x


@case
def print_in_loops(x: Any) -> Any:
    for i in range(3):
        print("static", i, x[i])
    n = 0
    while x.sum() < 6:
        x = x + 1
        n += 1
        print("trip", x.sum())
    return x


@case
def print_in_functions(x: Any) -> Any:
    def say(v: Any, name: str) -> Any:
        print(f"{name}:", v)
        return v

    return say(x, "x") + say(x * 2, "twice")


@case
def print_containers_of_known_values(x: Any) -> Any:
    print([1, 2], (3,), {"a": [4]}, {5}, range(3), "s", ["s"], True)
    print(x.shape, x.ndim, len(x))
    return x


@case
def f_strings_of_tensors(x: Any) -> Any:
    s = x.sum()
    print(f"sum={s} first={x[0]} n={len(x)}")
    print(f"{x}")
    print(f"{s!s}|{len(x):>4}|{'a':<3}|{3.14159:.2f}")
    return s


@case
def percent_and_format_of_tensors(x: Any) -> Any:
    s = x.sum()
    print("s=%s n=%d p=%s%%" % (s, 3, "q"))
    print("%s" % s)
    print("{} and {1}".replace("{1}", "{}").format(s, x[0]), "{a}/{0}".format(s, a=2))
    return s


@case
def strings_joined_with_tensors(x: Any) -> Any:
    text = "sum " + str(x.sum()) + "!"
    print(text)
    print(str(x[0]) + "-" + str(x[1]))
    return x


@case
def print_numbers_of_the_run(x: Any) -> Any:
    n, f, b = int(x.sum() * 2), float(x[0]) * 0.1, bool(x[0] > 0)
    print(n, f, b)
    print(f"{n} {f} {b}", "%s|%s" % (n, f), "{}".format(b), str(n) + "!")
    return x


@case
def formats_of_numbers_of_the_run(x: Any) -> Any:
    n, f = int(x.sum() * 2), float(x[0]) * 1.25
    print(f"{n:>6}|{n:+d}|{f:.3f}|{f:8.2e}|{n:04d}")
    print("%d|%5.1f|%e" % (n, f, f), "{:>5}|{:.1f}".format(n, f))
    return x


@case
def print_of_containers_with_tensors(x: Any) -> Any:
    print("items:", [x, (x[0], 1)], {"k": x}, (x,), *[1, 2])
    print(f"{[x]}|{x!r}|{'t'!r}", "%r" % x, "{!r}".format(x), repr(x), "{0.shape}".format(x))
    print(*["a", "b"], sep="")
    return x


@case
def built_strings_are_values(x: Any) -> Any:
    name = f"layer_{len(x)}"
    table = {name: x, "%s!" % name: x + 1}
    return table[name], table, name.split("_"), f"{name=}", f"{1 + 1}{{}}"


@case
def text_of_tensor_metadata(x: Any) -> Any:
    return x, f"{x.shape}", str(x.shape), f"{x.ndim:03d}", "x".join(map(str, x.shape))


@case
def print_in_runtime_loop_of_numbers(x: Any) -> Any:
    i = 0
    while i < 3 and x.sum() < 100:
        print("i =", i)
        i += 1
    return i
