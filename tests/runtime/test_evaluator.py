"""Numbers of a program with open sizes, worked out together: each is what it is alone."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from cellc_runtime import dtypes
from cellc_runtime.open_sizes import Evaluator, Open, Plan, evaluate, scalar

NAMES = "N", "S"
PLACES = tuple(f"at{i}" for i in range(6))


class Numbers:
    """Random numbers; few parts, so that many occur several times."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def number(self, names: tuple[str, ...], depth: int = 2, whole: bool = True) -> Any:
        """An int, a float, a sum or arithmetic of floats."""
        pick = self.random.random()
        if not whole and pick < 0.4 and depth:
            kind = self.random.choice("+-*/")
            divisor = self.random.choice((2, 2.0, 0.5, 3))
            return kind, self.number(names, depth - 1, whole), divisor
        if pick < 0.15:
            return self.random.choice((0, 1, 64)) if whole else self.random.choice((1, 1.0, 2.5))
        terms = [(self.random.choice((1, -1, 2, 3)), *[
            self.atom(names, depth) for _ in range(self.random.randrange(3))])
            for _ in range(self.random.randrange(1, 4))]
        return ("sum", *terms)

    def atom(self, names: tuple[str, ...], depth: int) -> Any:
        """A name, or a function of numbers."""
        if not depth or self.random.random() < 0.5:
            return self.random.choice(names)
        kind = self.random.choice(("//", "min", "max", "choose"))
        if kind == "//":
            return kind, self.number(names, depth - 1), self.random.choice((2, 16, 64))
        return kind, *[self.number(names, depth - 1) for _ in range(4 if kind == "choose" else 2)]

    def open_sizes(self) -> Open:
        """All numbers of a program."""
        sizes = tuple(("sum", (64, ("max", 1, self.number(NAMES)))) for _ in PLACES)
        below = tuple(tuple(sorted(self.random.sample(range(i), min(i, 2))))
                      for i in range(len(PLACES)))
        shapes = tuple(tuple(self.number(NAMES) for _ in range(2)) for _ in range(4))
        return Open(
            {"N": (1, -1), "S": (2, 128)}, shapes, ((">=", self.number(NAMES)),), 16,
            tuple(self.number(NAMES + PLACES, 2, i % 3 > 0) for i in range(60)),
            ((0, dtypes.float32, self.number(NAMES, 2, False)),
             (8, dtypes.int64, ("sum", (3, "S")))),
            Plan(PLACES[:4], sizes[:4], below[:4]), Plan(PLACES[4:], sizes[4:], ((), (0,))),
            (((("sum", (1, PLACES[0]), (64,)), (2, ("sum", (1, "N")))),),))


@pytest.mark.parametrize("seed", range(25))
def test_each_number_is_what_it_is_alone(seed: int) -> None:
    o = Numbers(seed).open_sizes()
    evaluator, fitted = Evaluator(o), 0
    for n, s in ((1, 2), (3, 17), (64, 128), (1000, 100), (0, 5), (5, 129), (7, 1)):
        sizes = {"N": n, "S": s}
        assert evaluator.refusal((n, s)) == o.refusal(sizes)
        values = evaluator.evaluate((n, s))
        assert (values is None) == bool(o.refusal(sizes))
        if values is None:
            continue
        ahead, arena = (p.places(sizes) for p in (o.ahead, o.arena))
        assert evaluator.place(values) == (arena[1], ahead[1])
        placed = {**sizes, **arena[0], **ahead[0]}
        for i, shape in enumerate(o.shapes):
            if i in evaluator.shapes:
                assert [values[d] for d in evaluator.shapes[i]] == [evaluate(d, sizes)
                                                                   for d in shape]
        assert evaluator.shown(values) == [[(evaluate(at, placed), tuple(
            evaluate(d, sizes) for d in shape)) for at, shape in m] for m in o.messages]
        want = bytearray(range(16))
        for at, dtype, x in o.scalars:
            data = scalar(evaluate(x, sizes), dtype).tobytes()
            want[at:at + len(data)] = data
        numbers = [int(evaluate(x, placed)) for x in o.table]
        if max(map(abs, numbers)) >= 1 << 63:
            with pytest.raises(struct.error, match=r"out of range|int too large"):
                evaluator.constants(bytes(range(16)) + bytes(480), values)
            continue
        fitted += 1
        table = struct.pack("<60q", *numbers)
        assert evaluator.constants(bytes(range(16)) + bytes(480), values) == bytes(want) + table
    assert fitted or bool(o.refusal({"N": 1, "S": 2}))


def test_equal_numbers_of_two_kinds_stay_apart() -> None:
    """1 and 1.0 are one key of a dict; a large product of ints is not that of floats."""
    big = ("sum", (1 << 55, "S"), (1,))
    o = Open({"S": (2, -1)}, (), (), 0, (("*", big, 1), ("*", big, 1.0)), (), Plan(), Plan(), ())
    evaluator = Evaluator(o)
    values = evaluator.evaluate((3,))
    assert values is not None
    evaluator.place(values)
    exact, rounded = struct.unpack("<2q", evaluator.constants(b"", values))
    assert (exact, rounded) == ((3 << 55) + 1, 3 << 55)


def test_a_guard_that_divides_by_zero_does_not_hold() -> None:
    by_zero = ("sum", (1, ("//", 5, ("sum", (1, "S"), (-3,)))))
    o = Open({"S": (2, -1)}, (), ((">=", by_zero),), 0, (), (), Plan(), Plan(), ())
    assert Evaluator(o).evaluate((4,)) is not None
    assert Evaluator(o).evaluate((3,)) is None
    assert "S = 3" in Evaluator(o).refusal((3,))
