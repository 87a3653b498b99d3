"""Every public name says what it does."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest

import cellc

MODULES = [
    "cellc", "cellc.nn", "cellc.ops", "cellc.amp", "cellc.train", "cellc.common.initializer",
    "cellc.mint", "cellc.mint.nn.functional", "cellc.numpy", "cellc.hal", "cellc.runtime",
    "cellc.context",
]
LEAST = 8
"""Characters of the shortest description."""


def public(module: Any) -> list[str]:
    """The public names of a module: those it lists, else those it defines."""
    listed = getattr(module, "__all__", None)
    return sorted(listed if listed is not None else
                  (n for n in vars(module) if not n.startswith("_")))


def lacking(name: str) -> list[str]:
    """What is wrong with the documentation of a module's functions, classes and methods."""
    module = importlib.import_module(name)
    found = []
    for n in public(module):
        value = getattr(module, n)
        if inspect.ismodule(value) or not callable(value) or n in _PLAIN:
            continue
        if not _says_something(value):
            found.append(f"{name}.{n}")
        if inspect.isclass(value):
            found += [f"{name}.{n}.{m}" for m in _methods(value)]
    return found


_PLAIN = frozenset({"Any", "TYPE_CHECKING", "annotations"})


def _says_something(value: Any) -> bool:
    inherits = inspect.isclass(value) and "__doc__" not in value.__dict__
    own = None if inherits else getattr(value, "__doc__", None)
    return isinstance(own, str) and len(own.strip()) >= LEAST


def _methods(cls: type) -> list[str]:
    """Public methods and properties of a class without a description, its own or inherited."""
    found = []
    for n, value in vars(cls).items():
        if n.startswith("_") or n in ("construct", "bprop", "function"):
            continue
        inner = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        if not (inspect.isfunction(inner) or isinstance(inner, property)):
            continue
        if not inspect.getdoc(getattr(cls, n)):
            found.append(n)
    return found


@pytest.mark.parametrize("name", MODULES)
def test_documented(name: str) -> None:
    assert lacking(name) == []


@pytest.mark.parametrize("cls", [cellc.nn.Cell, cellc.Tensor, cellc.Parameter, cellc.Generator,
                                 cellc.ParameterTuple])
def test_all_methods_of_the_model(cls: type) -> None:
    missing = [n for base in cls.__mro__ if base.__module__.startswith("cellc")
               for n in _methods(base)]
    assert missing == []


def test_the_check_can_fail() -> None:
    class Bare:
        def method(self) -> None:
            pass

    assert not _says_something(Bare)
    assert _methods(Bare) == ["method"]
