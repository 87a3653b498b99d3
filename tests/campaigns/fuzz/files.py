"""Trials of damaged files: each format, changed at random, is refused in words or reads as it
was.

A byte is flipped, runs are cut out, doubled or filled, the end is lost. Containers with hashes
are also changed inside and hashed again, so that what looks at their contents is reached. Texts of
graphs and kernels are also changed by words, manifests by values, MindRecord indexes by cells.
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
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from .damage import damaged, resealed
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
        inside = resealed if form.sealed else form.mutate
        again = inside is not None and rng.random() < 0.7
        bad = (inside if inside is not None and again else damaged)(data, rng)
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
