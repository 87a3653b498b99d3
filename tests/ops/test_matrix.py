"""The checks every registered op passes: one parametrised test per property, over all ops.

Inference against the reference, the text form, first and second derivatives against finite
differences in float64, compiled code against the reference, and one result to the bit whether an
op runs alone (eagerly) or fused between others. Samples include empty and one-element shapes;
floats also see NaN, infinities, zeros of both signs and tiny numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cellc_compiler.autodiff.reverse import gradient_graph
from cellc_compiler.driver import compile_graph
from cellc_compiler.interpret import run
from cellc_compiler.ir.graph import Builder, Graph, Value
from cellc_compiler.ir.op import Op, Sample, Spec, all_ops, lookup
from cellc_compiler.ir.text import parse_graph, print_graph
from cellc_compiler.ir.types import TensorType
from cellc_compiler.ir.verify import verify
from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

from ..modes.law import bits, operands, type_of

Array = np.ndarray[Any, Any]

# Ops that stand for regions, effects or literals are tested where they live. May only shrink.
WITHOUT_SAMPLES = {
    "check", "cond", "constant", "custom_grad", "host_call", "print", "receive_from", "recompute",
    "scan", "send_to", "while",
}  # fmt: skip

SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, -1.0, 1.0, 0.5, 88.0, -110.0)


@dataclass(frozen=True, slots=True)
class Case:
    """An op on concrete arrays."""

    op: Op
    arrays: tuple[Array, ...]
    attrs: dict[str, Any]
    grad: bool
    dtype: DType

    def graph(self) -> Graph:
        """A graph of one node."""
        graph = Graph(self.op.name)
        values = [graph.add_input(type_of(a), f"x{i}") for i, a in enumerate(self.arrays)]
        graph.outputs = list(Builder(graph).node(self.op.name, values, self.attrs).results)
        return graph

    def __str__(self) -> str:
        given = ", ".join(str(type_of(a)) for a in self.arrays)
        return f"{self.op.name}({given}) {self.attrs}"


def make(op: Op, sample: Sample, dtype: DType) -> Case:
    """A sample with its operands drawn; the same every time."""
    return Case(op, tuple(operands(op, sample, dtype)), dict(sample.attrs), sample.grad, dtype)


def cases(op: Op, kinds: Sequence[DType], most: int | None = None) -> Iterator[Case]:
    """Samples in the accepted dtypes among `kinds`, each set of types and attributes once."""
    seen: set[str] = set()
    for dtype in kinds:
        if dtype not in op.dtypes:
            continue
        for sample in list(op.samples())[:most]:
            case = make(op, sample, dtype)
            if str(case) not in seen and admissible(case):
                seen.add(str(case))
                yield case


def admissible(case: Case) -> bool:
    """Whether the op takes this dtype with these attributes (a maximum of bools it may not)."""
    try:
        case.graph()
    except TypeError:
        return False
    return True


def every_op() -> list[Any]:
    """All ops with samples."""
    return [pytest.param(op, id=op.name) for op in all_ops() if op.samples()]


OPS = every_op()
every = pytest.mark.parametrize("op", OPS)


def test_only_known_ops_lack_samples() -> None:
    """A new op cannot escape the matrix."""
    assert {op.name for op in all_ops() if not op.samples()} <= WITHOUT_SAMPLES


def test_one_lowering_each() -> None:
    """An op is lowered in exactly one way (ops with regions are known to the driver by name)."""
    for op in all_ops():
        ways = [w for w in ("value", "reduction", "opaque", "expand") if getattr(op, w)]
        assert len(ways) == 1 or (not ways and not op.samples()) or op.effect, (op.name, ways)


# --- inference and text --------------------------------------------------------------------------


def reference(case: Case) -> tuple[Array, ...]:
    """The reference's results as they come."""
    op = case.op
    if type(op).reference is Op.reference:
        return tuple(run(case.graph(), case.arrays))
    with np.errstate(all="ignore"):
        out = op.reference(*case.arrays, **op.complete(case.attrs))
    return out if isinstance(out, tuple) else (out,)


