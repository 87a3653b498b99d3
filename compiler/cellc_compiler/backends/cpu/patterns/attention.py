"""Attention as one kernel of the CPU; see `kernels/attention.py` for why the bits stay."""

from __future__ import annotations

from typing import Any

from cellc_runtime.target import Target

from ...attention import AttentionParts, Kernels
from ...attention import AttentionPattern as Shared
from ..kernels.attention import AttentionSpec, attention_kernels
from ..rules.contraction import matmul_spec


class AttentionPattern(Shared):
    """Two products and the rows between them as one kernel."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def kernels(self, parts: AttentionParts, memo: dict[Any, Any]) -> Kernels | None:
        spec = AttentionSpec(matmul_spec(parts.scores), parts.nest, matmul_spec(parts.mix),
                             parts.source, parts.weights, parts.local)
        return attention_kernels(spec, self.target, memo)
