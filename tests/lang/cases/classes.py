"""Classes of the user: objects, methods, properties, inheritance, dataclasses, enums, special methods."""
# The programs use Python in every way, good style or not.
# ruff: noqa

from __future__ import annotations

import abc
import enum
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

import cellc as ms

from .table import X, Y, Table

case = Table(X, Y)
V = TypeVar("V")


class Shape:
    sides = 0
    registry: list = []

    def __init__(self, scale: Any) -> None:
        self.scale = scale
        self._cache = None

    def area(self, x: Any) -> Any:
        return x * self.scale

    def describe(self) -> str:
        return f"{type(self).__name__}:{self.sides}"

    @property
    def double(self) -> Any:
        return self.scale * 2

    @double.setter
    def double(self, v: Any) -> None:
        self.scale = v / 2

    @staticmethod
    def unit(x: Any) -> Any:
        return x + 1

    @classmethod
    def of(cls, scale: Any) -> Any:
        return cls(scale)

    def __call__(self, x: Any, k: int = 1) -> Any:
        return self.area(x) * k


class Square(Shape):
    sides = 4

    def __init__(self, scale: Any) -> None:
        super().__init__(scale + 1)
        self.extra = 5

    def area(self, x: Any) -> Any:
        return super().area(x) + self.extra


class Mixin:
    def area(self, x: Any) -> Any:
        return super().area(x) * 100

    def shout(self) -> str:
        return self.describe().upper()


class Both(Mixin, Square):
    pass


@case
def methods_and_properties(x: Any) -> Any:
    s = Shape(3)
    return s.area(x), s.double, s.describe(), s(x), s(x, k=2), Shape.unit(x), s.unit(x), Shape.of(4).scale, Shape.sides


@case
def property_setter(x: Any) -> Any:
    s = Shape(3)
    s.double = 10
    return x, s.scale, s.double


@case
def inheritance(x: Any) -> Any:
    q = Square(2)
    return q.area(x), q.describe(), isinstance(q, Shape), type(q) is Square, issubclass(Square, Shape), Square.of(1).scale


@case
def mixins_follow_the_mro(x: Any) -> Any:
    b = Both(1)
    return b.area(x), b.shout(), [c.__name__ for c in Both.__mro__]


@case
def attributes_hold_tensors(x: Any) -> Any:
    s = Shape(x)
    s.scale = s.scale + 1
    s.later = s.area(x)
    s._cache = {"x": s.later}
    return s.later, s.double, s._cache["x"]


@case
def unbound_methods(x: Any) -> Any:
    s = Square(1)
    f = s.area
    return Shape.area(s, x), f(x), Square.__call__(s, x), list(map(s.area, [x, 1]))


@case
def changed_in_runtime_branch(x: Any) -> Any:
    s = Shape(x)
    if x.sum() > 0:
        s.scale = x + 1
    else:
        s.scale = x - 1
    return s.scale, s.area(2)


@dataclass
class Config:
    hidden: int = 8
    rate: float = 0.5
    names: list = field(default_factory=list)
    kinds: ClassVar[int] = 3

    def scaled(self, x: Any) -> Any:
        return x * self.rate + self.hidden


@dataclass(frozen=True)
class Frozen:
    a: Any
    b: Any = 2


@dataclass
class Deep(Config):
    depth: int = 2

    def __post_init__(self) -> None:
        self.hidden = self.hidden * self.depth


GIVEN = Config(hidden=3, names=["g"])


@case
def dataclasses_inside(x: Any) -> Any:
    c = Config(rate=2.0)
    c.names.append("n")
    d = Deep(depth=3)
    f = Frozen(x)
    return c.scaled(x), c.names, Config().names, d.hidden, d.scaled(x), f.a, f.b, c == Config(rate=2.0, names=["n"]), \
        replace(c, hidden=1).hidden, GIVEN.scaled(x), Config.kinds, repr(Config())


@case
def frozen_stays_frozen(x: Any) -> Any:
    f = Frozen(1)
    try:
        f.a = 3
    except AttributeError:
        return x + f.a
    return x


@dataclass
class Pair:
    left: Any
    right: Any


@case
def dataclass_output(x: Any) -> Any:
    return Pair(x, [Pair(x + 1, 2)]), Frozen(x), Config(hidden=2)


@case.on((Pair(X, 2), 3), (Pair(Y, 4), 3))
def dataclass_input(p: Any, k: Any) -> Any:
    return p.left * p.right + k, Pair(p.left, k)


@case
def object_output(x: Any) -> Any:
    s = Shape(x)
    s.area_of_one = s.area(1) + 1
    return s


class Color(enum.Enum):
    RED = 1
    BLUE = 2

    @property
    def doubled(self) -> int:
        return self.value * 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Flags(enum.Flag):
    A = 1
    B = 2


@case.on(dtypes=False)
def enums(x: Any) -> Any:
    c = Color.RED
    chosen = {Color.RED: "r", Color.BLUE: "b"}[Color.BLUE]
    return x * Level.HIGH, c is Color.RED, c.name, c.value, Color(2).name, chosen, [m.name for m in Color], c.doubled, \
        Level.LOW < Level.HIGH, Flags.A in (Flags.A | Flags.B), Color["BLUE"].value


