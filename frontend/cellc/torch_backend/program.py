"""A part of a graph of torch that runs as a compiled program over torch's own memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.lazy import lazy_imports, lazy_module

from ..compiled.jit import Jitted
from ..core.lru import LRU
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor, tensor_of
from .network import output_of, run
from .table import dtype_of, hint

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node
with lazy_imports(__name__):
    import torch
interp: Any = lazy_module("torch.utils._sympy.interp")
reference: Any = lazy_module("torch.utils._sympy.reference")

Array = np.ndarray[Any, Any]
_MOST_NUMBERS = 64  # Values of numbers that are no sizes, each with a program of its own


def array_over(t: torch.Tensor) -> Array:
    """An array over the memory of a tensor, or of a copy if its elements lie apart."""
    t = t.detach().resolve_conj().resolve_neg().contiguous()
    half = t.dtype == torch.bfloat16
    found: Array = t.view(torch.int16).numpy() if half else t.numpy()
    return found.view(dtypes.bfloat16.numpy) if half else found


def torch_of(tensor: Tensor) -> torch.Tensor:
    """A tensor of torch over the memory of a result."""
    array = tensor.asnumpy()
    if not array.flags.writeable:
        array = array.copy()
    if tensor.dtype is dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


_changes = attrgetter("_version")
"""torch's count of the changes of a tensor, which has no public name."""


class Weight:
    """A weight of a model that programs hold packed: a copy that follows torch's tensor.

    Attributes:
        parameter: the copy; None before the first call.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.parameter: Parameter | None = None
        self.held: tuple[torch.Tensor, int, int] | None = None

    def follow(self, given: torch.Tensor) -> None:
        """Take the elements if the tensor is another one, or torch has changed it."""
        version = 0 if given.is_inference() else _changes(given)
        held = self.held
        if held is not None and held[0] is given and held[1:] == (given.data_ptr(), version):
            return
        now = tensor_of(array_over(given))
        if self.parameter is None:
            self.parameter = Parameter(now, name=f"weight{self.number}", requires_grad=False)
        else:
            self.parameter.set_data(now)
        self.held = given, given.data_ptr(), version


class Part:
    """A part of a graph.

    Args:
        module: the graph; its arguments are tensors and numbers.
        tell: hears why torch runs the part after all, or why each size has a program of its own.
    """

    def __init__(self, module: GraphModule, tell: Callable[[str], None]) -> None:
        self.module, self.graph, self.tell = module, module.graph, tell
        self.inputs = [n for n in self.graph.nodes if n.op == "placeholder"]
        self.tensors = [i for i, n in enumerate(self.inputs)
                        if isinstance(n.meta["val"], torch.Tensor)]
        self.weights = {i: Weight(i) for i in self.tensors if self.inputs[i].meta.get("weight")
                        and self.inputs[i].meta["val"].is_floating_point()}
        self.tensors = [i for i in self.tensors if i not in self.weights]
        self.symbols = _symbols(self.inputs)
        self.numbers = [i for i, n in enumerate(self.inputs)
                        if not isinstance(n.meta["val"], torch.Tensor)
                        and not self._follows(n.meta["val"])]
        self.is_open = any(isinstance(d, torch.SymInt) for i in self.tensors
                           for d in self.inputs[i].meta["val"].shape)
        self.runs_torch = False
        self.held: list[tuple[torch.Tensor, int, Tensor] | None] = [None] * len(self.inputs)
        self.programs: LRU[tuple[Any, ...], Jitted] = LRU(_MOST_NUMBERS)
        found = output_of(self.graph).args[0]
        self.is_one = not isinstance(found, (list, tuple))
        self.outputs = [found] if self.is_one else list(found)
        self.computed = [i for i, n in enumerate(self.outputs) if hasattr(n, "meta")
                         and n.op == "call_function" and isinstance(n.meta["val"], torch.Tensor)]
        self.orders = {i: _order(self.outputs[i].meta["val"]) for i in self.computed}

    def __call__(self, *args: Any) -> Any:
        """The results for arguments of torch, as the graph has them: one, or a list."""
        if self.runs_torch:
            return self.module(*args)
        tensors = [self.tensor(i, args[i]) for i in self.tensors]
        for i, weight in self.weights.items():
            weight.follow(args[i])
        try:
            found = self._program(args)(*tensors)
        except Exception as e:
            return self._otherwise(args, e)
        given = dict(zip(self.inputs, args, strict=True))
        out = [given.get(n, n) if hasattr(n, "meta") else n for n in self.outputs]
        owned = {id(t) for t in (*tensors, *(w.parameter for w in self.weights.values()))}
        for i, tensor in zip(self.computed, found, strict=True):
            y = torch_of(tensor)
            out[i] = _laid_out(y.clone() if id(tensor) in owned else y, self.orders[i])
        for i, n in enumerate(out):
            if hasattr(n, "meta"):
                out[i] = getattr(self.module, n.target) if n.op == "get_attr" else \
                    self._number(n.meta["val"], [a.shape if isinstance(a, torch.Tensor) else a
                                                 for a in args])
        return out[0] if self.is_one else out

    def _program(self, args: Sequence[Any]) -> Jitted:
        key = tuple(args[i] for i in self.numbers)
        found = self.programs.get(key)
        if found is None:
            signature = self._signature() if self.is_open else None
            found = self.programs[key] = Jitted(self._walk(key), signature)
        return found

    def _otherwise(self, args: Sequence[Any], error: Exception) -> Any:
        """The results where the program cannot be compiled: with one for each size, or by torch."""
        why = str(error).partition("\n")[0] or type(error).__name__
        if self.is_open:
            self.is_open = False
            self.programs.clear()
            self.tell(f"each size has a program of its own: {why}")
            return self(*args)
        self.runs_torch = True
        self.tell(f"torch runs a part of {len(self.graph.nodes)} nodes: {why}")
        return self.module(*args)

    def _walk(self, numbers: tuple[Any, ...]) -> Callable[..., Any]:
        """The function that is compiled: it applies the rules of the nodes."""
        constants = {n: tensor_of(array_over(getattr(self.module, n.target)))
                     for n in self.graph.nodes if n.op == "get_attr"}

        def graph_of_torch(*tensors: Tensor) -> tuple[Tensor, ...]:
            values: dict[Node, Any] = dict(constants)
            values.update((self.inputs[i], t) for i, t in zip(self.tensors, tensors, strict=True))
            values.update((self.inputs[i], w.parameter) for i, w in self.weights.items())
            values.update((self.inputs[i], n) for i, n in zip(self.numbers, numbers, strict=True))
            shapes = [values[n].shape if isinstance(n.meta["val"], torch.Tensor) else None
                      for n in self.inputs]
            for n in self.inputs:
                if n not in values:
                    values[n] = self._number(n.meta["val"], shapes)
            run(self.graph, values)
            return tuple(values[self.outputs[i]] for i in self.computed)

        return graph_of_torch

    def _signature(self) -> tuple[Tensor, ...]:
        """The arguments' types, with None for open sizes."""
        metas = [self.inputs[i].meta["val"] for i in self.tensors]
        return tuple(Tensor(shape=[None if isinstance(d, torch.SymInt) else d for d in m.shape],
                            dtype=dtype_of(m.dtype)) for m in metas)

    def _follows(self, size: Any) -> bool:
        """Whether a number follows from the sizes of the tensors."""
        return isinstance(size, torch.SymInt) and size.node.expr.free_symbols <= {*self.symbols}

    def _number(self, size: Any, shapes: Sequence[Any]) -> Any:
        """A number for the shapes of the arguments."""
        if not isinstance(size, torch.SymInt):
            return size
        values = {s: shapes[i][axis] for s, (i, axis) in self.symbols.items()}
        return interp.sympy_interp(reference.PythonReferenceAnalysis, values, size.node.expr)

    def tensor(self, i: int, given: torch.Tensor) -> Tensor:
        """An argument as a Tensor over the same memory. That of the last call serves again where
        it is the same tensor in the same place: its elements are read in each call."""
        held = self.held[i]
        if held is not None and held[0] is given and held[1] == given.data_ptr() and \
                held[2].shape == given.shape:
            return held[2]
        new = tensor_of(array_over(given))
        if given.is_contiguous():
            self.held[i] = given, given.data_ptr(), new
        return new


