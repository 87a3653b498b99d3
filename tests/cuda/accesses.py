"""Analysis of the accesses of emulated kernels: faults, and their cost on a GPU.

The emulator records every access of a checked kernel; here they are looked at together, in numpy.

- *Outside*: an access that is in no memory of the device, nor in the block's shared memory.
- *Races*: two threads touch a place, one of them writes, and nothing orders them. Barriers order
  the threads of a block, meetings of a warp those of a warp; nothing orders blocks.
- *Sectors*: the 32-byte pieces that a warp's request moves in global memory, against the least
  number that its bytes need.
- *Wavefronts*: passes that a warp's request of shared memory takes, of which each serves a bank
  once, against the least.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_runtime.abi import EMULATED_SHARED
from cellc_runtime.cuda import checked
from cellc_runtime.cuda.checked import ACCESS
from cellc_runtime.dtypes import Array
from cellc_runtime.records import dataclass

WARP, SECTOR, BANKS = 32, 32, 32
_WRITE = 1 << 16


@dataclass(frozen=True, slots=True)
class Traffic:
    """The traffic of requests.

    Attributes:
        requests: of warps.
        moved: sectors, or wavefronts.
        least: of them that the same bytes need.
    """

    requests: int
    moved: int
    least: int


@dataclass(frozen=True, slots=True)
class Accesses:
    """The accesses of the launches since they were last asked for.

    Attributes:
        records: see `abi.EMULATOR_STRUCTURES`.
        is_shared: of each, whether it is in shared memory.
        outside: of each, whether it is where nothing is.
        lost: how many there was no room to record.
    """

    records: Array
    is_shared: Array
    outside: Array
    lost: int

    @property
    def misaligned(self) -> Array:
        """Of each, whether it does not lie at a multiple of its bytes, as a GPU wants it."""
        nbytes = np.minimum(self.records["what"] & 0xFFFF, 16)
        found: Array = self.records["address"] % np.maximum(nbytes, 1) != 0
        return found

    def faults(self) -> list[str]:
        """Return accesses that a GPU refuses or leaves undefined: none for correct kernels."""
        found = self.races()
        for name, which in (("outside of all memory", self.outside),
                            ("not aligned", self.misaligned)):
            for access in self.records[which][:1]:
                found.append(f"{int(which.sum())} accesses are {name}; the first is instruction "
                             f"{access['what'] >> 32} of launch {access['launch']}, by thread "
                             f"{access['tid']} of block {access['block']}")
        return found

    def races(self) -> list[str]:
        """Each place that is raced for, at most one for each instruction that writes."""
        return [*self._races_of(self.is_shared), *self._races_of(~self.is_shared)]

    def _races_of(self, which: Array) -> list[str]:
        units = _units(self.records[which & ~self.outside])
        if not len(units):
            return []
        shared = bool(self.is_shared[which][0])
        place = ["launch", "unit"] if not shared else ["launch", "block", "unit"]
        found: dict[int, str] = {}
        for same in _met(units, place):
            for group in _groups(same, ["barriers"]) if _one(same["block"]) else [same]:
                raced = _raced(group)
                if raced is not None:
                    found.setdefault(int(raced["what"] >> 32), _told(raced, shared))
        return list(found.values())

    def global_traffic(self) -> Traffic:
        """Sectors of requests of the device's memory."""
        return self._traffic(self.records[~self.is_shared & ~self.outside], _sectors)

    def shared_traffic(self) -> Traffic:
        """Wavefronts of requests of shared memory."""
        return self._traffic(self.records[self.is_shared], _wavefronts)

    def _traffic(self, records: Array, count: Any) -> Traffic:
        requests = moved = least = 0
        for request in _requests(records):
            used, needed = count(request)
            requests, moved, least = requests + 1, moved + used, least + needed
        return Traffic(requests, moved, least)


class CheckedDevice(checked.CheckedDevice):
    """The emulated GPU that records, with what its records say."""

    def accesses(self) -> Accesses:
        """Return the recorded accesses and start a new record."""
        used, shared = self.state("used"), self.state("shared")
        self.set_state("used", 0)
        records = self._records[: min(used, len(self._records))].copy()
        end = records["address"] + (records["what"] & 0xFFFF)

        def inside(start: int, nbytes: int) -> Array:
            found: Array = (records["address"] >= start) & (end <= start + nbytes)
            return found

        known = np.zeros(len(records), bool)
        for start, nbytes in self._blocks:
            known |= inside(start, nbytes)
        self._blocks = [(start, nbytes) for start, nbytes in self._blocks
                        if self.owns(start, nbytes)]
        is_shared = inside(shared, EMULATED_SHARED)
        return Accesses(records, is_shared, ~known & ~is_shared, max(used - len(records), 0))


