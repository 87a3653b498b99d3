"""Names of `nn` that MindSpore has for Ascend devices: each says so when it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.absent import absent


def _absent(name: str, what: str, instead: str) -> Callable[..., Any]:
    return absent(f"nn.{name}", f"{what}, which the CPU has no version of: use {instead}.",
                  f"Not on the CPU: it {what}. Use {instead}.", __name__)


AdaSumByDeltaWeightWrapCell = _absent(
    "AdaSumByDeltaWeightWrapCell", "adds up several devices", "the optimizer itself")
AdaSumByGradWrapCell = _absent(
    "AdaSumByGradWrapCell", "adds up several devices", "the optimizer itself")
Conv2dThor = _absent("Conv2dThor", "serves THOR", "nn.Conv2d")
DenseThor = _absent("DenseThor", "serves THOR", "nn.Dense")
EmbeddingLookupThor = _absent("EmbeddingLookupThor", "serves THOR", "nn.EmbeddingLookup")
EmbeddingThor = _absent("EmbeddingThor", "serves THOR", "nn.Embedding")
GetNextSingleOp = _absent(
    "GetNextSingleOp", "reads a queue on the device", "an iterator of the dataset")
OptTFTWrapper = _absent("OptTFTWrapper", "mends a cluster while it trains", "the optimizer itself")
thor = _absent(
    "thor", "is a second-order optimizer of Ascend devices and GPUs", "nn.Momentum or nn.Adam")

__all__ = [
    "AdaSumByDeltaWeightWrapCell", "AdaSumByGradWrapCell", "Conv2dThor", "DenseThor",
    "EmbeddingLookupThor", "EmbeddingThor", "GetNextSingleOp", "OptTFTWrapper", "thor",
]
