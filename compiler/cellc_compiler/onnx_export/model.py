"""A traced graph as an ONNX model, and the model in files."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from cellc_runtime.dtypes import Array
from cellc_runtime.files import LEFT_SECONDS, write_atomically
from cellc_runtime.records import dataclass

from .. import __version__
from ..ir.dims import Dim, is_symbolic
from ..ir.graph import Graph
from ..ir.op import load_all
from ..ir.types import TensorType
from . import control, elementwise, neural, reductions, tensors
from .library import onnx
from .table import write_graph
from .writer import ExportError as ExportError
from .writer import Writer, onnx_type, tensor_proto

OPSETS = range(17, 22)
_IR_VERSIONS = {17: 8, 18: 8, 19: 9, 20: 9, 21: 10}
LIMIT = 1_900_000_000  # Bytes of weights that one file takes (protobuf ends at 2 GiB)
_SMALL = 1024
_PRODUCER = "cellc"
FAMILIES = (control, elementwise, neural, reductions, tensors)


@dataclass
class Model:
    """An ONNX model whose weights are arrays still."""

    proto: onnx.ModelProto  # the model, without initializers
    arrays: dict[str, Array]  # the initializers by name
    left_out: list[str]  # nodes that have no counterpart and change no result, with their places

    def note(self, key: str, text: str) -> None:
        """Add an entry to the model's metadata."""
        self.proto.metadata_props.add(key=key, value=text)

    def save(self, path: str | os.PathLike[str], limit: int = LIMIT) -> None:
        """Check the model and write it, whole or not at all.

        Weights of more than `limit` bytes go to a second file, `path` with a random text and
        `.data` added. The model has its name, so the rename of the model replaces both at once; the
        second file of the older model is then removed, and those of exports that were killed before
        that rename, `LEFT_SECONDS` later. Raises OSError if a file cannot be written; older ones
        are as they were.
        """
        path = Path(path)
        older = _data_of(path)
        apart = sum(a.nbytes for a in self.arrays.values()) > limit
        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        beside: dict[str, Array] = {}
        for name, array in self.arrays.items():
            if apart and array.nbytes > _SMALL:
                beside[name] = array
            else:
                proto.graph.initializer.append(tensor_proto(name, array))
        if not apart:
            onnx.checker.check_model(proto, full_check=True)
            write_atomically(path, [proto.SerializeToString()])
        else:
            data = path.with_name(f"{path.name}.{os.urandom(6).hex()}.data")
            proto.graph.initializer.extend(_located(beside, data.name))
            _check_beside(proto, path.name, data.name, sum(map(_room, beside.values())))
            try:
                write_atomically(data, _pieces(beside), next(iter(older), None))
                write_atomically(path, [proto.SerializeToString()])  # the commit point
            except BaseException:
                data.unlink(missing_ok=True)
                raise
        for file in older | _abandoned(path):
            file.unlink(missing_ok=True)


_ALIGNED = 64


def _data_of(path: Path) -> set[Path]:
    """The data files of the model at `path`, if it is one that `Model.save` wrote."""
    there = {f.name for f in path.parent.glob("*.data")
             if re.fullmatch(re.escape(path.name) + r"(\.[0-9a-f]{12})?\.data", f.name)}
    if not there or not path.is_file():
        return set()
    try:
        old = onnx.load_model(path, load_external_data=False)
    except Exception:  # of protobuf, which has its own kinds: it is no model
        return set()
    if old.producer_name != _PRODUCER:
        return set()
    used = {e.value for i in old.graph.initializer for e in i.external_data if e.key == "location"}
    return {path.with_name(name) for name in there & used}


def _abandoned(path: Path) -> set[Path]:
    """Data files that killed exports to `path` have left: no file of the folder names them. (A
    model that was renamed names its data file still.)"""
    own = re.compile(re.escape(path.name) + r"\.[0-9a-f]{12}\.data")
    found = {f for f in path.parent.iterdir() if own.fullmatch(f.name)
             and time.time() - f.stat().st_mtime > LEFT_SECONDS}
    for other in path.parent.iterdir() if found else ():
        if other.suffix != ".data" and other.is_file():
            found = {f for f in found if not _names(other, f.name.encode())}
    return found


def _names(file: Path, name: bytes) -> bool:
    """Whether a file contains a name, or cannot be read."""
    try:
        with file.open("rb") as stream:
            end = b""
            while block := stream.read(1 << 20):
                if name in (end := end + block):
                    return True
                end = end[-len(name):]
    except OSError:
        return True
    return False


