"""The signature of a call: its form as a key, and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np

from cellc_compiler.ir.graph import Literal

from ..core.module_names import Itself, class_key
from ..tensors.tensor import Tensor
from ..tracing.arguments import shared
from ..tracing.pytree import Box, Known, Leaf, Structure
from ..tracing.reads import short
from .dynamic import parameter_names


def form_of(structure: Structure, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The structure of a call as a key, with which of its containers are one object."""
    same = shared((args, kwargs))
    return (_fingerprint(structure), same) if same else _fingerprint(structure)


def _fingerprint(structure: Structure) -> Any:
    """The structure as a key.

    Arrays count by content, values of Python's and cellc's own types as they compare, all others by
    identity: no method of the user is called."""
    if isinstance(structure, Leaf):
        return structure
    if isinstance(structure, Box):
        return (class_key(structure.kind), structure.keys, structure.made_with,
                tuple(_fingerprint(p) for p in structure.parts))
    assert isinstance(structure, Known)
    value = structure.value
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return np.ndarray, Literal(value).digest
    if not _compares_plainly(value):
        return class_key(type(value)), Itself(value)
    return type(value), value if not isinstance(value, float) else repr(value)


def _compares_plainly(value: Any) -> bool:
    """Whether a value is of a type of Python, numpy or cellc, and can be hashed."""
    if type(value).__module__.partition(".")[0] not in ("builtins", "numpy", "cellc",
                                                       "cellc_compiler", "cellc_runtime"):
        return isinstance(value, Enum) and type(value).__hash__ is Enum.__hash__
    try:
        hash(value)
    except TypeError:
        return False
    return True


def describe_call(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """A call's signature in words: `(x: float32[2, 4], 3)`."""
    names = parameter_names(fn)

    def word(value: Any) -> str:
        if isinstance(value, Tensor):
            return str(value._type)
        if isinstance(value, (tuple, list)):
            inner = ", ".join(map(word, value))
            return f"[{inner}]" if isinstance(value, list) else f"({inner})"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{k!r}: {word(v)}" for k, v in value.items()) + "}"
        return short(value)

    parts = [f"{names[i]}: {word(a)}" if i < len(names) else word(a) for i, a in enumerate(args)]
    parts += [f"{k}: {word(v)}" for k, v in kwargs.items()]
    return "(" + ", ".join(parts) + ")"
