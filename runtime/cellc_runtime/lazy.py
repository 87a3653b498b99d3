"""Modules that load at their first use, so that importing cellc stays fast.

    with lazy_imports(__name__):
        from cellc_compiler import driver

Importers see an ordinary module; what it costs to load is paid by the first attribute access. Type
checkers and editors read the statements as they are.
"""

from __future__ import annotations

import _thread
import builtins
import gc
import sys
from importlib import import_module

TYPE_CHECKING = False  # `typing` would cost more than all the rest; type checkers know the name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType, SimpleNamespace
    from typing import Any
else:
    ModuleType, SimpleNamespace = type(sys), type(sys.implementation)


def imported(name: str, package: str | None = None) -> ModuleType:
    """`import_module` without looking for cyclic garbage: what an import makes stays, and going
    over it again and again is a tenth of its time. Forks wait for it."""
    from .forks import no_fork  # `import cellc` alone does not load it

    with no_fork():
        enabled = gc.isenabled()
        gc.disable()
        try:
            return import_module(name, package)
        finally:
            if enabled:
                gc.enable()


class _Lazy(ModuleType):
    """Stands for a module until an attribute of it is requested."""

    def __getattr__(self, name: str) -> Any:
        module = imported(self.__name__)
        value = getattr(module, name)
        # The next access finds it here, without this call.
        self.__dict__[name] = value
        return value


class Package(ModuleType):
    """A package with functions that have the names of old paths below it. The import system sets
    each module that it has loaded as an attribute of its package: here that hides no other name."""

    def __setattr__(self, name: str, value: object) -> None:
        if not isinstance(value, ModuleType) or isinstance(vars(self).get(name, value), ModuleType):
            super().__setattr__(name, value)


def lazy_module(name: str) -> Any:
    """The module called `name`, imported when it is first used."""
    return sys.modules.get(name) or _Lazy(name)


class _LazyBlock:
    """A block of `import` statements, which give modules that load at their first use.

    While a block is open, `_import_lazily` replaces `builtins.__import__`. A block stands at the
    level of a module, and imports modules only, no classes or functions.

    Args:
        module: the module that the block is in, its `__name__`.
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def __enter__(self) -> None:
        with _lock:
            if not _open:
                _usual[:], builtins.__import__ = [builtins.__import__], _import_lazily
            _open.append(self._module)

    def __exit__(self, *error: object) -> None:
        with _lock:
            _open.remove(self._module)
            if not _open:
                builtins.__import__ = _usual[0]


_lock = _thread.allocate_lock()
_open: list[str] = []  # the modules whose blocks are open
_usual: list[Callable[..., Any]] = [builtins.__import__]
lazy_imports = _LazyBlock


def _import_lazily(
    name: str, globals: Mapping[str, Any] | None = None, locals: Mapping[str, Any] | None = None,
    fromlist: Sequence[str] | None = (), level: int = 0,
) -> Any:
    """As `__import__`; lazily for the statements of a block, not those of functions, of other
    modules or threads meanwhile."""
    if globals is None or locals is not globals or globals.get("__name__") not in _open:
        return _usual[0](name, globals, locals, fromlist or (), level)
    if level:
        above = globals["__package__"].rsplit(".", level - 1)[0]
        name = f"{above}.{name}" if name else above
    if not fromlist:
        return lazy_module(name)
    return SimpleNamespace(**{own: lazy_module(f"{name}.{own}") for own in fromlist})


# Those of the standard library that cost much, for all (Windows has no `fcntl`).
with lazy_imports(__name__):
    import base64 as base64
    import difflib as difflib
    import fcntl as fcntl
    import hashlib as hashlib
    import json as json
    import logging as logging
    import pathlib as pathlib
    import statistics as statistics
    import tempfile as tempfile
    import zlib as zlib
    from concurrent import futures as futures


def no_attribute(module: str, name: str, instead: str = "", place: str = "") -> AttributeError:
    """The error for a name that a public module does not have.

    Args:
        instead: what does the work of the name here. Without it the message names a similar name of
            the module, if there is one.
        place: where the very same name is, as `"nn.Dense"`.
    """
    text = f"module {module!r} has no attribute {name!r}"
    if instead:
        return AttributeError(f"{text}: cellc does not have it; use {instead}")
    given = name.casefold()
    names = [] if name.startswith("_") else dir(sys.modules[module])
    names.sort(key=lambda n: n[0] == name[0])  # of two names alike, that which begins so
    known = {n.casefold(): n for n in names if n[0].casefold() == given[0]}
    if place:
        own = f"did you mean {known[given]!r}, or {place}?" if given in known else f"it is {place}"
        return AttributeError(f"{text}; {own}")
    meant = [given] if given in known else difflib.get_close_matches(given, known, 1, 0.76) \
        if len(name) > 2 else []
    hint = f"; did you mean {known[meant[0]]!r}?" if meant else ""
    return AttributeError(f"{text}{hint}")


def lazy_names(
    package: str, homes: Mapping[str, str],
    missing: Callable[[str, str], AttributeError] = no_attribute,
) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose names load the modules that define them.

    Args:
        package: the package's `__name__`.
        homes: names by the module, relative to the package (`".layer.basic"`; `"."`: the names are
            modules below the package), separated by blanks; `own=theirs` renames one. Modules
            themselves are found under their own names.
        missing: the error for a name of the package that is not here.
    """
    found = {own: (home, theirs or own) for home, names in homes.items()
             for own, _, theirs in (name.partition("=") for name in names.split() if name != "|")}
    modules = {home.split(".")[1] for home in homes}

    def load(name: str) -> Any:
        home, theirs = found.get(name, ("", ""))
        if home == "." or (not home and name in modules):
            value = imported("." + name, package)
        elif home:
            value = getattr(imported(home, package), theirs)
        else:
            raise missing(package, name)
        # The next access finds it there, without this call.
        setattr(sys.modules[package], name, value)
        return value

    return load


def facade(
    package: str, homes: Mapping[str, str],
    missing: Callable[[str, str], AttributeError] = no_attribute,
) -> None:
    """Let a package offer names of other modules, which load at their first use.

    Sets its `__getattr__`, `__dir__` and `__all__`. `docs/make_stubs.py` writes the same names into
    the stub beside the package, which type checkers and editors read.

    Args:
        homes, missing: as for `lazy_names`. Names after a `|` are offered, but not listed in
            `__all__`.
    """
    names, offered, listed = vars(sys.modules[package]), set(), set()
    for row in homes.values():
        shown, _, more = row.partition("|")
        listed |= {name.partition("=")[0] for name in shown.split()}
        offered |= {*more.split()}
    names.update(__getattr__=lazy_names(package, homes, missing),
                 __all__=sorted({*names.get("__all__", ()), *listed}))
    own = public_names(package)
    names["__dir__"] = lambda: sorted({*own(), *offered})


def names_of(
    module: str, table: Mapping[str, Any],
    missing: Callable[[str, str], AttributeError] = no_attribute,
) -> Callable[[str], Any]:
    """The `__getattr__` of a module whose names are the keys of a table."""

    def find(name: str) -> Any:
        if name in table:
            return table[name]
        raise missing(module, name)

    return find


def public_names(module: str) -> Callable[[], list[str]]:
    """The `__dir__` of a module: what it lists in `__all__`, the modules below it and what begins
    with an underscore, but not what it imports."""

    def listed() -> list[str]:
        names = vars(sys.modules[module])
        below = (n for n, v in names.items() if n.startswith("_") or (
            isinstance(v, ModuleType) and vars(v)["__name__"] == f"{module}.{n}"))
        return sorted({*names["__all__"], *below})

    return listed
