"""Gathers, scatters, sorts, running reductions, draws, contractions, convolutions and pools.

References against `value` rules and emitted kernels, known answers, what happens at the edges
(positions outside, NaN, ties, duplicates, nothing at all), gradients and errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from cellc_compiler.autodiff.reverse import gradient_graph
from cellc_compiler.interpret import run
from cellc_compiler.ir.graph import Builder, Graph, Node
from cellc_compiler.ir.op import Op, Sample, all_ops, lookup
from cellc_compiler.ir.types import TensorType
from cellc_compiler.lower.plan import KernelPlan, operand, result
from cellc_compiler.ops import (
    contraction,
    conv,
    gather,
    pool,
    random,
    scanops,
    scatter,
    sort,
)
from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType
from cellc_runtime.philox import philox
from cellc_runtime.target import TARGETS, Target, host_target, host_targets

from ..codegen.jit import assembly, compile_kernel
from ..codegen.plans import plan_of
from .expressions import evaluate_value
from .gradients import check_gradient, graph_of, operands_of

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]
MODULES = tuple(m.__name__ for m in (contraction, conv, gather, pool, random, scanops, scatter,
                                     sort))
DTYPES = (dtypes.float32, dtypes.float16, dtypes.int8, dtypes.uint32, dtypes.complex64)


def ops() -> list[Op]:
    """The ops of these modules, and the one view that copies."""
    return [op for op in all_ops()
            if type(op).__module__ in MODULES or op.name == "join_copy"]


def cases() -> list[Any]:
    """Every sample of every op."""
    return [pytest.param(op, sample, id=f"{op.name}-{i}")
            for op in ops() for i, sample in enumerate(op.samples())]


def node_of(op: Op, arrays: list[Array], attrs: Any) -> Node:
    """The op on arrays of these types."""
    return graph_of(op, arrays, attrs).nodes[0]


def reference(node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """The reference results."""
    with np.errstate(all="ignore"):
        out = lookup(node.op).reference(*arrays, **node.attrs)
    return out if isinstance(out, tuple) else (out,)


def fits(op: Op, sample: Sample, dtype: DType) -> bool:
    """Whether the op takes the sample in a dtype (some modes do not)."""
    arithmetic = sample.attrs.get("mode", "update") not in ("update", "add", "sub")
    return dtype in op.dtypes and not (dtype.is_complex and arithmetic)


def aligned(nbytes: int) -> Array:
    """Scratch as the product gives it: 64-byte aligned, contents undefined."""
    raw = np.full(nbytes + 64, 0xA5, np.uint8)
    at = -raw.ctypes.data % 64
    return raw[at: at + nbytes]


def execute(plan: KernelPlan, node: Node, arrays: Sequence[Array],
            target: Target, *, backwards: bool = False) -> list[Array]:
    """Run the kernels of a plan; with `backwards`, tasks one at a time from the last."""
    table = {operand(i): np.ascontiguousarray(a) for i, a in enumerate(arrays)}
    outs = [aligned(r.type.nbytes).view(r.dtype.numpy).reshape(r.shape) for r in node.results]
    table |= {result(i): out for i, out in enumerate(outs)}
    table |= {role: aligned(n) for role, n in plan.scratch.items()}
    for step in plan.steps:
        kernel = compile_kernel(step.kernel, target)
        buffers = [table[r] for r in step.roles]
        assert step.kernel.buffers == len(buffers)
        if backwards:
            for task in reversed(range(step.kernel.ntasks)):
                kernel(buffers, task, task + 1)
        else:
            kernel(buffers, 0, step.kernel.ntasks)
    return outs


def tolerance(dtype: DType) -> float:
    """Relative to the largest element."""
    return {"float16": 4e-3, "bfloat16": 3e-2}.get(dtype.name, 1e-5)


def close(got: Array, want: Array, dtype: DType) -> None:
    """Equal for integers, within tolerance for floats."""
    if not dtype.is_inexact:
        np.testing.assert_array_equal(got, want)
        return
    wide = np.complex128 if dtype.is_complex else np.float64
    scale = float(np.abs(want.astype(wide)).max()) if want.size else 0.0
    np.testing.assert_allclose(got.astype(wide), want.astype(wide),
                               atol=tolerance(dtype) * max(scale, 1.0))


@pytest.mark.parametrize(("op", "sample"), cases())
def test_rules_agree(op: Op, sample: Sample) -> None:
    """Inference and the value rule against the reference, in several dtypes."""
    for dtype in (*DTYPES, dtypes.uint64):
        if not fits(op, sample, dtype):
            continue
        arrays = operands_of(sample, dtype)
        node = node_of(op, arrays, sample.attrs)
        want = reference(node, arrays)
        for array, value in zip(want, node.results, strict=True):
            assert np.shape(array) == value.shape
            assert np.asarray(array).dtype == value.dtype.numpy
        if op.value is not None:
            got = evaluate_value(node, arrays, philox=_philox, erfinv=random._erfinv)
            for a, b, r in zip(got, want, node.results, strict=True):
                close(a, b, r.dtype)


def _philox(index: Array, seed: Array, offset: Array) -> Array:
    if not index.size:
        return np.zeros(index.shape, np.uint32)
    key = [int(np.ravel(v)[0]) % 2**64 for v in (seed, offset)]
    return random.philox_words(np.array(key, np.uint64), index)


@pytest.mark.parametrize(("op", "sample"), [c for c in cases() if c.values[0].opaque])
def test_kernels(op: Op, sample: Sample) -> None:
    """Emitted kernels against the reference; any order of tasks gives the same bits."""
    kinds = DTYPES if sample is op.samples()[0] else DTYPES[:1]
    for dtype in kinds:
        if not fits(op, sample, dtype):
            continue
        arrays = operands_of(sample, dtype)
        node = node_of(op, arrays, sample.attrs)
        plan = plan_of(node)
        got = execute(plan, node, arrays, host_target())
        for a, b, r in zip(got, reference(node, arrays), node.results, strict=True):
            close(a, b, r.dtype)
        again = execute(plan, node, arrays, host_target(), backwards=True)
        for a, b in zip(got, again, strict=True):
            assert a.tobytes() == b.tobytes()


OWN_KERNELS = ("join_copy", "scatter", "scatter_lines", "sort_lines", "cumsum", "cummin")


@pytest.mark.parametrize("name", OWN_KERNELS)
def test_kernels_emit_for_every_target(name: str) -> None:
    """The text compiles for all targets, and the host's other targets run it right."""
    op = lookup(name)
    for dtype in (dtypes.float32, dtypes.bfloat16, dtypes.int8):
        arrays = operands_of(op.samples()[1], dtype)
        node = node_of(op, arrays, op.samples()[1].attrs)
        for target in TARGETS.values():
            for step in plan_of(node, target).steps:
                assert "KERNEL" in assembly(step.kernel.code, target)
        for target in host_targets()[1:]:
            got = execute(plan_of(node, target), node, arrays, target)
            for a, b, r in zip(got, reference(node, arrays), node.results, strict=True):
                close(a, b, r.dtype)


