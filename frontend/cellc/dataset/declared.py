"""Constructors of datasets, made from the names of their arguments.

A class lists what it takes, in order: `class Caltech256Dataset(ListedDataset, takes=PICTURES)`. The
type, the default, the check and the description of an argument stand once, in `ARGUMENTS`; a class
adds arguments of its own or states other defaults. Signature and docstring are made from that;
type checkers read the same signatures in `stubs/datasets.pyi`.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any, NamedTuple, dataclass_transform

import numpy as np

from . import checks

REQUIRED = inspect.Parameter.empty


class Argument(NamedTuple):
    """The declaration of a constructor's argument.

    Attributes:
        kind: its annotation.
        check: called with its name and value; returns the value that the dataset keeps.
        default: its value where none is given.
        none: what None stands for; without it None is checked like any value, unless it is the
            default.
        text: its description.
    """

    kind: str = "Any"
    check: Callable[[str, Any], Any] = lambda name, value: value
    default: Any = REQUIRED
    none: Any = REQUIRED
    text: str = ""

    def checked(self, name: str, value: Any) -> Any:
        """The value that the dataset keeps."""
        if value is not None or (self.none is REQUIRED and self.default is not None):
            return self.check(name, value)
        return None if self.none is REQUIRED else self.none

    def but(self, **changes: Any) -> Argument:
        """The same argument with some attributes changed."""
        return self._replace(**changes)


def flag(default: bool | None, text: str = "", none: Any = REQUIRED) -> Argument:
    """An argument that is a bool."""
    kind = "bool" if default is not None else "bool | None"
    return Argument(kind, lambda name, value: checks.of_type(name, value, bool), default, none,
                    text)


def whole(default: int, low: int, text: str) -> Argument:
    """An argument that is an int of `low` or more."""
    return Argument("int", lambda name, value: checks.integer(name, value, low), default, text=text)


def one_of(*words: str, default: Any = None, text: str = "") -> Argument:
    """An argument that is one of some words; None means "all", or the first of them."""
    shown = [f'"{word}"' for word in words]
    none = "all" if "all" in words else words[0]
    text = text or f"{', '.join(shown[:-1])} or {shown[-1]}; None: \"{none}\""
    return Argument(
        "str" if default else "str | None", lambda name, value: checks.word(name, value, words),
        default, REQUIRED if default is REQUIRED else none, f"{text}.")


def _shuffle(name: str, value: Any) -> Any:
    return value if isinstance(value, str) else checks.of_type(name, value, bool)


_SHARD = "take the part of one of several processes."
ARGUMENTS: dict[str, Argument] = {
    "dataset_dir": Argument("str", checks.folder, text="the folder of the files."),
    "usage": one_of("train", "test", "all"),
    "dataset_files": Argument("Any", checks.files, text="a path or pattern, or a list of them."),
    "annotation_file": Argument("str", checks.existing, text="the file that describes them."),
    "num_samples": Argument(
        "int | None", lambda name, value: checks.integer(name, value, 0), None,
        text="the most rows; None for all."),
    "num_parallel_workers": Argument(
        "int | None", lambda name, value: checks.integer(name, value, 1), None,
        text="how many threads read rows; None: as many as the configuration says."),
    "shuffle": Argument("Any", _shuffle, None,
                        text="whether rows come in random order; None: yes."),
    "sampler": Argument("Any", default=None, text="which rows, in which order."),
    "num_shards": Argument("int | None", default=None, text=_SHARD),
    "shard_id": Argument("int | None", default=None, text=_SHARD),
    "cache": Argument("Any", default=None, text="must be None."),
    "decode": flag(False, "whether pictures are uint8[height, width, 3]; else they are the bytes "
                          "of the files.", none=False),
    "extensions": Argument("Any", checks.extensions, None,
                           text='which files, as [".jpg", ".png"]; None for all.'),
    "class_indexing": Argument(
        "dict[str, int] | None", checks.class_labels, None,
        text="which classes, and the label of each; None: all, in order of their names."),
    "decrypt": Argument(
        "Any", checks.callable_, None,
        text="called with a picture's path, returns its bytes; None: they are the file's."),
    "extra_metadata": flag(False, "whether there is a column `_meta-filename`, which is given when "
                                  "it is renamed so that its name starts otherwise."),
}
"""The arguments that several constructors have."""
ROWS = "num_samples num_parallel_workers shuffle sampler num_shards shard_id cache"
PICTURES = "num_samples num_parallel_workers shuffle decode sampler num_shards shard_id cache"
LINES = "num_samples num_parallel_workers shuffle num_shards shard_id cache"
_CHOICE = frozenset(ROWS.split())
"""Arguments that choose rows: a dataset keeps them in its sampler."""


class Declared:
    """Base of datasets whose constructors are made from lists of arguments.

    Class keywords:
        takes: the names of the arguments, in order.
        own: arguments of this class, or other declarations of common ones.
        defaults: other defaults of common arguments.
        usages: the values of the argument `usage`.
    """

    _takes = ""
    _raises = """\
    TypeError, ValueError: an argument is wrong, or there is no such folder or file.
    RuntimeError: (when rows are asked for) a file is not there, or broken."""
    _arguments: Mapping[str, Argument] = ARGUMENTS

    def __init_subclass__(
        cls, takes: str = "", own: Mapping[str, Argument] | None = None,
        defaults: Mapping[str, Any] | None = None, usages: tuple[str, ...] = (), **more: Any,
    ) -> None:
        known = {**cls._arguments, **(own or {})}
        for name, default in (defaults or {}).items():
            known[name] = known[name].but(default=default)
        if usages:
            known["usage"] = one_of(*usages, default=(defaults or {}).get("usage"))
        cls._arguments = known
        cls._takes = "" if "__init__" in vars(cls) else takes or cls._takes
        if cls._takes and (takes or own or defaults or usages):
            init: Any = _constructor(cls._takes.split(), known)
            cls.__init__ = init  # type: ignore[method-assign]  # the one that the lists describe
        if cls._takes and cls.__module__.startswith("cellc.") and cls.__name__[0] != "_":
            cls.__doc__ = _described(cls)
        super().__init_subclass__(**more)

    def _prepare(self) -> None:
        """Check arguments together, and find files, when each argument is checked and kept."""

    def _choose(self, **choice: Any) -> None:
        """Set up the choice of rows."""
        raise TypeError(f"{type(self).__name__} must choose rows.")


def argument(
    check: Callable[[str, Any], Any], *, default: Any = REQUIRED, none: Any = REQUIRED,
    text: str = "",
) -> Any:
    """An argument as the value of an annotated name in the body of a class; see `Argument`."""
    return Argument("Any", check, default, none, text)


def number(low: float, high: float, *, default: Any = REQUIRED, text: str = "") -> Any:
    """An argument that is a number within bounds."""
    return argument(lambda name, value: checks.number(name, value, low, high), default=default,
                    text=text)


def integer(
    low: int, high: int = checks.INT32_MAX, *, default: Any = REQUIRED, text: str = ""
) -> Any:
    """An argument that is an int within bounds."""
    return argument(lambda name, value: checks.integer(name, value, low, high), default=default,
                    text=text)


def member(kind: type, *, default: Any = REQUIRED, text: str = "") -> Any:
    """An argument of a type."""
    return argument(lambda name, value: checks.of_type(name, value, kind), default=default,
                    text=text)


@dataclass_transform(field_specifiers=(argument, number, integer, member))
class Fields(Declared):
    """Base of classes whose constructors take the annotated arguments in their bodies, in order,
    after those of the bases."""

    def __init_subclass__(cls, **more: Any) -> None:
        own = {name: value.but(kind=cls.__annotations__[name])
               for name, value in list(vars(cls).items()) if isinstance(value, Argument)}
        for name in own:
            delattr(cls, name)
        before = cls._takes.split()
        names = [*before, *(name for name in own if name not in before)]
        super().__init_subclass__(takes=" ".join(names) if own else "", own=own, **more)

    _raises = "    TypeError, ValueError: an argument is of another type, or out of range."

    def _choose(self, **choice: Any) -> None:
        """There are no rows to choose."""


def _constructor(takes: list[str], known: Mapping[str, Argument]) -> Callable[..., None]:
    """The `__init__` that checks and keeps the arguments of these names."""
    place = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter("self", place), *(
        inspect.Parameter(n, place, default=known[n].default, annotation=known[n].kind)
        for n in takes)], return_annotation="None")

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        given = {name: known[name].checked(name, bound.arguments[name]) for name in takes}
        if "num_shards" in given:
            checks.shards(given["num_shards"], given["shard_id"])
        choice = {name: given.pop(name) for name in takes if name in _CHOICE}
        for name, value in given.items():
            setattr(self, name, value)
        self._prepare()
        self._choose(**choice)

    made: Any = __init__
    made.__signature__ = signature
    return __init__


# --- docstrings -----------------------------------------------------------------------------------


def _described(cls: type[Declared]) -> str:
    """The docstring of a class: its own text, its columns, its arguments, errors and source."""
    text, *reference = inspect.cleandoc(cls.__dict__.get("__doc__") or "").split("Reference: ")
    text, _, errors = text.partition("\nRaises:\n")
    about, _, entries = text.partition("\nArgs:\n")
    own = {name: said for names, said in re.findall(
        r"^    (\w+(?:, \w+)*): (.*(?:\n     .*)*)", entries, re.MULTILINE)
        for name in names.split(", ")}
    shown = [f"{', '.join(names)}: {said}" for said, names in groupby(
        cls._takes.split(), lambda name: own.get(name) or cls._arguments[name].text)]
    columns = getattr(cls, "_columns", {})
    kinds = ", ".join(f"{name} ({_kind(kind)})" for name, kind in columns.items())
    place = cls.__module__.rpartition(".")[0].replace("cellc", "mindspore", 1)
    source = "; ".join([f"`{place}.{cls.__name__}`", *(r.strip(". ") for r in reference)])
    return "\n\n".join([
        about.rstrip(), *([_wrapped(f"Columns: {kinds}.", "")] if kinds else []),
        "\n".join(["Args:", *(_wrapped(each, "    ") for each in shown)]),
        f"Raises:\n{errors.rstrip() or cls._raises}", f"Source: {source}."])


def _wrapped(text: str, indent: str) -> str:
    return textwrap.fill(" ".join(text.split()), 96, initial_indent=indent,
                         subsequent_indent=indent + "    " * bool(indent))


def _kind(given: Any) -> str:
    return "string" if given is None else given if isinstance(given, str) else np.dtype(given).name
