"""Convolutions and pooling with PyTorch's parameters; a batch axis may be left out.

Source: the functions of the same names in `mindspore.mint.nn.functional`.
"""

from __future__ import annotations

from typing import Any

from ... import ops
from ...core.declared import misuse
from ...ops.arguments import ints, is_int, tensor
from ...tensors.tensor import Tensor


def _batch(input: Any, spatial: int, what: str) -> tuple[Tensor, bool]:
    """The input with a batch axis, and whether it had to be added."""
    if tensor(input, what).ndim not in (spatial + 1, spatial + 2):
        raise misuse(what, f"'input' must have {spatial + 1} or {spatial + 2} axes, but has shape "
                     f"{input.shape}")
    added = input.ndim == spatial + 1
    return (ops.unsqueeze(input, 0) if added else input), added


def _padding(padding: Any, stride: Any, what: str) -> tuple[str, Any]:
    """MindSpore's mode and amount of a padding."""
    if not isinstance(padding, str):
        given = (padding,) if is_int(padding) else ints(padding, what, "padding")
        if any(p < 0 for p in given):
            raise misuse(what, "'padding' must be non-negative", padding)
        return "pad", padding
    if padding not in ("same", "valid"):
        raise misuse(what, "'padding' must be ints, 'same' or 'valid'", repr(padding))
    steps = (stride,) if is_int(stride) else ints(stride, what, "stride")
    if padding == "same" and any(s != 1 for s in steps):
        raise misuse(what, "padding 'same' needs a stride of 1", stride)
    return padding, 0


def _convolution(function: Any, spatial: int, what: str) -> Any:
    def call(
        input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1,
    ) -> Tensor:
        x, added = _batch(input, spatial, what)
        mode, pads = _padding(padding, stride, what)
        if mode == "pad" and not is_int(pads):
            pads = tuple(pads)
            if len(pads) not in (1, spatial):
                raise misuse(what, f"'padding' must be an int or {spatial} ints", pads)
        out = function(x, weight, bias, stride, mode, pads, dilation, groups)
        return ops.squeeze(out, 0) if added else out

    call.__name__ = call.__qualname__ = what
    call.__doc__ = f"""{spatial}-D convolution. Source: `mindspore.mint.nn.functional.{what}`.

    Args:
        input: (N, C, spatial...), or without N.
        weight: (O, C / groups, kernel...).
        bias: (O), added to every position.
        stride, dilation: an int, or one for each axis.
        padding: zeros on both sides of each axis; `"valid"` (none) or `"same"` (as many as keep
            the size; the stride must be 1).
        groups: groups of channels convolved apart.

    Raises:
        TypeError, ValueError: shapes or options that do not fit.
    """
    return call


conv1d = _convolution(ops.conv1d, 1, "conv1d")
conv2d = _convolution(ops.conv2d, 2, "conv2d")
conv3d = _convolution(ops.conv3d, 3, "conv3d")


def conv_transpose2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
    padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Tensor:
    """The adjoint of `conv2d`.

    Args:
        input: (N, C, H, W) or (C, H, W).
        weight: (C, O / groups, kH, kW).
        bias: (O), added to every position.
        stride, padding, dilation: rows and columns.
        output_padding: rows and columns added at one end; below the stride or the dilation.
        groups: groups of channels convolved apart.
    """
    what = "conv_transpose2d"
    x, added = _batch(input, 2, what)
    extra, steps, gaps = (
        (v, v) if is_int(v) else ints(v, what, name) for v, name in
        ((output_padding, "output_padding"), (stride, "stride"), (dilation, "dilation")))
    for e, s, g in zip(extra, steps, gaps, strict=False):
        if e < 0 or (e >= s and e >= g):
            raise misuse(what, "'output_padding' must be non-negative and below the stride "
                         f"{stride} or the dilation {dilation}", output_padding)
    _padding(padding, stride, what)
    out = ops.conv_transpose2d(x, weight, bias, stride, padding, output_padding, groups, dilation)
    return ops.squeeze(out, 0) if added else out


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """1-D convolution of (T, N, C) with weights (k, C, O).

    Args:
        bias: (O).
        pad: zeros at both ends of the axis of T.
    """
    out = conv1d(ops.permute(input, (1, 2, 0)), ops.permute(weight, (2, 1, 0)), bias, 1, pad)
    return ops.permute(out, (2, 0, 1))


# --- pooling --------------------------------------------------------------------------------------


def adaptive_max_pool1d(
    input: Tensor, output_size: Any, return_indices: bool = False
) -> Any:
    """Maxima of windows that divide (N, C, L) or (C, L) evenly; with their positions if asked."""
    x, added = _batch(input, 1, "adaptive_max_pool1d")
    size = output_size if is_int(output_size) else output_size[0]
    out = ops.adaptive_max_pool2d(ops.unsqueeze(x, 2), (1, size), return_indices)
    drop = (0, 2) if added else 2
    if return_indices:
        return ops.squeeze(out[0], drop), ops.squeeze(out[1], drop)
    return ops.squeeze(out, drop)