@pytest.mark.parametrize(("op", "sample"), [c for c in cases() if c.values[1].grad])
def test_gradient(op: Op, sample: Sample) -> None:
    """First and second derivatives equal finite differences."""
    if dtypes.float64 in op.dtypes and op.differentiable:
        arrays = operands_of(sample, dtypes.float64)
        check_gradient(graph_of(op, arrays, sample.attrs), arrays)


def apply(name: str, *arrays: Any, **attrs: Any) -> tuple[Array, ...]:
    """One op by its reference or expansion."""
    values = [np.asarray(a) for a in arrays]
    return tuple(run(graph_of(lookup(name), values, attrs), values))


def kernel(name: str, *arrays: Any, **attrs: Any) -> list[Array]:
    """One op by its kernels."""
    values = [np.asarray(a) for a in arrays]
    op = lookup(name)
    node = node_of(op, values, attrs)
    return execute(plan_of(node), node, values, host_target())


# --- gather and scatter ----------------------------------------------------------------------


def test_positions_outside() -> None:
    """A negative position counts from the end; one outside reads zero and is not written."""
    x = np.arange(1, 5, dtype=np.float32)
    index = np.array([0, -1, 4, -5, 3], np.int32)
    node = node_of(lookup("gather"), [x, index], {})
    np.testing.assert_array_equal(evaluate_value(node, [x, index])[0], [1, 4, 0, 0, 4])
    ones = np.ones(5, np.float32)
    np.testing.assert_array_equal(kernel("scatter", x, index, ones, mode="add")[0], [2, 2, 3, 6])
    big = np.array([2**64 - 1, 2**63, 1], np.uint64)
    np.testing.assert_array_equal(
        kernel("scatter", x, big[1:], ones[:2], mode="add")[0], [1, 3, 3, 4])


