"""Counts of what the code should have less of, file by file: `ratchets.json` may only shrink.

`python tests/structure/ratchets.py --update` stores lower counts and refuses higher ones.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).parents[2]
STORED = Path(__file__).with_suffix(".json")
PACKAGES = {
    "cellc": ROOT / "frontend", "cellc_compiler": ROOT / "compiler",
    "cellc_runtime": ROOT / "runtime",
}
MOST_LINES, MOST_FUNCTION_LINES = 800, 60
STEP = 200
"""Lines in which the size of a package is counted, so that small changes need no new count."""

Counts = dict[str, int]


def sources(*folders: str, ending: str = ".py") -> Iterator[tuple[str, str]]:
    """Files below folders of the repository: path, text."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob(f"*{ending}")):
            yield path.relative_to(ROOT).as_posix(), path.read_text()


def product() -> Iterator[tuple[str, str]]:
    """The files of the three packages."""
    return sources("frontend", "compiler", "runtime")


def lines() -> Counts:
    """The size of each package in lines of Python and of LLVM, rounded up to whole steps."""
    packages = ("compiler", "frontend", "runtime")
    found: Counts = dict.fromkeys(packages, 0)
    for path, text in (*product(), *sources(*packages, ending=".ll")):
        found[path.partition("/")[0]] += text.count("\n")
    return {package: -(-n // STEP) * STEP for package, n in found.items()}


def long_files() -> Counts:
    """Files of more than 800 lines, by their length."""
    return {path: n for path, text in product() if (n := text.count("\n")) > MOST_LINES}


def long_functions() -> Counts:
    """Functions of more than 60 lines, docstrings apart."""
    found: Counts = {}
    for path, text in product():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = (node.end_lineno or 0) - node.lineno + 1 - _docstring_lines(node)
                if lines > MOST_FUNCTION_LINES:
                    found[f"{path}:{node.name}"] = lines
    return found


def _docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = node.body[0]
    if ast.get_docstring(node) is None:
        return 0
    return (first.end_lineno or 0) - first.lineno + 1


def bare_ignores() -> Counts:
    """Errors of the type checker that are silenced without a code or without a reason."""
    return _count(product(), lambda text: sum(
        not re.search(r"type: ignore\[[\w, -]+\]  # \w", line)
        for line in text.splitlines() if "# type: ignore" in line))


def raises_without_match() -> Counts:
    """`pytest.raises` that takes any text."""
    return _count(sources("tests"), lambda text: sum(
        not any(k.arg in ("match", "check") for k in node.keywords)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.raises"))


def op_names() -> Counts:
    """Strings that are names of ops in modules of the compiler that should not know any: all but
    the definitions of ops, tables of ONNX, the rules of back ends, and the language of users'
    kernels, whose functions have names of their own."""
    from cellc_compiler.ir.op import all_ops

    names = {op.name for op in all_ops()}
    own = re.compile(r"compiler/cellc_compiler/(ops|onnx_export|backends|hybrid)/")
    return _count(
        ((path, text) for path, text in sources("compiler") if not own.match(path)),
        lambda text: sum(node.value in names for node in ast.walk(ast.parse(text))
                         if isinstance(node, ast.Constant) and isinstance(node.value, str)))


def private_imports() -> Counts:
    """Imports of names or modules with a leading underscore (`__version__` has two: it is public)
    from another package."""
    found: Counts = {}
    for path, text in product():
        package = path.rsplit("/", 1)[0]
        count = 0
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and _source(path, node) != package:
                parts = (node.module or "").split(".")
                hidden = any(map(_is_private, parts))
                count += sum(hidden or _is_private(a.name) for a in node.names)
        if count:
            found[path] = count
    return found


def _is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def _source(path: str, node: ast.ImportFrom) -> str:
    """The folder that an import takes names from, as far as its text says."""
    if not node.level:
        return node.module or ""
    folder = path.split("/")[:-node.level]
    parts = (node.module or "").split(".")
    return "/".join([*folder, *parts[:-1]])


def private_uses() -> Counts:
    """Reads and writes of another object's private attribute: `x._name` in the three packages.

    Not counted: attributes of `self`, `cls`, `mcs` and `super()`; dunder names; `os._exit`, which
    is public (Python documents it as what a child of `os.fork` ends with); and names that the same
    file defines (a class's attribute or method, `self._name = ...`, a slot, a variable):
    what a module calls private, it may use on any of its objects.
    """
    return _count(product(), private_uses_of)


def private_uses_of(text: str) -> int:
    """`private_uses` of one file."""
    nodes = list(ast.walk(ast.parse(text)))
    own = {n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    own |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    own |= {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    mine = {n for n in nodes if isinstance(n, ast.Attribute)
            and (ast.unparse(n.value) in ("self", "cls", "mcs", "super()")
                 or ast.unparse(n) == "os._exit")}
    own |= {n.attr for n in mine if isinstance(n.ctx, ast.Store)}
    return sum(_is_private(n.attr) and n.attr not in own and n not in mine
               for n in nodes if isinstance(n, ast.Attribute))


DIALECT = re.compile(
    r"(?:\A|[.:;!?]\s+|\n\s*)(?:What|Who|Whoever|Of\s+which)\b"
    r"|\b(?:told|so\s+many|made\s+(?:anew|again)|behind)\b")


def dialect() -> Counts:
    """Turns of phrase that have a plainer form, in comments and texts of the three packages:
    sentences that begin with "What" or "Who"; "told", "so many", "made anew", "behind"."""
    return _count(product(), dialect_of)


def dialect_of(text: str) -> int:
    """`dialect` of one file: its comments, and its strings that hold a space."""
    if not DIALECT.search(re.sub("[#\"']", "\n", text)):  # (saves the time of tokens)
        return 0
    comments = "\n".join(
        token.string.lstrip("# ") for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT)
    strings = [node.value.strip() for node in ast.walk(ast.parse(text))
               if isinstance(node, ast.Constant) and isinstance(node.value, str)
               and " " in node.value]
    return sum(len(DIALECT.findall(part)) for part in (comments, *strings))


def circles() -> Counts:
    """Modules of each package that import each other in a circle, when they are imported."""
    found: Counts = {}
    for name, root in PACKAGES.items():
        graph = import_graph(name, root)
        found[name] = sum(len(c) for c in nx.strongly_connected_components(graph) if len(c) > 1)
    return {name: n for name, n in found.items() if n}


def knots() -> Counts:
    """The largest group of modules of each package that import each other in a circle, all imports
    counted: those of functions, of types alone, and of lazy modules."""
    return {name: max(map(len, nx.strongly_connected_components(import_graph(name, root, _every))))
            for name, root in PACKAGES.items()}


Imports = Callable[[ast.Module], Iterator[ast.Import | ast.ImportFrom]]


def import_graph(
    package: str, root: Path, imports: Imports = lambda tree: _at_import(tree.body)
) -> nx.DiGraph[str]:
    """Which module of a package imports which.

    Args:
        imports: the imports of a file that count; by default those that run when it is imported.
    """
    modules: dict[str, tuple[Path, bool]] = {}
    for path in sorted((root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        modules[".".join(parts[:-1] if is_package else parts)] = path, is_package
    graph: nx.DiGraph[str] = nx.DiGraph()
    for name, (path, is_package) in modules.items():
        for node in imports(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                graph.add_edges_from((name, a.name) for a in node.names if a.name in modules)
            else:
                base = _absolute(name, is_package, node)
                for a in node.names:
                    full = f"{base}.{a.name}"
                    graph.add_edge(name, full if full in modules else base)
    return graph.subgraph(modules).copy()


def _absolute(name: str, is_package: bool, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = name.split(".")
    parts = parts[:len(parts) - node.level + is_package]
    return ".".join([*parts, node.module] if node.module else parts)


def _every(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "lazy_module" \
                and isinstance(node.args[0], ast.Constant):
            yield ast.Import([ast.alias(node.args[0].value)])


def _at_import(body: Iterable[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Import statements that run when a module is imported."""
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.unparse(node.test):
            yield from _at_import([*node.body, *node.orelse])
        elif isinstance(node, ast.If):
            yield from _at_import(node.orelse)
        elif isinstance(node, ast.Try) or (
                isinstance(node, ast.With) and "lazy_imports" not in ast.unparse(node.items[0])):
            yield from _at_import(node.body)


def _count(files: Iterable[tuple[str, str]], count: Callable[[str], int]) -> Counts:
    return {path: n for path, text in files if (n := count(text))}


RATCHETS: dict[str, Callable[[], Counts]] = {
    f.__name__: f for f in (
        lines, long_files, long_functions, bare_ignores, raises_without_match, op_names,
        private_imports, private_uses, circles, knots, dialect)
}


def stored() -> dict[str, Counts]:
    """What is allowed."""
    found: dict[str, Counts] = json.loads(STORED.read_text())
    return found


def worse(name: str, now: Counts, allowed: Counts) -> list[str]:
    """Lines that say where there is more than allowed."""
    return [f"{where}: {n} ({name}), {allowed.get(where, 0)} allowed"
            for where, n in now.items() if n > allowed.get(where, 0)]


def main() -> int:
    """Show the counts, or store them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", help="store lower counts")
    parser.add_argument("--moved", action="store_true",
                        help="with --update: files have moved; only the totals may not grow")
    options = parser.parse_args()
    now = {name: f() for name, f in RATCHETS.items()}
    allowed = {**now, **(stored() if STORED.exists() else {})}
    for name, counts in now.items():
        print(f"{name}: {sum(counts.values())} (was {sum(allowed[name].values())})")
        more = worse(name, counts, allowed[name])
        grown = Counter(counts).total() > Counter(allowed[name]).total()
        if more and (grown or not options.moved):
            print("\n".join(more), file=sys.stderr)
            return 1
    if options.update:
        STORED.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
