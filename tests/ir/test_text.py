"""The text form: print -> parse -> print is the identity; bad text is an error with its place."""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellc_compiler.interpret import run
from cellc_compiler.ir.graph import Builder, Graph, Literal, Span
from cellc_compiler.ir.text import ParseError, parse_graph, print_attr, print_graph
from cellc_compiler.ir.types import TensorType
from cellc_compiler.ir.verify import VerifyError, verify
from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

Array = np.ndarray[Any, Any]
relaxed = settings(max_examples=150, deadline=None, database=None, derandomize=True)

NAMES = st.text(min_size=1, max_size=12) | st.sampled_from(
    ["0", "12", "a b", 'q"uote', "back\\slash", "new\nline", "tab\t", "%x", "é", "日本", "\x00",
     "\U0001f600", "return", "graph", "}", "@", "loc", "update", "-1", "1e5", "layer1.0.weight"])
ATTRS = st.recursive(
    st.none() | st.booleans() | st.integers(-2**70, 2**70) | st.text(max_size=10)
    | st.floats(allow_nan=False) | st.sampled_from(dtypes.ALL),
    lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)


def parts_graph(
    name: str, inputs: list[str], scope: str, file: str, parts: tuple[Any, ...]
) -> Graph:
    """A graph with these names in it."""
    graph = Graph(name)
    for n in inputs:
        graph.add_input(TensorType((2,), dtypes.float32), n)
    span = Span(file=file, line=3, column=7)
    b = Builder(graph, span=span, scope=scope)
    y = b.add(graph.inputs[0], graph.inputs[-1])
    b.node("print", [], {"parts": parts})
    graph.outputs = [y, graph.inputs[0]]
    graph.updates = [(graph.inputs[-1], y)]
    return graph


@relaxed
@given(NAMES, st.lists(NAMES, min_size=1, max_size=4, unique=True), NAMES, NAMES,
       st.lists(st.text(max_size=10), max_size=3))
def test_any_names(name: str, inputs: list[str], scope: str, file: str, parts: list[str]) -> None:
    graph = parts_graph(name, inputs, scope, file, tuple(parts))
    text = print_graph(graph)
    parsed = parse_graph(text)
    assert print_graph(parsed) == text
    assert parsed.name == name and [v.name for v in parsed.inputs] == inputs
    node, printed = parsed.nodes
    assert (node.scope, node.span.file, node.span.line) == (scope, file, 3)
    assert printed.attrs["parts"] == tuple(parts)
    verify(parsed)


@relaxed
@given(ATTRS)
def test_any_attribute(value: Any) -> None:
    """Values and their types come back: 1, 1.0, True and -0.0 are four things."""
    graph = parse_graph(f"graph g() {{\n  unknown() {{a={print_attr(value)}}}\n  return\n}}")
    got = graph.nodes[0].attrs["a"]
    assert repr(got) == repr(value)