def test_duplicates_are_applied_in_order() -> None:
    x, index = np.zeros(3, np.float32), np.array([1, 1, 1])
    updates = np.array([1e8, 1.0, -1e8], np.float32)
    np.testing.assert_array_equal(kernel("scatter", x, index, updates)[0], [0, -1e8, 0])
    # (1e8 + 1) - 1e8 is 0 in float32, in this order only.
    np.testing.assert_array_equal(kernel("scatter", x, index, updates, mode="add")[0], [0, 0, 0])


@pytest.mark.parametrize("mode", scatter.MODES)
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float16, dtypes.int8, dtypes.uint16,
                                   dtypes.int64], ids=str)
def test_scatter_modes(mode: str, dtype: DType) -> None:
    """All modes and widths, split over columns and over ranges of the axis, duplicates inside."""
    rng = np.random.default_rng(3)
    for shape, count in (((7, 45), 9), ((50, 1), 700), ((3, 300), 40)):
        low = 0 if dtype.kind == "uint" else -9
        x = rng.integers(low, 9, shape).astype(dtype.numpy)
        updates = rng.integers(max(low, -3), 4, (count, shape[1])).astype(dtype.numpy)
        if mode in ("add", "mul", "sub") and dtype.is_float:
            updates = np.clip(updates, -1, 1)
        index = rng.integers(-shape[0] - 1, shape[0] + 2, count)
        want = reference(node_of(lookup("scatter"), [x, index, updates], {"mode": mode}),
                         [x, index, updates])[0]
        np.testing.assert_array_equal(kernel("scatter", x, index, updates, mode=mode)[0], want)


def test_scatter_keeps_nan() -> None:
    x = np.array([np.nan, 1, 2], np.float32)
    got = kernel("scatter", x, np.array([0, 1]), np.array([5, np.nan], np.float32), mode="max")[0]
    np.testing.assert_array_equal(got, [np.nan, np.nan, 2])


def test_gradient_of_update_goes_to_the_last() -> None:
    """Of several updates of an element only the last one counts."""
    x, index = np.zeros(3), np.array([1, 0, 1])
    check_gradient(graph_of(lookup("scatter"), [x, index, np.ones(3)], {}), [x, index, np.ones(3)])


def test_gradient_of_max_is_shared() -> None:
    """The values of MindSpore 2.10 for a tie."""
    arrays = [np.array([1.0, 2.0]), np.array([0]), np.array([1.0])]
    back = gradient_graph(graph_of(lookup("scatter"), arrays, {"mode": "max"}), [0, 2])
    _, dx, du = run(back, arrays)
    np.testing.assert_array_equal(dx, [0.5, 1.0])
    np.testing.assert_array_equal(du, [0.5])


def test_embedding_padding_row_has_no_gradient() -> None:
    arrays = [np.ones((3, 2)), np.array([0, 2, 2])]
    back = gradient_graph(graph_of(lookup("embedding"), arrays, {"padding_idx": 2}), [0])
    np.testing.assert_array_equal(run(back, arrays)[1], [[1, 1], [0, 0], [0, 0]])


# --- sort and running reductions ---------------------------------------------------------------


