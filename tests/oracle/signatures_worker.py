"""Prints, as JSON, how MindSpore's public callables are called: per name a list of forms.

A form is a list of (parameter, default as text or null). It comes from the signature, or for
functions with several forms from the lines of the docstring that show them.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import sys
from typing import Any

CLASSES = ("Tensor", "Parameter", "nn.Cell", "nn.Optimizer", "ops.Primitive", "train.Model",
           "train.Callback", "dataset.Dataset")
"""The classes whose methods are looked at, too."""
Form = list[tuple[str, str | None]]


def shown(name: str, doc: str) -> list[Form]:
    """The forms that a docstring shows: `name(a, b=1) -> Tensor` in its first line, or marked."""
    head = rf"^\s*(?:\.\. (?:method|function):: )(?:[\w.]*\.)?{re.escape(name)}\((.*)\)"
    texts = re.findall(head, doc, re.M) or re.findall(rf"\A{re.escape(name)}\((.*)\)\s*(?:->.*)?$",
                                                      doc.strip(), re.M)
    forms = []
    for text in texts:
        try:
            parsed = ast.parse(f"def f({text}): pass").body[0]
        except SyntaxError:
            continue
        assert isinstance(parsed, ast.FunctionDef)
        forms.append(_form(parsed.args))
    return forms


def _form(given: ast.arguments) -> Form:
    places = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(places) - len(given.defaults)) + given.defaults
    pairs = [*zip(places, defaults, strict=True), *zip(given.kwonlyargs, given.kw_defaults,
                                                       strict=True)]
    return [(a.arg, d if d is None else ast.unparse(d)) for a, d in pairs if _named(a.arg)]


def _named(name: str) -> bool:
    """Whether a parameter has a name of its own, which those of C++ lack."""
    return name != "self" and re.fullmatch(r"arg\d", name) is None


def forms_of(name: str, value: Any) -> list[Form]:
    """The forms of one callable; none if nothing says them."""
    found = shown(name, inspect.getdoc(value) or "")
    if found:
        return found
    try:
        given = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return []
    if any(p.kind is p.VAR_POSITIONAL for p in given) and not inspect.isclass(value):
        return []
    return [[(p.name, None if p.default is p.empty else repr(p.default)) for p in given
             if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and _named(p.name)]]


def collect(places: list[str]) -> dict[str, list[Form]]:
    """The forms by name, of everything that can be called at some places."""
    primitive = importlib.import_module("mindspore.ops").Primitive
    found: dict[str, list[Form]] = {}
    for place in places:
        module = importlib.import_module("mindspore" + ("." + place if place else ""))
        for name in getattr(module, "__all__", None) or dir(module):
            value = getattr(module, name, None)
            if name[0] != "_" and callable(value) and not isinstance(value, primitive):
                found[f"{place}.{name}".lstrip(".")] = forms_of(name, value)
    for path in CLASSES:
        place, _, name = path.rpartition(".")
        owner = getattr(importlib.import_module(f"mindspore.{place}".rstrip(".")), name)
        for method in dir(owner):
            if method[0] != "_" and callable(getattr(owner, method)):
                found[f"{path}.{method}"] = forms_of(method, getattr(owner, method))
    return {name: forms for name, forms in found.items() if forms}


if __name__ == "__main__":
    print(json.dumps(collect(json.load(sys.stdin))))
