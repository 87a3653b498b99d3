"""Signatures that classes of primitives declare (`__mindspore_signature__`): what each operand is.

A primitive of the user's runs as that of its name in `cellc.ops`, which knows its operands itself.
Source: `mindspore.ops.signature`.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Any

from cellc_runtime.records import dataclass

sig_rw = IntEnum("sig_rw", "RW_READ RW_WRITE RW_REF RW_EMPTY_DEFAULT_VALUE", start=0)
"""Whether a primitive reads or writes an operand."""
sig_kind = IntEnum("sig_kind", "KIND_POSITIONAL_KEYWORD KIND_VAR_POSITIONAL KIND_KEYWORD_ONLY "
                   "KIND_VAR_KEYWARD KIND_EMPTY_DEFAULT_VALUE", start=0)
"""How an operand is given."""
sig_dtype = IntEnum("sig_dtype", "T T1 T2 T3 T4 T5 T6 T7 T8 T9 T_EMPTY_DEFAULT_VALUE", start=0)
"""Operands of one of these have one element type."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The signature of one operand."""

    name: str
    rw: Enum
    kind: Enum
    default: Any
    dtype: Enum


def make_sig(
    name: str = "var", rw: Enum = sig_rw.RW_READ, kind: Enum = sig_kind.KIND_POSITIONAL_KEYWORD,
    default: Any = sig_kind.KIND_EMPTY_DEFAULT_VALUE,
    dtype: Enum = sig_dtype.T_EMPTY_DEFAULT_VALUE,
) -> Signature:
    """The signature of an operand.

    Args:
        name: of the operand.
        rw: whether it is written.
        kind: how it is given.
        default: its value where it is left out.
        dtype: which operands have the same element type.
    """
    return Signature(name, rw, kind, default, dtype)
