"""Arguments say in their annotations what they must be; a wrapper checks them.

    def __init__(self, kernel_size: PerAxis2, stride: PerAxis2 = 1, has_bias: Flag = False): ...

`Flag`, `PerAxis2` and their like are `Annotated` types: a type checker reads the type, and the
wrapper that each public constructor has (`core.native`) reads the rule. An argument that breaks its
rule raises an error of one form:

    For 'Conv2d', 'stride' must be a positive int or a tuple of 2, but got -1.

It is a TypeError where the value is of another kind, a ValueError where it is out of range. A
default is not checked. An annotation with `| None` allows None. Other functions and methods check
their arguments if they are decorated with `checks_arguments`, for which a class is a rule, too.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY
from functools import wraps
from inspect import Parameter, Signature, cleandoc, signature, unwrap
from math import inf
from textwrap import fill
from types import NoneType
from typing import Annotated, Any, ClassVar, TypeVar, cast, dataclass_transform, get_args

import numpy as np

from cellc_compiler.ir.types import MOST_BYTES, MOST_PARTS
from cellc_runtime.records import dataclass

from .later import naming

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Rule:
    """The condition on an argument."""

    wanted: str  # in words, after "must be"
    fits: Callable[[Any], bool]  # whether a value is of the right kind (otherwise: TypeError)
    # whether a value of the right kind is in range (otherwise: ValueError)
    holds: Callable[[Any], bool] = lambda value: True
    # the normal form of a value, which the function gets
    normal: Callable[[Any], Any] = lambda value: value
    most: float = inf  # the largest value, where `wanted` does not say it

    def __call__(self, value: Any, what: str, name: str) -> Any:
        """The normal form of an argument.

        Args:
            what, name: the function or class, and the parameter.
        """
        if not self.fits(value):
            kind: type[Exception] = TypeError
        elif not self.holds(value):
            kind = ValueError
        else:
            return self.normal(value)
        above = kind is ValueError and is_int(value) and value > self.most
        wanted = f"at most {self.most}" if above else self.wanted
        raise kind(f"For '{what}', '{name}' must be {wanted}, but got {naming.described(value)}.")

    def always(self, kind: type[Exception]) -> Rule:
        """The same rule; any value that breaks it raises one kind of error."""
        def follows(value: Any) -> bool:
            return self.fits(value) and self.holds(value)

        if kind is TypeError:
            return Rule(self.wanted, follows, normal=self.normal)
        return Rule(self.wanted, lambda value: True, follows, self.normal)

    def normal_default(self, default: Any) -> Any:
        """The normal form of a default; None where that is the default, or it breaks the rule."""
        if default in (None, Parameter.empty) or not self.fits(default) or not self.holds(default):
            return None
        found = self.normal(default)
        return None if found is default else found

    def __repr__(self) -> str:
        return self.wanted


_UNSTATED = object()


def misuse(
    what: str, claim: str, got: Any = _UNSTATED, kind: type[TypeError | ValueError] = ValueError
) -> TypeError | ValueError:
    """The error of a wrong argument that no rule of one argument describes.

    Args:
        claim: the condition that does not hold: "'stride' must be positive".
        got: the value; nothing if the condition says all.
        kind: TypeError for a value of another kind.
    """
    return kind(f"For '{what}', {claim}{'' if got is _UNSTATED else f', but got {got}'}.")


def is_int(value: Any) -> bool:
    """Whether `value` is an int (not a bool)."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether `value` is an int or a float (not a bool)."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def integer(low: int | None = None, most: int = MOST_BYTES) -> Rule:
    """An int from `low` to `most`; the default is what a tensor can have of anything."""
    words = {None: "an int", 0: "a non-negative int", 1: "a positive int"}
    least = -most if low is None else low
    wanted = words.get(low, f"an int of {low} or more")
    return Rule(wanted, is_int, lambda value: least <= value <= most, int, most)


