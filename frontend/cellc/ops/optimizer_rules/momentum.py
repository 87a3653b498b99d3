"""Gradient descent with momentum, its averages, and rules that use the gradient's sign."""

from __future__ import annotations

from typing import Any

from ..functional.arith import cast, clamp, pow, sign, where


def momentum(
    weight: Any, gradient: Any, rate: Any, velocity: Any, *, momentum: Any, rest: Any = None,
    fresh: Any = None, use_nesterov: bool = False,
) -> tuple[Any, Any]:
    """v = momentum v + rest g; p -= rate v (with Nesterov, rate (g + momentum v))."""
    velocity = next_velocity(gradient, velocity, momentum, rest, fresh)
    step = gradient + velocity * momentum if use_nesterov else velocity
    return weight - step * rate, velocity


def next_velocity(
    gradient: Any, velocity: Any, momentum: Any, rest: Any = None, fresh: Any = None
) -> Any:
    """v = momentum v + rest g.

    Args:
        rest: one less the dampening; None: 1.
        fresh: where v is g, as in the first step; None: nowhere.
    """
    later = velocity * momentum + (gradient if rest is None else gradient * rest)
    return later if fresh is None else where(fresh, gradient, later)


def averaged(
    weight: Any, gradient: Any, rate: Any, average: Any, eta: Any, mu: Any, t: Any, lambd: Any,
    alpha: Any,
) -> tuple[Any, Any, Any]:
    """p = p (1 - lambd eta) - eta g; ax += mu (p - ax); eta = rate / (1 + lambd rate t)**alpha.

    Source: Polyak and Juditsky, "Acceleration of Stochastic Approximation by Averaging", 1992.
    """
    new = weight * (1.0 - eta * lambd) - eta * gradient
    average = where(mu == 1.0, new, average + (new - average) * mu)
    return new, average, rate / pow(1.0 + lambd * rate * t, alpha)


def rprop(
    weight: Any, gradient: Any, previous: Any, size: Any, etas: Any, sizes: Any
) -> tuple[Any, Any, Any]:
    """p -= sign(g) size: the size grows while the sign stays, and shrinks when it changes.

    Source: Riedmiller and Braun, "A Direct Adaptive Method for Faster Backpropagation", 1993.
    """
    turn = gradient * previous
    factor = where(turn > 0, etas[1], where(turn < 0, etas[0], 1.0))
    size = clamp(size * cast(factor, weight.dtype), *sizes)
    gradient = where(turn < 0, 0.0, gradient)
    return weight - sign(gradient) * size, gradient, size
