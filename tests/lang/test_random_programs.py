"""Random programs with control flow give the same in both modes: bits, types, errors, gradients.

More programs: CELLC_RANDOM_PROGRAMS=2000 pytest tests/lang/test_random_programs.py
"""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import cellc as ms
from cellc import Tensor, lang, ops
from cellc.compiled.traced import trace
from cellc.core import dispatch
from cellc.eager import backward
from cellc.eager.recorder import active_recordings, applied
from cellc.lang.foresight import for_sizes
from cellc.tensors.tensor import tensor_of
from cellc.tracing.pytree import put_together
from cellc_compiler.interpret import evaluate
from cellc_compiler.interpret import run as interpret
from cellc_compiler.ir.dims import symbols_of
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.shapes import Shapes
from cellc_runtime.site import STATE

from ..modes.law import mode
from .programs import programs

COUNT = int(os.environ.get("CELLC_RANDOM_PROGRAMS", "0"))
_numbers = itertools.count()


@contextmanager
def eagerly_in_numpy() -> Iterator[None]:
    """PyNative ops run by their references; no native call site answers."""
    saved = list(dispatch._engine)
    dispatch._engine[:] = [RecordingEngine()]  # type: ignore[list-item]
    STATE.begin()
    run_backward, backward.run = backward.run, lambda *_: None
    try:
        yield
    finally:
        backward.run = run_backward
        STATE.end()
        dispatch._engine[:] = saved


class RecordingEngine:
    """An eager engine of op references, seen by recordings."""

    def run(self, op: str, operands: Sequence[Tensor], attrs: Mapping[str, Any]) -> Any:
        """Run one op now."""
        graph = Graph(op)
        inputs = [graph.add_input(t._type, f"x{i}") for i, t in enumerate(operands)]
        out = Builder(graph).emit(op, *inputs, **attrs)
        graph.outputs = list(out) if isinstance(out, tuple) else [out]
        arrays = interpret(graph, [t._data for t in operands])
        results = tuple(tensor_of(np.array(a, order="C")) for a in arrays)
        result = results if isinstance(out, tuple) else results[0]
        for r in active_recordings():
            r.note(applied(op, attrs), operands, result)
        return result

    def stays(self, tensor: Tensor) -> bool:
        """Whether elements are elsewhere and are not to be read."""
        return False

    def checked(self, index: Tensor, low: int, high: int, parts: tuple[str | int, ...]) -> None:
        """Nothing is native here that had to know what was asked."""

    def same_value(self, tensor: Tensor, source: Tensor) -> None:
        """Likewise."""

    def elements_read(self) -> None:
        """Likewise."""


class InNumpy:
    """A function compiled to a graph, which the reference interpreter runs; again for other sizes.

    Args:
        fn: the function.
    """

    def __init__(self, fn: Any) -> None:
        self.fn = fn
        self.traced: Any = None

    def __call__(self, *args: Any) -> Any:
        found: list[int] = []
        while True:
            if self.traced is None:
                self.traced = trace(self.fn, args, {}, shapes=Shapes(measured=found))
            traced = self.traced
            sizes: dict[str, int] = {}
            outputs, raised = None, None
            try:
                outputs = with_sizes(
                    traced.graph, [t._data for t in (*args, *traced.parameters)], sizes)
            except Exception as e:  # maybe since it went on with sizes that are none
                raised = e
            wrong = [g for g in traced.guards if symbols_of(g.expr) <= sizes.keys()
                     and not g.holds(sizes)]
            if raised is not None and not wrong:
                raise raised
            if outputs is not None and not wrong:
                return put_together(traced.out, [tensor_of(np.array(a)) for a in outputs])
            seen = len(found)
            found = list(sizes.values())[: seen + 1]
            assert seen < len(found), wrong
            self.traced = None


def with_sizes(graph: Graph, arrays: Sequence[Any], sizes: dict[str, int]) -> list[Any]:
    """The outputs of a graph, node by node; `sizes` gets those that it finds."""
    env = dict(zip(graph.inputs, arrays, strict=True))
    for node in graph.nodes:
        results = evaluate(for_sizes(node, sizes), [env[v] for v in node.operands])
        env.update(zip(node.results, results, strict=True))
        if node.op == "measure":
            sizes[node.attrs["symbol"]] = int(results[0])
    return [env[v] for v in graph.outputs]


def outcome(call: Callable[[], Any]) -> Any:
    """What a call gives, as comparable data."""
    try:
        return data(call())
    except Exception as e:
        return builtin_kind(e)


UNCATCHABLE = "an exception that only the run decides, within 'try'"
"""What is refused in graphs by an error of its own, CE403."""


def builtin_kind(e: Exception) -> str:
    """The builtin exception that an error is of; an unexpected one shows all of itself."""
    if "[CE403]" in str(e):
        return UNCATCHABLE
    for kind in (IndexError, ZeroDivisionError, UnboundLocalError, NameError, OverflowError,
                 ValueError, AssertionError, RuntimeError):
        if isinstance(e, kind):
            own = next((word for word in ("raised", "assured") if str(e).startswith(word)), "")
            return f"{kind.__name__}: {own}" if own else kind.__name__
    return f"{type(e).__name__}: {e}"


def data(value: Any) -> Any:
    """A structure of tensors as plain data; NaNs are equal."""
    if isinstance(value, (tuple, list)):
        return type(value).__name__, [data(v) for v in value]
    array = np.array(value.asnumpy())
    if array.dtype.kind == "f":
        array[np.isnan(array)] = np.nan
    return str(array.dtype), array.shape, array.tobytes()


