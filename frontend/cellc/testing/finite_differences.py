"""`check_grads`: gradients against central differences of the reference interpreter.

The function is traced once; its graph is run by numpy in float64, a little to either side of the
inputs, so the differences are good to about nine digits whatever the element type of the network.
The gradients are those of the mode at hand. A function that cannot be traced is called as it is.

Small inputs are checked element by element. Of a larger one, some elements are, and a random
direction through all of them; if that disagrees, halving it finds an element that is wrong.

A gradient that its element type rounds by more than the tolerance is right if its graph, run in
float64, gives the differences (`rounding`), and the rule of each op is right by itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from cellc_compiler.ir.types import TensorType, seedable
from cellc_runtime import dtypes
from cellc_runtime.records import dataclass

from ..compiled.dynamic import parameter_names
from ..compiled.inline import inline
from ..compiled.traced import trace
from ..core.dispatch import active_tracer
from ..core.module_names import function_name
from ..core.naming import described
from ..nn.cell import Cell
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor, host_arrays_of, tensor_of
from ..tracing.pytree import take_apart
from ..transforms.gradient import grad
from ..transforms.jacobian import jvp
from ..verification.derivatives import worst_part
from ..verification.snapshot import Snapshot
from ..verification.values import bracketed, index_of
from .grad_causes import GraphAt, kink, no_derivative, not_finite, unsteady, wrong_rule
from .rounding import Rounded, measure_rounding

Array = np.ndarray[Any, Any]

TOLERANCE = {"float64": 1e-6, "float32": 1e-3, "float16": 5e-2, "bfloat16": 2e-1}
"""Of the largest gradient of the check, by the coarsest element type that takes part."""
_EXACT = TOLERANCE["float64"]
_ULPS = 16.0
"""Of float64, that rounding may move an output: the difference quotients enlarge it."""
ELEMENTS = 64  # Of each input that are checked one by one
_STEP = 1e-5
Sides = tuple[float, float]  # Where the two ends of a difference are, in steps
Evaluate = Callable[[Sequence[Array]], list[Array]]
BOTH: Sides = (1.0, -1.0)


@dataclass(frozen=True, slots=True)
class _Problem:
    """A function of tensors at a point."""

    name: str  # the function's; `call` it of the tensors that move, the others being fixed
    call: Callable[..., Any]
    tensors: list[Tensor]  # where; `weights` are Parameters that move too (for reverse mode)
    weights: list[Any]
    names: list[str]  # of the tensors, then of the weights
    # arrays for tensors and weights -> the float outputs, in float64 if it can be
    evaluate: Evaluate
    restore: Callable[[], None]  # put back the state that the check began with
    # the function as a graph; `refused`: or the error that says why it is none
    traced: GraphAt | None
    refused: Exception | None
    step: float  # of the differences, relative to an element
    tolerance: float  # see `TOLERANCE`

    def run(self, fn: Callable[..., Any], *args: Any) -> Any:
        """A call from the state that the check began with."""
        self.restore()
        return fn(*args)

    def point(self) -> list[Array]:
        """Where the derivatives are taken."""
        return _wide((*self.tensors, *self.weights))

    def moved(self, which: int, direction: Array, by: float) -> list[Array]:
        """The point, moved along a direction of one tensor by a multiple of the step."""
        point = self.point()
        point[which] = point[which] + by * self.length(which, direction) * direction
        return point

    def length(self, which: int, direction: Array) -> float:
        """The step along a direction of one tensor."""
        x = _wide((*self.tensors, *self.weights)[which : which + 1])[0]
        reach = float(np.max(np.abs(direction), initial=0.0)) or 1.0
        size = float(np.max(np.abs(x), initial=0.0, where=direction != 0))
        return self.step * max(size, 1.0) / reach

    def steps(self) -> Sequence[Sides]:
        """Steps ahead and back; smaller ones too where float64 is their only rounding."""
        return (BOTH,) if self.traced is None else (BOTH, (1e-2, -1e-2))

    def slope(self, which: int, direction: Array, sides: Sides = BOTH) -> list[Array]:
        """The difference quotients of the outputs along a direction of one tensor."""
        ahead, back = (self.evaluate(self.moved(which, direction, by)) for by in sides)
        h = (sides[0] - sides[1]) * self.length(which, direction)
        with np.errstate(invalid="ignore"):  # of infinities
            return [(a - b) / h for a, b in zip(ahead, back, strict=True)]

    def noise(self, which: int, direction: Array) -> list[Array]:
        """How far float64's rounding of the outputs may move their difference quotients."""
        h = (BOTH[0] - BOTH[1]) * self.length(which, direction)
        ulp = float(np.finfo(np.float64).eps)
        return [_ULPS * ulp * np.abs(a) / h for a in self.evaluate(self.point())]


