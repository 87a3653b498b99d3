"""The common part of distributions with one rate."""

from __future__ import annotations

from typing import Any

from cellc_runtime.dtypes import DType, float32

from ..base import Distribution
from ..parameters import held


class OfRate(Distribution):
    """One parameter, `rate`, above 0."""

    _above_zero = {"rate": "rate"}

    def __init__(self, rate: Any = None, seed: int | None = None, dtype: DType = float32,
                 name: str | None = None) -> None:
        self._keep(seed, dtype, self.dist_type if name is None else name, rate=rate)

    rate = held("_rate_value", "How many events there are in a unit of time.")
