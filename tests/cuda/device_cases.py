"""What `on_device.py` times: cases as data, the same for cellc and its peers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
ITEM = {"float32": 4, "bfloat16": 2}


@dataclass(frozen=True)
class Case:
    """A case.

    Attributes:
        name: of its row.
        kind: of work, a name that each library has a function for.
        sizes: what the kind says.
        dtype: of the elements.
        gradient: forward and backward of a weighted sum, with respect to all inputs.
        fast: cellc with `numerics="fast"`, torch with TF32 allowed.
    """

    name: str
    kind: str
    sizes: tuple[int, ...]
    dtype: str = "float32"
    gradient: bool = False
    fast: bool = False

    def small(self) -> Case:
        """The same, so small that an emulator does it."""
        least = {"conv": (1, 4, 6, 6, 4, 3, 1), "attention": (1, 2, 8, 4), "lenet": (2,),
                 "resnet50": (1, 32, 4), "gpt": (1, 6, 16, 8, 1, 2), "launch": (16,)}
        sizes = least.get(self.kind) or tuple(min(n, 24) for n in self.sizes)
        if self.kind == "conv":
            sizes = (*sizes[:5], *self.sizes[5:])
        return replace(self, sizes=sizes)

    def flops(self) -> float:
        """Multiplications and additions that the method itself needs, 0 where bytes decide."""
        s = self.sizes
        if self.kind == "product":
            count = 2.0 * s[0] * s[1] * s[2]
        elif self.kind == "conv":
            n, c, h, w, o, k, stride = s
            count = 2.0 * n * c * o * k * k * (h // stride) * (w // stride)
        elif self.kind == "attention":
            n, heads, t, d = s
            count = 2.0 * n * heads * t * t * d  # two products, half of each is masked
        else:
            return 0.0
        return count * (3.5 if self.kind == "attention" else 3.0) if self.gradient else count

    def nbytes(self) -> float:
        """Bytes that must be read and written once, 0 where arithmetic decides."""
        if self.kind not in ("chain", "softmax", "layernorm"):
            return 0.0
        arrays = 3 if self.gradient else 2  # input, and output or the output's weight and gradient
        return float(arrays * math.prod(self.sizes) * ITEM[self.dtype])


def inputs(case: Case) -> list[Array]:
    """The inputs as float32 (of an index, int32); the last one weights the output of a gradient."""
    rng, s = np.random.default_rng(len(case.name)), case.sizes

    def normal(*shape: int) -> Array:
        return rng.standard_normal(shape, np.float32)

    if case.kind == "product":
        given, out = [normal(s[0], s[1]), normal(s[1], s[2])], (s[0], s[2])
    elif case.kind == "conv":
        n, c, h, w, o, k, stride = s
        given = [normal(n, c, h, w), normal(o, c, k, k) / math.sqrt(c * k * k)]
        out = (n, o, -(-h // stride), -(-w // stride))  # type: ignore[assignment]
    elif case.kind == "attention":
        given, out = [normal(*s) for _ in range(3)], s  # type: ignore[assignment]
    elif case.kind == "layernorm":
        given = [normal(*s), 1 + normal(s[1]) / 8, normal(s[1])]
        out = s  # type: ignore[assignment]
    else:
        given, out = [normal(*s)], s  # type: ignore[assignment]
    return [*given, normal(*out)] if case.gradient else given


_ROWS = (8192, 4096)
_RESNET50 = (
    (32, 3, 224, 224, 64, 7, 2), (32, 64, 56, 56, 64, 1, 1), (32, 64, 56, 56, 64, 3, 1),
    (32, 64, 56, 56, 256, 1, 1), (32, 128, 56, 56, 128, 3, 2), (32, 128, 28, 28, 128, 3, 1),
    (32, 128, 28, 28, 512, 1, 1), (32, 256, 14, 14, 256, 3, 1), (32, 1024, 14, 14, 256, 1, 1),
    (32, 512, 7, 7, 512, 3, 1), (32, 2048, 7, 7, 512, 1, 1),
)  # fmt: skip
"""Batch, channels, height, width, output channels, size and stride."""


def _named(case: Case) -> Case:
    sizes = "x".join(map(str, case.sizes))
    marks = [case.dtype] + ["gradient"] * case.gradient + ["fast"] * case.fast
    return replace(case, name=f"{case.kind} {sizes} {' '.join(marks)}")


def _cases() -> list[Case]:
    found = [Case("", kind, sizes, dtype) for dtype in ITEM for kind, sizes in (
        ("gpt", (8, 512, 8192, 768, 6, 12)), ("resnet50", (32, 224, 1000)))]
    found += [Case("", "lenet", (64,)), Case("", "launch", (16,))]
    for kind in ("chain", "softmax", "layernorm"):
        sizes = (1 << 26,) if kind == "chain" else _ROWS
        found += [Case("", kind, sizes, dtype, gradient)
                  for dtype in ITEM for gradient in (False, True)]
    for n in (8192, 4096, 2048, 1024, 512):
        found += [Case("", "product", (n, n, n), "bfloat16"), Case("", "product", (n, n, n)),
                  Case("", "product", (n, n, n), fast=True)]
    found += [Case("", "attention", (4, 16, 2048, 64), dtype, gradient)
              for dtype in ITEM for gradient in (False, True)]
    found += [Case("", "attention", (4, 16, 2048, 64), dtype, gradient, fast=True)
              for dtype in ITEM for gradient in (False, True)]
    found += [Case("", "conv", s, dtype) for s in _RESNET50 for dtype in ITEM]
    found += [Case("", "conv", s, dtype, gradient=True)
              for s in (_RESNET50[2], _RESNET50[7]) for dtype in ITEM]
    return [_named(c) for c in found]


CASES = {case.name: case for case in _cases()}
