"""`record`: a call of a network as a file that `replay` and `bisect` take elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from cellc_runtime import loader

from .. import context
from ..compiled.traced import Traced
from ..core.observers import unwatched, watching_calls
from ..lang import CompileError
from ..tensors.tensor import host_arrays_of
from ..tracing.pytree import take_apart
from .cases import Array, Case, traced_call, versions
from .judging import refuse_unknown


class _Recorder:
    """Notes each call before it is made; the last one is kept, or the one that raised."""

    def __init__(self) -> None:
        self.case: Case | None = None
        self.failed = False

    def answer(
        self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any],
        run: Callable[[], Any],
    ) -> Any:
        """Make a call and note it."""
        if self.failed:
            return run()
        with unwatched():
            options = _options()
            try:
                traced, arrays = traced_call(function, args, kwargs)
            except CompileError as e:
                self._fail(Case(None, [], (), _told(e), versions(), options))
                raise
            refuse_unknown(traced.graph)
            try:
                out = run()
            except Exception as e:
                self._fail(Case(traced.graph, arrays, (), _told(e), versions(), options))
                raise
            self.case = Case(traced.graph, arrays, _outputs(traced, out), "", versions(), options)
            return out

    def _fail(self, case: Case) -> None:
        self.case, self.failed = case, True


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _options() -> dict[str, str]:
    mode = "graph" if context.in_graph_mode() else "pynative"
    return {"numerics": context.numerics(), "mode": mode, "threads": str(loader.num_threads())}


def _outputs(traced: Traced, out: Any) -> Sequence[Array]:
    """Return the results and updates of a call, in the graph's order; empty where the call returned
    something else."""
    found = host_arrays_of(take_apart(out)[1])
    held = dict(zip(traced.graph.inputs[traced.arguments:], traced.parameters, strict=True))
    found += host_arrays_of(held[old] for old, _ in traced.graph.updates if old in held)
    wanted = traced.graph.results()
    alike = len(found) == len(wanted) and all(
        a.shape == v.shape and a.dtype == v.dtype.numpy for a, v in zip(found, wanted, strict=True))
    return [np.array(a) for a in found] if alike else ()


@contextmanager
def _recording(path: str | os.PathLike[str]) -> Iterator[None]:
    recorder = _Recorder()
    try:
        with watching_calls(recorder.answer):
            yield
    finally:
        if recorder.case is not None:
            recorder.case.save(path)
    if recorder.case is None:
        raise ValueError(f"record: nothing to write to {os.fspath(path)}: no Cell and no jitted "
                         "function was called in the block")


def record(path: str | os.PathLike[str], network: Any = None, *inputs: Any) -> Any:
    """Write a call of a network to a file that reproduces it elsewhere.

        with testing.record("case.cellcase"):
            net(x)

    In a block the last call of a Cell or jitted function is recorded, or the one that raises. The
    file holds the graph, the inputs, the parameters, the states of the random generators, what the
    call gave or the message of its error, versions and options; no code.

    Args:
        path: the file; one that ends in `.cellcase` is compact, others are text.
        network: a Cell or function that is called with `inputs`; without it, a context manager is
            returned.

    Returns:
        A context manager, or what the network gives. Its errors are raised, and the file is
        written before.

    Raises:
        ValueError: nothing was called in the block, or the network calls Python functions whose
            results a graph cannot have.
        OSError: the file cannot be written.

    Only in cellc.
    """
    if network is None:
        return _recording(path)
    recorder = _Recorder()
    try:
        return recorder.answer(network, inputs, {}, lambda: network(*inputs))
    finally:
        if recorder.case is not None:
            recorder.case.save(path)
