"""The formats of files that cellc reads: what writes a whole one, and what reads it."""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import cellc as ms
import cellc_runtime
from cellc import Tensor, nn
from cellc.cli import inspecting, loading
from cellc.compiled import dynamic, traced
from cellc.ranks import strategies
from cellc.ranks.layouts import PartLayout
from cellc.records.tfrecord import framed
from cellc.testing.cases import Case, load_case
from cellc.train.parts import Manifest
from cellc_compiler import open_sizes
from cellc_compiler.hybrid import python
from cellc_compiler.interpret import run
from cellc_compiler.ir.binary import graph_from_bytes, graph_to_bytes
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.text import parse_graph, print_graph
from cellc_compiler.ir.types import TensorType
from cellc_compiler.ir.verify import verify
from cellc_runtime import artifact, dtypes
from cellc_runtime.cache import Cache, make_key
from cellc_runtime.program import Program
from cellc_runtime.protobuf import field_of, number_of

from ...dataset import folders
from ...dataset.test_records import example
from ...runtime.helpers import add_program
from . import onnx_sample
from .damage import reformed, requeried, retold
from .graphs import enclosed
from .growing import network


@dataclass(frozen=True)
class Format:
    """A kind of file.

    Attributes:
        name: of the file that is damaged.
        write: write all files of it into a folder.
        read: read them there, and do all that reading reaches without running code.
        sealed: whether it is a container, whose sections have hashes.
        hashed: whether no damaged file may be read.
        mutate: changes the structure of a file that is no container.
    """

    name: str
    write: Callable[[Path], Any]
    read: Callable[[Path], Any]
    sealed: bool = False
    hashed: bool = False
    mutate: Callable[[bytes, np.random.Generator], bytes] | None = None

    @property
    def named(self) -> bool:
        """Whether reading knows the file's name, so that errors say it."""
        return self.name not in {"program", "graph", "text", "cached", "strategy.ckpt",
                                 "strategy.json"}  # (errors of these name the parameter)


# --- networks, programs and graphs --------------------------------------------------------------


def _net() -> nn.Cell:
    ms.set_seed(1)
    return nn.SequentialCell(nn.Dense(3, 4), nn.ReLU(), nn.Dense(4, 2))


def _portable(path: Path) -> None:
    ms.export(_net(), Tensor(np.ones((1, 3), np.float32)), file_name=str(path),
              file_format="CIR")


def _mindir(path: Path) -> None:
    ms.export(_net(), Tensor(np.ones((1, 3), np.float32)), file_name=str(path),
              file_format="MINDIR")


def _stored(name: str) -> Callable[[Path], Any]:
    """A MindIR file that MindSpore wrote."""
    return lambda path: path.write_bytes((_MINDIR / f"{name}.mindir").read_bytes())


_MINDIR = Path(__file__).parents[2] / "mindir" / "data"


def _case(path: Path) -> None:
    graph = Graph("case")
    x = graph.add_input(TensorType((2, 3), dtypes.float32), "x")
    b = Builder(graph)
    graph.outputs = [b.pad(b.tanh(x), low=(1, 0), high=(0, 2))]
    Case(graph, [np.ones((2, 3), np.float32)]).save(str(path))


def _case_text(path: Path) -> None:
    graph = _grown(7)
    Case(graph, [np.ones(v.type.dims, v.type.dtype.numpy) for v in graph.inputs]).save(str(path))


_KERNEL = """def turn(a):
    c = output_tensor(a.shape, a.dtype)
    for i, j in grid(a.shape):
        k = 0
        while k < 3:
            c[i, j] = FACTOR * a[i, j] + c[i, j]
            k += 1
    return c
"""


def _kernel(path: Path) -> None:
    graph = Graph("kernel")
    x = graph.add_input(TensorType((2, 3), dtypes.float32), "x")
    graph.outputs = [Builder(graph).node("custom_kernel", [x], {
        "text": _KERNEL, "constants": (("FACTOR", 3),)}).results[0]]
    Case(graph, [np.ones((2, 3), np.float32)]).save(str(path))


