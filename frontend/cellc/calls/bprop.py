"""Cells with a gradient of their own: what their `bprop` gives, in both modes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cellc_compiler.ir.types import differentiable

from ..tensors.tensor import Tensor
from ..tracing.inline import inline
from ..tracing.pytree import Box, Structure, leaves_of, put_together, take_apart, tensors
from ..tracing.tracer import Tracer


def custom_bprop(tracer: Tracer, cell: Any, args: tuple[Any, ...]) -> Any:
    """A Cell with a `bprop`, as a node with a gradient of its own."""
    structure, leaves = take_apart(args)
    shape: list[Structure] = []

    def forward(inputs: list[Tensor]) -> list[Tensor]:
        out = inline(tracer, cell.construct, put_together(structure, inputs), {})
        out_structure, tensors_ = take_apart(out)
        shape.append(out_structure)
        return tensors_

    def backward(
        inputs: list[Tensor], results: list[Tensor], dys: list[Tensor]
    ) -> list[Tensor | None]:
        given = put_together(structure, inputs)
        out, dout = (put_together(shape[-1], t) for t in (results, dys))
        grads = inline(tracer, cell.bprop, (*given, out, dout), {})
        return bprop_grads(cell, grads, structure, len(inputs), inputs)

    results = tracer.custom_gradient(leaves, forward, backward)
    return put_together(shape[-1], results)


def bprop_grads(
    cell: Any, grads: Any, structure: Structure, count: int,
    operands: Sequence[Tensor] | None = None,
) -> list[Tensor | None]:
    """The gradients a `bprop` gave, one for each tensor of the inputs.

    Raises:
        TypeError: not a tuple with one gradient (or None) for each input, or of another dtype
            than the input.
        ValueError: a gradient of another shape than the input.
    """
    assert isinstance(structure, Box)
    given = grads if isinstance(grads, (tuple, list)) else (grads,)
    if len(given) != len(structure.parts):
        raise TypeError(
            f"the bprop of {type(cell).__name__} must give {len(structure.parts)} gradients, one "
            f"for each input of construct, got {len(given)}"
        )
    out: list[Tensor | None] = [None] * count
    for number, (part, grad) in enumerate(zip(structure.parts, given, strict=True)):
        places = [t.number for t in leaves_of(part)]
        values = list(tensors(grad)) if grad is not None else []
        for place, value in zip(places, values, strict=False):
            out[place] = value
            if operands is not None:
                _check_grad(cell, number, value, operands[place])
    return out


def _check_grad(cell: Any, number: int, grad: Tensor, operand: Tensor) -> None:
    what = f"the gradient of input {number} that the bprop of {type(cell).__name__} gives"
    if not differentiable(operand._type):
        return
    if tuple(grad.shape) != tuple(operand.shape):
        raise ValueError(f"{what} must have the shape of the input, {tuple(operand.shape)}, but "
                         f"has {tuple(grad.shape)}")
    if grad.dtype != operand.dtype:
        raise TypeError(f"{what} must have the dtype of the input, {operand.dtype}, but has "
                        f"{grad.dtype}")
