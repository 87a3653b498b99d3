"""Constructors of datasets and transforms, made from the declarations of their arguments.

A transform declares its arguments in its class, as in `length: Positive = argument(text="...")`. A
dataset lists the names of what it takes, `class Caltech256Dataset(ListedDataset, takes=PICTURES)`;
`ARGUMENTS` or the body of the class declares them. Signature, docstring and checks are made from
that; the rules are those of `core.declared`. Type checkers read the signatures of datasets in
`stubs/datasets.pyi`.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any, ClassVar, Literal, NamedTuple, dataclass_transform

import numpy as np

from ..core import declared
from ..core.declared import BOOL, FUNCTION, NON_NEGATIVE, POSITIVE, Rule, instance, integer
from . import rules

REQUIRED = inspect.Parameter.empty


class Argument(NamedTuple):
    """The declaration of a constructor's argument."""

    kind: str = "Any"  # its annotation
    rule: Rule | None = None  # what it must be; None: anything
    default: Any = REQUIRED  # its value where none is given
    # what None stands for; without it None is allowed only if it is the default
    none: Any = REQUIRED
    text: str = ""  # its description

    def but(self, **changes: Any) -> Argument:
        """The same argument with some attributes changed."""
        return self._replace(**changes)


def argument(
    kind: str = "Any", rule: Rule | None = None, default: Any = REQUIRED, none: Any = REQUIRED,
    text: str = "",
) -> Any:
    """An argument as the value of an annotated name in the body of a class; see `Argument`."""
    return Argument(kind, rule, default, none, text)


def flag(default: bool | None, text: str = "", none: Any = REQUIRED) -> Any:
    """An argument that is a bool."""
    return Argument("bool" if default is not None else "bool | None", BOOL, default, none, text)


def whole(default: int, low: int, text: str) -> Any:
    """An argument that is an int of `low` or more."""
    return Argument("int", integer(low), default, text=text)


def one_of(*words: str, default: Any = None, none: str = "", text: str = "") -> Any:
    """An argument that is one of some words; None means "all", or the first of them."""
    shown = [f'"{word}"' for word in words]
    none = none or ("all" if "all" in words else words[0])
    text = text or f"{', '.join(shown[:-1])} or {shown[-1]}; None: \"{none}\""
    return Argument("str" if default else "str | None", declared.one_of(*words, kind=str), default,
                    REQUIRED if default is REQUIRED else none, f"{text}.")


def must_be(*words: str) -> Any:
    """An argument that is one of some words, the first by default."""
    return Argument("str", declared.one_of(*words, kind=str), words[0],
                    text=f"{', '.join(map(repr, words))}.")


_SHARD = "take the part of one of several processes."
ARGUMENTS: dict[str, Argument] = {
    "dataset_dir": Argument("str", rules.FOLDER, text="the folder of the files."),
    "usage": one_of("train", "test", "all"),
    "dataset_files": Argument("Any", rules.FILES, text="a path or pattern, or a list of them."),
    "annotation_file": Argument("str", rules.FILE, text="the file that describes them."),
    "num_samples": Argument("int | None", NON_NEGATIVE, None,
                            text="the most rows; None for all."),
    "num_parallel_workers": Argument(
        "int | None", POSITIVE, None,
        text="how many threads read rows; None: as many as the configuration says."),
    "shuffle": Argument("Any", instance(bool, str, wanted="a bool or a Shuffle"), None,
                        text="whether rows come in random order; None: yes."),
    "sampler": Argument("Any", default=None, text="which rows, in which order."),
    "num_shards": Argument("int | None", POSITIVE, None, text=_SHARD),
    "shard_id": Argument("int | None", NON_NEGATIVE, None, text=_SHARD),
    "cache": Argument("Any", default=None, text="must be None."),
    "decode": flag(False, "whether pictures are uint8[height, width, 3]; else they are the bytes "
                          "of the files.", none=False),
    "extensions": Argument("Any", rules.EXTENSIONS, None,
                           text='which files, as [".jpg", ".png"]; None for all.'),
    "class_indexing": Argument(
        "dict[str, int] | None", rules.LABELS, None,
        text="which classes, and the label of each; None: all, in order of their names."),
    "decrypt": Argument(
        "Any", FUNCTION, None,
        text="called with a picture's path, returns its bytes; None: they are the file's."),
    "extra_metadata": flag(False, "whether there is a column `_meta-filename`, which is given when "
                                  "it is renamed so that its name starts otherwise."),
}
"""The arguments that several constructors have."""


def common(name: str, **changes: Any) -> Any:
    """One of `ARGUMENTS`, with some attributes changed."""
    return ARGUMENTS[name].but(**changes)


ROWS = "num_samples num_parallel_workers shuffle sampler num_shards shard_id cache"
PICTURES = "num_samples num_parallel_workers shuffle decode sampler num_shards shard_id cache"
LINES = "num_samples num_parallel_workers shuffle num_shards shard_id cache"
_CHOICE = frozenset(ROWS.split())  # Arguments that choose rows: a dataset keeps them in its sampler


