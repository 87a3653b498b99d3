"""Greatest common divisors and least common multiples: Euclid's algorithm for all elements."""

from __future__ import annotations

from typing import Any

from cellc_runtime.dtypes import int64

from ...compiled.inline import call_here
from ...core.declared import misuse
from ...tensors.promotion import cast_to, operands
from ...tensors.tensor import Tensor
from . import arith, control_source, shapes


def gcd(input: Any, other: Any) -> Tensor:
    """The greatest common divisors of ints, not negative.

    Args:
        input, other: Tensors of ints (or one int) that broadcast.

    Sources: `mindspore.ops.gcd`, `mindspore.mint.gcd`.
    """
    return common_divisor(*_integers("gcd", input, other))


def lcm(input: Any, other: Any) -> Tensor:
    """The least common multiples of ints, not negative.

    Args:
        input, other: Tensors of ints (or one int) that broadcast.
    """
    return common_multiple(*_integers("lcm", input, other))


def _integers(what: str, input: Any, other: Any) -> tuple[Tensor, Tensor]:
    """Two tensors of one integer type, of which one may have been an int."""
    for value in (input, other):
        kind = value.dtype.is_integer if isinstance(value, Tensor) else \
            isinstance(value, int) and not isinstance(value, bool)
        if not kind:
            got = value.dtype if isinstance(value, Tensor) else type(value).__name__
            raise misuse(what, "Tensors of ints are needed", got, TypeError)
    return operands(what, input, other)


def common_divisor(x: Tensor, y: Tensor) -> Tensor:
    """The divisors of two tensors of one integer type, in that type."""
    return cast_to(_divisor(*_wide(x, y)), x.dtype)


def common_multiple(x: Tensor, y: Tensor) -> Tensor:
    """The multiples of two tensors of one integer type, in that type; 0 where both are 0."""
    a, b = _wide(x, y)
    divisor = _divisor(a, b)
    none = divisor == 0
    out = a // arith.where(none, 1, divisor) * b
    return cast_to(arith.abs(arith.where(none, 0, out)), x.dtype)


def _wide(x: Tensor, y: Tensor) -> list[Tensor]:
    return [cast_to(t, int64) for t in shapes.broadcast_tensors(x, y)]


def _divisor(x: Tensor, y: Tensor) -> Tensor:
    # Until no element has a rest: (y, x mod y) where y is not zero.
    def unfinished(pair: tuple[Tensor, Tensor]) -> Tensor:
        return arith.ne(pair[1], 0).any()

    def step(pair: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        x, y = pair
        done = arith.eq(y, 0)
        return arith.where(done, x, y), arith.where(
            done, 0, arith.remainder(x, arith.where(done, 1, y)))

    return arith.abs(call_here(control_source.while_loop, (unfinished, step, (x, y)))[0])
