"""Calls in PyNative and compiled, from the same state, and what the two did.

Each run makes several calls, one after another, on the state that the call before left: a program
that is right once may lose or repeat an effect when it is used again. A run begins with the same
elements, attributes and seeds and gets copies of the inputs. After each call its result or error,
prints, random states and changes are noted. Afterwards everything is put back.
"""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cellc_runtime.errors import RunError
from cellc_runtime.records import dataclass, field

from .. import context
from ..compiled.found_sizes import settled
from ..compiled.traced import Traced, trace
from ..lang import CompileError
from ..lang.values import MISSING
from ..tensors.seed import set_seed
from ..tensors.tensor import host_arrays_of, tensor_of
from ..tracing.pytree import put_together, take_apart_call
from .report import Report
from .snapshot import Snapshot, random_table
from .values import Table, difference, finite_all, kinds_of, same_bits, table_of

Array = np.ndarray[Any, Any]
NAMES = ("PyNative", "compiled")
CALLS = 3
"""Of a run. The first call compiles. The second may compile again, for the state that the first
one changed. The third is answered by a program that is there."""


@dataclass(slots=True)
class Stage:
    """A call that is verified.

    Attributes:
        name: forward, gradient or train.
        fn: what is called in PyNative; `compiled` in graph mode; `args` the arguments.
        roots: what it can change, by name.
        label: what the result at a path is called, and the kind of a finding there.
    """

    name: str
    fn: Callable[..., Any]
    compiled: Callable[..., Any]
    args: tuple[Any, ...]
    roots: Mapping[str, Any]
    label: Callable[[str], tuple[str, str]]


@dataclass(slots=True)
class Outcome:
    """The effects of one call."""

    returned: Any = None  # the result itself; `results` it as a table
    results: Table = field(default_factory=Table)
    error: Exception | None = None  # what it raised, if it did
    printed: str = ""  # on standard output
    # what could be reached from the network afterwards; `random` the generators
    state: Table = field(default_factory=Table)
    random: Table = field(default_factory=Table)


