"""Every environment variable of cellc, typed, in one place.

The environment is read when a knob is requested, so a change takes effect at the next use, and
`override` replaces values for a scope (one thread or task) without touching the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from . import platform
from .lazy import pathlib
from .records import dataclass, replace

DEFAULT_CACHE_SIZE = 1 << 30
DEFAULT_KEPT_MEMORY = 512 << 20
MOST_THREADS = 1024
"""Threads or processes that one may ask for."""
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)


class KnobError(ValueError):
    """A variable of the environment holds something that cannot be read."""


@dataclass(frozen=True, slots=True)
class Knobs:
    """The values of all knobs at one moment."""

    cache_dir: pathlib.Path  # `CELLC_CACHE_DIR`, where compiled code is kept
    # `CELLC_CACHE_SIZE` in bytes (`"512M"`, `"1GiB"`); 0 keeps nothing
    cache_size: int = DEFAULT_CACHE_SIZE
    num_threads: int | None = None  # `CELLC_NUM_THREADS`, or None for what the machine grants
    # `CELLC_COMPILE_JOBS`, processes that compile, or None for the processors
    compile_jobs: int | None = None
    # `CELLC_KEPT_MEMORY` in bytes, what may be kept of the memory of dead results for the next
    # ones; 0 keeps none
    kept_memory: int = DEFAULT_KEPT_MEMORY
    # `CELLC_TARGET`, the target to compile for and run, or None for the best
    target: str | None = None
    # `CELLC_PTXAS`, the assembler of CUDA kernels, `"none"` for that of the driver, or None for the
    # one that is found
    ptxas: str | None = None
    # `CELLC_GPU_GRAPHS`, whether programs on a GPU are captured and launched as one graph; `0`
    # launches kernel by kernel
    gpu_graphs: bool = True
    # `CELLC_GPU_BLOCKING`, whether to wait after each kernel, so that an error names the one that
    # failed
    gpu_blocking: bool = False
    # `CELLC_GPU`, what "GPU" means: `"cuda"` (or "") for NVIDIA's, `"emulated"` for an emulation in
    # this process, `"emulated-sm_80"` for that of an architecture, or the name of a device that was
    # registered
    gpu: str = ""
    # `CELLC_COLLECTIVE_TIMEOUT`, seconds that a rank waits for the others at a collective before it
    # gives up
    collective_timeout: int = 1800
    # `CELLC_SILENCE_TIMEOUT`, seconds that a rank which others wait for may be silent when it is
    # asked whether it is alive
    silence_timeout: int = 6
    # `CELLC_HANG_TIMEOUT`, seconds after which a rank that others wait for and that does nothing is
    # taken to hang; 0 never does
    hang_timeout: int = 10
    # `CELLC_NCCL`, the path of the library of collectives between GPUs, `"none"` to do without, or
    # None for the one that is found
    nccl: str | None = None
    # `CELLC_STORE_TOKEN`, a secret text that all processes of a `TCPStore` give, or None for one
    # that the processes of this user share in the folder of the cache
    store_token: str | None = None


_OVERRIDE: ContextVar[dict[str, Any] | None] = ContextVar("cellc_knobs", default=None)


def read() -> Knobs:
    """The knobs now. Raises KnobError if a variable holds something that cannot be read; the text
    names it."""
    given: dict[str, Any] = {}
    for field, parse in _PARSERS.items():
        name = f"CELLC_{field.upper()}"
        if text := os.environ.get(name):
            given[field] = parse(name, text)
    if "cache_dir" not in given:
        given["cache_dir"] = platform.cache_home() / "cellc"
    knobs = Knobs(**given)
    changes = _OVERRIDE.get()
    return replace(knobs, **changes) if changes else knobs


@contextmanager
def override(**values: Any) -> Iterator[None]:
    """Replace knobs by field name while the block runs."""
    token = _OVERRIDE.set({**(_OVERRIDE.get() or {}), **values})
    try:
        yield
    finally:
        _OVERRIDE.reset(token)


def _size(name: str, text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise KnobError(f"{name}={text!r} is not a size; write bytes, or 512M, 1GiB")
    return int(float(match[1]) * _UNITS[match[2].lower()])


def _count(name: str, text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise KnobError(f"{name}={text!r} is not a positive whole number")
    return int(text)


def _processes(name: str, text: str) -> int:
    if not text.strip().isdecimal() or not 1 <= int(text) <= MOST_THREADS:
        raise KnobError(f"{name}={text!r} is not a whole number between 1 and {MOST_THREADS}")
    return int(text)


def _seconds(name: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise KnobError(f"{name}={text!r} is not a whole number of seconds (0: never)")
    return int(text)


def _flag(name: str, text: str) -> bool:
    if text.strip() not in ("0", "1"):
        raise KnobError(f"{name}={text!r} is neither 0 nor 1")
    return text.strip() == "1"


def _text(name: str, text: str) -> str:
    return text


_PARSERS: dict[str, Callable[[str, str], Any]] = {
    "cache_dir": lambda name, text: pathlib.Path(text), "cache_size": _size,
    "num_threads": _processes, "compile_jobs": _processes,
    "kept_memory": _size, "target": _text, "ptxas": _text,
    "gpu_graphs": _flag, "gpu_blocking": _flag, "gpu": _text, "collective_timeout": _count,
    "silence_timeout": _count, "hang_timeout": _seconds, "nccl": _text, "store_token": _text,
}
"""How the text of a variable that is set, `CELLC_` and the name of the knob, is read."""
