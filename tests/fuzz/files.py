"""Trials of damaged files: each format, changed at random, is refused in words or reads as it
was.

A byte is flipped, runs are cut out, doubled or filled, the end is lost. Containers with hashes
are also changed inside and hashed again, so that what looks at their contents is reached.
Whatever is read must be read in time and memory that the size of the file bounds, and raise one
of the documented errors.
"""

from __future__ import annotations

import atexit
import base64
import resource
import shutil
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import cellc as ms
import cellc_runtime
from cellc import Tensor, nn
from cellc.records.tfrecord import framed
from cellc.testing.cases import Case, load_case
from cellc_compiler.ir.binary import graph_from_bytes, graph_to_bytes
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.text import parse_graph, print_graph
from cellc_compiler.ir.types import TensorType
from cellc_compiler.ir.verify import VerifyError, verify
from cellc_runtime import artifact, container, dtypes
from cellc_runtime.cache import Cache, make_key
from cellc_runtime.program import Program

from ..dataset.test_records import example
from ..runtime.helpers import add_program
from .finding import Finding, Trial
from .graphs import enclosed
from .growing import network

SUFFIX = ".file"
_AT_ONCE = 200
"""Mutations of a trial."""
_SECONDS, _MEGABYTES = 5.0, 256
"""What reading a file of some kilobytes may take."""
_REFUSALS = (ValueError, TypeError, RuntimeError, OSError, KeyError, VerifyError)


def _net() -> nn.Cell:
    ms.set_seed(1)
    return nn.SequentialCell(nn.Dense(3, 4), nn.ReLU(), nn.Dense(4, 2))


def _case(path: str) -> None:
    graph = Graph("case")
    x = graph.add_input(TensorType((2, 3), dtypes.float32), "x")
    b = Builder(graph)
    graph.outputs = [b.pad(b.tanh(x), low=(1, 0), high=(0, 2))]
    Case(graph, [np.ones((2, 3), np.float32)]).save(path)


def _artifact(path: str) -> None:
    artifact.save(Path(path), {"infer": artifact.Entry([add_program(kind="param")], ["graph"])},
                  {"b": np.full(8, 2, np.float32)}, {"by": "a test"})


def _artifact_read(path: str) -> None:
    """Everything that reading reaches without running code."""
    model = cellc_runtime.load(path)
    for name in model.entries:
        model.graph_text(name)
        for target in model.targets(name):
            Program.from_bytes(model._box.section(f"program:{name}:{target}"))


def _program(path: str) -> None:
    Path(path).write_bytes(add_program(kind="param").to_bytes())


def _grown(number: int) -> Graph:
    """A graph of many ops and regions."""
    growth = network(number, most=8)
    return enclosed(growth, 2)


def _text(path: str) -> None:
    Path(path).write_text(print_graph(_grown(3)))


def _text_read(path: str) -> None:
    graph = parse_graph(Path(path).read_bytes().decode())
    verify(graph)
    if print_graph(parse_graph(print_graph(graph))) != print_graph(graph):
        raise AssertionError("the text of a graph is not that of the graph it is read as")