def _located(arrays: Mapping[str, Array], file: str) -> Iterator[onnx.TensorProto]:
    at = 0
    for name, array in arrays.items():
        proto = tensor_proto(name, np.empty(0, array.dtype))
        proto.ClearField("raw_data")
        proto.dims[:] = array.shape
        proto.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", file), ("offset", at), ("length", array.nbytes)):
            proto.external_data.add(key=key, value=str(value))
        yield proto
        at += _room(array)


def _room(array: Array) -> int:
    return -(-array.nbytes // _ALIGNED) * _ALIGNED


def _check_beside(proto: onnx.ModelProto, name: str, data: str, size: int) -> None:
    """Check a model before its file of weights is written: an empty file replaces it."""
    with tempfile.TemporaryDirectory() as folder:
        with open(Path(folder) / data, "wb") as file:
            file.truncate(size)
        model = Path(folder) / name
        model.write_bytes(proto.SerializeToString())
        onnx.checker.check_model(str(model), full_check=True)


def _pieces(arrays: Mapping[str, Array]) -> Iterator[bytes | memoryview]:
    for array in arrays.values():
        yield np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        yield bytes(-array.nbytes % _ALIGNED)


def to_model(
    graph: Graph, weights: Mapping[str, Array], outputs: Sequence[str], opset: int
) -> Model:
    """A graph as an ONNX model.

    Args:
        graph: as it was traced (compositions not expanded).
        weights: the arrays of inputs that are no arguments, by name.
        opset: version of ONNX's op set, 17 to 21.

    Raises:
        ExportError: an op that ONNX has nothing for, or a network that changes parameters.
        ValueError: another `opset`.
    """
    if opset not in OPSETS:
        raise ValueError(
            f"ONNX's op set must be from {OPSETS[0]} to {OPSETS[-1]}, but got {opset!r}")
    load_all()
    _refuse_updates(graph)
    # Updates of generators go: what draws is refused where it does.
    graph = Graph(graph.name, graph.inputs, graph.nodes, graph.outputs)
    w = Writer(opset)
    names = [w.declare(w.name(v.name), v.dtype) for v in graph.inputs]
    wanted = [w.name(n) for n in outputs]
    arguments = [v for v in graph.inputs if v.kind == "input"]
    _sources(w, graph, names)
    results = write_graph(w, graph, names)
    for name, result in zip(wanted, results, strict=True):
        w.nodes.append(onnx.helper.make_node("Identity", [result], [name], name=w.name("output")))
    arrays = {v.name: weights[v.name] for v in graph.inputs if v.name in weights}
    arrays |= dict(w.constants.values())
    used = {n for node in w.nodes for n in _read(node)}
    inputs = [_info(v.type, w.of(v)) for v in arguments]
    out = [_info(v.type, n) for v, n in zip(graph.outputs, wanted, strict=True)]
    body = onnx.helper.make_graph(w.nodes, graph.name, inputs, out)
    proto = onnx.helper.make_model(
        body, producer_name=_PRODUCER, producer_version=__version__,
        ir_version=_IR_VERSIONS[opset],
        opset_imports=[onnx.helper.make_opsetid("", opset)])
    model = Model(proto, {n: a for n, a in arrays.items() if n in used}, w.left_out)
    if w.left_out:
        model.note("cellc.left_out", ", ".join(w.left_out))
    return model


def _refuse_updates(graph: Graph) -> None:
    changed = [v.name for v, _ in graph.updates if v.kind != "state"]
    if changed:
        raise ExportError("the network assigns "
                          f"{', '.join(changed[:3])}{', ...' if changed[3:] else ''}, and an ONNX "
                          "model has no state: export it as it infers (`net.set_train(False)`), or "
                          "give the new values back as results")


def _sources(w: Writer, graph: Graph, names: Sequence[str]) -> None:
    """Where each symbol of the arguments' sizes is read."""
    for value, name in zip(graph.inputs, names, strict=True):
        for axis, d in enumerate(value.type.shape):
            if type(d) is Dim and d.is_symbol and str(d) not in w.sources:
                w.sources[str(d)] = w.op("Shape", name, start=axis, end=axis + 1)


def _read(node: onnx.NodeProto) -> Iterator[str]:
    yield from node.input
    for attribute in node.attribute:
        if attribute.HasField("g"):
            for inner in attribute.g.node:
                yield from _read(inner)


def _info(ty: TensorType, name: str) -> onnx.ValueInfoProto:
    shape = [str(d) if is_symbolic(d) else int(d) for d in ty.shape]
    return onnx.helper.make_tensor_value_info(name, onnx_type(ty.dtype), shape)
