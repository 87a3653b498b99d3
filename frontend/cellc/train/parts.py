"""Checkpoints of which each rank writes a part: whole or not at all, across ranks.

Every rank writes its part under a new name and tells the others how that went. When all parts are
on the disk, the first rank writes the *manifest*, which names the parts with their sizes, checksums
and layouts: this one rename replaces an older checkpoint of the same name. Then each rank gives its
part its final name. A reader takes a part under the one name or the other, whichever has the
checksum. Names are relative to the manifest, so a copy of the folder is a checkpoint of its own.
"""

from __future__ import annotations

import glob
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from cellc_runtime import checkpoint, collectives
from cellc_runtime.files import read_file, write_text
from cellc_runtime.platform import sync_directory
from cellc_runtime.records import dataclass
from cellc_runtime.world import Step, world

from ..nn.cell import Cell
from ..ranks.layouts import PartLayout, assembled, from_json, layout_of, undivided
from ..ranks.settings import divides_networks
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor, host_arrays_of, tensor_of
from .weights_file import FORMATS, Entries, is_whole, read, write

Array = np.ndarray[Any, Any]
SUFFIX = ".whole.json"  # How the name of a manifest ends
LAYOUTS_KEY = "cellc.layouts"  # Where a safetensors file has the layouts of its parts
_KIND, _VERSION = "cellc checkpoint of several ranks", 2
_BLOCK = 1 << 24
_PART = ".part"


def layouts_of(net: Cell) -> dict[str, PartLayout]:
    """The layouts of those parameters of a network that are parted among ranks, by name."""
    out: dict[str, PartLayout] = {}
    for _, cell in net.cells_and_names():
        for name, given in cell.parameter_layout_dict.items():
            made = layout_of(given, f"parameter_layout_dict[{name!r}]")
            if max(made.parts(), default=1) > 1:
                out[name] = made
    return out


def _stage(layout: PartLayout) -> tuple[int, ...]:
    """The ranks that have a tensor: those of this one's stage."""
    first = world().rank // layout.count * layout.count
    return tuple(range(first, first + layout.count))


def merged(entries: Mapping[str, Array | str], layouts: Mapping[str, PartLayout]
           ) -> dict[str, Array | str]:
    """Whole parameters of parted ones. All ranks do it."""
    out = dict(entries)
    for name, value in entries.items():
        layout = layouts.get(name)
        if layout is None or isinstance(value, str):
            continue
        ranks = _stage(layout)
        step = Step(f"whole {name} for a checkpoint", ranks)
        parts = np.split(collectives.all_gather(step, np.ascontiguousarray(value)), len(ranks))
        out[name] = assembled(0, layout, undivided(value.ndim), dict(enumerate(parts)), name)
    return out


def own_part(name: str, value: Array, layout: PartLayout) -> Array:
    """This rank's part of a whole parameter."""
    return value[layout.box(world().rank % layout.count, value.shape, name)]


def once(entries: Mapping[str, Array | str], layouts: Mapping[str, PartLayout]
         ) -> dict[str, Array | str]:
    """Of what several ranks have alike, what this one is to write: each takes some."""
    rank, size = world().rank, world().size
    out: dict[str, Array | str] = {}
    for i, (name, value) in enumerate(entries.items()):
        holders = list(range(size))
        layout = layouts.get(name)
        if layout is not None and not isinstance(value, str):
            whole = layout.whole(value.shape)
            mine = layout.box(rank, whole, name)
            holders = [r for r in _stage(layout) if layout.box(r, whole, name) == mine]
        if holders[i % len(holders)] == rank:
            out[name] = value
    return out


def completed(
    given: Mapping[str, Parameter], own: Mapping[str, Tensor], layouts: Mapping[str, PartLayout]
) -> dict[str, Parameter]:
    """Parameters together with those that only other ranks' files have. All ranks do it."""
    everyone = tuple(range(world().size))
    said = [set(json.loads(t)) for t in _swap("names of a checkpoint", json.dumps(sorted(given)))]
    out = dict(given)
    for name in sorted(own):
        layout, ranks = layouts.get(name), everyone
        if layout is not None:
            whole = layout.whole(own[name].shape)
            mine = layout.box(world().rank, whole, name)
            ranks = tuple(r for r in _stage(layout) if layout.box(r, whole, name) == mine)
        holders = [r for r in ranks if name in said[r]]
        if holders and len(holders) < len(ranks):
            value, = host_arrays_of([given.get(name, own[name])])
            step = Step(f"{name} of a checkpoint", ranks)
            value = collectives.broadcast_from(step, np.ascontiguousarray(value), holders[0])
            out[name] = Parameter(tensor_of(value), name=name)
    return out


def metadata(layouts: Mapping[str, PartLayout], redundant: bool) -> dict[str, str]:
    """Return a safetensors file's metadata about the parts that it has."""
    placed = {name: layout.as_json() for name, layout in layouts.items()}
    return {LAYOUTS_KEY: json.dumps({"rank": world().rank, "of": world().size,
                                     "layouts": placed}),
            "remove_redundancy": str(not redundant)}


