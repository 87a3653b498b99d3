"""Functions of `mint` with loops that end at run time, so their source is interpreted."""

from __future__ import annotations

from typing import Any

from ..common.tensor import Tensor
from ..numpy import applying as _parts


def gcd(input: Any, other: Any) -> Tensor:
    """The greatest common divisors of ints, not negative. Source: `mindspore.mint.gcd`.

    Args:
        input, other: Tensors of ints (or one int) that broadcast.
    """
    x, y, shown = _parts.whole("gcd", input, other)
    while _parts.some(y):
        x, y = _parts.euclid(x, y)
    return _parts.divisor(x, shown, None)


def lcm(input: Any, other: Any) -> Tensor:
    """The least common multiples of ints, not negative. Source: `mindspore.ops.lcm`.

    Args:
        input, other: Tensors of ints (or one int) that broadcast.
    """
    x, y, shown = _parts.whole("lcm", input, other)
    left, right = x, y
    while _parts.some(y):
        x, y = _parts.euclid(x, y)
    return _parts.multiple(left, right, x, shown, None)
