"""Random streams of pipelines: the published generators that MindSpore's pipelines draw from.

Draws from them follow the standard library of C++ (that of GCC), so the same seed gives the same
order of rows and the same images. Sources: Matsumoto and Nishimura, "Mersenne Twister", 1998, and
its 64-bit form, 2000; Park and Miller, "Random number generators: good ones are hard to find",
1988; `bits/uniform_int_dist.h`, `bits/random.tcc`, `bits/stl_algo.h`.
"""

from __future__ import annotations

import math
from collections.abc import MutableSequence, Sequence
from typing import Any

import numpy as np

_BLOCK = 64
_U64 = np.uint64


class Stream:
    """Base of random generators: words, and numbers derived from them.

    Args:
        seed: where it starts; taken modulo 2**32.

    Attributes:
        words: how many different words there are.
    """

    words = 1 << 32

    def __init__(self, seed: int) -> None:
        self.seed = seed % (1 << 32)
        self._next: list[int] = []

    def _more(self) -> list[int]:
        """The next words, the first at the end."""
        raise TypeError(f"{type(self).__name__} gives no words.")

    def word(self) -> int:
        """The next word: an int from 0 to `words` - 1."""
        if not self._next:
            self._next = self._more()
        return self._next.pop()

    def below(self, count: int) -> int:
        """An int from 0 to `count` - 1; `count` is at most that of the words."""
        each = (self.words - 1) // count
        while (word := self.word()) >= count * each:
            pass
        return word // each

    def unit(self) -> float:
        """A float64 in [0, 1), of two words of 32 bits."""
        low, high = self.word(), self.word()
        return min((low + high * 2.0**32) / 2.0**64, math.nextafter(1.0, 0.0))

    def real(self, low: float, high: float) -> float:
        """A float32 in [low, high), of one word of 32 bits."""
        one = np.float32(1)
        unit = min(np.float32(self.word()) * np.float32(2.0**-32), np.nextafter(one, one - one))
        return float(unit * (np.float32(high) - np.float32(low)) + np.float32(low))

    def happens(self, prob: float) -> bool:
        """Whether something of this probability happens."""
        return self.unit() < prob

    def one_of(self, sums: Sequence[float] | np.ndarray[Any, Any]) -> int:
        """A position, by probabilities added up."""
        return min(int(np.searchsorted(sums, self.unit())), len(sums) - 1)

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """Put items into random order, in place."""
        count = len(items)
        if count < 2:
            return
        if (self.words - 1) // count < count:
            for i in range(1, count):
                j = self.below(i + 1)
                items[i], items[j] = items[j], items[i]
            return
        start = 1
        if count % 2 == 0:
            j = self.below(2)
            items[1], items[j] = items[j], items[1]
            start = 2
        for i in range(start, count, 2):  # one draw gives the places of two
            j, k = divmod(self.below((i + 1) * (i + 2)), i + 2)
            items[i], items[j] = items[j], items[i]
            items[i + 1], items[k] = items[k], items[i + 1]

    def order(self, count: int) -> list[int]:
        """The numbers below `count` in random order."""
        found = list(range(count))
        self.shuffle(found)
        return found


class Mt19937(Stream):
    """The Mersenne Twister of 32 bits."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._bits = np.random.MT19937(0)
        np.random.RandomState(self._bits).seed(self.seed)  # as the paper seeds it, by one number

    def _more(self) -> list[int]:
        found: list[int] = self._bits.random_raw(_BLOCK)[::-1].tolist()
        return found

    def normals(self, count: int) -> np.ndarray[Any, Any]:
        """Numbers of a normal distribution, as a new stream gives them: `std::normal_distribution`
        of doubles by Marsaglia's polar method, each number from two words."""
        found, have = [], 0
        while have < count:
            words = self._bits.random_raw(4 * (count - have + 8)).reshape(-1, 2, 2)
            low, high = words[..., 0].astype(np.float64), words[..., 1].astype(np.float64)
            x, y = (2.0 * ((low + high * 2.0**32) / 2.0**64) - 1.0).T
            square = x * x + y * y
            good = (square <= 1.0) & (square != 0.0)
            x, y, square = x[good], y[good], square[good]
            factor = np.sqrt(-2.0 * np.log(square) / square)
            found.append(np.stack([y * factor, x * factor], -1).ravel())
            have += len(found[-1])
        return np.concatenate(found)[:count]


class Mt19937x64(Stream):
    """The Mersenne Twister of 64 bits."""

    words = 1 << 64

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        state = [self.seed]
        for i in range(1, 312):
            state.append((6364136223846793005 * (state[-1] ^ state[-1] >> 62) + i) % self.words)
        self._state = np.array(state, _U64)

    def _more(self) -> list[int]:
        state = self._state
        # A value written at a place is read 156 places later, so half of them are computed at once.
        for places, after in ((slice(0, 156), slice(1, 157)), (slice(156, 311), slice(157, 312)),
                              (slice(311, 312), slice(0, 1))):
            mixed = state[places] & _U64(0xFFFFFFFF80000000) | state[after] & _U64(0x7FFFFFFF)
            far = np.roll(state, -156)[places]
            state[places] = far ^ mixed >> _U64(1) ^ (mixed & _U64(1)) * _U64(0xB5026F5AA96619E9)
        x = state ^ state >> _U64(29) & _U64(0x5555555555555555)
        x ^= x << _U64(17) & _U64(0x71D67FFFEDA60000)
        x ^= x << _U64(37) & _U64(0xFFF7EEE000000000)
        x ^= x >> _U64(43)
        found: list[int] = x[::-1].tolist()
        return found


class MinimalStandard(Stream):
    """The multiplicative generator of Park and Miller."""

    words = 2**31 - 2

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._state = self.seed % (2**31 - 1) or 1

    def word(self) -> int:
        """The next word."""
        self._state = self._state * 16807 % (2**31 - 1)
        return self._state - 1