class Declared:
    """Base of datasets whose constructors are made from lists of arguments: common ones, and those
    that are declared in the body of the class.

    Class keywords:
        takes: the names of the arguments, in order.
        usages: the values of the argument `usage`.
    """

    _takes = ""
    _raises = "    RuntimeError: (when rows are asked for) a file is not there, or broken."
    _arguments: Mapping[str, Argument] = ARGUMENTS

    def __init_subclass__(
        cls, takes: str = "", usages: tuple[str, ...] = (), **more: Any
    ) -> None:
        known: dict[str, Argument] = {}
        for base in reversed(cls.__mro__):
            known |= vars(base).get("_arguments", {})
        own = {name: one for name, one in vars(cls).items() if isinstance(one, Argument)}
        for name in own:
            delattr(cls, name)
        known |= own | ({"usage": one_of(*usages)} if usages else {})
        is_plain = "__init__" in vars(cls) or (cls.__doc__ or "").startswith("Base of")
        cls._arguments = known
        cls._takes = "" if "__init__" in vars(cls) else takes or cls._takes
        if cls._takes and (takes or own or usages):
            init: Any = _constructor(cls._takes.split(), known)
            cls.__init__ = init  # type: ignore[method-assign]  # the one that the lists describe
        if declared.is_ours(cls) and cls.__name__[0] != "_" and not is_plain:
            cls.__doc__ = _described(cls)
        super().__init_subclass__(**more)

    def _prepare(self) -> None:
        """Check arguments together, and find files, when each argument is checked and kept."""

    def _choose(self, **choice: Any) -> None:
        """Set up the choice of rows."""
        raise TypeError(f"{type(self).__name__} must choose rows.")


def state(*, default: Any, init: Literal[False] = False) -> Any:
    """An attribute (a private name) that is no argument, and has a value from the start."""
    return Argument(default=default)


@dataclass_transform(field_specifiers=(argument, state))
class Fields(Declared):
    """Base of classes whose constructors take the annotated public names in their bodies, in order,
    after those of the bases. The annotations are their rules; classes are rules, too."""

    _raises = ""

    _texts: ClassVar[Mapping[str, str]] = {}
    """Descriptions of arguments that several classes declare."""

    def __init_subclass__(cls, **more: Any) -> None:
        own: list[str] = []
        for name, kind in vars(cls).get("__annotations__", {}).items():
            stated = vars(cls).get(name, REQUIRED)
            one = stated if isinstance(stated, Argument) else Argument(default=stated)
            if name[0] == "_" and one is stated:
                setattr(cls, name, one.default)
            if name[0] == "_" or str(kind).startswith("ClassVar"):
                continue
            rule, optional = declared.rule_of(kind, vars(sys.modules[cls.__module__]), True)
            own.append(name)
            setattr(cls, name, one.but(
                kind=kind, rule=rule, none=None if optional and one.none is REQUIRED else one.none,
                text=one.text or cls._texts.get(name, f"{rule}.")))
        before = (name for base in reversed(cls.__mro__)
                  for name in vars(base).get("_takes", "").split())
        takes = dict.fromkeys([*before, *own]) if own else ()
        super().__init_subclass__(takes=" ".join(takes), **more)

    def _choose(self, **choice: Any) -> None:
        """There are no rows to choose."""


def _constructor(takes: list[str], known: Mapping[str, Argument]) -> Callable[..., None]:
    """The `__init__` that keeps the arguments of these names; `names_itself` checks them."""
    place = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter("self", place), *(
        inspect.Parameter(n, place, default=known[n].default, annotation=known[n].kind)
        for n in takes)], return_annotation="None")

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        given = {name: bound.arguments[name] for name in takes}
        for name, value in given.items():
            if value is None and known[name].none is not REQUIRED:
                given[name] = known[name].none
        choice = {name: given.pop(name) for name in takes if name in _CHOICE}
        shards, shard = choice.get("num_shards"), choice.get("shard_id")
        if (shards is None) != (shard is None):
            raise ValueError("num_shards and shard_id need to be passed in together.")
        if shards is not None and shard >= shards:
            raise ValueError("shard_id should be less than num_shards.")
        for name, value in given.items():
            setattr(self, name, value)
        self._prepare()
        self._choose(**choice)

    made: Any = __init__
    made.__signature__ = signature
    declared.declare(made, (
        declared.Declared(name, rule, i, one.default is None or one.none is not REQUIRED,
                          rule.normal_default(one.default))
        for i, name in enumerate(takes, 1) if (rule := (one := known[name]).rule) is not None))
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
    place = cls.__module__.replace("cellc", "mindspore", 1)
    place = place if place.endswith("transforms") else place.rpartition(".")[0]
    source = "; ".join([f"`{place}.{cls.__name__}`", *(r.strip(". ") for r in reference)])
    raised = errors.rstrip() or (cls._raises if shown else "")
    return "\n\n".join([
        about.rstrip(), *([_wrapped(f"Columns: {kinds}.", "")] if kinds else []),
        *(["\n".join(["Args:", *(_wrapped(each, "    ") for each in shown)])] if shown else []),
        *([f"Raises:\n{raised}"] if raised else []), f"Source: {source}."])


def _wrapped(text: str, indent: str) -> str:
    return textwrap.fill(" ".join(text.split()), 96, initial_indent=indent,
                         subsequent_indent=indent + "    " * bool(indent))


def _kind(given: Any) -> str:
    return "string" if given is None else given if isinstance(given, str) else np.dtype(given).name
