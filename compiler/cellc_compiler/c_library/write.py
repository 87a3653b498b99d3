"""A network as a shared library, an archive or an object, with its headers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from cellc_runtime import checkpoint
from cellc_runtime.abi import FIRST_CALLBACK, LARGE, MAIN, PRECOMPUTE, TABLE, Ext
from cellc_runtime.artifact import Entry
from cellc_runtime.dtypes import Array
from cellc_runtime.files import write_atomically, write_text
from cellc_runtime.lazy import hashlib, json
from cellc_runtime.open_sizes import MOST_DIVISOR
from cellc_runtime.program import MAX_BYTES
from cellc_runtime.records import dataclass, replace
from cellc_runtime.target import Target

from ..backends.cpu.host.entry import MEMORY_FUNCTIONS
from ..backends.cpu.host.pool import fill, pool_text
from ..backends.llvm.notation import declarations, expand, read_code
from ..build.link import LinkInput
from ..build.objects import compile_texts
from . import abi, elf, header
from .abi import NotInC
from .tables import HASH, Constants, Network, Tables, module_text

KINDS = {".so": "shared library", ".a": "archive", ".o": "object"}
"""The kinds of files, by the ending of the name."""
_MOST_EMBEDDED = 1 << 30  # Bytes of weights in a library: code reaches what is within 2 GiB
_STACK = 8 << 20
_FUNCTIONS = ("texts", "checks", "sizes", "calls", "entries", "sessions")
"""The files of a library's functions, in the notation of LLVM text."""
_HASH_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Compiled:
    """An entry with its code."""

    entry: Entry  # as for an artifact, with programs for one target
    # for each of its programs in order, what it was linked from
    objects: Sequence[Sequence[LinkInput]]


def library_name(path: str) -> str:
    """The name of a library by that of its file. Raises NotInC if the file has no such ending, or a
    name that is none in C."""
    file = Path(path)
    name = file.stem.removeprefix("lib") if file.suffix != ".o" else file.stem
    if file.suffix not in KINDS:
        raise NotInC(f"{path}: the name of a C library must end in {', '.join(KINDS)}")
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise NotInC(f"{path}: {name!r} must be a name in C (letters, digits and _), as its "
                     "functions begin with it: rename the file")
    return name


def check_target(target: Target) -> None:
    """Refuse targets that there are no libraries for. Raises NotInC if it is a GPU, or has tile
    registers, which a process must request from the system."""
    if target.accelerator or target.tiles:
        raise NotInC(f"a C library is for the vector units of a processor, not for {target.name}")


def check_targets(targets: Sequence[Target]) -> list[Target]:
    """The targets of a library, each once and the best first. Raises NotInC if one cannot have a
    library, or the processors are of two kinds."""
    for target in targets:
        check_target(target)
    kinds = {t.triple.partition("-")[0] for t in targets}
    if len(kinds) != 1:
        raise NotInC("a C library is for processors of one kind, but "
                     f"{', '.join(t.name for t in targets)} are of {len(kinds)}: compile a library "
                     "for each kind")
    return sorted(dict.fromkeys(targets), key=lambda t: -t.vector_bytes)


def write(
    path: str, compiled: Mapping[Target, Mapping[str, Compiled]], weights: Mapping[str, Array],
    weights_path: str | None = None,
) -> list[str]:
    """Write a library, its headers and, if it is to be apart, its file of weights.

    Args:
        path: the file; its ending says which kind.
        compiled: for each target, as `check_targets` gives them, the entries by name.
        weights_path: a file for the weights; None: the library holds them.

    Returns:
        The files that were written.

    Raises:
        NotInC: the network has what a library cannot hold.
        OSError: a file cannot be written.
    """
    name, kind = library_name(path), Path(path).suffix
    first, text, *data = _weights_file(weights)
    nbytes, embedded = sum(map(len, data)), weights_path is None
    if embedded and nbytes > _MOST_EMBEDDED:
        raise NotInC(f"{nbytes / 2**30:.1f} GiB of weights do not fit into a library: write them "
                     "to a file of their own")
    ordered, head = _in_order(weights, text), bytes(first) + bytes(text)
    held = b"".join(data) if embedded else None
    shown = " or ".join(t.name for t in compiled)
    constants, tables, blobs = Constants(), list[Tables](), dict[str, bytes]()
    for target, entries_of in compiled.items():
        network = Network(name, target, shown, {n: c.entry for n, c in entries_of.items()},
                          ordered, head, held, nbytes)
        tables.append(Tables(network, constants, sum(len(t.network.programs()) for t in tables)))
        blobs |= tables[-1].blobs
    inputs, own = _linked(compiled, tables, constants), f"{name}_library"
    if kind == ".so":
        machine = next(iter(compiled)).triple.partition("-")[0]
        made = elf.shared(inputs, blobs, [own, "cellc_get_library"], Path(path).name, machine)
    else:
        made = elf.relocatable(inputs, blobs, [own])
        made = elf.archive(name, made, [own]) if kind == ".a" else made
    if weights_path is not None:
        write_atomically(weights_path, [first, text, *data])
    write_atomically(path, [made])
    headers = write_headers(path, tables[0].network, tables[0])
    return [path, *headers, *filter(None, [weights_path])]


