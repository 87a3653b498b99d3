"""Weights that a torch module computes from others whenever it is called: those of `weight_norm`
and `spectral_norm`, in the forms of `torch.nn.utils` and of its `parametrizations`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def with_computed_weights(given: Mapping[str, Array], wanted: Mapping[str, int]
                          ) -> dict[str, Array]:
    """The weights of a file, with those computed that it has in parts, in place of the parts.

    Args:
        wanted: names of weights in torch, with the axis of the outputs: 1 for the weight of a
            transposed convolution, else 0.
    """
    out = dict(given)
    for name, axis in wanted.items():
        if name not in given:
            found = _weight_norm(given, name) or _spectral_norm(given, name, axis)
            if found:
                parts, out[name] = found
                for part in parts:
                    out.pop(part, None)
    return out


def _path(name: str) -> str:
    """Where a parametrized weight keeps its parts."""
    start, _, last = name.rpartition(".")
    return f"{start}.parametrizations.{last}" if start else f"parametrizations.{last}"


def _weight_norm(given: Mapping[str, Array], name: str) -> tuple[tuple[str, ...], Array] | None:
    """g * v / |v|, the norm over all axes that g does not have."""
    path = _path(name)
    for parts in ((f"{name}_g", f"{name}_v"), (f"{path}.original0", f"{path}.original1")):
        if not all(p in given for p in parts):
            continue
        g, v = (given[p] for p in parts)
        if g.size != 1 and (g.ndim != v.ndim or any(
                a not in (1, b) for a, b in zip(g.shape, v.shape, strict=True))):
            continue
        axes = tuple(i for i in range(v.ndim) if g.size == 1 or g.shape[i] == 1)
        norm = np.sqrt(np.sum(np.square(v.astype(np.float64)), axes, keepdims=True))
        whole = g.reshape((1,) * v.ndim) if g.size == 1 else g
        return parts, (v * (whole / norm)).astype(v.dtype)
    return None


def _spectral_norm(given: Mapping[str, Array], name: str, axis: int
                   ) -> tuple[tuple[str, ...], Array] | None:
    """The weight divided by its largest singular value, which u and v approximate."""
    path = _path(name)
    for parts in ((f"{name}_orig", f"{name}_u", f"{name}_v"),
                  (f"{path}.original", f"{path}.0._u", f"{path}.0._v")):
        if not all(p in given for p in parts):
            continue
        whole, u, v = (given[p] for p in parts)
        for a in (axis, *(i for i in range(whole.ndim) if i != axis)):
            if a < whole.ndim and u.size == whole.shape[a] and u.size * v.size == whole.size:
                rows = np.moveaxis(whole, a, 0).reshape(u.size, v.size).astype(np.float64)
                return parts, (whole / (u.reshape(-1) @ rows @ v.reshape(-1))).astype(whole.dtype)
    return None
