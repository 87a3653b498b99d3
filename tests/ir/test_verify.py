"""The verifier fires on every kind of broken graph, and shows the place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cellc_compiler.ir.graph import Builder, Graph, Node, Value
from cellc_compiler.ir.text import parse_graph
from cellc_compiler.ir.types import TensorType
from cellc_compiler.ir.verify import VerifyError, verify
from cellc_runtime import dtypes

F3 = TensorType((3,), dtypes.float32)

GOOD = """graph g(%x: float32[3] input, %w: float32[3] param, %p: bool[] input) {
  %0: float32[3] = exp(%x) {}
  %1: float32[3] = add(%0, %w) {}
  %2: float32[3] = cond(%p, %1) {} [
    graph then(%a: float32[3] input) {
      %0: float32[3] = neg(%a) {}
      return %0
    }
    graph else(%a: float32[3] input) {
      return %a
    }
  ]
  return %2
  update %w = %1
}"""


def good() -> Graph:
    """A graph with nothing wrong."""
    graph = parse_graph(GOOD)
    verify(graph)
    return graph


BREAKS: dict[str, tuple[Callable[[Graph], object], str]] = {}


def breaks(message: str) -> Callable[[Callable[[Graph], object]], Callable[[Graph], object]]:
    """Record a way to break the graph, and what the verifier says."""
    def record(fn: Callable[[Graph], object]) -> Callable[[Graph], object]:
        BREAKS[fn.__name__] = fn, message
        return fn

    return record


@breaks("exp is used before its definition|operand 0 of add is used before")
def swapped_order(g: Graph) -> None:
    g.nodes[0], g.nodes[1] = g.nodes[1], g.nodes[0]


@breaks("operand 0 of exp is used before its definition")
def foreign_operand(g: Graph) -> None:
    g.nodes[0].operands[0] = Value(F3)


@breaks("operand 0 of neg is used before its definition")
def a_region_reads_an_outer_value(g: Graph) -> None:
    g.nodes[2].regions[0].nodes[0].operands[0] = g.nodes[0].result


@breaks("an output or update of type")
def missing_output(g: Graph) -> None:
    g.outputs = [Value(F3)]


@breaks("an output or update of type")
def removed_node(g: Graph) -> None:
    del g.nodes[2]


@breaks(r"exp gives \(float32\[3\]\), the graph says \(float32\[4\]\)")
def wrong_result_type(g: Graph) -> None:
    g.nodes[0].result.type = TensorType((4,), dtypes.float32)


@breaks("result 0 of exp is not its own")
def result_of_another(g: Graph) -> None:
    g.nodes[0].result.node = g.nodes[1]


@breaks("result 0 of exp is not its own")
def wrong_index(g: Graph) -> None:
    g.nodes[0].result.index = 1


@breaks("result 0 of exp is not its own")
def one_node_twice(g: Graph) -> None:
    g.nodes.insert(1, g.nodes[0])


@breaks("unknown op 'flurb'")
def unknown_op(g: Graph) -> None:
    g.nodes[0].op = "flurb"


@breaks("no attribute 'speed'")
def unknown_attribute(g: Graph) -> None:
    g.nodes[0].attrs = {"speed": 3}


@breaks("needs the attribute|lacks attributes")
def missing_attribute(g: Graph) -> None:
    b = Builder(g)
    g.outputs = [b.reshape(g.inputs[0], shape=(3, 1))]
    g.nodes[-1].attrs = {}


@breaks("takes 1 operands")
def too_many_operands(g: Graph) -> None:
    g.nodes[0].operands.append(g.inputs[0])


@breaks("takes 2 operands")
def too_few_operands(g: Graph) -> None:
    g.nodes[1].operands.pop()


@breaks("defined twice")
def one_name_twice(g: Graph) -> None:
    g.inputs[0].name = g.inputs[1].name


@breaks("defined twice or by a node")
def an_input_with_a_node(g: Graph) -> None:
    g.inputs[0].node = g.nodes[0]


@breaks("replaces what is no input")
def update_of_a_result(g: Graph) -> None:
    g.updates = [(g.nodes[0].result, g.nodes[1].result)]


@breaks("one input twice")
def two_updates_of_one(g: Graph) -> None:
    g.updates = g.updates * 2


@breaks("changes its type")
def update_of_another_type(g: Graph) -> None:
    b = Builder(g)
    g.updates = [(g.inputs[1], b.reshape(g.inputs[1], shape=(3, 1)))]


@breaks("cond needs a bool")
def a_condition_that_is_no_bool(g: Graph) -> None:
    g.nodes[2].operands[0] = g.nodes[0].result


@breaks("the then branch takes|is given")
def a_branch_with_other_inputs(g: Graph) -> None:
    g.nodes[2].regions[0].inputs[0].type = TensorType((4,), dtypes.float32)
    g.nodes[2].regions[0].nodes[0].result.type = TensorType((4,), dtypes.float32)


@breaks("branches of cond give different types")
def branches_that_differ(g: Graph) -> None:
    g.nodes[2].regions[1].outputs = []


@breaks("the recomputed graph takes")
def a_part_to_recompute_with_other_inputs(g: Graph) -> None:
    node, (region, _) = g.nodes[2], g.nodes[2].regions
    again = Node("recompute", [g.inputs[2]], {"results": False}, (), (region,))
    again.results = (Value(region.outputs[0].type, again, 0),)
    g.nodes.insert(g.nodes.index(node) + 1, again)


@breaks("cond: |regions")
def a_missing_branch(g: Graph) -> None:
    g.nodes[2].regions = g.nodes[2].regions[:1]


@breaks("float32|dtype|takes")
def operand_of_another_dtype(g: Graph) -> None:
    g.inputs[0].type = TensorType((3,), dtypes.int32)


@pytest.mark.parametrize("name", list(BREAKS))
def test_a_broken_graph_is_refused(name: str) -> None:
    fn, message = BREAKS[name]
    graph = good()
    fn(graph)
    with pytest.raises(VerifyError, match=message) as caught:
        verify(graph)
    assert str(caught.value).startswith("in graph ")


@pytest.mark.parametrize(("operands", "message"), [
    ("%x, %b", "needs a matrix of weights"), ("%s, %w", "needs a matrix of weights"),
    ("%b, %w", "rows as long as the last axis of the input"),
    ("%x, %w, %x", "one bias of 4 elements at most"), ("%x, %w, %b, %b", "one bias of 4 elements")])
def test_operands_of_dense_that_do_not_fit(operands: str, message: str) -> None:
    graph = parse_graph(
        "graph g(%x: float32[2,3] input, %w: float32[4,3] input, %b: float32[4] input, "
        f"%s: float32[] input) {{\n  %0: float32[2,4] = dense({operands}) {{}}\n  return %0\n}}")
    with pytest.raises(VerifyError, match=message):
        verify(graph)


def test_the_failure_shows_the_graph_around_it() -> None:
    graph = good()
    graph.nodes[1].result.type = TensorType((9,), dtypes.float32)
    with pytest.raises(VerifyError, match=r"add gives .*, the graph says") as caught:
        verify(graph)
    assert "exp(%x)" in str(caught.value) and "add(%0, %w)" in str(caught.value)


LOOPS = {
    "carried-type": ("while", "graph b(%a: int32[] input) {\n %0: int32[1] = reshape(%a) "
                     "{shape=(1,)}\n return %0\n}", "must give the types it carries"),
    "test-type": ("while", None, "must give one bool"),
}


@pytest.mark.parametrize(("op", "body", "message"), list(LOOPS.values()), ids=list(LOOPS))
def test_broken_loops(op: str, body: str | None, message: str) -> None:
    test = ("graph t(%a: int32[] input) {\n %0: bool[] = lt(%a, %a) {}\n return %0\n}"
            if body else "graph t(%a: int32[] input) {\n return %a\n}")
    body = body or "graph b(%a: int32[] input) {\n return %a\n}"
    graph = parse_graph("graph g(%x: int32[] input) {\n"
                        f"%0: int32[] = {op}(%x) {{carried=1}} [\n{test}\n{body}\n]\nreturn %0\n}}")
    with pytest.raises(VerifyError, match=message):
        verify(graph)


def test_scan_over_sequences_of_another_length() -> None:
    graph = parse_graph("""graph g(%x: float32[4] input) {
      %0: float32[5] = scan(%x) {carried=0, sequences=1, length=5, reverse=False,
saved=False, limited=False, stepwise=False} [
        graph b(%r: float32[] input, %i: int64[] input) { return %r }
      ]
      return %0
    }""")
    with pytest.raises(VerifyError, match="scan over 5 rows is given the sequence"):
        verify(graph)


def test_types_are_inferred_when_a_node_is_built() -> None:
    b = Builder(Graph("g"))
    x = b.literal(np.zeros((2, 3), np.float32))
    with pytest.raises(ValueError, match="cannot be broadcast"):
        b.add(x, b.literal(np.zeros((4,), np.float32)))
    with pytest.raises(TypeError, match="dtype"):
        b.add(x, b.literal(np.zeros(3, np.int32)))
    with pytest.raises(KeyError, match="unknown op 'nothing'"):
        b.emit("nothing", x)
    assert isinstance(b.graph.nodes[-1], Node) and len(b.graph.nodes) == 3
