"""Small faults in the source of the product, each a change of one place in one file.

The kinds are those of mutation testing (DeMillo, Lipton and Sayward, "Hints on Test Data
Selection", 1978), and some of generated code: words of LLVM's language in texts.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult, ast.Mod: ast.FloorDiv, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift}
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "reversed": "list",
          "sorted": "list"}
_WORDS = {
    "slt": "sle", "sle": "slt", "ult": "ule", "ule": "ult", "sgt": "sge", "sge": "sgt",
    "fadd": "fsub", "fsub": "fadd", "fmul": "fadd", "lshr": "ashr", "ashr": "lshr",
    "zext": "sext", "sext": "zext", "umin": "umax", "smin": "smax", "maxnum": "minnum",
    "olt": "ult", "ogt": "oge", "oeq": "one", "acquire": "monotonic", "release": "monotonic",
    "seq_cst": "monotonic", "acq_rel": "monotonic"}
_WORD = re.compile(r"\b(" + "|".join(_WORDS) + r")\b")
_NOT_RUN = ("annotation", "returns", "decorator_list")
_UNTOLD = ("__repr__", "__str__", "_repr_html_", "__dir__", "_repr_pretty_")
"""Methods that only show."""


@dataclass(frozen=True)
class Fault:
    """A change that may be made.

    Attributes:
        file: from the root of the project.
        line: where it begins.
        kind: what sort of fault.
        before, after: the text of the place.
        start, end: the place, in bytes of the file.
    """

    file: str
    line: int
    kind: str
    before: str
    after: str
    start: int
    end: int

    def plant(self, root: Path) -> None:
        """Change the file of a copy."""
        path = root / self.file
        data = path.read_bytes()
        assert data[self.start : self.end].decode() == self.before, self
        path.write_bytes(data[: self.start] + self.after.encode() + data[self.end :])

    def __str__(self) -> str:
        flat = [" ".join(t.split())[:90] for t in (self.before, self.after)]
        return f"{self.file}:{self.line}: {self.kind}: {flat[0]} -> {flat[1]}"


def faults(root: Path, file: str) -> list[Fault]:
    """Every fault that may be planted in a file, in the order of places."""
    source = (root / file).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node, kind, made in _changes(ast.parse(source)):
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        after = made if isinstance(made, str) else f"({ast.unparse(made)})"
        found.append(Fault(file, node.lineno, kind, source[start:end].decode(), after, start, end))
    return sorted(set(found), key=lambda f: (f.start, f.end, f.kind, f.after))


def _changes(tree: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str, ast.expr | str]]:
    """Places with what is put there: an expression, or the text of a statement."""
    for node in _executed(tree):
        if isinstance(node, ast.expr):
            for kind, changed in _expressions(node):
                yield node, kind, changed
        elif isinstance(node, ast.AugAssign):
            yield node, "lost update", "pass"
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield node, "dropped call", "pass"
        elif isinstance(node, ast.If | ast.While):
            yield node.test, "turned condition", ast.UnaryOp(ast.Not(), node.test)


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that do something: no annotations, messages of errors, texts or methods that show."""
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or field in _NOT_RUN:
                continue
            if isinstance(child, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom):
                continue
            if isinstance(child, ast.FunctionDef) and child.name in _UNTOLD:
                continue
            if isinstance(child, ast.keyword) and child.arg == "strict":
                continue  # of zip: it checks what is so by construction
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                continue
            yield child
            if not isinstance(child, ast.JoinedStr):  # (places within are wrong before 3.12)
                yield from _executed(child)


def _expressions(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """What an expression may become."""
    changed = copy.deepcopy(node)
    match changed:
        case ast.Compare(ops=[op, *_]) if type(op) in _COMPARED:
            changed.ops[0] = _COMPARED[type(op)]()
            yield "comparison", changed
        case ast.BinOp(op=op) if type(op) in _COMPUTED and not _is_text(changed):
            swapped = copy.deepcopy(changed)
            swapped.left, swapped.right = swapped.right, swapped.left
            if isinstance(op, ast.Sub | ast.FloorDiv | ast.Mod | ast.Div):
                yield "swapped operands", swapped
            changed.op = _COMPUTED[type(op)]()
            yield "operator", changed
        case ast.BoolOp():
            changed.op = ast.Or() if isinstance(changed.op, ast.And) else ast.And()
            yield "and, or", changed
        case ast.UnaryOp(op=ast.Not()):
            yield "dropped not", changed.operand
        case ast.Constant(value=bool() as value):
            yield "turned constant", ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield "off by one", ast.Constant(value + 1)
        case ast.Call(func=ast.Name(id=name)) if name in _NAMES:
            assert isinstance(changed.func, ast.Name)
            changed.func.id = _NAMES[name]
            yield "other function", changed
        case ast.Call(args=[ast.Name() as a, ast.Name() as b, *_]) if a.id != b.id:
            changed.args[:2] = [b, a]
            yield "swapped arguments", changed
        case ast.Constant(value=str()) | ast.JoinedStr():
            yield from _texts(changed)
        case _:
            pass


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(part, ast.JoinedStr)
               or (isinstance(part, ast.Constant) and isinstance(part.value, str))
               for part in ast.walk(node))


def _texts(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Each word of generated code in a text."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    for part in parts:
        if not (isinstance(part, ast.Constant) and isinstance(part.value, str)):
            continue
        text = part.value
        for word in _WORD.finditer(text):
            if len(text) > 400 or (text == word[0] and len(parts) > 1):
                continue
            part.value = text[: word.start()] + _WORDS[word[0]] + text[word.end() :]
            yield "generated code", copy.deepcopy(node)
            part.value = text
