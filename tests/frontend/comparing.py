"""Comparison of results brought to plain form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import cellc.common.dtype as dt
import cellc.ops as ops
from cellc.common.parameter import Parameter
from cellc.common.tensor import Tensor

from ..others import mindspore
from . import differential


class Names:
    """What the expressions call `ms`."""

    Parameter = Parameter

    def __getattr__(self, name: str) -> Any:
        return getattr(dt, name)


def ours(expressions: Sequence[str]) -> list[Any]:
    """The expressions evaluated by cellc."""
    return differential.evaluate(
        list(expressions),
        {"ms": Names(), "Tensor": Tensor, "Parameter": Parameter, "ops": ops, "np": np},
    )


def theirs(expressions: Sequence[str]) -> list[Any]:
    """The expressions evaluated by the oracle; skips the test where there is none."""
    found: list[Any] = mindspore(Path(differential.__file__), given=list(expressions))
    return found


def close(a: Any, b: Any) -> bool:
    """Whether two plain results agree (numbers to about float32 rounding)."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(close(p, q) for p, q in zip(a, b, strict=True))
    if type(a) in (int, float) and type(b) in (int, float):
        return math.isclose(a, b, rel_tol=2e-5, abs_tol=2e-6)
    return bool(a == b)


def is_error(result: Any) -> bool:
    """Whether a plain result stands for an exception."""
    return isinstance(result, list) and bool(result) and result[0] == "error"


def disagreements(expressions: Sequence[str]) -> list[tuple[str, Any, Any]]:
    """Expressions the oracle evaluates and cellc does not, or differently."""
    rows = zip(expressions, theirs(expressions), ours(expressions), strict=True)
    return [(e, want, got) for e, want, got in rows
            if not is_error(want) and not close(want, got)]
