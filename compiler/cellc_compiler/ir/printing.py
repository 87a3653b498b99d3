"""Graphs as text: `print_graph`, whose form `text.py` states and reads back.

It stands apart from the parser because every start prints a graph, to look for its program in the
cache, and few read one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from cellc_runtime.dtypes import DType
from cellc_runtime.lazy import base64

from .dims import is_symbolic
from .graph import NOWHERE, Graph, Literal, Node, Value
from .types import TensorType

_PLAIN = re.compile(r"[A-Za-z0-9_.$/-]+")
_SMALL = 16


def print_graph(
    graph: Graph, *, spans: bool = True, called: Mapping[Value, str] | None = None
) -> str:
    """The complete text of a graph.

    Args:
        spans: False leaves out source places (for hashing).
        called: numbers of results, for one graph at several stages; else they are in order.
    """
    return "\n".join(_graph_lines(graph, "", spans, called)) + "\n"


def _graph_lines(
    graph: Graph, pad: str, spans: bool, called: Mapping[Value, str] | None
) -> list[str]:
    names: dict[Value, str] = {}
    for v in graph.inputs:
        names[v] = _name(v.name)
    counter = 0
    lines = []
    types: dict[TensorType, str] = {}
    head = ", ".join(f"{names[v]}: {v.type} {v.kind}" for v in graph.inputs)
    lines.append(f"{pad}graph {_quote(graph.name)}({head}) {{")
    for node in graph.nodes:
        results = []
        for r in node.results:
            names[r] = f"%{counter}" if called is None else called[r]
            counter += 1
            text = types.get(r.type)
            if text is None:
                text = types[r.type] = str(r.type)
            results.append(f"{names[r]}: {text}")
        lines += _node_lines(node, ", ".join(results), names, pad + "  ", spans, called)
    lines.append(f"{pad}  return {', '.join(names[v] for v in graph.outputs)}".rstrip())
    lines += [f"{pad}  update {names[old]} = {names[new]}" for old, new in graph.updates]
    lines.append(pad + "}")
    return lines


def _node_lines(
    node: Node, results: str, names: dict[Value, str], pad: str, spans: bool,
    called: Mapping[Value, str] | None,
) -> list[str]:
    operands = ", ".join([names[v] for v in node.operands])
    attrs = ", ".join([f"{k}={print_attr(v)}" for k, v in node.attrs.items()])
    text = f"{pad}{results}{' = ' if results else ''}{node.op}({operands}) {{{attrs}}}"
    if node.scope:
        text += f" @{_quote(node.scope)}"
    if spans and node.span is not NOWHERE:
        s = node.span
        text += f" loc({_string(s.file)}:{s.line}:{s.column})"
    if not node.regions:
        return [text]
    lines = [text + " ["]
    for region in node.regions:
        lines += _graph_lines(region, pad + "  ", spans, called)
    return [*lines, pad + "]"]


def _quote(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else _string(name)


def _string(s: str) -> str:
    return '"' + s.encode("unicode_escape").decode("ascii").replace('"', '\\"') + '"'


def _name(name: str) -> str:
    # A bare number is the name of a node result, so inputs called so are quoted.
    return "%" + (name if _PLAIN.fullmatch(name) and not name.isdigit() else _string(name))


def print_attr(value: Any) -> str:
    """One attribute value as text."""
    if type(value) is int or type(value) is bool:  # (most are)
        return repr(value)
    if isinstance(value, DType):
        return f"dtype.{value.name}"
    if isinstance(value, Literal):
        return _print_literal(value)
    if isinstance(value, tuple):
        inner = ", ".join(print_attr(v) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, str):
        return _string(value)
    return f"size({value})" if is_symbolic(value) else repr(value)


def _print_literal(value: Literal) -> str:
    array = value.array
    if array.size <= _SMALL and array.dtype.kind in "biuf" and array.dtype.itemsize > 2:
        body = ", ".join(repr(x) for x in array.ravel().tolist())
        if array.dtype == np.float32:
            body = ", ".join(_short32(x) for x in array.ravel())
        if not np.isnan(array).any():
            return f"lit<{value.type}>[{body}]"
    data = base64.b64encode(array.tobytes()).decode("ascii")
    return f'lit<{value.type}>"{data}"'


def _short32(x: np.float32) -> str:
    if not np.isfinite(x):
        return repr(float(x))
    return np.format_float_scientific(x, unique=True, trim="0")
