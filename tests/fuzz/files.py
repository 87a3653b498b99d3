"""Trials of damaged files: each format, changed at random, is refused in words or reads as it
was.

A byte is flipped, runs are cut out, doubled or filled, the end is lost. Containers with hashes
are also changed inside and hashed again, so that what looks at their contents is reached.
Whatever is read must be read in time and memory that the size of the file bounds, and raise one
of the documented errors, which names the file.
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
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cellc_runtime import container

from .finding import Finding, Trial
from .formats import FORMATS, whole

SUFFIX = ".file"
_AT_ONCE = 200
"""Mutations of a trial."""
_SECONDS, _MEGABYTES = 5.0, 256
"""What reading a file of some kilobytes may take."""
_REFUSALS = (ValueError, TypeError, RuntimeError, KeyError, FileNotFoundError)
"""Errors of Python that documentation promises."""
_OWN = {"cellc", "cellc_compiler", "cellc_runtime"}
"""Where errors of our own are defined."""


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
    form, path = FORMATS[name], folder_of(name) / FORMATS[name].name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path.write_bytes(data)
        before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
        try:
            form.read(path)
            told = "read as if it were whole" if refused else ""
        except Exception as e:
            told = unclear(e, (path.stem, str(path.parent)) if form.named else ())
        seconds = time.monotonic() - start
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    if seconds > _SECONDS:
        told = f"reading took {seconds:.1f} s {told}"
    if grown > _MEGABYTES:
        told = f"reading took {grown} MiB {told}"
    return told


def unclear(error: Exception, files: Sequence[str]) -> str:
    """What an error that refuses a file lacks; "" if nothing.

    It must be one of the kinds that are documented, not one of their kinds that Python raises where
    something was not expected (a `UnicodeDecodeError`), and say which file.
    """
    own = type(error).__module__.split(".")[0] in _OWN
    if not own and type(error) not in _REFUSALS:
        return f"{type(error).__name__}: {error}"
    if not str(error):
        return f"{type(error).__name__} without a word"
    known = not files or any(file in str(error) for file in files)
    return "" if known else f"an error that does not say which file: {error}"


@cache
def folder_of(name: str) -> Path:
    """A folder with the files of a format, in memory if that can be: one is written over and over.
    """
    memory = Path("/dev/shm")
    folder = tempfile.mkdtemp(dir=memory if memory.is_dir() else None)
    atexit.register(shutil.rmtree, folder, True)
    for file, data in whole(name).items():
        Path(folder, file).write_bytes(data)
    return Path(folder)


def trial(seed: int) -> Trial:
    """Some mutations of one format."""
    rng = np.random.default_rng(seed)
    name = sorted(FORMATS)[seed % len(FORMATS)]
    form = FORMATS[name]
    data = whole(name)[form.name]
    for _ in range(_AT_ONCE):
        again = form.sealed and rng.random() < 0.7
        bad = (resealed if again else damaged)(data, rng)
        refused = form.hashed and not again and bad != data
        told = reading(name, bad, refused)
        if told:
            case = f"{name.replace(' ', '_')} {int(refused)}\n{base64.b64encode(bad).decode()}\n"
            return Trial(finding=Finding("files", seed, f"{name}: {told}", case, SUFFIX))
    return Trial({f"files {name}": _AT_ONCE, "files": _AT_ONCE})


def play(path: Path) -> str:
    """What a case of the corpus shows; "" if it is mended."""
    name, refused, data = path.read_text().split()
    return reading(name.replace("_", " "), base64.b64decode(data), bool(int(refused)))
