"""`check_grads`: gradients against central differences of the reference interpreter.

The function is traced once; its graph is run by numpy in float64, a little to either side of the
inputs, so the differences are good to about nine digits whatever the element type of the network.
The gradients are those of the mode at hand. What cannot be traced is called as it is.

Small inputs are checked element by element. Of a larger one, some elements are, and a random
direction through all of them; if that disagrees, halving it finds an element that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from cellc_compiler.interpret import run as interpret
from cellc_compiler.ir.types import TensorType, seedable
from cellc_runtime import dtypes
from cellc_runtime.records import dataclass

from ..compiled.dynamic import parameter_names
from ..compiled.entries import trace
from ..core.dispatch import active_tracer
from ..nn.cell import Cell
from ..tensors.tensor import Tensor, host_arrays_of, tensor_of
from ..tracing.inline import inline
from ..tracing.pytree import take_apart
from ..transforms.gradient import grad
from ..transforms.jacobian import jvp

Array = np.ndarray[Any, Any]

TOLERANCE = {"float64": 1e-6, "float32": 1e-3, "float16": 5e-2, "bfloat16": 2e-1}
"""Of the largest gradient of the check, by the coarsest element type that takes part."""
ELEMENTS = 64
"""Of each input that are checked one by one."""
_STEP = 1e-5


@dataclass(frozen=True, slots=True)
class _Problem:
    """A function of tensors at a point.

    Attributes:
        call: of the tensors that move, the others being fixed.
        tensors: where; `weights` are Parameters that move too (for reverse mode).
        names: of the tensors, then of the weights.
        evaluate: arrays for tensors and weights -> the float outputs, in float64 if it can be.
        step: of the differences, relative to an element.
        tolerance: see `TOLERANCE`.
    """

    name: str
    call: Callable[..., Any]
    tensors: list[Tensor]
    weights: list[Any]
    names: list[str]
    evaluate: Callable[[list[Array]], list[Array]]
    step: float
    tolerance: float

    def point(self) -> list[Array]:
        """Where the derivatives are taken."""
        return _wide((*self.tensors, *self.weights))

    def slope(self, which: int, direction: Array) -> list[Array]:
        """The derivatives of the outputs along a direction of one tensor."""
        sides = []
        reach = float(np.max(np.abs(direction), initial=0.0)) or 1.0
        point = self.point()
        size = float(np.max(np.abs(point[which]), initial=0.0, where=direction != 0))
        h = self.step * max(size, 1.0) / reach
        for sign in (1, -1):
            moved = list(point)
            moved[which] = point[which] + sign * h * direction
            sides.append(self.evaluate(moved))
        return [(a - b) / (2 * h) for a, b in zip(*sides, strict=True)]


def check_grads(
    function: Any, *inputs: Any, order: int = 1, modes: Sequence[str] = ("fwd", "rev"),
    eps: float | None = None, tolerance: float | None = None, seed: int = 0,
) -> None:
    """Check the gradients of a function or Cell against finite differences.

    The outputs are weighed by random numbers. Reverse mode is checked for every float input and,
    of a Cell, for its trainable parameters; forward mode for the inputs. The differences are taken
    in float64 by the reference interpreter; a function that cannot be traced is called as it is.

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
        AssertionError: a gradient is wrong; with the worst element of the inputs.
        TypeError: no float input, a complex one, or no float output.
        ValueError: an order other than 1 and 2, or an unknown mode.

    Only in cellc.
    """
    if order not in (1, 2):
        raise ValueError(f"For 'check_grads', 'order' must be 1 or 2, but got {order!r}.")
    unknown = set(modes) - {"fwd", "rev"}
    if unknown or not modes:
        raise ValueError(f"For 'check_grads', 'modes' holds 'fwd' and 'rev', but got {modes!r}.")
    rng = np.random.default_rng(seed)
    moving = _moving(inputs)
    names = parameter_names(function)
    labels = [f"input {i}" + (f" ({names[i]})" if i < len(names) else "") for i in moving]
    name = getattr(function, "__name__", None) or type(function).__name__
    call = _bound(function, inputs, moving)
    tensors = [inputs[i] for i in moving]
    weights = list(function.trainable_params()) if isinstance(function, Cell) else []
    problem = _problem(name, call, tensors, weights, labels, eps, tolerance)
    cotangents = _check(problem, modes, "gradient", rng)
    if order == 2:
        first = _gradient(call, len(tensors), cotangents)
        problem = _problem(name, first, tensors, [], labels, eps, tolerance)
        _check(problem, modes, "gradient of the gradient", rng)


def _moving(inputs: Sequence[Any]) -> list[int]:
    """The positions of the inputs that are differentiated."""
    for i, x in enumerate(inputs):
        if isinstance(x, Tensor) and _kind(x).is_complex:
            raise TypeError(f"For 'check_grads', input {i} is {_kind(x).name}: only gradients of "
                            "floats are checked; give real and imaginary parts as two inputs.")
    moving = [i for i, x in enumerate(inputs)
              if isinstance(x, Tensor) and _kind(x).is_float]
    if not moving:
        got = ", ".join(type(x).__name__ for x in inputs) or "none"
        raise TypeError(f"For 'check_grads', an input must be a Tensor of floats, but got {got}.")
    return moving


def _bound(function: Any, inputs: Sequence[Any], moving: Sequence[int]) -> Callable[..., Any]:
    """The function of the tensors that move."""
    def call(*tensors: Any) -> Any:
        given = list(inputs)
        for i, t in zip(moving, tensors, strict=True):
            given[i] = t
        tracer = active_tracer()  # the user's part of a graph is interpreted, not called
        return function(*given) if tracer is None else inline(tracer, function, tuple(given), {})

    return call


def _floats_of(call: Callable[..., Any]) -> Callable[..., Any]:
    """The float tensors that a function gives, one beside the other, as `jvp` takes them."""
    return lambda *tensors: tuple(_float_outputs(call(*tensors)))


def _gradient(call: Callable[..., Any], count: int, cotangents: Any) -> Callable[..., Any]:
    derived = grad(call, tuple(range(count)), sens_param=True)
    return lambda *tensors: derived(*tensors, cotangents)


def _problem(
    name: str, call: Callable[..., Any], tensors: list[Tensor], weights: list[Any],
    labels: list[str], eps: float | None, tolerance: float | None,
) -> _Problem:
    own = {_kind(t).name for t in (*tensors, *weights)}
    try:
        evaluate, within = _of_graph(call, tensors, weights)
    except Exception:  # Python that no graph can hold: the function itself is all there is
        evaluate, within, weights = _of_calls(call, tensors), set(), []
    coarse = min(own | within, key=_fineness.index)
    step, allowed = _STEP, TOLERANCE[coarse]
    if not within or _fineness.index(coarse) < min(map(_fineness.index, own)):
        # The differences see roundings, of the function or of its casts to a coarser type.
        step = float(dtypes.finfo(dtypes.by_name(coarse).numpy).eps) ** (1 / 3)
        allowed = max(allowed, 10 * step)
    return _Problem(name, call, tensors, weights, [*labels, *(p.name for p in weights)], evaluate,
                    eps or step, allowed if tolerance is None else tolerance)


_fineness = ["bfloat16", "float16", "float32", "float64"]


def _of_graph(
    call: Callable[..., Any], tensors: list[Tensor], weights: list[Any]
) -> tuple[Callable[[list[Array]], list[Array]], set[str]]:
    """The function by the reference interpreter, in float64; the float types in its graph."""
    traced = trace(call, tensors, {})
    graph = traced.graph
    floats = [i for i, v in enumerate(graph.outputs) if v.dtype.is_float]
    fixed = traced.fed(host_arrays_of(tensors))[len(tensors):]
    state = [(p, np.array(a)) for p, a in
             zip(traced.parameters, host_arrays_of(traced.parameters), strict=True)]
    place = {id(p): len(tensors) + i for i, p in enumerate(weights)}

    def evaluate(arrays: list[Array]) -> list[Array]:
        params = [arrays[place[id(p)]] if id(p) in place else a for p, a in state]
        out = interpret(graph, [*arrays[: len(tensors)], *fixed, *params], precise=True)
        return [np.asarray(out[i], np.float64) for i in floats]

    evaluate(_wide((*tensors, *weights)))
    values = [*graph.inputs, *(r for node in graph.walk() for r in node.results)]
    return evaluate, {v.dtype.name for v in values if v.dtype.is_float}


def _of_calls(
    call: Callable[..., Any], tensors: list[Tensor]
) -> Callable[[list[Array]], list[Array]]:
    """The function as it is, in its own element types."""
    def evaluate(arrays: list[Array]) -> list[Array]:
        given = [_like(t, a) for a, t in zip(arrays, tensors, strict=True)]
        return _wide(_float_outputs(call(*given)))

    return evaluate


def _float_outputs(value: Any) -> list[Tensor]:
    return [t for t in take_apart(value)[1] if _kind(t).is_float]


def _kind(tensor: Tensor) -> dtypes.DType:
    return tensor.dtype  # (of a tensor in a graph, too, which has no elements)


def _wide(tensors: Iterable[Tensor]) -> list[Array]:
    """The elements in float64."""
    return [a.astype(np.float64) for a in host_arrays_of(tensors)]


def _like(tensor: Tensor, a: Array) -> Tensor:
    """An array as a tensor of the type of another."""
    return tensor_of(np.ascontiguousarray(a.astype(_kind(tensor).numpy)).reshape(tensor.shape))


def _check(
    problem: _Problem, modes: Sequence[str], what: str, rng: np.random.Generator
) -> tuple[Tensor, ...]:
    """Check one function; the cotangents of its outputs."""
    given = take_apart(problem.call(*problem.tensors))[1]
    outputs = [t for t in given if seedable(TensorType(t.shape, _kind(t)))]
    if not any(_kind(t).is_float for t in outputs):
        raise TypeError(f"For 'check_grads', {problem.name} must give a Tensor of floats.")
    # (Of integers they are asked for too, and read by nobody.)
    cotangents = tuple(_like(t, np.asarray(rng.uniform(0.5, 1.5, t.shape))) for t in outputs)
    if "rev" in modes:
        _reverse(problem, what, cotangents, rng)
    if "fwd" in modes:
        _forward(problem, what, rng)
    return cotangents


def _reverse(
    problem: _Problem, what: str, cotangents: tuple[Tensor, ...], rng: np.random.Generator
) -> None:
    positions = tuple(range(len(problem.tensors)))
    derived = grad(problem.call, positions, problem.weights or None, sens_param=True)
    found = _wide(take_apart(derived(*problem.tensors, cotangents))[1])
    seeds = _wide(_float_outputs(cotangents))

    def wanted(which: int, direction: Array) -> float:
        return float(sum(np.sum(c * s) for c, s in
                         zip(seeds, problem.slope(which, direction), strict=True)))

    _compare(problem, f"the reverse {what}", found, wanted, rng)


def _forward(problem: _Problem, what: str, rng: np.random.Generator) -> None:
    """Each tensor's derivative along a direction, all outputs; then element by element."""
    for which, x in enumerate(problem.tensors):
        direction = rng.uniform(0.5, 1.5, x.shape)
        if _along(problem, which, direction)[0]:
            continue
        worst = max(_units(x.shape, rng), key=lambda u: _along(problem, which, u[1])[1])
        _, _, got, want = _along(problem, which, worst[1])
        raise AssertionError(_message(
            problem, f"the forward {what}", which, worst[0], got, want, ""))


