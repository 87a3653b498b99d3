"""`dataclass`, `field` and `replace` as in `dataclasses`, for cellc's own classes: cheap at import.

The standard decorator writes and compiles five or six functions per class when the class is made,
which for the classes of cellc was a third of the time of `import cellc`. Here a class gets
stand-ins; the first call of one writes the real method in its place. So only classes that are
used cost anything, and afterwards they are as fast as any.

It supports the features that cellc needs: fields with defaults and factories, `init`, `repr`,
`kw_only`, `frozen`, `eq`, `slots`, class variables, `__post_init__`, inheritance, pattern matching,
pickling. `dataclasses.fields` and its like do not know these classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import FrozenInstanceError
from reprlib import recursive_repr
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")

_MISSING: Any = type("missing", (), {"__repr__": lambda _: "<missing>"})()
_FIELDS = "__record_fields__"


class Field:
    """The facts about one field: its default or factory, and where it appears."""

    __slots__ = ("default", "factory", "init", "kw_only", "name", "repr")

    def __init__(self, default: Any, factory: Any, init: bool, repr: bool, kw_only: bool) -> None:
        self.name = ""
        self.default = default
        self.factory = factory
        self.init = init
        self.repr = repr
        self.kw_only = kw_only


@overload
def field(*, default: T, init: bool = ..., repr: bool = ..., kw_only: bool = ...) -> T: ...
@overload
def field(
    *, default_factory: Callable[[], T], init: bool = ..., repr: bool = ..., kw_only: bool = ...
) -> T: ...
@overload
def field(*, init: bool = ..., repr: bool = ..., kw_only: bool = ...) -> Any: ...
def field(
    *,
    default: Any = _MISSING,
    default_factory: Any = _MISSING,
    init: bool = True,
    repr: bool = True,
    kw_only: bool = False,
) -> Any:
    """A field with more to say than a default."""
    return Field(default, default_factory, init, repr, kw_only)


@overload
def dataclass(cls: type[T], /) -> type[T]: ...
@overload
def dataclass(
    *, frozen: bool = ..., eq: bool = ..., slots: bool = ..., kw_only: bool = ...
) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(field_specifiers=(field,))
def dataclass(
    cls: Any = None,
    /,
    *,
    frozen: bool = False,
    eq: bool = True,
    slots: bool = False,
    kw_only: bool = False,
) -> Any:
    """The class with `__init__`, `__repr__`, comparison and the rest made from its annotations."""

    def made(cls: Any) -> Any:
        return _made(cls, frozen, eq, slots, kw_only)

    return made if cls is None else made(cls)


def replace(record: T, /, **changes: Any) -> T:
    """A copy of a record with some fields changed."""
    for f in getattr(record, _FIELDS).values():
        if f.init and f.name not in changes:
            changes[f.name] = getattr(record, f.name)
    return type(record)(**changes)


def changed(record: T, /, **changes: Any) -> T:
    """A copy of a record with some fields changed, without `__post_init__`: for changes that have
    been checked. About ten times as fast as `replace`."""
    copy: T = object.__new__(type(record))
    for name in getattr(record, _FIELDS):
        value = changes[name] if name in changes else getattr(record, name)
        object.__setattr__(copy, name, value)
    return copy


def _made(cls: Any, frozen: bool, eq: bool, slots: bool, kw_only: bool) -> Any:
    own = _own_fields(cls, kw_only)
    fields: dict[str, Field] = {}
    for base in reversed(cls.__mro__[1:]):
        fields.update(getattr(base, _FIELDS, {}))
    fields.update(own)
    home: list[Any] = []
    added = _methods(cls, home, fields, frozen, eq, slots)
    if slots:
        cls = _slotted(cls, own, fields, added)
    else:
        for name, value in added.items():
            setattr(cls, name, value)
    home.append(cls)
    return cls


def _methods(
    cls: Any, home: Sequence[Any], fields: dict[str, Field], frozen: bool, eq: bool, slots: bool
) -> dict[str, Any]:
    """Return the methods of a class, by name: they are put into the class with slots before it is
    built, since each special method set later makes Python go over all slots of the type."""
    given = cls.__dict__
    positional = tuple(f.name for f in fields.values() if f.init and not f.kw_only)
    added: dict[str, Any] = {_FIELDS: fields, "__match_args__": positional}
    if "__init__" not in given:
        added["__init__"] = _stand_in(cls, home, "__init__", lambda c: _init(c, fields, frozen))
    if "__repr__" not in given:
        added["__repr__"] = _repr
    if eq and "__eq__" not in given:
        added["__eq__"] = _stand_in(cls, home, "__eq__", lambda c: _eq(c, fields))
        if given.get("__hash__") is None:
            added["__hash__"] = _stand_in(
                cls, home, "__hash__", lambda c: _hash(c, fields)) if frozen else None
    if frozen:
        added |= {"__setattr__": _set_frozen, "__delattr__": _delete_frozen}
        if slots and "__getstate__" not in given:
            added |= {"__getstate__": _get_state, "__setstate__": _set_state}
    return added


def _own_fields(cls: Any, kw_only: bool) -> dict[str, Field]:
    found = {}
    for name, annotation in cls.__annotations__.items():
        if str(annotation).startswith(("ClassVar", "typing.ClassVar")):
            continue
        default = cls.__dict__.get(name, _MISSING)
        if isinstance(default, Field):
            one = default
            if one.default is _MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, one.default)
        else:
            one = Field(default, _MISSING, init=True, repr=True, kw_only=False)
        one.name = name
        one.kw_only |= kw_only
        found[name] = one
    return found


def _slotted(
    cls: Any, own: dict[str, Field], fields: dict[str, Field], added: dict[str, Any]
) -> Any:
    """The class again with a slot for each field of its own: slots cannot be added to a class."""
    space = {k: v for k, v in cls.__dict__.items() if k not in own} | added
    space.pop("__dict__", None)
    space.pop("__weakref__", None)
    inherited = {name for base in cls.__mro__[1:] for name in _slots(base)}
    space["__slots__"] = tuple(name for name in fields if name not in inherited)
    new = type(cls)(cls.__name__, cls.__bases__, space)
    new.__qualname__ = cls.__qualname__
    return new


def _slots(cls: Any) -> tuple[str, ...]:
    found = cls.__dict__.get("__slots__", ())
    return (found,) if isinstance(found, str) else tuple(found)


def _stand_in(cls: Any, home: Sequence[Any], name: str, write: Callable[[Any], Any]) -> Any:
    """A method that writes the real one in its own place when it is first called.

    Two threads may both write it: the methods are equal, and either may stay.

    Args:
        cls: the class as it was written; `home` holds the one that gets the method.
        write: gives the method of that class.
    """

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        (cls,) = home
        if cls.__dict__[name] is method:
            setattr(cls, name, write(cls))
        return cls.__dict__[name](self, *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    method.__module__ = cls.__module__
    return method


def _init(cls: Any, fields: dict[str, Field], frozen: bool) -> Any:
    """`def __init__` with a parameter per field; the names that it needs are its globals."""
    # Names of its own, that no field has: parameters would hide them.
    me, put, missing, new = (_unlike(name, fields) for name in ("self", "put", "missing", "new_"))
    space: dict[str, Any] = {put: object.__setattr__, missing: _MISSING}
    plain, named, body = [me], list[str](), list[str]()
    for f in fields.values():
        value = f.name
        if f.factory is not _MISSING:
            space[f"{new}{f.name}"] = f.factory
            made = f"{new}{f.name}()"
            value = f"{made} if {f.name} is {missing} else {f.name}" if f.init else made
        elif not f.init:
            continue
        default = ""
        if f.factory is not _MISSING:
            default = f"={missing}"
        elif f.default is not _MISSING:
            space[f"default_{f.name}"] = f.default
            default = f"=default_{f.name}"
        if f.init:
            if not f.kw_only and not default and "=" in plain[-1]:
                raise TypeError(f"{cls.__qualname__}: field {f.name!r} has no default, "
                                "but one before it does.")  # fmt: skip
            (named if f.kw_only else plain).append(f.name + default)
        body.append(f"{put}({me}, {f.name!r}, {value})" if frozen else f"{me}.{f.name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append(f"{me}.__post_init__()")
    parameters = ", ".join(plain + (["*", *named] if named else []))
    return _written(cls, "__init__", parameters, body or ["pass"], space)


def _unlike(name: str, fields: dict[str, Field]) -> str:
    """A name with which no field's begins."""
    while f" {name}" in f" {' '.join(fields)}":
        name = "_" + name
    return name