def check_grads(
    function: Any, *inputs: Any, order: int = 1, modes: Sequence[str] = ("fwd", "rev"),
    eps: float | None = None, tolerance: float | None = None, seed: int = 0,
) -> None:
    """Check the gradients of a function or Cell against finite differences.

    The outputs are weighed by random numbers. Reverse mode is checked for every float input and
    for the trainable parameters; forward mode for the inputs. The differences are taken in float64
    by the reference interpreter; a function that cannot be traced is called as it is. All calls
    begin with the same random generators, parameters and Python state, which are put back at the
    end, so dropout and counters change nothing.

    A failure says its cause, where one is found: the op or `bprop` whose rule is wrong, the op that
    has a kink at these inputs, the first value that is not finite, results that change from call
    to call, a gradient that is stopped.

    Args:
        function: a Cell or a function of tensors.
        inputs: its arguments. Tensors of floats are differentiated; others are fixed.
        order: 2 also checks the gradient of the gradient, with respect to the inputs.
        modes: `"rev"` and `"fwd"`.
        eps: the step of the differences, relative to an element of at least 1.
        tolerance: allowed error, relative to the largest gradient of the check (float64 1e-6,
            float32 1e-3, float16 5e-2, bfloat16 2e-1).
        seed: of the weights of the outputs, and of the elements that are chosen of large inputs.

    Raises:
        AssertionError: a gradient is wrong, not finite, or cannot be checked at these inputs; with
            the worst element and the cause.
        TypeError: nothing to differentiate, a complex input, or no float output.
        ValueError: an order other than 1 and 2, or an unknown mode.

    Only in cellc.
    """
    if order not in (1, 2):
        raise ValueError(f"For 'check_grads', 'order' must be 1 or 2, but got {order!r}.")
    unknown = set(modes) - {"fwd", "rev"}
    if unknown or not modes:
        raise ValueError(f"For 'check_grads', 'modes' holds 'fwd' and 'rev', but got {modes!r}.")
    roots = {"function": function, **{f"input {i}": x for i, x in enumerate(inputs)}}
    with Snapshot(roots) as saved:
        _check_all(function, inputs, order, modes, (eps, tolerance), seed, saved)


def _check_all(
    function: Any, inputs: tuple[Any, ...], order: int, modes: Sequence[str],
    limits: tuple[float | None, float | None], seed: int, saved: Snapshot,
) -> None:
    """Both orders, from one state."""
    rng = np.random.default_rng(seed)
    moving = _moving(inputs)
    names = parameter_names(function)
    labels = [f"input {i}" + (f" ({names[i]})" if i < len(names) else "") for i in moving]
    call = _bound(function, inputs, moving)
    tensors = [inputs[i] for i in moving]
    problem = _problem(function, call, tensors, labels, limits, saved, weigh=True)
    if not (tensors or (problem.weights and "rev" in modes)):
        got = ", ".join(described(x) for x in inputs) or "none"
        raise TypeError("For 'check_grads', an input must be a Tensor of floats, or a trainable "
                        f"parameter must be read, but got {got}.")
    cotangents = _check(problem, modes, "gradient", rng)
    if problem.traced is not None and "rev" in modes:
        wrong = wrong_rule(problem.traced, problem.point(), bprops=True)
        if wrong:  # within the tolerance of the whole, which larger terms set
            raise AssertionError(f"check_grads: the reverse gradient of {problem.name} is right "
                                 f"within the tolerance, but has a wrong rule\n  cause: {wrong}")
    if order == 2 and tensors:
        first = _gradient(call, len(tensors), cotangents)
        problem = _problem(function, first, tensors, labels, limits, saved, weigh=False)
        _check(problem, modes, "gradient of the gradient", rng)


