"""PTX to a cubin by NVIDIA's assembler `ptxas`, where there is one.

It comes with `pip install 'cellc[cuda]'` (the wheel nvidia-cuda-nvcc of CUDA 13.0) or with a CUDA
toolkit on the PATH. Without it a program carries PTX, which the driver of the machine that runs it
assembles when it is loaded.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import struct
import subprocess
from functools import cache
from pathlib import Path

from cellc_runtime import cache as disk
from cellc_runtime import knobs
from cellc_runtime.lazy import json, tempfile
from cellc_runtime.records import dataclass

_WHEEL = ("nvidia", "cu13", "bin")
_NOT = ("none", "off", "0")
_NAME = "ptxas.exe" if os.name == "nt" else "ptxas"
_SECONDS = 600  # After which an assembler that says nothing is taken to hang

_NOP, _OPCODE, _INSTRUCTION = 0x918, 0xFFF, 16
"""The opcode of NOP, the bits that hold opcodes, and bytes of an instruction, from sm_70 on."""
_SECTION = struct.Struct("<IIQQQQIIQQ")


class PtxasError(RuntimeError):
    """ptxas refused a text, or could not be run; what it said."""


@dataclass(frozen=True, slots=True)
class Cubin:
    """A kernel assembled for one architecture."""

    code: bytes  # the file, ELF
    registers: int  # a thread's
    spill_bytes: int  # a thread's stores and loads of registers that had no room
    shared: int  # bytes of shared memory that the kernel declares (what a launch adds is not in it)
    stack: int  # bytes of a thread's frame in local memory
    instructions: int  # of the code, without the NOPs that pad it
    warnings: tuple[str, ...] = ()  # what ptxas warned of (that `wgmma` had to be serialized, say)


def find() -> str | None:
    """The assembler: that of the knob `CELLC_PTXAS`, of the wheel, or on the PATH; or None. Raises
    PtxasError if the knob names a file that is not there."""
    named = knobs.read().ptxas
    if named is None:
        return _installed()
    if named.lower() in _NOT:
        return None
    found = shutil.which(named)
    if found is None:
        raise PtxasError(f"CELLC_PTXAS={named!r} is not a program that can be run; "
                         "name ptxas, or \"none\" to do without")
    return found


@cache
def _installed() -> str | None:
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        spec = None
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        found = shutil.which(_NAME, path=str(Path(folder).joinpath(*_WHEEL[1:])))
        if found is not None:
            return found
    return shutil.which(_NAME)


def version() -> str:
    """Return the assembler's version, for cache keys: `"13.0.88"`, or `"none"`. Raises PtxasError
    if it is there and cannot be run."""
    program = find()
    return "none" if program is None else _version(program)


@cache
def _version(program: str) -> str:
    said = _run([program, "--version"], "").stdout
    found = re.search(r"\bV(\d[\d.]*)", said)
    if found is None:
        raise PtxasError(f"{program} is no ptxas; it said {said[:200]!r}")
    return found[1]


def assemble(ptx: str, architecture: str) -> Cubin:
    """A kernel's PTX as a cubin; what was assembled before comes from the cache.

    Args:
        architecture: `"sm_90a"`.

    Raises:
        PtxasError: there is no ptxas here, or it refuses the text; with what it said.
    """
    program = find()
    if program is None:
        raise PtxasError("there is no ptxas: pip install 'cellc[cuda]', or put that of a CUDA "
                         "toolkit on the PATH")
    store = disk.default()
    key = disk.make_key("cubin 3", ptx, architecture, _version(program))
    held = store.get(key)
    if held is None:
        held = _assembled(program, ptx, architecture)
        store.put(key, held)
    head, _, code = held.partition(b"\n")
    registers, spilled, shared, frame, count, warnings = json.loads(head)
    return Cubin(code, registers, spilled, shared, frame, count, tuple(warnings))


def _assembled(program: str, ptx: str, architecture: str) -> bytes:
    """Return a line of figures, followed by the cubin."""
    # The temporary folder is ours alone, so that nobody else can put code in the cubin's place.
    with tempfile.TemporaryDirectory(prefix="cellc-ptxas-") as folder:
        made = Path(folder) / "kernel.cubin"
        done = _run([program, "-v", f"-arch={architecture}", "-", "-o", str(made)], ptx)
        said = (done.stdout + done.stderr).strip()
        if done.returncode or not made.exists():
            raise PtxasError(f"ptxas {_version(program)} refuses code for {architecture}:\n"
                             f"{_shown(said, ptx)}")
        code = made.read_bytes()
    return json.dumps(_figures(said, code)).encode() + b"\n" + code


def _run(command: list[str], given: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, input=given, capture_output=True, text=True, check=False,
                              timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PtxasError(f"{command[0]} cannot be run: {error}") from None


def _shown(said: str, ptx: str) -> str:
    """Return ptxas's message, with the lines of the text that it names."""
    lines = ptx.splitlines()
    named = dict.fromkeys(int(n) for n in re.findall(r", line (\d+);", said))
    told = [f"{n:>5} | {lines[n - 1]}" for n in [*named][:8] if 0 < n <= len(lines)]
    return "\n".join([said[:4000], *told])


def _figures(said: str, code: bytes) -> list[object]:
    """Return the figures of `Cubin` for the code, in its order."""
    def total(pattern: str) -> int:
        return sum(int(n) for n in re.findall(pattern, said))

    return [
        max((int(n) for n in re.findall(r"Used (\d+) registers", said)), default=0),
        total(r"(\d+) bytes spill stores") + total(r"(\d+) bytes spill loads"),
        total(r"(\d+) bytes smem"),
        total(r"(\d+) bytes stack frame"),
        instructions(code),
        re.findall(r"ptxas (?:warning *: *|info *: *(?=\(C\d+\)))(.+)", said),
    ]


def instructions(cubin: bytes) -> int:
    """Instructions of a cubin's code, NOPs (which pad it) not counted. Raises ValueError if it is
    not a 64-bit ELF file."""
    return sum(1 for opcode in opcodes(cubin) if opcode != _NOP)


def opcodes(cubin: bytes) -> list[int]:
    """The opcode (the low twelve bits) of each instruction of a cubin's code. Raises ValueError if
    it is not a 64-bit ELF file."""
    if cubin[:5] != b"\x7fELF\x02" or len(cubin) < 64:
        raise ValueError("a cubin is a 64-bit ELF file")
    start, = struct.unpack_from("<Q", cubin, 40)
    size, count = struct.unpack_from("<HH", cubin, 58)
    found: list[int] = []
    for number in range(count):
        _, kind, flags, _, offset, nbytes, *_ = _SECTION.unpack_from(cubin, start + number * size)
        if kind == 1 and flags & 4:  # bytes of the file that are executed
            found += (struct.unpack_from("<Q", cubin, at)[0] & _OPCODE
                      for at in range(offset, offset + nbytes, _INSTRUCTION))
    return found
