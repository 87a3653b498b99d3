"""Control flow on tensors: branches, loops and jumps decided when the network runs."""
# The programs use Python in every way, good style or not.
# ruff: noqa

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cellc.common.parameter import Parameter
from cellc.common.tensor import Tensor

Array = np.ndarray[Any, Any]

INPUTS = [
    np.array(v, np.float32) for v in ((1, 2), (-1, -2), (3, 4), (0, 0.5), (-4, -5), (0.25, 20))
]


# --- Parameters -----------------------------------------------------------------------------------

class Counter:
    def __init__(self) -> None:
        self.w = Parameter(Tensor(np.array([1, 1], np.float32)), name="w")

    def branch(self, x: Any) -> Any:
        if x.sum() > 0:
            self.w = self.w + x
        return self.w * 2

    def loop(self, x: Any) -> Any:
        while self.w.sum() < 10:
            self.w = self.w + x
            if x.sum() > 5:
                break
        return self.w


@pytest.mark.parametrize("name", ["branch", "loop"])
def test_parameters_assigned_at_run_time(name: str, compiled: Callable[..., Any]) -> None:
    for x in (INPUTS[0], INPUTS[2]):
        c = Counter()
        got = compiled(getattr(c, name), x)
        w = np.array([1, 1], np.float32)
        if name == "branch":
            w, want = w + x, (w + x) * 2
        else:
            while w.sum() < 10:
                w = w + x
                if x.sum() > 5:
                    break
            want = w
        assert np.array_equal(got, want)
        assert np.array_equal(c.w._data, w)


# --- the size of the graph ------------------------------------------------------------------------

def test_loops_with_breaks_stay_small(traced: Callable[..., Any]) -> None:
    def fn(x: Any, n: int) -> Any:
        for i in range(n):
            if x.sum() > 100:
                break
            x = x + 1
        return x * 2

    def size(n: int) -> int:
        return sum(1 for _ in traced(fn, (INPUTS[0], n))[0].graph.walk())

    assert size(40) < 2.5 * size(20)


def test_dead_variables_are_not_carried(traced: Callable[..., Any]) -> None:
    def fn(x: Any) -> Any:
        t = x
        while x.sum() < 10:
            t = x * 2
            x = x + t
        return x

    tracer, _ = traced(fn, (INPUTS[0],))
    (loop,) = [n for n in tracer.graph.nodes if n.op == "while"]
    assert loop.attrs["carried"] == 1