class Vector:
    def __init__(self, v: Any) -> None:
        self.v = v

    def __add__(self, o: Any) -> Any:
        return Vector(self.v + (o.v if isinstance(o, Vector) else o))

    def __radd__(self, o: Any) -> Any:
        return Vector(o + self.v)

    def __mul__(self, k: Any) -> Any:
        return Vector(self.v * k)

    def __neg__(self) -> Any:
        return Vector(-self.v)

    def __getitem__(self, i: Any) -> Any:
        return self.v[i]

    def __setitem__(self, i: Any, value: Any) -> None:
        self.v[i] = value

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Iterator:
        return iter([self.v, self.v + 1])

    def __contains__(self, k: Any) -> bool:
        return k == "v"

    def __eq__(self, o: Any) -> bool:
        return isinstance(o, Vector)

    def __lt__(self, o: Any) -> bool:
        return True

    def __bool__(self) -> bool:
        return False

    def __iadd__(self, o: Any) -> Any:
        self.v = self.v + o
        return self

    def __matmul__(self, o: Any) -> Any:
        return self.v @ o.v

    def __repr__(self) -> str:
        return "Vector!"

    def __hash__(self) -> int:
        return 7


@case
def special_methods(x: Any) -> Any:
    a, b = Vector(x), Vector(x + 1)
    a += 5
    b[0] = 9
    return (a + b).v, (a + 1).v, (1 + a).v, (a * 3).v, (-a).v, a[0], len(a), list(a), "v" in a, "w" in a, a == b, a < b, \
        bool(a), not a, a @ b, f"{a}", str(a), 1 if a else 2, sum([a, b]).v, b.v


class WithGetattr:
    def __init__(self) -> None:
        self.known = 1

    def __getattr__(self, name: str) -> Any:
        if name.startswith("get_"):
            return lambda v: (name[4:], v)
        raise AttributeError(name)


@case
def getattr_hook(x: Any) -> Any:
    w = WithGetattr()
    return x, w.known, w.get_thing(3), hasattr(w, "other"), hasattr(w, "get_a"), getattr(w, "zzz", 5)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a: Any) -> None:
        self.a = a


@case
def slots(x: Any) -> Any:
    s = Slotted(x)
    s.b = s.a + 1
    return s.a, s.b, hasattr(s, "c")


class Base(abc.ABC):
    @abc.abstractmethod
    def run(self, x: Any) -> Any: ...

    def twice(self, x: Any) -> Any:
        return self.run(self.run(x))


class Concrete(Base):
    def run(self, x: Any) -> Any:
        return x + 1


class Holder(Generic[V]):
    def __init__(self, v: V) -> None:
        self.v = v


@case
def abstract_and_generic(x: Any) -> Any:
    return Concrete().twice(x), Holder(x).v, Holder[int](3).v


class Counter:
    made = 0

    def __init__(self) -> None:
        self.n = 0

    def __enter__(self) -> Any:
        self.n += 1
        return self

    def __exit__(self, *args: Any) -> None:
        self.n += 10

    def tick(self) -> Any:
        self.n += 1
        return self


@case
def fluent_and_context(x: Any) -> Any:
    c = Counter()
    with c as d:
        d.tick().tick()
    return x * c.n, c is d


class Lazy:
    def __init__(self, k: int) -> None:
        self.k = k

    @functools.cached_property
    def table(self) -> list:
        return [self.k * i for i in range(3)]

    @staticmethod
    def helper(v: Any) -> Any:
        return v * 2

    @classmethod
    def default(cls) -> Any:
        return cls(4)


@case
def cached_property_and_classmethod(x: Any) -> Any:
    z = Lazy.default()
    return x * z.table[2], z.table, Lazy.helper(x), z.helper(1)


class Private:
    __secret = 5

    def __init__(self) -> None:
        self.__mine = 2

    def total(self, x: Any) -> Any:
        return x * self.__mine + self.__secret + self.__hidden()

    def __hidden(self) -> int:
        return 100


@case
def private_names(x: Any) -> Any:
    return Private().total(x)


@ms.jit_class
class JitClass:
    def __init__(self, k: Any) -> None:
        self.k = k

    def scale(self, x: Any) -> Any:
        return x * self.k


GLOBAL_OBJECT = JitClass(3)


@case
def jit_classes(x: Any) -> Any:
    return JitClass(2).scale(x), GLOBAL_OBJECT.scale(x), GLOBAL_OBJECT.k


class Node:
    def __init__(self, v: Any, children: Any = ()) -> None:
        self.v, self.children = v, children

    def total(self) -> Any:
        return self.v + sum([c.total() for c in self.children])


@case
def trees(x: Any) -> Any:
    return Node(x, [Node(1), Node(x, (Node(2),))]).total()


@case
def class_attributes_and_type_calls(x: Any) -> Any:
    cls = Square if len(x) > 2 else Shape
    s = cls(1)
    return s.area(x), cls.sides, s.__class__.__name__, type(s)(2).scale
