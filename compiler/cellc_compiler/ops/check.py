"""`check`: the one op that can end a call with an error.

Code for it returns from `cellc_main` at once with the number of a message, so nothing behind it in
program order is seen, no update is written and no result is given out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.errors import RUN_ERRORS, message_text, run_error

from ..ir.op import REQUIRED, Array, Op, register
from ..ir.types import TensorType
from . import _batch_axis


@register
class Check(Op):
    """Raise unless every element of the first operand is in [low, high).

    A condition is a bool operand with low 1 and high 2. Further operands are what the message
    shows.

    Attributes:
        low: the least element allowed; `high` the first one above those allowed.
        error: the kind of error, the name of a builtin exception.
        parts: the message: a string stands for itself, None for the next further operand, 0 for
            the first element that is not allowed.
        own: the qualified name of the user's exception class, or "".
        detail: the place in the user's source, for people.
    """

    name = "check"
    may_fail = True
    batch_axis = _batch_axis.none
    operands = ("checked", "*shown")
    attrs = {"low": 1, "high": 2, "error": REQUIRED, "parts": REQUIRED, "own": "", "detail": ""}
    effect = True
    differentiable = False

    def infer(
        self, checked: TensorType, *shown: TensorType, low: int, high: int, error: str,
        parts: tuple[Any, ...], own: str, detail: str,
    ) -> tuple[TensorType, ...]:
        if not checked.dtype.is_integer and checked.dtype is not dtypes.bool_:
            raise TypeError(f"check needs ints or bools, got {checked}")
        if error not in RUN_ERRORS:
            raise ValueError(f"check knows no error {error!r}")
        if sum(p is None for p in parts) != len(shown):
            raise TypeError("check needs one further operand for each None of its parts")
        return ()

    def reference(
        self, checked: Array, *shown: Array, low: int, high: int, error: str,
        parts: tuple[Any, ...], own: str, detail: str,
    ) -> tuple[Array, ...]:
        flat = np.asarray(checked).reshape(-1)
        bad = flat[(flat < low) | (flat >= high)]
        if bad.size:
            text = message_text(parts, bad[0], shown, str)
            raise run_error(error, text, "", 0, detail)
        return ()