# --- writing ------------------------------------------------------------------------------------


def save(
    path: str, entries: Entries, layouts: Mapping[str, PartLayout], format: str,
    crc: bool = False, redundant: bool = True,
) -> str:
    """Write this rank's part, and with the others a checkpoint. All ranks do it.

    Args:
        path: the file of this part; where all ranks give one folder, it is in `rank_i` there.
        entries: what the part holds.
        layouts: how the parted ones of them are parted.
        format: "ckpt" or "safetensors".
        crc: whether a CRC-32 is written into the file.
        redundant: whether what several ranks have alike is in each of their parts.

    Returns:
        The manifest's name.

    Raises:
        OSError: a rank could not write its part; no part has got its name.
    """
    name = os.path.basename(path)
    folders = _swap(f"the folder of the checkpoint {name}", os.path.dirname(path))
    rank = world().rank
    if len(set(folders)) == 1:
        folders = [os.path.join(folder, f"rank_{r}") for r, folder in enumerate(folders)]
    final, pending = (os.path.join(folders[rank], n)
                      for n in (name, f".{name}.{os.urandom(6).hex()}{_PART}"))
    if not redundant:
        entries = once(entries, layouts)
    report = _write_part(final, pending, entries, format, crc, metadata(layouts, redundant))
    report["layouts"] = {n: own.as_json() for n, own in layouts.items()}
    reports = [json.loads(r) for r in _swap(f"the part of the checkpoint {name}",
                                                      json.dumps(report))]
    failed = [f"rank {r}: {p['error']}" for r, p in enumerate(reports) if "error" in p]
    manifest = os.path.join(os.path.commonpath([*folders, os.path.dirname(folders[0])]),
                            name + SUFFIX)
    said = "; ".join(failed)
    if rank == 0 and not failed:
        try:
            _write_manifest(manifest, reports)
        except OSError as e:
            said = f"rank 0: {e}"
    failed = [text for text in _swap(f"the checkpoint {name} is whole", said) if text]
    if failed:
        with suppress(OSError):
            os.unlink(pending)
        raise OSError(f"the checkpoint {name} was not saved, as not all ranks could write their "
                      f"parts: {failed[0]}")
    os.replace(pending, final)
    for file in glob.glob(os.path.join(glob.escape(folders[rank]), f".{glob.escape(name)}.*")):
        if file.endswith(_PART):
            os.unlink(file)  # of a save that was killed
    sync_directory(Path(final).parent)
    _swap(f"parts of {name} named", "")
    return manifest


def _write_manifest(manifest: str, parts: list[dict[str, Any]]) -> None:
    placed: dict[str, Any] = {}
    for part in parts:  # stages of a pipeline have other parameters
        placed |= part.pop("layouts")
        for key in ("file", "new"):
            part[key] = os.path.relpath(part[key], os.path.dirname(manifest))
    content = {"kind": _KIND, "version": _VERSION, "parts": parts, "layouts": placed}
    write_text(manifest, json.dumps(content, indent=1))


def _swap(step: str, text: str) -> list[str]:
    """Return the text of each rank at a step that all reach."""
    return collectives.gathered_texts(Step(step, tuple(range(world().size))), text)


def _write_part(
    final: str, pending: str, entries: Entries, format: str, crc: bool, more: Mapping[str, str]
) -> dict[str, Any]:
    """Write a part under a new name; return its entry for the others."""
    try:
        os.makedirs(os.path.dirname(final), exist_ok=True)
        write(pending, entries, format, crc, more, final)
        return {"file": final, "new": pending, "bytes": os.path.getsize(pending),
                "crc32": _checksum(pending), "format": format}
    except OSError as e:
        return {"error": f"{final}: {e.strerror or e}"}


def remove(manifest: str) -> None:
    """Remove a checkpoint: the manifest first, so that a partial removal leaves no valid
    checkpoint. All ranks do it."""
    parts = Manifest(manifest).parts if os.path.isfile(manifest) else []  # of this version
    _swap(f"parts of {os.path.basename(manifest)} known", "")
    if world().rank == 0:
        Path(manifest).unlink(missing_ok=True)
    _swap(f"{os.path.basename(manifest)} removed", "")
    for part in parts[world().rank : world().rank + 1]:
        for file in part.names:
            Path(file).unlink(missing_ok=True)


# --- reading ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """A rank's part of a checkpoint, as the manifest has it."""

    names: tuple[str, ...]  # where it may be; the first is the name that `save` gave it in the end
    # bytes, crc32: of the file
    bytes: int
    crc32: int
    format: str  # "ckpt" or "safetensors"

    def found(self) -> list[str]:
        """The names under which there is a file of its size."""
        return [n for n in self.names if os.path.isfile(n) and os.path.getsize(n) == self.bytes]

    def is_whole(self) -> bool:
        """Whether every byte of it is there."""
        with suppress(OSError):
            return any(_checksum(name) == self.crc32 for name in self.found())
        return False