@every
def test_inference(op: Op) -> None:
    """Inferred shapes and dtypes are the reference's; an expansion has them too."""
    for case in cases(op, dtypes.ALL):
        graph = case.graph()
        results = reference(case)
        assert len(results) == len(graph.outputs), case
        for v, a in zip(graph.outputs, results, strict=True):
            a = np.asarray(a)
            assert a.shape == v.shape, case
            same = a.dtype == v.dtype.numpy
            assert same or (v.dtype.is_inexact and is_inexact(a)), (case, a.dtype, v.dtype)
        if op.expand is not None:
            b = Builder(Graph("expansion"))
            ins = [b.graph.add_input(type_of(a), f"x{i}") for i, a in enumerate(case.arrays)]
            out = op.expand(b, *ins, **op.complete(case.attrs))
            got = [v.type for v in (out if isinstance(out, tuple) else (out,))]
            assert got == [v.type for v in graph.outputs], case


def is_inexact(a: Array) -> bool:
    """Whether an array is of floats (bfloat16 included) or complex numbers."""
    return a.dtype.kind in "fc" or a.dtype == ml_dtypes.bfloat16


@every
def test_accepts_its_dtypes(op: Op) -> None:
    """Some sample is admissible in each accepted dtype (if samples leave the dtype open)."""
    open_samples = [s for s in op.samples()
                    if any(isinstance(o, Spec) and o.dtype is None for o in s.operands)]
    for dtype in op.dtypes if open_samples else ():
        assert any(admissible(make(op, s, dtype)) for s in open_samples), dtype


@every
def test_rejects_other_dtypes(op: Op) -> None:
    """A dtype the op does not accept is a TypeError that names the op or the type."""
    free = [s for s in op.samples() if isinstance(next(iter(s.operands), None), Spec)]
    if not free or free[0].operands[0].dtype is not None:  # type: ignore[union-attr]
        return
    for dtype in dtypes.ALL:
        if dtype not in op.dtypes:
            with pytest.raises((TypeError, ValueError), match=r"\w"):
                make(op, free[0], dtype).graph()


@every
def test_text_round_trip(op: Op) -> None:
    """print -> parse -> print is the identity, and the parsed graph verifies."""
    for case in cases(op, dtypes.ALL, most=2):
        text = print_graph(case.graph())
        parsed = parse_graph(text)
        verify(parsed)
        assert print_graph(parsed) == text, case


# --- gradients -----------------------------------------------------------------------------------


def inner(a: Array, b: Array) -> float:
    """The real inner product."""
    return float(np.real(np.sum(np.conj(a) * b)))


def random_like(v: Value, rng: np.random.Generator) -> Array:
    """Normal numbers of a value's shape, complex if it is."""
    a = np.asarray(rng.standard_normal(v.shape))
    return a + 1j * rng.standard_normal(v.shape) if v.dtype.is_complex else a


def check_gradient(graph: Graph, arrays: Sequence[Array], label: str, order: int) -> None:
    """Derivatives of a random combination of outputs along a random direction.

    All inputs move at once: an error in any element of any cotangent shows in the sum.
    """
    rng = np.random.default_rng(7)
    wanted = [i for i, v in enumerate(graph.inputs) if v.dtype.is_inexact]
    seeded = [i for i, v in enumerate(graph.outputs) if v.dtype.is_inexact]
    if not wanted or not seeded:
        return
    seeds = [random_like(graph.outputs[i], rng) for i in seeded]
    moves = [random_like(graph.inputs[i], rng) for i in wanted]
    back = gradient_graph(graph, wanted, seeded=seeded, sens=True)
    verify(back)
    count = len(graph.outputs)
    grads = run(back, [*arrays, *seeds], precise=True)[count:]
    got = sum(inner(g, m) for g, m in zip(grads, moves, strict=True))
    # A small step first: a kink within reach of the larger one spoils only that.
    want = [difference(graph, arrays, wanted, moves, seeded, seeds, eps) for eps in (1e-5, 1e-6)]
    scale = 1 + sum(abs(inner(abs(g), abs(m))) for g, m in zip(grads, moves, strict=True))
    misses = [abs(got - w) / scale for w in want]
    assert min(misses) < 2e-5, (label, f"order {3 - order}", got, want)
    if order > 1:
        for i, v in enumerate(back.inputs):
            v.name = f"x{i}"  # the second derivative has cotangents of its own called sens0, ...
        second = Graph(back.name, back.inputs, back.nodes, back.outputs[count:])
        check_gradient(second, [*arrays, *seeds], label, order - 1)