def _kernel_read(path: Path) -> None:
    """Reads the case, and runs the reference of its graph where that is allowed."""
    case = load_case(str(path))
    assert case.graph is not None
    before, python.MOST_TRIPS = python.MOST_TRIPS, 1 << 12
    try:
        run(case.graph, case.arrays)
    except (ArithmeticError, LookupError, NameError, TypeError) as error:  # of the kernel's own
        raise ValueError(f"the kernel of {path.stem} fails") from error
    except ValueError as error:
        raise ValueError(f"{path.stem}: {error}") from error
    finally:
        python.MOST_TRIPS = before


def _artifact(path: Path) -> None:
    artifact.save(path, {"infer": artifact.Entry([add_program(kind="param")], ["graph"])},
                  {"b": np.full(8, 2, np.float32)}, {"by": "a test"})


def _artifact_read(path: Path) -> None:
    model = cellc_runtime.load(str(path))
    for name in model.entries:
        model.graph_text(name)
        model.programs(name)


def _open_program(path: Path) -> None:
    """A program for all sizes, of a network with temporaries and guards."""
    pattern = dynamic.make_pattern(
        [TensorType((3, 8), dtypes.float32)], ["x"], {0: (None, 8)}, True)
    net = nn.SequentialCell(nn.Dense(8, 40), nn.Softmax(0), nn.Dense(40, 3))
    call = traced.trace(net, [Tensor(np.ones((3, 8), np.float32))], {}, pattern.types,
                        pattern.shapes)
    path.write_bytes(open_sizes.compile_open(call.graph, pattern.shapes).to_bytes())


def _grown(number: int) -> Graph:
    """A graph of many ops and regions."""
    return enclosed(network(number, most=8), 2)


def _text_read(path: Path) -> None:
    graph = parse_graph(path.read_bytes().decode("utf-8", "replace"))
    verify(graph)
    if print_graph(parse_graph(print_graph(graph))) != print_graph(graph):
        raise AssertionError("the text of a graph is not that of the graph it is read as")


_KEY, _PAYLOAD = make_key("fuzz"), bytes(range(256)) * 4


def cache_file(folder: Path) -> Cache:
    """A cache of its own."""
    folder.chmod(0o700)
    return Cache(folder, 1 << 20)


