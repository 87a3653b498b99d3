"""A `bprop` of the user's in a graph: interpreted, or run by Python where it needs Python.

A part that Python runs (`x.asnumpy()`) must give something while the network is compiled, so that
what follows can be compiled for it. In a `bprop` it cannot: the gradient of the output is known
only once the program runs. Then the network is traced again, and Python runs the whole `bprop`,
whose results have the types of the inputs.

Python must find there what it would find in PyNative. So it remains an error where the function
that is differentiated assigns a Parameter of the Cell, whose new value only the program has, and
where the `bprop` may change Python objects that code after the gradient reads.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator
from functools import partial
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..calls.bprop import Rule
from ..core.module_names import plain
from ..tensors.parameter import Parameter
from ..tensors.tensor import Grads, Tensor, Tensors, ir_type, tensor_of
from .errors import CompileError
from .outcome import Diverged

if TYPE_CHECKING:
    from .frames import Frame
    from .interpreter import Interpreter


class _Site:
    """A Cell whose `bprop` Python is to run, and the error without that."""

    def __init__(self, cell: Any, error: CompileError) -> None:
        self.cell, self.error = cell, error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Site) and other.cell is self.cell

    def __hash__(self) -> int:
        return id(self.cell)


def call_own_gradient(
    vm: Interpreter, frame: Frame, cell: Any, rule: Rule, inputs: Tensors, results: Tensors,
    dys: Tensors,
) -> Grads:
    """The gradients of a Cell's inputs by its `bprop`.

    Args:
        rule: calls the `bprop` in the mode at hand.

    Raises:
        CompileError: the `bprop` cannot be compiled, and Python would not find there what it finds
            in PyNative.
    """
    site = next((s for s in vm.state.asked if type(s) is _Site and s.cell is cell), None)
    if site is None or vm.pieces is None:
        return _interpreted(vm, frame, cell, partial(rule, inputs, results, dys))
    within = any(region.graph.name == "grad" for region in vm.tracer.regions)
    if within and not vm.tracer.ends_with_gradient and _may_change(cell.bprop):
        raise site.error
    owned = [*cell.get_parameters(), *_read_directly(cell.bprop)]
    vm.tracer.by_python.append((owned, site.error))
    for region in vm.tracer.regions:
        vm.tracer.refuse_assigned(region.assigned)
    n, k = len(inputs), len(inputs) + len(results)

    def by_python(*given: Tensor) -> tuple[Tensor, ...]:
        grads = rule(given[:n], given[n:k], given[k:])
        return tuple(tensor_of(np.zeros(x.shape, x.dtype.numpy)) if g is None else g
                     for g, x in zip(grads, given[:n], strict=True))

    found = vm.pieces.emit(vm, f"the bprop of {type(cell).__name__}", by_python,
                           [*inputs, *results, *dys], frame, gives=[ir_type(t) for t in inputs])
    return list(found)


def _interpreted(vm: Interpreter, frame: Frame, cell: Any, run: Callable[[], Grads]) -> Grads:
    """The gradients in the graph. Raises CompileError, with a `site` if Python can run it all."""
    try:
        return run()
    except Diverged:  # the call does not get here, so a part that Python runs gives nothing
        error = vm.error(
            "CE310", TypeError, f"the bprop of {type(cell).__name__} raises on every path, or "
            "needs Python for values that are not known while compiling", vm.frame or frame)
        error.not_ahead = True
    except CompileError as e:
        error = e
    if error.not_ahead:
        error.hint = "use ops in the bprop, which the graph can hold"
        if vm.pieces is not None and vm.pieces.run is not None:
            error.site = _Site(cell, error)
    raise error


_STORES = frozenset(("STORE_ATTR", "DELETE_ATTR", "STORE_SUBSCR", "DELETE_SUBSCR", "STORE_GLOBAL",
                     "DELETE_GLOBAL"))


def _may_change(bprop: Any) -> bool:
    """Whether a `bprop` stores into an object, or calls something and drops the result."""
    function = plain(bprop, "__func__", bprop)
    return type(function) is not FunctionType or any(map(_stores, _codes(function.__code__)))


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def _stores(code: CodeType) -> bool:
    before = ""
    for step in dis.get_instructions(code):
        if step.opname in _STORES or (step.opname == "POP_TOP" and before.startswith("CALL")) or \
                (step.opname == "STORE_DEREF" and step.argval in code.co_freevars):
            return True
        before = step.opname
    return False


def _read_directly(bprop: Any) -> list[Parameter]:
    """The Parameters among the globals and closure cells that a `bprop` names."""
    function = plain(bprop, "__func__", bprop)
    if type(function) is not FunctionType:
        return []
    named = [function.__globals__.get(n) for c in _codes(function.__code__) for n in c.co_names]
    for cell in function.__closure__ or ():
        try:
            named.append(cell.cell_contents)
        except ValueError:  # nothing is in it yet
            continue
    return [v for v in named if isinstance(v, Parameter)]