def difference(
    graph: Graph, arrays: Sequence[Array], wanted: Sequence[int], moves: Sequence[Array],
    seeded: Sequence[int], seeds: Sequence[Array], eps: float,
) -> float:
    """The central difference of the combination of outputs along the moves."""
    def total(step: float) -> float:
        at = list(arrays)
        for i, move in zip(wanted, moves, strict=True):
            at[i] = arrays[i] + step * move
        outs = run(graph, at, precise=True)
        return sum(inner(s, outs[i]) for i, s in zip(seeded, seeds, strict=True))

    return (total(eps) - total(-eps)) / (2 * eps)


@every
def test_gradient(op: Op) -> None:
    """First and second derivatives, real and complex."""
    if not op.differentiable:
        return
    for case in cases(op, (dtypes.float64, dtypes.complex128)):
        if case.grad:
            check_gradient(case.graph(), case.arrays, str(case), order=2)


def test_check_gradient_can_fail() -> None:
    """A wrong rule does not pass: tanh's cotangent sent through sin."""
    graph = Graph("wrong")
    x = graph.add_input(TensorType((3,), dtypes.float64), "x")
    y = Builder(graph).tanh(x)
    graph.outputs = [y]
    tanh = lookup("tanh")
    rule = type(tanh).gradient
    try:
        type(tanh).gradient = type(lookup("sin")).gradient  # type: ignore[method-assign]
        with pytest.raises(AssertionError, match="'wrong', 'order 2'"):
            check_gradient(graph, [np.array([0.3, 1.0, -2.0])], "wrong", order=1)
    finally:
        type(tanh).gradient = rule  # type: ignore[method-assign]


# --- compiled code -------------------------------------------------------------------------------


def fused(batch: Sequence[Case]) -> Graph:
    """All cases in one graph, each between selections that fuse with it and change nothing.

    The graph's first input is a bool to be given as true.
    """
    graph = Graph("fused")
    flag = graph.add_input(TensorType((), dtypes.bool_), "flag")
    b = Builder(graph)
    for k, case in enumerate(batch):
        ins = [graph.add_input(type_of(a), f"x{k}_{i}") for i, a in enumerate(case.arrays)]
        through = [b.where(flag, v, b.zeros_like(v)) for v in ins]
        for r in b.node(case.op.name, through, case.attrs).results:
            graph.outputs.append(b.where(flag, r, b.zeros_like(r)))
    return graph


def eps_of(dtype: DType) -> float:
    """The distance from 1 to the next number."""
    return float(ml_dtypes.finfo(dtype.numpy).eps)


def assert_close(case: Case, ty: TensorType, got: Array, want: Array) -> None:
    """Integers and bools equal; floats within the op's tolerance of the largest |output|."""
    assert got.shape == ty.shape and got.dtype == ty.dtype.numpy, case
    if not ty.dtype.is_inexact:
        np.testing.assert_array_equal(got, want, err_msg=str(case))
        return
    wide: Any = np.complex128 if ty.dtype.is_complex else np.float64
    with np.errstate(over="ignore"):
        limited = want.astype(ty.dtype.numpy).astype(wide)
    got = got.astype(wide)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(limited), err_msg=str(case))
    fine = np.isfinite(limited)
    np.testing.assert_array_equal(np.isfinite(got), fine, err_msg=str(case))
    if fine.any():
        want = want.astype(wide)
        ulp = eps_of(ty.dtype) * np.max(np.abs(want[fine]))
        worst = np.max(np.abs(got[fine] - want[fine]))
        assert worst <= case.op.tolerance * ulp + 1e-30, (str(case), worst / ulp)


