"""The table of language cases: PyNative, compiled and plain Python give exactly the same."""

from __future__ import annotations

import dataclasses
import importlib
import io
from contextlib import redirect_stdout
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor

from .cases.table import Case

SUBJECTS = sorted(
    p.stem for p in (Path(__file__).parent / "cases").glob("*.py") if p.stem != "table"
)
CASES: dict[str, Case] = {}
for subject in SUBJECTS:
    for case in importlib.import_module(f".cases.{subject}", __package__).case:
        name = f"{subject}-{case.name}"
        assert name not in CASES, f"two cases are called {name}"
        CASES[name] = case


def tensors(value: Any) -> Any:
    """Arguments with arrays copied into Tensors."""
    if isinstance(value, np.ndarray):
        return Tensor(value.copy())
    return _mapped(tensors, value)


def arrays(value: Any) -> Any:
    """Arguments with arrays copied."""
    return value.copy() if isinstance(value, np.ndarray) else _mapped(arrays, value)


def _mapped(fn: Any, value: Any) -> Any:
    if type(value) is dict:
        return {k: fn(v) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(fn(v) for v in value)
    if hasattr(value, "_fields"):
        return type(value)(*map(fn, value))
    if dataclasses.is_dataclass(value):
        return type(value)(*[fn(getattr(value, f.name)) for f in dataclasses.fields(value)])
    return value


def difference(got: Any, want: Any, case: Case, path: str = "result") -> str:
    """What is different, or "": types, structure, dtypes, shapes and bits.

    `want` may be Python's: arrays and numpy scalars stand for tensors.
    """
    if isinstance(want, np.generic) and isinstance(got, (bool, int, float, np.generic)):
        got, want = (v.item() if isinstance(v, np.generic) else v for v in (got, want))
    if isinstance(want, (Tensor, np.ndarray, np.generic)):
        if not isinstance(got, Tensor):
            return f"{path} is {got!r}, not a tensor ({want!r})"
        return _elements(got, want, case, path)
    if case.widen and isinstance(got, Tensor) and isinstance(want, (bool, int, float)):
        return "" if got.shape == () and got.asnumpy() == want else f"{path}: {got} is not {want}"
    if type(got) is not type(want):
        return f"{path} is a {type(got).__name__}, not a {type(want).__name__}"
    if isinstance(want, dict):
        if list(got) != list(want):
            return f"{path} has the keys {list(got)}, not {list(want)}"
        return _first(difference(got[k], want[k], case, f"{path}[{k!r}]") for k in want)
    if isinstance(want, (list, tuple)):
        if len(got) != len(want):
            return f"{path} has {len(got)} elements, not {len(want)}"
        return _first(
            difference(g, w, case, f"{path}[{i}]")
            for i, (g, w) in enumerate(zip(got, want, strict=True))
        )
    if isinstance(want, float) and want != want:
        return "" if got != got else f"{path} is {got!r}, not nan"
    own = hasattr(want, "__dict__") and type(want).__module__.startswith("tests.")
    if own and not isinstance(want, Enum):
        return difference(vars(got), vars(want), case, f"{path}.__dict__")
    return "" if repr(got) == repr(want) else f"{path} is {got!r}, not {want!r}"


def _elements(got: Tensor, want: Any, case: Case, path: str) -> str:
    a = got.asnumpy()
    exact = isinstance(want, Tensor)
    b = want.asnumpy() if exact else np.asarray(want)
    if a.shape != b.shape:
        return f"{path} has the shape {a.shape}, not {b.shape}"
    if (exact or case.dtypes) and a.dtype != b.dtype:
        return f"{path} is of {a.dtype}, not {b.dtype}"
    if not np.array_equal(a, b, equal_nan=a.dtype.kind in "fc") or \
            (a.dtype.kind == "f" and not np.array_equal(np.signbit(a), np.signbit(b))):
        return f"{path} is {a!r}, not {b!r}"
    return ""


def _first(found: Any) -> str:
    return next((text for text in found if text), "")


def outcome(run: Any, args: Any) -> Any:
    """The result of a call, or the exception it raised."""
    try:
        return run(*args)
    except Exception as e:
        return e


def run_in(mode: int, case: Case, args: Any) -> tuple[Any, str]:
    """The result in a mode and what was printed; a function is compiled by `jit` in graph mode."""
    ms.set_context(mode=mode)
    fn = case.fn() if case.make else case.fn
    if mode == ms.GRAPH_MODE and not isinstance(fn, ms.nn.Cell):
        fn = ms.jit(fn)
    with redirect_stdout(io.StringIO()) as printed:
        result = outcome(fn, tensors(args)) if case.raises else fn(*tensors(args))
    return result, printed.getvalue()


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    case = CASES[name]
    for args in case.inputs:
        eager, said = run_in(ms.PYNATIVE_MODE, case, args)
        graph, said_by_graph = run_in(ms.GRAPH_MODE, case, args)
        assert said_by_graph == said
        if case.raises is not None:
            assert isinstance(eager, case.raises), repr(eager)
            assert isinstance(graph, case.raises), repr(graph)
            continue
        if case.python:
            fn = case.fn() if case.make else case.fn
            with redirect_stdout(io.StringIO()):
                want = fn(*arrays(args))
            assert not (text := difference(eager, want, case)), f"eager: {text}"
        assert not (text := difference(graph, eager, case)), f"compiled: {text}"


def test_there_are_enough() -> None:
    assert len(CASES) >= 500
