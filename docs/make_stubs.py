"""Write the stubs of what is made at run time, or with `--check` say whether they are current.

    python docs/make_stubs.py            # writes frontend/cellc/stubs, and stubs of packages
    python docs/make_stubs.py --check    # exit status 1 and a line of explanation if it is stale

Functions made from op definitions or tables, Primitive classes, Tensor's methods and constructors
of datasets have no `def` of their own that an editor or a type checker could read. Each gets one
here, with the parameters that it has at run time and the annotations of the function behind it.
Modules import the stubs under TYPE_CHECKING only. Packages that offer names of other modules
(`facade`) have a stub beside them. Everything else of the public API is plain Python.
"""

from __future__ import annotations

import ast
import builtins
import collections
import collections.abc
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from importlib.util import resolve_name
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import Any

import cellc
from cellc import dataset, ops
from cellc.common.tensor import Tensor
from cellc.mint.functions import FUNCTIONS as MINT
from cellc.mint.nn._functional import FUNCTIONS as MINT_FUNCTIONAL
from cellc.numpy import arrays, creation, linear, reductions
from cellc.numpy.elementwise import FUNCTIONS as ELEMENTWISE
from cellc.ops.functional.generated import FUNCTIONS as MADE
from cellc.ops.functional.sparse_elementwise import FUNCTIONS as SPARSE
from cellc.ops.methods import tensor_methods
from cellc.ops.primitive import SEEDS, Primitive
from cellc.ops.primitives import instances, names_of_part, other_devices
from cellc_compiler.ir.op import REQUIRED

READY = {**instances.PRIMITIVES, **other_devices.FUNCTIONS}
PRIMITIVES = {n: c for part in range(2) for n, c in names_of_part(part).items() if n not in READY}
FOLDER = Path(cellc.__file__).parent / "stubs"
_POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD
_NAMED = inspect.Parameter.KEYWORD_ONLY
_EMPTY = inspect.Parameter.empty
Function = Callable[..., Any]


# --- what functions take and give -----------------------------------------------------------------