def batch_of(op: Op) -> list[Case]:
    """Every sample in the first accepted dtype of a short list, one sample in the others."""
    main = next((d for d in (dtypes.float32, dtypes.int32, dtypes.complex64, dtypes.bool_)
                 if d in op.dtypes), op.dtypes[0])
    others = [d for d in dtypes.ALL if d is not main]
    return [*cases(op, (main,)), *cases(op, others, most=1)]


@cache
def fused_results(name: str) -> list[list[Array]]:
    """Per case of an op's batch, the results of compiled code among other ops."""
    batch = batch_of(lookup(name))
    arrays = [np.asarray(True), *(a for case in batch for a in case.arrays)]
    flat = iter(compile_graph(fused(batch))(arrays))
    return [[next(flat) for _ in case.graph().outputs] for case in batch]


@every
def test_compiled(op: Op) -> None:
    """Compiled code, fused between other ops, agrees with the float64 reference."""
    for case, got in zip(batch_of(op), fused_results(op.name), strict=True):
        want = run(case.graph(), case.arrays, precise=True)
        for v, mine, w in zip(case.graph().outputs, got, want, strict=True):
            assert_close(case, v.type, mine, w)


@every
def test_alone_equals_fused(op: Op) -> None:
    """An op alone, as eager mode runs it, gives the bits it gives between others."""
    batch = batch_of(op)
    for k in range(0, len(batch), max(1, len(batch) // 3)):
        alone = compile_graph(batch[k].graph())(batch[k].arrays)
        for mine, other in zip(alone, fused_results(op.name)[k], strict=True):
            assert bits(mine) == bits(other), batch[k]


# --- special values ------------------------------------------------------------------------------


def with_specials(case: Case) -> Case:
    """The float operands overwritten, cyclically, with NaN, infinities and other edges."""
    arrays = []
    for k, a in enumerate(case.arrays):
        if a.dtype == np.float32:
            values = np.roll(np.asarray(SPECIAL, np.float32), 3 * k)
            a = np.resize(values, a.shape)
        arrays.append(a)
    return Case(case.op, tuple(arrays), case.attrs, case.grad, case.dtype)


# Where padding zeros may be multiplied or skipped, an infinity may or may not give a NaN.
UNORDERED = {"conv2d", "conv2d_backward_data", "conv2d_backward_weight"}


@every
def test_special_values(op: Op) -> None:
    """NaN, infinities, signed zeros and tiny numbers: compiled as the reference in float32."""
    if op.name in UNORDERED or dtypes.float32 not in op.dtypes:
        return
    batch = [with_specials(c) for c in cases(op, (dtypes.float32,), most=2)]
    batch = [c for c in batch if any(a.dtype == np.float32 for a in c.arrays)]
    if not batch:
        return
    arrays = [np.asarray(True), *(a for case in batch for a in case.arrays)]
    got = iter(compile_graph(fused(batch))(arrays))
    for case in batch:
        for want in run(case.graph(), case.arrays):
            mine = next(got)
            if is_inexact(want):
                np.testing.assert_array_equal(np.isnan(mine), np.isnan(want), err_msg=str(case))
                allowed = max(2e-5, op.tolerance * 2.0**-23)
                np.testing.assert_allclose(
                    mine, want, rtol=allowed, atol=1e-6, equal_nan=True, err_msg=str(case)
                )
            else:
                np.testing.assert_array_equal(mine, want, err_msg=str(case))
