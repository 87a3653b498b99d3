"""A small ONNX model, written and changed field by field, without the library `onnx`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import cellc as ms
from cellc import nn
from cellc.compiled.traced import trace
from cellc.tensors.tensor import OpenTensor
from cellc_compiler.ir.dims import is_symbolic
from cellc_runtime.protobuf import Message, field_of, number_of, varint

Rng = np.random.Generator
Fields = list[tuple[int, "int | bytes"]]
_HOSTILE = (0, 1, 2, 3, 7, 10, 16, 22, 255, 2**31, 2**40, 2**62, 2**64 - 1, 2**64 - 3)


def _text(number: int, text: str) -> bytes:
    return field_of(number, text.encode())


def _attr(name: str, kind: int, content: bytes) -> bytes:
    return field_of(5, _text(1, name) + content + _written([(20, kind)]))


def _ints(name: str, *values: int) -> bytes:
    return _attr(name, 7, b"".join(number_of(8, v) for v in values))


def _node(op: str, inputs: str, outputs: str, *attrs: bytes, domain: str = "") -> bytes:
    names = b"".join(_text(1, n) for n in inputs.split(",") if n != "-")
    names += b"".join(_text(2, n) for n in outputs.split(","))
    return field_of(1, names + _text(4, op) + b"".join(attrs) + _text(7, domain))


def _value(number: int, name: str, code: int, *dims: int | str) -> bytes:
    shape = b"".join(field_of(1, number_of(1, d) if isinstance(d, int) else _text(2, d))
                     for d in dims)
    kind = field_of(1, number_of(1, code) + field_of(2, shape))
    return field_of(number, _text(1, name) + field_of(2, kind))


def _tensor(name: str, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> bytes:
    code = {"f": 1, "i": 7, "b": 9}[array.dtype.kind]
    dims = b"".join(number_of(1, d) for d in array.shape)
    return dims + number_of(2, code) + _text(8, name) + field_of(9, array.tobytes())


def model() -> bytes:
    """The sample: a convolution, shapes, a loop, a branch, a function."""
    f, i = np.float32, np.int64
    weights = {
        "w": np.ones((2, 3, 3, 3), f), "b": np.zeros(2, f), "z": np.array(0, i),
        "m": np.array([-1], i), "a0": np.array([0], i), "trips": np.array(3, i),
        "yes": np.array(True), "scales": np.array([1, 1, 2, 2], f), "u": np.ones((8, 4), f),
        "g": np.ones(2, f),
    }
    body = (_node("Add", "v,v", "v2") + _node("Identity", "go", "go2")
            + _value(11, "i", 7) + _value(11, "go", 9) + _value(11, "v", 1, "n", 2)
            + _value(12, "go2", 9) + _value(12, "v2", 1))
    then = _node("Neg", "k", "t") + _value(12, "t", 1)
    other = _node("Abs", "k", "o") + _value(12, "o", 1)
    nodes = [
        _node("Conv", "x,w,b", "c", _ints("pads", 1, 1, 1, 1), _ints("strides", 2, 2)),
        _node("BatchNormalization", "c,g,b,b,g", "n0"), _node("Relu", "n0", "r"),
        _node("MaxPool", "r", "p", _ints("kernel_shape", 2, 2)),
        _node("Resize", "p,,scales", "q"),
        _node("GlobalAveragePool", "q", "h"), _node("Shape", "h", "s"),
        _node("Gather", "s,z", "n"), _node("Unsqueeze", "n,a0", "n1"),
        _node("Concat", "n1,m", "to", _attr("axis", 2, number_of(3, 0))),
        _node("Reshape", "h,to", "f"),
        _node("Loop", "trips,yes,f", "k", _attr("body", 5, field_of(6, body))),
        _node("ReduceSum", "k", "total", _attr("keepdims", 2, number_of(3, 0))),
        _node("Cast", "total", "cond", _attr("to", 2, number_of(3, 9))),
        _node("If", "cond", "e", _attr("then_branch", 5, field_of(6, then)),
              _attr("else_branch", 5, field_of(6, other))),
        _node("Twice", "e", "y", domain="own"),
        _node("LSTM", "seq,lw,lr", "l", _attr("hidden_size", 2, number_of(3, 2))),
        _node("QuantizeLinear", "l,qs", "yq"),
    ]
    weights |= {"lw": np.ones((1, 8, 3), f), "lr": np.ones((1, 8, 2), f), "qs": np.array(0.1, f)}
    graph = b"".join(nodes) + _text(2, "sample") + b"".join(
        field_of(5, _tensor(k, v)) for k, v in weights.items())
    graph += _value(11, "x", 1, "batch", 3, 8, 8) + _value(11, "seq", 1, 4, 1, 3)
    graph += _value(12, "y", 1, "batch", 2) + _value(12, "yq", 2)
    opsets = field_of(8, _text(1, "") + number_of(2, 17)) + field_of(
        8, _text(1, "own") + number_of(2, 1))
    function = (_text(1, "Twice") + _text(4, "p") + _text(5, "q")
                + field_of(7, _node("Add", "p,p", "q")[2:]) + _text(10, "own")
                + field_of(9, _text(1, "") + number_of(2, 17)))
    return number_of(1, 8) + field_of(7, graph) + opsets + _written([(25, function)])


def read(path: Path) -> None:
    """Load the model and trace it, with numbers for open sizes."""
    net = nn.GraphCell(ms.load(str(path)))
    types = [ty.with_shape(2 if is_symbolic(d) else d for d in ty.shape)
             for ty in net.argument_types]
    trace(net, [OpenTensor.of(ty) for ty in types], {}, types)


# --- changes --------------------------------------------------------------------------------------


def _fields(data: bytes) -> Fields | None:
    """The fields of a message; None if the bytes are none."""
    try:
        return [(n, c if isinstance(c, int) else bytes(c)) for n, c in Message(
            memoryview(data), "sample").fields()]
    except ValueError:
        return None


def _written(fields: Fields) -> bytes:
    return b"".join(varint(n << 3) + varint(c) if isinstance(c, int) else
                    varint(n << 3 | 2) + varint(len(c)) + c for n, c in fields)


def remade(data: bytes, rng: Rng, depth: int = 0) -> bytes:
    """A message of which one field, somewhere inside, is another, gone, or there twice."""
    fields = _fields(data)
    if not fields:
        return data
    at = int(rng.integers(len(fields)))
    number, content = fields[at]
    inner = _fields(content) if isinstance(content, bytes) and len(content) > 2 else None
    if inner and depth < 12 and rng.random() < 0.85:
        assert isinstance(content, bytes)
        fields[at] = number, remade(content, rng, depth + 1)
        return _written(fields)
    match int(rng.integers(6)):
        case 0:
            del fields[at]
        case 1:
            fields.insert(int(rng.integers(len(fields) + 1)), fields[at])
        case 2:
            other = int(rng.integers(len(fields)))
            fields[at], fields[other] = fields[other], fields[at]
        case 3:
            fields[at] = int(rng.integers(1, 26)), content
        case 4 if isinstance(content, bytes):
            words = [c for _, c in fields if isinstance(c, bytes)]
            fields[at] = number, words[int(rng.integers(len(words)))]
        case _:
            fields[at] = number, _HOSTILE[int(rng.integers(len(_HOSTILE)))] if isinstance(
                content, int) else content[: int(rng.integers(len(content) + 1))]
    return _written(fields)
