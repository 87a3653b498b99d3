"""Observers of networks' calls and compilations: the tools of `cellc.testing`.

A watcher of calls gets what the caller asked for and what answers it; the last one decides. Native
call sites go the long way while anybody watches, so that no call passes unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cellc_runtime.site import STATE

Run = Callable[[], Any]
"""The function that answers the observed call."""
CallWatcher = Callable[[Any, tuple[Any, ...], Mapping[str, Any], Run], Any]
"""(Cell or function, arguments, named arguments, what answers) -> the answer."""
CompilationWatcher = Callable[[str, Any, Any], None]
"""(name of the network, `compiled.causes.Compilation`, `compiled.entry.Entry`) -> None."""

calls: list[CallWatcher] = []
"""The watchers of calls, of which the last is asked."""
compilations: list[CompilationWatcher] = []
"""The watchers of compilations, which are all called."""


@contextmanager
def watching_calls(watcher: CallWatcher) -> Iterator[None]:
    """Within the block, `watcher` answers calls of Cells and jitted functions."""
    STATE.begin()
    calls.append(watcher)
    try:
        yield
    finally:
        calls.remove(watcher)
        STATE.end()


@contextmanager
def watching_compilations(watcher: CompilationWatcher) -> Iterator[None]:
    """Within the block, `watcher` is called with every compilation of a network."""
    compilations.append(watcher)
    try:
        yield
    finally:
        compilations.remove(watcher)


@contextmanager
def unwatched() -> Iterator[None]:
    """Within the block, nobody watches calls: a tool that is answering one makes calls itself."""
    saved = calls[:]
    calls.clear()
    try:
        yield
    finally:
        calls[:] = saved


__all__ = ["calls", "compilations", "unwatched", "watching_calls", "watching_compilations"]
