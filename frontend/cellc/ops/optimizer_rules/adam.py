"""Adam (Kingma and Ba, 2015) and its kin, and the layer-wise rates of LAMB and LARS.

m is the running average of the gradient g, v that of its square, t the number of the step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cellc_runtime.dtypes import float32

from ...tensors.tensor import Tensor
from ..functional.arith import abs, logical_and, maximum, minimum, pow, sqrt, square, where
from ..functional.reductions import sum
from .averages import Decay, blend, weighted

Average = Callable[[Any, Any, Decay], Any]


def moments(
    gradient: Any, m: Any, v: Any, beta1: Decay, beta2: Decay, first: Average, second: Average
) -> tuple[Any, Any]:
    """m and v with one more gradient."""
    return first(m, gradient, beta1), second(v, square(gradient), beta2)


def descend(weight: Any, m: Any, v: Any, rate: Any, eps: Any) -> Any:
    """p - rate m / (sqrt(v) + eps)."""
    return weight - rate * m / (sqrt(v) + eps)


def adam(
    weight: Any, gradient: Any, rate: Any, m: Any, v: Any, largest: Any = None, *, beta1: Decay,
    beta2: Decay, eps: Any, use_nesterov: bool = False,
) -> tuple[Any, ...]:
    """p -= rate m / (sqrt(v) + eps), with the bias correction in the rate.

    Args:
        largest: the largest v so far, which takes the place of v (AMSGrad; Reddi et al., 2018).
        use_nesterov: the next m takes the place of m (not with `largest`).
    """
    m, v = moments(gradient, m, v, beta1, beta2, blend, blend)
    if largest is not None:
        largest = maximum(largest, v)
        return descend(weight, m, largest, rate, eps), m, v, largest
    ahead = weighted(m, gradient, beta1) if use_nesterov else m
    return descend(weight, ahead, v, rate, eps), m, v


def decoupled(weight: Any, m: Any, v: Any, rate: Any, eps: Any, decay: Any = None) -> Any:
    """p - rate (m / (sqrt(v) + eps) + decay p)."""
    step = m / (sqrt(v) + eps)
    if decay is not None:
        step = step + weight * decay
    return weight - rate * step


def adam_weight_decay(
    weight: Any, gradient: Any, rate: Any, m: Any, v: Any, *, beta1: Decay, beta2: Decay, eps: Any,
    decay: Any, average: Average = weighted,
) -> tuple[Any, Any, Any]:
    """p -= rate (m / (sqrt(v) + eps) + decay p), without bias correction."""
    m, v = moments(gradient, m, v, beta1, beta2, average, average)
    return decoupled(weight, m, v, rate, eps, decay), m, v


def adamax(
    weight: Any, gradient: Any, rate: Any, m: Any, v: Any, *, beta1: Decay, beta2: Any, eps: Any,
    average: Average = weighted, bounded: bool = False,
) -> tuple[Any, Any, Any]:
    """v = max(beta2 v, |g|); p -= rate m / (v + eps): Adam with the infinity norm. `bounded`: eps
    is added to |g| instead."""
    m, size = average(m, gradient, beta1), abs(gradient)
    v = maximum(v * beta2, size + eps if bounded else size)
    return weight - rate * m / (v if bounded else v + eps), m, v


def nadam(
    weight: Any, gradient: Any, m: Any, v: Any, rates: tuple[Any, Any], eps: Any
) -> Any:
    """p - rates[0] g / (sqrt(v) + eps) - rates[1] m / (sqrt(v) + eps) (Dozat, 2016)."""
    below = sqrt(v) + eps
    return weight - rates[0] * gradient / below - rates[1] * m / below


def rectification(t: Any, beta: float, rest: Any) -> tuple[Any, Any]:
    """Whether the variance of v is known well enough, and its correction (RAdam; Liu et al., 2020).
    `rest`: 1 - beta**t."""
    most = 2.0 / (1.0 - beta) - 1.0
    length = most - 2.0 * t * (1.0 - rest) / rest
    sure = length > 5.0
    safe = where(sure, length, 6.0)
    ratio = (safe - 4.0) * (safe - 2.0) * most / ((most - 4.0) * (most - 2.0) * safe)
    return sure, sqrt(ratio) * sqrt(rest)


def lamb(
    weight: Any, gradient: Any, rate: Any, m: Any, v: Any, *, beta1: Decay, beta2: Decay, eps: Any,
    decay: Any, powers: tuple[Any, Any],
) -> tuple[Any, Any, Any]:
    """The step m / (1 - beta1**t) / (sqrt(v / (1 - beta2**t)) + eps) + decay p (You et al., 2020).

    Args:
        rate: not used; the step has neither the rate nor the trust ratio yet.
        powers: beta1**t and beta2**t.
    """
    m, v = moments(gradient, m, v, beta1, beta2, weighted, weighted)
    step = (m / (1.0 - powers[0])) / (sqrt(v / (1.0 - powers[1])) + eps)
    return step if decay is None else step + weight * decay, m, v


def trust_ratio(weight: Any, step: Any) -> Any:
    """|p| / |step|; 1 where one of them is 0."""
    size, length = norm(weight), norm(step)
    both = logical_and(size > 0, length > 0)
    return where(both, size / where(both, length, 1.0), 1.0)


def lars(
    weight: Any, gradient: Any, norms: tuple[Any, Any], decay: Any, eps: float,
    coefficient: float, rate: Any = None,
) -> Any:
    """coefficient |p| / (|g| + decay |p| + eps) (g + decay p) (You et al., 2017).

    Args:
        norms: |p| and |g|; where one is 0, the factor is 1.
        rate: what the factor is divided by before it is cut to at most 1; None: it is not cut.
    """
    size, length = norms
    ratio = coefficient * size / (length + decay * size + eps)
    ratio = where(logical_and(size > 0, length > 0), ratio, 1.0)
    if rate is not None:
        ratio = minimum(ratio / rate, 1.0)
    return ratio * (gradient + decay * weight)


def norm(x: Any) -> Any:
    """The Euclidean norm of all elements."""
    return sqrt(sum(square(x)))


def power(beta: Any, t: Any) -> Any:
    """beta**t in float32."""
    return pow(Tensor(beta, float32), t)
