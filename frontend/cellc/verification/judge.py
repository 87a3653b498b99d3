"""The judge of a node: numpy in float64 on the node's own operands, and what is allowed.

An op whose every bit IEEE 754 defines (`Op.exact`) must have the bits of its reference. Any other
may be off by a tolerance in ulps: units in the last place of the largest element of the result,
or of what was summed for an element where that is more (terms may cancel: the sum of a normalised
row is all rounding). A sum of n terms, in whatever order, may be off by more than its op states:
by the random walk of its roundings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cellc_compiler.interpret import evaluate, summed
from cellc_compiler.ir.graph import Node
from cellc_compiler.ir.op import lookup
from cellc_runtime.records import dataclass

from .values import eps, is_inexact, same_bits, tiny

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Verdict:
    """A node against its reference.

    Attributes:
        problem: what is wrong; "" if nothing.
        ulps: the largest error; `limit` what is allowed (None: it was compared to the bit).
        reference: what the reference gives.
    """

    problem: str = ""
    ulps: float = 0.0
    limit: float | None = None
    reference: tuple[Array, ...] = ()

    @property
    def share(self) -> float:
        """The error as a share of what is allowed."""
        return self.ulps / self.limit if self.limit else 0.0


def judge(node: Node, operands: Sequence[Array], results: Sequence[Array]) -> Verdict:
    """Hold a node's results against the reference."""
    exact = lookup(node.op).exact
    want = evaluate(node, operands, precise=not exact)
    verdict = Verdict(reference=want)
    terms = None if exact else summed(node, operands)
    for i, (got, ref) in enumerate(zip(results, want, strict=True)):
        if exact or not is_inexact(got):
            if not same_bits(got, np.asarray(ref, got.dtype)):
                verdict.problem = _differs(i, got, ref)
                return verdict
            continue
        told = _not_finite(i, got, ref)
        if told:
            verdict.problem = told
            return verdict
        verdict.limit = limit_of(node, terms)
        ulps = error_in_ulps(got, ref, terms)
        verdict.ulps = max(verdict.ulps, ulps)
        if ulps > verdict.limit:
            verdict.problem = (f"result {i} is {ulps:.1f} ulps from the float64 reference "
                               f"(allowed: {verdict.limit:g})")
            return verdict
    return verdict


def _differs(i: int, got: Array, ref: Array) -> str:
    unlike = np.asarray((got != ref) & ~((got != got) & (ref != ref)))
    where = tuple(int(k) for k in np.unravel_index(int(np.argmax(unlike)), got.shape))
    at = f" at {where}" if where else ""
    return (f"result {i} differs from the reference in {max(1, int(unlike.sum()))} of {got.size} "
            f"elements{at}: {got[where]}, expected {ref[where]}")


def _not_finite(i: int, got: Array, ref: Array) -> str:
    """Where one is finite and the other is not."""
    with np.errstate(over="ignore", invalid="ignore"):
        limited = ref.astype(got.dtype)
        wide, have = _wide(limited), _wide(got)
        # What lies next to the largest number may be rounded to either side of it.
        border = np.abs(_wide(ref)) > _largest(got.dtype) * (1 - 64 * eps(got.dtype))
        infinite = np.isinf(wide) & np.isinf(have) & (wide == have)
        both = (np.isfinite(wide) & np.isfinite(have)) | (np.isnan(wide) & np.isnan(have))
        fine = both | infinite | (border & np.isfinite(_wide(ref)) & ~np.isnan(have))
    if fine.all():
        return ""
    where = tuple(int(k) for k in np.unravel_index(int(np.argmin(fine)), got.shape))
    at = f" at {where}" if where else ""
    return (f"result {i}{at} is {got[where]}, the float64 reference {ref[where]} "
            f"({int((~fine).sum())} of {got.size} elements)")


def _wide(a: Array) -> Array:
    return a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)


def _largest(dtype: np.dtype[Any]) -> float:
    found = {"float16": 65504.0, "float64": float(np.finfo(np.float64).max),
             "complex128": float(np.finfo(np.float64).max)}
    return found.get(dtype.name, 3.3895313892515355e38 if dtype.name == "bfloat16"
                     else float(np.finfo(np.float32).max))


def limit_of(node: Node, terms: Array | None) -> float:
    """What is allowed, in ulps: the op's own tolerance; a contraction's error grows."""
    op = lookup(node.op)
    base = op.tolerance
    if op.opaque or op.reduction is not None or op.expand is not None:
        length = max((v.type.size for v in node.operands), default=1)
        base = max(base, 8.0 * length**0.5)
    return float(base)


def error_in_ulps(got: Array, ref: Array, terms: Array | None = None) -> float:
    """The largest difference in ulps of the largest finite element of the reference.

    Args:
        got: a result; its type says what a ulp is.
        ref: what it should be.
        terms: what was summed for each element, in magnitude: its ulps count where it is larger.
    """
    if got.size == 0:
        return 0.0
    wide = _wide(got)
    finite = np.isfinite(ref) & np.isfinite(wide)
    scale = float(np.max(np.abs(ref), initial=0.0, where=finite))
    unit: Any = max(scale, tiny(got.dtype))
    if terms is not None:
        unit = np.maximum(unit, np.where(np.isfinite(terms), terms, 0).reshape(ref.shape))
    diff = np.abs(np.where(finite, wide - np.where(finite, ref, 0), 0))
    return float(np.max(diff / (unit * eps(got.dtype)), initial=0.0))