def write_headers(path: str, network: Network, tables: Tables) -> list[str]:
    """The headers beside a library; their paths."""
    own = Path(path).with_name(f"{network.name}.h")
    cpp = Path(path).with_name(header.CPP)
    write_text(own, header.header(network, tables.described))
    write_text(cpp, header.interface(header.CPP))
    return [str(own), str(cpp)]


def _weights_file(weights: Mapping[str, Array]) -> list[bytes | memoryview]:
    """The pieces of the file of weights, whose metadata name them by a hash."""
    hasher = hashlib.sha256()
    for piece in checkpoint.encode(weights):
        hasher.update(piece)
    return checkpoint.encode(weights, {HASH: hasher.hexdigest()[:_HASH_DIGITS]})


def _in_order(weights: Mapping[str, Array], text: bytes | memoryview) -> dict[str, Array]:
    """The weights in the order of the file, whose header this is."""
    names = list(json.loads(bytes(text)))  # ("__metadata__" first)
    return {name: weights[name] for name in names[1:]}


def _linked(
    compiled: Mapping[Target, Mapping[str, Compiled]], tables: Sequence[Tables],
    constants: Constants,
) -> list[LinkInput]:
    """All objects: those of programs, each under a name of its own, then the rest. Targets may
    have kernels of one text, and so of one name, of which each has its own object."""
    inputs: list[LinkInput] = []
    number, taken = 0, set[str]()
    for place, entries_of in enumerate(compiled.values()):
        kernels: dict[bytes, dict[str, str]] = {}
        programs = [objects for c in entries_of.values() for objects in c.objects]
        for _, *others in programs:
            for kernel in others:
                kernels.setdefault(kernel.object, {}).update(kernel.exports or {})
        names = {n: f"{n}_{place}" if n in taken else n for of in kernels.values() for n in of}
        taken.update(names.values())
        for main, *_ in programs:
            renamed = {f"{function}_{number}": function for function in (MAIN, PRECOMPUTE)
                       if function in (main.exports or {})}
            inputs.append(LinkInput(main.object, renamed, names))
            number += 1
        inputs += [LinkInput(made, {names[n]: inner for n, inner in exports.items()}, names)
                   for made, exports in kernels.items()]
    target = next(iter(compiled))
    uses_pow = any(t.uses_pow for t in tables)
    made = compile_texts([support_text(target, uses_pow, len(tables)),
                          module_text(tables, constants)], _least(target))
    return [*inputs, *map(LinkInput, made)]


def _least(target: Target) -> Target:
    """The least processor of a target's kind: there the functions run, and say what is missing."""
    if not target.triple.startswith("x86_64"):
        return target
    return replace(target, name="x86_64", cpu="x86-64", features="", vector_bytes=16)