def number(
    low: float = -inf, high: float = inf, ends: str = "[]", whole: bool = True,
    normal: Callable[[Any], Any] = float, bools: bool = False,
) -> Rule:
    """A number between two bounds, as a float.

    Args:
        low, high: the bounds.
        ends: which bounds are allowed themselves, as in `"[)"`.
        whole: whether an int is allowed.
        normal: gives the normal form.
        bools: whether a bool is allowed, as MindSpore has it here and there.
    """
    kind = "number" if whole else "float"
    if high < inf:
        wanted = f"a {kind} in {ends[0]}{low:g}, {high:g}{ends[1]}"
    else:
        wanted = {(-inf, "["): f"a {kind}", (0, "["): f"a non-negative {kind}",
                  (0, "("): f"a positive {kind}"}.get((low, ends[0]), f"a {kind} above {low:g}")

    def holds(value: Any) -> bool:
        return bool((value >= low if ends[0] == "[" else value > low)
                    and (value <= high if ends[1] == "]" else value < high))

    fits = is_number if whole else _is_float
    return Rule(wanted, lambda value: fits(value) or (bools and isinstance(value, bool)), holds,
                normal)


def _is_float(value: Any) -> bool:
    return isinstance(value, (float, np.floating))


def one_of(
    *values: Any, kind: type = object, fold: Callable[[str], str] | None = None
) -> Rule:
    """One of a few values; another one is a ValueError.

    Args:
        kind: a value of another class is a TypeError.
        fold: applied to a string before it is compared, and to what the function gets.
    """
    def normal(value: Any) -> Any:
        return fold(value) if fold is not None and isinstance(value, str) else value

    def holds(value: Any) -> bool:
        found = normal(value)
        return any(type(found) is type(v) and found == v for v in values)

    return Rule(f"one of {', '.join(map(repr, values))}", lambda value: isinstance(value, kind),
                holds, normal)


def instance(*kinds: Any, wanted: str = "") -> Rule:
    """An object of one of some classes (a bool is no int, an int of numpy is one)."""
    names = " or ".join("None" if k is NoneType else
                        f"{'an' if k.__name__[0] in 'aeiouAEIOU' else 'a'} {k.__name__}"
                        for k in kinds)

    def fits(value: Any) -> bool:
        if isinstance(value, (int, np.integer)) and int in kinds and bool not in kinds:
            return is_int(value)
        return isinstance(value, kinds)

    return Rule(wanted or names, fits)


def per_axis(
    count: int, low: int = 1, error: type[Exception] = TypeError, kept: bool = False,
    most: int = MOST_BYTES,
) -> Rule:
    """An int for all axes, or a tuple or list of one for each; a tuple of `count` ints.

    Args:
        low: the least int.
        error: raised for another number of ints: TypeError or ValueError.
        kept: only a tuple is allowed, and the function gets what was given.
        most: the largest int.
    """
    one, kinds = integer(low, most), tuple if kept else (tuple, list)

    def fits(value: Any) -> bool:
        if not isinstance(value, kinds):
            return is_int(value)
        return all(map(is_int, value)) and (len(value) == count or error is ValueError)

    def holds(value: Any) -> bool:
        return one.holds(value) if is_int(value) else \
            len(value) == count and all(map(one.holds, value))

    def normal(value: Any) -> Any:
        if kept:
            return value
        return (int(value),) * count if is_int(value) else tuple(map(int, value))

    return Rule(f"{one.wanted} or a tuple of {count}", fits, holds, normal)


BOOL, INT, NON_NEGATIVE, POSITIVE = instance(bool), integer(), integer(0), integer(1)
COPIES = integer(1, MOST_PARTS)
NUMBER, FLOAT = number(), number(whole=False)
CALLABLE = Rule("a Cell or a function", callable)
FUNCTION = Rule("a function", callable)

Called = Annotated[Any, CALLABLE]
Function = Annotated[Callable[..., Any], FUNCTION]
Flag = Annotated[bool, BOOL]
Int = Annotated[int, INT]
NonNegative = Annotated[int, NON_NEGATIVE]
Positive = Annotated[int, POSITIVE]
Copies = Annotated[int, COPIES]
"""How many parts are made one by one."""
Number = Annotated[float, NUMBER]
PlainNumber = Annotated[float, number(normal=lambda value: value)]
"""A number that stays an int or a float."""
PositiveNumber = Annotated[float, number(0, ends="(]")]
Float = Annotated[float, FLOAT]
NonNegativeNumber = Annotated[float, number(0)]
NonNegativeFloat = Annotated[float, number(0, whole=False)]
PositiveFloat = Annotated[float, number(0, ends="(]", whole=False)]
Share = Annotated[float, number(0, 1)]  # A share or probability from 0 to 1
SmallFloat = Annotated[float, number(0, ends="()", whole=False)]
"""A finite float above zero, as is added to denominators."""
OpenShare = Annotated[float, number(0, 1, "()", whole=False)]
DropRate = Annotated[float, number(0, 1, ends="[)", normal=lambda value: value)]
Listed = Annotated[Any, instance(list, tuple)]
Axes = Annotated[Any, instance(int, list, tuple)]
"""An axis, or a list or tuple of them."""
PerAxis2 = Annotated[Any, per_axis(2)]
PerAxis3 = Annotated[Any, per_axis(3)]