def fresh(args: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments with copies of their Tensors; Parameters stay themselves."""
    structure, leaves = take_apart_call(args, {})
    copies = [tensor_of(np.array(a)) for a in host_arrays_of(leaves)]
    for copy, t in zip(copies, leaves, strict=True):
        for hook in t.hooks():
            copy.register_hook(hook)
    out: tuple[Any, ...] = put_together(structure, copies)[0]
    return out


def seeded(seed: int) -> None:
    """Start all random generators from a seed."""
    set_seed(seed)
    random.seed(seed)


def run(
    stage: Stage, seed: int, compiled: bool, report: Report, raising: int = 0
) -> list[Outcome]:
    """Some calls in a mode, up to the first error; everything is put back.

    Args:
        raising: the number of the call that raises in the other mode, 0 for none: a later call than
            the first may then be one that cannot be compiled, for it raises whatever it is given.

    Raises:
        CompileError: the network cannot be compiled.
    """
    args = fresh(stage.args)
    inputs = {f"argument {i}": a for i, a in enumerate(args)}
    saved = Snapshot({**stage.roots, **inputs})
    for path in saved.unknown:
        report.not_compared[f"{stage.name}: {path}: an iterator, which cannot be put back"] = 1
    fn = stage.compiled if compiled else stage.fn
    calls: list[Outcome] = []
    with saved:
        seeded(seed)
        with in_mode(context.GRAPH_MODE) if compiled else context.running_op_by_op():
            while len(calls) < CALLS and not (calls and calls[-1].error is not None):
                state = calls[-1].state if calls else Table()
                calls.append(_call(fn, args, saved, state, 0 < len(calls) == raising - 1))
    return calls


def _call(
    fn: Callable[..., Any], args: tuple[Any, ...], saved: Snapshot, state: Table, raises: bool
) -> Outcome:
    """One call.

    Args:
        state: what the call before left, whose arrays serve again if they are equal.
        raises: whether it is to raise.
    """
    out, text = Outcome(), io.StringIO()
    with contextlib.redirect_stdout(text):
        try:
            out.returned = fn(*args)
            out.results = table_of(out.returned, "", aliases=False)
        except CompileError as e:
            if not raises:
                raise
            out.error = e
        except Exception as e:
            out.error = e
    out.printed, out.random, out.state = text.getvalue(), random_table(), saved.table()
    for path, a in out.state.items():
        before = state.get(path)
        if isinstance(a, np.ndarray) and isinstance(before, np.ndarray) and same_bits(a, before):
            out.state[path] = before
    return out


@contextlib.contextmanager
def in_mode(mode: int) -> Any:
    """Within the block, a mode of the context holds."""
    before = context.get_context("mode")
    context.set_context(mode=mode)
    try:
        yield
    finally:
        context.set_context(mode=before)


def traced_on(
    function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], mode: int = context.GRAPH_MODE
) -> tuple[Traced, list[Array]]:
    """A call as a graph for the sizes that it finds, and what it is given, in the order of the
    graph's inputs; `mode` is the one that `construct` sees. Raises CompileError if it cannot be
    traced."""
    leaves = take_apart_call(args, kwargs)[1]

    def given(traced: Traced) -> list[Array]:
        fed = traced.fed(host_arrays_of(leaves))
        return [np.array(a) for a in (*fed, *host_arrays_of(traced.parameters))]

    with in_mode(mode):
        found = settled(lambda shapes: trace(function, args, kwargs, None, shapes), given)
        traced = found if found is not None else trace(function, args, kwargs)
    return traced, given(traced)


# --- comparing ------------------------------------------------------------------------------------


def compare(
    stage: Stage, eager: Sequence[Outcome], graph: Sequence[Outcome], report: Report
) -> None:
    """Compare the calls of two runs of a stage, up to the first one that differs."""
    report.compared[f"{stage.name}: calls"] += len(graph)
    for number, (a, b) in enumerate(zip(eager, graph, strict=False), 1):
        one = Report()
        at = stage.name if number == 1 else f"{stage.name}: call {number}"
        _compare(stage, at, a, b, one)
        if number > 1:  # counted once
            one.compared.clear()
            one.findings = [f for f in one.findings if f.kind != "nonfinite"]
        report.add(one)
        if any(f.kind != "nonfinite" for f in one.findings):
            return


def _compare(stage: Stage, at: str, eager: Outcome, graph: Outcome, report: Report) -> None:
    """Compare the effects of one call in the two runs."""
    if eager.error is not None or graph.error is not None:
        _errors(stage.name, at, eager.error, graph.error, report)
    else:
        _tables(stage, at, eager.results, graph.results, report)
        _finite(stage, at, graph.results, report)
    if graph.error is not None and type(graph.error) is not type(eager.error) and \
            not isinstance(graph.error, RunError):
        return  # it was refused before it ran, so it has done nothing
    _state(stage.name, at, eager.state, graph.state, report)
    report.compared[f"{stage.name}: printed texts"] += 1
    if eager.printed != graph.printed:
        report.find("print", f"{at}: print", _texts(eager.printed, graph.printed))
    report.compared[f"{stage.name}: random states"] += 1
    for name in eager.random.keys() | graph.random.keys():
        told = difference(eager.random.get(name), graph.random.get(name), NAMES)
        if told:
            if "numpy" in name or name == "random":
                told = "one mode drew from it more often than the other"
            report.find("random", f"{at}: {name}", told)


def _errors(
    stage: str, at: str, eager: Exception | None, graph: Exception | None, report: Report
) -> None:
    told = [f"{type(e).__name__}: {e}" if e is not None else "no error" for e in (eager, graph)]
    # Compiled code raises subclasses that also say where.
    alike = eager is not None and isinstance(graph, type(eager)) and (
        isinstance(graph, CompileError) or str(eager) == str(graph))
    if not alike:
        report.find("error", at, f"{told[0]} in PyNative, {told[1]} compiled")
    else:
        report.compared[f"{stage}: errors"] += 1
        report.not_compared[f"{at}: results: both modes raise {told[0]}"] += 1


def _tables(stage: Stage, at: str, eager: Table, graph: Table, report: Report) -> None:
    for path in [*eager, *(p for p in graph if p not in eager)]:
        what, kind = stage.label(path)
        if path not in eager or path not in graph:
            missing = NAMES[path in eager]
            report.find(kind, f"{at}: {what}", f"there is none {missing}")
            continue
        if isinstance(eager[path], np.ndarray):
            report.compared[f"{stage.name}: {kind}s"] += 1
        told = difference(eager[path], graph[path], NAMES)
        if told:
            report.find(kind, f"{at}: {what}", told)


def _state(stage: str, at: str, eager: Table, graph: Table, report: Report) -> None:
    counted = 0
    for path in [*eager, *(p for p in graph if p not in eager)]:
        counted += 1
        a, b = eager.get(path, MISSING), graph.get(path, MISSING)
        told = difference(a, b, NAMES)
        if told:
            kind = "parameter" if isinstance(a, np.ndarray) else "state"
            report.find(kind, f"{at}: {path} afterwards", told)
    report.compared[f"{stage}: parameters and attributes"] += counted


def _finite(stage: Stage, at: str, graph: Table, report: Report) -> None:
    """Results that are not finite are findings also where the modes agree."""
    for path, a in graph.items():
        what, kind = stage.label(path)
        if not isinstance(a, np.ndarray) or finite_all(a):
            continue
        if stage.name == "gradient" and kind == "output":
            continue  # said of the forward stage
        report.find("nonfinite", f"{at}: {what}", f"it holds {kinds_of([a])}")


def _texts(a: str, b: str) -> str:
    lines = a.splitlines(), b.splitlines()
    for i in range(max(map(len, lines))):
        x, y = (t[i] if i < len(t) else "nothing" for t in lines)
        if x != y:
            return f"line {i + 1}: {x!r} in PyNative, {y!r} compiled"
    return f"{a!r} in PyNative, {b!r} compiled"