def _moving(inputs: Sequence[Any]) -> list[int]:
    """The positions of the inputs that are differentiated."""
    for i, x in enumerate(inputs):
        if isinstance(x, Tensor) and x.dtype.is_complex:
            raise TypeError(f"For 'check_grads', input {i} is {x.dtype.name}: only gradients of "
                            "floats are checked; give real and imaginary parts as two inputs.")
    return [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.dtype.is_float]


def _bound(function: Any, inputs: Sequence[Any], moving: Sequence[int]) -> Callable[..., Any]:
    """The function of the tensors that move."""
    def call(*tensors: Any) -> Any:
        given = list(inputs)
        for i, t in zip(moving, tensors, strict=True):
            given[i] = t
        tracer = active_tracer()  # the user's part of a graph is interpreted, not called
        return function(*given) if tracer is None else inline(tracer, function, tuple(given), {})

    return call


def _gradient(call: Callable[..., Any], count: int, cotangents: Any) -> Callable[..., Any]:
    derived = grad(call, tuple(range(count)), sens_param=True)
    return lambda *tensors: derived(*tensors, cotangents)


def _problem(
    function: Any, call: Callable[..., Any], tensors: list[Tensor], labels: list[str],
    limits: tuple[float | None, float | None], saved: Snapshot, weigh: bool,
) -> _Problem:
    """The function at its inputs; `weigh`: and its parameters."""
    weights: list[Any] = []
    if weigh and isinstance(function, Cell):
        weights = [p for p in function.trainable_params() if p.dtype.is_float]
    traced, refused = None, None
    evaluate: Evaluate
    try:
        saved.restore()
        traced, weights = _of_graph(call, tensors, weights, weigh)
        evaluate, within = traced.outputs, traced.floats()
    except Exception as e:  # Python that no graph can hold: the function itself is all there is
        refused, within = e, set()
        evaluate = _of_calls(call, tensors, weights, saved.restore)
    own = {t.dtype.name for t in (*tensors, *weights)}
    coarse = min(own | within, key=_fineness.index, default="float64")
    step, allowed = _STEP, TOLERANCE[coarse]
    if own and (not within or _fineness.index(coarse) < min(map(_fineness.index, own))):
        # The differences see roundings, of the function or of its casts to a coarser type.
        step = float(dtypes.finfo(dtypes.by_name(coarse).numpy).eps) ** (1 / 3)
        allowed = max(allowed, 10 * step)
    eps, tolerance = limits
    return _Problem(function_name(function), call, tensors, weights,
                    [*labels, *(p.name for p in weights)], evaluate, saved.restore, traced, refused,
                    eps or step, allowed if tolerance is None else tolerance)


_fineness = ["bfloat16", "float16", "float32", "float64"]


def _of_graph(
    call: Callable[..., Any], tensors: list[Tensor], weights: list[Any], weigh: bool
) -> tuple[GraphAt, list[Any]]:
    """The function in the reference interpreter, in float64; and its weights: the given ones, or
    those that it reads."""
    traced = trace(call, tensors, {})
    if weigh and not weights:
        weights = [p for p in traced.parameters if isinstance(p, Parameter) and p.requires_grad
                   and not p.is_state and p.dtype.is_float]
    fixed = traced.fed(host_arrays_of(tensors))[len(tensors):]
    state = [np.array(a) for a in host_arrays_of(traced.parameters)]
    place = {id(p): len(tensors) + i for i, p in enumerate(weights)}
    sources: list[int | Array] = [*range(len(tensors)), *fixed,
                                  *(place.get(id(p), a) for p, a in
                                    zip(traced.parameters, state, strict=True))]
    graph = GraphAt(traced.graph, sources)
    graph.outputs(_wide((*tensors, *weights)))
    return graph, weights


def _of_calls(
    call: Callable[..., Any], tensors: list[Tensor], weights: list[Any],
    restore: Callable[[], None],
) -> Evaluate:
    """The function as it is, in its own element types."""
    def evaluate(arrays: Sequence[Array]) -> list[Array]:
        given = [_like(t, a) for a, t in zip(arrays, tensors, strict=False)]
        restore()
        try:
            for p, a in zip(weights, arrays[len(tensors):], strict=True):
                p.set_data(_like(p, a))
            return _wide(_float_outputs(call(*given)))
        finally:
            restore()

    return evaluate


