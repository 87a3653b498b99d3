"""Networks as ONNX models: what `export(..., file_format="ONNX")` and `cellc export` write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from cellc_compiler.ir.dims import symbols_of
from cellc_compiler.ir.shapes import Guard, Shapes
from cellc_compiler.ir.types import TensorType
from cellc_compiler.onnx_export import Model, to_model
from cellc_runtime.records import replace

from ..compiled.dynamic import Axes, Dynamic, make_pattern, parameter_names
from ..compiled.traced import Traced, trace
from ..lang.errors import CompileError
from ..tensors.symbol import Described
from ..tensors.tensor import OpenTensor, Tensor, ir_type
from ..tracing.pytree import Box, Leaf, Structure, take_apart_call

Array = np.ndarray[Any, Any]

OPSET = 20  # The op set that is written unless another one is requested
_ANY_SIZE = 10007  # Stands for an open size while a network is traced


def traced_for_export(
    fn: Any, inputs: Sequence[Any], spec: Any = None
) -> tuple[Traced, list[Guard]]:
    """A call as a graph, with symbols where sizes are open, and what it assumes about these.

    Args:
        inputs: arguments; tensors may be types with open sizes (`Tensor(shape=[None, 3], ...)`).
        spec: what `set_inputs` said.

    Raises:
        CompileError: an error in the network.
    """
    structure, leaves = take_apart_call(inputs, {})
    axes: dict[int, Axes | None] = {}
    if spec is not None and not any(isinstance(t, OpenTensor) for t in leaves):
        axes = Dynamic(spec).axes(structure, leaves, parameter_names(fn), None)
    types = [_known(t, i, axes) for i, t in enumerate(leaves)]
    if not axes:
        return trace(fn, inputs, {}), []
    names = _names(structure, len(leaves), parameter_names(fn))
    pattern = make_pattern(types, names, axes, stand_ins=True)
    for name, info in pattern.shapes.symbols.items():
        pattern.shapes.symbols[name] = replace(info, stand_in=True)
    opened = [OpenTensor.of(ty) for ty in pattern.types]
    return trace_assuming(lambda shapes: trace(
        fn, _with(inputs, opened), {}, pattern.types, shapes), pattern.shapes)


def trace_assuming(
    trace_at: Callable[[Shapes], Traced], shapes: Shapes
) -> tuple[Traced, list[Guard]]:
    """A graph with open sizes, and what it assumes about them: see `assumed_sizes`."""
    fresh = shapes.copy()
    traced = trace_at(shapes)
    return traced, assumed_sizes(shapes, lambda guard: _fails_without(guard, fresh, trace_at))


def _known(tensor: Tensor, number: int, axes: dict[int, Axes | None]) -> TensorType:
    """The type of an argument; what an open one leaves open goes to `axes`."""
    if not isinstance(tensor, OpenTensor):
        return ir_type(tensor)
    if tensor.axes is None:
        raise ValueError(
            "For 'export', the number of axes of each input must be known: give "
            "Tensor(shape=[None, 3], dtype=...) with None for an axis of any size")
    axes[number] = tensor.axes
    sizes = tuple(d if isinstance(d, int) else _ANY_SIZE for d in tensor.axes)
    return TensorType(sizes, tensor.element)


def _with(inputs: Sequence[Any], opened: Sequence[Tensor]) -> list[Any]:
    """The arguments with their tensors replaced, in order."""
    rest = iter(opened)

    def walk(x: Any) -> Any:
        if isinstance(x, Tensor | Described):
            return next(rest)
        if isinstance(x, dict):
            return {k: walk(v) for k, v in x.items()}
        return type(x)(walk(v) for v in x) if type(x) in (tuple, list) else x

    return [walk(x) for x in inputs]


def _names(structure: Structure, count: int, parameters: Sequence[str]) -> list[str]:
    """A name for each tensor: that of its argument, where this is one tensor."""
    names = [f"x{i}" for i in range(count)]
    assert isinstance(structure, Box) and isinstance(structure.parts[0], Box)
    for name, part in zip(parameters, structure.parts[0].parts, strict=False):
        if isinstance(part, Leaf):
            names[part.number] = name
    return names


_SMALL = 64
"""Sizes up to this one are tried where a condition on sizes is broken on purpose."""


def _fails_without(guard: Guard, shapes: Shapes, trace_at: Callable[[Shapes], Traced]) -> bool:
    """Whether the network fails for sizes that break a condition: then it is not one of two ways
    that the network goes, but what an op asks of its operands."""
    named = symbols_of(guard.expr)
    if not named <= shapes.hints.keys():
        return False  # (the elements decide it)
    for n in range(1, _SMALL):
        hints = {s: n if s in named else hint for s, hint in shapes.hints.items()}
        if not guard.holds(hints):
            try:
                trace_at(replace(shapes.copy(), hints=hints))
            except CompileError:
                return True
            return False
    return False


def assumed_sizes(shapes: Shapes, needed: Callable[[Guard], bool]) -> list[Guard]:
    """Sizes that must be equal, which a runtime sees when they are not, and conditions without
    which the network itself fails (`needed`)."""
    for guard in shapes.guards:
        together = guard.relation == "==" and len(symbols_of(guard.expr)) > 1
        if not together and not (guard.relation == ">=" and needed(guard)):
            raise ValueError(
                f"For 'export', the network asks about a size that is open, so what is written "
                f"would serve only where {shapes.shown(guard)}; give that size, or take the "
                "question away")
    return list(shapes.guards)


def onnx_model(
    traced: Traced, weights: Mapping[str, Array], opset: int, assumed: Sequence[Guard] = ()
) -> Model:
    """A traced call as an ONNX model."""
    if find_spec("onnx") is None:
        raise ImportError(
            "export to ONNX needs the library onnx: install it with `pip install cellc[onnx]`")
    model = to_model(traced.graph, weights, _result_names(traced.out), opset)
    if assumed:
        model.note("cellc.assumes", "; ".join(map(str, assumed)))
    return model


def _result_names(out: Structure) -> list[str]:
    """Names of the results: the keys of dicts, and numbers."""
    names: list[str] = []

    def walk(part: Structure, name: str) -> None:
        if isinstance(part, Leaf):
            names.append(name or "output")
        elif isinstance(part, Box):
            for i, p in enumerate(part.parts):
                key = str(part.keys[i]) if part.keys else str(i)
                inner = f"{name}.{key}" if name else (key if part.keys else f"output{key}")
                walk(p, inner)

    walk(out, "")
    return names