def support_text(target: Target, uses_pow: bool, count: int = 1) -> str:
    """The functions of a library with code for `count` targets of a kind, with the pool and what
    they need of the system."""
    machine = target.triple.partition("-")[0]
    stat, mode_at = abi.STAT[machine]
    code, strings = _with_texts("".join(
        read_code(__file__, name, **_numbers(count), STAT=stat, MODE_AT=mode_at)
        for name in (*_FUNCTIONS, f"processor_{machine}")))
    code = _spelled_out(code)
    libc = [n for n in abi.LIBC if uses_pow or n != abi.POW]
    for place, name in enumerate(abi.LIBC):
        code = code.replace(f"{{{name}}}", f"{{LIBC{place}}}")
    code = expand(code, abi.STRUCTURES)
    for place in range(len(abi.LIBC)):
        code = code.replace(f"{{LIBC{place}}}",
                            f"getelementptr (ptr, ptr @cellc_libc, i64 {place})")
    table = ["null"] * FIRST_CALLBACK
    for ext, name in abi.TABLE.items():
        table[ext] = f"@{name}"
    table[Ext.FUTEX_NUMBER] = f"inttoptr (i64 {abi.FUTEX[machine]} to ptr)"
    outside = dict.fromkeys([*libc, *(n.removeprefix("libc.") for n in abi.TABLE.values()
                                      if n.startswith("libc."))])
    names = [f"@libc.{n}" for n in libc] + ["null"] * (not uses_pow)
    data = [declarations(abi.STRUCTURES), *strings, *(f"declare void @libc.{n}()" for n in outside),
            f"@{TABLE} = hidden global [{len(table)} x ptr] [{_pointers(table)}]",
            f"@cellc_libc = internal global [{len(names)} x ptr] [{_pointers(names)}]",
            "@cellc_net = external hidden global %net",
            f"@cellc_nets = external hidden constant [{count} x %net]",
            f"@cellc_picked = internal global i32 {int(count == 1)}",
            *(f"@{n} = external hidden constant [16 x {ty}]" for n, ty in (
                ("cellc_dtype_names", "ptr"), ("cellc_itemsizes", "i64"),
                ("cellc_alignments", "i64"), ("cellc_dlpack", "i32"))), _INTRINSICS]
    return "\n".join([*data, read_code(__file__, "state"), pool_text(target),
                      fill(MEMORY_FUNCTIONS, target), code])


_INTRINSICS = "".join(f"declare {{ i64, i1 }} @llvm.{n}.with.overflow.i64(i64, i64)\n"
                      for n in ("umul", "smul", "sadd")) + "declare i64 @llvm.ctpop.i64(i64)\n"


def _pointers(names: Sequence[str]) -> str:
    return ", ".join(f"ptr {n}" for n in names)


def _with_texts(code: str) -> tuple[str, list[str]]:
    """The code with names in the place of its texts, and these."""
    known: dict[str, str] = {}
    lines = code.split("\n")
    for i, line in enumerate(lines):
        if " asm " not in line:
            lines[i] = re.sub(r'"([^"]*)"', lambda m: "@" + known.setdefault(
                m[1], f"w.{len(known)}"), line)
    return "\n".join(lines), [
        f'@{name} = private unnamed_addr constant [{len(text) + 1} x i8] c"{text}\\00"'
        for text, name in known.items()]


_OWN = re.compile(r"(\n  |else |; )(say|tell|try) ([^\n;]*)")
_PART = re.compile(r"(?:\((?:[^()]|\([^()]*\))*\)|[^,(])+")


def _spelled_out(code: str) -> str:
    """The code with the notation's statements in the place of our own; see `texts.ll`."""
    def spelled(found: re.Match[str]) -> str:
        start, word, rest = found.groups()
        if word == "try":
            code = f"%rc.{found.start()}"
            return f"{start}{code} = {rest}\n  if {code} == 0, else ret {code}"
        parts = [part.strip() for part in _PART.findall(rest)]
        first = parts.pop(0) if word == "tell" else ""
        lines = [f"@outcome(%error, {first})"] if first else []
        for part in parts:
            call = re.fullmatch(r"(count|type)\((.*)\)", part)
            lines.append(f"@{'say_' * (call[1] == 'type')}{call[1]}(%error, {call[2]})" if call else
                         f"@say(%error, {part})")
        return start + (start if start != "else " else "; ").join(
            [*lines, *([f"ret {first}"] if first else [])])

    return _OWN.sub(spelled, re.sub(r"\n {3,}", " ", code))


def _numbers(count: int) -> dict[str, int]:
    """The numbers that stand in the code by name."""
    return {
        **{code.name: code.value for code in abi.Code},
        "ABI_VERSION": abi.ABI, "TEXT": abi.TEXT, "LAST": abi.TEXT - 1, "MAX_NDIM": abi.MAX_NDIM,
        "NDTYPES": len(abi.DTYPES), "MAX_BYTES": MAX_BYTES, "LARGE": LARGE,
        "TENSOR_BYTES": 24 + 8 * abi.MAX_NDIM, "MOST": (1 << 63) - 1, "STACK": _STACK,
        "MOST_DIVISOR": MOST_DIVISOR, "O_READ": 0o2004000, "O_WRITE": 0o2000301,
        "NETS": count, "NET_BYTES": 8 * len(abi.STRUCTURES["net"]),
    }