def _float_outputs(value: Any) -> list[Tensor]:
    return [t for t in take_apart(value)[1] if t.dtype.is_float]


def _wide(tensors: Iterable[Tensor]) -> list[Array]:
    """The elements in float64."""
    return [a.astype(np.float64) for a in host_arrays_of(tensors)]


def _like(tensor: Tensor, a: Array) -> Tensor:
    """An array as a tensor of the type of another."""
    return tensor_of(np.ascontiguousarray(a.astype(tensor.dtype.numpy)).reshape(tensor.shape))


def _check(
    problem: _Problem, modes: Sequence[str], what: str, rng: np.random.Generator
) -> tuple[Tensor, ...]:
    """Check one function; the cotangents of its outputs."""
    given = take_apart(problem.run(problem.call, *problem.tensors))[1]
    outputs = [t for t in given if seedable(TensorType(t.shape, t.dtype))]
    if not any(t.dtype.is_float for t in outputs):
        raise TypeError(f"For 'check_grads', {problem.name} must give a Tensor of floats.")
    # (Of integers they are requested too, and read by nobody.)
    cotangents = tuple(_like(t, np.asarray(rng.uniform(0.5, 1.5, t.shape))) for t in outputs)
    if "rev" in modes:
        _reverse(problem, f"the reverse {what}", cotangents, rng)
    if "fwd" in modes:
        _forward(problem, f"the forward {what}", cotangents, rng)
    return cotangents


def _reverse(
    problem: _Problem, what: str, cotangents: tuple[Tensor, ...], rng: np.random.Generator
) -> None:
    """The gradients of all tensors, each element by itself; then those of large ones together."""
    positions = tuple(range(len(problem.tensors))) or None
    if positions is None and not problem.weights:
        return
    derived = grad(problem.call, positions, problem.weights or None, sens_param=True)
    found = _wide(take_apart(problem.run(derived, *problem.tensors, cotangents))[1])
    seeds = _wide(_float_outputs(cotangents))

    @functools.cache
    def in_float64() -> list[Rounded]:
        problem.restore()
        return measure_rounding(derived, (*problem.tensors, cotangents))

    def exactly(which: int, d: Array) -> tuple[Array, Array]:
        found = in_float64()[which]
        return (np.array([found.exact[d != 0] @ d[d != 0]]),
                np.array([found.noise * np.sum(np.abs(d))]))

    check = _Check(
        problem, what, cotangents,
        lambda which, d: np.array([found[which][d != 0] @ d[d != 0]]),
        lambda slopes: [sum(np.sum(c * s) for c, s in zip(seeds, slopes, strict=True))], exactly)
    rows = [check.row(which, *unit) for which, g in enumerate(found)
            for unit in _units(g.shape, rng)]
    limit = problem.tolerance * max((row.scale() for row in rows), default=1e-6)
    wrong = check.unexplained(
        [row for row in rows if row.error() > limit and check.error(row) > limit], limit)
    if wrong:
        check.fail(wrong,
                   f" ({len(wrong)} of {len(rows)} elements differ by more than {limit:.3g})")
    for which, g in enumerate(found):
        row = _whole(check, which, g.shape, limit, rng) if g.size > ELEMENTS else None
        if row is not None:
            check.fail([row])


def _whole(
    check: _Check, which: int, shape: tuple[int, ...], limit: float, rng: np.random.Generator
) -> _Row | None:
    """A random direction through all elements of a large tensor, halved where it disagrees."""
    size = int(np.prod(shape))
    signs = rng.choice((-1.0, 1.0), size)

    def along(part: Sequence[int], direction: Array = signs) -> _Row:
        d, at = np.zeros(size), np.asarray(part)
        d[at] = direction[at]
        return check.row(which, index_of(part[0], shape), d.reshape(shape))

    row = along(range(size))
    if check.error(row) <= limit * size**0.5 or not check.unexplained([row], limit * size**0.5):
        return None
    return along([worst_part(size, lambda p: check.error(along(p)))], np.ones(size))


