"""Results of branches that are values from outside of them, or one another: one cotangent."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, ops
from cellc.compiled.traced import trace
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.types import TensorType
from cellc_runtime import dtypes

from ..lang.test_random_programs import run
from ..modes.law import bits, mode

PROGRAMS = {
    "a conditional expression": """
def program(x, y, n):
    z = x if x[0] <= 3 else y[0]
    return z, x[0] * x[0]
""",
    "within a branch": """
def program(x, y, n):
    if (x > y[0]).any():
        return (x if x[0] <= 3 else y[0]), [x[0] * x[0], n]
    return x, [x[0], n]
""",
    "within loops that return": """
def program(x, y, n):
    for r1 in y:
        for r2 in y:
            if (x > r1).any():
                return (x if x[0] <= 3 else r2), [x[0] * x[0], n]
            r1 = x
    return x, [x[0], n]
""",
    "two results are one value": """
def program(x, y, n):
    a = y[0] * ops.sin(x)
    c = a
    if a[0] < -0.5:
        c = x * c - a
    else:
        x = ops.tanh(a)
        c = x if a[1] < 0.0 else y[0]
    return c * x, c * x, c * c
""",
    "a name of a name, both used by one op": """
def program(x, y, n):
    z = x if x[0] < 0.5 else y[0]
    w = z if x[1] < 0.5 else y[1]
    return z * w, x * w, w * x * z
""",
    "what a loop carries is one under two names": """
def program(x, y, n):
    b = ops.sin(x)
    c = y[0]
    for row in y:
        a = b * c - x
        t = n * 0
        while t < n:
            t = t + 1
            x = b
            if b[2] < 0.3:
                b = a
    c = b + b
    for row in y:
        if b[0] > 0.0:
            c = x * a - a
        else:
            x = a
    return a, a, c
""",
    "a loop captures what it carries under another name": """
def program(x, y, n):
    a = x * 1.5
    b = ops.sin(x)
    c = y[0]
    if c[1] < 0.3:
        t = n * 0
        while t < n:
            t = t + 1
            a = ops.tanh(c)
            for row in y:
                b = c
    else:
        if c[1] < 0.0:
            if a[2] < -0.5:
                c = b
            else:
                b = ops.tanh(x)
                a = c + b
            x = c * a - a
        b = b * c
    if b[2] < 0.0:
        if x[0] > -0.5:
            x = c * x - c
        else:
            a = c * b - c
    else:
        a = a * c - x
    return c, b, a
""",
    "used in a branch and in a loop": """
def program(x, y, n):
    z = x if x[0] < 0.5 else y[0]
    if x[1] < 0.5:
        w = z * x + z
    else:
        w = x
    t = n * 0
    while t < 2:
        t = t + 1
        w = w * z + x
    return w, z, x
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_uses_of_both_names_are_added_in_their_order(name: str) -> None:
    for seed in range(6):
        run(PROGRAMS[name].lstrip(), seed, True, native=seed < 2)


def random_program(r: random.Random) -> str:
    """A program that gives its values several names."""
    names = ["x", "a", "b", "c"]

    def condition() -> str:
        return f"{r.choice(names)}[{r.randrange(3)}] {r.choice('<>')} {r.choice([0.3, -0.5, 0.0])}"

    def expression() -> str:
        v, w, u = (r.choice(names) for _ in range(3))
        return r.choice([v, f"{v} * {w}", f"{v} + {w}", f"ops.tanh({v})", f"{v} * {w} - {u}",
                         f"({v} if {condition()} else {w})"])

    def block(indent: str, most: int) -> list[str]:
        lines = []
        for _ in range(r.randint(1, most)):
            if len(indent) > 12 or r.random() < 0.4:
                lines.append(f"{indent}{r.choice(names)} = {expression()}")
                continue
            lines += [f"{indent}if {condition()}:", *block(indent + "    ", 2)]
            if r.random() < 0.5:
                lines += [f"{indent}else:", *block(indent + "    ", 2)]
        return lines

    start = ["def program(x, y, n):", "    a, b, c = x * 1.5, ops.sin(x), y[0]"]
    given = ", ".join(r.choice(names) for _ in range(3))
    return "\n".join([*start, *block("    ", 6), f"    return {given}", ""])


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_with_many_names(seed: int) -> None:
    run(random_program(random.Random(seed)), seed % 6, True, native=False)


def _slope(fn: Any) -> Graph:
    x = Tensor(np.ones(3, np.float32))
    return trace(lambda v: ms.grad(fn)(v), (x,), {}).graph


def test_where_the_order_cannot_matter_nothing_is_added() -> None:
    def once(x: Tensor) -> Tensor:
        if x[0] < 1:
            x = ops.sin(x)
        return x

    def each_once(x: Tensor) -> tuple[Tensor, Tensor]:
        z = x
        if x[0] < 1:
            z = ops.sin(x)
        return ops.sin(z), ops.cos(x)

    def twice(x: Tensor) -> tuple[Tensor, Tensor]:
        z = x
        if x[0] < 1:
            z = ops.sin(x)
        return z * z, x

    def apart(x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = x * 2, x * 3
        while a[0] < 9:
            a, b = a * b, b + 1
        return a, b

    assert not [n for n in _slope(once).walk() if n.op == "alias"]
    assert not [n for n in _slope(each_once).walk() if n.op == "alias"]
    assert not [n for n in _slope(apart).walk() if n.op == "alias"]
    assert [n for n in _slope(twice).walk() if n.op == "alias"]


def test_a_value_that_may_be_another_in_many_ways() -> None:
    """Each result may be one of the two before it, so there are 1,597 ways to the first one."""
    def chain(x: Tensor) -> Tensor:
        a, b = x, ops.sin(x)
        for i in range(16):
            a, b = b, (a if x[i % 3] < 0.1 * i else b)
        return a * b + a

    assert len([n for n in _slope(chain).walk() if n.op == "alias"]) < 1000
    x = Tensor(np.float32([0.7, 0.2, 0.5]))
    with mode(ms.PYNATIVE_MODE):
        eager = ms.grad(chain)(x)
        assert bits(ms.jit(ms.grad(chain))(x).asnumpy()) == bits(eager.asnumpy())


BOOL, TWO, THREE = (TensorType(s, d) for s, d in (
    ((), dtypes.bool_), ((2,), dtypes.float32), ((3,), dtypes.float32)))


@pytest.mark.parametrize("types", [(BOOL,), (TWO, TWO), (BOOL, THREE)])
def test_a_wrong_alias_is_refused(types: tuple[TensorType, ...]) -> None:
    graph = Graph("wrong")
    values = [graph.add_input(t, "v") for t in (TWO, *types)]
    with pytest.raises(TypeError, match="alias"):
        Builder(graph).alias(*values)
