"""Arguments that are declared have rules, and `help` shows them."""

from __future__ import annotations

import ast
import builtins
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import cellc
from cellc import nn
from cellc.core import declared

ROOT = Path(cellc.__file__).parent
ALIASES = {name for name, value in vars(declared).items()
           if any(isinstance(r, declared.Rule) for r in getattr(value, "__metadata__", ()))}
WORD = re.compile(r"[A-Za-z_]\w*")


def _annotations(tree: ast.Module) -> Iterator[tuple[bool, str]]:
    """The annotations of arguments and fields, and whether `checks_arguments` reads them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            checks = any(isinstance(d, ast.Name) and d.id == "checks_arguments"
                         for d in node.decorator_list)
            for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                if a.annotation is not None:
                    yield checks, ast.unparse(a.annotation)
        elif isinstance(node, ast.ClassDef):
            yield from ((False, ast.unparse(s.annotation)) for s in node.body
                        if isinstance(s, ast.AnnAssign))


def _unknown(tree: ast.Module, known: set[str]) -> list[str]:
    """Names that stand for rules and that the module has not: they would silently have none."""
    return [word for checks, text in _annotations(tree)
            for word in WORD.findall(re.sub(r"\[.*\]|'.*?'", "", text))
            if word not in known and (checks or word in ALIASES)]


def test_names_of_rules_are_those_of_the_module() -> None:
    wrong = {}
    for file in sorted(ROOT.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if "declared import" in text and file.name != "declared.py":
            parts = file.relative_to(ROOT.parent).with_suffix("").parts
            name = ".".join(parts).removesuffix(".__init__")
            known = {*vars(importlib.import_module(name)), *vars(builtins)}
            wrong[name] = _unknown(ast.parse(text), known)
    assert len(wrong) > 30
    assert {name: found for name, found in wrong.items() if found} == {}


def test_a_name_that_a_module_lacks_is_found() -> None:
    tree = ast.parse("def f(x: Positive, y: Any = 1): ...\n@checks_arguments\ndef g(z: Cell): ...")
    assert _unknown(tree, {"Any"}) == ["Positive", "Cell"]


def test_help_shows_the_rules() -> None:
    text = nn.Conv2d.__doc__ or ""
    assert "in_channels, out_channels, group: a positive int." in text.partition(
        "Arguments must be:")[2]
    assert "Arguments must be:" not in (nn.Flatten.__doc__ or "Arguments must be:")
