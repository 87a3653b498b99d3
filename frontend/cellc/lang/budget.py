"""Bounds of the work and memory that one trace may take.

Loops over known numbers are unrolled, and Python values are computed while the network is compiled.
Without a bound, `while i < 10**9` runs for hours and a doubled list takes all memory.
"""

from __future__ import annotations

import operator
from typing import Any

MOST_STATEMENTS = 200_000
MOST_ELEMENTS = 1 << 22  # Of a list, tuple, str or bytes
MOST_BITS = 1 << 20  # Of an int

_SEQUENCES = (list, tuple, str, bytes, bytearray)
GROWING = frozenset((int, *_SEQUENCES))
"""Types whose operators may give values that are much larger."""
_ADD = (operator.add, operator.iadd)
_MUL = (operator.mul, operator.imul)
_POW = (operator.pow, operator.ipow)
_SHIFT = (operator.lshift, operator.ilshift)


def check_growth(operate: Any, a: Any, b: Any) -> None:
    """Refuse an operation on Python values before its result takes too much memory.

    Raises:
        ValueError: the sequence or int would be too large.
    """
    if type(a) is int and type(b) is int:
        bits = abs(a).bit_length() * b if operate in _POW and abs(a) > 1 else \
            a.bit_length() + b if operate in _SHIFT and a else 0
        _check(bits, MOST_BITS, "an int of at most", "bits")
    elif operate in _ADD and isinstance(a, _SEQUENCES) and isinstance(b, _SEQUENCES):
        check_length(len(a) + len(b))
    elif operate in _MUL:
        for box, times in ((a, b), (b, a)):
            if isinstance(box, _SEQUENCES) and type(times) is int:
                check_length(len(box) * times)


def check_length(length: int) -> None:
    """Refuse a sequence of too many elements.

    Raises:
        ValueError: there are more than `MOST_ELEMENTS`.
    """
    _check(length, MOST_ELEMENTS, "a sequence of at most", "elements")


def _check(size: int, most: int, what: str, unit: str) -> None:
    if size > most:
        raise ValueError(f"a value computed while compiling must be {what} {most} {unit}, but this "
                         f"would have {size}: compute it in __init__, or use a Tensor")