class Manifest:
    """A checkpoint of several ranks.

    Attributes:
        parts: those of the ranks, in their order.
        layouts: how the parted parameters are parted.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        try:
            content = json.loads(Path(name).read_text())
            if content["kind"] != _KIND or content["version"] not in (1, _VERSION):
                raise ValueError(f"it is {content['kind']!r}, version {content['version']}")
            self.parts = [Part(_places(name, p), int(p["bytes"]), int(p["crc32"]),
                               str(p["format"])) for p in content["parts"]]
            self.layouts = {n: from_json(given) for n, given in content["layouts"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError,
                RecursionError) as e:
            raise ValueError(f"{name} is no checkpoint of several ranks, or damaged: {e}") from e

    def missing(self) -> list[str]:
        """The parts that are not there, or not in full length, with their ranks."""
        return [f"{p.names[0]} (rank {r})" for r, p in enumerate(self.parts) if not p.found()]

    def is_whole(self) -> bool:
        """Whether every byte of every part is there."""
        return all(part.is_whole() for part in self.parts)

    def entries(self, rank: int) -> Entries:
        """Return the contents of a rank's part, every byte of it checked."""
        part = self.parts[rank]
        what = f"the part of rank {rank} of the checkpoint {self.name} is"
        try:
            for file in part.found():
                if _checksum(file) == part.crc32:
                    return read(file, part.format)
        except OSError as e:
            raise ValueError(f"{what} not readable: {file}: {e.strerror or e}.") from e
        how = "damaged or of another save" if part.found() else "missing"
        raise ValueError(f"{what} {how}: {part.names[0]}.")


def _checksum(file: str) -> int:
    """The CRC-32 of a file, of which a block at a time is in memory."""
    crc = 0
    with open(file, "rb", buffering=0) as stream:
        while block := stream.read(_BLOCK):
            crc = zlib.crc32(block, crc)
    return crc


def _places(manifest: str, part: Mapping[str, Any]) -> tuple[str, ...]:
    """Where a manifest's part may be."""
    folder = os.path.dirname(os.path.abspath(manifest))
    names = [str(part["file"]), *([str(part["new"])] if "new" in part else ())]
    if os.path.isabs(names[0]):  # of version 1: a copy has its own parts
        near = [os.path.join(folder, *Path(names[0]).parts[-depth:]) for depth in (1, 2)]
        return (*near, names[0])
    for name in names:
        if os.path.isabs(name) or ".." in Path(name).parts:
            raise ValueError(f"the part {name!r} is outside of its folder")
    return tuple(os.path.join(folder, name) for name in names)


def latest_checkpoint(directory: str, prefix: str = "") -> str | None:
    """The last checkpoint in a folder that is whole; None: there is none.

    Args:
        directory: where `ModelCheckpoint` or `save_checkpoint` wrote.
        prefix: how its name begins.

    Returns:
        Return the argument of `load_distributed_checkpoint`: the manifest of several ranks with
        integrated_save=False; where no networks are cut over ranks, the file of one of them, which
        has all of it. All ranks get the same as long as none of them writes or removes checkpoints
        meanwhile. It is read to the end: the checksums of a manifest's parts, the structure of a
        file, and its CRC-32 if it has one.

    Only in cellc.
    """
    manifests = {m.name: m for m in _manifests(directory, prefix)}
    found = list(manifests)
    if not divides_networks():
        found += [str(f) for f in Path(directory).glob(f"{glob.escape(prefix)}*")
                  if f.suffix[1:] in FORMATS and not f.name.startswith(".")]
    newest = sorted(found, key=lambda name: (os.stat(name).st_mtime_ns, name), reverse=True)
    return next((name for name in newest if (
        manifests[name].is_whole() if name in manifests
        else is_whole(name, Path(name).suffix[1:]))), None)


def manifest_of(path: str) -> str | None:
    """The manifest of the checkpoint that was saved under a name; None: a file of its own was."""
    file = Path(path)
    near = [folder / (file.name + SUFFIX) for folder in file.parents[:3]]
    return next((str(m) for m in near if m.is_file()), None)


def _manifests(directory: str, prefix: str) -> Iterator[Manifest]:
    for file in Path(directory).glob(f"*{SUFFIX}"):
        if file.name.startswith(prefix):
            with suppress(ValueError):
                yield Manifest(str(file))


def written_layouts(files: Sequence[str]) -> dict[str, PartLayout]:
    """The layouts that safetensors files of parts have in them."""
    out: dict[str, PartLayout] = {}
    for rank, file in enumerate(files):
        _, found = checkpoint.decode(read_file(file), f"checkpoint {file}")
        if LAYOUTS_KEY not in found:
            raise ValueError(f"{file} has no layouts in it: give 'train_strategy_filename'.")
        said = json.loads(found[LAYOUTS_KEY])
        if said["rank"] != rank or said["of"] != len(files):
            raise ValueError(f"{file} is the part of rank {said['rank']} of {said['of']}, but it "
                             f"is given as that of rank {rank} of {len(files)}.")
        out |= {name: from_json(layout) for name, layout in said["layouts"].items()}
    return out
