"""Programs run three ways: compiled to a graph and evaluated in numpy, and by plain Python.

`compiled(fn, *arrays)` interprets `fn` into a graph, runs it through the reference interpreter
and gives back the result's structure with arrays as leaves. Plain Python on numpy arrays is the
oracle: the programs use only what means the same on both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc.ops  # noqa: F401  (installs Tensor's operators)
from cellc.common.tensor import Tensor
from cellc.lang import CompileError, Hooks, interpret_call
from cellc.tracing.pytree import put_together, take_apart
from cellc.tracing.tracer import GraphTensor, Tracer
from cellc_compiler import interpret
from cellc_compiler.ir.types import TensorType
from cellc_runtime import dtypes

Array = np.ndarray[Any, Any]


def trace(fn: Any, arrays: tuple[Any, ...], hooks: Hooks | None = None) -> tuple[Tracer, Any]:
    """The tracer after a call with one graph input for each array; the call's result."""
    tracer = Tracer()
    args = []
    for i, a in enumerate(arrays):
        if isinstance(a, np.ndarray):
            a = tracer.input(TensorType(a.shape, dtypes.from_numpy(a.dtype)), f"x{i}")
        args.append(a)
    return tracer, interpret_call(tracer, fn, args, hooks=hooks)


def run_compiled(fn: Any, *arrays: Any, hooks: Hooks | None = None) -> Any:
    """The result of a compiled call, evaluated in numpy. Parameters are updated as at run time."""
    tracer, result = trace(fn, arrays, hooks)
    structure, leaves = take_apart(result)
    graph = tracer.finish(leaves)
    given = iter([a for a in arrays if isinstance(a, np.ndarray)])
    values = {v: p for p, v in tracer.parameters.items()}
    feed = [values[v]._data if v in values else next(given) for v in graph.inputs]
    out = interpret.run(graph, feed)
    for (old, _), new in zip(graph.updates, out[len(leaves):], strict=True):
        values[old]._data[...] = new
    return put_together(structure, out[: len(leaves)])


def same(got: Any, want: Any) -> bool:
    """Whether two results are equal; a graph's scalar equals a Python number."""
    if isinstance(want, (list, tuple)) and not hasattr(want, "dtype"):
        return type(got) is type(want) and len(got) == len(want) and all(
            same(g, w) for g, w in zip(got, want, strict=True))
    if isinstance(want, dict):
        return list(got) == list(want) and all(same(got[k], want[k]) for k in want)
    if isinstance(want, (np.ndarray, np.generic)) or isinstance(got, np.ndarray):
        return np.shape(got) == np.shape(want) and np.array_equal(got, want, equal_nan=True)
    return type(got) is type(want) and bool(got == want)


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


@pytest.fixture
def compiled() -> Callable[..., Any]:
    """`compiled(fn, *arrays, hooks=None)`: see `run_compiled`."""
    return run_compiled


@pytest.fixture
def traced() -> Callable[..., tuple[Tracer, Any]]:
    """`traced(fn, arrays)`: the tracer and the result."""
    return trace


@pytest.fixture
def agree() -> Callable[..., None]:
    """`agree(fn, *arrays)`: compiled and plain Python give the same."""

    def check(fn: Any, *arrays: Any) -> None:
        want = fn(*[_copy(a) for a in arrays])
        got = run_compiled(fn, *[_copy(a) for a in arrays])
        assert same(got, want), f"compiled {got!r}, Python {want!r}, for {arrays!r}"

    return check


@pytest.fixture
def failure() -> Callable[..., CompileError]:
    """`failure(fn, *arrays)`: the CompileError of a call."""

    def check(fn: Any, *arrays: Any) -> CompileError:
        with pytest.raises(CompileError, match=r"\[CE\d+\]") as caught:
            trace(fn, arrays)
        return caught.value

    return check


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """`golden(name, text)`: compare with golden/NAME.txt; CELLC_UPDATE_GOLDEN=1 rewrites it."""
    folder = Path(__file__).parent / "golden"

    def check(name: str, text: str) -> None:
        path = folder / f"{name}.txt"
        if os.environ.get("CELLC_UPDATE_GOLDEN"):
            path.write_text(text + "\n", encoding="utf-8")
        assert _in_older_words(text) + "\n" == path.read_text(encoding="utf-8")

    return check


def _in_older_words(text: str) -> str:
    """What Python says itself, as it said it in 3.11."""
    text = text.replace("iterable argument is empty", "arg is an empty sequence")
    return re.sub(r"(unexpected keyword argument '\w+')\. Did you mean '\w+'\?", r"\1", text)


__all__ = ["GraphTensor", "Tensor", "run_compiled", "same", "trace"]
