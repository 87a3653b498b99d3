"""Operands of functions as they are declared: kinds of elements and shapes in one line of text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from cellc_runtime.dtypes import DType, bool_, int32, int64

from ..core.declared import misuse
from ..tensors.tensor import Tensor
from .arguments import tensor

_KINDS: dict[str, tuple[str, Callable[[DType], bool]]] = {
    "float": ("a Tensor of floats", lambda kind: kind.is_float),
    "bool": ("a Tensor of bools", lambda kind: kind is bool_),
    "int": ("a Tensor of ints", lambda kind: kind.is_integer),
    "index": ("int32 or int64", lambda kind: kind in (int32, int64))}
"""The kinds of elements that operands are declared to have, in words, and which types they are."""
_OPERAND = re.compile(r"(\w+)(?: (\w+))?(?: \(([^)]*)\))?(?:, |$)")


@lru_cache(1024)
def _declared(text: str) -> tuple[tuple[str, str, str | None], ...]:
    """The names, kinds and shapes of operands."""
    return tuple((m[1], m[2], m[3]) for m in _OPERAND.finditer(text) if m[1])


def operands_of(what: str, declared: str, *given: Any) -> list[Tensor]:
    """Operands as they are declared, or a TypeError or ValueError: "x float (n, c), y int (n)".

    Args:
        what: the function.
        declared: names, each with a kind (see `_KINDS`) or none for all, and a shape or none for
            all. A letter or word is one length throughout, `...` the same axes throughout.
    """
    stated = _declared(declared)
    found = [tensor(x, what, name) for x, (name, _, _) in zip(given, stated, strict=True)]
    for t, (name, kind, _) in zip(found, stated, strict=True):
        if kind and not _KINDS[kind][1](t.dtype):
            raise misuse(what, f"'{name}' must be {_KINDS[kind][0]}", t.dtype, TypeError)
    lengths: dict[str, Any] = {}
    shaped = [(t, name, shape) for t, (name, _, shape) in zip(found, stated, strict=True)
              if shape is not None]
    if all(_fits(t.shape, shape, lengths) for t, _, shape in shaped):
        return found
    if len(shaped) == 1:
        t, name, shape = shaped[0]
        raise misuse(what, f"'{name}' must have shape ({shape}), but has shape {t.shape}")
    wanted = _join_words(f"'{name}' ({shape})" for _, name, shape in shaped)
    raise misuse(what, f"{wanted} are needed", _join_words(str(t.shape) for t, _, _ in shaped))


def _join_words(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}"


def _fits(own: Sequence[int], declared: str, lengths: dict[str, Any]) -> bool:
    """Whether a shape is the declared one, where names stand for these lengths (known ones are
    added)."""
    names = declared.split(", ") if declared else []
    at = names.index("...") if "..." in names else len(names)
    after = max(len(names) - at - 1, 0)
    if len(own) < at + after or (at == len(names) and len(own) > at):
        return False
    end = len(own) - after
    pairs: list[tuple[str, Any]] = [
        *zip(names[:at], own[:at], strict=True), *zip(names[at + 1:], own[end:], strict=True)]
    if at < len(names):
        pairs.append(("...", tuple(own[at:end])))
    return all((int(n) if n.lstrip("-").isdigit() else lengths.setdefault(n, d)) == d
               for n, d in pairs)