def _symbols(inputs: Sequence[Node]) -> dict[Any, tuple[int, int]]:
    """Where torch's symbols of sizes are read: which axis of which argument."""
    out: dict[Any, tuple[int, int]] = {}
    for i, n in enumerate(inputs):
        meta = n.meta["val"]
        for axis, d in enumerate(meta.shape if isinstance(meta, torch.Tensor) else ()):
            if isinstance(d, torch.SymInt) and d.node.expr.is_Symbol:
                out.setdefault(d.node.expr, (i, axis))
    return out


def _order(meta: torch.Tensor) -> tuple[int, ...] | None:
    """The order of axes in memory that torch gives a result; None for that of its shape."""
    strides, shape = [[hint(n) for n in part] for part in (meta.stride(), meta.shape)]
    axes = sorted((i for i in range(meta.dim()) if shape[i] > 1), key=lambda i: -strides[i])
    if axes == sorted(axes) or 0 in (strides[i] for i in axes):
        return None
    rest = [i for i in range(meta.dim()) if shape[i] <= 1]
    return (*rest, *axes)


def _laid_out(x: torch.Tensor, order: tuple[int, ...] | None) -> torch.Tensor:
    """A result with its axes in this order in memory."""
    if order is None:
        return x
    back = sorted(range(x.dim()), key=order.__getitem__)
    return x.permute(order).contiguous().permute(back)
