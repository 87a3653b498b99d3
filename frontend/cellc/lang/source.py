"""The syntax tree of a function, with exact positions.

Text comes from `linecache`, which knows files, notebook cells, the interactive prompt of newer
Pythons and whatever was registered with `register_source`; else from `recovered`. It is used only
if it compiles to the function's own code (`proved`). A `def` is parsed alone (its lines follow from
the positions in its code object); a lambda is looked up in the tree of its file.
"""

from __future__ import annotations

import ast
import linecache
import os
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from cellc_compiler.ir.graph import Span
from cellc_runtime.records import dataclass, field

from ..core.lru import LRU
from .analysis import Facts, Liveness, analyse, liveness
from .errors import CompileRuntimeError
from .proved import proved_lines, reloaded_definition, remember
from .recovered import recovered_lines

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(slots=True, eq=False)
class FunctionSource:
    """A function's tree and what is known of it before it is interpreted."""

    file: str  # name for messages and spans
    lines: list[str]  # the text of the file (not only of the function)
    node: FunctionNode  # the definition
    facts: Facts  # local, captured, global names
    spans: dict[ast.AST, Span] = field(default_factory=dict)
    _live: Liveness | None = None

    @property
    def live(self) -> Liveness:
        """Live variables around each statement, computed on first use."""
        if self._live is None:
            self._live = liveness(self.node, self.facts)
        return self._live

    def span(self, node: ast.AST) -> Span:
        """The position of a node."""
        found = self.spans.get(node)
        if found is None:
            found = self.spans[node] = Span(
                file=self.file,
                line=getattr(node, "lineno", 0),
                column=getattr(node, "col_offset", 0),
                end_line=getattr(node, "end_lineno", None),
                end_column=getattr(node, "end_col_offset", None),
            )
        return found

    def text(self, line: int) -> str:
        """A source line without its newline."""
        return self.lines[line - 1].rstrip("\n") if 0 < line <= len(self.lines) else ""

    def segment(self, node: ast.AST) -> str:
        """The text of a node, cut to one short line."""
        return ast.unparse(node).split("\n")[0][:60]

    def nested(self, node: FunctionNode) -> FunctionSource:
        """The source of a function defined inside this one."""
        return FunctionSource(self.file, self.lines, node, analyse(node))


def register_source(filename: str, text: str) -> None:
    """Make the text of an `exec`'d string known: compile it with this file name.

    Example: `register_source("<made>", text); exec(compile(text, "<made>", "exec"))`.
    """
    linecache.cache[filename] = (len(text), None, remember(filename, text), filename)


def has_source(fn: FunctionType) -> bool:
    """Whether the text of a function can be found."""
    linecache.lazycache(fn.__code__.co_filename, fn.__globals__)
    return bool(linecache.getlines(fn.__code__.co_filename))


def function_source(fn: FunctionType) -> FunctionSource:
    """The source of a Python function.

    Raises:
        CompileRuntimeError: there is no source (CE001), or it is not that of this code (CE002).
    """
    code = fn.__code__
    key = code, code.co_filename  # code objects compare equal across files
    return _sources.get(key) or _sources.setdefault(key, _load(code, fn.__globals__))


_sources: LRU[tuple[CodeType, str], FunctionSource] = LRU(4096)


def source_lines(code: CodeType, names: dict[str, Any]) -> list[str]:
    """The lines of the text that a code was compiled from.

    Args:
        code: of the function.
        names: its globals.

    Raises:
        CompileRuntimeError: as `function_source`.
    """
    file, name = code.co_filename, code.co_qualname
    lines, changed = proved_lines(code, names)
    lines = lines or recovered_lines(code, names)
    if lines:
        return lines
    if changed and file != "<string>":  # `python -c` and `exec` share this name
        raise CompileRuntimeError(
            "CE002",
            f"the source of {name}() changed after it was imported: {file} now compiles to "
            "other code than the function has",
            hint="reload the module (importlib.reload) and create its Cells again, or restart "
                 "Python; in a notebook, run the cell again",
        )
    raise CompileRuntimeError(
        "CE001", f"the source of {name}() is not available (it was defined in {file})",
        hint=_HINTS.get(file) or _HINTS["file" if os.path.isabs(file) else ""],
    )


