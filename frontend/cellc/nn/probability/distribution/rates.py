"""The common part of distributions with one rate."""

from __future__ import annotations

from typing import Any

from cellc_runtime.dtypes import DType, float32

from ....tensors.tensor import Tensor
from ..base import Distribution
from ..parameters import need_positive


class OfRate(Distribution):
    """One parameter, `rate`, above 0."""

    def __init__(self, rate: Any = None, seed: int | None = None, dtype: DType = float32,
                 name: str | None = None) -> None:
        name = self.dist_type if name is None else name
        super().__init__(seed, dtype, name, {
            "rate": rate, "seed": seed, "dtype": dtype, "name": name, "param_dict": {"rate": rate}})
        need_positive(self._add_parameter(rate, "rate"), "rate")

    @property
    def rate(self) -> Tensor | None:
        """How many events there are in a unit of time."""
        return self._rate_value
