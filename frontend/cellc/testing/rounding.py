"""Derivatives of a function in float64, beside what its element types round.

A derivative that is a small difference of large terms (a normalization of two rows, whose results
are +1 and -1 whatever the inputs are) is rounded by far more than an ulp of itself. Its rule is
right if its graph, run in float64, gives the difference quotients. How far rounding moves it is
measured: the same graph is run in its own element types, at some points near by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cellc_compiler.interpret import run
from cellc_runtime.records import dataclass

from ..compiled.traced import trace
from ..tensors.tensor import host_arrays_of
from ..tracing.pytree import take_apart_call

Array = np.ndarray[Any, Any]

_POINTS = 5  # At which rounding is measured
_ROOM = 16.0
"""How much further compiled code may round, which adds up in another order. A wrong rule shows in
float64 all the same."""


@dataclass(frozen=True, slots=True)
class Rounded:
    """A float output in float64.

    Attributes:
        exact: its elements in float64.
        noise: how far its element types may move them.
    """

    exact: Array
    noise: float


def measure_rounding(fn: Callable[..., Any], args: Sequence[Any]) -> list[Rounded]:
    """The float outputs of a function of tensors in float64, and how far rounding moves them.

    Raises:
        CompileError: the function cannot be traced.
    """
    traced = trace(fn, args, {})
    graph = traced.graph
    given = [*traced.fed(host_arrays_of(take_apart_call(tuple(args), {})[1])),
             *host_arrays_of(traced.parameters)]
    floats = [i for i, v in enumerate(graph.outputs) if v.dtype.is_float]
    rng = np.random.default_rng(5)
    exact: list[Array] = []
    noise = [0.0] * len(floats)
    for k in range(_POINTS):
        at = given if k == 0 else [_near(a, rng) for a in given]
        wide, own = (run(graph, at, precise=precise) for precise in (True, False))
        exact = exact or [np.asarray(wide[i], np.float64) for i in floats]
        for n, i in enumerate(floats):
            apart = np.abs(np.asarray(own[i], np.float64) - np.asarray(wide[i], np.float64))
            noise[n] = max(noise[n], float(np.max(apart, initial=0.0)))
    return [Rounded(e, _ROOM * n) for e, n in zip(exact, noise, strict=True)]


def _near(a: Array, rng: np.random.Generator) -> Array:
    """The same numbers, a few ulps further."""
    if a.dtype.kind != "f" and a.dtype.name != "bfloat16":
        return a
    wide = a.astype(np.float64)
    ulp = np.abs(np.spacing(np.abs(a))).astype(np.float64)
    return np.asarray((wide + ulp * rng.integers(-3, 4, a.shape)).astype(a.dtype))
