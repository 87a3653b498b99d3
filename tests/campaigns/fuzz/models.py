"""Trials of mutated model files, ONNX and MindIR: none crashes, hangs, or takes more memory than 64
times the file.

`files` changes one sample of each format; here are hundreds, most of one operator each: ONNX's own
backend tests, samples of our ops as MindIR, and networks that MindSpore wrote. A trial reads and
traces `_AT_ONCE` mutants of them in a process that is forked for it, so that nothing is imported
again. A mutant follows from the seed and its number, and the process notes the number in shared
memory before it reads: that is the mutant at which it crashes or hangs.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import mmap
import os
import resource
import select
import shutil
import signal
import tempfile
import time
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from cellc.mindir.spelling import RULES
from cellc.mindir.writing import ExportError, mindir_bytes
from cellc.tracing.pytree import Box, Leaf
from cellc_compiler.ir.op import lookup
from cellc_runtime import dtypes

from ...ops.test_matrix import cases
from . import onnx_sample
from .damage import damaged
from .files import unclear
from .finding import Finding, Trial

SUFFIX = ".file"
STORED = Path(__file__).parents[2] / "mindir" / "data"
_AT_ONCE = 200
"""Mutants of a trial."""
_SECONDS, _PATIENCE = 5.0, 60.0
"""Of the processor for one file; of the clock, after which it hangs."""
_TIMES, _LEAST = 64, 16 << 20
"""What reading and tracing may take: so many times the file, and for small files so many bytes."""
_KILLED = 1 << 30
"""Bytes by which a process may grow before it is ended."""
_LARGEST = 32 << 10
"""Bytes of a model that is mutated."""


# --- models ---------------------------------------------------------------------------------------


@cache
def models(suffix: str) -> list[bytes]:
    """The whole models of a format."""
    found = _onnx() if suffix == "onnx" else _mindir()
    return [data for data in dict.fromkeys(found) if len(data) <= _LARGEST]


def _onnx() -> Iterator[bytes]:
    yield onnx_sample.model()
    try:
        from ...onnx_import import backend
    except ImportError:  # (the library `onnx`)
        return
    for case in backend.cases().values():
        if not case.outside:
            yield case.model.SerializeToString()


def _mindir() -> Iterator[bytes]:
    for path in sorted(STORED.glob("[A-Z]*.mindir")):
        yield path.read_bytes()
    for name in RULES:
        for case in cases(lookup(name), [dtypes.float32, dtypes.int32], 2):
            graph = case.graph()
            leaves = tuple(Leaf(k) for k in range(len(graph.outputs)))
            try:
                yield mindir_bytes(graph, {}, Box(tuple, (), leaves))
            except ExportError:
                continue


def mutant(suffix: str, seed: int, number: int) -> bytes:
    """A model with one to three changes, in fields or in bytes."""
    whole, rng = models(suffix), np.random.default_rng([seed, number])
    data = whole[int(rng.integers(len(whole)))]
    if rng.random() < 0.2:
        return damaged(data, rng)
    for _ in range(int(rng.integers(1, 4))):
        data = onnx_sample.remade(data, rng)
    return data


# --- reading --------------------------------------------------------------------------------------


@cache
def folder() -> Path:
    """A folder for the file that is read, in memory if that can be."""
    memory = Path("/dev/shm")
    found = tempfile.mkdtemp(dir=memory if memory.is_dir() else None)
    atexit.register(shutil.rmtree, found, True)
    return Path(found)


def reading(suffix: str, data: bytes) -> str:
    """What is wrong with how a file is read and traced; "" if nothing is."""
    path = folder() / f"sample.{suffix}"
    path.write_bytes(data)
    before, start = _peak(afresh=True), time.process_time()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            onnx_sample.read(path)
        told = ""
    except Exception as e:
        told = unclear(e, (path.stem, str(path.parent)))
    seconds, grown = time.process_time() - start, _peak() - before
    if seconds > _SECONDS:
        told = f"reading took {seconds:.1f} s {told}"
    if grown > max(_TIMES * len(data), _LEAST):
        told = f"reading {len(data)} bytes took {grown >> 20} MiB {told}"
    return told


def _peak(afresh: bool = False) -> int:
    """The most memory that this process has had, in bytes, since it was last asked for afresh."""
    if afresh:
        with contextlib.suppress(OSError):  # (the peak of before stays)
            Path("/proc/self/clear_refs").write_text("5")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


# --- trials ---------------------------------------------------------------------------------------


def trial(seed: int) -> Trial:
    """Some mutants of one format, in a process of their own."""
    suffix = ("onnx", "mindir")[seed % 2]
    models(suffix), folder()  # (before the fork, so that it is done once)
    number, told = _in_child(suffix, seed)
    if not told:
        return Trial({suffix: _AT_ONCE, "files": _AT_ONCE})
    case = f"{suffix}\n{base64.b64encode(mutant(suffix, seed, number)).decode()}\n"
    return Trial(finding=Finding("models", seed, f"{suffix}: {told}", case, SUFFIX))


def _in_child(suffix: str, seed: int) -> tuple[int, str]:
    """The number of the mutant that a forked process stands at, and what is wrong with it."""
    note = mmap.mmap(-1, mmap.PAGESIZE)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        try:
            told = _told_by(suffix, seed, note)
            os.write(writer, told.encode("utf-8", "replace")[:2000])
            os._exit(0)
        finally:  # (whatever is raised, the parent's work is not done twice)
            os._exit(1)
    os.close(writer)
    try:
        told = _watched(child, reader, note)
    finally:
        os.close(reader)
    return int.from_bytes(note[:8], "little"), told


def _told_by(suffix: str, seed: int, note: mmap.mmap) -> str:
    for number in range(_AT_ONCE):
        note[:8] = number.to_bytes(8, "little")
        told = reading(suffix, mutant(suffix, seed, number))
        if told:
            return told
    return ""


def _watched(child: int, reader: int, note: mmap.mmap) -> str:
    """What a process tells, or how it ends without a word."""
    at, since, first, ended = note[:8], time.monotonic(), _resident(child), ""
    while not ended and not select.select([reader], [], [], 0.2)[0]:
        if note[:8] != at:
            at, since = note[:8], time.monotonic()
        if time.monotonic() - since > _PATIENCE:
            ended = "reading does not end"
        if _resident(child) - first > _KILLED:
            ended = f"reading takes more than {_KILLED >> 20} MiB"
    if ended:
        os.kill(child, signal.SIGKILL)
    told = os.read(reader, 2000).decode()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return ended or told or (f"the process ends with {status}" if status else "")


def _resident(process: int) -> int:
    """The memory that a process has now, in bytes."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * mmap.PAGESIZE
    except (OSError, IndexError):  # it has ended
        return 0


def play(path: Path) -> str:
    """What a case of the corpus shows; "" if it is mended."""
    suffix, data = path.read_text().split()
    return reading(suffix, base64.b64decode(data))