def _cached(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = cache_file(Path(folder))
        store.put(_KEY, _PAYLOAD)
        path.write_bytes(next(Path(folder).rglob("*.bin")).read_bytes())


def _cached_read(path: Path) -> None:
    """A damaged entry is none."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        store = cache_file(Path(folder))
        store.put(_KEY, _PAYLOAD)
        next(Path(folder).rglob("*.bin")).write_bytes(path.read_bytes())
        found = store.get(_KEY)
    if found is None:
        raise ValueError("no entry")
    if found != _PAYLOAD:
        raise AssertionError("the cache gives what was not stored")


# --- of several ranks ---------------------------------------------------------------------------


def _layouts() -> strategies.Strategy:
    return strategies.made_of({"a.weight": PartLayout((2, 2), ((0,), (1,))),
                               "b": PartLayout((4,), ((0,),))})


def _manifest(path: Path) -> None:
    path.write_text(json.dumps({
        "kind": "cellc checkpoint of several ranks", "version": 1,
        "layouts": {"a": PartLayout((2, 2), ((0,), (1,))).as_json()},
        "parts": [{"file": f"part{i}.ckpt", "bytes": 10 * i, "crc32": i, "format": "ckpt"}
                  for i in range(2)]}))


def _manifest_read(path: Path) -> None:
    found = Manifest(str(path))
    if found.missing() == []:
        raise AssertionError("parts that nobody has written are there")


# --- data ---------------------------------------------------------------------------------------


def _rows(dataset: Any) -> Any:
    return list(dataset.create_tuple_iterator(output_numpy=True, num_epochs=1))


def _tfrecord(path: Path) -> None:
    rows = [{"label": [i], "vec": [1.5 * i, 2.0], "img": [bytes([65 + i]) * (i + 1)]}
            for i in range(3)]
    path.write_bytes(b"".join(framed(example(row)) for row in rows))


def _mindrecord(path: Path) -> None:
    writer = ms.mindrecord.FileWriter(str(path), 1, True)
    writer.set_header_size(1 << 14)
    writer.set_page_size(1 << 15)
    writer.add_schema({"label": {"type": "int32"}, "data": {"type": "bytes"}})
    writer.write_raw_data([{"label": i, "data": bytes([i]) * 20} for i in range(5)])
    writer.commit()


def _digits(path: Path) -> None:
    """Three images of 28 x 28 and their labels, `path` being one of the two files."""
    for name, magic, values in (
            ("train-images-idx3-ubyte", 0x803, np.arange(3 * 784).reshape(3, 28, 28) % 251),
            ("train-labels-idx1-ubyte", 0x801, np.arange(3))):
        path.with_name(name).write_bytes(
            struct.pack(f">{1 + values.ndim}i", magic, *values.shape)
            + values.astype(np.uint8).tobytes())


_BOXES = {
    "images": [{"id": 1, "file_name": "sample.png", "height": 2, "width": 2}],
    "annotations": [{"id": 7, "image_id": 1, "category_id": 3, "bbox": [0, 0, 1, 1], "iscrowd": 0,
                     "area": 1.0, "segmentation": [[0, 0, 1, 0, 1, 1]]}],
    "categories": [{"id": 3, "name": "cat"}],
}


def _coco(path: Path) -> None:
    path.with_name("sample.png").write_bytes(folders.png(10))
    path.with_name("boxes.json").write_text(json.dumps(_BOXES))


def _things(path: Path) -> None:
    """A picture and what is in it, as Pascal VOC has it."""
    path.write_text("<annotation><object><name>cat</name><difficult>0</difficult><bndbox>"
                    "<xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2.5</ymax></bndbox></object>"
                    "</annotation>")


def _things_read(path: Path) -> Any:
    for name in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (path.parent / name).mkdir(parents=True, exist_ok=True)
    (path.parent / "JPEGImages/one.jpg").write_bytes(folders.png(10))
    (path.parent / "ImageSets/Main/train.txt").write_text("one\n")
    (path.parent / "Annotations/one.xml").write_bytes(path.read_bytes())
    return _rows(ms.dataset.VOCDataset(str(path.parent), "Detection", decode=True))


def _columns(path: Path) -> None:
    path.write_text(json.dumps({"datasetType": "TF", "numRows": 3, "columns": {
        "label": {"type": "int64", "rank": 1, "t_impl": "flex"},
        "vec": {"type": "float32", "rank": 1, "shape": [2]}}}))


def _lines(*lines: str) -> Callable[[Path], Any]:
    return lambda path: path.write_text("".join(line + "\n" for line in lines))


def _settings(path: Path) -> None:
    """The settings of data sets; what was set before stays set."""
    config = ms.dataset.config
    before = (config.get_seed(), config.get_num_parallel_workers(), config.get_prefetch_size(),
              config.get_callback_timeout(), config.get_monitor_sampling_interval())
    try:
        config.load(str(path))
    finally:
        for put, value in zip((config.set_seed, config.set_num_parallel_workers,
                               config.set_prefetch_size, config.set_callback_timeout,
                               config.set_monitor_sampling_interval), before, strict=True):
            put(value)


_DATA: Mapping[str, Format] = {
    "mindrecord": Format("sample.mindrecord", _mindrecord,
                         lambda p: _rows(ms.dataset.MindDataset(str(p)))),
    "mindrecord index": Format(
        "sample.mindrecord.db", lambda p: _mindrecord(p.with_suffix("")),
        lambda p: _rows(ms.dataset.MindDataset(str(p.with_suffix("")))), mutate=requeried),
    "tfrecord": Format("sample.tfrecord", _tfrecord, lambda p: _rows(
        ms.dataset.TFRecordDataset(str(p), shuffle=False))),
    "schema": Format("schema.json", _columns, lambda p: ms.dataset.Schema(str(p))),
    "images": Format("train-images-idx3-ubyte", _digits, lambda p: _rows(
        ms.dataset.MnistDataset(str(p.parent), shuffle=False))),
    "labels": Format("train-labels-idx1-ubyte", _digits, lambda p: _rows(
        ms.dataset.MnistDataset(str(p.parent), shuffle=False))),
    "boxes": Format("boxes.json", _coco, lambda p: _rows(
        ms.dataset.CocoDataset(str(p.parent), str(p), task="Detection", decode=True))),
    "picture": Format("sample.png", _coco, lambda p: _rows(ms.dataset.CocoDataset(
        str(p.parent), str(p.with_name("boxes.json")), task="Detection", decode=True))),
    "things": Format("things.xml", _things, _things_read),
    "csv": Format("sample.csv", _lines("1,2.5,a", '3,4.5,"b, c"', "5,6.5,d"), lambda p: _rows(
        ms.dataset.CSVDataset(str(p), column_defaults=[0, 0.0, ""], shuffle=False))),
    "vocabulary": Format("words.txt", _lines("a", "b", "c"),
                         lambda p: ms.dataset.text.Vocab.from_file(str(p))),
    "vectors": Format("words.vec", _lines("2 2", "a 1.5 2", "b 3 -4e2"),
                      lambda p: ms.dataset.text.FastText.from_file(str(p))),
    "settings": Format("settings.json", _lines(json.dumps(
        {"seed": 5, "numParallelWorkers": 1, "prefetchSize": 4, "callbackTimeout": 60})),
        _settings),
    "array": Format("sample.npz", lambda p: np.savez(p, x=np.arange(6.0).reshape(2, 3)),
                    lambda p: loading._load_array(str(p), "x")),
}

FORMATS: Mapping[str, Format] = {
    "checkpoint": Format("sample.ckpt", lambda p: ms.save_checkpoint(_net(), str(p)),
                         lambda p: ms.load_checkpoint(str(p))),
    "safetensors": Format("sample.safetensors",
                          lambda p: ms.save_checkpoint(_net(), str(p), format="safetensors"),
                          lambda p: ms.load_checkpoint(str(p), format="safetensors")),
    "portable": Format("sample.cir", _portable, lambda p: ms.load(str(p)), sealed=True,
                       hashed=True),
    "mindir": Format("sample.mindir", _mindir, onnx_sample.read,
                     mutate=onnx_sample.remade),
    **{f"mindir {what}": Format("sample.mindir", _stored(name), onnx_sample.read,
                                mutate=onnx_sample.remade)
       for what, name in (("loop", "WhileBreak"), ("training", "TrainMomentum"))},
    "onnx": Format("sample.onnx", lambda p: p.write_bytes(onnx_sample.model()), onnx_sample.read,
                   mutate=onnx_sample.remade),
    "artifact": Format("sample.cellc", _artifact, _artifact_read, sealed=True, hashed=True),
    "case": Format("sample.cellcase", _case, lambda p: load_case(str(p)), sealed=True, hashed=True),
    "program": Format("program", lambda p: p.write_bytes(add_program(kind="param").to_bytes()),
                      lambda p: Program.from_bytes(p.read_bytes()), sealed=True, hashed=True),
    "open program": Format("program", _open_program,
                           lambda p: Program.from_bytes(p.read_bytes()), sealed=True, hashed=True),
    "graph": Format("graph", lambda p: p.write_bytes(graph_to_bytes(_grown(5))),
                    lambda p: graph_from_bytes(p.read_bytes()), sealed=True, hashed=True),
    "text": Format("text", lambda p: p.write_text(print_graph(_grown(3))), _text_read,
                   mutate=retold),
    "text of a case": Format("case.txt", _case_text, lambda p: load_case(str(p)), mutate=retold),
    "kernel": Format("kernel.txt", _kernel, _kernel_read, mutate=retold),
    "dump": Format("01_dump.txt", lambda p: p.write_text(print_graph(_grown(3))),
                   lambda p: inspecting._stage(p, {}, [])),
    "cached": Format("cached", _cached, _cached_read, hashed=True),
    "manifest": Format("manifest.json", _manifest, _manifest_read, mutate=reformed),
    "strategy": Format("strategy.ckpt", lambda p: strategies.write(str(p), _layouts()),
                       lambda p: strategies.by_parameter(strategies.read(str(p), "").layouts)),
    "strategy text": Format("strategy.json", lambda p: strategies.write(str(p), _layouts()),
                            lambda p: strategies.by_parameter(strategies.read(str(p), "").layouts)),
    "ranks": Format("group.pb", lambda p: p.write_bytes(
        field_of(2, number_of(1, 0) + number_of(1, 5))),
        lambda p: ms.restore_group_info_list(str(p))),
    **_DATA,
}
"""By what it is."""


@cache
def whole(name: str) -> Mapping[str, bytes]:
    """The files of a format, by name."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made, "files")  # (a cache in it would be of another mode)
        folder.mkdir()
        FORMATS[name].write(folder / FORMATS[name].name)
        return {p.name: p.read_bytes() for p in folder.iterdir()}