def _along(
    problem: _Problem, which: int, direction: Array
) -> tuple[bool, float, float, float]:
    """Whether forward mode agrees along a direction; the error, and what is farthest off."""
    tangents = [_like(t, direction if i == which else np.zeros(t.shape))
                for i, t in enumerate(problem.tensors)]
    exact = _wide(tangents)[which]
    _, moved = jvp(_floats_of(problem.call), tuple(problem.tensors), tuple(tangents))
    got = np.concatenate([a.ravel() for a in _wide(_float_outputs(moved))])
    want = np.concatenate([s.ravel() for s in problem.slope(which, exact)])
    error = _distance(got, want)
    limit = problem.tolerance * float(np.max(np.abs(want), initial=1e-6))
    at = int(np.argmax(error)) if error.size else 0
    if not error.size or error[at] <= limit:
        return True, 0.0, 0.0, 0.0
    return False, float(error[at]), float(got[at]), float(want[at])


def _distance(got: Any, want: Any) -> Array:
    """How far apart; infinite where one is not finite and the other another."""
    with np.errstate(all="ignore"):
        apart = np.abs(got - want)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    return np.where(same, 0.0, np.where(np.isfinite(apart), apart, np.inf))


def _units(shape: tuple[int, ...], rng: np.random.Generator) -> Iterator[tuple[Any, Array]]:
    """Elements of a tensor and the directions along them: all, or some of a large one."""
    size = int(np.prod(shape))
    chosen = range(size) if size <= ELEMENTS else sorted(
        int(i) for i in rng.choice(size, ELEMENTS, replace=False))
    for i in chosen:
        unit = np.zeros(size)
        unit[i] = 1.0
        yield tuple(int(k) for k in np.unravel_index(i, shape)), unit.reshape(shape)


