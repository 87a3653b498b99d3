"""A step along a line that satisfies the strong Wolfe conditions.

Algorithms 3.5 and 3.6 of Nocedal and Wright, Numerical Optimization (1999).

Source: `mindspore.scipy.optimize`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ... import ops
from ...core.declared import FUNCTION
from ...ops.arguments import tensor
from ...tensors.tensor import Tensor
from ...transforms.gradient import value_and_grad

Function = Callable[..., Any]
Values = Callable[[Tensor], tuple[float, Tensor]]
"""From a point to the value and the gradient there."""

_ZOOMS = 10


class LineSearchResults(NamedTuple):
    """The result of a line search."""

    failed: bool  # whether no step satisfies the conditions
    nit: int  # number of iterations
    # nfev, ngev: numbers of values and gradients that were worked out
    nfev: int
    ngev: int
    k: int  # number of the iteration after the last one
    a_k: float  # the step
    f_k: float  # the value there
    g_k: Tensor  # the gradient there
    status: int  # 0: found, 1: the search between two steps failed, 3: too many iterations


@dataclass(slots=True)
class _Point:
    """A step, and value, slope and gradient there."""

    a: float
    phi: float
    slope: float
    g: Tensor


@dataclass(slots=True)
class _Line:
    """The function along a line, and how often it was asked."""

    values: Values
    x: Tensor
    p: Tensor
    asked: int = 0

    def at(self, a: float) -> _Point:
        """The function after a step."""
        self.asked += 1
        f, g = self.values(self.x + self.p * a)
        return _Point(a, f, scalar(ops.dot(g, self.p)), g)


def scalar(x: Any) -> float:
    """A value of one element as a number."""
    return float(x.asnumpy().reshape(())) if isinstance(x, Tensor) else float(x)


def values_of(f: Function, jac: Function | None) -> Values:
    """The value and the gradient of a function at once."""
    if jac is None:
        both = value_and_grad(f)

        def values(x: Tensor) -> tuple[float, Tensor]:
            value, gradient = both(x)
            return scalar(value), gradient

        return values
    return lambda x: (scalar(f(x)), jac(x))


def _cubic(a: _Point, b: _Point, c: _Point) -> float:
    """Where the cubic through three points, with the slope of the first, is smallest; or NaN."""
    db, dc = b.a - a.a, c.a - a.a
    try:
        denominator = (db * dc) ** 2 * (db - dc)
        rb, rc = b.phi - a.phi - a.slope * db, c.phi - a.phi - a.slope * dc
        third = (dc * dc * rb - db * db * rc) / denominator
        second = (-dc ** 3 * rb + db ** 3 * rc) / denominator
        return a.a + (-second + math.sqrt(second * second - 3.0 * third * a.slope)) / (3.0 * third)
    except (ZeroDivisionError, ValueError, OverflowError):
        return math.nan


def _quadratic(a: _Point, b: _Point) -> float:
    """Where the parabola through two points, with the slope of the first, is smallest; or NaN."""
    step = b.a - a.a
    try:
        return a.a - a.slope / (2.0 * (b.phi - a.phi - a.slope * step) / (step * step))
    except (ZeroDivisionError, OverflowError):
        return math.nan


def _between(low: _Point, high: _Point, recent: _Point, first: bool) -> float:
    """The next step to try: by a cubic, else a parabola, else the middle."""
    left, right, width = min(low.a, high.a), max(low.a, high.a), abs(high.a - low.a)
    cubic = math.nan if first else _cubic(low, high, recent)
    if left + 0.2 * width < cubic < right - 0.2 * width:
        return cubic
    square = _quadratic(low, high)
    if left + 0.1 * width < square < right - 0.1 * width:
        return square
    return (low.a + high.a) / 2.0


def _zoom(
    line: _Line, low: _Point, high: _Point, start: _Point, c1: float, c2: float
) -> tuple[_Point, bool]:
    """A point between two that satisfies the conditions, and whether none was found."""
    recent = high
    for k in range(_ZOOMS):
        point = line.at(_between(low, high, recent, k == 0))
        if point.phi > start.phi + c1 * point.a * start.slope or point.phi >= low.phi:
            recent, high = high, point
            continue
        if abs(point.slope) <= -c2 * start.slope:
            return point, False
        if point.slope * (high.a - low.a) >= 0.0:
            recent, high = high, low
        else:
            recent = low
        low = point
    return low, True


def search(
    values: Values, x: Tensor, p: Tensor, start: tuple[float, Tensor] | None,
    before: float | None, c1: float, c2: float, maxiter: int,
) -> LineSearchResults:
    """See `line_search`; `start` is the value and the gradient at x, `before` an older value."""
    line = _Line(values, x, p)
    if start is None:
        first = line.at(0.0)
    else:
        first = _Point(0.0, start[0], scalar(ops.dot(start[1], p)), start[1])
    a = 1.0
    if before is not None and first.slope:
        guess = 1.01 * 2.0 * (first.phi - before) / first.slope
        a = min(guess, 1.0) if math.isfinite(guess) else 1.0
    last, found, failed, k = first, first, False, 1
    done = False
    while not done and k <= maxiter:
        point = line.at(a)
        if point.phi > first.phi + c1 * a * first.slope or (point.phi >= last.phi and k > 1):
            (found, failed), done = _zoom(line, last, point, first, c1, c2), True
        elif abs(point.slope) <= -c2 * first.slope:
            found, done = point, True
        elif point.slope >= 0.0:
            (found, failed), done = _zoom(line, point, last, first, c1, c2), True
        last, k, a = point, k + 1, a * 2.0
    status = 1 if failed else 0 if done else 3
    return LineSearchResults(failed or not done, k - 1, line.asked, line.asked, k, found.a,
                             found.phi, found.g, status)


def line_search(
    f: Function, xk: Tensor, pk: Tensor, jac: Function | None = None, gfk: Tensor | None = None,
    old_fval: Any = None, old_old_fval: Any = None, c1: float = 1e-4, c2: float = 0.9,
    maxiter: int = 20,
) -> LineSearchResults:
    """A step along a line that satisfies the strong Wolfe conditions.

    Args:
        f: from a vector to a scalar.
        xk: the point, a vector.
        pk: the direction, in which f descends.
        jac: the gradient of f; by autodiff if it is None.
        gfk, old_fval: the gradient and the value at `xk`, if both are known.
        old_old_fval: the value at the point before, for the first step to try.
        c1, c2: how much f must descend, and its slope: 0 < c1 < c2 < 1.
        maxiter: how many steps to try.
    """
    FUNCTION(f, "line_search", "f")
    x, p = tensor(xk, "line_search", "xk"), tensor(pk, "line_search", "pk")
    start = None if old_fval is None or gfk is None else (scalar(old_fval), gfk)
    before = None if old_old_fval is None else scalar(old_old_fval)
    return search(values_of(f, jac), x, p, start, before, c1, c2, maxiter)


__all__ = ["line_search"]
