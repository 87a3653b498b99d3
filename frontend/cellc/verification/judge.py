"""The judge of a node: numpy in float64 on the node's own operands, and what is allowed.

An op whose every bit IEEE 754 defines (`Op.exact`) must have the bits of its reference. Any other
may be off by its limit (`Op.limit`) in ulps: units in the last place of the largest element of the
result, or of what was summed for an element where that is more (terms may cancel: the sum of a
normalised row is all rounding).

A composition that is within its tolerance is right. Where terms cancel inside it, it is judged in
two halves: its expansion, in float64, must be its reference; and every node of the expansion must
be within its own limit (`nodes.py` goes in as into a region).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cellc_compiler.interpret import evaluate, run, summed
from cellc_compiler.ir.graph import Graph, Node
from cellc_compiler.ir.op import lookup
from cellc_runtime.records import dataclass

from .values import (
    eps,
    error_in_ulps,
    first_of,
    is_inexact,
    largest_finite,
    same_bits,
    unlike_elements,
    widened,
)

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Verdict:
    """A node against its reference."""

    problem: str = ""  # what is wrong; "" if nothing
    # the largest error; `limit` what is allowed (None: it was compared to the bit)
    ulps: float = 0.0
    limit: float | None = None
    cancels: bool = False  # it is a composition that is off by more than its tolerance: go into it

    @property
    def share(self) -> float:
        """The error as a share of what is allowed."""
        return self.ulps / self.limit if self.limit else 0.0


def judge(node: Node, operands: Sequence[Array], results: Sequence[Array]) -> Verdict:
    """Hold a node's results against the reference."""
    op = lookup(node.op)
    exact = op.exact and not any(v.dtype.is_complex for v in (*node.operands, *node.results))
    want = evaluate(node, operands, precise=not exact)
    verdict = Verdict()
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
        verdict.limit = op.limit(node)
        verdict.ulps = max(verdict.ulps, error_in_ulps(got, ref, terms))
        if verdict.ulps > verdict.limit:
            verdict.cancels = op.expand is not None
            verdict.problem = (f"result {i} is {verdict.ulps:.1f} ulps from the float64 reference "
                               f"(allowed: {verdict.limit:g})")
            return verdict
    return verdict


def judge_expansion(node: Node, expansion: Graph, operands: Sequence[Array]) -> str:
    """Return the fault of a composition's expansion, run in float64; "" if it is its reference."""
    want = evaluate(node, operands, precise=True)
    got = run(expansion, operands, precise=True)
    largest = max((float(np.max(np.abs(a[np.isfinite(a)]), initial=0.0))
                   for a in map(widened, (*operands, *got)) if a.size), default=0.0)
    for i, (a, b, r) in enumerate(zip(got, want, node.results, strict=True)):
        if not r.dtype.is_inexact:
            if not np.array_equal(a, b):
                return f"result {i}: the expansion differs from the reference"
            continue
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return f"result {i}: the expansion is not finite where the reference is, or the reverse"
        fine = np.isfinite(b)
        own = np.dtype(r.dtype.numpy)
        scale = float(np.max(np.abs(b), initial=0.0, where=fine))
        # Cancellation in float64 leaves a rounding error: 2**-40 of the largest number around.
        allowed = lookup(node.op).tolerance * eps(own) * scale + 2.0**-40 * largest
        worst = float(np.max(np.abs(np.where(fine, a, 0) - np.where(fine, b, 0)), initial=0.0))
        if worst > allowed:
            return f"result {i}: the expansion in float64 is {worst:g} from the reference"
    return ""


def _differs(i: int, got: Array, ref: Array) -> str:
    unlike = unlike_elements(got, ref)
    where, at = first_of(unlike)
    return (f"result {i} differs from the reference in {max(1, int(unlike.sum()))} of {got.size} "
            f"elements{at}: {got[where]}, expected {ref[where]}")


def _not_finite(i: int, got: Array, ref: Array) -> str:
    """Where one is finite and the other is not."""
    with np.errstate(over="ignore", invalid="ignore"):
        limited = ref.astype(got.dtype)
        wide, have = widened(limited), widened(got)
        # A value next to the largest number may be rounded to either side of it.
        border = np.abs(widened(ref)) > largest_finite(got.dtype) * (1 - 64 * eps(got.dtype))
        infinite = np.isinf(wide) & np.isinf(have) & (wide == have)
        both = (np.isfinite(wide) & np.isfinite(have)) | (np.isnan(wide) & np.isnan(have))
        fine = both | infinite | (border & np.isfinite(widened(ref)) & ~np.isnan(have))
    if fine.all():
        return ""
    where, at = first_of(~fine)
    return (f"result {i}{at} is {got[where]}, the float64 reference {ref[where]} "
            f"({int((~fine).sum())} of {got.size} elements)")
