"""The text form of graphs: `print_graph` and `parse_graph` are inverses.

    graph main(%x: float32[2,3] input, %w: float32[3,4] param) {
      %0: float32[2,4] = matmul(%x, %w) {transpose_a=False, transpose_b=False} @fc loc("n.py":7:8)
      return %0
      update %w = %1
    }

Nested graphs follow a node in square brackets. Floats print with the shortest digits that read
back to the same bits; large constants as base64 of their bytes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.lazy import base64

from .graph import NOWHERE, Graph, Literal, Node, Span, Value
from .printing import print_attr as print_attr
from .printing import print_graph as print_graph
from .size_text import parse_size
from .types import TensorType, check_size

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<value>%(?:"(?:[^"\\]|\\.)*"|[A-Za-z0-9_.$/-]+))
    | (?P<number>-?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)(?![A-Za-z0-9_.$/]))
    | (?P<word>-?[A-Za-z0-9_$/][A-Za-z0-9_.$/-]*)
    | (?P<sign>[()\[\]{}<>=,:@])
    )""",
    re.VERBOSE,
)


class ParseError(ValueError):
    """Graph text that is not well formed, with its line and column."""


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.end = len(text.rstrip())
        self.at = 0
        self.kind = ""
        self.token = ""
        self.start = 0
        self.advance()

    def advance(self) -> str:
        """The current token; move to the next."""
        last = self.token
        if self.at >= self.end:
            self.kind, self.token, self.start = "end", "", len(self.text)
            return last
        m = _TOKEN.match(self.text, self.at)
        if m is None:
            self.start = self.at
            raise self.error("unexpected character")
        self.kind = m.lastgroup or ""
        self.token = m.group(self.kind)
        self.start = m.start(self.kind)
        self.at = m.end()
        return last

    def error(self, message: str) -> ParseError:
        line = self.text.count("\n", 0, self.start) + 1
        column = self.start - (self.text.rfind("\n", 0, self.start) + 1)
        at = f"graph text, line {line}, column {column}"
        return ParseError(f"{at}: {message} (at {self.token!r})")

    def expect(self, token: str) -> None:
        if self.token != token:
            raise self.error(f"expected {token!r}")
        self.advance()

    def accept(self, token: str) -> bool:
        if self.token == token and self.kind != "string":
            self.advance()
            return True
        return False

    def listed(self, close: str, item: Callable[[], Any]) -> list[Any]:
        """Comma-separated items up to and including `close`."""
        out: list[Any] = []
        while not self.accept(close):
            out.append(item())
            if not self.accept(","):
                self.expect(close)
                break
        return out

    def unquoted(self, raw: str) -> str:
        try:
            text = str(ast.literal_eval(raw))
        except (ValueError, SyntaxError):
            raise self.error("a string that cannot be read") from None
        self.advance()
        return text

    def word(self) -> str:
        if self.kind == "string":
            return self.unquoted(self.token)
        if self.kind not in ("word", "number"):
            raise self.error("expected a name")
        return self.advance()

    def value_name(self) -> str:
        if self.kind != "value":
            raise self.error("expected a value (%name)")
        if self.token[1] == '"':
            return '%"' + self.unquoted(self.token[1:])
        return self.advance()

    def integer(self) -> int:
        try:
            number = int(self.token)
        except ValueError:
            raise self.error("expected an integer") from None
        self.advance()
        return number

    def type(self) -> TensorType:
        try:
            dtype = dtypes.by_name(self.word())
        except ValueError as e:
            raise self.error(str(e)) from None
        if self.token != "[":
            raise self.error("expected '['")
        dims = self.enclosed("[]")
        sizes = tuple(self.size(d) for d in dims.split(",") if d.strip())
        if not all(isinstance(d, int) for d in sizes):
            raise self.error("a dimension that is no integer")
        return TensorType(sizes, dtype)

    def enclosed(self, pair: str) -> str:
        """Return the text up to the sign that closes the current one; moves past it."""
        depth, start = 1, self.at
        while depth and self.at < self.end:
            depth += {pair[0]: 1, pair[1]: -1}.get(self.text[self.at], 0)
            self.at += 1
        if depth:
            raise self.error(f"expected {pair[1]!r}")
        inner = self.text[start : self.at - 1]
        self.advance()
        return inner

    def size(self, text: str) -> Any:
        try:
            return int(text) if text.strip().isdigit() else parse_size(text)
        except ValueError as e:
            raise self.error(str(e)) from None

    def graph(self) -> Graph:
        self.expect("graph")
        graph = Graph(self.word())
        names: dict[str, Value] = {}
        self.expect("(")
        for name, ty, kind in self.listed(")", self.parameter):
            plain = name[2:] if name.startswith('%"') else name[1:]
            if name in names:
                raise self.error(f"the input {plain} is defined twice")
            names[name] = graph.add_input(ty, plain, kind)
        self.expect("{")
        while self.token not in ("return", "update", "}"):
            self.node(graph, names)
        if self.accept("return"):
            while self.kind == "value":
                graph.outputs.append(self.lookup(names))
                if not self.accept(","):
                    break
        while self.accept("update"):
            old = self.lookup(names)
            self.expect("=")
            graph.updates.append((old, self.lookup(names)))
        self.expect("}")
        return graph

    def parameter(self) -> tuple[str, TensorType, str]:
        name = self.value_name()
        self.expect(":")
        return name, self.type(), self.word()

    def lookup(self, names: dict[str, Value]) -> Value:
        name = self.token
        key = self.value_name()
        if key not in names:
            raise self.error(f"{name} is not defined before its use")
        return names[key]

    def node(self, graph: Graph, names: dict[str, Value]) -> None:
        results: list[tuple[str, TensorType]] = []
        while self.kind == "value":
            name = self.value_name()
            if name in names or any(name == n for n, _ in results):
                raise self.error(f"{name} is defined twice")
            self.expect(":")
            results.append((name, self.type()))
            if not self.accept(","):
                self.expect("=")
                break
        op = self.word()
        self.expect("(")
        operands = self.listed(")", lambda: self.lookup(names))
        self.expect("{")
        attrs = dict(self.listed("}", self.attribute))
        scope = self.word() if self.accept("@") else ""
        span = self.location() if self.accept("loc") else NOWHERE
        regions: list[Graph] = []
        if self.accept("["):
            while not self.accept("]"):
                regions.append(self.graph())
        node = Node(op, operands, attrs, (), tuple(regions), span=span, scope=scope)
        node.results = tuple(Value(t, node, i) for i, (_, t) in enumerate(results))
        names.update({n: v for (n, _), v in zip(results, node.results, strict=True)})
        graph.nodes.append(node)

    def attribute(self) -> tuple[str, Any]:
        key = self.word()
        self.expect("=")
        return key, self.attr()

    def location(self) -> Span:
        self.expect("(")
        file = self.word()
        self.expect(":")
        line = self.integer()
        self.expect(":")
        column = self.integer()
        self.expect(")")
        return Span(file=file, line=line, column=column)

    def attr(self) -> Any:
        if self.accept("("):
            return tuple(self.listed(")", self.attr))
        if self.kind == "string":
            return self.word()
        word = self.advance()
        if word == "lit":
            return self.literal()
        if word == "size" and self.token == "(":
            return self.size(self.enclosed("()"))
        if word.startswith("dtype."):
            return dtypes.by_name(word[6:])
        return self.scalar(word)

    def scalar(self, word: str) -> Any:
        if word in ("inf", "-inf", "nan"):
            return float(word)
        try:
            return ast.literal_eval(word)
        except (ValueError, SyntaxError):
            raise self.error(f"unknown attribute value {word!r}") from None

    def literal(self) -> Literal:
        self.expect("<")
        ty = self.type()
        if not ty.is_static:
            raise self.error(f"a literal of the sizes {ty}, which are not known")
        try:
            check_size("a literal", ty)
        except ValueError as e:
            raise self.error(str(e)) from None
        self.expect(">")
        array = self.encoded(ty) if self.kind == "string" else self.elements(ty)
        return Literal(array.reshape(ty.dims))

    def encoded(self, ty: TensorType) -> np.ndarray[Any, Any]:
        try:
            data = base64.b64decode(self.token[1:-1], validate=True)
        except ValueError:
            raise self.error("a literal that is not base64") from None
        if len(data) != ty.nbytes:
            raise self.error(f"a literal of {ty} needs {ty.nbytes} bytes, got {len(data)}")
        self.advance()
        return np.frombuffer(data, ty.dtype.numpy)

    def elements(self, ty: TensorType) -> np.ndarray[Any, Any]:
        self.expect("[")
        kinds = {"bool": (bool,), "float": (int, float)}.get(ty.dtype.kind, (int,))
        items = self.listed("]", lambda: self.scalar(self.advance()))
        if len(items) != ty.size:
            raise self.error(f"a literal of {ty} needs {ty.size} elements, got {len(items)}")
        if any(type(x) not in kinds for x in items):
            raise self.error(f"a literal of {ty} holds something else")
        try:
            return np.array(items, ty.dtype.numpy)
        except OverflowError as e:
            raise self.error(str(e)) from None


def parse_graph(text: str) -> Graph:
    """Parse the text of one graph. Verify it with `cellc_compiler.ir.verify.verify`. Raises
    ParseError if the text is not well formed."""
    parser = _Parser(text)
    try:
        graph = parser.graph()
    except RecursionError:
        raise parser.error("nested too deeply") from None
    if parser.kind != "end":
        raise parser.error("expected the end of the text")
    return graph


def parse_literal(text: str) -> Literal:
    """Parse a constant as graphs write it: `lit<float32[2]>[1.0, 2.0]`. Raises ParseError if it is
    something else."""
    parser = _Parser(text)
    value = parser.attr()
    if not isinstance(value, Literal) or parser.kind != "end":
        raise parser.error("expected one literal")
    return value