NAN, INF = float("nan"), float("inf")


def test_sort_order() -> None:
    """NaN last in both directions, zeros of both signs equal, ties by position."""
    x = np.array([3, NAN, -0.0, 0.0, -INF, INF, -1, 3, NAN], np.float32)
    values, order = kernel("sort_lines", x)
    np.testing.assert_array_equal(order, [4, 6, 2, 3, 0, 7, 5, 1, 8])
    assert np.signbit(values[2]) and not np.signbit(values[3])
    np.testing.assert_array_equal(kernel("sort_lines", x, descending=True)[1],
                                  [5, 0, 7, 2, 3, 6, 4, 1, 8])


@pytest.mark.parametrize("dtype", lookup("sort_lines").dtypes, ids=str)
@pytest.mark.parametrize("n, first", [(1100, 1), (1500, 9), (4000, 500), (60, 5)])
def test_the_first_of_a_long_line(n: int, first: int, dtype: DType) -> None:
    """Few and many that are equal to the last one, and lines of one number and of NaN."""
    drawn = np.random.default_rng(n).standard_normal((4, n)) * 40
    drawn[1] = np.round(drawn[1] / 20)
    drawn[2] = 3
    if dtype.is_float:
        drawn[3, ::3] = np.nan
        drawn[0, 5:] = np.nan
    with np.errstate(invalid="ignore"):
        x = drawn.astype(dtype.numpy)
    for descending in (False, True):
        attrs = {"descending": descending, "first": first}
        want = reference(node_of(lookup("sort_lines"), [x], attrs), [x])
        got = kernel("sort_lines", x, **attrs)
        for one, other in zip(got, want, strict=True):
            assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("dtype", lookup("sort_lines").dtypes, ids=str)
@pytest.mark.parametrize("n", [1, 48, 49, 1000])
def test_sort_every_dtype(dtype: DType, n: int) -> None:
    """Both algorithms, all key widths, with the extremes of each dtype and many ties."""
    rng = np.random.default_rng(n)
    bits = rng.integers(0, 256, (5, n * dtype.itemsize), np.uint8)
    x = (bits[:, :n] & 1).view(np.bool_) if dtype.kind == "bool" else bits.view(dtype.numpy)
    x = np.where(rng.random(x.shape) < 0.5, x, x[:, :1])
    for descending in (False, True):
        want = reference(node_of(lookup("sort_lines"), [x], {"descending": descending}), [x])
        got = kernel("sort_lines", x, descending=descending)
        np.testing.assert_array_equal(got[1], want[1])
        assert got[0].tobytes() == np.ascontiguousarray(want[0]).tobytes()


@pytest.mark.parametrize(("shape", "axis", "left"), [
    ((3, 5), -1, (3, 0)), ((3, 5), 0, (0, 5)), ((0,), 0, (0,))])
def test_topk_of_none_sorts_nothing(shape: Ints, axis: int, left: Ints) -> None:
    """Empty values and positions, of an axis that may be empty, too."""
    graph = Graph("none")
    x = graph.add_input(TensorType(shape, dtypes.float16), "x")
    graph.outputs = list(sort.TopK().expand(Builder(graph), x, k=0, axis=axis, largest=True))
    assert not any(n.op == "sort_lines" for n in graph.nodes)
    values, positions = run(graph, [np.ones(shape, np.float16)])
    assert (values.shape, values.dtype) == (left, np.float16)
    assert (positions.shape, positions.dtype) == (left, np.int32)


def test_topk_of_ties() -> None:
    """The positions MindSpore 2.10 gives."""
    x = np.array([3, 2, 3, 1, 2, 3], np.float32)
    np.testing.assert_array_equal(apply("topk", x, k=4)[1], [0, 2, 5, 1])
    np.testing.assert_array_equal(apply("topk", x, k=4, largest=False)[1], [3, 1, 4, 0])