def _forward(
    problem: _Problem, what: str, cotangents: tuple[Tensor, ...], rng: np.random.Generator
) -> None:
    """Each tensor's derivative along a direction, all outputs; then element by element."""
    def derived(*tangents: Tensor) -> Any:
        return jvp(lambda *tensors: tuple(_float_outputs(problem.call(*tensors))),
                   tuple(problem.tensors), tangents)[1]

    def tangents_of(which: int, direction: Array) -> tuple[Tensor, ...]:
        return tuple(_like(t, direction if i == which else np.zeros(t.shape))
                     for i, t in enumerate(problem.tensors))

    def moved(which: int, direction: Array) -> Array:
        return _flat(_wide(_float_outputs(problem.run(derived, *tangents_of(which, direction)))))

    def exactly(which: int, direction: Array) -> tuple[Array, Array]:
        problem.restore()
        found = measure_rounding(derived, tangents_of(which, direction))
        return (_flat([r.exact for r in found]),
                _flat([np.full(r.exact.shape, r.noise) for r in found]))

    def is_wrong(row: _Row) -> bool:
        limit = problem.tolerance * row.scale()
        return check.error(row) > limit and bool(check.unexplained([row], limit))

    check = _Check(problem, what, cotangents, moved, _flat, exactly)
    for which, x in enumerate(problem.tensors):
        whole = check.row(which, None, rng.uniform(0.5, 1.5, x.shape))
        if is_wrong(whole):
            rows = [check.row(which, *unit) for unit in _units(x.shape, rng)]
            check.fail([row for row in rows if is_wrong(row)] or [whole])


@dataclass(frozen=True, slots=True)
class _Row:
    """Derivatives along a direction of one tensor: of an element, where `index` is one."""

    which: int
    index: tuple[int, ...] | None
    direction: Array
    got: Array
    want: Array

    def error(self) -> float:
        """How far apart the two are at most."""
        return float(np.max(_distance(self.got, self.want), initial=0.0))

    def scale(self) -> float:
        """The largest of the differences."""
        return float(np.max(np.abs(self.want), initial=1e-6, where=np.isfinite(self.want)))

    def worst(self) -> tuple[float, float]:
        """The two that are farthest apart."""
        at = int(np.argmax(_distance(self.got, self.want)))
        return float(self.got[at]), float(self.want[at])