def _one(values: Array) -> bool:
    return bool((values == values[0]).all())


def _units(records: Array) -> Array:
    """A row for each piece of an access, all of one size, with the piece's number."""
    if not len(records):
        return records
    nbytes = records["what"] & 0xFFFF
    size = int(np.gcd.reduce(np.concatenate([nbytes, records["address"] % 16, [16]])))
    counts = nbytes // size
    rows = np.repeat(np.arange(len(records)), counts)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    out = np.zeros(len(rows), np.dtype([*ACCESS.descr, ("unit", np.int64)]))
    for name in ACCESS.names or ():
        out[name] = records[name][rows]
    out["unit"] = records["address"][rows] // size + (np.arange(len(rows)) - first)
    return out


def _groups(rows: Array, by: list[str]) -> list[Array]:
    """Rows that are equal in some fields."""
    ordered, starts = _sorted(rows, by)
    return np.split(ordered, starts[1:])


def _sorted(rows: Array, by: list[str]) -> tuple[Array, Array]:
    """Rows in the order of some fields, and where each new value begins."""
    ordered = rows[np.lexsort([rows[name] for name in reversed(by)])]
    new = np.ones(len(rows), bool)
    new[1:] = False
    for name in by:
        new[1:] |= ordered[name][1:] != ordered[name][:-1]
    return ordered, np.flatnonzero(new)


def _met(rows: Array, by: list[str]) -> list[Array]:
    """Those groups of rows that are equal in some fields in which several threads are, and one
    writes."""
    ordered, starts = _sorted(rows, by)
    thread = ordered["block"].astype(np.int64) << 10 | ordered["tid"]
    writes = np.logical_or.reduceat((ordered["what"] & _WRITE) != 0, starts)
    several = np.maximum.reduceat(thread, starts) != np.minimum.reduceat(thread, starts)
    ends = np.append(starts[1:], len(ordered))
    return [ordered[starts[i] : ends[i]] for i in np.flatnonzero(writes & several)]


def _raced(group: Array) -> Any:
    """A write of a group between two barriers that races with another access of it; or None."""
    writes = group[(group["what"] & _WRITE) != 0]
    warps = group["tid"] // WARP
    for w in writes:
        other_block = group["block"] != w["block"]
        other_warp = warps != w["tid"] // WARP
        unordered = (group["tid"] != w["tid"]) & (group["meetings"] == w["meetings"])
        if (other_block | other_warp | unordered).any():
            return w
    return None


def _told(w: Any, shared: bool) -> str:
    kind = "shared" if shared else "global"
    return (f"{kind} memory is written by thread {w['tid']} of block {w['block']} (instruction "
            f"{w['what'] >> 32} of launch {w['launch']}) while another thread uses it")


def _requests(records: Array) -> list[Any]:
    """Accesses that the lanes of a warp make by one instruction at one time."""
    if not len(records):
        return []
    out = np.zeros(len(records), np.dtype([*ACCESS.descr, ("warp", np.int32), ("turn", np.int32)]))
    for name in ACCESS.names or ():
        out[name] = records[name]
    out["warp"] = records["tid"] // WARP
    turn = np.zeros(len(records), np.int32)
    keys = out[["launch", "block", "tid", "what"]]
    _, which = np.unique(keys, return_inverse=True)
    order = np.argsort(which, kind="stable")
    starts = np.flatnonzero(np.diff(which[order], prepend=-1))
    counts = np.diff(np.append(starts, len(order)))
    turn[order] = np.arange(len(order)) - np.repeat(starts, counts)
    out["turn"] = turn
    return _groups(out, ["launch", "block", "warp", "what", "turn"])


def _sectors(request: Array) -> tuple[int, int]:
    nbytes = int(request["what"][0] & 0xFFFF)
    pieces = request["address"][:, None] + np.arange(0, nbytes, min(nbytes, SECTOR))
    bytes_moved = len(np.unique(request["address"])) * nbytes
    return len(np.unique(pieces // SECTOR)), -(-bytes_moved // SECTOR)


def _wavefronts(request: Array) -> tuple[int, int]:
    """Each quarter (16 bytes a lane) or half (8 bytes) of a warp is served by itself."""
    nbytes = int(request["what"][0] & 0xFFFF)
    each = WARP * 4 // max(nbytes, 4)
    passes = needed = 0
    for first in range(0, WARP, each):
        lanes = request[(request["tid"] % WARP >= first) & (request["tid"] % WARP < first + each)]
        if not len(lanes):
            continue
        words = lanes["address"][:, None] // 4 + np.arange(max(nbytes // 4, 1))
        distinct = np.unique(words)
        passes += int(np.bincount(distinct % BANKS, minlength=BANKS).max())
        needed += max(-(-len(distinct) // BANKS), 1)
    return passes, needed