def test_cummax_of_ties_and_nan() -> None:
    """The positions MindSpore 2.10 gives."""
    ties = np.array([1, 3, 3, 1, 5, 5], np.float32)
    np.testing.assert_array_equal(kernel("cummax", ties)[1], [0, 1, 2, 2, 4, 5])
    values, order = kernel("cummax", np.array([1, NAN, 3, NAN, 1], np.float32))
    np.testing.assert_array_equal(values, [1, NAN, NAN, NAN, NAN])
    np.testing.assert_array_equal(order, [0, 1, 1, 1, 1])
    np.testing.assert_array_equal(
        kernel("cummin", np.array([-INF, 2, -INF], np.float32))[1], [0, 0, 2])


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin"])
@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16, dtypes.float64, dtypes.uint8,
                                   dtypes.int64], ids=str)
def test_cumulative_widths(name: str, dtype: DType) -> None:
    """Columns in whole vectors, in parts of one, and alone."""
    rng = np.random.default_rng(0)
    for shape, axis in (((6, 133), 0), ((3, 5, 2), 1), ((3, 70), 1)):
        x = rng.integers(1, 3, shape).astype(dtype.numpy)
        if name == "cumprod" and dtype.is_float:
            x = (x / 2).astype(dtype.numpy)
        node = node_of(lookup(name), [x], {"axis": axis})
        got = execute(plan_of(node), node, [x], host_target())
        for a, b in zip(got, reference(node, [x]), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("zeros", [(2,), (1, 4), (0, 1, 5)])
@pytest.mark.parametrize("attrs", [{}, {"exclusive": True}, {"reverse": True}])
def test_cumprod_gradient_at_zeros(zeros: tuple[int, ...], attrs: dict[str, bool]) -> None:
    x = np.array([1.5, -0.5, 2.0, 1.0, 3.0, -2.0])
    x[list(zeros)] = 0
    check_gradient(graph_of(lookup("cumprod"), [x], attrs), [x], order=1)


# --- random ------------------------------------------------------------------------------------


def test_philox_known_answers() -> None:
    """The vectors of Salmon et al. for Philox4x32-10."""
    zero = random.philox_words(np.zeros(2, np.uint64), np.arange(4))
    assert [int(w) for w in zero] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    counter = [np.array([w], np.uint64)
               for w in (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)]
    words = philox(counter, (0xA4093822, 0x299F31D0))
    assert [int(w[0]) for w in words] == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


def test_draws_have_their_distributions() -> None:
    key, n = np.array([7, 1], np.uint64), 40_000
    uniform = apply("random_uniform", key, shape=(n,))[0]
    assert uniform.min() >= 0 and uniform.max() < 1
    assert abs(float(uniform.mean()) - 0.5) < 0.01 and abs(float(uniform.var()) - 1 / 12) < 0.003
    normal = apply("random_normal", key, shape=(n,))[0].astype(np.float64)
    assert abs(normal.mean()) < 0.02 and abs(normal.std() - 1) < 0.02
    assert abs((normal**4).mean() - 3) < 0.2
    exponential = apply("random_exponential", key, shape=(n,))[0].astype(np.float64)
    assert abs(exponential.mean() - 1) < 0.03 and exponential.min() >= 0
    cut = apply("random_truncated_normal", key, shape=(2000,))[0].astype(np.float64)
    assert abs(cut).max() <= 2 and abs(cut.std() - 0.8796) < 0.04
    dice = apply("random_int", key, shape=(n,), low=1, high=7)[0]
    assert np.abs(np.bincount(dice, minlength=7)[1:] - n / 6).max() < 5 * np.sqrt(n / 6)
    assert abs(float(apply("random_bernoulli", key, shape=(n,), p=0.3)[0].mean()) - 0.3) < 0.01


def test_keys_give_unrelated_draws() -> None:
    a, b, c = (apply("random_bits", np.array(k, np.uint64), shape=(1000,))[0]
               for k in ((7, 0), (7, 1), (8, 0)))
    assert (a != b).mean() > 0.99 and (a != c).mean() > 0.99


def test_permutation_is_one() -> None:
    got = apply("random_permutation", np.array([1, 2], np.uint64), n=500)[0]
    assert sorted(got) == list(range(500)) and list(got) != list(range(500))


# --- contractions and windows --------------------------------------------------------------------


def test_matmul_broadcasts_batches() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 1, 3, 4), np.float32), rng.random((5, 6, 4), np.float32)
    got = kernel("matmul", a, b, transpose_b=True)[0]
    np.testing.assert_allclose(got, a @ b.swapaxes(1, 2), rtol=1e-5)


