"""`record`: a call of a network as a file that `replay` and `bisect` take elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cellc_compiler.ir.graph import Graph
from cellc_runtime import loader

from .. import context
from ..core.observers import unwatched, watching_calls
from .cases import Array, Case, results_of, traced_call, versions
from .judging import CannotJudge, refuse_unknown


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
        graph: Graph | None = None
        arrays: list[Array] = []
        options = _options()
        with unwatched():
            try:
                traced, arrays = traced_call(function, args, kwargs)
                graph = traced.graph
                refuse_unknown(graph)
                out = run()
            except CannotJudge:
                raise
            except Exception as e:
                self.failed, told = True, f"{type(e).__name__}: {e}"
                self.case = Case(graph, arrays, (), told, versions(), options)
                raise
            self.case = Case(graph, arrays, results_of(traced, out), "", versions(), options)
            return out


def _options() -> dict[str, str]:
    mode = "graph" if context.in_graph_mode() else "pynative"
    return {"numerics": context.numerics(), "mode": mode, "threads": str(loader.num_threads())}


@contextmanager
def _writing(path: str | os.PathLike[str]) -> Iterator[_Recorder]:
    recorder = _Recorder()
    try:
        yield recorder
    finally:
        if recorder.case is not None:
            recorder.case.save(path)


@contextmanager
def _recording(path: str | os.PathLike[str]) -> Iterator[None]:
    with _writing(path) as recorder, watching_calls(recorder.answer):
        yield
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
    with _writing(path) as recorder:
        return recorder.answer(network, inputs, {}, lambda: network(*inputs))
