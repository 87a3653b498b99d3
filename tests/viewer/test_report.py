"""What a report holds: the same nodes from stage to stage, diffs, parts, boxes, sources."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import cli, nn, ops
from cellc.compiled.traced import trace
from cellc.viewer.boxes import OUTSIDE, Item, boxes
from cellc.viewer.ledger import FORWARD, GRADIENT, UPDATE, Ledger
from cellc.viewer.page import embedded, page
from cellc.viewer.report import Subject, document
from cellc.viewer.sources import Sources
from cellc.viewer.stages import compare, mark_traced, summary
from cellc.viewer.values import describe
from cellc_compiler import driver
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.text import parse_graph, print_graph
from cellc_compiler.passes.base import copy_graph

from .nets import Classifier, Net, train_step

Json = dict[str, Any]


def step() -> Graph:
    x, y = ms.Tensor(np.ones((4, 16), np.float32)), ms.Tensor(np.zeros(4, np.int32))
    return trace(train_step(Classifier()), [x, y], {}).graph


def flow() -> Graph:
    return trace(Net(), [ms.Tensor(np.ones((2, 16), np.float32)), ms.Tensor(3)], {}).graph


def leaves(box: Json) -> list[Any]:
    return [n for c in box["c"] for n in (leaves(c) if isinstance(c, dict) else [c])]


def every_box(box: Json) -> list[Json]:
    return [box, *(b for c in box["c"] if isinstance(c, dict) for b in every_box(c))]


# --- stages ---------------------------------------------------------------------------------------


def test_a_pass_keeps_the_numbers_of_the_nodes_it_keeps() -> None:
    graph, ledger = copy_graph(step()), Ledger()
    shots = [ledger.take(graph)]
    before = [(n, ledger.number(n)) for n in graph.nodes]
    driver.optimize(graph, lambda name, g: shots.append(ledger.take(g)), in_place=True)
    kept = {n: u for n, u in before if n in set(graph.nodes)}
    assert len(kept) > 20
    assert all(ledger.number(n) == u for n, u in kept.items())
    new = set(shots[-1].operands) - set(shots[0].operands)
    assert new.isdisjoint(u for _, u in before)


def test_a_diff_names_what_is_gone_new_and_rewritten() -> None:
    def net(x):
        return ops.softmax(x) + (x + 0.0) * 1.0

    graph, ledger = trace(net, [ms.Tensor(np.ones((2, 3), np.float32))], {}).graph, Ledger()
    shots = {"traced": ledger.take(graph)}
    names = ["traced"]

    def observe(name: str, g: Graph) -> None:
        names.append(f"{len(names)} {name}")
        shots[names[-1]] = ledger.take(g)

    driver.optimize(graph, observe, in_place=True)
    changes = {b: compare(ledger, shots[a], shots[b])
               for a, b in pairwise(names)}
    expand = changes["2 expand"]
    (rewrite,) = (r for r in expand.rewritten
                  if "softmax" in {ledger.rows[u].op for u in r.gone})
    assert {ledger.rows[u].op for u in rewrite.new} >= {"reduce_max", "normal_exp", "reduce_sum",
                                                       "div"}
    assert "softmax → reduce_max, sub, normal_exp" in summary(ledger, expand)
    assert not changes["3 complex-reductions"]
    assert summary(ledger, changes["3 complex-reductions"]) == "no change"
    simplify = changes["5 simplify"]
    assert "mul" in {ledger.rows[u].op for u in
                     [*simplify.gone, *(g for r in simplify.rewritten for g in r.gone)]}


def test_stages_that_are_read_from_text_match_as_those_that_are_run() -> None:
    graph = flow()
    texts: list[str] = [print_graph(graph)]
    run, ledger = copy_graph(graph), Ledger()
    shots = [ledger.take(run)]

    def observe(name: str, g: Graph) -> None:
        texts.append(print_graph(g))
        shots.append(ledger.take(g))

    driver.optimize(run, observe, in_place=True)
    other = Ledger()
    first, *rest = map(parse_graph, texts)
    again = [other.take(first)]
    for g in rest:
        again.append(other.adopt(g, again[-1]))
    assert [len(s.operands) for s in again] == [len(s.operands) for s in shots]
    # Equal nodes may be told from one another by order alone, so a few more may seem to stay.
    for a, b in zip(shots, again, strict=True):
        stay, seem = (len(set(s.operands) & set(t.operands))
                      for s, t in ((a, shots[0]), (b, again[0])))
        assert stay <= seem <= stay + 6


def test_forward_gradient_and_update() -> None:
    graph, ledger = step(), Ledger()
    shot = ledger.take(graph)
    mark_traced(ledger, shot)
    start = next(i for i, n in enumerate(graph.nodes) if n.op == "cotangent")
    parts = [ledger.rows[u].part for u in shot.graph.nodes]
    ops_ = [n.op for n in graph.nodes]
    assert {p for p, op in zip(parts[:start], ops_, strict=False)
            if op in ("matmul", "relu", "layer_norm")} == {FORWARD}
    written = {new.node for _, new in graph.updates if new.node is not None}
    optimizer = [p for p, n in zip(parts, graph.nodes, strict=True)
                 if n in written and n.scope == "optimizer"]
    assert optimizer and set(optimizer) == {UPDATE}
    behind = [p for p, n in zip(parts[start:], graph.nodes[start:], strict=True)
              if n.op == "matmul"]
    assert behind and set(behind) == {GRADIENT}


# --- boxes ----------------------------------------------------------------------------------------


def test_every_node_is_in_one_box_of_its_cell() -> None:
    data, _ = document("t", [Subject("train", step())], Sources())
    graph = data["graphs"][0]
    for stage in (s for s in graph["stages"] if "graph" in s):
        box = stage["graph"]["box"]
        nodes = [n for n in leaves(box) if isinstance(n, int)]
        shown = [u for u in stage["graph"]["nodes"]
                 if graph["ops"][graph["nodes"][u][0]] != "constant"]
        assert sorted(nodes) == sorted(shown)
        for inner in every_box(box):
            assert inner["n"] == len(leaves(inner))
            placed = [n for part in inner["p"] for row in part for n in row]
            assert len(placed) == len(set(placed))
            assert {n for n in placed if n < len(inner["c"])} == set(range(len(inner["c"])))


def test_edges_go_down() -> None:
    data, _ = document("t", [Subject("train", step())], Sources())
    box = data["graphs"][0]["stages"][0]["graph"]["box"]
    for inner in every_box(box):
        for part in inner["p"]:
            layer = {n: i for i, row in enumerate(part) for n in row}
            for a, b, *passed in inner["e"]:
                if a in layer and b in layer:
                    places = [layer[n] for n in (a, *passed, b)]
                    assert places == sorted(set(places))


def test_a_cell_that_is_called_twice_has_two_boxes_and_a_parted_one_is_one() -> None:
    twice = [Item(0, ("a",), ()), Item(1, ("a",), (0,)), Item(2, (), (1,)),
             Item(3, ("a",), (2,)), Item(4, ("a",), (3,))]
    assert [c if isinstance(c, int) else c["k"] for c in boxes(twice)["c"]] == ["/a", 2, "/a#1"]
    parted = [Item(0, ("a",), ()), Item(1, ("a",), (0,)), Item(2, (), ()),
              Item(3, ("a",), (1, 2)), Item(4, ("a",), (3,))]
    box = boxes(parted)
    assert [c if isinstance(c, int) else (c["k"], c["n"]) for c in box["c"]] == [2, ("/a", 4)]


def test_boxes_of_a_random_graph_have_no_circles() -> None:
    rng = np.random.default_rng(0)
    items = [Item(i, tuple(f"c{rng.integers(4)}" for _ in range(rng.integers(3))),
                  tuple({int(j) for j in rng.integers(0, i, rng.integers(3))} if i else ()))
             for i in range(400)]
    for box in every_box(boxes(items)):
        for a, b, *_ in box["e"]:
            assert a == OUTSIDE or b == OUTSIDE or a != b
        layered = [part for part in box["p"] if part]
        assert sum(len([n for row in p for n in row if n < len(box["c"])]) for p in layered) \
            == len(box["c"])


# --- code, memory, values -------------------------------------------------------------------------


def test_calls_say_which_nodes_they_do_and_where_their_temporaries_lie() -> None:
    data, texts = document("t", [Subject("train", step())], Sources())
    graph = data["graphs"][0]
    last = next(s for s in reversed(graph["stages"]) if "graph" in s)["graph"]
    code = graph["code"]
    done = {u for c in code["calls"] for u in c["nodes"]}
    assert done <= set(last["nodes"]) and len(done) > len(last["nodes"]) / 3
    for name, size, offset, first, end, call in code["buffers"]:
        assert 0 <= offset <= offset + size <= code["arena"] and first <= end, name
        assert -1 <= call < len(code["calls"])
    alive: dict[int, list[tuple[int, int]]] = {}
    for _, size, offset, first, end, _ in code["buffers"]:
        for clock in range(first, end + 1):
            spans = alive.setdefault(clock, [])
            assert all(offset + size <= a or b <= offset for a, b in spans)
            spans.append((offset, offset + size))
    for call in code["calls"]:
        if "kernel" in call:
            shown = json.loads(texts[call["kernel"]])
            assert "@KERNEL" in shown["llvm"] and shown["lines"]
    nests = [c["nest"] for c in code["calls"] if "nest" in c]
    assert nests and all("for (" in n for n in nests)


def test_values_are_those_of_the_network() -> None:
    x = np.array([[1.0, -2.0, np.nan, np.inf]], np.float32)
    found = describe(x)
    assert (found["min"], found["max"], found["nan"], found["inf"]) == (-2.0, 1.0, 1, 1)
    assert sum(found["bins"]) == 2 and found["mean"] == -0.5
    assert describe(np.zeros((0,), np.float32)) == {"size": 0}
    assert "bins" not in describe(np.ones(3, np.float32))
    given = np.random.default_rng(0).standard_normal((2, 16)).astype(np.float32)
    net = Net()
    traced = trace(net, [ms.Tensor(given), ms.Tensor(2)], {})
    arrays = [given, np.array(2), *(p.asnumpy() for p in traced.parameters)]
    data, _ = document("t", [Subject("f", traced.graph, arrays=arrays)], Sources())
    graph = data["graphs"][0]
    (out,) = graph["stages"][0]["graph"]["outputs"]
    want = net(ms.Tensor(given), ms.Tensor(2)).asnumpy()
    assert graph["stats"][str(out)]["max"] == pytest.approx(float(want.max()))
    (last,) = next(s for s in reversed(graph["stages"]) if "graph" in s)["graph"]["outputs"]
    assert graph["stats"][str(last)]["max"] == graph["stats"][str(out)]["max"]


# --- the page -------------------------------------------------------------------------------------


def test_data_cannot_leave_its_script_element() -> None:
    text = embedded({"</script>": "<!-- <script> & \u2028\u2029"})
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == {"</script>": "<!-- <script> & \u2028\u2029"}


def test_a_page_is_one_file_without_addresses(tmp_path: Path) -> None:
    data, texts = document("<b>", [Subject("f", flow())], Sources([Path(__file__).parent]))
    text = page(data, texts)
    assert "<title>&lt;b&gt;</title>" in text and "{{" not in text
    assert "src=" not in text.split("<script", 1)[0] and "@import" not in text
    assert "default-src 'none'" in text.replace("&#x27;", "'")


def test_no_path_of_the_machine_is_in_a_report(tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    nets = Path(__file__).with_name("nets.py")
    assert cli.main(["inspect", f"{nets}:Classifier", "--train", "train_step", "-o", str(out),
                     "--input", "x=float32[4,16]", "--input", "y=int32[4]"]) == 0
    text = out.read_text()
    assert str(Path(__file__).parents[2]) not in text and str(Path.home()) + "/" not in text
    assert '"nets.py":' in text and '"cellc/nn/wrap.py":' in text


def test_files_that_a_graph_from_elsewhere_names_are_not_opened(tmp_path: Path) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text("the secret")
    graph = parse_graph('graph g(%x: float32[2] input) {\n  %0: float32[2] = relu(%x) {} '
                        f'loc("{secret}":1:0)\n  return %0\n}}\n')
    data, _ = document("t", [Subject("g", graph)], Sources())
    assert data["sources"] == {} and "secret.py" in data["graphs"][0]["files"]
    assert str(tmp_path) not in json.dumps(data)


def test_paths_of_any_depth() -> None:
    deep = ".".join("abcdefghij"[i % 10] for i in range(3000))
    graph = parse_graph('graph g(%x: float32[2] input) {\n'
                        f'  %0: float32[2] = relu(%x) {{}} @"{deep}"\n'
                        f'  %1: float32[2] = relu(%0) {{}} @"{deep}.y"\n'
                        '  %2: float32[2] = relu(%1) {} @"z"\n  return %2\n}\n')
    data, _ = document("t", [Subject("g", graph)], Sources())
    assert len(leaves(data["graphs"][0]["stages"][0]["graph"]["box"])) == 5


def test_a_cell_in_a_cell_is_one_box_if_there_is_nothing_else() -> None:
    class Outer(nn.Cell):
        def __init__(self):
            super().__init__()
            self.a = nn.SequentialCell(nn.SequentialCell(nn.Dense(4, 4), nn.ReLU()))

        def construct(self, x):
            return self.a(x) + x

    graph = trace(Outer(), [ms.Tensor(np.ones((2, 4), np.float32))], {}).graph
    data, _ = document("t", [Subject("f", graph)], Sources())
    labels = [b["l"] for b in every_box(data["graphs"][0]["stages"][0]["graph"]["box"])]
    assert "a.0" in labels