def test_convolution_against_its_definition() -> None:
    """One output element written out."""
    rng = np.random.default_rng(0)
    x, w = rng.random((2, 4, 6, 7)), rng.random((6, 2, 3, 2))
    got = apply("conv2d", x, w, stride=(2, 1), pads=(1, 0, 0, 2), dilation=(1, 2), groups=2)[0]
    want = sum(x[1, 2 + i, 2 * 1 + a - 1, 3 + 2 * b] * w[4, i, a, b]
               for i in range(2) for a in range(3) for b in range(2))
    np.testing.assert_allclose(got[1, 4, 1, 3], want)


def test_pools_against_mindspore() -> None:
    """Values MindSpore 2.10 gives for 0..15 in 4 x 4."""
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    _, at = kernel("max_pool2d", x, kernel=(2, 2), stride=(2, 2), indices=True)
    np.testing.assert_array_equal(at.ravel(), [5, 7, 13, 15])
    attrs = {"kernel": (3, 3), "stride": (2, 2), "pads": (1, 1, 1, 1), "ceil_mode": True}
    inner = kernel("avg_pool2d", x, **attrs, count_include_pad=False)[0]
    np.testing.assert_allclose(inner.ravel(), [2.5, 4, 5, 8.5, 10, 11, 12.5, 14, 15])
    whole = kernel("avg_pool2d", x, **attrs)[0]
    np.testing.assert_allclose(whole[0, 0, 0], [10 / 9, 8 / 3, 5 / 3], rtol=1e-6)
    ties = kernel("max_pool2d_backward", np.ones((1, 1, 4, 4), np.float32),
                  np.ones((1, 1, 2, 2), np.float32), kernel=(2, 2), stride=(2, 2))[0]
    np.testing.assert_array_equal(ties[0, 0, 0], [1, 0, 1, 0])


# --- errors --------------------------------------------------------------------------------------


F = np.ones((3, 4), np.float32)
ZEROS = np.zeros(2, np.int64)


