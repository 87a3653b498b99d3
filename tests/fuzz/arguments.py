"""Trials of public functions that are called with what nobody meant.

A call has plausible arguments, one or two of them replaced by a value from a stock: other types,
ranks and element types, huge and negative numbers, NaN, nothing. In both modes it gives the same
bits, or fails with an error of the same kind, which is raised in words and not by Python within the
library.
"""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

import cellc as ms
from cellc import Tensor, mint, ops

from ..modes.law import Array, arrays_of, bits
from .finding import Finding, Trial

SUFFIX = ".call"
_AT_ONCE = 15
"""Calls of a trial."""
_BARE = (AttributeError, KeyError, AssertionError, OverflowError, RecursionError, NameError,
         ZeroDivisionError, SystemError)
"""What the library raises by mistake alone."""
_OF_ELEMENTS = ("not known while", "known when the graph is compiled", "must be known")
"""What an error of a graph says where the form of a result follows from elements."""
_LEFT_OUT = frozenset({"print_", "py_func", "arange", "range", "standard_normal", "uniform"})
"""What writes, and what takes numbers that a graph must know as the elements of a tensor."""
_HOMES = ("cellc.ops.functional_", "cellc.ops._generated", "cellc.mint.")
_APART = ("control", "host", "collectives", "sparse")
"""Families whose arguments are functions, processes or structures."""
_GOOD = ("t(2, 3)", "t(3)", "i(3)", "0", "1", "(2, 3)", "True", "1.5")
_WRONG = (
    "None", "'text'", "-1", "7", "1 << 40", "1 << 70", "-(1 << 70)", "1.5", "float('nan')",
    "float('inf')", "True", "()", "[]", "(1, -2)", "(1 << 40, 1 << 40)", "[None]", "['a']", "{}",
    "1j", "object()", "len", "ms.float32", "np.ones((2, 3), np.float32)", "[t(2), t(3)]", "t()",
    "t(0)", "t(0, 3)", "t(1, 2, 1, 2, 1)", "i(2, 3)", "-5 * i(3)", "t(2, 3) > 0",
    "t(2, 3).astype(ms.complex64)", "t(2, 3).astype(ms.float16)", "t(2, 3) * float('nan')",
)
"""Arguments as text, for a case to be read."""


def _ones(*shape: int) -> Tensor:
    return Tensor(np.ones(shape, np.float32))


def _ints(*shape: int) -> Tensor:
    return Tensor(np.ones(shape, np.int32))


_SPACE: dict[str, Any] = {"ms": ms, "np": np, "t": _ones, "i": _ints}


@cache
def functions() -> dict[str, Callable[..., Any]]:
    """The functions that are tried, by name."""
    found = {}
    for module, names in (("ops", dir(ops)), ("mint", mint.__all__)):
        for name in names:
            function = getattr(ops if module == "ops" else mint, name)
            home = getattr(inspect.unwrap(function), "__module__", "") if callable(function) else ""
            if isinstance(function, FunctionType) and home.startswith(_HOMES) \
                    and not any(part in home for part in _APART) and name not in _LEFT_OUT:
                found[f"{module}.{name}"] = function
    return found


def drawn(rng: np.random.Generator) -> tuple[str, list[str]]:
    """A function's name and the texts of its arguments."""
    names = sorted(functions())
    name = names[int(rng.integers(len(names)))]
    kinds = inspect.signature(functions()[name]).parameters.values()
    places = [p for p in kinds if p.kind is not p.KEYWORD_ONLY and p.kind is not p.VAR_KEYWORD]
    wanted = [p for p in places if p.default is p.empty]
    count = int(rng.integers(len(wanted), len(places) + 1))
    texts = []
    for p in places[:count]:
        about = str(p.annotation)
        likely = _GOOD[:3] if "Tensor" in about or about == "Any" else \
            _GOOD[3:5] if "int" in about else _GOOD[5:]
        texts.append(likely[int(rng.integers(len(likely)))])
    for _ in range(int(rng.integers(1, 3)) if texts else 0):
        texts[int(rng.integers(len(texts)))] = _WRONG[int(rng.integers(len(_WRONG)))]
    return name, texts


def attempt(call: Callable[..., Any], args: list[Any]) -> Any:
    """What a call gives, or its error."""
    ms.set_seed(1)
    try:
        return call(*args)
    except Exception as error:
        return error


def symptom(name: str, texts: list[str]) -> str:
    """What is wrong with a call; "" if nothing is."""
    function = functions()[name]
    shown = f"{name}({', '.join(texts)})"
    args = [eval(text, dict(_SPACE)) for text in texts]
    eager = attempt(function, args)
    if isinstance(eager, Exception):
        if isinstance(eager, _BARE) or not str(eager):
            return f"{shown} raises {eager!r}"
        if isinstance(eager, MemoryError):
            return ""
    args = [eval(text, dict(_SPACE)) for text in texts]
    tensors = [k for k, a in enumerate(args) if isinstance(a, Tensor)]

    def call(*given: Any) -> Any:
        return function(*given)

    def with_tensors(*given: Any) -> Any:
        whole = list(args)
        for k, value in zip(tensors, given, strict=True):
            whole[k] = value
        return call(*whole)

    graph = attempt(ms.jit(with_tensors), [args[k] for k in tensors])
    if isinstance(graph, Exception) and any(words in str(graph) for words in _OF_ELEMENTS):
        return ""
    if isinstance(eager, Exception) != isinstance(graph, Exception):
        return f"{shown}: PyNative {_short(eager)}, graph {_short(graph)}"
    if not isinstance(eager, Exception):
        return "" if same_arrays(arrays_of(eager), arrays_of(graph)) else f"{shown}: other bits"
    kinds = [c for c in (TypeError, IndexError, ValueError, RuntimeError) if isinstance(eager, c)]
    if kinds and not isinstance(graph, kinds[0]):
        return f"{shown}: PyNative {_short(eager)}, graph {_short(graph)}"
    return ""


def same_arrays(eager: list[Array], graph: list[Array]) -> bool:
    """Whether results have the same types, shapes and bits."""
    return len(eager) == len(graph) and all(
        (a.dtype, a.shape, bits(a)) == (b.dtype, b.shape, bits(b))
        for a, b in zip(eager, graph, strict=True))


def _short(value: Any) -> str:
    if isinstance(value, Exception):
        return f"raises {type(value).__name__} ({str(value).splitlines()[0][:150]})"
    return "gives a result"


def trial(seed: int) -> Trial:
    """Some calls."""
    rng = np.random.default_rng([seed, 47])
    counts: Counter[str] = Counter()
    for _ in range(_AT_ONCE):
        name, texts = drawn(rng)
        counts.update({f"function {name}": 1, "calls": 1})
        told = symptom(name, texts)
        if told:
            case = json.dumps([name, texts]) + "\n"
            return Trial(counts, Finding("arguments", seed, told, case, SUFFIX))
    return Trial(counts)


def play(path: Path) -> str:
    """What a call of the corpus shows; "" if it is mended."""
    name, texts = json.loads(path.read_text())
    return symptom(name, texts)