_PROMPT = ("the prompt keeps no text here: use IPython, Python 3.13, a prompt with line history "
           "(readline), or a file")
_HINTS = {
    "<stdin>": _PROMPT,
    "<console>": "put @jit on the function where it is typed (its text is kept then), or use a "
        "file",
    "file": "the file was deleted or moved, cannot be read, or was installed without its text: "
        "put it back",
    "": "define it in a file or a notebook cell; before exec(text), call "
        "cellc.lang.register_source(name, text) and compile(text, name, 'exec'), or give the "
        "text to it as the global __source__",
}


def _load(code: CodeType, names: dict[str, Any]) -> FunctionSource:
    try:
        lines = source_lines(code, names)
    except CompileRuntimeError:
        reloaded = reloaded_definition(code, names)
        if reloaded is None:
            raise
        return FunctionSource(code.co_filename, *reloaded, analyse(reloaded[1]))
    node = _lambda(code, lines) if code.co_name == "<lambda>" else _definition(code, lines)
    return FunctionSource(code.co_filename, lines, node, analyse(node))


def _last_line(code: CodeType) -> int:
    last = max((end or 0 for _, end, _, _ in code.co_positions()), default=0)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            last = max(last, _last_line(const))
    return max(last, code.co_firstlineno)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _block(code: CodeType, lines: list[str]) -> tuple[str, int]:
    """The text of a definition, and how many lines stand before it."""
    first, end = code.co_firstlineno - 1, min(_last_line(code), len(lines))
    indent = _indent(lines[first])
    while end < len(lines):  # what has no code: comments, dead statements, closing brackets
        line = lines[end].strip()
        if line and not line.startswith("#") and _indent(lines[end]) <= indent \
                and line[0] not in ")]}":
            break
        end += 1
    text = "".join(lines[first:end])
    return (f"if 1:\n{text}", first - 1) if indent else (text, first)


def _definition(code: CodeType, lines: list[str]) -> FunctionNode:
    text, offset = _block(code, lines)
    try:
        tree = ast.parse("\n" * offset + text)
    except SyntaxError:
        tree = _whole("".join(lines))
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            top = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if top == code.co_firstlineno:
                return node
    raise _unusual(code, "it is not a function definition")


def _unusual(code: CodeType, why: str) -> CompileRuntimeError:
    return CompileRuntimeError(
        "CE001", f"the source of {code.co_qualname}() is not available: {why} "
                 f"({code.co_filename}:{code.co_firstlineno})",
        hint="define it with `def` on lines of its own",
    )


@lru_cache(maxsize=64)
def _whole(text: str) -> ast.Module:
    return ast.parse(text)


def _lambda(code: CodeType, lines: list[str]) -> ast.Lambda:
    """The lambda whose body holds every position of the code; the smallest such one."""
    marks = [(line, column) for line, _, column, _ in code.co_positions()
             if line is not None and column is not None and (line, column) != (line, 0)]
    found: list[ast.Lambda] = []
    for node in ast.walk(_whole("".join(lines))):
        if not isinstance(node, ast.Lambda) or node.lineno != code.co_firstlineno:
            continue
        body = node.body
        start = body.lineno, body.col_offset
        end = body.end_lineno or 0, body.end_col_offset or 0
        if all(start <= m < end for m in marks) and _fits(node, code):
            found.append(node)
    if not found:
        raise _unusual(code, "no lambda stands where it was defined")
    if not marks and len({ast.dump(n) for n in found}) > 1:
        raise _unusual(code, "Python keeps no columns here (-X no_debug_ranges) that tell the "
                             "lambdas of one line apart")
    return found[-1]  # the tree is walked outermost first, so the last fit is the innermost


def _fits(node: FunctionNode, code: CodeType) -> bool:
    a = node.args
    names = [x.arg for x in [*a.posonlyargs, *a.args, *a.kwonlyargs]]
    count = code.co_argcount + code.co_kwonlyargcount
    return [n for n in names if not n.startswith("__")] == [
        n for n, written in zip(code.co_varnames[:count], names, strict=False)
        if not written.startswith("__")  # the code holds such a name with its class's prefix
    ] and len(names) == count
