"""MindIR files that contradict themselves, or claim more than they hold: one clear error each."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn
from cellc_runtime.protobuf import field_of, number_of

from .test_reading import X, Y, argument, file, node, text

RELU = node("ReLU", "y", "x")


def weight(*fields: bytes, dims: tuple[int, ...] = (1,), code: int = 1, name: str = "w") -> bytes:
    return field_of(3, text(7, name) + text(13, "w") + b"".join(number_of(1, d) for d in dims)
                    + number_of(2, code) + b"".join(fields))


def special(op: str, *inputs: str) -> bytes:
    """A file with a node of a primitive of the graph itself."""
    return file(X, node(op, "y", *inputs), Y, primitives=(op,))


def called(name: str, op: str = "ReLU") -> bytes:
    """A graph that is called, of one input."""
    return field_of(8, text(2, name) + argument("a") + node(op, "b", "a") + argument("b", number=6))


ELEMENT = field_of(9, bytes(4))
LOADED: dict[str, tuple[bytes, str]] = {
    "two main graphs": (file(X, RELU, Y, more=field_of(7, text(2, "h"))), "two main graphs"),
    "primitives of one name": (file(X, RELU, Y, primitives=("ReLU", "ReLU")),
                               "two primitives have the name 'ReLU'"),
    "inputs of one name": (file(X, X, RELU, Y), "two inputs of the graph 'g' have one name"),
    "parameters of one name": (file(X, RELU, Y, weight(ELEMENT), weight(ELEMENT, name="v")),
                               "two parameters have the name 'w'"),
    "size of -3": (file(argument("x", 1, (-3,)), RELU, Y), "impossible shape"),
    "no output of a node": (file(X, field_of(1, text(1, "x") + text(4, "ReLU")), Y),
                            "has 0 outputs; every node has one"),
    "absolute": (file(X, RELU, Y, weight(field_of(12, text(1, "/etc/passwd")))),
                 "no path inside of the model's folder"),
    "negative place": (file(X, RELU, Y, weight(field_of(12, text(1, "q") + number_of(2, -4)))),
                       "has '-4' for a number"),
    "compressed": (file(X, RELU, Y, weight(number_of(16, 1), ELEMENT)), "is compressed"),
    "no elements": (file(X, RELU, Y, weight(dims=(1 << 40,))), "1099511627776 elements, but has 0"),
    "elements one by one": (file(X, RELU, Y, weight(field_of(3, bytes(4)))), "one by one"),
    "open shape": (file(X, RELU, Y, weight(ELEMENT, dims=(-1,))), "but the open shape"),
    "texts": (file(X, RELU, Y, weight(ELEMENT, code=8)), "elements of the type string"),
    "bool of 7": (file(X, RELU, Y, weight(field_of(9, b"\x07"), code=9)), "other than 0 and 1"),
    "long name": (file(X, node("ReLU", "y" * 5000, "x"), Y), "a name of 5000 bytes"),
    "no UTF-8": (file(X, field_of(1, field_of(1, b"\xff") + text(2, "y") + text(4, "ReLU")), Y),
                 "a name is not UTF-8"),
    "switch of two": (special("Switch", "x", "x"), "has 2 inputs; it must have 3"),
    "partial of none": (special("Partial"), "has 0 inputs; it must have 1 or more"),
    "item of nothing": (special("TupleGetItem", "x"), "has 1 input; it must have 2"),
    "load of nothing": (special("Load"), "has 0 inputs; it must have 1 or more"),
}
CALLED: dict[str, tuple[bytes, str]] = {
    "no inputs": (file(X, node("ReLU", "y"), Y), "it has 0 inputs, but its primitive takes 1"),
    "many inputs": (file(X, node("ReLU", "y", *["x"] * 9), Y), "it has 9 inputs, but its"),
    "constant without a value": (file(X, field_of(1, text(2, "c") + text(4, "Constant")),
                                      node("ReLU", "y", "c"), Y), "must be a Tensor"),
    "partial of a tensor": (special("Partial", "x"), "something that is no graph"),
    "item of a tensor": (special("TupleGetItem", "x", "x"), "it takes the element"),
    "call of a tensor": (file(X, node("x", "y", "x"), Y), "it calls something that is no graph"),
    "graph as a result": (file(X, RELU, argument("f", number=6), more=called("f")),
                          "its result is the graph 'f', which is no tensor"),
    "graph as an input": (file(X, node("ReLU", "y", "f"), Y, more=called("f")),
                          "must be a Tensor"),
    "too many values": (file(X, node("f", "y", "x", "x"), Y, more=called("f")),
                        "the graph 'f' takes 1 value, but is called with 2"),
}
MANY = 300_000


def constant(kind: int, piece: bytes) -> bytes:
    """A constant that has the same field many times."""
    return file(X, field_of(1, text(2, "c") + text(4, "Constant") + field_of(
        5, number_of(16, kind) + piece * MANY)), RELU, Y)


MADE: dict[str, tuple[bytes, str]] = {
    "graphs": (file(X, RELU, Y, more=b"".join(field_of(8, text(2, f"{k:x}"))
                                              for k in range(MANY))), "more than 100000 graphs"),
    "parameters": (file(X, RELU, Y, b"\x1a\x00" * MANY), "more than 100000 graphs and parameters"),
    "tuples": (constant(20, b"\x8a\x01\x00"), "a tuple of more than 100000 values"),
    "floats": (constant(1, b"\x42\x00"), ""),
    "unknown fields": (constant(1, b"\x7a\x00"), ""),
}


@pytest.mark.parametrize("name", LOADED)
def test_one_clear_error(name: str, tmp_path: Path) -> None:
    data, why = LOADED[name]
    (tmp_path / "m.mindir").write_bytes(data)
    with pytest.raises(RuntimeError, match=f"m.mindir cannot be read: .*{why}") as error:
        ms.load(str(tmp_path / "m.mindir"))
    assert str(error.value).isprintable() and len(str(error.value)) < 1000


@pytest.mark.parametrize("name", CALLED)
def test_calls_have_one_clear_error(name: str, tmp_path: Path) -> None:
    data, why = CALLED[name]
    (tmp_path / "m.mindir").write_bytes(data)
    net = nn.GraphCell(ms.load(str(tmp_path / "m.mindir")))
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        with pytest.raises((ValueError, TypeError), match=f"m.mindir.*{why}"):
            net(Tensor(np.ones(2, np.float32)))


@pytest.mark.parametrize("name", MADE)
def test_memory_is_bounded_by_the_file(name: str, tmp_path: Path) -> None:
    """At most 64 times the file, or what 100,000 parts take that are counted."""
    data, why = MADE[name]
    path = tmp_path / "m.mindir"
    path.write_bytes(data)
    tracemalloc.start()
    try:
        if why:
            with pytest.raises(RuntimeError, match=f"cannot be read: .*{why}"):
                ms.load(str(path))
        else:
            ms.load(str(path))
        room = 64 << 20 if why else 1 << 20
        assert tracemalloc.get_traced_memory()[1] < 64 * len(data) + room
    finally:
        tracemalloc.stop()