def _eq(cls: Any, fields: dict[str, Field]) -> Any:
    mine = "".join(f"self.{n}, " for n in fields)
    yours = "".join(f"other.{n}, " for n in fields)
    body = ["if other.__class__ is not self.__class__: return NotImplemented",
            f"return ({mine}) == ({yours})"]  # fmt: skip
    return _written(cls, "__eq__", "self, other", body, {})


def _hash(cls: Any, fields: dict[str, Field]) -> Any:
    mine = "".join(f"self.{n}, " for n in fields)
    return _written(cls, "__hash__", "self", [f"return hash(({mine}))"], {})


def _written(cls: Any, name: str, parameters: str, body: list[str], space: dict[str, Any]) -> Any:
    text = f"def {name}({parameters}):\n " + "\n ".join(body)
    space["__name__"] = cls.__module__
    exec(text, space)
    method = space[name]
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    return method


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ((f.name, getattr(self, f.name)) for f in getattr(self, _FIELDS).values() if f.repr)
    return f"{type(self).__qualname__}({', '.join(f'{n}={v!r}' for n, v in shown)})"


def _set_frozen(self: Any, name: str, value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delete_frozen(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in getattr(self, _FIELDS)]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(getattr(self, _FIELDS), state, strict=True):
        object.__setattr__(self, name, value)