_ANY = frozenset({Any, object, Parameter.empty})  # Classes of annotations that say nothing


@dataclass(frozen=True, slots=True)
class Declared:
    """A parameter with a rule."""

    # name, rule: of the parameter
    name: str
    rule: Rule
    place: int  # its position; -1 if it is given by name only
    optional: bool  # whether None is allowed
    default: Any = None  # the normal form of its default, where that differs from the default


def _read(
    parameters: Iterable[Parameter], names: Mapping[str, Any], classes: bool = False
) -> tuple[Declared, ...]:
    """The parameters that have rules.

    Args:
        parameters: all parameters, in order.
        names: the names that annotations use.
        classes: whether a class is a rule, too.
    """
    found = []
    for place, parameter in enumerate(parameters):
        rule, optional = rule_of(parameter.annotation, names, classes)
        if rule is None:
            continue
        found.append(Declared(
            parameter.name, rule, -1 if parameter.kind is Parameter.KEYWORD_ONLY else place,
            optional, rule.normal_default(parameter.default)))
    return tuple(found)


def rule_of(
    annotation: Any, names: Mapping[str, Any], classes: bool = False
) -> tuple[Rule | None, bool]:
    """The rule of an annotation, if it has one, and whether it allows None (see `_read`)."""
    parts = _parts(annotation, names)
    stated = (r for part in parts for r in getattr(part, "__metadata__", ())
              if isinstance(r, Rule))
    return next(stated, _of_classes(parts) if classes else None), NoneType in parts


def _of_classes(parts: Sequence[Any]) -> Rule | None:
    """The rule of an annotation that names classes only; PEP 484: a float may be an int."""
    kinds = [part for part in parts if part is not NoneType]
    if not kinds or not all(isinstance(kind, type) for kind in kinds) or _ANY & {*kinds}:
        return None
    return instance(*kinds, *(int,) * (float in kinds))


def _parts(annotation: Any, names: Mapping[str, Any]) -> Sequence[Any]:
    """The members of an annotation `A | B`; of a text, those that are plain names of the module."""
    if isinstance(annotation, str) and annotation.startswith("Annotated["):
        annotation = eval(annotation, dict(names))
    if isinstance(annotation, str):
        plain = [m.partition("[")[0] for m in annotation.split(" | ")]
        return [NoneType if m == "None" else names.get(m, getattr(builtins, m, None))
                for m in plain]
    return (annotation, *get_args(annotation))


def declared_by(function: Any, classes: bool = False) -> tuple[Declared, ...]:
    """The parameters of a function that have rules (`classes`: see `_read`), read once."""
    declared: tuple[Declared, ...] | None = function.__dict__.get("_declared")
    if declared is None:
        parameters = signature(function).parameters.values()
        declared = function._declared = _read(parameters, unwrap(function).__globals__, classes)
    return declared


def declare(function: Any, rules: Iterable[Declared]) -> None:
    """State the rules of a function's parameters, in place of its annotations."""
    function._declared = tuple(rules)


def checked(
    declared: Sequence[Declared], what: str, args: Sequence[Any], kwargs: dict[str, Any]
) -> list[Any]:
    """The arguments of a call in their normal forms: those by position; `kwargs` is changed."""
    given = list(args)
    for d in declared:
        if 0 <= d.place < len(given):
            value = given[d.place]
            if value is not None or not d.optional:
                given[d.place] = d.rule(value, what, d.name)
        elif d.name in kwargs:
            value = kwargs[d.name]
            if value is not None or not d.optional:
                kwargs[d.name] = d.rule(value, what, d.name)
        elif d.default is not None:
            kwargs[d.name] = d.default
    return given


