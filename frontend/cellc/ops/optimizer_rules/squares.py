"""Rules that divide the gradient g by a root of its past squares."""

from __future__ import annotations

from typing import Any

from ..functional.arith import abs, maximum, pow, sign, sqrt, square, where
from .adam import Average
from .averages import Decay, weighted


def adagrad(
    weight: Any, gradient: Any, rate: Any, total: Any, *, epsilon: Any = None,
    update_slots: bool = True,
) -> tuple[Any, ...]:
    """s += g**2; p -= rate g / (sqrt(s) + epsilon) (Duchi et al., 2011). `update_slots`: whether s
    changes; if not, it is not returned."""
    if update_slots:
        total = total + square(gradient)
    root = sqrt(total) if epsilon is None else sqrt(total) + epsilon
    new = weight - rate * gradient / root
    return (new, total) if update_slots else (new,)


def adadelta(
    weight: Any, gradient: Any, rate: Any, squares: Any, steps: Any, *, rho: Decay, epsilon: Any,
    average: Average = weighted,
) -> tuple[Any, Any, Any]:
    """d = sqrt(u + epsilon) / sqrt(s + epsilon) g; p -= rate d (Zeiler, 2012).

    s is the running average of g**2, and u that of d**2.
    """
    squares = average(squares, square(gradient), rho)
    step = sqrt(steps + epsilon) / sqrt(squares + epsilon) * gradient
    return weight - rate * step, squares, average(steps, square(step), rho)


def rms_prop(
    weight: Any, gradient: Any, rate: Any, squares: Any, velocity: Any, mean: Any = None, *,
    decay: Decay, momentum: Any, epsilon: Any, average: Average = weighted,
) -> tuple[Any, ...]:
    """v = momentum v + rate g / sqrt(s + epsilon); p -= v (Tieleman and Hinton, 2012).

    Args:
        squares: s, the running average of g**2.
        mean: that of g, whose square is subtracted from s.
    """
    squares = average(squares, square(gradient), decay)
    below = squares + epsilon
    if mean is not None:
        mean = average(mean, gradient, decay)
        below = below - square(mean)
    velocity = velocity * momentum + rate * gradient / sqrt(below)
    state = (squares, velocity) if mean is None else (squares, velocity, mean)
    return weight - velocity, *state


def proximal_adagrad(
    weight: Any, gradient: Any, rate: Any, total: Any, *, l1: Any, l2: Any
) -> tuple[Any, Any]:
    """A step of Adagrad, and the proximal operator of l1 and l2 penalties.

    Source: Duchi and Singer, "Efficient Online and Batch Learning Using Forward Backward
    Splitting", 2009.
    """
    total = total + square(gradient)
    rate = rate / sqrt(total)
    return proximal(weight - rate * gradient, rate, l1, l2), total


def proximal(x: Any, rate: Any, l1: Any, l2: Any) -> Any:
    """sign(x) max(|x| - rate l1, 0) / (1 + rate l2)."""
    if not isinstance(l1, float):
        x = where(l1 > 0.0, shrink(x, rate * l1), x)
    elif l1 > 0:
        x = shrink(x, rate * l1)
    return x / (1.0 + rate * l2)


def shrink(x: Any, least: Any) -> Any:
    """Each element moved towards 0 by `least`, not past it."""
    return sign(x) * maximum(abs(x) - least, 0.0)


def ftrl(
    weight: Any, gradient: Any, rate: Any, total: Any, linear: Any, *, l1: Any, l2: Any,
    lr_power: Any,
) -> tuple[Any, Any, Any]:
    """Follow the regularised leader (McMahan et al., 2013).

    With n the sum of g**2 and r = n**-lr_power: z += g - (r' - r) / rate p, and
    p = (sign(z) l1 - z) / (r' / rate + 2 l2) where |z| > l1, else 0.
    """
    grown = total + square(gradient)
    before, after = pow(total, -lr_power), pow(grown, -lr_power)
    linear = linear + gradient - (after - before) / rate * weight
    new = (sign(linear) * l1 - linear) / (after / rate + l2 * 2.0)
    return where(abs(linear) > l1, new, 0.0), grown, linear
