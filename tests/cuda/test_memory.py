"""Memory of a GPU and copies: blocks, reuse in order, pressure, figures, staging."""

from __future__ import annotations

import gc
import threading
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from cellc_runtime.cuda import staging
from cellc_runtime.cuda.device import CudaDevice
from cellc_runtime.cuda.driver import Driver
from cellc_runtime.cuda.memory import SLAB, block_size
from cellc_runtime.device import Memory

from .fake_driver import FRESH, FakeDriver

MIB = 1 << 20


def opened(**facts: Any) -> tuple[FakeDriver, CudaDevice]:
    """A GPU over a stand-in."""
    fake = FakeDriver(**facts)
    return fake, CudaDevice(Driver(fake))


def held(device: CudaDevice, memory: Memory, count: int) -> bytes:
    """Its first bytes."""
    out = bytearray(count)
    device.read(memory.address, memoryview(out))
    return bytes(out)


@pytest.mark.parametrize("nbytes", [0, 1, 511, 512, 513, 1000, 5000, 65_537, MIB, MIB + 1, 3 * MIB,
                                    100 * MIB + 5, (1 << 34) + 1])
def test_sizes(nbytes: int) -> None:
    size = block_size(nbytes)
    assert size >= max(nbytes, 1) and size % 512 == 0
    assert size <= max(512, SLAB * (nbytes > MIB), nbytes * 9 / 8 + 512) or nbytes < 16 * MIB
    assert block_size(size) == size


def test_memory_is_zeroed_and_apart() -> None:
    fake, device = opened()
    blocks = [device.allocate(n) for n in (1, 700, 70_000, 3 * MIB, 512)]
    spans = sorted((b.address, b.address + max(b.nbytes, 1)) for b in blocks)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert all(b.address % 512 == 0 for b in blocks)
    assert all(held(device, b, b.nbytes) == bytes(b.nbytes) for b in blocks)
    assert held(device, device.allocate_unset(64), 64) == bytes([FRESH]) * 64
    assert len(device._allocator._segments) > 1
    assert all(device._allocator.owns(b.address, b.nbytes) for b in blocks)
    assert not device._allocator.owns(spans[0][0], spans[-1][1] - spans[0][0])
    assert fake.count(Memory) == 0


def test_freed_blocks_come_back_at_once() -> None:
    """Repeated calls find the same addresses, and the driver is not asked."""
    fake, device = opened()
    first = device.allocate(5000)
    address = first.address
    del first
    asked = fake.log.count("cuMemAlloc_v2")
    for _ in range(5):
        again = device.allocate(4900)
        assert again.address == address
        del again
    assert fake.log.count("cuMemAlloc_v2") == asked
    one, two = device.allocate(5000), device.allocate(5000)
    assert one.address != two.address


def test_a_reused_block_is_written_behind_what_reads_it() -> None:
    """The host frees memory while a copy from it is still to come."""
    _, device = opened()
    source, to = device.allocate(4096), device.allocate(4096)
    device.copy(source.address, b"\1" * 4096)
    device.move(to.address, source.address, 4096)
    address = source.address
    del source
    again = device.allocate(4096)
    assert again.address == address
    device.copy(again.address, b"\2" * 4096)
    assert held(device, to, 4096) == b"\1" * 4096


def test_statistics() -> None:
    _, device = opened(memory=64 * MIB)
    assert device.statistics().allocated == 0 and device.statistics().total == 64 * MIB
    big, small = device.allocate(10 * MIB), device.allocate(100)
    stats = device.statistics()
    assert (stats.allocated, stats.reserved) == (10 * MIB + 512, 10 * MIB + SLAB)
    assert stats.free == 64 * MIB - stats.reserved
    del big
    stats = device.statistics()
    assert (stats.allocated, stats.peak_allocated) == (512, 10 * MIB + 512)
    assert stats.reserved == 10 * MIB + SLAB, "kept for the next one"
    device.trim()
    device.reset_peaks()
    stats = device.statistics()
    assert stats.reserved == stats.peak_reserved == SLAB, "the small one's slab is in use"
    assert stats.peak_allocated == 512
    del small
    device.trim()
    assert device.statistics().reserved == 0


