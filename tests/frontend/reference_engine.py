"""An eager engine that runs op references in numpy: the functional API tested without kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cellc.common.parameter import Parameter
from cellc.common.tensor import Tensor
from cellc.eager.recorder import active_recordings, applied
from cellc.tensors.tensor import tensor_of
from cellc_compiler.interpret import run
from cellc_compiler.ir.graph import Builder, Graph


class ReferenceEngine:
    """See `cellc.eager.engine.EagerEngine`."""

    whole = False

    def run(self, op: str, operands: Sequence[Tensor], attrs: Mapping[str, Any]) -> Any:
        """One op through the reference interpreter."""
        graph = Graph(op)
        inputs = [graph.add_input(t._type, f"x{i}") for i, t in enumerate(operands)]
        out = Builder(graph).emit(op, *inputs, **attrs)
        graph.outputs = list(out) if isinstance(out, tuple) else [out]
        arrays = run(graph, [t._data for t in operands])
        results = []
        for a, v in zip(arrays, graph.outputs, strict=True):
            assert a.shape == v.type.shape and a.dtype == v.type.dtype.numpy, (op, a.dtype, v.type)
            results.append(tensor_of(np.array(a, order="C", copy=True)))
        given = tuple(results) if isinstance(out, tuple) else results[0]
        for recording in active_recordings():
            recording.note(applied(op, attrs), operands, given)
        return given

    def assign(self, parameter: Parameter, value: Tensor) -> None:
        """Overwrite a buffer."""
        np.copyto(parameter._data, value._data)

    def checked(self, index: Tensor, low: int, high: int, parts: tuple[str | int, ...]) -> None:
        """Nobody asks."""

    def stays(self, tensor: Tensor) -> bool:
        """All is here."""
        return False

    def check(self, index: Tensor, low: int, high: int, parts: tuple[str | int, ...]) -> None:
        """Nothing stays elsewhere."""

    def elements_read(self) -> None:
        """Nobody asks."""

    def assign_part(
        self, tensor: Tensor, where: tuple[slice, ...], array: Any, window: Any
    ) -> None:
        """Overwrite a part of a buffer."""
        (tensor._data if window is None else window(tensor._data))[where] = array