def prepare(source: str, seed: int) -> tuple[Any, tuple[Any, ...]]:
    """The function of a source, and arguments."""
    name = f"<random program {next(_numbers)}>"
    lang.register_source(name, source)
    space: dict[str, Any] = {"ms": ms, "ops": ops, "__name__": "random_program"}
    exec(compile(source, name, "exec"), space)
    return space["program"], arguments(seed)


def arguments(seed: int) -> tuple[Tensor, ...]:
    """Of a program."""
    r = np.random.RandomState(seed)
    return (Tensor(r.randn(3).astype(np.float32)), Tensor(r.randn(2, 3).astype(np.float32)),
            Tensor(np.array(r.randint(-2, 4), np.int32)))


def run(source: str, seed: int, gradient: bool, native: bool, more: int = 0) -> None:
    """Compare the modes: whole, by native code, or the language alone, by numpy.

    Args:
        source: of the program.
        seed: of its arguments.
        gradient: whether its gradients are compared, too.
        native: whether it is compiled.
        more: further arguments, which what was compiled for the first ones is given.
    """
    program, first_args = prepare(source, seed)
    every = [first_args, *(arguments(seed + 6 * (k + 1)) for k in range(more))]

    def compare(fn: Any) -> Any:
        compiled = ms.jit(fn) if native else InNumpy(fn)
        first = None
        for args in every:
            with nullcontext() if native else eagerly_in_numpy(), mode(ms.PYNATIVE_MODE):
                eager = outcome(partial(fn, *args))
            with mode(ms.GRAPH_MODE):
                graph = outcome(partial(compiled, *args))
            if graph == UNCATCHABLE:
                return UNCATCHABLE
            what = [t.asnumpy().tolist() for t in args]
            assert eager == graph, f"\n{source}\n{what}\neager {eager}\ngraph {graph}"
            first = eager if first is None else first
        return first

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a division of infinities, in both
        eager = compare(program)
        if gradient and not isinstance(eager, str):
            def slope(*given: Any) -> Any:
                # A sum starts from -0.0 in compiled branches: zeros may differ in sign.
                return tuple(g + 0.0 for g in ms.grad(program, (0, 1))(*given))

            compare(slope)


def checked(count: int) -> Any:
    return settings(
        max_examples=COUNT or count, deadline=None, derandomize=not COUNT, database=None,
        suppress_health_check=list(HealthCheck), phases=(Phase.generate,),
    )


@checked(150)
@given(programs(), st.integers(0, 5), st.booleans())
def test_the_language_means_the_same(source: str, seed: int, gradient: bool) -> None:
    run(source, seed, gradient, native=False)


@checked(20)
@given(programs(), st.integers(0, 5), st.booleans())
def test_the_modes_agree(source: str, seed: int, gradient: bool) -> None:
    run(source, seed, gradient, native=True)


def test_a_difference_is_found() -> None:
    """The comparison sees one bit, a type and a structure."""
    x = Tensor(np.array([1.0], np.float32))
    y = Tensor(np.array([np.nextafter(np.float32(1), np.float32(2))]))
    assert data(x) == data(Tensor(np.array([1.0], np.float32)))
    assert len({repr(data(v)) for v in (x, y, [x], (x,), x.astype(ms.float16))}) == 5
    with pytest.raises(AssertionError, match="def program"):
        run("STEP = []\ndef program(x, y, n):\n    STEP.append(1)\n    return x * len(STEP)\n", 0,
            False, native=False)


FOUND = {
    # What random programs have found: (source, seed).
    "a variable dead below a branch that continues is alive where it goes": ("""
def program(x, y, n):
    t = n * 0
    while t < 3:
        t = t + 1
        if t <= 2:
            if t > 1:
                continue
            n = n + 1
        n = -1 * t
    return x, [x[0], n]
""", 0),
    "the same in an else, under a loop over rows": ("""
def program(x, y, n):
    for r in y:
        t = n * 0
        if (r > x).any() or x[0] <= 3:
            n = ops.maximum(n * 2, n + 1)
        else:
            if (r > r).any():
                continue
        n = t
    return x, [x[0], n]
""", 3),
    "behind a branch that is asked about, the rest ran twice": ("""
def program(x, y, n):
    if x[0] < 3:
        if n < -5:
            return y[:int(n) % 3].sum(axis=0), [x[0], n]
        if (x > 0).any():
            x = x + 1
    return ops.sin(x), [x.max(), n]
""", 0),
    "a conditional expression gives what is read beside it": ("""
def program(x, y, n):
    for r1 in y:
        for r2 in y:
            if (x > r1).any():
                return (x if x[0] <= 3 else r2), [x[0] * x[0], n]
            r1 = x
        x = ops.cat((r1[1:], r1[:1]))
    return ops.where(x[0] <= 2.0, x, x), [x[0], n]
""", 2),
    "a size within a conditional expression": ("""
def program(x, y, n):
    if x[0] < 3:
        x *= x if (y[-1] > x).any() else y[:int(n) % 3].sum(axis=0)
    return x, [x[0], n]
""", 1),
}


@pytest.mark.parametrize("name", FOUND)
def test_found_before(name: str) -> None:
    source, seed = FOUND[name]
    run(source.lstrip(), seed, True, native=True)