def _cached(path: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = cache_file(Path(folder))
        store.put(_KEY, _PAYLOAD)
        Path(path).write_bytes(next(p for p in Path(folder).rglob("*") if p.is_file()).read_bytes())


_KEY, _PAYLOAD = make_key("fuzz"), bytes(range(256)) * 4


def cache_file(folder: Path) -> Cache:
    """A cache of its own."""
    folder.chmod(0o700)
    return Cache(folder, 1 << 20)


def _cached_read(path: str) -> None:
    """A damaged entry is none."""
    with tempfile.TemporaryDirectory(dir=Path(path).parent) as folder:
        store = cache_file(Path(folder))
        store.put(_KEY, _PAYLOAD)
        next(p for p in Path(folder).rglob("*") if p.is_file()).write_bytes(Path(path).read_bytes())
        found = store.get(_KEY)
    if found is None:
        raise ValueError("no entry")
    if found != _PAYLOAD:
        raise AssertionError("the cache gives what was not stored")


def _tfrecord(path: str) -> None:
    rows = [{"label": [i], "vec": [1.5 * i, 2.0], "img": [bytes([65 + i]) * (i + 1)]}
            for i in range(3)]
    Path(path).write_bytes(b"".join(framed(example(row)) for row in rows))


def _tfrecord_read(path: str) -> Any:
    return list(ms.dataset.TFRecordDataset(path, shuffle=False).create_tuple_iterator(
        output_numpy=True))


def _mindrecord(path: str) -> None:
    writer = ms.mindrecord.FileWriter(path, 1, True)
    writer.set_header_size(1 << 14)
    writer.set_page_size(1 << 15)
    writer.add_schema({"label": {"type": "int32"}, "data": {"type": "bytes"}})
    writer.write_raw_data([{"label": i, "data": bytes([i]) * 20} for i in range(5)])
    writer.commit()


def _rows(path: str) -> Any:
    return list(ms.dataset.MindDataset(path).create_tuple_iterator(output_numpy=True))


FORMATS: dict[str, tuple[str, Callable[[str], Any], Callable[[str], Any]]] = {
    "checkpoint": (".ckpt", lambda p: ms.save_checkpoint(_net(), p), ms.load_checkpoint),
    "safetensors": (".safetensors",
                    lambda p: ms.save_checkpoint(_net(), p, format="safetensors"),
                    lambda p: ms.load_checkpoint(p, format="safetensors")),
    "mindir": (".mindir",
               lambda p: ms.export(_net(), Tensor(np.ones((1, 3), np.float32)), file_name=p,
                                   file_format="MINDIR"), ms.load),
    "artifact": (".cellc", _artifact, _artifact_read),
    "case": (".cellcase", _case, load_case),
    "mindrecord": (".mindrecord", _mindrecord, _rows),
    "tfrecord": (".tfrecord", _tfrecord, _tfrecord_read),
    "program": (".program", _program, lambda p: Program.from_bytes(Path(p).read_bytes())),
    "graph": (".graph", lambda p: Path(p).write_bytes(graph_to_bytes(_grown(5))),
              lambda p: graph_from_bytes(Path(p).read_bytes())),
    "text": (".txt", _text, _text_read),
    "cached": (".cached", _cached, _cached_read),
}
"""By format: how a file ends, what writes one, what reads it."""


@cache
def sound(name: str) -> bytes:
    """A file of a format, whole."""
    ending, write, _ = FORMATS[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"sound{ending}")
        write(str(path))
        return path.read_bytes()


# --- damage ---------------------------------------------------------------------------------------


def place(data: bytearray, rng: np.random.Generator) -> int:
    """Anywhere, but not often in what fills pages up."""
    for _ in range(8):
        at = int(rng.integers(len(data) + 1))
        if any(data[at:at + 4]):
            break
    return at


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """The bytes with one to three changes."""
    bad = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        at, length = place(bad, rng), int(2 ** rng.uniform(0, 7))
        match int(rng.integers(6)):
            case 0 | 1:
                if at < len(bad):
                    bad[at] ^= 1 << int(rng.integers(8))
            case 2:
                del bad[at:at + length]
            case 3:
                bad[at:at] = bad[at:at + length]
            case 4:
                fill = (b"\0", b"\xff", b"9", b"]", b"-")[int(rng.integers(5))]
                bad[at:at + length] = fill * len(bad[at:at + length])
            case _:
                bad = bad[:at]
    return bytes(bad)


CONTAINERS = {"mindir", "artifact", "case", "program", "graph"}
"""Formats that a container holds, hashed."""
HASHED = {*CONTAINERS, "cached"}
"""Formats of which no damaged file may be read."""


def resealed(data: bytes, rng: np.random.Generator) -> bytes:
    """A container of which one section was damaged, hashed again; plain damage if it is none."""
    magic, version = data[:8], int.from_bytes(data[8:12], "little")
    try:
        box = container.unpack(data, magic, version, "file")
    except Exception:
        return damaged(data, rng)
    sections = [(name, bytes(part)) for name, part in box.sections.items()]
    meta = box.meta
    at = int(rng.integers(len(sections) + 1))
    if at == len(sections):
        meta = changed(meta, rng)
    else:
        sections[at] = (sections[at][0], within(sections[at][1], rng))
    return b"".join(container.pack(magic, version, meta, sections))


def within(section: bytes, rng: np.random.Generator) -> bytes:
    """A section damaged; what is compressed is damaged before it was."""
    try:
        text = zlib.decompress(section)
    except zlib.error:
        return damaged(section, rng)
    return zlib.compress(damaged(text, rng), 6)


def changed(meta: Any, rng: np.random.Generator) -> Any:
    """A header of which one value is another."""
    if isinstance(meta, dict) and meta:
        name = sorted(meta)[int(rng.integers(len(meta)))]
        return {**meta, name: changed(meta[name], rng)}
    if isinstance(meta, list) and meta:
        at = int(rng.integers(len(meta)))
        return [*meta[:at], changed(meta[at], rng), *meta[at + 1:]]
    return WRONG[int(rng.integers(len(WRONG)))]


WRONG: tuple[Any, ...] = (None, -1, 0, 1, 2**31, 2**63, 2**70, 1e308, "", "x" * 300, [], {}, [[]],
                          True, "float32", [0, -1, 2**40])
"""What a header holds instead of what belongs there."""


# --- reading --------------------------------------------------------------------------------------


def reading(name: str, data: bytes, refused: bool) -> str:
    """What is wrong with how a damaged file is read; "" if nothing is.

    Args:
        refused: whether it must be: a hash does not hold.
    """
    ending, _, read = FORMATS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(scratch(), f"bad{ending}")
        path.write_bytes(data)
        before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
        try:
            read(str(path))
            told = "read as if it were whole" if refused else ""
        except _REFUSALS as e:
            told = "" if str(e) else f"{type(e).__name__} without a word"
        except Exception as e:
            told = f"{type(e).__name__}: {e}"
        seconds = time.monotonic() - start
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    if seconds > _SECONDS:
        told = f"reading took {seconds:.1f} s {told}"
    if grown > _MEGABYTES:
        told = f"reading took {grown} MiB {told}"
    return told


@cache
def scratch() -> str:
    """A folder of this process, in memory if that can be: files are written over and over."""
    memory = Path("/dev/shm")
    folder = tempfile.mkdtemp(dir=memory if memory.is_dir() else None)
    atexit.register(shutil.rmtree, folder, True)
    return folder


def trial(seed: int) -> Trial:
    """Some mutations of one format."""
    rng = np.random.default_rng(seed)
    name = sorted(FORMATS)[seed % len(FORMATS)]
    data = sound(name)
    for _ in range(_AT_ONCE):
        sealed = name in CONTAINERS
        again = sealed and rng.random() < 0.7
        bad = (resealed if again else damaged)(data, rng)
        refused = name in HASHED and not again and bad != data
        told = reading(name, bad, refused)
        if told:
            case = f"{name} {int(refused)}\n{base64.b64encode(bad).decode()}\n"
            return Trial(finding=Finding("files", seed, f"{name}: {told}", case, SUFFIX))
    return Trial({f"files {name}": _AT_ONCE, "files": _AT_ONCE})


def play(path: Path) -> str:
    """What a case of the corpus shows; "" if it is mended."""
    name, refused, data = path.read_text().split()
    return reading(name, base64.b64decode(data), bool(int(refused)))