@dataclass(frozen=True, slots=True)
class _Check:
    """A kind of gradient of a function: reverse or forward."""

    problem: _Problem
    what: str
    cotangents: tuple[Tensor, ...]
    # the derivatives along a direction of a tensor; `weighed` the same of differences
    got: Callable[[int, Array], Array]
    weighed: Callable[[list[Array]], Any]
    # those in float64, and how far the element types may move them
    exactly: Callable[[int, Array], tuple[Array, Array]]

    def row(self, which: int, index: tuple[int, ...] | None, direction: Array) -> _Row:
        """The derivatives along a direction, which the element type rounds."""
        place = (*self.problem.tensors, *self.problem.weights)[which]
        exact = _wide([_like(place, direction)])[0]
        return _Row(which, index, exact, self.got(which, exact), self._want(which, exact))

    def _want(self, which: int, direction: Array, sides: Sides = BOTH) -> Array:
        with np.errstate(invalid="ignore"):
            return np.asarray(self.weighed(self.problem.slope(which, direction, sides)))

    def error(self, row: _Row) -> float:
        """The least of all steps: a kink within reach of a larger one spoils only that."""
        return min(float(np.max(_distance(row.got, self._want(row.which, row.direction, sides)),
                                initial=0.0)) for sides in self.problem.steps())

    def unexplained(self, rows: Sequence[_Row], limit: float) -> list[_Row]:
        """The rows among those off by more than a limit that rounding does not explain: all of
        them, if the rule of an op is wrong by itself."""
        left = [row for row in rows if not self._rounded(row, limit)]
        traced = self.problem.traced
        if len(left) < len(rows) and traced and wrong_rule(traced, self.problem.point()):
            return [*rows]
        return left

    def _rounded(self, row: _Row, limit: float) -> bool:
        """Whether a derivative is that of differences in float64, and its element type moves it no
        further from there than rounding does."""
        if self.problem.traced is None or not np.isfinite(row.error()):
            return False
        try:
            exact, noise = self.exactly(row.which, row.direction)
        except Exception:  # a derivative that is no graph by itself has no float64 to compare with
            return False
        off = np.asarray(self.weighed(self.problem.noise(row.which, row.direction)))
        return bool(np.all(_distance(exact, row.want) <= _EXACT * row.scale() + off) and
                    np.all(_distance(row.got, exact) <= limit + noise))

    def fail(self, rows: Sequence[_Row], count: str = "") -> NoReturn:
        """Raise for rows that are wrong, with the cause of the worst one that no kink explains."""
        rows = sorted(rows, key=_Row.error, reverse=True)
        verdict, cause = self._cause(rows[0])
        if not cause:
            for row in rows[:_LOOKED_AT]:
                cause = self._kink(row)
                if not cause:
                    rows = [row]
                    break
            verdict = "cannot be checked at these inputs" if cause else verdict
        if not cause and self.problem.traced is not None:
            cause = no_derivative(self.problem.traced) or _HINT
        row, (got, want) = rows[0], rows[0].worst()
        at = " along a random direction" if row.index is None else bracketed(row.index)
        raise AssertionError(
            f"check_grads: {self.what} of {self.problem.name} {verdict}{count}; the worst: "
            f"{self.problem.names[row.which]}{at}: {got:.8g}, by finite differences {want:.8g}"
            + (f"\n  cause: {cause}" if cause else ""))

    def _cause(self, row: _Row) -> tuple[str, str]:
        """A verdict, and what is wrong apart from kinks; "" if nothing is found."""
        problem, traced = self.problem, self.problem.traced
        error = problem.refused
        refused = f"; graph mode refuses it: {str(error).splitlines()[0]}" if error else ""
        told = unsteady(lambda: problem.run(problem.call, *problem.tensors))
        if told:
            return "cannot be checked", (
                f"two calls from one state differ ({told}): it draws numbers that no seed sets, "
                f"or reads a clock, a file or an iterator{refused}")
        finite = np.isfinite(row.worst())
        verdict = "is wrong" if all(finite) else "is not finite" if not finite[0] else \
            "cannot be checked at these inputs"
        if traced is None:
            return verdict, f"not found{refused}"
        if all(finite):
            return verdict, wrong_rule(traced, problem.point())
        seeds = host_arrays_of(self.cotangents)
        found = (not_finite(traced, problem.moved(row.which, row.direction, by), problem.names,
                            seeds) for by in (0, 1, -1))
        return verdict, next(filter(None, found), "")

    def _kink(self, row: _Row) -> str:
        problem, (_, want) = self.problem, row.worst()
        if problem.traced is None or not np.isfinite(want):
            return ""
        place = kink(problem.traced, [problem.moved(row.which, row.direction, by)
                                      for by in (-1, 0, 1)])
        if not place:
            return ""
        slopes = (self._want(row.which, row.direction, sides) for sides in ((0, -1), (1, 0)))
        below, above = (float(s[int(np.argmin(_distance(s, want)))]) for s in slopes)
        return (f"{place} has a kink or a jump there (ties, or an operand at its edge): "
                f"{below:.8g} from below, {above:.8g} from above; move the inputs off it")


_LOOKED_AT = 8  # Elements that may be explained by a kink
_HINT = ("no op's rule is wrong by itself; testing.assert_modes_equal and "
         "testing.bisect(..., grad=True) compare the modes and the compiled gradient")


def _flat(arrays: Sequence[Array]) -> Array:
    return np.concatenate([a.ravel() for a in arrays])


def _distance(got: Any, want: Any) -> Array:
    """How far apart; infinite where one is not finite."""
    with np.errstate(all="ignore"):
        apart = np.abs(got - want)
    return np.where(np.isfinite(apart), apart, np.inf)


def _units(
    shape: tuple[int, ...], rng: np.random.Generator
) -> Iterator[tuple[tuple[int, ...], Array]]:
    """Elements of a tensor and the directions along them: all, or some of a large one."""
    size = int(np.prod(shape))
    chosen = range(size) if size <= ELEMENTS else sorted(
        int(i) for i in rng.choice(size, ELEMENTS, replace=False))
    for i in chosen:
        unit = np.zeros(size)
        unit[i] = 1.0
        yield index_of(i, shape), unit.reshape(shape)
