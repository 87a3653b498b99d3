"""Memory of packed weights: blocks cut from slabs do not overlap, and go back when they die."""

from __future__ import annotations

import ctypes
import gc
import os
import weakref
from pathlib import Path

import pytest

from cellc_runtime.device import host_memory
from cellc_runtime.platform import Scratch, Slabs

MIB = 1 << 20


def fill(block: Scratch, value: int) -> None:
    ctypes.memset(block.address, value, block.nbytes)


def filled(block: Scratch, value: int) -> bool:
    return bytes(host_memory(block.address, block.nbytes)) == bytes([value]) * block.nbytes


def test_blocks_are_aligned_zeroed_and_apart() -> None:
    sizes = [1, 64, 5 * MIB + 3, 100, 40 * MIB, 0, 7 * MIB, 63]
    slabs = Slabs(sum(sizes))
    blocks = [slabs.take(n) for n in sizes]
    assert [b.nbytes for b in blocks] == sizes
    assert all(b.address % 64 == 0 and filled(b, 0) for b in blocks)
    for i, b in enumerate(blocks):
        fill(b, i + 1)
    assert all(filled(b, i + 1) for i, b in enumerate(blocks))


def test_more_blocks_than_were_said() -> None:
    """The total is an estimate: blocks that others hold are not taken, and more may be."""
    slabs = Slabs(5 * MIB)
    blocks = [slabs.take(3 * MIB) for _ in range(4)]
    for i, b in enumerate(blocks):
        fill(b, i)
    assert all(filled(b, i) for i, b in enumerate(blocks))


def test_a_slab_goes_with_the_last_of_its_blocks() -> None:
    slabs = Slabs(16 * MIB)
    one, two = slabs.take(8 * MIB), slabs.take(8 * MIB)
    slab = weakref.ref(slabs._slab)
    fill(two, 7)
    del slabs, one
    gc.collect()
    assert slab() is not None and filled(two, 7)
    del two
    gc.collect()
    assert slab() is None


STATM = Path("/proc/self/statm")


@pytest.mark.skipif(not STATM.exists(), reason="Linux says what is resident")
def test_pages_of_a_block_go_back_while_its_slab_lives() -> None:
    def resident() -> int:
        return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    slabs = Slabs(28 * MIB)
    one, two = slabs.take(24 * MIB), slabs.take(4 * MIB)
    fill(one, 1)
    fill(two, 2)
    before = resident()
    del one
    gc.collect()
    assert before - resident() > 20 * MIB
    assert filled(two, 2)
