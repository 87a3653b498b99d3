"""Long sums of open sizes: the parts that they are cut into are a number of the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import ops
from cellc_compiler.ir.dims import SymbolInfo, choose, deciding, evaluate
from cellc_compiler.ir.divisors import divisor
from cellc_compiler.ir.shapes import Shapes
from cellc_compiler.loops.order import LONG_ROW, open_row_parts, row_parts
from cellc_runtime import open_sizes

from .test_open_pictures import floats
from .test_open_programs import Served, planted

CASES: dict[str, tuple[Callable[[Any], Any], tuple[Any, ...], list[tuple[int, ...]]]] = {
    "one axis": (lambda x: x.sum(), (None,), [
        (9000,), (2,), (100,), (65535,), (65536,), (65537,), (200_000,), (200_006,), (1 << 20,),
        (999_983,)]),
    "images": (lambda x: ops.square(x).mean(), (None, 3, None, None), [
        (4, 3, 40, 40), (2, 3, 5, 7), (2, 3, 200, 200), (4, 3, 160, 160), (3, 3, 101, 331)]),
    "float16": (lambda x: x.astype(ms.float16).sum(), (None, None), [
        (40, 200), (3, 9), (400, 1000), (7, 65537)]),
    "greatest": (lambda x: x.max(), (None, None), [(40, 200), (3, 9), (400, 1000), (7, 65537)]),
    "few rows": (lambda x: x.sum((1, 2)), (4, None, None), [
        (4, 100, 100), (4, 9, 7), (4, 400, 1000), (4, 7, 65537)]),
    "few channels": (lambda x: x.sum((0, 2, 3)), (None, 2, None, None), [
        (4, 2, 40, 40), (2, 2, 5, 7), (2, 2, 200, 200), (8, 2, 160, 160), (7, 2, 255, 257)]),
    "few columns": (lambda x: x.sum(0), (None, 3), [
        (9000, 3), (2, 3), (70_000, 3), (200_000, 3), (65537, 3)]),
    "many rows": (lambda x: x.sum(0), (None, 64), [
        (8192, 64), (4096, 64), (4095, 64), (2, 64), (300, 64), (8191, 64), (6000, 64),
        (9973, 64), (7555, 64)]),
    "gradient of a norm": (lambda x: ms.grad(lambda g: ops.square(ops.layer_norm(
        x, (64,), g, g)).sum())(ops.ones(64)), (None, None, 64), [
        (8, 1024, 64), (2, 3, 64), (5, 819, 64), (7, 1170, 64), (9, 911, 64)]),
    "gradient": (lambda x: ms.value_and_grad(lambda y: ops.square(y).mean())(x), (None, None), [
        (100, 200), (3, 9), (400, 1000), (7, 65537)]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_bits_are_those_of_known_sizes(name: str) -> None:
    fn, axes, shapes = CASES[name]
    made = Served(fn, [floats(*shapes[0])], {0: axes})
    for shape in shapes:
        assert made.same([floats(*shape)]), shape


def test_images_that_are_long_rows_have_a_program_of_their_own() -> None:
    """A part that has one of the images is a row of its pixels."""
    fn, axes, shapes = CASES["few channels"]
    made = Served(fn, [floats(*shapes[0])], {0: axes})
    assert made.program.open is not None
    arrays = [floats(8, 2, 320, 317)]
    assert made.program.open.refusal(made.sizes(arrays))


def test_a_wrong_number_of_parts_is_found() -> None:
    fn, axes, shapes = CASES["one axis"]
    made = Served(fn, [floats(*shapes[0])], {0: axes})
    assert made.program.open is not None

    def fewer(x: Any) -> Any:
        if type(x) is not tuple:
            return x
        if x[0] == "divisor":
            return ("divisor", fewer(x[1]), 2)
        return tuple(map(fewer, x))

    change = {"table": fewer(made.program.open.table)}
    assert change["table"] != made.program.open.table
    assert not made.same([floats(200_000)], planted(made.program, **change))


def test_parts_by_a_formula() -> None:
    shapes = Shapes(general=True)
    with deciding(shapes):
        n = shapes.new("n", 70_000, SymbolInfo(2))
        formula = open_row_parts(n)
        assert row_parts(n // formula) == 1
        assert formula * (n // formula) * 3 - 3 * n == 0 and not shapes.guards
        assert (n // formula) * 5 * formula == 5 * n
        other = divisor(n, choose(n, LONG_ROW, n, 1))
        assert type(other * (n // formula)) is type(n)
    for size in (2, 65_535, 65_536, 65_537, 200_006, 1_000_000, 999_983, 1 << 22):
        assert evaluate(formula, {"n": size}) == row_parts(size)


def test_divisors() -> None:
    rng = np.random.default_rng(0)
    for x, most in rng.integers(-5, 400, (200, 2)).tolist():
        found = [n for n in range(1, most + 1) if x > 0 and n <= x and x % n == 0]
        assert open_sizes.divisor(x, most) == max(found, default=1)
    assert open_sizes.divisor(1 << 62, 1 << 62) == open_sizes.MOST_DIVISOR
