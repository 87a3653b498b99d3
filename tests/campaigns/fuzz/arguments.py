"""Trials of public functions, methods of Tensor, layers and primitives with what nobody meant.

A call has plausible arguments, one or two of them replaced by a value from a stock: other types,
ranks and element types, huge and negative numbers, NaN, nothing. Of a layer or primitive that may
be an argument of its constructor, too. In both modes a call gives the same bits, or fails with an
error of the same kind, which is raised in words and not by Python within the library.
"""

from __future__ import annotations

import ast
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
from cellc import Tensor, mint, nn, ops
from cellc_runtime.errors import RunIndexError

from ...modes.law import Array, arrays_of, bits
from ...nn.cases import ALL
from .finding import Finding, Trial

SUFFIX = ".call"
_AT_ONCE = 15
"""Calls of a trial."""
_BARE = (AttributeError, KeyError, AssertionError, OverflowError, RecursionError, NameError,
         ZeroDivisionError, SystemError)
"""What the library raises by mistake alone."""
_OF_ELEMENTS = ("not known while", "known when the graph is compiled", "must be known")
"""What an error of a graph says where the form of a result follows from elements."""
_LEFT_OUT = frozenset({
    "print_", "py_func", "standard_normal", "uniform", "set_", "assign_value", "assign_value_cpp",
    "data_ptr", "set_dtype", "register_hook"})
"""What writes, takes numbers that a graph must know as the elements of a tensor, or is of Tensors
outside of graphs."""
_HOMES = ("cellc.ops.functional.", "cellc.mint.", "cellc.ops.methods")
_APART = ("control", "host", "collectives", "sparse", "bookkeeping")
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


_SPACE: dict[str, Any] = {"ms": ms, "np": np, "nn": nn, "ops": ops, "t": _ones, "i": _ints}
Call = tuple[str, list[str], list[str] | None]
"""What is called, by name, and the texts of its arguments; of what is made first, the constructor's
and then those of the call."""


@cache
def functions() -> dict[str, Callable[..., Any]]:
    """The functions and methods that are tried, by name."""
    found = {}
    for module, holder, names in (
            ("ops", ops, dir(ops)), ("mint", mint, mint.__all__), ("Tensor", Tensor, dir(Tensor))):
        for name in names:
            function = getattr(holder, name, None)  # (none: a name of PyTorch's, for a hint)
            home = getattr(inspect.unwrap(function), "__module__", "") if callable(function) else ""
            if isinstance(function, FunctionType) and home.startswith(_HOMES) \
                    and not any(part in home for part in _APART) and name not in _LEFT_OUT:
                found[f"{module}.{name}"] = function
    return found


@cache
def made() -> dict[str, list[tuple[list[str], list[str]]]]:
    """The layers and primitives that are tried, by name: for each, arguments of the constructor and
    of a call that somebody means."""
    found: dict[str, list[tuple[list[str], list[str]]]] = {}
    for expression, inputs, _ in ALL:
        name, _, rest = expression.partition("(")
        if name.startswith("nn."):
            args = ast.parse(f"f({rest}", mode="eval").body
            assert isinstance(args, ast.Call)
            texts = [ast.unparse(a) for a in args.args] + [
                f"{k.arg}={ast.unparse(k.value)}" for k in args.keywords]
            given = [g if isinstance(g, str) else f"t{g}".replace(",)", ")") for g in inputs]
            found.setdefault(name, []).append((texts, given))
    for name in dir(ops):
        kind = getattr(ops, name)
        if inspect.isclass(kind) and issubclass(kind, ops.Primitive) and hasattr(kind, "function") \
                and inspect.unwrap(kind.function).__module__.startswith(_HOMES) \
                and not any(part in kind.function.__module__ for part in _APART):
            found[f"ops.{name}"] = [([], [])]
    return found


def drawn(rng: np.random.Generator) -> Call:
    """What is called, and the texts of its arguments."""
    kinds = [sorted(functions()), sorted(made())]
    names = kinds[int(rng.integers(4) == 3)]
    name = names[int(rng.integers(len(names)))]
    if name in functions():
        texts = _arguments(rng, inspect.signature(functions()[name]))
        _spoil(rng, texts, int(rng.integers(1, 3)))
        return name, texts, None
    choices = made()[name]
    init, inputs = (list(part) for part in choices[int(rng.integers(len(choices)))])
    kind = _value(name)
    if name.startswith("ops."):
        init = _arguments(rng, inspect.signature(kind), named=True)
        operands = [p for k, p in inspect.signature(kind.function).parameters.items()
                    if k not in kind.parameters]
        inputs = _arguments(rng, inspect.Signature(operands))
    elif rng.integers(2):
        places = [k for k in inspect.signature(kind).parameters if f"{k}=" not in str(init)]
        more = places[len([t for t in init if "=" not in t]):]
        init += [f"{k}={_pick(rng, _GOOD)}" for k in more if rng.integers(len(more)) == 0]
    both = rng.integers(3)
    _spoil(rng, init, int(both != 1))
    _spoil(rng, inputs, int(both != 0))
    return name, init, inputs


