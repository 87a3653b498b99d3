"""Philox4x32-10, a counter-based random number generator, on lanes.

Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). The bits
of an element are a pure function of (seed, offset, element index): 128 counter bits (block
low, block high, offset low, offset high) encrypted under the 64-bit key `seed` by ten rounds
give four 32-bit words, and element i takes word i % 4 of block i // 4. So a draw is the same
whatever the lanes, the tasks and the mode, and recomputation repeats it.
"""

from __future__ import annotations

from .math.lanes import X
from .text import Function, V, lanes_of

_MULTIPLY = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF
_ROUNDS = 10


def philox_block(f: Function, block: V, seed: V, offset: V) -> tuple[V, V, V, V]:
    """The four words of each block.

    Args:
        block: i64 block numbers, any lane count n.
        seed: the key, one i64 for all lanes.
        offset: the upper counter half (which draw), one i64 for all lanes.

    Returns:
        Four values of n lanes of i32.
    """
    n = lanes_of(block.ty)

    def halves(v: V) -> tuple[X, X]:
        x = X(f, v)
        return x & _LOW, x >> 32

    # Words live in 64-bit lanes: a round is 32 x 32 -> 64 bit products, one instruction each.
    c0, c1 = halves(block)
    c2, c3 = (X(f, f.splat(h.v, n)) for h in halves(offset))
    k0, k1 = halves(seed)
    for _ in range(_ROUNDS):
        p, q = c0 * _MULTIPLY[0], c2 * _MULTIPLY[1]
        key0, key1 = (X(f, f.splat(k.v, n)) for k in (k0, k1))
        c0, c1, c2, c3 = (q >> 32) ^ c1 ^ key0, q & _LOW, (p >> 32) ^ c3 ^ key1, p & _LOW
        k0, k1 = (k0 + _WEYL[0]) & _LOW, (k1 + _WEYL[1]) & _LOW
    w0, w1, w2, w3 = (c.to("trunc", "i32").v for c in (c0, c1, c2, c3))
    return w0, w1, w2, w3


def philox_bits(f: Function, index: V, seed: V, offset: V) -> V:
    """32 random bits for each element index, in any order (one block per lane).

    Args:
        index: non-negative i64 element indices, any lane count n.
        seed: the key, one i64 for all lanes.
        offset: which draw, one i64 for all lanes.

    Returns:
        n lanes of i32.
    """
    i = X(f, index)
    words = [X(f, w) for w in philox_block(f, (i >> 2).v, seed, offset)]
    low = i.to("trunc", "i32")
    odd, upper = (low & 1).cmp("ne", 0), (low & 2).cmp("ne", 0)
    return upper.where(odd.where(words[3], words[2]), odd.where(words[1], words[0])).v
