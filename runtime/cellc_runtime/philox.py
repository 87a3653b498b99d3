"""Philox4x32-10, the counter-based generator all random numbers come from (numpy reference).

Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). A draw is a
function of seed, offset and position alone, so any thread can make any part of it, and eager and
compiled code draw the same numbers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10

_U64 = npt.NDArray[np.uint64]
_MASK = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(32)


def random_bits(seed: int, offset: int, n: int) -> npt.NDArray[np.uint32]:
    """`n` random words: word i is word `i % 4` of block `i // 4`.

    Args:
        seed: 64 bits; the key is its low and its high half.
        offset: 64 bits; the counter is (block low, block high, offset low, offset high).
        n: words wanted.

    Raises:
        ValueError: `n` is negative.
    """
    if n < 0:
        raise ValueError(f"cannot draw {n} words")
    blocks = np.arange(-(-n // 4), dtype=np.uint64)
    counter = [blocks & _MASK, blocks >> _HIGH]
    counter += [np.full_like(blocks, part) for part in _halves(offset)]
    words = philox(counter, _halves(seed))
    return np.stack(words, axis=-1).reshape(-1)[:n].astype(np.uint32)


def philox(counter: list[_U64], key: tuple[int, int]) -> list[_U64]:
    """The ten rounds on arrays of counters: four arrays of 32-bit words, held in 64 bits."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        p0, p1 = c0 * np.uint64(MULTIPLIERS[0]), c2 * np.uint64(MULTIPLIERS[1])
        c0, c1, c2, c3 = (
            (p1 >> _HIGH) ^ c1 ^ np.uint64(k0), p1 & _MASK,
            (p0 >> _HIGH) ^ c3 ^ np.uint64(k1), p0 & _MASK,
        )  # fmt: skip
        k0, k1 = (k0 + WEYL[0]) & 0xFFFFFFFF, (k1 + WEYL[1]) & 0xFFFFFFFF
    return [c0, c1, c2, c3]


def _halves(value: int) -> tuple[int, int]:
    return value & 0xFFFFFFFF, (value >> 32) & 0xFFFFFFFF
