"""The pages of the API reference, made from the live package: nothing of it is stored.

An entry has the signature (types that only a stub knows come from there), the docstring, what the
rules of its arguments and its op add, and an example that is run while the page is made.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html import escape
from pathlib import Path
from types import ModuleType
from typing import Any

import cellc

DOCS = Path(__file__).parents[1]
ROOT = Path(cellc.__file__).parent
sys.path.insert(0, str(DOCS))

from examples import example  # noqa: E402
from make_api import COMPARED  # noqa: E402  (a script beside this folder)
from make_ops import dtype_names, gradient  # noqa: E402
from rows import IMPORTS  # noqa: E402

CLASSES = ("Tensor", "Parameter", "nn.Cell")
OWN = (
    ("testing", "Checks for your tests"), ("verification", "Graph, PyNative and float64 compared"),
    ("dataset.text", "Transforms of text"), ("nn.dynamic_lr", "Lists of learning rates"),
    ("nn.learning_rate_schedule", "Learning rates as Cells"),
    ("experimental.optim.lr_scheduler", "Schedules for these optimizers"),
    ("mint.linalg", "Linear algebra with PyTorch's names"),
    ("mint.special", "Special functions with PyTorch's names"), ("boost", "Faster training"),
    ("rewrite", "Networks changed by a program"), ("utils", "Small tools"),
)
"""Places of cellc that the comparison with MindSpore does not list apart."""
PLACES = (*[(p, t) for p, t in COMPARED if p not in CLASSES], *OWN)
RUNTIME = "cellc_runtime"
LARGE = 70
"""A place with more names has a page for each of its subjects."""
TITLES = {
    "arith": "Arithmetic", "generated": "Elementary functions", "linalg": "Linear algebra",
    "window": "Convolutions and pooling", "basic": "Basic layers", "conv": "Convolutions",
    "elimination": "Matrix decompositions by elimination", "grid": "Diagonals and triangles",
    "rnn": "Recurrent layers", "rnn_cells": "Steps of recurrent layers", "ext": "Further layers",
    "other_devices": "Names of other devices", "wrap": "Training steps", "norm": "Normalization",
    "special": "Special functions", "heads": "Attention", "draws": "Random numbers",
    "dynamic_lr": "Lists of learning rates", "absent": "Names without a function here",
    "classes": "Margins and classes", "math": "Functions of statistics",
}
FOLDED = 6
"""A subject with fewer names goes to the page of the others."""


@dataclass(slots=True)
class Page:
    """One page: names of a place that belong to one subject."""

    path: str
    title: str
    intro: str
    names: list[tuple[str, Any]] = field(default_factory=list)
    heading: str = ""


# --- which names stand where ----------------------------------------------------------------------


def pages() -> Iterator[tuple[str, list[Page]]]:
    """The places, each with its pages."""
    for place in CLASSES:
        yield f"cellc.{place}", [_members(place)]
    runtime = importlib.import_module(RUNTIME)
    called = [(n, getattr(runtime, n)) for n in sorted(runtime.__all__) if n[0] != "_"]
    yield RUNTIME, [Page(f"reference/{RUNTIME}.md", RUNTIME,
                         "Runs artifacts where there is no compiler.", called)]
    for place, title in sorted(PLACES, key=lambda p: p[0]):
        module = importlib.import_module(".".join(filter(None, ("cellc", place))))
        found = [(n, getattr(module, n)) for n in sorted(module.__all__) if not n.startswith("_")]
        names = [(n, v) for n, v in found if callable(v) and not isinstance(v, ModuleType)]
        shown = f"cellc.{place}" if place else "cellc"
        path = f"reference/{place.replace('.', '-') or 'cellc'}"
        if len(names) <= LARGE or not place:
            yield shown, [Page(f"{path}.md", shown, f"{title}.", names)]
        else:
            yield shown, list(_by_subject(names, path, shown, title))


def _members(place: str) -> Page:
    """The methods of a class."""
    cls = getattr(importlib.import_module("cellc.nn" if "." in place else "cellc"),
                  place.rpartition(".")[2])
    members = [(n, getattr(cls, n)) for n in sorted(dir(cls))
               if not n.startswith("_") and callable(inspect.getattr_static(cls, n))
               and (place != "Parameter" or not hasattr(cellc.Tensor, n))]
    return Page(f"reference/class-{place.replace('.', '-')}.md", f"cellc.{place}",
                f"Methods of `{place}`.", members)


def _by_subject(
    names: list[tuple[str, Any]], path: str, shown: str, title: str
) -> Iterator[Page]:
    subjects: dict[str, list[tuple[str, Any]]] = {}
    for name, value in names:
        subjects.setdefault(_subject(name, value), []).append((name, value))
    others = [pair for s, pairs in subjects.items() if len(pairs) < FOLDED for pair in pairs]
    kept = {s: pairs for s, pairs in subjects.items() if len(pairs) >= FOLDED}
    if others:
        kept["other_names"] = sorted(others)
    for subject in sorted(kept, key=_title):
        yield Page(f"{path}/{subject}.md", _title(subject), f"{title} (`{shown}`).",
                   kept[subject], f"{shown}: {_title(subject)}")


def _title(subject: str) -> str:
    if subject.startswith("primitives-"):
        first, last = subject.removeprefix("primitives-").upper().split("-")
        return f"Primitives {first}" + f" to {last}" * (first != last)
    return TITLES.get(subject, subject.replace("_", " ").strip().capitalize())


def _subject(name: str, value: Any) -> str:
    """The module that a function was written in, or the letter of a Primitive class."""
    if (getattr(value, "__module__", "") or "").startswith("cellc.ops.primitives") and (
            not inspect.isfunction(value)):
        first = name.lstrip("_")[0].lower()
        return "primitives-" + next(f"{r[0]}-{r[-1]}" for r in ("abcd", "efghijkl", "mnopq", "r",
                                                                "s", "tuvwxyz") if first in r)
    code = getattr(inspect.unwrap(value) if callable(value) else value, "__code__", None)
    file = Path(code.co_filename) if code is not None else None
    if file is not None and ROOT in file.parents:
        return file.parent.name if file.stem == "__init__" else file.stem.strip("_")
    return str(getattr(value, "__module__", "") or "further").rpartition(".")[2]


# --- signatures -----------------------------------------------------------------------------------


@cache
def _stubs() -> dict[str, dict[str, ast.AST]]:
    """The definitions of each stub, by file and name."""
    return {path.stem: {n.name: n for n in ast.parse(path.read_text()).body
                        if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
            for path in (ROOT / "stubs").glob("*.pyi")}


STUB_OF = {"ops": "functions", "mint": "mint", "mint.nn.functional": "mint_functional",
           "numpy": "numpy", "dataset": "datasets", "Tensor": "methods"}


def _of_class(known: dict[str, ast.AST], node: ast.AST, method: str) -> ast.FunctionDef | None:
    """A method of a class of a stub, or of a base in the same file."""
    if not isinstance(node, ast.ClassDef):
        return None
    for n in node.body:
        if isinstance(n, ast.FunctionDef) and n.name == method:
            return n
    bases = (known.get(b.id) for b in node.bases if isinstance(b, ast.Name))
    return next((m for b in bases if b is not None and (m := _of_class(known, b, method))), None)


def _typed(place: str, name: str, value: Any, method: str = "__init__") -> dict[str, str]:
    """The annotations that a stub has for the parameters of a name ("return": the result)."""
    if isinstance(value, type) and value.__module__.startswith("cellc.ops.primitives"):
        known = _stubs()["primitives"]
    else:
        known = _stubs().get(STUB_OF.get(place, ""), {})
    node = known.get(name)
    if isinstance(node, ast.ClassDef):
        node = _of_class(known, node, method)
    if not isinstance(node, ast.FunctionDef):
        return {}
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    found = {a.arg: ast.unparse(a.annotation) for a in arguments if a.annotation is not None}
    if node.returns is not None:
        found["return"] = ast.unparse(node.returns)
    return {n: t for n, t in found.items() if t != "Any"}


def _stated(annotation: Any, home: dict[str, Any]) -> str:
    """The text of an annotation; for a name that stands for a rule (`Positive`), its plain type."""
    if annotation in (inspect.Parameter.empty, "Any", Any):
        return ""
    text = annotation if isinstance(annotation, str) else getattr(
        annotation, "__name__", str(annotation))
    text = re.sub(r"Annotated\[(\w+), .*\]$", r"\1", text)

    def plain(found: re.Match[str]) -> str:
        value = home.get(found.group())
        kind = getattr(value, "__origin__", None) if hasattr(value, "__metadata__") else None
        if kind is None:
            return found.group()
        return "Any" if kind is Any else getattr(kind, "__name__", str(kind))

    text = re.sub(r"\b[A-Z]\w+\b", plain, text)
    return "" if text in ("Any", "Any | None") else text


def _home(value: Any) -> dict[str, Any]:
    """The names that the annotations of a function or constructor use."""
    function = inspect.unwrap(value.__init__ if isinstance(value, type) else value)
    return getattr(function, "__globals__", {}) | (
        vars(sys.modules.get(value.__module__, cellc)) if isinstance(value, type) else {})


def _default(value: Any) -> str:
    text = repr(value)
    text = re.sub(r"<(?:function|class) '?([\w.]+)'?.*>", r"\1", text)
    return re.sub(r"mindspore\.(\w+)", r"ms.\1", text if len(text) < 60 else "...")


@cache
def _methods_of_tensors() -> dict[str, list[ast.FunctionDef]]:
    """The forms of each method of Tensor that the stubs have, by name."""
    cls = _stubs()["methods"]["TensorMethods"]
    assert isinstance(cls, ast.ClassDef)
    found: dict[str, list[ast.FunctionDef]] = {}
    for node in cls.body:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
    for node in cls.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            found.update((t.id, found[node.value.id]) for t in node.targets
                         if isinstance(t, ast.Name) and node.value.id in found)
    return found


def _forms(place: str, name: str, known: inspect.Signature) -> str:
    """The calls that the stubs state for a method of Tensor whose own signature is open; or ""."""
    kinds = [p.kind for p in known.parameters.values() if p.name != "self"]
    if place != "Tensor" or kinds != [inspect.Parameter.VAR_POSITIONAL,
                                      inspect.Parameter.VAR_KEYWORD]:
        return ""
    lines = []
    for node in _methods_of_tensors().get(name, ()):
        call = ast.unparse(node.args).replace("builtins.", "").removeprefix("self")
        back = f" -> {ast.unparse(node.returns)}".replace("builtins.", "") if node.returns else ""
        lines.append(f"<b>{escape(name)}</b>({escape(call.removeprefix(', '))})"
                     f"<i>{escape(back.removesuffix(' -> Any'))}</i>")
    text = "\n".join(lines)
    return f"<pre class='cellc-sig'>{text}</pre>" if lines else ""


def signature(place: str, name: str, value: Any) -> str:
    """The call of a name, as HTML."""
    try:
        known = inspect.signature(value)
    except (TypeError, ValueError):
        return f"<pre class='cellc-sig'><b>{escape(name)}</b></pre>"
    if forms := _forms(place, name, known):
        return forms
    typed, home = _typed(place, name, value), _home(value)
    parts, star = [], False
    bare = isinstance(value, type) and issubclass(value, cellc.nn.Cell) and (
        value.__init__ is cellc.nn.Cell.__init__ and value is not cellc.nn.Cell)
    method = place in CLASSES and inspect.isfunction(value)
    for p in [*known.parameters.values()][method:]:
        if p.name == "self" or bare:
            continue
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        star = star or p.kind is p.VAR_POSITIONAL
        text = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "") + escape(p.name)
        kind = _stated(p.annotation, home) or typed.get(p.name, "")
        text += f"<i>: {escape(kind)}</i>" if kind else ""
        if p.default is not p.empty:
            text += f"{' = ' if kind else '='}<u>{escape(_default(p.default))}</u>"
        parts.append(text)
    result = _stated(known.return_annotation, home) or typed.get("return", "")
    line = ", ".join(parts)
    plain = re.sub(r"<.*?>", "", line)
    if len(plain) + len(name) > 76:
        line = "\n    " + ",\n    ".join(parts) + ",\n"
    back = f" -> <i>{escape(result)}</i>" if result and not isinstance(value, type) else ""
    return f"<pre class='cellc-sig'><b>{escape(name)}</b>({line}){back}</pre>"


# --- texts ----------------------------------------------------------------------------------------

_SECTION = re.compile(
    r"^(Args|Arguments must be|Returns|Raises|Attributes|Inputs|Outputs|Yields|Examples?):\s*$")
NAMES = {"Args": "Arguments", "Arguments must be": "An argument must be"}


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))


def sections(doc: str) -> list[tuple[str, list[str]]]:
    """The parts of a docstring by title; the first has none."""
    out: list[tuple[str, list[str]]] = [("", [])]
    for line in inspect.cleandoc(doc).splitlines():
        found = _SECTION.match(line)
        if found:
            out.append((found.group(1), []))
        elif out[-1][0] and line and not line.startswith(" "):
            out.append(("", [line]))
        else:
            out[-1][1].append(line)
    return out


def _prose(lines: list[str]) -> str:
    out = []
    for part in re.split(r"\n\s*\n", "\n".join(lines).strip()):
        if part.lstrip().startswith(">>>") or (part.startswith("    ")):
            out.append(f"<pre><code>{escape(textwrap.dedent(part))}</code></pre>")
        elif part:
            part = re.sub(r"\s*Source: `([^`]+)`( \(.*?\))?\.", r"", part)
            if part:
                out.append(f"<p>{_inline(part)}</p>")
    return "".join(out)


def _rows(lines: list[str]) -> str:
    """A section of `name: text` as a list of definitions."""
    text = textwrap.dedent("\n".join(lines)).strip()
    out = []
    for row in re.split(r"\n(?=\S)", text):
        name, colon, rest = row.partition(":")
        if colon and "\n" not in name:
            rest = _inline(" ".join(rest.split()))
            out.append(f"<dt><code>{escape(name)}</code></dt><dd>{rest}</dd>")
        elif row:
            out.append(f"<dd>{_inline(' '.join(row.split()))}</dd>")
    return f"<dl>{''.join(out)}</dl>"


def described(doc: str) -> str:
    """A docstring as HTML."""
    out = []
    for title, lines in sections(doc):
        if title.startswith("Example"):
            out.append(f"<pre><code>{escape(textwrap.dedent(chr(10).join(lines)))}</code></pre>")
        elif title:
            out.append(f"<p class='cellc-part'>{NAMES.get(title, title)}</p>{_rows(lines)}")
        else:
            out.append(_prose(lines))
    return "".join(out)


# --- entries --------------------------------------------------------------------------------------


@cache
def _ops() -> dict[str, Any]:
    from cellc_compiler.ir.op import all_ops

    return {name.replace("_", ""): op for op in all_ops()
            for name in {op.name, getattr(op, "function", "")} if name}


@cache
def _functions() -> dict[str, Any]:
    ops = importlib.import_module("cellc.ops")
    return {n.replace("_", "").lower(): getattr(ops, n) for n in ops.__all__
            if inspect.isfunction(getattr(ops, n))}


def text_of(place: str, name: str, value: Any) -> str:
    """The docstring of a name; that of the function behind a thin one in its place."""
    doc = inspect.cleandoc(value.__doc__ or "")
    thin = re.match(r"The primitive \w+\.$|`ops\.(\w+)` with the parameters of", doc)
    if thin is None:
        return doc
    behind = _functions().get((thin.group(1) or name).replace("_", "").lower())
    found = inspect.cleandoc(behind.__doc__ or "") if behind is not None else ""
    op = _ops().get((thin.group(1) or name).lower().replace("_", ""))
    if not found and op is not None:
        found = inspect.cleandoc(type(op).__doc__ or "")
    return found.split("\n\nArgs:")[0] or doc


def _facts(name: str, value: Any) -> str:
    """What the op behind a function says: element types, gradient."""
    op = _ops().get(name.lower().replace("_", ""))
    if op is None or (isinstance(value, type) and issubclass(value, cellc.nn.Cell)):
        return ""
    rule = {"rule": "a rule of its own", "expand": "through the ops that it is made of",
            "-": "none"}.get(gradient(op), gradient(op))
    return (f"<p class='cellc-same'>In the graph: op <code>{op.name}</code>; element types: "
            f"{escape(dtype_names(op.dtypes))}; gradient: {escape(rule)}.</p>")


def _methods(cls: type) -> str:
    own = [(n, inspect.cleandoc(inspect.getdoc(getattr(cls, n)) or "").split("\n\n")[0])
           for n, m in sorted(vars(cls).items())
           if not n.startswith("_") and n != "construct"
           and (inspect.isfunction(m) or isinstance(m, (property, classmethod, staticmethod)))]
    rows = "".join(f"<dt><code>{escape(n)}</code></dt><dd>{_inline(' '.join(d.split()))}</dd>"
                   for n, d in own)
    return f"<p class='cellc-part'>Methods</p><dl>{rows}</dl>" if own else ""


def _inherited(cls: type) -> str:
    """The section of arguments that a base has in the place of the class."""
    docs = (inspect.cleandoc(base.__doc__ or "") for base in cls.__mro__[1:]
            if base.__name__.startswith("_"))
    return next((doc[doc.index("\n\nArgs:"):] for doc in docs if "\n\nArgs:" in doc), "")


def _call(cls: type) -> str:
    """How an object of a layer is called, and what its `construct` says about shapes."""
    construct = getattr(cls, "construct", None)
    doc = inspect.cleandoc(getattr(construct, "__doc__", "") or "")
    if construct is None or construct is cellc.nn.Cell.construct or not doc:
        return ""
    try:
        known = inspect.signature(construct).parameters.values()
    except (TypeError, ValueError):
        return ""
    args = ", ".join(str(p.replace(annotation=p.empty)) for p in known if p.name != "self")
    text = "" if doc.startswith("The function of the ") else described(doc)
    return (f"<p class='cellc-part'>Call</p><pre class='cellc-sig'><b>layer</b>({escape(args)})"
            f"</pre>{text}")


def _same_as(doc: str) -> str:
    found = re.search(r"Source: `([^`]+)`( \(.*?\))?\.", doc)
    note = found.group(2) or "" if found else ""
    return f"<p class='cellc-same'>Like <code>{found.group(1)}</code>{escape(note)}.</p>" \
        if found else ""


def entry(place: str, name: str, value: Any) -> str:
    """One name of a page."""
    doc = text_of(place, name, value)
    call = ""
    if isinstance(value, type) and value.__module__.startswith("cellc.ops.primitives"):
        known = _stubs()["primitives"]
        method = _of_class(known, known.get(name, ast.Pass()), "__call__")
        if method is not None:
            args = ", ".join(re.sub(r"^self(, )?", "", ast.unparse(method.args)).split(", "))
            back = ast.unparse(method.returns) if method.returns else "Tensor"
            call = (f"<pre class='cellc-sig'><b>{escape(name)}(...)</b>({escape(args)}) -> "
                    f"<i>{escape(back)}</i></pre>")
    shown = example(place, name, value)
    run = f"<p class='cellc-part'>Example</p><pre><code>{escape(shown)}</code></pre>" \
        if shown else ""
    methods = _methods(value) if isinstance(value, type) and not call else ""
    after = ""
    if isinstance(value, type) and issubclass(value, cellc.nn.Cell):
        doc += _inherited(value) if "Args:" not in doc else ""
        after = _call(value) if value is not cellc.nn.Cell else ""
    body = (signature(place, name, value) + call + described(doc) + after + _facts(name, value)
            + methods + run + _same_as(doc))
    # A blank line would end the block of HTML.
    body = re.sub(r"\n\s*\n", "\n&#8203;\n", body)
    return f"## {name} {{ #{name} }}\n\n<div class='cellc-entry'>{body}</div>\n"


_BEGIN = ("\n<details><summary>Imports of the examples</summary><pre><code>"
          + "\n".join(IMPORTS) + "</code></pre></details>\n")
_OF_MINDSPORE = ("nn", "ops", "mint", "numpy", "train", "dataset", "amp")


def text(page: Page, place: str) -> str:
    """A page, as Markdown."""
    key = place.removeprefix("cellc").lstrip(".")
    head = "---\nsearch: {boost: 1.5}\n---\n\n"
    head += f"# {page.heading or page.title}\n\n{page.intro}\n"
    if key.partition(".")[0] in _OF_MINDSPORE:
        head += f"\nA name is MindSpore's `mindspore.{key}.NAME` unless its entry says otherwise.\n"
    return "\n".join([head + _BEGIN, *(entry(key, name, value) for name, value in page.names)])