def _arguments(
    rng: np.random.Generator, signature: inspect.Signature, named: bool = False
) -> list[str]:
    """Plausible arguments by what a signature says of them; some that may be left out are."""
    kinds = signature.parameters.values()
    places = [p for p in kinds if p.kind is not p.KEYWORD_ONLY and p.kind is not p.VAR_KEYWORD]
    wanted = [p for p in places if p.default is p.empty]
    count = int(rng.integers(len(wanted), len(places) + 1))
    texts = []
    for p in places[:count]:
        about = str(p.annotation)
        if named and p.default is not p.empty:
            texts.append(f"{p.name}={p.default!r}" if isinstance(
                p.default, int | float | str | tuple) else f"{p.name}={_pick(rng, _GOOD)}")
            continue
        likely = _GOOD[:3] if "Tensor" in about or about == "Any" or p.name == "self" else \
            _GOOD[3:5] if "int" in about else _GOOD[5:]
        texts.append(_pick(rng, likely))
    return texts


def _pick(rng: np.random.Generator, texts: tuple[str, ...]) -> str:
    return texts[int(rng.integers(len(texts)))]


def _spoil(rng: np.random.Generator, texts: list[str], times: int) -> None:
    """Put values that nobody means in the place of arguments; a method needs its Tensor."""
    for _ in range(times if texts else 0):
        k = int(rng.integers(len(texts)))
        name, named, _ = texts[k].partition("=")
        keyword = f"{name}=" if named and name.isidentifier() else ""
        texts[k] = keyword + _pick(rng, _WRONG)


def _value(text: str) -> Any:
    return eval(text, dict(_SPACE))


def attempt(call: Callable[..., Any], args: list[Any]) -> Any:
    """What a call gives, or its error."""
    ms.set_seed(1)
    try:
        return call(*args)
    except Exception as error:
        return error


def symptom(name: str, texts: list[str], inputs: list[str] | None = None) -> str:
    """What is wrong with a call; "" if nothing is."""
    shown = f"{name}({', '.join(texts)})"
    if inputs is None:
        function = functions()[name]
        if name.startswith("Tensor.") and not isinstance(_value(texts[0]), Tensor):
            return ""
        return _of_call(shown, lambda: function, texts)
    create: Callable[[], Any] = lambda: _value(shown)  # noqa: E731 (it is called twice)
    object_ = attempt(create, [])
    if isinstance(object_, Exception):
        return f"{shown} raises {object_!r}" if _is_bare(object_) else ""
    return _of_call(f"{shown}({', '.join(inputs)})", create, inputs)


def _is_bare(error: Exception) -> bool:
    """Whether an error is none that the library raises in words."""
    return not str(error) or (isinstance(error, _BARE) and \
        not (isinstance(error, KeyError) and str(error).startswith(("'For ", '"For '))))


def _of_call(shown: str, create: Callable[[], Callable[..., Any]], texts: list[str]) -> str:
    function, args = attempt(create, []), [_value(text) for text in texts]
    eager = attempt(function, args)
    if isinstance(eager, Exception):
        if _is_bare(eager):
            return f"{shown} raises {eager!r}"
        if isinstance(eager, MemoryError):
            return ""
    args = [_value(text) for text in texts]
    tensors = [k for k, a in enumerate(args) if isinstance(a, Tensor)]
    function = attempt(create, [])

    def call(*given: Any) -> Any:
        return function(*given)

    def with_tensors(*given: Any) -> Any:
        whole = list(args)
        for k, value in zip(tensors, given, strict=True):
            whole[k] = value
        return call(*whole)

    graph = attempt(ms.jit(with_tensors), [args[k] for k in tensors])
    differ = _differ(eager, graph)
    return f"{shown}: {differ}" if differ else ""


def _differ(eager: Any, graph: Any) -> str:
    """How what the modes give differs; "" if it does not."""
    if isinstance(graph, Exception) and any(words in str(graph) for words in _OF_ELEMENTS):
        return ""
    both = f"PyNative {_short(eager)}, graph {_short(graph)}"
    if isinstance(eager, Exception) != isinstance(graph, Exception):
        return both
    if not isinstance(eager, Exception):
        if isinstance(eager, bool) and isinstance(graph, Tensor):  # one that the run alone knows
            eager = Tensor(eager)
        return "" if same_arrays(arrays_of(eager), arrays_of(graph)) else "other bits"
    if isinstance(eager, RunIndexError):  # a graph that is compiled looks at elements last
        return ""
    kinds = [c for c in (TypeError, IndexError, ValueError, RuntimeError) if isinstance(eager, c)]
    return both if kinds and not isinstance(graph, kinds[0]) else ""


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
        name, texts, inputs = drawn(rng)
        kind = "function" if inputs is None else "layer" if name.startswith("nn.") else "primitive"
        counts.update({f"{kind} {name}": 1, "calls": 1})
        told = symptom(name, texts, inputs)
        if told:
            case = json.dumps([name, texts, inputs]) + "\n"
            return Trial(counts, Finding("arguments", seed, told, case, SUFFIX))
    return Trial(counts)


def play(path: Path) -> str:
    """What a call of the corpus shows; "" if it is mended."""
    return symptom(*json.loads(path.read_text()))