def test_what_is_kept_makes_room() -> None:
    """Blocks of another size go back to the driver before there is an error, after a wait."""
    fake, device = opened(memory=40 * MIB)
    blocks = [device.allocate(8 * MIB) for _ in range(4)]
    device.copy(blocks[0].address, bytes(100))
    del blocks
    assert device.allocate(30 * MIB).nbytes == 30 * MIB
    assert fake.pending() <= 1  # the new block's zeros


def test_garbage_in_cycles_makes_room() -> None:
    _, device = opened(memory=40 * MIB)
    gc.collect()
    gc.disable()
    try:
        cycle: list[Any] = [device.allocate(30 * MIB)]
        cycle.append(cycle)
        del cycle
        assert device.allocate(32 * MIB).nbytes == 32 * MIB
    finally:
        gc.enable()


def test_no_memory() -> None:
    _, device = opened(memory=64 * MIB)
    kept = device.allocate(40 * MIB)
    said = (r"cuda:0 \(Fake GPU, sm_90\) has no 30.0 MiB left: of 64.0 MiB, 24.0 MiB are free, "
            r"this process holds 40.0 MiB in tensors and programs and 0 bytes for the next ones")
    with pytest.raises(MemoryError, match=said):
        device.allocate(30 * MIB)
    assert device.allocate(20 * MIB).nbytes and kept.nbytes, "it goes on"


def test_collection_in_the_middle_of_an_allocation() -> None:
    """Memory may go at any moment, also while the allocator is at work: no deadlock."""
    fake, device = opened()
    victim = [device.allocate(512)]
    lock = device._allocator._lock
    with lock:
        del victim[0]
    assert device.statistics().allocated == 0
    threads = [threading.Thread(target=lambda: [device.allocate(n) for n in range(1, 9000, 300)])
               for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert device.statistics().allocated == 0 and fake.sticky == 0


@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("nbytes", [1, 63, 4096, staging.CHUNK - 1, staging.CHUNK,
                                    staging.CHUNK + 1, 5 * staging.CHUNK + 77])
def test_copies(nbytes: int, pinned: bool) -> None:
    """There and back; the source may change at once, though the GPU has done nothing yet."""
    fake, device = opened()
    if not pinned:
        fake.fails["cuMemHostAlloc"] = [2]
    memory = device.allocate(nbytes)
    given = np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8)
    source = given.copy()
    device.copy(memory.address, source.data)
    source[:] = 0
    out = np.zeros(nbytes, np.uint8)
    device.read(memory.address, out.data)
    assert np.array_equal(out, given)
    device.copy(memory.address, given[::-1].tobytes())
    device.read(memory.address, out.data)
    assert np.array_equal(out, given[::-1])


def test_many_small_copies_share_a_chunk() -> None:
    fake, device = opened()
    memory = device.allocate(1 << 20)
    for i in range(2000):
        device.copy(memory.address + 512 * i, bytes([i % 251]) * 500)
    assert fake.log.count("cuEventSynchronize") == 0, "nothing waits"
    for i in range(0, 2000, 97):
        out = bytearray(500)
        device.read(memory.address + 512 * i, memoryview(out))
        assert out == bytes([i % 251]) * 500


def test_copies_take_what_has_no_bytes_and_what_is_read_only() -> None:
    _, device = opened()
    memory = device.allocate(16)
    device.copy(memory.address, b"")
    device.read(memory.address, memoryview(bytearray()))
    array = np.arange(4, dtype=np.float32)
    array.flags.writeable = False
    device.copy(memory.address, array.data)
    assert held(device, memory, 16) == array.tobytes()
