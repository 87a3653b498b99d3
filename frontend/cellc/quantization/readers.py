"""Layers from files of other tools: GPTQ's and AWQ's packed weights.

Both hold for a layer `scales` (groups, out) and ints in 32-bit words, the first in the low bits:

======  =====================================  =====================================================
        GPTQ                                   AWQ
======  =====================================  =====================================================
qweight (in / p, out), p = 32 / bits steps     (in, out / 8), the columns 0, 2, 4, 6, 1, 3, 5, 7 of
        of an input in a word                  each eight in a word
qzeros  (groups, out / p), less 1 (not in v2)  (groups, out / 8), in the same order
g_idx   (in): the group of each input          none: groups follow one another
======  =====================================  =====================================================

Source: Frantar et al., "GPTQ", 2022, as AutoGPTQ writes it; Lin et al., "AWQ", 2023, as AutoAWQ
does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import numpy as np

from cellc_runtime import checkpoint

from ..core.declared import checks_arguments, instance, misuse, one_of
from ..nn.cell import Cell
from ..nn.cell.attributes import replace_cells
from ..nn.layer.basic import Dense, Linear
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor
from .layers import SmallDense
from .network import prefix_of
from .weights import MIDDLE, Array, Kind, SmallWeight

_AWQ = (0, 2, 4, 6, 1, 3, 5, 7)
_PARTS = ("qweight", "qzeros", "scales", "g_idx", "bias")


@checks_arguments
def load_quantized(
    network: Annotated[Any, instance(Cell)], source: Any, *,
    names: Callable[[str], str] | None = None,
    format: Annotated[str, one_of("auto", "gptq", "gptq_v2", "awq")] = "auto",
) -> list[str]:
    """Read layers in four or eight bits, as AutoGPTQ and AutoAWQ write them, into a network.

    Args:
        network: a Cell. Each `Dense` and `Linear` that the source has is replaced by a
            `SmallDense`, in place.
        source: the path of a safetensors file, or arrays by name.
        names: gives the name that a layer has in the source, from its own (`cells_and_names`);
            that is its own by default.
        format: how zeros are stored, by `"gptq"` less one, and `"gptq_v2"` as they are; `"auto"`
            tells GPTQ and AWQ apart by shapes and takes zeros of GPTQ as less one.

    Returns:
        The names in the source that no layer has taken: embeddings, norms and the like.

    Raises:
        ValueError: a layer whose sizes contradict the network, groups that are not read, scales
            that are no finite numbers; a source none of whose layers the network has.
        OSError: the file cannot be read.
    """
    arrays: Mapping[str, Array] = source if isinstance(source, Mapping) else checkpoint.load(
        os.fspath(source))
    left, made = dict.fromkeys(arrays), {}
    for name, cell in network.cells_and_names():
        there = name if names is None else names(name)
        if type(cell) not in (Dense, Linear) or f"{there}.qweight" not in arrays:
            continue
        parts = {part: np.asarray(arrays[full]) for part in _PARTS
                 if (full := f"{there}.{part}") in arrays}
        for part in parts:
            del left[f"{there}.{part}"]
        made[id(cell)] = _layer(cell, there, parts, format)
    unmatched = [n for n in left if n.endswith(".qweight")]
    if not made or unmatched:
        raise misuse("load_quantized", "each layer in few bits must be a Dense or Linear of the "
                     "network under its name, or that which 'names' gives",
                     ", ".join(unmatched[:3]) or "no such layer")
    for _, owner in [*network.cells_and_names()]:
        replace_cells(owner, made)
    return list(left)


def _layer(cell: Any, name: str, parts: Mapping[str, Array], format: str) -> Cell:
    n, k = cell.weight.shape
    weight = packed_weight(name, parts, n, k, format)
    prefix, bias = prefix_of(cell.weight), parts.get("bias")
    if (bias is None) != (cell.bias is None) or (bias is not None and bias.shape != (n,)):
        raise misuse("load_quantized", f"{name + '.bias'!r} must be "
                     + ("left out, as the layer has none" if cell.bias is None else f"({n},)"),
                     "none" if bias is None else bias.shape)
    held = None if bias is None else Parameter(
        Tensor(bias.astype(cell.weight.dtype.numpy)), prefix + "bias")
    return SmallDense(weight, held, getattr(cell, "activation", None), prefix).set_train(
        cell.training)


def packed_weight(
    name: str, parts: Mapping[str, Array], n: int, k: int, format: str = "auto"
) -> SmallWeight:
    """The matrix (n, k) of a layer from its packed parts."""
    scales, words = _part(name, parts, "scales"), _part(name, parts, "qweight")
    if scales.ndim != 2 or scales.shape[1] != n or words.ndim != 2:
        raise _wrong(name, "scales", f"(groups, {n})", scales.shape)
    bits = 32 * words.shape[0] // k
    if format != "awq" and words.shape == (k * bits // 32, n) and bits in (4, 8):
        q = unpacked(words.T, bits)  # (n, k)
        zeros = unpacked(_part(name, parts, "qzeros"), bits).astype(np.int16).T
        zeros = zeros + (format != "gptq_v2")
    elif format in ("auto", "awq") and words.shape == (k, n // 8) and n % 8 == 0:
        bits, places = 4, np.argsort(_AWQ)
        q, zeros = (unpacked(w, 4).reshape(len(w), -1, 8)[:, :, places].reshape(len(w), -1).T
                    for w in (words, _part(name, parts, "qzeros")))
    else:
        raise _wrong(name, "qweight", f"{k} x {n} (inputs x outputs) of 4 or 8 bits in 32-bit "
                     "words", f"{words.dtype.name} {words.shape}")
    groups = scales.shape[0]
    if zeros.shape != (n, groups):
        raise _wrong(name, "qzeros", f"{groups} groups of {n}, as scales are", zeros.shape[::-1])
    group, order = _groups(name, parts.get("g_idx"), groups, k)
    scales = scales.T.astype(np.float16 if scales.dtype == np.float16 else np.float32)
    if not np.isfinite(scales).all():
        raise _wrong(name, "scales", "finite", "NaN or infinity")
    kind: Kind = "int4" if bits == 4 else "int8"
    shift = 0 if bits == 4 else 128
    values = q if bits == 4 else (q.astype(np.int16) - shift).astype(np.int8)
    if order is not None:
        values = values[:, order]
    return SmallWeight(kind, values, scales, _zeros(zeros.astype(np.int16) - shift, kind), group,
                       order)


def _part(name: str, parts: Mapping[str, Array], part: str) -> Array:
    if part not in parts:
        raise _wrong(name, part, "there, beside its qweight", "no such array")
    return parts[part]


def _wrong(name: str, part: str, wanted: str, got: Any) -> Exception:
    return misuse("load_quantized", f"{f'{name}.{part}'!r} must be {wanted}", got)


def unpacked(words: Array, bits: int) -> Array:
    """The ints in the last axis of 32-bit words, the low bits first; uint8."""
    wide = np.ascontiguousarray(words).astype(np.int32).view(np.uint32)[..., None]
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    parts = wide >> shifts & np.uint32((1 << bits) - 1)
    out: Array = parts.astype(np.uint8).reshape(*words.shape[:-1], -1)
    return out


def _zeros(zeros: Array, kind: Kind) -> Array | None:
    """Zero points in the smallest type that has them; None if all are those of symmetric ints."""
    if (zeros == MIDDLE[kind]).all():
        return None
    element = np.uint8 if kind == "int4" else np.int8
    fits = zeros.min() >= np.iinfo(element).min and zeros.max() <= np.iinfo(element).max
    return zeros.astype(element if fits else np.float32)


def _groups(
    name: str, index: Array | None, groups: int, k: int
) -> tuple[int, Array | None]:
    """Steps of a group, and the order of inputs that puts those of a group together."""
    size = -(-k // groups)
    if groups > 1 and size % 32:
        raise _wrong(name, "scales", "of groups of a multiple of 32 inputs",
                     f"{groups} groups of {k} inputs")
    if index is None or (index == np.arange(k) // size).all():
        return (size if groups > 1 else 0), None
    order = np.argsort(index, kind="stable").astype(np.int32)
    if index.shape != (k,) or (index[order] != np.arange(k) // size).any():
        raise _wrong(name, "g_idx", f"{groups} groups of {size} inputs each", f"other groups of "
                     f"{index.shape}")
    return (size if groups > 1 else 0), order