def random_array(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Random bits as elements (bools are 0 or 1)."""
    count = int(np.prod(shape)) * dtype.itemsize
    raw = rng.integers(0, 256, count, dtype=np.uint8)
    if dtype.kind == "bool":
        raw %= 2
    return raw.view(dtype.numpy).reshape(shape)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 5), (17,), (0,), (2, 0, 3)])
def test_any_literal(dtype: DType, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    for _ in range(4):
        array = random_array(dtype, shape, rng)
        graph = Graph("g")
        graph.outputs = [Builder(graph).literal(array)]
        parsed = parse_graph(print_graph(graph))
        assert parsed.nodes[0].attrs["value"] == Literal(array)
        verify(parsed)
        (got,) = run(parsed, [])
        assert got.tobytes() == array.tobytes() and got.dtype == array.dtype


@pytest.mark.parametrize("x", [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4028235e38, 0.1, 1 / 3])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_any_float(x: float, kind: Any) -> None:
    with np.errstate(all="ignore"):
        array = np.asarray(x).astype(kind)
    graph = Graph("g")
    graph.outputs = [Builder(graph).literal(array)]
    text = print_graph(graph)
    got = parse_graph(text).nodes[0].attrs["value"].array
    assert got.tobytes() == array.tobytes() and got.dtype == array.dtype, text


LOOP = """graph main(%x: float32[3] input, %n: int64[] input) {
  %0: int64[] = constant() {value=lit<int64[]>[0]}
  %1: int64[], %2: float32[3] = while(%0, %x, %n) {carried=2} @net.loop loc("a b.py":3:4) [
    graph test(%i: int64[] input, %y: float32[3] input, %"0": int64[] input) {
      %0: bool[] = lt(%i, %"0") {}
      return %0
    }
    graph body(%i: int64[] input, %y: float32[3] input, %"0": int64[] input) {
      %0: int64[] = constant() {value=lit<int64[]>[1]}
      %1: int64[] = add(%i, %0) {}
      %2: float32[3] = add(%y, %y) {}
      return %1, %2
    }
  ]
  return %2
}
"""


def test_nested_graphs() -> None:
    graph = parse_graph(LOOP)
    verify(graph)
    assert print_graph(graph) == LOOP
    x = np.ones(3, np.float32)
    np.testing.assert_array_equal(run(graph, [x, np.asarray(5)])[0], 32 * x)


def test_spans_can_be_left_out() -> None:
    assert "loc(" not in print_graph(parse_graph(LOOP), spans=False)


# --- bad text ------------------------------------------------------------------------------------

HEAD = "graph g(%x: float32[3] input) {\n"
BAD = {
    "empty": ("", "expected 'graph'"),
    "no-brace": ("graph g(%x: float32[3] input)", "expected '{'"),
    "unfinished": (HEAD + "  return %x\n", "expected"),
    "undefined": (HEAD + "  return %y\n}", "%y is not defined"),
    "use-before": (HEAD + "  %0: float32[3] = exp(%1) {}\n  %1: float32[3] = exp(%x) {}\n"
                   "  return %1\n}", "%1 is not defined"),
    "dtype": ("graph g(%x: float31[3] input) {\n  return\n}", "float31"),
    "dimension": ("graph g(%x: float32[2.5] input) {\n  return\n}", "integer"),
    "attribute": (HEAD + "  %0: float32[3] = exp(%x) {a=b}\n  return\n}", "unknown attribute"),
    "operands": (HEAD + "  %0: float32[3] = exp(%x {}\n  return\n}", "expected"),
    "few-elements": (HEAD + "  %0: float32[2] = constant() {value=lit<float32[2]>[1.0]}\n"
                     "  return\n}", "needs 2 elements, got 1"),
    "few-bytes": (HEAD + '  %0: float32[2] = constant() {value=lit<float32[2]>"AAAA"}\n'
                  "  return\n}", "needs 8 bytes, got 3"),
    "not-base64": (HEAD + '  %0: float32[1] = constant() {value=lit<float32[1]>"!!!!"}\n'
                   "  return\n}", r"line 2.*base64"),
    "not-a-number": (HEAD + '  %0: int32[1] = constant() {value=lit<int32[1]>[1.5]}\n'
                     "  return\n}", "line 2"),
    "too-large": (HEAD + '  %0: int8[1] = constant() {value=lit<int8[1]>[300]}\n'
                  "  return\n}", "line 2"),
    "after-the-end": (HEAD + "  return %x\n}\nmore", "expected the end"),
    "character": (HEAD + "  ;\n}", "unexpected character"),
    "unclosed-string": ('graph "g(%x: float32[3] input) {', "unexpected character|expected"),
    "twice": ("graph g(%x: float32[3] input, %x: float32[3] input) {\n  return %x\n}",
              "line 1.*%x.*twice|defined twice"),
    "result-twice": (HEAD + "  %0: float32[3] = exp(%x) {}\n  %0: float32[3] = neg(%x) {}\n"
                     "  return %0\n}", "line 3.*%0 is defined twice"),
    "escape": ('graph "\\xZZ"() {\n  return\n}', "line 1"),
    "update-of-nothing": (HEAD + "  return\n  update %z = %x\n}", "%z is not defined"),
}


@pytest.mark.parametrize(("text", "message"), list(BAD.values()), ids=list(BAD))
def test_parse_errors(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message) as caught:
        parse_graph(text)
    assert "graph text, line" in str(caught.value)


def test_damaged_text_is_an_error_or_another_graph() -> None:
    """Random edits never raise anything but a ParseError (or fail verification)."""
    rng = random.Random(3)
    alphabet = '%"{}[]()<>=,:@ 0123456789.-eabxlit\n\\'
    outcomes = set()
    for _ in range(1500):
        text = list(LOOP)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(text))
            how = rng.random()
            if how < 0.4:
                text[at] = rng.choice(alphabet)
            elif how < 0.7:
                del text[at : at + rng.randint(1, 8)]
            else:
                text.insert(at, rng.choice(alphabet))
        try:
            verify(parse_graph("".join(text)))
            outcomes.add("fine")
        except ParseError:
            outcomes.add("parse")
        except VerifyError:
            outcomes.add("verify")
    assert outcomes == {"fine", "parse", "verify"}


def test_truncated_text_is_an_error() -> None:
    for end in range(len(LOOP.rstrip())):
        with pytest.raises(ParseError, match=r"graph text, line \d+, column \d+"):
            parse_graph(LOOP[:end])


def test_deep_nesting_is_an_error_not_a_crash() -> None:
    for text in ("graph g() {\n  a() {b=" + "(" * 100_000, "graph g() {\n a() {} [" * 50_000):
        with pytest.raises(ParseError, match="deep"):
            parse_graph(text)
