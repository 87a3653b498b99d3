"""ONNX models that contradict themselves, or claim more than they hold: one clear error each."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn
from cellc_runtime.protobuf import field_of, number_of

onnx = pytest.importorskip("onnx")
from onnx import helper, numpy_helper  # noqa: E402

from .test_models import INT64, MODES, N, loaded, model, outputs_of, save, value  # noqa: E402

Make = Callable[[], Any]
ZERO = {"zero": np.float32(0)}


def neg(inputs: Sequence[Any] = (), **more: Any) -> Make:
    """A model of one sound node."""
    return lambda: model([N("Neg", ["x"], ["y"])], inputs or [value("x", [2])], ["y"], **more)


def nodes(*made: Any, outputs: Sequence[str] = ("y",), **more: Any) -> Make:
    return lambda: model(made, [value("x", [2])], outputs, **more)


def graph(made: Sequence[Any], outputs: Sequence[str], inputs: Sequence[Any] = ()) -> Any:
    return helper.make_graph(made, "b", inputs, [onnx.ValueInfoProto(name=o) for o in outputs])


def branches(then: Any, other: Any, *after: Any, outputs: Sequence[str] = ("y",)) -> Make:
    """A branch that the sum of `x` decides, and nodes after it."""
    return nodes(N("ReduceSum", ["x"], ["s"], keepdims=0), N("Greater", ["s", "zero"], ["c"]),
                 N("If", ["c"], ["y"], then_branch=then, else_branch=other), *after,
                 outputs=outputs, weights=ZERO)


PLAIN = graph([N("Abs", ["x"], ["q"])], ["q"])


def functions(*made: Any) -> Make:
    """A model that calls the function `F` of the domain `own`."""
    return lambda: model([N("F", ["x"], ["y"], domain="own")], [value("x", [2])], ["y"],
                         functions=made)


def function(name: str, *made: Any, inputs: Sequence[str] = ("a",), opset: int = 17) -> Any:
    return helper.make_function("own", name, inputs, ["b"], made, [
        helper.make_opsetid("", opset), helper.make_opsetid("own", 1)])


def laughs(levels: int, wide: int) -> Make:
    """Functions that call the one below them several times."""
    made = [function("F0", N("Neg", ["a"], ["b"]))]
    for k in range(1, levels):
        names = ["a", *(f"t{j}" for j in range(wide - 1)), "b"]
        made.append(function(f"F{k}" if k < levels - 1 else "F", *(
            N(f"F{k - 1}", [p], [q], domain="own")
            for p, q in pairwise(names))))
    return functions(*made)


def tensor(**fields: Any) -> Make:
    """`x` plus a tensor with these fields of its protobuf."""
    def make() -> Any:
        proto = model([N("Add", ["x", "w"], ["y"])], [value("x", [2])], ["y"])
        proto.graph.initializer.add(**{"name": "w", "data_type": 1, "dims": [2]} | fields)
        return proto

    return make


def external(**entries: str) -> Make:
    def make() -> Any:
        proto = tensor(data_location=1)()
        for key, text in entries.items():
            proto.graph.initializer[0].external_data.add(key=key, value=text)
        return proto

    return make


def sparse() -> Any:
    ones, at = (numpy_helper.from_array(np.ones(1, t), "v") for t in (np.float32, np.int64))
    return model([N("Constant", [], ["y"], sparse_value=helper.make_sparse_tensor(ones, at, [3]))],
                 [], ["y"])


def stray() -> Any:
    proto = nodes(N("Elu", ["x"], ["y"]))()
    proto.graph.node[0].attribute.add(name="alpha", ref_attr_name="slope", type=1)
    return proto


def declared(shape: list[int], code: int = 1) -> Make:
    """An initializer that an input of another type or shape declares."""
    return lambda: model([N("Add", ["x", "w"], ["y"])], [value("x", [2]), value("w", shape, code)],
                         ["y"], {"w": np.ones(2, np.float32)})


BAD: dict[str, tuple[Make, str]] = {
    # graphs and names
    "reads itself": (nodes(N("Neg", ["y"], ["y"])), "reads 'y', which comes later"),
    "circle through a branch": (branches(graph([N("Neg", ["y"], ["q"])], ["q"]), PLAIN),
                                "reads 'y', which nothing gives"),
    "branch reads a later name": (
        branches(PLAIN, graph([N("Neg", ["late"], ["q"])], ["q"]), N("Neg", ["x"], ["late"])),
        "reads 'late', which nothing gives"),
    "name of a branch read outside": (
        branches(graph([N("Neg", ["x"], ["in"]), N("Neg", ["in"], ["q"])], ["q"]), PLAIN,
                 N("Neg", ["in"], ["z"]), outputs=["y", "z"]), "reads 'in', which nothing gives"),
    "branch with inputs": (branches(graph([N("Neg", ["k"], ["q"])], ["q"], [value("k", [2])]),
                                    PLAIN), "a branch that takes 'k': branches have no inputs"),
    "branches without outputs": (branches(graph([], []), graph([], [])), "its op gives 0"),
    "outputs of one name": (nodes(N("Split", ["x"], ["y", "y"])), "gives 'y', a name that is"),
    "inputs of one name": (neg([value("x", [2]), value("x", [3])]), "two inputs have one name"),
    "gives an input": (nodes(N("Neg", ["x"], ["x"]), outputs=["x"]), "gives 'x', a name that is"),
    "control in an operator": (nodes(N("Neg\x1b[31m", ["x"], ["y"])), "control characters"),
    "control in a domain": (nodes(N("Neg", ["x"], ["y"], domain="a\nb")), "control characters"),
    "control in an attribute": (nodes(N("Neg", ["x"], ["y"], **{"a\tb": 1})), "control characters"),
    "control in a size": (neg([value("x", ["n\r"])]), "control characters"),
    "turned writing": (neg([value("x\u202e", [2])]), "control characters"),
    "long name": (nodes(N("N" * 5000, ["x"], ["y"])), "a name of 5000 bytes; 4096 are the most"),
    "many inputs of a node": (nodes(N("Sum", ["x"] * 250_000, ["y"])), "more than 200000 nodes"),
    # versions and functions
    "op set 0": (neg(opset=0), "op set 0"),
    "op set below 0": (neg(opset=-1), "op set -1"),
    "op set of a function": (functions(function("F", N("Neg", ["a"], ["b"]), opset=99)),
                             "the function own::F needs ONNX's op set 99"),
    "domain": (nodes(N("Neg", ["x"], ["y"], domain="com.other")), "com.other::Neg"),
    "function twice": (functions(*(function("F", N(op, ["a"], ["b"])) for op in ("Neg", "Abs"))),
                       "the function 'F' is there twice"),
    "recursion over two": (functions(function("F", N("H", ["a"], ["b"], domain="own")),
                                     function("H", N("F", ["a"], ["b"], domain="own"))),
                           "the function 'F' calls itself"),
    "recursion in a branch": (functions(function(
        "F", N("ReduceSum", ["a"], ["s"], keepdims=0), N("Cast", ["s"], ["c"], to=9),
        N("If", ["c"], ["b"], then_branch=graph([N("F", ["a"], ["q"], domain="own")], ["q"]),
          else_branch=graph([N("Neg", ["a"], ["q"])], ["q"])))), "the function 'F' calls itself"),
    "function reads names outside": (functions(function("F", N("Add", ["a", "x"], ["b"]))),
                                     "reads 'x', which nothing gives"),
    "inputs of a function": (functions(function("F", N("Neg", ["a"], ["b"]), inputs=("a", "a"))),
                             "two inputs of the function own::F have one name"),
    "output of a function": (functions(function("F", N("Neg", ["a"], ["c"]))),
                             "output 'b' of the function own::F is given by no node"),
    "attribute of no call": (stray, "takes an attribute from a function's call, but is in no"),
    "functions that multiply": (laughs(8, 10), "functions call each other too often"),
    # tensors
    "elements that are not there": (tensor(dims=[1 << 40]), "needs 1099511627776 elements, but"),
    "sizes beyond 64 bits": (tensor(dims=[1 << 62] * 2, raw_data=bytes(8)), "but has 8"),
    "sizes that wrap to nothing": (tensor(dims=[1 << 32] * 2, raw_data=b""), "but has 0"),
    "negative size": (tensor(dims=[-2], raw_data=bytes(8)), "impossible shape"),
    "no elements, huge": (tensor(dims=[0, 1 << 62, 1 << 62], raw_data=b""), "impossible shape"),
    "65 axes": (tensor(dims=[1] * 65, raw_data=bytes(4)), "impossible shape"),
    "texts": (tensor(data_type=8, string_data=[b"a", b"b"]), "elements of the type string"),
    "type 999": (tensor(data_type=999, raw_data=bytes(8)), "elements of the type 999"),
    "bytes of half an element": (tensor(raw_data=bytes(7)), "needs 8 bytes of float32, but has 7"),
    "field of another type": (tensor(data_type=7, float_data=[1, 2]), "2 elements, but has 0"),
    "elements twice": (tensor(raw_data=bytes(8), float_data=[1, 2]), "has its elements twice"),
    "int8 of 300": (tensor(data_type=3, int32_data=[300, 0]), "that do not fit int8"),
    "bool of 7": (tensor(data_type=9, raw_data=b"\x07\x00"), "bytes other than 0 and 1"),
    "sparse": (sparse, "sparse"),
    "input of another shape": (declared([5]), "declared as an input of another shape or type"),
    "input of another type": (declared([2], INT64), "declared as an input of another shape"),
    "too large an input": (neg([value("x", [1 << 62] * 2)]), "more than 128 TiB"),
    # external data
    "through a folder that is a link": (external(location="sub/hostname"), "a link out of the"),
    "of a folder": (external(location="own"), "is not there, or no plain file"),
    "with a backslash": (external(location="..\\w.bin"), "no path inside of the model's folder"),
    "at a negative place": (external(location="w.bin", offset="-4"), "has '-4' for a number"),
    "beyond the end": (external(location="w.bin", offset="12", length="8"), "bytes 12 to 20 of 16"),
    "of another length": (external(location="w.bin", length="12"), "needs 8 bytes of float32, but"),
    "without a place": (external(), "no path inside of the model's folder"),
    # values
    "step of 0": (nodes(N("Range", ["a", "b", "a"], ["y"]), weights={
        "a": np.float32(0), "b": np.float32(5)}), "the step of the range is 0"),
    "a result beyond memory": (nodes(N("ConstantOfShape", ["n"], ["y"]), weights={
        "n": np.array([1 << 40] * 2)}), "more than 128 TiB"),
}


@pytest.mark.parametrize("name", BAD)
def test_one_clear_error(name: str, tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(16))
    (tmp_path / "own").mkdir()
    os.symlink("/etc", tmp_path / "sub")
    make, why = BAD[name]
    with pytest.raises(RuntimeError, match=f"cannot be read: .*{why}") as error:
        ms.load(save(make(), tmp_path / "m.onnx"))
    assert str(error.value).isprintable() and len(str(error.value)) < 1000


# --- files as bytes -------------------------------------------------------------------------------

X = field_of(11, field_of(1, b"x") + field_of(2, field_of(1, number_of(1, 1) + field_of(
    2, field_of(1, number_of(1, 2))))))
Y = field_of(12, field_of(1, b"y"))
SOUND = field_of(1, field_of(1, b"x") + field_of(2, b"y") + field_of(4, b"Neg")) + X + Y
MANY = 300_000
PARTS = "more than 200000 functions"


def whole(parts: bytes, more: bytes = b"") -> bytes:
    return number_of(1, 8) + field_of(7, parts) + field_of(8, number_of(2, 17)) + more


def with_attribute(kind: int, piece: bytes) -> bytes:
    """A node with an attribute that has the same field many times."""
    attribute = field_of(5, field_of(1, b"a") + number_of(20, kind) + piece * MANY)
    node = field_of(1, field_of(1, b"x") + field_of(2, b"y") + field_of(4, b"Neg") + attribute)
    return whole(node + X + Y)


MADE: dict[str, tuple[bytes, str]] = {
    "two graphs": (whole(SOUND, field_of(7, SOUND)), "two main graphs"),
    "two op sets": (whole(SOUND, field_of(8, number_of(2, 9))), "two op sets of the domain ''"),
    "no version": (field_of(7, SOUND), "it has no version"),
    "no UTF-8": (whole(field_of(1, field_of(1, b"\xff\xfe") + field_of(4, b"Neg")) + X + Y),
                 "a name is not UTF-8"),
    "graphs": (with_attribute(10, b"\x5a\x00"), PARTS),
    "tensors": (with_attribute(9, b"\x52\x00"), PARTS),
    "texts": (with_attribute(8, b"\x4a\x00"), PARTS),
    "floats": (with_attribute(6, b"\x3a\x00"), ""),
    "unknown fields": (with_attribute(2, b"\x7a\x00"), ""),
    "elements": (whole(field_of(5, number_of(1, 2) + number_of(2, 1) + field_of(8, b"w")
                                + b"\x22\x00" * MANY) + SOUND), "2 elements, but has 0"),
    "outputs": (whole(SOUND + b"\x62\x00" * MANY), "the output '' of the graph is given by no"),
    "functions": (whole(SOUND, b"".join(field_of(25, field_of(1, b"%x" % k))
                                        for k in range(MANY))), PARTS),
    "axes": (whole(field_of(5, b"\x08\x01" * MANY + field_of(8, b"w")) + SOUND), "impossible"),
}


@pytest.mark.parametrize("name", MADE)
def test_memory_is_bounded_by_the_file(name: str, tmp_path: Path) -> None:
    """At most 64 times the file, or what 200,000 parts take that are counted."""
    data, why = MADE[name]
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    tracemalloc.start()
    try:
        if why:
            with pytest.raises(RuntimeError, match=f"cannot be read: .*{why}"):
                ms.load(str(path))
        else:
            ms.load(str(path))
        room = 48 << 20 if why == PARTS else 1 << 20
        assert tracemalloc.get_traced_memory()[1] < 64 * len(data) + room
    finally:
        tracemalloc.stop()


# --- calls ----------------------------------------------------------------------------------------


def test_sizes_of_different_names_stay_different(tmp_path: Path) -> None:
    """Names that are one after odd characters are replaced."""
    net = loaded(model([N("Neg", ["x"], ["y"]), N("Neg", ["z"], ["v"])],
                       [value("x", ["a-b"]), value("z", ["a_b"])], ["y", "v"]), tmp_path)
    net.set_inputs(*(ms.Tensor(shape=[None], dtype=ms.float32) for _ in "xz"))
    y, v = outputs_of(net, np.ones(2, np.float32), np.ones(3, np.float32))
    assert (y.shape, v.shape) == ((2,), (3,))
    assert len({str(t.dims[0]) for t in net.argument_types}) == 2


@pytest.mark.parametrize("op", ["Add", "Max", "Equal", "Gather"])
def test_large_results_are_not_worked_out_while_loading(op: str, tmp_path: Path) -> None:
    """A vector and a column of known numbers: a thousand million elements from 300 bytes."""
    made = [N("ConstantOfShape", ["n"], ["a"]), N("Cast", ["a"], ["i"], to=INT64),
            N("Unsqueeze", ["i", "one"], ["b"]),
            N(op, ["b", "i"], ["c"], **({"axis": 1} if op == "Gather" else {})),
            N("Shape", ["c"], ["y"])]
    path = save(model(made, [], ["y"], {"n": np.array([32000]), "one": np.array([1])}),
                tmp_path / "m.onnx")
    tracemalloc.start()
    try:
        ms.load(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 25
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("mode", MODES)
def test_results_beyond_memory(mode: int, tmp_path: Path) -> None:
    ms.set_context(mode=mode)
    net = loaded(model([N("ConstantOfShape", ["n"], ["a"]), N("Add", ["x", "a"], ["y"])],
                       [value("x", [1])], ["y"], {"n": np.array([1 << 44])}), tmp_path)
    with pytest.raises(ValueError, match=r"needs \d+ bytes, .*the op 'broadcast_to'"):
        net(ms.ops.ones((1,), ms.float32))


def test_a_graph_cell_of_a_sound_model_still_runs(tmp_path: Path) -> None:
    """The model that the bad ones are made of."""
    (tmp_path / "m.onnx").write_bytes(whole(SOUND))
    net = nn.GraphCell(ms.load(str(tmp_path / "m.onnx")))
    assert outputs_of(net, np.array([1, -2], np.float32))[0].tolist() == [-1, 2]
