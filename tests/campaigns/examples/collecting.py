"""Documentation examples of a package, read from its source without an import of it."""

from __future__ import annotations

import ast
import doctest
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PLATFORMS = re.compile(r"Supported Platforms:\s*\n\s*(.*)")
DOCUMENTS = ("_tensor_docs",)
"""Private modules with texts of public names: calls of `attach_docstr(NAME, TEXT)`."""
_Documented = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Example:
    """A program, the output that its text shows, and whether the text names the CPU."""

    program: str
    want: str
    on_cpu: bool


def place_of(name: str) -> str:
    """The part of the package that a name belongs to, such as "mindspore.nn"."""
    return "mindspore.Tensor" if ".Tensor." in name else ".".join(name.split(".")[:2])


def example_of(doc: str) -> Example | None:
    """The example of a docstring; None if there is none, or a malformed one."""
    before, heading, text = doc.partition("Examples:")
    try:
        statements = doctest.DocTestParser().get_examples(text) if heading else []
    except ValueError:
        return None
    platforms = PLATFORMS.search(before)
    return Example(
        "".join(map(_quiet, statements)), "".join(s.want for s in statements),
        platforms is None or "CPU" in platforms[1],
    ) if statements else None


def _quiet(statement: doctest.Example) -> str:
    """A statement; the value of an expression whose output the text leaves out is not shown."""
    try:
        body = ast.parse(statement.source).body
    except SyntaxError:
        body = []
    silent = not statement.want and body and isinstance(body[0], ast.Expr)
    return f"_ = {statement.source}" if silent else statement.source


def docstrings(tree: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    """The docstrings of the public classes, methods and functions of a module, by dotted name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, _Documented) and not node.name.startswith("_"):
            yield f"{name}.{node.name}", ast.get_docstring(node) or ""
            if isinstance(node, ast.ClassDef):
                yield from docstrings(node, f"{name}.{node.name}")
        elif isinstance(node, ast.If | ast.Try):
            yield from docstrings(node, name)
        match node:
            case ast.Expr(ast.Call(ast.Name("attach_docstr"), [ast.Constant(str(of)),
                                                               ast.Constant(str(doc))])):
                yield f"mindspore.Tensor.{of}", doc


def collect(package: Path) -> dict[str, Example]:
    """The examples of a package by dotted name; one that several names share, once."""
    found: dict[Example, str] = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if any(p.startswith("_") and p not in DOCUMENTS for p in parts):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name, doc in docstrings(tree, ".".join(parts)):
            if (example := example_of(doc)) is not None:
                found.setdefault(example, name)
    return {name: example for example, name in found.items()}
