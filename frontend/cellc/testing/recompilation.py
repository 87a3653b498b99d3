"""`assert_no_recompile`: a test fails where a network is compiled that should not be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cellc_runtime.errors import counted

from ..core.observers import watching_compilations


@contextmanager
def _no_recompile(allowed: int) -> Iterator[None]:
    found: list[tuple[str, Any]] = []
    with watching_compilations(lambda name, made, entry: found.append((name, made))):
        yield
    if len(found) > allowed:
        raise AssertionError(_text(found, allowed))


def _text(found: list[tuple[str, Any]], allowed: int) -> str:
    count = counted(len(found), 'compilation')
    lines = [f"assert_no_recompile: {count}, where {allowed or 'none'} "
             f"{'is' if allowed < 2 else 'are'} allowed"]
    for name, made in found:
        cause = made.cause or "the first of this network"
        lines.append(f"  {name}{made.signature}, {made.seconds:.2f} s: {cause}")
    return "\n".join(lines)


def assert_no_recompile(function: Callable[..., Any] | None = None, *, allowed: int = 0) -> Any:
    """Check that no network is compiled: a context manager, or a decorator of a test.

        with testing.assert_no_recompile():
            net(x)

    Compilations of Cells, jitted functions and gradients count, in graph mode and out of it. Call
    the network once before the block, or allow for its first compilation.

    Args:
        function: what is decorated.
        allowed: how many compilations there may be.

    Raises:
        AssertionError: there were more; with the network, the signature and the cause of each, as
            `cellc.explain` tells them.

    Only in cellc.
    """
    if allowed < 0:
        raise ValueError(f"For 'assert_no_recompile', 'allowed' must not be negative, but got "
                         f"{allowed}.")
    block = _no_recompile(allowed)
    return block if function is None else block(function)