@pytest.mark.parametrize(("name", "arrays", "attrs", "message"), [
    ("gather", [F, ZEROS], {"axis": 2}, "out of range"),
    ("gather", [np.ones((0, 2)), ZEROS], {"axis": 0}, "no elements"),
    ("gather", [F, ZEROS], {"axis": 0, "batch_dims": 1}, "equal leading"),
    ("gather_elements", [F, np.zeros((4, 5), np.int64)], {"dim": 0}, "no longer than it"),
    ("gather_nd", [F, np.zeros((2, 3), np.int64)], {}, "addresses up to 2 axes"),
    ("embedding", [F[0], ZEROS], {}, "2 dimensions"),
    ("scatter", [F, ZEROS, F], {"axis": 0}, r"needs updates of shape \(2, 4\), got \(3, 4\)"),
    ("scatter", [F, ZEROS, F[:2]], {"mode": "xor"}, "must be 'update' or"),
    ("scatter_nd", [F, np.zeros((2, 1), np.int64), F], {}, r"shape \(2, 4\), got \(3, 4\)"),
    ("topk", [F], {"k": 5}, "from 0 to 4"),
    ("sort", [np.float32(1)], {}, "at least 1 dimension"),
    ("reduce_any", [np.True_], {"axes": (1,)}, "axis 1 is out of range"),
    ("reduce_max", [np.float32(1)], {"axes": (0, 0)}, "an axis appears twice"),
    ("reduce_min", [F], {"axes": (0, 1), "first": True}, "one of a single axis"),
    ("cumsum", [F], {"axis": 2}, "out of range"),
    ("matmul", [F, F], {}, "inner dimensions 4 and 3 differ"),
    ("matmul", [F, F[0]], {}, "at least 2 dimensions"),
    ("conv2d", [np.ones((1, 3, 4, 4)), np.ones((2, 2, 3, 3))], {}, "weights of 3 input channels"),
    ("conv2d", [np.ones((1, 2, 2, 2)), np.ones((2, 2, 3, 3))], {}, "does not fit"),
    ("max_pool2d", [np.ones((1, 1, 2, 2))], {"kernel": (3, 3)}, "does not fit"),
    ("max_pool2d", [np.ones((1, 1, 0, 2))], {"kernel": (3, 3), "pads": (2, 2, 2, 2)},
     "does not fit 0 elements"),
    ("avg_pool2d", [np.ones((1, 1, 3, 0))], {"kernel": (3, 3), "pads": (2, 2, 2, 2)},
     "does not fit 0 elements"),
    ("max_pool2d", [np.ones((1, 1, 4, 4))], {"kernel": (1, 1), "pads": (1, 1, 1, 1)},
     "nothing but padding"),
    ("max_pool2d", [np.ones((1, 1, 4, 8))], {"kernel": (1, 5), "pads": (1, 0, 0, 0)},
     "nothing but padding"),
    ("avg_pool2d", [np.ones((1, 1, 4, 4))], {"kernel": (2, 2), "divisor": 0}, "must not be 0"),
    ("avg_pool2d_backward", [np.ones((1, 1, 2, 2))],
     {"kernel": (2, 2), "stride": (2, 2), "size": (4, 4), "divisor": 0}, "must not be 0"),
    ("adaptive_avg_pool2d", [np.ones((1, 1, 4, 4))], {"output_size": (0, 1)}, "each an int from 1"),
    ("conv2d_blocked", [np.ones((1, 1, 5, 5, 4)), np.ones((8, 4, 1, 1))],
     {"block": 4, "size": (5, 5), "spread": (2, 0)}, "each an int from 1"),
    ("conv2d_blocked", [np.ones((1, 1, 5, 5, 4)), np.ones((8, 4, 1, 1))],
     {"block": 4, "size": (5, 5), "stride": (1, -1)}, "each an int from 1"),
    ("micro_batch", [F], {"index": 0, "count": 3, "batches": 0}, "must be a positive int"),
    ("clamp", [ZEROS.astype(np.uint8)], {"min": -1}, "no number of uint8"),
    ("clamp", [ZEROS.astype(np.int8)], {"max": 128}, "no number of int8"),
    ("custom_kernel", [F], {"text": "def f(a):\n    return a\n", "line": 0}, "line"),
])
def test_value_errors(name: str, arrays: list[Array], attrs: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        graph_of(lookup(name), [np.asarray(a) for a in arrays], attrs)


@pytest.mark.parametrize(("name", "arrays", "attrs", "message"), [
    ("gather", [F, F], {}, "integer dtype"),
    ("scatter", [F, ZEROS, F[:2].astype(np.float64)], {}, "one dtype"),
    ("scatter", [F.astype(np.complex64), ZEROS, F[:2].astype(np.complex64)], {"mode": "max"},
     "does not take"),
    ("sort", [F.astype(np.complex64)], {}, "real numbers"),
    ("matmul", [F, F.astype(np.float64)], {}, "one dtype"),
    ("softmax_cross_entropy", [F, F.astype(np.float64)], {"axis": 1}, "one dtype"),
    ("matmul", [F > 0, F > 0], {}, "takes numbers"),
    ("random_bits", [ZEROS], {"shape": (2,)}, r"uint64\[2\]"),
    ("random_uniform", [np.zeros(2, np.uint64)], {"shape": (2,), "dtype": dtypes.int32},
     "draws float16"),
    ("max_pool2d", [np.ones((1, 1, 2, 2), np.int32)], {"kernel": (1, 1)}, "floating-point"),
])
def test_type_errors(name: str, arrays: list[Array], attrs: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        graph_of(lookup(name), [np.asarray(a) for a in arrays], attrs)
