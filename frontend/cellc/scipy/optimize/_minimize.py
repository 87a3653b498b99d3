"""Minimization by BFGS, L-BFGS, and by augmented Lagrangians.

Algorithms 6.1, 7.4 and 17.4 of Nocedal and Wright, Numerical Optimization (1999).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import nn, ops
from ...core.declared import FUNCTION, instance, misuse
from ...ops.arguments import choice, tensor
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor
from ...transforms.gradient import value_and_grad
from ._line_search import Function, LineSearchResults, scalar, search, values_of

_OPTIONS = {
    "bfgs": ("maxiter", "norm", "gtol", "line_search_maxiter"),
    "lbfgs": ("maxiter", "norm", "gtol", "line_search_maxiter", "history_size"),
    "lagrange": ("save_tol", "obj_weight", "lower", "upper", "learning_rate", "coincide_func",
                 "coincide_fun", "rounds", "steps", "log_sw"),
}


class OptimizeResults(NamedTuple):
    """The result of a minimization."""

    x: Tensor  # the point
    success: bool  # whether the gradient is small enough there
    status: int  # 0: it is; 1: too many iterations; 2 and more: a line search failed
    fun: float  # the value there
    jac: Tensor  # the gradient there
    hess_inv: Tensor | None  # the estimate of the inverse Hessian there; None of L-BFGS
    # nfev, njev: numbers of values and gradients that were worked out
    nfev: int
    njev: int
    nit: int  # number of iterations


class LagrangeResults(NamedTuple):
    """The result of a minimization under constraints."""

    succeeded: bool  # whether a point was met that keeps all constraints
    best_value: Any  # the best such point; the first one if there is none
    object_value: Any  # the value there
    loss_value: Any  # the constraints there


Direction = Callable[[Tensor], Tensor]  # From a gradient to where to search


class _Full:
    """The inverse Hessian as a matrix (BFGS)."""

    def __init__(self, x: Tensor) -> None:
        self.eye = ops.eye(x.shape[0], x.shape[0], x.dtype)
        self.inverse: Tensor = self.eye

    def direction(self, g: Tensor) -> Tensor:
        """Where to search."""
        return -ops.mv(self.inverse, g)

    def update(self, s: Tensor, y: Tensor) -> None:
        """Take a step and the change of the gradient into account."""
        rho = 1.0 / ops.dot(y, s)
        left = self.eye - rho * ops.outer(s, y)
        inverse = ops.matmul(ops.matmul(left, self.inverse), left.T)
        self.inverse = inverse + rho * ops.outer(s, s)


class _Limited:
    """The inverse Hessian as the last steps (L-BFGS)."""

    inverse: Tensor | None = None

    def __init__(self, history: int) -> None:
        self.history = history
        self.pairs: list[tuple[Tensor, Tensor, Tensor]] = []
        self.flat = False

    def direction(self, g: Tensor) -> Tensor:
        """Where to search (the loop of two recursions); down the gradient after a flat step."""
        if self.flat:
            return -g
        q, kept = g, []
        for s, y, rho in reversed(self.pairs):
            alpha = rho * ops.dot(s, q)
            q = q - alpha * y
            kept.append(alpha)
        if self.pairs:
            s, y, rho = self.pairs[-1]
            q = q / (rho * ops.dot(y, y))
        for (s, y, rho), alpha in zip(self.pairs, reversed(kept), strict=True):
            q = q + s * (alpha - rho * ops.dot(y, q))
        return -q

    def update(self, s: Tensor, y: Tensor) -> None:
        """Keep a step and the change of the gradient, unless that is too small to tell much."""
        curvature = ops.dot(y, s)
        self.flat = scalar(curvature) <= 1e-10
        if not self.flat:
            self.pairs = [*self.pairs, (s, y, 1.0 / curvature)][-self.history:]


def _norm(g: Tensor, order: float) -> float:
    return float(np.linalg.norm(g.asnumpy(), order))


def _descend(
    func: Function, jac: Function | None, x: Tensor, hessian: _Full | _Limited,
    options: Mapping[str, Any],
) -> OptimizeResults:
    """Line searches until the gradient is small."""
    values = values_of(func, jac)
    maxiter = options.get("maxiter")
    most = x.size * 200 if maxiter is None else maxiter
    gtol, order = options.get("gtol", 1e-5), options.get("norm", math.inf)
    tries = options.get("line_search_maxiter", 10)
    f, g = values(x)
    before, asked, k = f + _norm(g, 2) / 2, 1, 0
    converged, failure = _norm(g, math.inf) < gtol, 0
    while k < most and not converged:
        p = hessian.direction(g)
        found: LineSearchResults = search(values, x, p, (f, g), before, 1e-4, 0.9, tries)
        asked += found.nfev
        if found.failed:
            failure = 2 + found.status
            break
        s, y = p * found.a_k, found.g_k - g
        before, x, f, g = f, x + s, found.f_k, found.g_k
        converged = _norm(g, order) < gtol
        if not converged:
            hessian.update(s, y)
            k += 1
    status = 0 if converged else failure or 1
    return OptimizeResults(x, converged and not failure, status, f, g, hessian.inverse, asked,
                           asked, k)


# --- constraints ----------------------------------------------------------------------------------


class _Bounds:
    """Free variables for those between bounds: a sigmoid, a square, or as they are."""

    def __init__(self, lower: Any, upper: Any) -> None:
        self.lower, self.upper = lower, upper

    def __call__(self, x: Tensor) -> Tensor:
        if self.lower is None and self.upper is None:
            return x
        if self.lower is None:
            out: Tensor = self.upper - x * x
        elif self.upper is None:
            out = x * x + self.lower
        else:
            out = (self.upper - self.lower) * ops.sigmoid(x) + self.lower
        return out


class _Multipliers:
    """Multipliers and weights of the constraints, as they are after each round."""

    def __init__(self, count: int) -> None:
        self.mu, self.sigma = np.ones(count, np.float32), 1.0
        self.limit = 1.0

    def update(self, loss: np.ndarray[Any, Any]) -> None:
        """Raise the multipliers where constraints are nearly kept, else the weight."""
        violated = np.sqrt((np.maximum(loss, -self.mu / self.sigma) ** 2).sum())
        if violated <= self.limit:
            self.mu = np.maximum(self.mu + self.sigma * loss, 0.0).astype(np.float32)
            self.limit = self.limit / self.sigma ** 0.9
        else:
            self.sigma *= 1.1
            self.limit = 1.0 / self.sigma ** 0.1


def _lagrange(
    func: Function, x0: Tensor, constraints: Sequence[Function], tol: Any,
    options: Mapping[str, Any],
) -> LagrangeResults:
    """Adam on the augmented Lagrangian, its multipliers updated after each round."""
    bounds = _Bounds(options.get("lower"), options.get("upper"))
    shared = options.get("coincide_func", options.get("coincide_fun"))
    weight = options.get("obj_weight", 1.0)
    tolerance = options.get("save_tol", tol)
    limit = np.ones(len(constraints)) if tolerance is None else np.asarray(tolerance)
    multipliers = _Multipliers(len(constraints))
    variable = Parameter(x0, name="x")
    optimizer = nn.Adam([variable], learning_rate=options.get("learning_rate", 0.1))

    def lagrangian(
        free: Tensor, mu: Tensor, sigma: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        x = bounds(free)
        more = () if shared is None else (shared(x),)
        loss = ops.stack([ops.reshape(c(x, *more), ()) for c in constraints])
        penalty = ops.sum(ops.square(ops.relu(mu / sigma + loss)) - ops.square(mu / sigma))
        value = func(x, *more)
        return weight * value + sigma / 2 * penalty, loss, value, x

    both = value_and_grad(lagrangian, 0, has_aux=True)
    first, best = math.nan, LagrangeResults(False, x0.asnumpy(), 0.0,
                                            np.ones(len(constraints), np.float32))
    for _ in range(options.get("rounds", 10)):
        mu, sigma = Tensor(multipliers.mu), Tensor(np.float32(multipliers.sigma))
        losses = np.zeros(len(constraints), np.float32)
        for _ in range(options.get("steps", 1000)):
            (total, loss, value, x), gradient = both(variable, mu, sigma)
            optimizer((gradient,))
            now, losses = scalar(value), loss.asnumpy()
            if math.isnan(first):
                first = now
                best = LagrangeResults(False, best.best_value, now, best.loss_value)
            if options.get("log_sw", False):
                print(f"object_value: {now}, loss_value: {losses}, lagrange_value: {scalar(total)}")
            if (losses - limit).max() < 0 and now < best.object_value:
                best = LagrangeResults(True, x.asnumpy(), now, losses)
        multipliers.update(losses)
    return best


# --- the function ---------------------------------------------------------------------------------


def minimize(
    func: Function, x0: Tensor, args: tuple[Any, ...] = (), method: str | None = None,
    jac: Function | None = None, hess: Any = None, hessp: Any = None, bounds: Any = None,
    constraints: Any = (), tol: Any = None, callback: Any = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """The smallest value of a function, near a point.

    Args:
        func: from a vector (and `args`) to a scalar.
        x0: where to start, a vector of floats.
        args: further arguments of `func` and `jac`.
        method: "BFGS", "LBFGS" or "LAGRANGE".
        jac: the gradient; by autodiff if it is None. Not with "LAGRANGE".
        hess, hessp, bounds, callback: None: they are not there in MindSpore either.
        constraints: for "LAGRANGE", functions that shall be negative.
        tol: for "LAGRANGE", up to what the constraints may rise, one number each.
        options: `maxiter`, `gtol` (of the gradient, 1e-5), `norm` (its order),
            `line_search_maxiter`, `history_size` (of "LBFGS", 20). For "LAGRANGE": `save_tol` (as
            `tol`), `obj_weight`, `lower` and `upper` (bounds), `learning_rate`, `coincide_func`
            (what `func` and the constraints share, their second argument), `rounds`, `steps`,
            `log_sw` (print each step).

    Returns:
        `OptimizeResults`; `LagrangeResults` for "LAGRANGE".

    Examples:
        >>> def func(p):
        ...     return (p[0] - 1) ** 2 + (p[1] + 2) ** 2
        >>> scipy.optimize.minimize(func, ms.Tensor([0.0, 0.0]), method="BFGS").x
    """
    what = "minimize"
    if method is None:
        raise misuse("minimize",
                     "'method' must be one of BFGS, LBFGS and LAGRANGE, but none is given")
    instance(tuple)(args, what, "args")
    kind = choice(str(method).lower(), tuple(_OPTIONS), what, "method")
    x, chosen = tensor(x0, what, "x0"), dict(options or {})
    FUNCTION(func, what, "func")
    if not x.dtype.is_float or (x.ndim != 1 and kind != "lagrange"):
        raise misuse(what, f"'x0' must be a vector of floats, but is {x.dtype} of shape {x.shape}")
    unknown = sorted(set(chosen) - set(_OPTIONS[kind]))
    unused = [n for n, v in (("hess", hess), ("hessp", hessp), ("bounds", bounds),
                             ("callback", callback)) if v is not None]
    if unknown or unused:
        raise ValueError(f"For '{what}' with {method}, there are no {', '.join(unknown + unused)}; "
                         f"the options are {', '.join(_OPTIONS[kind])}.")
    if kind == "lagrange":
        if not isinstance(constraints, (list, tuple)) or not constraints or \
                not all(callable(c) for c in constraints):
            raise ValueError(f"For '{what}' with {method}, 'constraints' must be a list of "
                             f"functions, but got {constraints!r}.")
        return _lagrange(func, x, constraints, tol, chosen)
    own = None if jac is None else (lambda v: jac(v, *args))
    hessian = _Full(x) if kind == "bfgs" else _Limited(chosen.get("history_size", 20))
    return _descend(lambda v: func(v, *args), own, x, hessian, chosen)


__all__ = ["minimize"]
