"""Philox4x32-10 against the published vectors of Random123, and numpy's own 64-bit sibling."""

from __future__ import annotations

import numpy as np
import pytest

from cellc_runtime.philox import philox, random_bits

VECTORS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]  # fmt: skip


@pytest.mark.parametrize(("counter", "key", "want"), VECTORS)
def test_published_vectors(
    counter: tuple[int, ...], key: tuple[int, int], want: tuple[int, ...]
) -> None:
    words = philox([np.array([c], np.uint64) for c in counter], key)
    assert tuple(int(w[0]) for w in words) == want


def test_words_follow_blocks_and_halves() -> None:
    seed, offset = 0x1122334455667788, 0x99AABBCCDDEEFF00
    bits = random_bits(seed, offset, 11)
    assert bits.dtype == np.uint32 and bits.shape == (11,)
    counter = [np.array([c], np.uint64) for c in (2, 0, 0xDDEEFF00, 0x99AABBCC)]
    block = philox(counter, (0x55667788, 0x11223344))
    assert [int(b) for b in bits[8:]] == [int(w[0]) for w in block[:3]]
    np.testing.assert_array_equal(random_bits(seed, offset, 5), bits[:5])


def test_offsets_and_seeds_differ() -> None:
    draws = {random_bits(s, o, 8).tobytes() for s in (0, 1, 1 << 32) for o in (0, 1, 1 << 32)}
    assert len(draws) == 9
    assert abs(random_bits(3, 0, 100_000).mean() / 2**32 - 0.5) < 0.005
    assert random_bits(0, 0, 0).size == 0
    with pytest.raises(ValueError, match="-1"):
        random_bits(0, 0, -1)
