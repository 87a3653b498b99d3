"""The resources of a multiprocessor, by architecture."""

from __future__ import annotations

from cellc_runtime.target import Target

_KIB = 1 << 10
UNITS = {"sm_80": 108, "sm_90a": 132, "sm_100a": 148}
"""Multiprocessors of the devices that are meant; figures, not bits, follow from it."""
_SHARED = {"sm_80": 99 * _KIB, "sm_90a": 227 * _KIB, "sm_100a": 227 * _KIB}


def most_shared(target: Target) -> int:
    """Bytes of shared memory that a block may have; code for sm_80 runs on sm_86 and sm_89, too."""
    return _SHARED.get(target.cpu, 99 * _KIB)


def has_room_for_two(nbytes: int, target: Target) -> bool:
    """Whether a multiprocessor has room for two blocks with this shared memory and their
    overhead."""
    return 2 * (nbytes + _KIB) <= most_shared(target) + _KIB
