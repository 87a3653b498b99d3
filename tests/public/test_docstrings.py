"""Every public name says what it does, what it raises, and where it comes from."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import cellc

from .places import PLACES, listed, module_of

ROOT = Path(cellc.__file__).parent
OF_ARGUMENTS = ("TypeError", "ValueError")
"""Raised for a wrong argument everywhere (`docs/errors.md`); docstrings list the other errors."""
OWN_WORDS = 3
"""Words that the first sentence has at least."""
SHORTEST = 80
"""Characters that the docstring of a layer or op has at least."""


def _of_cellc(value: Any) -> bool:
    return (getattr(value, "__module__", None) or "").startswith("cellc")


def _objects(place: str) -> Iterator[tuple[str, Any]]:
    """Functions and classes of cellc's at a place."""
    module = module_of(place)
    for name in listed(module):
        value = getattr(module, name)
        if callable(value) and _of_cellc(value) and not isinstance(value, ModuleType):
            yield name, value


def _source_said(value: Any) -> bool:
    """Whether its text, that of a class it is made from, or that of its module names a source, or
    says that it is ours."""
    texts = [value.__doc__ or ""]
    if isinstance(value, type):
        texts += [base.__doc__ or "" for base in value.__mro__[1:] if _of_cellc(base)]
    texts.append(import_module(value.__module__).__doc__ or "")
    return any("Source" in t or "mindspore" in t.lower() or "Only in cellc" in t for t in texts)


@pytest.mark.parametrize("place", PLACES)
def test_names_are_described(place: str) -> None:
    silent = [n for n, v in _objects(place) if len((v.__doc__ or "").split()) < OWN_WORDS]
    assert silent == []


@pytest.mark.parametrize("place", ["nn", "ops"])
def test_layers_and_ops_say_what_they_compute(place: str) -> None:
    """A formula or a sentence, with shapes or types: shorter texts left one of them out."""
    module = module_of(place)
    texts = {n: inspect.getdoc(getattr(module, n)) or "" for n in listed(module)
             if callable(getattr(module, n))}
    assert [n for n, text in texts.items() if len(text) < SHORTEST] == []


@pytest.mark.parametrize("place", PLACES)
def test_sources_are_named(place: str) -> None:
    assert [n for n, v in _objects(place) if not _source_said(v)] == []


@pytest.mark.parametrize("place", PLACES)
def test_methods_are_described(place: str) -> None:
    silent = []
    for name, value in _objects(place):
        if isinstance(value, type):
            silent += [f"{name}.{n}" for n, m in vars(value).items()
                       if not n.startswith("_") and (inspect.isfunction(m) or
                                                     isinstance(m, (property, classmethod)))
                       and not inspect.getdoc(getattr(value, n))]
    assert silent == []


# --- what functions raise ------------------------------------------------------------------------


def _modules() -> Iterator[tuple[str, set[str], ast.Module]]:
    """The modules that define public names, with these names."""
    public: dict[str, set[str]] = {}
    for place in PLACES:
        for _, value in _objects(place):
            made = value.__mro__ if isinstance(value, type) else [inspect.unwrap(value)]
            for each in filter(_of_cellc, made):
                public.setdefault(each.__module__, set()).add(getattr(each, "__qualname__", ""))
    for file in sorted(ROOT.rglob("*.py")):
        parts = file.relative_to(ROOT.parent).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        if name in public:
            yield name, public[name], ast.parse(file.read_text(encoding="utf-8"))


def _functions(
    body: list[ast.stmt], owner: ast.ClassDef | None = None
) -> Iterator[tuple[ast.ClassDef | None, ast.FunctionDef]]:
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _functions(node.body, node)
        elif isinstance(node, ast.FunctionDef):
            setter = any(isinstance(d, ast.Attribute) and d.attr in ("setter", "deleter")
                         for d in node.decorator_list)
            if not setter and (node.name == "__init__" or not node.name.startswith("_")):
                yield owner, node


def _raises(node: ast.FunctionDef) -> bool:
    """Whether it raises an error that is not about an argument."""
    return any(isinstance(n, ast.Raise) and isinstance(n.exc, ast.Call)
               and isinstance(n.exc.func, ast.Name) and n.exc.func.id[0].isupper()
               and n.exc.func.id not in OF_ARGUMENTS
               for n in ast.walk(node))


def _says_so(owner: ast.ClassDef | None, node: ast.FunctionDef) -> bool:
    text = ast.get_docstring(node) or ""
    of_class = (ast.get_docstring(owner) or "") if owner is not None else ""
    if node.name in ("__init__", "construct", "update"):
        text += of_class
    return "Raises:" in text or "Error" in text


def test_errors_are_described() -> None:
    silent = [
        f"{name} {owner.name + '.' if owner else ''}{node.name}"
        for name, public, tree in _modules() for owner, node in _functions(tree.body)
        if (owner or node).name in public and _raises(node) and not _says_so(owner, node)
    ]
    assert silent == []


def test_these_checks_can_fail() -> None:
    tree = ast.parse('def f(x):\n    """Something."""\n    raise OSError(x)\n')
    ((owner, node),) = _functions(tree.body)
    assert _raises(node) and not _says_so(owner, node)

    def plain(x: int) -> int:
        return x

    assert not plain.__doc__ and not _source_said(plain)


def test_every_module_says_what_it_is_for() -> None:
    packages = ("cellc", "cellc_compiler", "cellc_runtime")
    for package in packages:
        root = Path(importlib.import_module(package).__file__ or "").parent
        silent = [str(f.relative_to(root)) for f in root.rglob("*.py")
                  if not ast.get_docstring(ast.parse(f.read_text(encoding="utf-8")))]
        assert silent == []