@dataclass(slots=True)
class Page:
    """One stub: its definitions, and what their annotations need."""

    imports: dict[str, str] = field(default_factory=dict)
    taken: frozenset[str] = frozenset()
    """Names of the scope that the annotations stand in; a builtin among them is written out."""

    def annotation(self, text: Any, home: Mapping[str, Any]) -> str:
        """The text of an annotation, its names imported here."""
        home = getattr(text, "home", home)
        if not isinstance(text, str):
            text = "None" if text is None or text is type(None) else text.__name__
        for name in sorted(set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", text)) - {"None"}):
            if name not in home and hasattr(builtins, name):
                if name in self.taken:
                    self.imports["builtins"] = "import builtins"
                    text = _renamed(text, name, f"builtins.{name}")
            elif name in self.taken:
                self.imports[f"_{name}"] = f"{_import_of(name, home)} as _{name}"
                text = _renamed(text, name, f"_{name}")
            else:
                self.imports[name] = _import_of(name, home)
        return str(text)


def _renamed(text: str, name: str, new: str) -> str:
    return re.sub(rf"(?<![\w.]){name}\b", new, text)


def _import_of(name: str, home: Mapping[str, Any]) -> str:
    """The statement that imports what a module calls `name`."""
    value = home[name]
    if inspect.ismodule(value):
        return f"import {value.__name__}" + f" as {name}" * (name != value.__name__)
    own = getattr(value, "__qualname__", getattr(value, "__name__", None)) == name
    module = value.__module__ if own else _home_of_alias(name, home["__name__"])
    if module.startswith("cellc."):
        module = ".." + module.removeprefix("cellc.")
    return f"from {module} import {name}"


def _home_of_alias(name: str, module: str) -> str:
    """The module that defines what another one may have imported."""
    file = sys.modules[module].__file__ or ""
    for node in _tree(file).body:
        if isinstance(node, ast.ImportFrom) and name in [a.name for a in node.names]:
            package = module.rpartition(".")[0]
            return resolve_name("." * node.level + (node.module or ""), package)
    return module


def result(fn: Function) -> tuple[str, Mapping[str, Any]]:
    """The annotation of what a function gives, and where its names are known.

    That of a lambda is that of the call which it makes.
    """
    fn = _plain(fn)
    if fn is bool:
        return "bool", {}
    if _made(fn):
        return "Tensor", _TENSOR
    home = _home(fn)
    stated = getattr(fn, "__annotations__", {}).get("return", "Any")
    if stated == "Any" and hasattr(fn, "__code__"):
        known = {**home, **inspect.getclosurevars(fn).nonlocals}
        called = [_of_call(node, known) for node in _lambdas(fn)]
        found = [("Any", _ANY) if f is None else result(f) for f in called]
        if len({text for text, _ in found}) == 1:
            return found[0]
    return (stated, home) if stated != "Any" else ("Any", _ANY)


def _plain(fn: Any) -> Function:
    """The function that was written; what `native_body` gives is a partial call of it."""
    found: Function = inspect.unwrap(fn.func if isinstance(fn, partial) else fn)
    return found


_ANY = {"Any": Any}
_TENSOR = {"Tensor": Tensor}


def _made(fn: Function) -> bool:
    """Whether a function was made from an op's definition: ops of these have one result."""
    return fn.__module__ == "cellc.ops.functional.generated"


def _home(fn: Function) -> Mapping[str, Any]:
    """Where the annotations of a function are known."""
    return getattr(_plain(fn), "__globals__", _ANY)


@cache
def _tree(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text(encoding="utf-8"))


def _lambdas(fn: Function) -> list[ast.expr]:
    """The bodies of the lambdas that a function can be: of its line and parameters."""
    code = fn.__code__
    names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    return [
        node.body for node in ast.walk(_tree(code.co_filename))
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno
        and [a.arg for a in (*node.args.args, *node.args.kwonlyargs)] == names
    ]


def _of_call(node: ast.expr, known: Mapping[str, Any]) -> Function | None:
    """The function that an expression is a call of; of a choice, that of both if they are one."""
    if isinstance(node, ast.IfExp):
        node = node.body
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        node = node.value
    if not isinstance(node, ast.Call):
        return None
    target = node.func
    if isinstance(target, ast.Name):
        found: Any = known.get(target.id, getattr(builtins, target.id, None))
    elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
        # A name that nothing else has is a parameter: the tensor.
        found = getattr(known.get(target.value.id, Tensor), target.attr, None)
    else:
        return None
    return found if callable(found) else None


# --- text -----------------------------------------------------------------------------------------


def _default(value: Any) -> str:
    simple = value is None or type(value) in (bool, int, float, str)
    if isinstance(value, tuple):
        simple = all(isinstance(v, (bool, int, float, str)) for v in value)
    return repr(value) if simple and not (value != value or value in _INFINITE) else "..."


_INFINITE = (float("inf"), -float("inf"))


def _shown(page: Page, p: inspect.Parameter, home: Mapping[str, Any]) -> str:
    star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    stated = "Any" if p.annotation is _EMPTY else p.annotation
    kind = page.annotation(stated, _ANY if stated == "Any" else home)
    return f"{star}{p.name}: {kind}" + (f" = {_default(p.default)}" if p.default is not _EMPTY
                                        else "")


def definition(
    page: Page, name: str, parameters: Iterable[inspect.Parameter], given: str,
    home: Mapping[str, Any], own: str = "", indent: str = "",
) -> str:
    """One `def`, on one line.

    Args:
        given: the annotation of the result.
        home: names that the parameters' annotations use.
        own: the first parameter of a method.
    """
    shown = [own] if own else []
    bare = False
    for p in parameters:
        if p.kind is _NAMED and not bare:
            shown.append("*")
        bare = bare or p.kind in (_NAMED, inspect.Parameter.VAR_POSITIONAL)
        shown.append(_shown(page, p, home))
    return f"{indent}def {name}({', '.join(shown)}) -> {given}: ..."


def _parameters(fn: Function) -> list[inspect.Parameter]:
    """Parameters; the single operand of an op is a Tensor, an attribute has its default's type."""
    found = list(inspect.signature(fn).parameters.values())
    if not _made(fn):
        plain = inspect.unwrap(fn)
        written = getattr(plain, "__code__", None)
        known = _passed(plain) if written and written.co_name == "<lambda>" else {}
        return [p.replace(annotation=known[p.name]) if p.name in known and p.annotation is _EMPTY
                and p.kind in (_POSITIONAL, _NAMED) else p for p in found]
    alone = sum(p.default is _EMPTY for p in found) == 1
    return [p.replace(annotation=_of_default(p.default) if p.default is not _EMPTY
                      else "Tensor" if alone else "Any") for p in found]


class _Passed(str):
    """An annotation of another function, and where its names are known."""

    home: Mapping[str, Any]


def _passed(fn: Function) -> dict[str, str]:
    """The annotations of a lambda's parameters: those of the functions that it passes them to."""
    known = {**_home(fn), **inspect.getclosurevars(fn).nonlocals}
    own = inspect.signature(fn).parameters
    found: dict[str, str] = {}
    for body in _lambdas(fn):
        for node in (n for n in ast.walk(body) if isinstance(n, ast.Call)):
            called = _of_call(node, known)
            try:
                names = list(inspect.signature(called).parameters.values()) if called else []
            except (TypeError, ValueError):  # a builtin
                continue
            by_name = {p.name: p for p in names}
            plain = takewhile(lambda a: not isinstance(a, ast.Starred), node.args)
            given = [*zip(names, plain, strict=False),
                     *((by_name[k.arg], k.value) for k in node.keywords if k.arg in by_name)]
            for parameter, value in given:
                if isinstance(value, ast.Name) and isinstance(parameter.annotation, str) and \
                        parameter.kind is not parameter.VAR_POSITIONAL:
                    stated = parameter.annotation
                    none = value.id in own and own[value.id].default is None and not re.search(
                        r"\b(None|Any)\b", stated)
                    text = _Passed(stated + " | None" * none)
                    text.home = _home(called) if called else _ANY
                    found.setdefault(value.id, text)
    return found


def _of_default(value: Any) -> str:
    return type(value).__name__ if type(value) in (bool, int, float, str) else "Any"


def _function(page: Page, name: str, fn: Function) -> str:
    given = page.annotation(*result(fn))
    return definition(page, name, _parameters(fn), given, _home(fn))


def _written(page: Page, what: str, body: list[str]) -> str:
    """A whole file."""
    names: dict[str, list[str]] = {}
    for line in sorted(set(page.imports.values())):
        home, _, name = line.partition(" import ")
        names.setdefault(home, []).extend([name] * bool(name))
    head = [f"{home} import {', '.join(of)}" if of else home for home, of in sorted(names.items())]
    made = "Made by `docs/make_stubs.py`; do not edit it by hand."
    return "\n".join([f'"""{what} {made}"""', *head, *body, ""])


def _aliased(lines: Iterable[str]) -> list[str]:
    """Lines of a stub, where definitions that differ in their names only stand once: the others
    are assigned to them. Decorated ones stay, and operators, which a class has of its own too."""
    found = list(lines)
    names: dict[str, list[str]] = {}
    for above, line in zip(["", *found], found, strict=False):
        form, name = _apart(line)
        if name and not above.lstrip().startswith("@"):
            names.setdefault(form, []).append(name)
    out = []
    for above, line in zip(["", *found], found, strict=False):
        form, name = _apart(line)
        alike = names.get(form, [])
        if len(alike) < _ALIKE or name not in alike or above.lstrip().startswith("@"):
            out.append(line)
        elif name == alike[0]:
            indent = line[: len(line) - len(line.lstrip())]
            out += [line, indent + " = ".join([*alike[1:], name])]
    return out


_ALIKE = 3
"""Definitions that are put together, at least."""


def _apart(line: str) -> tuple[str, str]:
    """A definition, or the annotation of a value, without its name; and the name."""
    match = re.fullmatch(r"(\s*(?:def )?)(\w+)([(:].*[^,(])", line)
    if match is None or match[2].startswith("__") or line.lstrip().startswith("class "):
        return line, ""
    return match[1] + match[3], match[2]


def functions(what: str, table: Mapping[str, Function], alike: bool = False) -> str:
    """The stub of a table of functions; those that have a `def` are imported from its module.

    Args:
        alike: equal definitions stand once. (mypy does not infer the types of the others where
            modules that import each other use them.)
    """
    page = Page(taken=frozenset(table))
    body = _functions(page, table)
    return _written(page, what, _aliased(body) if alike else body)


def _functions(page: Page, table: Mapping[str, Function]) -> list[str]:
    """The functions of a table: imports, and definitions of those that have no `def`."""
    body = []
    for name in sorted(table):
        home = _module_of(name, table)
        if home is None:
            body.append(_function(page, name, table[name]))
        else:
            page.imports[f"{name}()"] = f"from {home} import {name} as {name}"
    return body


def _module_of(name: str, table: Mapping[str, Function]) -> str | None:
    """The module in which a type checker finds a function of a table by its name, apart from the
    stub of this table; None if there is none."""
    plain: Any = inspect.unwrap(table[name])
    if not inspect.isfunction(plain) or plain.__name__ != name:
        return None
    if _made(plain) and table is not MADE and name in MADE:
        return ".functions"
    defined = {n.name for n in _tree(inspect.getfile(plain)).body if isinstance(n, ast.FunctionDef)}
    return ".." + plain.__module__.removeprefix("cellc.") if name in defined else None


# --- primitives -----------------------------------------------------------------------------------


def primitives() -> str:
    """The stub of the Primitive classes; methods that several have stand once, in a base."""
    page = Page(taken=frozenset(PRIMITIVES))
    plain = {n: c for n, c in PRIMITIVES.items() if c.__module__ != "cellc.ops.primitives"}
    for name, c in plain.items():
        home = c.__module__.removeprefix("cellc.")
        page.imports[name] = f"from ..{home} import {name} as {name}"
    bodies = {name: _primitive(page, PRIMITIVES[name])
              for name in sorted(PRIMITIVES.keys() - plain)}
    uses = collections.Counter(text for texts in bodies.values() for text in texts)
    shared: dict[str, str] = {}
    for name, texts in bodies.items():  # called after the first class that has the method
        for text in texts:
            if uses[text] > 1:
                shared.setdefault(text, f"_{name}{'Init' if '__init__' in text else 'Call'}")
    body = [f"class {base}(Primitive):\n{text}" for text, base in shared.items()]
    for name, texts in bodies.items():
        bases = ", ".join(shared[text] for text in texts if text in shared) or "Primitive"
        own = [text for text in texts if text not in shared]
        body += [f"class {name}({bases}):" + " ..." * (not own), *own]
    body += _aliased(
        f"{name}: Primitive" for name in sorted(READY) if isinstance(READY[name], Primitive))
    body += _aliased(_functions(page, {
        n: f for n, f in READY.items() if not isinstance(f, Primitive)}))
    return _written(page, "The Primitive classes of `cellc.ops`, and those that are ready made.",
                    body)


def _primitive(page: Page, cls: type[Primitive]) -> list[str]:
    """The methods of a Primitive class."""
    fn, fixed = cls.function, cls.parameters
    own = {p.name: p for p in _parameters(fn)}
    init = [
        inspect.Parameter(
            n, _POSITIONAL, default=_EMPTY if default is REQUIRED else default,
            annotation=own[n].annotation if n in own and own[n].annotation is not _EMPTY
            and n not in SEEDS else _of_default(default))
        for n, default in fixed.items()
    ]
    drawn = {"seed"} if set(SEEDS) & set(fixed) else set()
    left = [p.replace(name="input") if p.name == "self" else p for p in own.values()
            if p.name not in fixed and p.name not in drawn]
    given = page.annotation(*result(fn))
    home = _home(fn)
    lines = [definition(page, "__init__", init, "None", home, "self", "    ")] if init else []
    return [*lines, definition(page, "__call__", left, given, home, "self", "    ")]


# --- datasets -------------------------------------------------------------------------------------


def datasets() -> str:
    """The stub of the datasets whose constructors are made from lists of arguments."""
    named = {name: getattr(dataset, name) for name in dataset.__all__}
    made = {name: value for name, value in named.items() if getattr(value, "_takes", "")}
    page = Page(taken=frozenset(made))
    body = []
    for name in sorted(made):
        module = made[name].__module__.rpartition(".")[2]
        page.imports[module] = f"from ..dataset import {module}"
        body += [f"class {name}({module}.{name}):", definition(
            page, "__init__", inspect.signature(made[name]).parameters.values(), "None",
            vars(collections.abc) | vars(sys.modules[made[name].__module__]), "self", "    ")]
    return _written(page, "Datasets whose constructors are made from lists of arguments.", body)


# --- names that load when they are asked for ------------------------------------------------------


def later() -> str:
    """The stub of the names that `cellc.ops` imports with their first use."""
    lines = []
    for home, names in vars(ops)["_LATER"].items():
        module = resolve_name(home, "cellc.ops").replace("cellc.", "..", 1)
        shown = [f"{n} as {n}" for n in names.split() if n not in SPARSE]
        lines += [f"from {module} import {', '.join(shown)}"] * bool(shown)
    return _written(Page(), "The names of `cellc.ops` that load with their first use.",
                    sorted(lines))


def offered() -> str:
    """The stub of `cellc.ops`: its functions by module, and the stubs of what else it has."""
    lines = [f"from .functional.{home} import {', '.join(f'{n} as {n}' for n in names.split())}"
             for home, names in sorted(ops.functional.EARLY.items()) if names]
    stubs = [f"from ..stubs.{name} import *  # noqa: F403" for name in (
        "functions", "later", "primitives", "sparse")]
    return "\n".join(['"""Made by `docs/make_stubs.py`; do not edit it by hand."""', *stubs,
                      "from . import functional as functional", *lines, ""])


# --- methods of Tensor ----------------------------------------------------------------------------


def methods() -> str:
    """The stub of the operators, methods and properties that are set on Tensor."""
    table = {name: m for name, m in tensor_methods().items()
             if inspect.getattr_static(Tensor, name, None) is not None and name not in _OWN}
    page = Page(taken=frozenset(table))
    page.imports["Tensor"] = "from ..common.tensor import Tensor"
    body = ["class TensorMethods:"]
    for name in sorted(table):
        body += _method(page, name, table[name])
    return _written(page, "What `cellc.ops.methods` sets on Tensor.", _aliased(body))


_OWN = frozenset({"__array_priority__"}) | {
    n.name for c in _tree(inspect.getfile(Tensor)).body if isinstance(c, ast.ClassDef)
    and c.name == "Tensor" for n in c.body if isinstance(n, ast.FunctionDef)}


def _method(page: Page, name: str, method: Any) -> list[str]:
    if isinstance(method, property):
        assert method.fget is not None
        given = "Tensor" if name in ("T", "H", "mT", "mH") else page.annotation(
            *result(method.fget))
        return ["    @property", definition(page, name, (), given, {}, "self", "    ")]
    if isinstance(method, staticmethod):
        given = page.annotation(*result(method.__func__))
        return ["    @staticmethod", definition(page, name, _parameters(method.__func__), given,
                                                _home(method.__func__), "", "    ")]
    if re.fullmatch(r"__r?\w+__", name) and name not in ("__getitem__", "__setitem__"):
        return [_operator(page, name, method)]
    fn, names = _behind(method)
    given = "Tensor" if fn is not method and method.__name__ != fn.__name__ else page.annotation(
        *result(fn))
    forms = [_parameters(fn)[1:]]
    if names:
        forms.append([p.replace(name=names.get(p.name, p.name)) for p in forms[0]])
    lines = [definition(page, name, form, given, _home(fn), "self", "    ") for form in forms]
    if not names:
        return lines
    page.imports["overload"] = "from typing import overload"
    return [line for text in lines for line in ("    @overload", text)]


def _operator(page: Page, name: str, method: Function) -> str:
    """An operator; comparisons replace those of object, which give a bool."""
    found = list(inspect.signature(method).parameters.values())[1:]
    if name in ("__eq__", "__ne__"):
        return f"    def {name}(self, other: object) -> Tensor: ...  # type: ignore[override]"
    return definition(page, name, found, "Tensor", _home(method), "self", "    ")


def _behind(method: Function) -> tuple[Function, dict[str, str]]:
    """The function that a made method calls, and other names of its parameters."""
    method = inspect.unwrap(method)
    if not inspect.isfunction(method):
        return method, {}
    held = inspect.getclosurevars(method).nonlocals
    if "fn_" in held:
        inner, more = _behind(held["fn_"])
        return inner, more | {own: other for other, own in held.get("names", {}).items()}
    if "home" in held:
        return getattr(import_module(held["home"]), held["name"]), {}
    return method, {}


# --- packages -------------------------------------------------------------------------------------


def facades() -> dict[Path, str]:
    """The stubs beside modules that offer names of others (`facade`)."""
    root = FOLDER.parents[1]
    out = {}
    for file in sorted((root / "cellc").rglob("*.py")):
        if re.search(r"^_?facade\(__name__", file.read_text(encoding="utf-8"), re.MULTILINE):
            parts = file.relative_to(root).with_suffix("").parts
            module = import_module(".".join(p for p in parts if p != "__init__"))
            out[file.with_suffix(".pyi")] = _facade(module, dots=file.name != "__init__.py")
    return out


def _facade(module: ModuleType, dots: int) -> str:
    """The stub of one: a line for each module behind it, and its own constants.

    Args:
        dots: that relative names have too many, as seen from a module that is no package.
    """
    lines = ['"""Made by `docs/make_stubs.py`; do not edit it by hand."""']
    for home, names in sorted(vars(module)["_HOMES"].items()):
        pairs = [name.partition("=") for name in names.split() if name != "|"]
        shown = [own if own in module.__all__ and not theirs else f"{theirs or own} as {own}"
                 for own, _, theirs in pairs]
        lines += [f"from {home[dots:]} import {', '.join(shown)}"] * bool(shown)
    constants = {n: v for n, v in vars(module).items() if isinstance(v, str) and (
        n in module.__all__ or n == "__version__")}
    return "\n".join([*lines, *(f"{n}: str" for n in constants), f"__all__ = {module.__all__}", ""])


STUBS: dict[str, Callable[[], str]] = {
    "functions": lambda: functions("The functions of `cellc.ops` made from op definitions.", MADE),
    "later": later,
    "primitives": primitives,
    "datasets": datasets,
    "methods": methods,
    "mint": lambda: functions("The functions of `cellc.mint`.", MINT),
    "mint_functional": lambda: functions(
        "The functions of `cellc.mint.nn.functional`.", MINT_FUNCTIONAL),
    "sparse": lambda: functions("Elementwise functions of sparse tensors.", SPARSE, alike=True),
    "numpy": lambda: functions(
        "The functions of tables in `cellc.numpy`.", {
            **ELEMENTWISE, **arrays.ROWS, **creation.ROWS, **linear.ROWS, **reductions.ROWS},
        alike=True),
    "__init__": lambda: '"""Stubs of what is made at run time; see `docs/make_stubs.py`."""\n',
}
"""What is in each stub, by its name."""


def main() -> int:
    """Write the stubs, or check them."""
    made = {**{FOLDER / f"{name}.pyi": text() for name, text in STUBS.items()}, **facades(),
            FOLDER.parent / "ops" / "__init__.pyi": offered()}
    if "--check" not in sys.argv[1:]:
        FOLDER.mkdir(exist_ok=True)
        for file, text in made.items():
            file.write_text(text, encoding="utf-8")
        return 0
    there = set(FOLDER.parent.rglob("*.pyi"))
    stale = [f"{f.parent.name}/{f.name}" for f in sorted(there | set(made))
             if f not in there or f.read_text(encoding="utf-8") != made.get(f)]
    if stale:
        print(f"stubs are not current ({', '.join(stale)}): run "
              "`python docs/make_stubs.py`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