def _compare(
    problem: _Problem, what: str, found: Sequence[Array],
    wanted: Callable[[int, Array], float], rng: np.random.Generator,
) -> None:
    """Compare gradients with differences; the worst element of all tensors is named."""
    rows = [(which, index, float(g[index]), wanted(which, unit))
            for which, g in enumerate(found) for index, unit in _units(g.shape, rng)]
    scale = max((abs(want) for *_, want in rows if np.isfinite(want)), default=0.0)
    limit = problem.tolerance * max(scale, 1e-6)
    wrong = [row for row in rows if _distance(row[2], row[3]) > limit]
    if wrong:
        which, index, got, want = max(wrong, key=lambda r: float(_distance(r[2], r[3])))
        count = f" ({len(wrong)} of {len(rows)} elements are, more than {limit:.3g})"
        raise AssertionError(_message(problem, what, which, index, got, want, count))
    for which, g in enumerate(found):
        if g.size > ELEMENTS:
            _whole(problem, what, which, g, wanted, limit, rng)


def _whole(
    problem: _Problem, what: str, which: int, g: Array, wanted: Callable[[int, Array], float],
    limit: float, rng: np.random.Generator,
) -> None:
    """A random direction through all elements of a large tensor, halved where it disagrees."""
    direction = rng.choice((-1.0, 1.0), g.shape)

    def error(d: Array) -> float:
        return float(_distance(float(np.sum(g * d)), wanted(which, d)))

    if error(direction) <= limit * g.size**0.5:
        return
    support = np.flatnonzero(direction)
    while len(support) > 1:
        half = len(support) // 2
        parts = []
        for part in (support[:half], support[half:]):
            d = np.zeros(g.size)
            d[part] = direction.ravel()[part]
            parts.append((error(d.reshape(g.shape)), part))
        support = max(parts, key=lambda p: p[0])[1]
    index = tuple(int(k) for k in np.unravel_index(int(support[0]), g.shape))
    unit = np.zeros(g.shape)
    unit[index] = 1.0
    raise AssertionError(_message(
        problem, what, which, index, float(g[index]), wanted(which, unit), ""))


def _message(
    problem: _Problem, what: str, which: int, index: Any, got: float, want: float, count: str
) -> str:
    at = f"[{', '.join(map(str, index))}]" if index else ""
    return (f"check_grads: {what} of {problem.name} is wrong{count}; the worst: "
            f"{problem.names[which]}{at}: {got:.8g}, by finite differences {want:.8g}")
