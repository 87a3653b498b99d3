"""Where the tensors of a refused expression come from: notes for errors about shapes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from cellc_compiler.ir.dims import symbols_of
from cellc_compiler.ir.shapes import active_shapes

from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor, ir_type
from ..tracing.tracer import GraphTensor
from . import _model

if TYPE_CHECKING:
    from .frames import Frame

_MOST = 4


def operand_notes(frame: Frame) -> list[str]:
    """A note for each variable and parameter in the expression being evaluated, and for sizes."""
    while frame.site is not None and frame.caller is not None:
        frame = frame.caller  # a layer of cellc itself: what the user wrote is further out
    node = frame.node
    if not isinstance(node, ast.expr):
        return []
    notes: dict[str, str] = {}
    sizes: set[str] = set()
    for part in ast.walk(node):
        name, value = _named(part, frame)
        if isinstance(value, Tensor) and name not in notes and len(notes) < _MOST:
            notes[name] = f"{name} is {ir_type(value)}{_where(part, value, frame)}"
            sizes |= {s for d in ir_type(value).shape for s in symbols_of(d)}
    return [*notes.values(), *_size_notes(sizes)]


def _named(part: ast.AST, frame: Frame) -> tuple[str, Any]:
    if isinstance(part, ast.Name):
        return part.id, frame.table.get(part.id)
    if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
        owner = frame.table.get(part.value.id)
        if owner is not None and _model.is_cell(owner):
            return f"{part.value.id}.{part.attr}", owner._params.get(part.attr)
    return "", None


def _where(part: ast.AST, value: Tensor, frame: Frame) -> str:
    if isinstance(value, Parameter):
        return f", the parameter {value.name}"
    line = frame.lines.get(part.id, 0) if isinstance(part, ast.Name) else 0
    if line and frame.node is not None and line != getattr(frame.node, "lineno", 0):
        return f", from line {line}: {frame.source.text(line).strip()}"
    if isinstance(value, GraphTensor) and value.ir_value.kind == "input" and not line:
        return ", an argument of the call"
    return ""


def _size_notes(names: set[str]) -> list[str]:
    shapes = active_shapes()
    if shapes is None or not names:
        return []
    known = {n: shapes.symbols[n] for n in sorted(names) if n in shapes.symbols}
    return [
        f"{n} is any size: {info.origin}" if info.stand_in
        else f"{n} is {shapes.hints[n]} in this call: {info.origin}"
        for n, info in known.items()
    ]
