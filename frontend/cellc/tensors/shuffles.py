"""The permutation that C++'s `std::shuffle` makes of 0 .. n - 1 by `std::mt19937`.

MindSpore's CPU draws so. Sources: Matsumoto and Nishimura, "Mersenne Twister", 1998; Durstenfeld,
"Algorithm 235: Random Permutation", 1964, of which libstdc++ draws two exchanges at once while the
product of their choices fits the generator's range.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

_RANGE = 2**32 - 1
_BLOCK = 1 << 10


def shuffled(count: int, seed: int) -> list[int]:
    """0 .. count - 1 in the order of a seed, which counts modulo 2**32."""
    words, out, i = _words(seed), list(range(count)), 1
    if count and _RANGE // count < count:
        for i in range(1, count):
            _exchange(out, i, _below(i + 1, words))
        return out
    if count and count % 2 == 0:
        _exchange(out, 1, _below(2, words))
        i = 2
    for j in range(i, count, 2):
        first, second = divmod(_below((j + 1) * (j + 2), words), j + 2)
        _exchange(out, j, first)
        _exchange(out, j + 1, second)
    return out


def _words(seed: int) -> Iterator[int]:
    twister = np.random.RandomState(seed & _RANGE)
    while True:
        yield from twister.randint(0, _RANGE + 1, _BLOCK, np.uint32).tolist()


def _below(size: int, words: Iterator[int]) -> int:
    """An int below a size, from the first word that all sizes of its kind have equally often."""
    step = _RANGE // size
    for word in words:
        if word < step * size:
            return word // step
    raise AssertionError("the generator has no end")


def _exchange(items: list[int], i: int, j: int) -> None:
    items[i], items[j] = items[j], items[i]
