"""The same library code on graph tensors: updates, random keys and what must be refused."""

from __future__ import annotations

import numpy as np
import pytest

import cellc.ops as ops
from cellc.common.parameter import Parameter
from cellc.common.seed import Generator
from cellc.common.tensor import Tensor
from cellc.core.dispatch import tracing
from cellc.tracing.tracer import Tracer
from cellc_compiler.interpret import run
from cellc_compiler.ir.types import TensorType
from cellc_runtime import dtypes as dt


def test_a_write_changes_what_later_reads_see() -> None:
    tracer = Tracer()
    x = tracer.input(TensorType((2, 3), dt.float32), "x")
    with tracing(tracer):
        before = x + 1
        x[0, ::-1] = Tensor([1.0, 2.0, 3.0])
        x[x < 0] = 0
        x[:, [0, 2]] = x[:, [2, 0]]
        graph = tracer.finish([before, x])
    a = np.array([[5, 5, 5], [-1, 7, 9]], np.float32)
    got = run(graph, [a])
    assert np.array_equal(got[0], a + 1)
    assert np.array_equal(got[1], [[1, 2, 3], [9, 7, 0]])


def test_parameters_and_keys_leave_as_updates() -> None:
    tracer = Tracer()
    p = Parameter(Tensor([1.0, 2.0]), "p")
    generator = Generator(3)
    with tracing(tracer):
        ops.assign_add(p, 1.0)
        p[0] = 5.0
        keys = [generator.next_key(), generator.next_key()]
        graph = tracer.finish([p * 2, *keys])
    inputs = {"p": p._data, "generator": generator.state._data}
    got = run(graph, [inputs[v.name] for v in graph.inputs])
    assert [g.tolist() for g in got[:3]] == [[10.0, 6.0], [3, 0], [3, 1]]
    updates = {old.name: value.tolist()
               for (old, _), value in zip(graph.updates, got[3:], strict=True)}
    assert updates == {"p": [5.0, 3.0], "generator": [3, 2]}
    assert p.tolist() == [1.0, 2.0]


def test_results_of_unknown_shape_are_refused() -> None:
    tracer = Tracer()
    x = tracer.input(TensorType((3,), dt.float32), "x")
    with tracing(tracer):
        # Without symbols for sizes (`deciding`) there is nothing to call the number found.
        for name, call in (
            ("nonzero", lambda: ops.nonzero(x)), ("a bool index", lambda: x[x > 0]),
            ("unique", lambda: ops.unique(x)),
            ("masked_select", lambda: ops.masked_select(x, x > 0)),
        ):
            with pytest.raises(TypeError, match=f"the result of '{name}' depends on the elements"):
                call()
        with pytest.raises(ValueError, match="Only one element tensors can be converted"):
            int(x)
        outside = Tensor([1.0, 2.0])
        with pytest.raises(TypeError, match="outside of the graph"):
            outside[0] = x[0]


def test_index_known_only_at_run_time() -> None:
    tracer = Tracer()
    x = tracer.input(TensorType((3, 2), dt.float32), "x")
    i = tracer.input(TensorType((), dt.int64), "i")
    with tracing(tracer):
        row = x[i]
        x[i, 0] = 9.0
        graph = tracer.finish([row, x])
    got = run(graph, [np.arange(6, dtype=np.float32).reshape(3, 2), np.array(-1)])
    assert got[0].tolist() == [4.0, 5.0] and got[1].tolist() == [[0, 1], [2, 3], [9, 5]]
