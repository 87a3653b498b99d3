"""Kernels run as plain Python, over numpy arrays: what a kernel means, and its reference."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from copy import deepcopy
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from .functions import PYTHON
from .language import KernelError, Source, Typed, read

Array = np.ndarray[Any, Any]


def call(typed: Typed, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """The results of a kernel on arrays, which it may write to.

    Raises:
        IndexError: a position is out of bounds.
        KernelError: a number that is written down is none of the type that it meets.
    """
    source = typed.kernel.source
    try:
        with np.errstate(all="ignore"):  # compiled code computes on with NaN and infinity, too
            made = _function(source)(*arrays)
    except OverflowError as error:
        raise KernelError(f"the kernel {typed.kernel.name}() cannot be run: {error} "
                          f"({source.file}, from line {source.line})") from error
    results = made if isinstance(made, tuple) else (made,)
    return tuple(np.array(r, t.dtype.numpy) for r, t in zip(results, typed.outputs, strict=True))


def _numpy(name: str, *_: Any) -> Any:
    if name.partition(".")[0] != "numpy":
        raise ImportError(f"a kernel cannot import {name}")
    return import_module(name)


@lru_cache(64)
def _function(source: Source) -> Any:
    # The text may come from a file. `read` accepts its language and nothing else of Python; without
    # builtins, nothing else could be reached either. (numpy imports its errors when it warns.)
    kernel = read(source)
    space: dict[str, Any] = {**PYTHON, **dict(source.constants),
                             "__builtins__": {"__import__": _numpy}}
    tree = ast.Module([deepcopy(kernel.function)], [])
    made: dict[str, Any] = {}
    exec(compile(ast.increment_lineno(tree, source.line - 1), source.file, "exec"), space, made)
    return made[kernel.name]
