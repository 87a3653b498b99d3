"""MindSpore's import path for `jit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..compat import jit_class as jit_class
from ..compiled.jit import jit
from ..inner_names import cells_compile_cache as cells_compile_cache
from ..inner_names import pynative_executor as _pynative_executor  # noqa: F401  (for scripts)


def ms_function(
    fn: Callable[..., Any] | None = None, input_signature: Any = None, hash_args: Any = None,
    jit_config: Any = None,
) -> Any:
    """The older name of `jit`.

    Args:
        fn: the function (without one: a decorator).
        input_signature, hash_args, jit_config: those of `jit`.
    """
    def decorate(function: Callable[..., Any]) -> Any:
        return jit(function, input_signature=input_signature, hash_args=hash_args,
                   jit_config=jit_config)

    return decorate if fn is None else decorate(fn)


__all__ = ["jit"]
