"""Primitives that call Python: PyFunc, Print, and hooks on gradients.

Source: the same names in `mindspore.ops`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...calls.hooks import is_compiled, on_host, replaced, taps, written
from ...compiled.inline import call_here
from ...core.declared import FUNCTION, misuse
from ...tensors.tensor import Tensor
from ..functional.host import call_python, plain_function, print_, result_types
from ..primitive import Primitive


class PyFunc(Primitive):
    """Call a Python function with declared types; see `ops.py_func`.

    Args:
        fn: called with a numpy array for each input; gives arrays or numbers.
        in_types, in_shapes: of the inputs.
        out_types, out_shapes: of the results.
        stateful: accepted; every call is kept, in the order of the program.

    Inputs: Tensors, or one tuple of them. Outputs: a tuple of Tensors.
    """

    def __init__(
        self, fn: Callable[..., Any], in_types: Any, in_shapes: Any, out_types: Any,
        out_shapes: Any, stateful: bool = True,
    ) -> None:
        self.name = "PyFunc"
        self.fn = plain_function("PyFunc", fn)
        self.declared = [(tuple(s), t) for s, t in zip(in_shapes, in_types, strict=True)]
        self.attrs = {"in_types": in_types, "in_shapes": in_shapes, "out_types": out_types,
                      "out_shapes": out_shapes, "stateful": stateful}
        shapes = tuple(tuple(s) for s in out_shapes)
        self.types = result_types("PyFunc", shapes, tuple(out_types))[1] if shapes else []

    def __call__(self, *operands: Any, **kwargs: Any) -> Any:
        given = operands[0] if len(operands) == 1 and isinstance(operands[0], (tuple, list)) \
            else operands
        found = [(t.shape, t.dtype) if isinstance(t, Tensor) else type(t).__name__ for t in given]
        if found != self.declared:
            raise misuse("PyFunc", f"the inputs are declared as {self.declared}", found, TypeError)
        return call_python("PyFunc", self.fn, tuple(given), False, self.types) or ()


class Print(Primitive):
    """Print its operands when the network runs, in the order of the program; in a compiled graph,
    too. Tensors show their elements."""

    def __init__(self) -> None:
        self.name, self.attrs = "Print", {}

    def __call__(self, *operands: Any, **kwargs: Any) -> Any:
        return print_(*operands)


class HookBackward(Primitive):
    """A Tensor whose gradient passes through a Python function.

     In a compiled function it is called back.

    Args:
        hook_fn: called with a tuple of the gradient; gives None or the new gradient.
        cell_id: accepted and not used.
    """

    def __init__(self, hook_fn: Callable[..., Any], cell_id: str = "") -> None:
        FUNCTION(hook_fn, "HookBackward", "hook_fn")
        self.name, self.attrs = "HookBackward", {"cell_id": cell_id}
        self.hook = written(hook_fn)

    def __call__(self, *operands: Any, **kwargs: Any) -> Any:
        if not all(isinstance(t, Tensor) for t in operands):
            raise misuse("HookBackward", "the input must be a Tensor", kind=TypeError)

        def call(*grads: Tensor) -> Sequence[Tensor]:
            return [replaced(self.hook, g, (g,)) for g in grads]

        if is_compiled(self.hook):
            out = taps(operands, lambda dys: call(*dys))
        else:
            out = taps(operands, lambda dys: on_host(call, "HookBackward", dys))
        return out[0] if len(out) == 1 else tuple(out)


class InsertGradientOf(Primitive):
    """A Tensor whose gradient passes through a function, compiled in graph mode.

    Args:
        f: called with the gradient; gives the new one.
    """

    def __init__(self, f: Callable[..., Any]) -> None:
        FUNCTION(f, "InsertGradientOf", "f")
        self.name, self.attrs, self.f = "InsertGradientOf", {}, f

    def __call__(self, *operands: Any, **kwargs: Any) -> Any:
        (x,) = operands
        if not isinstance(x, Tensor):
            return x
        return taps([x], lambda dys: [
            replaced(lambda g: call_here(self.f, (g,)), dys[0], dys[0])
        ])[0]


__all__ = ["HookBackward", "InsertGradientOf", "Print", "PyFunc"]
