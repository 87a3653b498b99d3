"""Functions and Cells with a gradient of their own, in both modes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import CO_VARARGS
from types import FunctionType
from typing import Any

from cellc_compiler.ir.types import seedable
from cellc_runtime.errors import counted

from ..core.dispatch import active_tracer, apply
from ..core.module_names import plain
from ..eager.recorder import note_custom, paused
from ..tensors.promotion import cast_to
from ..tensors.tensor import Grads, Tensor, Tensors, ir_type, shared_of
from ..tracing.pytree import Box, Structure, leaves_of, put_together, take_apart, tensors
from ..tracing.tracer import call_here

Rule = Callable[[Tensors, Tensors, Tensors], Grads]
"""(operands, results, cotangents of the results) -> the cotangent of each operand, or None."""


def with_gradient(
    operands: Tensors, forward: Callable[[list[Tensor]], Tensors], rule: Rule, owner: Any = None
) -> list[Tensor]:
    """`forward(operands)`, whose gradient is what `rule` gives, in the mode at hand.

    Args:
        operands, forward, rule: see above.
        owner: the user's class, object or function that has the rule, for verification.
    """
    tracer = active_tracer()
    if tracer is not None:
        return tracer.custom_gradient(operands, forward, rule, **described(owner))
    with paused():
        # A result that is an operand needs an identity of its own to be followed.
        results = [shared_of(t) if any(t is x for x in operands) else t
                   for t in forward(list(operands))]
    note_custom(operands, results, rule)
    return results


def described(owner: Any) -> dict[str, Any]:
    """The attributes of a `custom_grad` node that say whose rule it has."""
    if owner is None:
        return {}
    kind = owner if isinstance(owner, type) else type(owner)
    name = getattr(kind if kind is not FunctionType else owner, "__name__", kind.__name__)
    # (Attributes are looked up without a `__getattr__` of the user's.)
    spaces = [*(vars(k) for k in (kind.__mro__)), plain(owner, "__dict__", {})]
    declared = [s["bprop_differs"] for s in (spaces[-1], *spaces) if "bprop_differs" in s]
    return {"rule": name, "differs": bool(declared and declared[0])}


def call_with_bprop(
    cell: Any, args: tuple[Any, ...], around: Callable[[Any, Rule, Tensors, Tensors, Tensors],
                                                       Grads] | None = None,
) -> Any:
    """A call of a Cell with a `bprop`, which gives its gradient. `around`: calls the rule of the
    Cell (default: it is called as it is)."""
    structure, leaves = take_apart(args)
    shape: list[Structure] = []

    def forward(inputs: list[Tensor]) -> list[Tensor]:
        given = args if active_tracer() is None else put_together(structure, inputs)
        out_structure, results = take_apart(call_here(cell.construct, given))
        shape.append(out_structure)
        return results

    def rule(inputs: Tensors, results: Tensors, dys: Tensors) -> list[Tensor | None]:
        given = put_together(structure, inputs)
        out, dout = (put_together(shape[-1], t) for t in (results, dys))
        check_bprop(cell, len(given))
        grads = call_here(cell.bprop, (*given, out, dout))
        return bprop_grads(cell, grads, structure, len(inputs), inputs)

    results = with_gradient(
        leaves, forward, rule if around is None else partial(around, cell, rule), cell)
    return put_together(shape[-1], results)


def check_bprop(cell: Any, inputs: int) -> None:
    """Check that a `bprop` takes the inputs, the output and its gradient.

    Raises:
        TypeError: it takes more or fewer arguments.
    """
    bound = cell.bprop
    fn = plain(bound, "__func__", bound)
    if type(fn) is not FunctionType or fn.__code__.co_flags & CO_VARARGS:
        return
    most = fn.__code__.co_argcount - (fn is not bound)
    if most - len(fn.__defaults__ or ()) <= inputs + 2 <= most:
        return
    took = f"the bprop of {type(cell).__name__} takes {counted(most, 'argument')}"
    if most < 2:
        raise TypeError("The function 'bprop' of Primitive or Cell requires at least 2 params "
                        f"'out' and 'dout', but got only {most}: {took}, and gets {inputs + 2}.")
    raise TypeError("The params of function 'bprop' of Primitive or Cell requires the forward "
                    f"inputs as well as the 'out' and 'dout'. Here {took}, and gets {inputs + 2}.")


class custom_vjp:
    """A function with a gradient of its own, which `defbwd` sets.

    Args:
        fn: the function, of positional arguments.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.construct = fn
        self.bprop: Callable[..., Any] | None = None

    def defbwd(self, bwd: Callable[..., Any]) -> None:
        """Set the gradient. `bwd`: called with the inputs, the output and its gradient; gives a
        tuple with the gradient of each input."""
        self.bprop = bwd

    def __call__(self, *args: Any) -> Any:
        """The function's output."""
        return self.construct(*args) if self.bprop is None else call_with_bprop(self, args)


def bprop_grads(
    cell: Any, grads: Any, structure: Structure, count: int, operands: Tensors
) -> list[Tensor | None]:
    """The gradients a `bprop` gave, one for each tensor of the inputs."""
    assert isinstance(structure, Box)
    given = grads if isinstance(grads, (tuple, list)) else (grads,)
    if len(given) != len(structure.parts):
        raise TypeError(
            f"the bprop of {type(cell).__name__} must give "
            f"{counted(len(structure.parts), 'gradient')}, one for each input of construct, got "
            f"{len(given)}"
        )
    out: list[Tensor | None] = [None] * count
    for number, (part, grad) in enumerate(zip(structure.parts, given, strict=True)):
        what = f"the gradient of input {number} that the bprop of {type(cell).__name__} gives"
        places = [t.number for t in leaves_of(part)]
        if isinstance(grad, (int, float)) and grad and places:
            raise TypeError(f"{what} must be a Tensor, but is {grad!r}")
        for place, value in zip(places, tensors(grad), strict=False):
            operand = operands[place]
            if seedable(ir_type(operand)):
                out[place] = value = fitted(value, operand)
                check_like(what, value, operand, "the input")
    return out


def fitted(grad: Tensor, operand: Tensor) -> Tensor:
    """The gradient of an operand from that of what it was broadcast to: summed over the repeated
    axes, in the operand's dtype. One of a shape that the operand has in no broadcast stays."""
    shape, own = tuple(grad.shape), tuple(operand.shape)
    lead = len(shape) - len(own)
    if shape != own and lead >= 0 and all(
            n in (1, full) for n, full in zip(own, shape[lead:], strict=True)):
        axes = tuple(i for i in range(len(shape)) if i < lead or own[i - lead] != shape[i])
        grad = apply("reshape", apply("reduce_sum", grad, axes=axes, keepdims=False), shape=own)
    return cast_to(grad, operand.dtype)


def check_like(what: str, given: Tensor, like: Tensor, whose: str, end: str = "") -> None:
    """Compare types.

    Args:
        end: of the message.
    """
    if tuple(given.shape) != tuple(like.shape):
        raise ValueError(f"{what} must have the shape of {whose}, {tuple(like.shape)}, but has "
                         f"{tuple(given.shape)}{end}")
    if given.dtype != like.dtype:
        raise TypeError(f"{what} must have the dtype of {whose}, {like.dtype}, but has "
                        f"{given.dtype}{end}")
