"""Records against the standard dataclasses they stand for."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
import threading
from collections.abc import Hashable
from typing import Any, ClassVar

import pytest

from cellc_runtime import records


def shapes(of: Any) -> dict[str, Any]:
    """The same classes, made by `dataclasses` or by `records`."""

    @of.dataclass(frozen=True, slots=True)
    class Point:
        x: int
        y: int = 2
        kind: ClassVar[str] = "point"

        def moved(self) -> Any:
            return of.replace(self, x=self.x + 1)

    @of.dataclass(frozen=True, slots=True)
    class Point3(Point):
        z: int = 3

    @of.dataclass(slots=True)
    class Bag:
        name: str
        items: list[int] = of.field(default_factory=list)
        secret: bytes = of.field(default=b"", repr=False)
        place: str = of.field(default="here", kw_only=True)

    @of.dataclass(slots=True)
    class Square:
        side: int
        area: int = of.field(init=False)

        def __post_init__(self) -> None:
            self.area = self.side**2

    @of.dataclass(eq=False)
    class Same:
        x: int

    @of.dataclass(frozen=True, slots=True, kw_only=True)
    class Named:
        b: int = 1
        a: int

    @of.dataclass
    class Own:
        x: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    return {c.__name__: c for c in (Point, Point3, Bag, Square, Same, Named, Own)}


MINE, THEIRS = shapes(records), shapes(dataclasses)

PROGRAMS = [
    "Point(1)", "Point(1, 5)", "Point(y=1, x=2)", "Point()", "Point(1, 2, 3)", "Point(1, z=2)",
    "Point(1) == Point(1, 2)", "Point(1) == Point(2)", "Point(1) != Point(1)", "Point(1) == 1",
    "hash(Point(1)) == hash(Point(1, 2))", "len({Point(1), Point(1), Point(2)})",
    "Point(1) == Point3(1, 2)", "Point3(1)", "Point3(1, 2, 4).moved()", "Point.kind",
    "setattr(Point(1), 'x', 2)", "delattr(Point(1), 'x')", "Point(1).__slots__",
    "Point3(1).__slots__", "hasattr(Point(1), '__dict__')", "Point.__match_args__",
    "Bag('a')", "Bag('a', [1])", "Bag('a').items is Bag('a').items", "Bag('a', place='b').place",
    "Bag('a', [1], b'', 'b')", "hash(Bag('a'))", "Bag.__match_args__", "Bag('a') == Bag('a')",
    "Bag('a', secret=b'x')", "Bag('a', secret=b'x') == Bag('a')", "Square(3)", "Square(3, 9)",
    "Square(3) == Square(3)", "Same(1) == Same(1)", "isinstance(hash(Same(1)), int)",
    "vars(Same(1))", "Named(a=2)", "Named(2)", "Named(b=2)", "Own(1)", "Own(1) == 5",
    "hash(Own(1))", "replace(Point(1), y=7)", "replace(Square(2), side=3)",
    "replace(Point(1), w=7)", "replace(Bag('a', place='b'), name='c').place",
    "copy.copy(Bag('a', [1]))", "copy.deepcopy(Point3(1))", "Point.__init__.__qualname__[-14:]",
    "isinstance(Point(1), Hashable)", "isinstance(Bag('a'), Hashable)",
]  # fmt: skip


def outcome(program: str, classes: dict[str, Any], of: Any) -> Any:
    names = {**classes, "replace": of.replace, "copy": copy, "Hashable": Hashable}
    try:
        return repr(eval(program, names))
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("program", PROGRAMS)
def test_as_the_standard_ones(program: str) -> None:
    assert outcome(program, MINE, records) == outcome(program, THEIRS, dataclasses)
    fresh = shapes(records)  # and when it is the first thing done with the class
    assert outcome(program, fresh, records) == outcome(program, THEIRS, dataclasses)


def test_matching() -> None:
    match MINE["Point"](4, 5):
        case MINE_Point if isinstance(MINE_Point, MINE["Point"]):
            assert (MINE_Point.x, MINE_Point.y) == (4, 5)
    found = None
    point = shapes(records)["Point"]
    match point(4, 5):
        case point(a, b):
            found = (a, b)
    assert found == (4, 5)


def test_pickled_into_a_process_that_made_none() -> None:
    """Unpickling makes instances without calling the class."""
    text = (
        "import pickle, sys\n"
        "from cellc_runtime.image import Segment\n"
        "one = pickle.loads(sys.stdin.buffer.read())\n"
        "assert one == Segment(**{n: getattr(one, n) for n in Segment.__match_args__})\n"
        "print(hash(one) == hash(pickle.loads(pickle.dumps(one))))\n"
    )
    from cellc_runtime.image import Segment

    one = Segment(*range(len(Segment.__match_args__)))  # type: ignore[arg-type]
    done = subprocess.run([sys.executable, "-c", text], input=pickle.dumps(one),
                          capture_output=True)  # fmt: skip
    assert done.stdout.strip() == b"True", done.stderr.decode()


def test_first_instances_in_many_threads() -> None:
    for _ in range(50):
        bag = shapes(records)["Bag"]
        found: list[Any] = []
        start = threading.Barrier(4)

        def work(bag: Any = bag, start: Any = start, found: Any = found) -> None:
            start.wait()
            found.append(bag("a", place="b"))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert len(found) == 4 and all(b == found[0] for b in found)


def test_a_default_before_a_field_without() -> None:
    @records.dataclass
    class Wrong:
        a: int = 1
        b: int  # type: ignore[misc]

    with pytest.raises(TypeError, match="'b' has no default"):
        Wrong(1, 2)


def test_making_a_class_writes_no_methods() -> None:
    """Their cost is the point: a class that nobody uses compiles nothing."""
    cls = shapes(records)["Point"]
    assert cls.__init__.__code__.co_filename == records.__file__
    cls(1)
    assert cls.__init__.__code__.co_filename == "<string>"


def test_fields_may_have_any_name() -> None:
    def made(of: Any) -> list[Any]:
        @of.dataclass(frozen=True)
        class Odd:
            put: int
            missing: list[int] = of.field(default_factory=list)
            new_missing: list[int] = of.field(default_factory=list)
            default_put: int = 4

        given, default = Odd(1, [2], [3]), Odd(put=5)
        return [(o.put, o.missing, o.new_missing, o.default_put) for o in (given, default)]

    assert made(records) == made(dataclasses)
