"""The matmul kernels against a plain scalar FMA loop, bit for bit, inside guard pages."""

from __future__ import annotations

import ctypes
import mmap
from functools import cache, reduce
from itertools import product
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from jit import Jitted, assembly, compile_text, machine

from cellc_compiler.backends.cpu.host.main import PARALLEL_CYCLES
from cellc_compiler.backends.cpu.kernels.gemm.arith import Arith, narrow
from cellc_compiler.backends.cpu.kernels.gemm.pack import ceil_div
from cellc_compiler.backends.cpu.kernels.gemm.plan import (
    Problem,
    block_bytes,
    canonical,
    panel_bytes,
    schedule,
)
from cellc_compiler.backends.cpu.kernels.gemm.product import Epilogue, MatmulSpec, matmul_kernels
from cellc_compiler.backends.llvm.text import Function, V, module
from cellc_compiler.lower.plan import Role, epilogue_operand, packed
from cellc_runtime import dtypes as dt
from cellc_runtime.records import replace
from cellc_runtime.target import AVX2, AVX512, NEON, TARGETS, Target, host_targets

Array = np.ndarray[Any, Any]
PAGE = mmap.PAGESIZE
CANARY = 0xA5
_LIBC = ctypes.CDLL(None, use_errno=True)


class Guarded:
    """Memory that ends at an unreadable page and begins after a canary."""

    def __init__(self, nbytes: int, align: int) -> None:
        self.nbytes = -(-nbytes // align) * align
        pages = -(-(self.nbytes + 256) // PAGE)
        self._map = mmap.mmap(-1, (pages + 1) * PAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        _LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        assert _LIBC.mprotect(base + pages * PAGE, PAGE, 0) == 0
        self.begin = pages * PAGE - self.nbytes
        self.bytes = np.frombuffer(self._map, np.uint8, pages * PAGE)
        self.bytes[: self.begin] = CANARY
        self.address = base + self.begin

    def array(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """The memory as an array."""
        count = int(np.prod(shape))
        flat = np.frombuffer(self._map, np.uint8, count * np.dtype(dtype).itemsize, self.begin)
        shaped: Array = flat.view(dtype).reshape(shape)
        return shaped

    def check(self) -> None:
        """No byte before the buffer was written."""
        assert (self.bytes[: self.begin] == CANARY).all()


def guarded(value: Array) -> tuple[Guarded, Array]:
    """A guarded copy of an array, aligned to its elements only."""
    g = Guarded(max(value.nbytes, 1), max(value.itemsize, 1))
    copy = g.array(value.shape, value.dtype)
    copy[...] = value
    return g, copy


# --- the reference ------------------------------------------------------------------------------


@cache
def scalar_loop(ty: str, parts: int, target: Target) -> Jitted:
    """bufs = (a [m][k], b [k][n], out [m][n], sizes): the chain over k, one element at a time."""
    f = Function("KERNEL", [("ptr", "bufs"), ("i64", "lo"), ("i64", "hi")], target)
    a, b, out, sizes = (f.load("ptr", f.gep(f.arg("bufs"), i, "ptr")) for i in range(4))
    m, n, k = (f.load("i64", f.gep(sizes, i, "i64")) for i in range(3))

    def at(base: V, i: V, width: V, j: V, part: int) -> V:
        return f.gep(base, f.add(f.mul(f.add(f.mul(i, width), j), f.i64(parts)), f.i64(part)), ty)

    def element(i: V, j: V) -> None:
        def step(t: V, acc: list[V]) -> list[V]:
            x = [f.load(ty, at(a, i, k, t, p)) for p in range(parts)]
            y = [f.load(ty, at(b, t, n, j, p)) for p in range(parts)]
            if parts == 1:
                return [f.fma(x[0], y[0], acc[0])]
            return [f.fma(f.fneg(x[1]), y[1], f.fma(x[0], y[0], acc[0])),
                    f.fma(x[1], y[0], f.fma(x[0], y[1], acc[1]))]

        acc = f.loop(0, k, 1, [f.const(ty, 0.0)] * parts, step)
        for p in range(parts):
            f.store(acc[p], at(out, i, n, j, p))

    f.loop(0, m, 1, [], lambda i, _: f.loop(0, n, 1, [], lambda j, _: element(i, j)) and None)
    f.ret_()
    return compile_text(module([f]), target=target)


def reference(a: Array, b: Array, target: Target) -> Array:
    """The product of two matrices by the law of the kernels, in accumulator precision."""
    if a.dtype.kind in "iu":
        product_: Array = np.matmul(a, b)
        return product_
    parts = 2 if a.dtype.kind == "c" else 1
    real = {"complex64": np.float32, "complex128": np.float64, "float64": np.float64}.get(
        a.dtype.name, np.float32)
    ty = "double" if real is np.float64 else "float"
    wide = np.result_type(real, np.complex64) if parts == 2 else real
    x, y = (np.ascontiguousarray(v.astype(wide)) for v in (a, b))
    out = np.zeros((a.shape[0], b.shape[1]), wide)
    sizes = np.array([a.shape[0], b.shape[1], a.shape[1]], np.int64)
    scalar_loop(ty, parts, target)([x, y, out, sizes], 0, 1)
    return out


# --- running a plan -----------------------------------------------------------------------------


def random(rng: np.random.Generator, shape: tuple[int, ...], dtype: dt.DType) -> Array:
    """Values of a dtype; integers over their whole range."""
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        return rng.integers(info.min, info.max, shape, dtype.numpy, endpoint=True)
    x = rng.standard_normal(shape)
    if dtype.is_complex:
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype.numpy)


def operands(spec: MatmulSpec) -> tuple[Array, Array]:
    """Stored A and B: `[matrices][rows][columns]`."""
    rng = np.random.default_rng(spec.m * 131 + spec.n * 17 + spec.k)

    def count(strides: tuple[int, ...]) -> int:
        return 1 + sum((d - 1) * s for d, s in zip(spec.batch, strides, strict=True))

    a = (spec.k, spec.m) if spec.trans_a else (spec.m, spec.k)
    b = (spec.n, spec.k) if spec.trans_b else (spec.k, spec.n)
    return (random(rng, (count(spec.a_batch_strides), *a), spec.dtype),
            random(rng, (count(spec.b_batch_strides), *b), spec.dtype))


def run(spec: MatmulSpec, target: Target, a: Array, b: Array, extra: tuple[Array, ...] = (),
        descending: bool = False) -> Array:
    """Run a plan task by task; checks that nothing outside the buffers was touched."""
    out_dtype = (spec.out_dtype or spec.dtype).numpy
    plan = matmul_kernels(spec, target)
    guards: dict[str | Role, Guarded] = {}
    out = np.ones((*spec.batch, spec.m, spec.n), out_dtype)
    arrays: dict[str | Role, Array] = {"a": a, "b": b, "out": out}
    arrays |= {epilogue_operand(i): x for i, x in enumerate(extra)}
    for role, x in arrays.items():
        guards[role], arrays[role] = guarded(x)
    guards |= {role: Guarded(size, 64) for role, size in plan.scratch.items()}
    for kernel, roles in plan.steps:
        assert len(roles) == kernel.buffers
        compiled = compile_text(kernel.code, target=target)
        table = (ctypes.c_void_p * len(roles))(*(guards[r].address for r in roles))
        tasks = range(kernel.ntasks)
        for t in reversed(tasks) if descending else tasks:
            compiled.entry(ctypes.addressof(table), t, t + 1)
    for g in guards.values():
        g.check()
    for role, before in (("a", a), ("b", b)):
        assert arrays[role].tobytes() == before.tobytes()
    return arrays["out"].copy()


def expected(spec: MatmulSpec, target: Target, a: Array, b: Array) -> Array:
    """What `run` must give, in accumulator precision."""
    out = []
    for index in np.ndindex(*spec.batch):
        ia = sum(i * s for i, s in zip(index, spec.a_batch_strides, strict=True))
        ib = sum(i * s for i, s in zip(index, spec.b_batch_strides, strict=True))
        x = a[ia].T if spec.trans_a else a[ia]
        y = b[ib].T if spec.trans_b else b[ib]
        step = spec.segment or spec.k or 1
        sums = [reference(x[:, at : at + step], y[at : at + step], target)
                for at in range(0, max(spec.k, 1), step)]
        out.append(reduce(np.add, sums, np.zeros_like(sums[0])) if spec.segment else sums[0])
    return np.array(out).reshape(*spec.batch, spec.m, spec.n)


def splits_k(spec: MatmulSpec, target: Target) -> bool:
    """Whether the spec is one of the documented exceptions to the plain chain."""
    text = "".join(k.code for k, _ in matmul_kernels(spec, target).steps)
    return "@dot" in text


def check(spec: MatmulSpec, target: Target) -> None:
    """Bits where the law is one chain, tolerance where it is split, on every element."""
    a, b = operands(spec)
    got = run(spec, target, a, b)
    want = expected(spec, target, a, b)
    if splits_k(spec, target) and not spec.dtype.is_integer:
        assert 1 in (spec.m, spec.n) or spec.batch
        wide = np.abs(a.astype(np.float64)).max() * np.abs(b.astype(np.float64)).max() * spec.k
        rtol = {2: 2e-2 if spec.dtype is dt.bfloat16 else 2e-3, 4: 1e-6, 8: 1e-14}
        tol = rtol[spec.dtype.itemsize] * wide
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), 0, tol)
    else:
        assert got.tobytes() == want.astype(got.dtype).tobytes()


HOST = host_targets()
SHAPES = [
    (1, 1, 1), (1, 1, 40), (1, 37, 5), (1, 300, 129), (300, 1, 129), (257, 1, 7), (2, 3, 4),
    (3, 5, 0), (5, 33, 1), (4, 64, 64), (7, 100, 33), (16, 48, 17), (13, 31, 29), (33, 65, 70),
    (64, 64, 64), (70, 10, 45), (129, 35, 66), (45, 130, 530),
]


@pytest.mark.parametrize("target", HOST, ids=lambda t: t.name)
@pytest.mark.parametrize("trans", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_float32_is_the_scalar_chain(shape: tuple[int, int, int], trans: tuple[bool, bool],
                                     target: Target) -> None:
    m, n, k = shape
    check(MatmulSpec(m, n, k, dt.float32, trans_a=trans[0], trans_b=trans[1]), target)


@pytest.mark.parametrize("target", HOST, ids=lambda t: t.name)
@pytest.mark.parametrize("trans", [(False, False), (True, True)])
@pytest.mark.parametrize("dtype", [d for d in dt.ALL if d is not dt.bool_], ids=lambda d: d.name)
def test_every_dtype(dtype: dt.DType, trans: tuple[bool, bool], target: Target) -> None:
    for m, n, k in [(1, 19, 70), (19, 1, 70), (9, 21, 35), (3, 40, 5), (50, 37, 41)]:
        spec = MatmulSpec(m, n, k, dtype, trans_a=trans[0], trans_b=trans[1])
        check(spec, target)


@pytest.mark.parametrize("target", HOST, ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", [dt.float32, dt.float16, dt.complex64, dt.float64, dt.int16])
def test_segments_of_k_are_chains_that_are_added_in_order(dtype: dt.DType, target: Target) -> None:
    for m, n, k, segment in ((1, 19, 70, 32), (3, 5, 128, 64), (40, 70, 1201, 384), (7, 33, 65, 32),
                             (50, 37, 1500, 192)):
        for trans_a, trans_b in ((False, False), (True, True), (False, True)):
            for constant in (False, True):
                check(MatmulSpec(m, n, k, dtype, trans_a=trans_a, trans_b=trans_b, segment=segment,
                                 b_constant=constant), target)


@pytest.mark.parametrize("dtype", [dt.float32, dt.float16, dt.bfloat16, dt.complex64, dt.int8])
def test_blocks_of_k_carry_exact_accumulators(dtype: dt.DType) -> None:
    target = HOST[0]
    spec = MatmulSpec(40, 70, 1201, dtype, trans_b=True)
    blocked = [k for k, _ in matmul_kernels(spec, target).steps if "%first" in k.code]
    assert blocked
    check(spec, target)


@pytest.mark.parametrize("target", HOST)
def test_tiles_that_fetch_the_next_panel(target: Target) -> None:
    for trans_b, constant in ((True, False), (True, True), (False, True)):
        for m, n, k in ((70, 200, 130), (170, 460, 401)):
            spec = MatmulSpec(m, n, k, dt.float32, trans_b=trans_b, b_constant=constant)
            assert "llvm.prefetch" in matmul_kernels(spec, target).steps[-1][0].code
            check(spec, target)


def test_larger_problem_with_shared_panels_and_copied_blocks() -> None:
    for trans_a, trans_b in ((False, False), (True, False), (False, True)):
        spec = MatmulSpec(270, 260, 1024, dt.float32, trans_a=trans_a, trans_b=trans_b,
                          b_constant=True)
        plan = matmul_kernels(spec, HOST[0])
        assert packed("b") in plan.scratch and plan.steps[-1][0].ntasks > 4
        check(spec, HOST[0])


@pytest.mark.parametrize("m", [1, 6])
def test_few_rows_by_many_weights_are_shared_by_threads(m: int) -> None:
    spec = MatmulSpec(m, 768, 256, dt.float32, trans_b=True, b_constant=True)
    product = matmul_kernels(spec, HOST[0]).steps[-1][0]
    assert product.ntasks > 1 and product.cost > PARALLEL_CYCLES
    few = matmul_kernels(replace(spec, m=1, n=128), HOST[0]).steps[-1][0]
    assert few.ntasks == 1
    check(spec, HOST[0])


@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize(
    ("batch", "sa", "sb"),
    [((3,), (1,), (1,)), ((3,), (0,), (1,)), ((3,), (1,), (0,)), ((2, 3), (3, 1), (0, 1)),
     ((2, 3), (1, 0), (3, 1)), ((2, 1, 3), (3, 3, 1), (0, 0, 0)), ((0, 2), (2, 1), (2, 1))],
)
def test_batches(batch: tuple[int, ...], sa: tuple[int, ...], sb: tuple[int, ...],
                 trans_b: bool) -> None:
    for m, n, k in ((5, 19, 23), (1, 19, 70), (19, 1, 70), (60, 40, 33)):
        spec = MatmulSpec(m, n, k, dt.float32, batch, sa, sb, trans_b=trans_b)
        check(spec, HOST[0])


def test_many_small_matrices_share_tasks() -> None:
    spec = MatmulSpec(8, 8, 8, dt.float32, (500,), (1,), (1,))
    (kernel, _), = matmul_kernels(spec, HOST[0]).steps
    assert kernel.ntasks < 64
    check(spec, HOST[0])


def test_constant_b_is_packed_and_changes_no_bit() -> None:
    for shape in ((4, 100, 70), (1, 100, 70), (40, 30, 70)):
        for trans_b in (False, True):
            spec = MatmulSpec(*shape, dt.float32, trans_b=trans_b)
            constant = replace(spec, b_constant=True)
            a, b = operands(spec)
            got = run(constant, HOST[0], a, b)
            assert got.tobytes() == run(spec, HOST[0], a, b).tobytes()
            if not splits_k(spec, HOST[0]):
                assert packed("b") in matmul_kernels(constant, HOST[0]).scratch


def test_order_of_tasks_does_not_matter() -> None:
    spec = MatmulSpec(150, 150, 150, dt.float32)
    a, b = operands(spec)
    assert matmul_kernels(spec, HOST[0]).steps[-1][0].ntasks > 1
    up, down = (run(spec, HOST[0], a, b, descending=d) for d in (False, True))
    assert up.tobytes() == down.tobytes()


def test_special_values_pass_through() -> None:
    a = np.array([[np.inf, 1.0, np.nan], [-0.0, 0.0, 0.0]], np.float32)
    b = np.array([[1.0, 0.0], [1.0, 2.0], [1.0, 3.0]], np.float32)
    for dtype in (dt.float32, dt.float16, dt.bfloat16):
        x, y = a.astype(dtype.numpy)[None], b.astype(dtype.numpy)[None]
        got = run(MatmulSpec(2, 2, 3, dtype), HOST[0], x, y).astype(np.float32)
        np.testing.assert_array_equal(got, np.array([[np.nan, np.nan], [0.0, 0.0]], np.float32))


# --- epilogues ----------------------------------------------------------------------------------


def bias_relu_residual(f: Function, acc: V, row: V, col: V, lanes: int, mask: V | None) -> V:
    """max(acc + bias[col], 0) + residual[row][col], by separate roundings; n is 37."""
    ty = acc.ty

    def read(index: int, at: V) -> V:
        ptr = f.gep(Epilogue.operand(f, index), at, "float")
        return f.load(ty, ptr) if mask is None else f.masked_load(ty, ptr, mask, f.zero(ty))

    y = f.add(acc, read(0, col))
    y = f.select(f.cmp("olt", y, f.zero(ty)), f.zero(ty), y)
    n = f.load("i64", Epilogue.operand(f, 2))
    return f.add(y, read(1, f.add(f.mul(row, n), col)))


@pytest.mark.parametrize("target", HOST, ids=lambda t: t.name)
@pytest.mark.parametrize("shape", [(1, 37, 50), (21, 37, 20), (21, 1, 70), (30, 37, 1300)], ids=str)
@pytest.mark.parametrize("trans", [(False, False), (False, True), (True, False)])
def test_epilogue_sees_rows_columns_and_masks(shape: tuple[int, int, int],
                                              trans: tuple[bool, bool], target: Target) -> None:
    m, n, k = shape
    plain = MatmulSpec(m, n, k, dt.float32, (2,), (1,), (1,), trans_a=trans[0], trans_b=trans[1])
    a, b = operands(plain)
    rng = np.random.default_rng(5)
    bias = rng.standard_normal(n).astype(np.float32)
    residual = rng.standard_normal((2, m, n)).astype(np.float32)
    spec = replace(plain, epilogue=Epilogue("bias-relu-residual", bias_relu_residual, 3))
    got = run(spec, target, a, b, (bias, residual, np.array([n])))
    want = np.maximum(run(plain, target, a, b) + bias, np.float32(0)) + residual
    assert got.tobytes() == want.tobytes()


def test_epilogue_of_low_precision_rounds_where_the_separate_ops_do() -> None:
    def half_then_double(f: Function, acc: V, row: V, col: V, lanes: int, mask: V | None) -> V:
        rounded = narrow(f, acc, dt.float16, dt.float16)
        return f.add(rounded, rounded)

    plain = MatmulSpec(11, 21, 50, dt.float16)
    a, b = operands(plain)
    got = run(replace(plain, epilogue=Epilogue("double", half_then_double)), HOST[0], a, b)
    twice = run(plain, HOST[0], a, b)
    assert got.tobytes() == (twice + twice).tobytes()


def test_wider_output_types() -> None:
    for dtype, out in ((dt.int8, dt.int32), (dt.uint8, dt.int64), (dt.float16, dt.float32),
                       (dt.float32, dt.bfloat16)):
        spec = MatmulSpec(9, 20, 30, dtype, out_dtype=out)
        a, b = operands(spec)
        wide = (out if dtype.is_integer else dt.float32).numpy
        want = expected(spec, HOST[0], a.astype(wide), b.astype(wide)).astype(out.numpy)
        assert run(spec, HOST[0], a, b).tobytes() == want.tobytes()


def test_bool_and_mixed_complex_are_refused() -> None:
    with pytest.raises(TypeError, match="not defined for Bool"):
        matmul_kernels(MatmulSpec(2, 2, 2, dt.bool_), AVX2)
    with pytest.raises(TypeError, match="cannot produce Float32"):
        matmul_kernels(MatmulSpec(2, 2, 2, dt.complex64, out_dtype=dt.float32), AVX2)
    with pytest.raises(ValueError, match="one stride"):
        MatmulSpec(2, 2, 2, dt.float32, batch=(3,))


def test_schedules_fit_the_stack() -> None:
    rows_of = (1, 3, 27, 128, 1000, 4096)
    for target, dtype, m in product(TARGETS.values(), (dt.float32, dt.float16, dt.complex128),
                                    rows_of):
        arith = Arith.of(dtype, dtype, target)
        for n, k, trans in product((3, 100, 4096), (1, 500, 5000), (False, True)):
            p = canonical(Problem((), (), (), m, n, k, trans, trans))
            s = schedule(p, arith, target, False)
            rows = ceil_div(ceil_div(p.m, s.rows), s.row_groups) * s.rows
            stack = block_bytes(p, arith, rows, s.kc)[0] if s.pack_a == "local" else 0
            stack += panel_bytes(arith, s.width, s.kc) if s.pack_b == "local" else 0
            assert stack <= 256 << 10
            assert 1 <= s.ntasks <= p.matrices * s.row_groups * s.col_groups


# --- code ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64, dt.bfloat16, dt.float16, dt.int8])
def test_objects_emit_for_every_target(dtype: dt.DType, target: Target) -> None:
    for shape, trans in (((30, 50, 40), False), ((1, 50, 70), True), ((5, 300, 90), True)):
        for kernel, _ in matmul_kernels(MatmulSpec(*shape, dtype, trans_b=trans), target).steps:
            emitted = machine(target).emit_object(llvm.parse_assembly(kernel.code))
            assert emitted[:4] == b"\x7fELF"


def inner_loop(text: str, function: str) -> list[str]:
    """The instructions of the longest innermost loop of a function."""
    lines = text.split(f"\n{function}:")[1].split("\n.Lfunc_end")[0].splitlines()
    at = {line.split(":")[0]: i for i, line in enumerate(lines) if line.startswith(".L")}
    best: list[str] = []
    for i, line in enumerate(lines):
        words = line.replace(",", " ").split()
        target = words[-1] if words else ""
        if target in at and at[target] < i and i - at[target] > len(best):
            best = [x.strip() for x in lines[at[target] : i]]
    return best


@pytest.mark.parametrize("target", [AVX512, AVX2, NEON], ids=lambda t: t.name)
@pytest.mark.parametrize(
    "shape", [(512, 512, 512), (128, 1024, 784), (8, 1024, 784), (1, 512, 512)], ids=str)
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64, dt.float16, dt.bfloat16])
def test_inner_loops_do_not_touch_the_stack(shape: tuple[int, int, int], target: Target,
                                            dtype: dt.DType) -> None:
    kernel, _ = matmul_kernels(MatmulSpec(*shape, dtype), target).steps[-1]
    text = assembly(kernel.code, target)
    names = {x.split("(")[0] for x in kernel.code.split("@tile_")[1:]}
    assert names
    for name in names:
        loop = inner_loop(text, f"tile_{name}")
        assert sum("fma" in x or "fmla" in x for x in loop) >= 4
        assert not [x for x in loop if "sp" in x.replace(",", " ").replace("[", " ").replace(
            "(", " ").replace(")", " ").replace("]", " ").replace("%r", "").split()]


def test_matrices_of_a_batch_are_one_only_where_their_rows_follow_one_another() -> None:
    """A column of each matrix is no row of the next."""
    rows = Problem((3,), (1,), (0,), 5, 4, 6, False, False)
    assert (canonical(rows).batch, canonical(rows).m) == ((), 15)
    columns = replace(rows, trans_a=True)
    assert (canonical(columns).batch, canonical(columns).m) == ((3,), 5)


def test_sums_and_products_of_constants_are_folded() -> None:
    f = Function("f", [("i64", "n"), ("float", "x")], host_targets()[0])
    n, x = f.arg("n"), f.arg("x")
    assert f.add(f.i64(2), f.i64(3)).ref == "5" and f.add(n, f.i64(0)) is n
    assert f.mul(f.i64(2), f.i64(3)).ref == "6" and f.mul(n, f.i64(1)) is n
    assert f.sub(n, f.i64(0)) is n and f.add(x, x).ref != x.ref
