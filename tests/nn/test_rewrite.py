"""`cellc.rewrite`: the nodes of a network, changes of them, and what the new network computes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops
from cellc.rewrite import (
    Node,
    NodeType,
    PatternEngine,
    PatternNode,
    Replacement,
    ScopedValue,
    SymbolTree,
    VarNode,
)

from ..others import mindspore
from .rewritten import Convolutions, Derived, Mixed, Sub

X = np.arange(16, dtype=np.float32).reshape(4, 4) / 8 - 1
IMAGE = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)
NAMING = ScopedValue.create_naming_value
MODES = (ms.PYNATIVE_MODE, ms.GRAPH_MODE)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sources of new networks are written below the current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def outputs(net: nn.Cell, x: Any, mode: int) -> list[Any]:
    ms.set_context(mode=mode)
    found = net(Tensor(x))
    return [t.asnumpy() for t in (found if isinstance(found, tuple) else (found,))]


def node_of(tree: SymbolTree, name: str) -> Node:
    found = tree.get_node(name)
    assert found is not None
    return found


def relu_on(variable: str, name: str = "") -> Node:
    return Node.create_call_cell(nn.ReLU(), [variable], [NAMING(variable)], name=name)


REPORT = '''
import json, sys
sys.path.insert(0, {folder!r})
from {module}.rewrite import SymbolTree, ScopedValue, Node
from {module} import nn, ops
from rewritten import Convolutions

def described(tree):
    return [[n.get_name(), str(n.get_node_type()), n.get_instance_type().__name__,
             str(n.get_args()), str(n.get_kwargs()), str(n.get_targets()),
             [i.get_name() for i in n.get_inputs()], [u.get_name() for u in n.get_users()]]
            for n in tree.nodes()]

def body(tree):
    code = tree.get_code()
    return [line for line in code[code.index("def construct"):].splitlines() if line.strip(" #")]

tree = SymbolTree.create(Convolutions())
found = [described(tree), body(tree)]
x = ScopedValue.create_naming_value("x")
conv = tree.get_node("conv1")
tree.insert(tree.after(conv), conv.create_call_cell(cell=nn.ReLU(), targets=["x"], args=[x]))
tree.insert(tree.after("relu"), conv.create_call_cell(
    cell=nn.ReLU(), targets=[tree.unique_name("x")], args=[x], name="relu"))
tree.erase("pool")
fc2 = tree.get_node("fc2")
fc2.set_arg(0, "fc1_var")
tree.replace(tree.get_node("relu_2"), [
    conv.create_call_cell(cell=nn.Tanh(), targets=["x"], args=[x], name="new"),
    conv.create_call_cell(cell=nn.Tanh(), targets=["x"], args=[x], name="new")])
found += [described(tree), body(tree), [tree.unique_name("x"), tree.unique_name()]]
network = tree.get_network()
found += [sorted(network.parameters_dict()), [n for n, _ in network.cells_and_names()]]
'''


def test_nodes_and_source_are_mindspores() -> None:
    here = str(Path(__file__).parent)
    space: dict[str, Any] = {}
    exec(REPORT.format(folder=here, module="cellc").replace(
        "from rewritten", "from tests.nn.rewritten"), space)
    theirs = mindspore(REPORT.format(folder=here, module="mindspore") + "print(json.dumps(found))")
    assert space["found"] == theirs


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("make", "x"), [
    (Convolutions, IMAGE), (lambda: Convolutions(include_top=False), IMAGE), (Mixed, X), (Sub, X),
    (Derived, X)])
def test_an_unchanged_tree_makes_the_same_network(
    make: Callable[[], nn.Cell], x: Any, mode: int
) -> None:
    net = make()
    wanted = outputs(net, x, mode)
    tree = SymbolTree.create(net)
    for _ in range(2):
        made = tree.get_network()
        assert type(made).__name__ == f"{type(net).__name__}Opt" and isinstance(made, type(net))
        for a, b in zip(outputs(made, x, mode), wanted, strict=True):
            np.testing.assert_array_equal(a, b)
    assert list(made.parameters_dict()) == list(net.parameters_dict())


@pytest.mark.parametrize("mode", MODES)
def test_changes_are_computed(mode: int) -> None:
    net = Sub()
    scale = np.array([0.5, 1.5, 2.5, 3.5], np.float32)
    tree = SymbolTree.create(net)
    tree.insert(tree.before("relu"), Node.create_call_function(ops.abs, ["x"], [NAMING("x")]))
    np.testing.assert_array_equal(outputs(tree.get_network(), X, mode)[0],
                                  (np.abs(X) + np.abs(X)) * scale)
    tree.erase("abs")
    node_of(tree, "add").set_arg(1, ScopedValue.create_variable_value(2.0))
    np.testing.assert_array_equal(outputs(tree.get_network(), X, mode)[0], (X + 2) * scale)
    node_of(tree, "add").set_arg_by_node(1, node_of(tree, "relu"))
    tree.replace(node_of(tree, "relu"), [
        Node.create_call_cell(nn.Tanh(), ["y"], [NAMING("x")]), relu_on("y", "rectified")])
    found = tree.get_network()
    np.testing.assert_allclose(outputs(found, X, mode)[0],
                               (X + np.maximum(np.tanh(X), 0)) * scale, rtol=1e-6)
    assert [n for n, _ in found.cells_and_names()] == ["", "relu", "Tanh", "rectified"]
    np.testing.assert_array_equal(outputs(net, X, mode)[0], (X + np.maximum(X, 0)) * scale)


@pytest.mark.parametrize("mode", MODES)
def test_networks_that_are_called_are_changed_too(mode: int) -> None:
    tree = SymbolTree.create(Mixed())
    before = outputs(tree.get_network(), X, mode)
    sub = node_of(tree, "sub").get_sub_tree()
    sub.insert(sub.after("relu"), Node.create_call_cell(
        nn.Dense(4, 4, weight_init="zeros"), ["y"], [NAMING("y")], name="zero"))
    made = tree.get_network()
    assert "sub.zero.weight" in made.parameters_dict()
    assert not np.array_equal(outputs(made, X, mode)[0], before[0])
    names = [n.get_name() for n in tree.nodes(all_nodes=True)]
    assert {"zero", "Dense", "c"} <= set(names) and "zero" not in [
        n.get_name() for n in tree.nodes()]


@pytest.mark.parametrize("mode", MODES)
def test_statements_within_control_flow_are_changed(mode: int) -> None:
    tree = SymbolTree.create(Convolutions(include_top=False))
    inner = node_of(tree, "return")
    tree.insert(tree.before(inner), Node.create_call_function(ops.neg, ["x"], [NAMING("x")]))
    (found,) = outputs(tree.get_network(), IMAGE, mode)
    np.testing.assert_array_equal(found, -outputs(Convolutions(False), IMAGE, mode)[0])
    tree.erase("if_node")
    assert "if" not in tree.get_code().split()
    mixed = SymbolTree.create(Mixed())
    mixed.erase("if_node")
    mixed.insert(mixed.after("else_node_1"), Node.create_call_function(
        ops.neg, ["y"], [NAMING("y")]))
    code = mixed.get_code()
    assert "if and_var:\n            pass\n        else:" in code
    assert code.index("y = y + 1") < code.index("y = neg(y)") < code.index("while")


def test_a_new_network_trains() -> None:
    tree = SymbolTree.create(Sub())
    tree.insert(tree.after("add"), Node.create_call_cell(
        nn.Dense(4, 4), ["x"], [NAMING("x")], name="head"))
    net = tree.get_network()
    ms.set_context(mode=ms.GRAPH_MODE)
    optimizer = nn.SGD(net.trainable_params(), 0.01)
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer)
    losses = [float(step(Tensor(X), Tensor(X * 0 + 1)).asnumpy()) for _ in range(5)]
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0]
    assert {p.name for p in net.trainable_params()} == {"scale", "head.weight", "head.bias"}


def test_an_error_in_a_new_network_shows_its_line(folder: Path) -> None:
    tree = SymbolTree.create(Sub())
    node_of(tree, "add").set_arg(1, "missing")
    ms.set_context(mode=ms.GRAPH_MODE)
    with pytest.raises(NameError, match=r"(?s)x = self.add\(x, missing\).*\^"):
        tree.get_network()(Tensor(X))
    (file,) = (folder / "rewritten_network").iterdir()
    assert file.read_text(encoding="utf-8") == tree.get_code()


class OnlyOne(Replacement):
    def build(self, pattern: PatternNode, is_chain_pattern: bool, matched: Any) -> list[Node]:
        assert list(matched)[-1] == pattern.name()
        first = next(iter(matched.values()))
        last = matched[pattern.name()]
        return [Node.create_call_cell(nn.Tanh(), last.get_targets(), first.get_args())]


@pytest.mark.parametrize("mode", MODES)
def test_patterns(mode: int) -> None:
    tree = SymbolTree.create(Convolutions())
    assert PatternEngine([nn.Conv2d, nn.ReLU], OnlyOne()).apply(tree)
    calls = [n.get_instance_type().__name__ for n in tree.nodes()
             if n.get_node_type() is NodeType.CallCell]
    assert calls == ["Tanh", "MaxPool2d", "Tanh", "Flatten", "Dense", "ReLU", "Dense"]
    assert not PatternEngine([nn.Conv2d, nn.ReLU], OnlyOne()).apply(tree)
    top = PatternNode("dense", nn.Dense, [PatternNode("relu", nn.ReLU, [VarNode()])])
    used_twice = SymbolTree.create(Sub())
    assert PatternEngine(top, OnlyOne()).apply(tree)
    assert not PatternEngine([nn.ReLU, ops.Add], OnlyOne()).apply(used_twice)
    assert PatternEngine([nn.ReLU], OnlyOne()).apply(used_twice)
    np.testing.assert_allclose(
        outputs(used_twice.get_network(), X, mode)[0],
        (X + np.tanh(X)) * np.array([0.5, 1.5, 2.5, 3.5], np.float32), rtol=1e-6)
    mixed = SymbolTree.create(Mixed())
    assert PatternEngine([nn.ReLU], OnlyOne()).apply(mixed)  # in the networks that it calls
    assert "y = self.Tanh(x)" in mixed.get_code()


def test_what_cannot_be_is_an_error() -> None:
    tree = SymbolTree.create(Convolutions())
    other = SymbolTree.create(Convolutions())
    conv = node_of(tree, "conv1")
    new = relu_on("x")
    for call, error, text in (
        (lambda: SymbolTree.create(3), TypeError, "'network' must be a Cell"),
        (lambda: tree.before("nothing"), RuntimeError, "not belong to current SymbolTree"),
        (lambda: tree.after(node_of(other, "conv1")), RuntimeError, "not belong"),
        (lambda: tree.insert("x", new), TypeError, "'position' must be a Position"),
        (lambda: tree.insert(tree.before("input_x"), new), ValueError, "after the parameters"),
        (lambda: tree.replace(conv, []), ValueError, "must have a node"),
        (lambda: conv.set_arg(1, "x"), ValueError, r"range of \[0, 1\), but got 1"),
        (lambda: conv.set_arg(0, "a b"), ValueError, "a name or an expression"),
        (lambda: conv.set_arg(0, ScopedValue.create_variable_value(X)), TypeError,
         "make it an attribute"),
        (lambda: conv.set_arg_by_node(0, node_of(tree, "return_1")), ValueError, "0 outputs"),
        (lambda: conv.get_sub_tree(), TypeError, "NodeType.Tree"),
        (lambda: Node.create_call_cell(3, ["x"]), TypeError,
         "'cell' must be a Cell or a Primitive"),
        (lambda: Node.create_call_cell(nn.ReLU(), "x"), TypeError, "'targets'"),
        (lambda: Node.create_call_function(3, ["x"]), TypeError, "'function'"),
        (lambda: PatternEngine([int], OnlyOne()), TypeError, "one of .Cell, Primitive."),
        (lambda: ScopedValue.create_name_values(["a"], []), ValueError, "1 and 0"),
    ):
        with pytest.raises(error, match=text):
            call()
    assert tree.insert(tree.after(conv), new) is new
    with pytest.raises(ValueError, match="cannot be inserted"):
        tree.insert(tree.after(conv), new)


def test_the_table_names_givers_and_takers(capsys: pytest.CaptureFixture[str]) -> None:
    SymbolTree.create(Convolutions()).print_node_tabulate()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["node", "type", "name", "codes", "arg", "providers", "target",
                                "users"]
    assert " ".join(lines[2].split()) == (
        "NodeType.CallCell conv1 x = self.conv1(x) {0: ('input_x', 0)} {0: [('relu', 0)]}")
