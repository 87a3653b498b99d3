"""Trials of damaged files: each format, changed at random, is refused in words or reads as it
was.

A byte is flipped, runs are cut out, doubled or filled, the end is lost. Containers with hashes
are also changed inside and hashed again, so that what looks at their contents is reached.
Whatever is read must be read in time and memory that the size of the file bounds, and raise one
of the documented errors.
"""

from __future__ import annotations

import base64
import resource
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import cellc as ms
import cellc_runtime
from cellc import Tensor, nn
from cellc.testing.cases import Case, load_case
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.types import TensorType
from cellc_runtime import artifact, container, dtypes
from cellc_runtime.program import Program

from ..runtime.helpers import add_program
from .finding import Finding, Trial

SUFFIX = ".file"
_AT_ONCE = 200
"""Mutations of a trial."""
_SECONDS, _MEGABYTES = 5.0, 256
"""What reading a file of some kilobytes may take."""
_REFUSALS = (ValueError, TypeError, RuntimeError, OSError, KeyError)


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


def _mindrecord(path: str) -> None:
    writer = ms.mindrecord.FileWriter(path, 1, True)
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


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """The bytes with one to three changes."""
    bad = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        at, length = int(rng.integers(len(bad) + 1)), int(2 ** rng.uniform(0, 7))
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


CONTAINERS = {"mindir", "artifact", "case"}
"""Formats that a container holds, hashed."""


def resealed(data: bytes, rng: np.random.Generator) -> bytes:
    """A container of which one section was damaged, hashed again; plain damage if it is none."""
    magic, version = data[:8], int.from_bytes(data[8:12], "little")
    try:
        box = container.unpack(data, magic, version, "file")
    except Exception:
        return damaged(data, rng)
    sections = [(name, bytes(part)) for name, part in box.sections.items()]
    at = int(rng.integers(len(sections)))
    sections[at] = (sections[at][0], damaged(sections[at][1], rng))
    return b"".join(container.pack(magic, version, box.meta, sections))


# --- reading --------------------------------------------------------------------------------------


def reading(name: str, data: bytes, refused: bool) -> str:
    """What is wrong with how a damaged file is read; "" if nothing is.

    Args:
        refused: whether it must be: a hash does not hold.
    """
    ending, _, read = FORMATS[name]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder, f"bad{ending}")
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


def trial(seed: int) -> Trial:
    """Some mutations of one format."""
    rng = np.random.default_rng(seed)
    name = sorted(FORMATS)[seed % len(FORMATS)]
    data = sound(name)
    for _ in range(_AT_ONCE):
        sealed = name in CONTAINERS
        again = sealed and rng.random() < 0.7
        bad = (resealed if again else damaged)(data, rng)
        refused = sealed and not again and bad != data
        told = reading(name, bad, refused)
        if told:
            case = f"{name} {int(refused)}\n{base64.b64encode(bad).decode()}\n"
            return Trial(finding=Finding("files", seed, f"{name}: {told}", case, SUFFIX))
    return Trial({f"files {name}": _AT_ONCE, "files": _AT_ONCE})


def play(path: Path) -> str:
    """What a case of the corpus shows; "" if it is mended."""
    name, refused, data = path.read_text().split()
    return reading(name, base64.b64decode(data), bool(int(refused)))