def checks_arguments(fn: F) -> F:
    """A function, method or constructor that checks its arguments by their annotations.

    A class in an annotation is a rule: an argument `net: Cell | None` must be a Cell or None.
    """
    function: Any = fn
    owner, _, name = function.__qualname__.rpartition(".")
    called = f"{owner}.{name}".lstrip(".")

    @wraps(function)
    def checked_call(*args: Any, **kwargs: Any) -> Any:
        what = class_made(args[0]).__name__ if name == "__init__" else called
        given = checked(declared_by(function, classes=True), what, args, kwargs)
        return function(*given, **kwargs)

    return cast(F, checked_call)


class Described:
    """The docstring of a class: its text, and the rules of the arguments of its constructor."""

    __slots__ = ("_init", "_text")

    def __init__(self, text: str, init: Any) -> None:
        self._text, self._init = text, init

    def __get__(self, instance: Any, owner: type) -> str:
        by_rule: dict[str, list[str]] = {}
        for d in declared_by(self._init):
            by_rule.setdefault(f"{d.rule}{' or None' * d.optional}", []).append(d.name)
        rules = [fill(f"{', '.join(names)}: {rule}.", 96, initial_indent="    ",
                      subsequent_indent="        ") for rule, names in by_rule.items()]
        title = ["", "Arguments must be:"] if rules else []
        return "\n".join([cleandoc(self._text), *title, *rules])


def class_made(value: Any) -> type:
    """The library's class that an object is of."""
    return next(c for c in type(value).__mro__ if is_ours(c))


def is_ours(cls: type) -> bool:
    """Whether a class is the library's."""
    return (cls.__module__ or "").startswith("cellc.")


@dataclass_transform()
class Arguments:
    """A class of the library whose constructor stores its arguments, which are its fields.

    A field is an annotated name in the class body, with its default; those after a field of the
    type `KW_ONLY` are given by name. The constructor passes the fields that the constructor of the
    base has as parameters on to it, stores the others as attributes, in their order, and calls
    `__post_init__`, if there is one. Classes with an `__init__` of their own stay as they are.
    """

    _options: ClassVar[tuple[str, ...]] = ()  # The names of the fields, in order

    def __init_subclass__(cls, **constants: Any) -> None:
        fields = {name: stated for name, stated in vars(cls).get("__annotations__", {}).items()
                  if not str(stated).startswith("ClassVar")}
        if fields and "__init__" not in vars(cls) and is_ours(cls):
            cls.__init__ = _constructor(cls, fields)  # type: ignore[method-assign]  # it has none
        super().__init_subclass__(**constants)


def _constructor(cls: Any, fields: Mapping[str, Any]) -> Callable[..., None]:
    kind: Any = Parameter.POSITIONAL_OR_KEYWORD
    parameters = [Parameter("self", kind)]
    for name, annotation in fields.items():
        if annotation in ("KW_ONLY", KW_ONLY):
            kind = Parameter.KEYWORD_ONLY
            continue
        parameters.append(Parameter(
            name, kind, default=vars(cls).get(name, Parameter.empty), annotation=annotation))
        if name in vars(cls):
            delattr(cls, name)  # the attribute of an object is its own
    own, fields_of_base = Signature(parameters), signature(super(cls, cls).__init__).parameters
    names = [p.name for p in parameters[1:]]
    passed = [n for n in names if n in fields_of_base]
    stored = [n for n in names if n not in fields_of_base]
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    positional = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters[1:])
    finishes = hasattr(cls, "__post_init__")

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        values = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
        if values.keys() != set(names) or len(args) > positional or \
                not kwargs.keys().isdisjoint(names[: len(args)]):
            own.bind(self, *args, **kwargs)  # raises, in Python's words
        super(cls, self).__init__(**{n: values[n] for n in passed})
        for name in stored:
            setattr(self, name, values[name])
        if finishes:
            self.__post_init__()

    made: Any = __init__
    made.__signature__ = own
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    made._declared = _read(parameters, vars(sys.modules[cls.__module__]))
    cls._options = tuple(names)
    return __init__
