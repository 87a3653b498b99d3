"""Functions of the user with a gradient of their own, as classes (`Function`), in both modes."""

from __future__ import annotations

from typing import Any

from cellc_compiler.ir.types import differentiable, seedable
from cellc_runtime.errors import counted

from ..calls.bprop import fitted, with_gradient
from ..compiled.inline import call_here
from ..core.dispatch import active_tracer, apply
from ..eager.recorder import active_recordings
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor, Tensors, ir_type
from ..tracing.pytree import Box, Known, Structure, put_together, take_apart
from ..tracing.tracer import GraphTensor


class FunctionContext:
    """Data that `forward` and `backward` of a `Function` share (`ctx`); it takes any attribute."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        # for each argument, whether its gradient may be requested
        self.needs_input_grad = needs_input_grad
        self.materialize_grads = True  # recorded; a cotangent that nothing contributed to is zeros
        self._saved: tuple[Any, ...] = ()
        self._constant: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors for `backward`, which finds them as `saved_tensors`."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(f"save_for_backward takes Tensors, but got {type(t).__name__}: set "
                                f"it as an attribute of ctx instead")
        self._saved = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The arguments of `save_for_backward`."""
        return self._saved

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """No gradient passes through these outputs."""
        self._constant = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        """Arguments that `forward` changes in place: recorded, as values are never shared here."""

    def set_materialize_grads(self, value: bool) -> None:
        """Recorded: cotangents are always tensors here."""
        self.materialize_grads = value


class Function:
    """A function with a gradient of its own: subclass it, call `apply`.

    Give the static methods `forward(ctx, *args)` and `backward(ctx, *grads)`, or
    `forward(*args)`, `setup_context(ctx, inputs, output)` and `backward`. `backward` takes a
    cotangent for each output and gives one (or None) for each argument. Arguments, outputs and
    what else is saved take part in second derivatives if they are arguments or outputs; through
    other saved values no gradient passes.

    Source: `mindspore.common._Function` (there PyNative only; here in both modes).
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The value. The subclass gives it (else NotImplementedError)."""
        raise NotImplementedError("forward function should be customized: a static method "
                                  "forward(ctx, *args) of the subclass of _Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Save what `backward` needs, if `forward` takes no ctx."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Cotangents of the arguments. The subclass gives them (else NotImplementedError)."""
        raise NotImplementedError("backward function should be customized: a static method "
                                  "backward(ctx, *grads) of the subclass of _Function.")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Call the function.

        Raises:
            RuntimeError: `backward` gives another number of gradients than there are arguments,
                or one of another shape.
        """
        return _Call(cls, args).run()


class _Call:
    """One call of a `Function`."""

    def __init__(self, cls: type[Function], args: tuple[Any, ...]) -> None:
        self.cls = cls
        self.args = args
        self.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        self.operands: list[Tensor] = [args[i] for i in self.places]
        self.ctx = FunctionContext(tuple(_needed(a) for a in args))
        self.out: Structure = Known(None)
        self.count = 0
        self.constant: list[int] = []
        self.saved: list[tuple[str, Any]] = []

    def run(self) -> Any:
        """The outputs."""
        results = with_gradient(self.operands, self.forward, self.backward, self.cls)
        shown = [apply("stop_gradient", t) if i in self.constant else t
                 for i, t in enumerate(results[: self.count])]
        return put_together(self.out, shown)

    def forward(self, operands: list[Tensor]) -> list[Tensor]:
        """The tensors of the outputs, then what else is saved."""
        args = list(self.args)
        for place, t in zip(self.places, operands, strict=True):
            args[place] = t
        if self.cls.setup_context is not Function.setup_context:
            out = call_here(self.cls.forward, args)
            call_here(self.cls.setup_context, (self.ctx, tuple(args), out))
        else:
            out = call_here(self.cls.forward, (self.ctx, *args))
        self.out, tensors = take_apart(out)
        self.count = len(tensors)
        self.constant = [i for i, t in enumerate(tensors)
                         if any(_same(t, c) for c in self.ctx._constant)]
        extra: list[Tensor] = []
        self.saved = [_origin(t, operands, tensors, extra) for t in self.ctx._saved]
        return [*tensors, *extra]

    def backward(self, operands: Tensors, results: Tensors, dys: Tensors) -> list[Tensor | None]:
        """Cotangents of the operands."""
        kept = {"operand": operands, "result": results}
        self.ctx._saved = tuple(kept[kind][x] if kind in kept else x for kind, x in self.saved)
        given = put_together(self.out, list(dys[: self.count]))
        parts = self.out.parts if isinstance(self.out, Box) and self.out.kind in (tuple, list) \
            else None
        if parts is None:
            cotangents: tuple[Any, ...] = (given,)
        else:
            cotangents = tuple(None if isinstance(p, Known) else g
                               for p, g in zip(parts, given, strict=True))
        grads = call_here(self.cls.backward, (self.ctx, *cotangents))
        return self._checked(grads, operands)

    def _checked(self, grads: Any, operands: Tensors) -> list[Tensor | None]:
        many = list(grads) if isinstance(grads, (tuple, list)) else [grads]
        name, count = f"the backward of {self.cls.__name__}", len(self.args)
        while len(many) > count and many[-1] is None:
            many.pop()
        if len(many) != count:
            raise RuntimeError(f"{name} must give {counted(count, 'gradient')}, one for each "
                               f"argument of forward, but gave {len(many)}")
        by_place = dict(zip(self.places, operands, strict=True))
        for i, grad in enumerate(many):
            if grad is None:
                continue
            if i not in by_place:
                raise RuntimeError(f"{name}: argument {i} is no tensor, so its gradient must be "
                                   f"None, but got {type(grad).__name__}")
            if not isinstance(grad, Tensor):
                raise RuntimeError(f"{name}: the gradient of argument {i} must be a Tensor or "
                                   f"None, but got {type(grad).__name__}")
            operand = by_place[i]
            if not seedable(ir_type(operand)):
                many[i] = None
                continue
            many[i] = grad = fitted(grad, operand)
            if tuple(grad.shape) != tuple(operand.shape):
                raise RuntimeError(f"{name}: the gradient of argument {i} must have its shape, "
                                   f"{tuple(operand.shape)}, but has {tuple(grad.shape)}")
        return [many[i] for i in self.places]


def _needed(value: Any) -> bool:
    if not isinstance(value, Tensor) or not differentiable(ir_type(value)):
        return False
    if isinstance(value, GraphTensor):
        return True
    return any(r.value_of(value) is not None for r in active_recordings())


def _same(a: Tensor, b: Any) -> bool:
    if isinstance(a, GraphTensor) and isinstance(b, GraphTensor):
        return a.ir_value is b.ir_value
    return a is b


def _origin(t: Any, operands: Tensors, results: Tensors, extra: list[Tensor]) -> tuple[str, Any]:
    """Return the origin of a saved value: an operand, a result (`extra` grows), or known."""
    for kind, many in (("operand", operands), ("result", results)):
        for i, other in enumerate(many):
            if t is not None and _same(other, t):
                return kind, i
    if t is None or isinstance(t, Parameter) or (
        active_tracer() is not None and not isinstance(t, GraphTensor)
    ):
        return "known", t
    extra.append(t)
    return "result", len(results) + len(extra) - 1
