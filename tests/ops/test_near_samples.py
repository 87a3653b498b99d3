"""What each op says of operands and attributes beside its samples: the types of its results, or the
error. Of each sample an axis is longer, shorter, missing or new, an element type another, operands
change places or are too few or too many, and each part of an attribute is moved.

What is accepted must be what the reference gives. All answers are as recorded in
`near_samples.json`: `python -m tests.ops.test_near_samples` records anew, and prints what changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cellc_compiler.interpret import run
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.op import Op, Sample, all_ops
from cellc_compiler.ir.types import TensorType
from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

from ..bad_input.recorded import Answers, check, said, write
from ..ir.test_hostile_attributes import leaves, put
from .expressions import evaluate_value

GOLDEN = Path(__file__).with_name("near_samples.json")
SAMPLES, LARGEST = 3, 1 << 10
Array = np.ndarray[Any, Any]
Operands = tuple[TensorType, ...]
Case = tuple[Operands, Mapping[str, Any]]


def types(op: Op, sample: Sample) -> Operands:
    return tuple(
        TensorType(tuple(o.shape), dtypes.from_numpy(o.dtype) if isinstance(o, np.ndarray)
                   else o.dtype or op.dtypes[0]) for o in sample.operands)


def other_types(t: TensorType) -> Iterator[TensorType]:
    """Of one axis more or less, with an axis of another length, of another element type."""
    for i, n in enumerate(t.shape):
        for size in dict.fromkeys((n + 1, max(n - 1, 0), 1)):
            yield t.with_shape((*t.shape[:i], size, *t.shape[i + 1 :]))
        yield t.with_shape((*t.shape[:i], *t.shape[i + 1 :]))
    yield t.with_shape((2, *t.shape))
    for dtype in (dtypes.float16, dtypes.float64, dtypes.int32, dtypes.bool_, dtypes.complex64):
        yield TensorType(t.shape, dtype)


def other_values(value: Any) -> Iterator[Any]:
    """Beside it, of its own kind (of other kinds: `test_hostile_attributes.py`)."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield from (value + 1, value - 1, -value, 0)
    elif isinstance(value, tuple):
        yield from ((*value, 1), value[:-1], value[::-1])
    elif isinstance(value, DType):
        yield from (dtypes.float16, dtypes.int64)


def near(given: Operands, attrs: Mapping[str, Any]) -> Iterator[Case]:
    """The sample itself, and all that differs from it in one place."""
    yield given, attrs
    for i, t in enumerate(given):
        for other in other_types(t):
            yield (*given[:i], other, *given[i + 1 :]), attrs
    yield given[:-1], attrs
    yield given[::-1], attrs
    yield (*given, *given[:1]), attrs
    for name, value in attrs.items():
        for path in leaves(value):
            part = value
            for place in path:
                part = part[place]
            for new in other_values(part):
                yield given, {**attrs, name: put(value, path, new)}


def answer(op: Op, case: Case) -> tuple[str, Graph | None]:
    """The types of the results, or the error; and the graph if there is none."""
    graph = Graph("g")
    try:
        values = [graph.add_input(t, f"x{i}") for i, t in enumerate(case[0])]
        graph.outputs = list(Builder(graph).node(op.name, values, case[1]).results)
    except Exception as e:  # of any kind: which one is the answer
        return said(e), None
    return ", ".join(str(v.type) for v in graph.outputs), graph


def questions(op: Op) -> Answers:
    """Each case once; those of a few samples, the first in full."""
    seen = set[str]()
    for sample in list(op.samples())[:SAMPLES]:
        for case in near(types(op, sample), op.complete(sample.attrs)):
            key = f"{case[0]} {case[1]}"
            if key not in seen:
                seen.add(key)
                yield f"{op.name}{case}", answer(op, case)[0]


OPS = [op for op in all_ops() if op.samples() and op.name != "custom_kernel"]
"""(Kernels of users are a language of their own: `tests/kernels`.)"""


every = pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in OPS])


@every
def test_answers(op: Op) -> None:
    """As recorded; an error counts with its words."""
    check(GOLDEN, op.name, questions(op))


@every
def test_what_is_accepted_is_computed(op: Op) -> None:
    """The reference gives results of the inferred shapes beside the first sample."""
    if type(op).reference is Op.reference or "ranks" in op.attrs:
        return  # computed by the ops that it is made of, or by several ranks
    sample = op.samples()[0]
    for case in near(types(op, sample), op.complete(sample.attrs)):
        _, graph = answer(op, case)
        if graph is not None and all(
                v.type.size <= LARGEST for v in (*graph.inputs, *graph.outputs)):
            assert shapes(op, case) == [v.shape for v in graph.outputs], (op.name, case)


@every
def test_at_the_numbers_of_its_attributes(op: Op) -> None:
    """Where a function of one number changes its form, the reference and what the op is made of
    agree on the side that the point belongs to: at each number of the attributes, their products
    and quotients, and at round numbers."""
    if dtypes.float64 not in op.dtypes or op.operands != ("input",):
        return
    for attrs in {str(s.attrs): op.complete(s.attrs) for s in op.samples()}.values():
        given = [float(v) for v in attrs.values() if isinstance(v, int | float)]
        numbers = {0.0, 0.5, 1.0, 2.0, 3.0, 6.0, *given, *(a * b for a in given for b in given),
                   *(a / b for a in given for b in given if b)}
        x = np.array(sorted({sign * n for n in numbers for sign in (-1.0, 1.0)}))
        text, graph = answer(op, ((TensorType(x.shape, dtypes.float64),), attrs))
        if graph is None or text != f"float64[{x.size}]":
            continue
        with np.errstate(all="ignore"):
            want, got = op.reference(x, **attrs), made_of(op, graph, x)
        np.testing.assert_allclose(got, want, 1e-11, 1e-14, err_msg=f"{op.name} {attrs} at {x}")


def made_of(op: Op, graph: Graph, x: Array) -> Array:
    """What the op gives by its expansion or its rule of values."""
    (node,) = graph.nodes
    if op.value is not None:
        with suppress(KeyError):  # functions of the machine's own have no other form
            return np.asarray(evaluate_value(node, [x])[0])
    if op.expand is None:
        return np.asarray(op.reference(x, **node.attrs))
    inner = Graph("expansion")
    b = Builder(inner)
    inner.outputs = [op.expand(b, inner.add_input(node.operands[0].type, "x"), **node.attrs)]
    return np.asarray(run(inner, [x])[0])


def shapes(op: Op, case: Case) -> list[tuple[int, ...]]:
    """Of the reference's results, of operands that are 0, 1 or false, true."""
    draw = np.random.RandomState(0)
    arrays = [np.asarray(draw.randint(0, 2, t.shape)).astype(t.dtype.numpy) for t in case[0]]
    with np.errstate(all="ignore"):
        out = op.reference(*arrays, **op.complete(case[1]))
    return [np.shape(a) for a in (out if isinstance(out, tuple) else (out,))]


if __name__ == "__main__":
    write(GOLDEN, {op.name: questions(op) for op in OPS})
