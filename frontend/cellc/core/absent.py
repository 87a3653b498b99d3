"""Functions that only say why they are not here: what MindSpore has for other devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def absent(source: str, reason: str, text: str, home: str = "") -> Callable[..., Any]:
    """A function that raises a RuntimeError whatever it is given.

    Args:
        source: MindSpore's name, without `mindspore.`.
        reason: the error's text after the name.
        text: the first line of its docstring.
        home: the module that offers it, where that is requested.
    """
    name = source.rpartition(".")[2]

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{source} {reason}")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__module__ = home or __name__
    refuse.__doc__ = f"""{text}

    Raises:
        RuntimeError: always.

    Source: `mindspore.{source}`.
    """
    return refuse
