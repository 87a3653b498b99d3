"""One program of an elementwise op for all shapes: the bits of the programs for certain shapes."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc.core import dispatch
from cellc_compiler import driver
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.op import all_ops
from cellc_compiler.ir.types import TensorType
from cellc_runtime import dtypes, shape_polymorphic
from cellc_runtime.errors import ArtifactError
from cellc_runtime.executable import Executable
from cellc_runtime.program import Program
from cellc_runtime.records import replace
from cellc_runtime.shape_polymorphic import COLUMN, ONE, ROW, WHOLE

F32 = np.dtype(np.float32)
SHAPES: list[tuple[int, ...]] = [
    (), (1,), (3,), (16,), (17,), (67,), (4, 8), (3, 5, 7), (2, 0, 3), (1, 1), (129, 33), (70001,),
]


@pytest.fixture(autouse=True)
def _pynative() -> Any:
    mode = ms.get_context("mode")
    ms.set_context(mode=ms.PYNATIVE_MODE)
    yield
    ms.set_context(mode=mode)


def _drawn(shape: tuple[int, ...], dtype: Any = F32, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed + sum(shape))
    if dtype == np.bool_:
        return rng.random(shape) > 0.5
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    return (3 * rng.standard_normal(shape)).astype(dtype)


def _certain(op: str, cases: list[tuple[Any, ...]], attrs: dict[str, Any]) -> list[Any]:
    """The results by one program for exactly these shapes."""
    graph = Graph("certain")
    b, given = Builder(graph), []
    for case in cases:
        types = [TensorType(a.shape, dtypes.from_numpy(a.dtype)) for a in case]
        inputs = [graph.add_input(t, f"x{len(graph.inputs)}") for t in types]
        graph.outputs.append(b.emit(op, *inputs, **attrs))
        given += case
    return Executable(driver.compile_program(graph)).call(given)


def _any(op: str, case: tuple[Any, ...], attrs: dict[str, Any]) -> Executable:
    broadcasts = shape_polymorphic.broadcasts([a.shape for a in case])
    assert broadcasts is not None
    program = driver.compile_shape_polymorphic(
        op, [dtypes.from_numpy(a.dtype) for a in case], broadcasts, attrs)
    assert program is not None and program.broadcasts == broadcasts
    return Executable(Program.from_bytes(program.to_bytes()))


def _equal(a: Any, b: Any) -> None:
    assert a.shape == b.shape and a.dtype == b.dtype
    same = (a == b) | ((a != a) & (b != b))
    assert np.all(same) and np.array_equal(np.signbit(a[same]), np.signbit(b[same]))


@pytest.mark.parametrize("op, dtype, attrs", [
    ("tanh", "f2", {}), ("gelu", "f4", {"approximate": "tanh"}),
    ("clamp", "f8", {"min": -1.0, "max": 2.0}), ("cast", "f4", {"dtype": dtypes.int8}),
    ("logical_not", "?", {}), ("neg", "i2", {}),
])  # fmt: skip
def test_one_operand(op: str, dtype: str, attrs: dict[str, Any]) -> None:
    cases = [(_drawn(s, np.dtype(dtype)),) for s in SHAPES]
    run = _any(op, cases[0], attrs)
    for case, wanted in zip(cases, _certain(op, cases, attrs), strict=True):
        _equal(run.call(case)[0], wanted)
        _equal(run.entry(*case), wanted)


OVER: dict[tuple[int, ...], list[tuple[tuple[int, ...], ...]]] = {
    (WHOLE, WHOLE): [(s, s) for s in SHAPES] + [((5,), (1, 5)), ((1, 1, 7), (7,))],
    (WHOLE, ONE): [((3, 5), ()), ((70,), (1,)), ((2, 0), ()), ((3, 40000), (1, 1))],
    (ONE, WHOLE): [((), (3, 5)), ((1, 1), (4, 33))],
    (WHOLE, ROW): [((3, 5), (5,)), ((2, 3, 17), (3, 17)), ((2, 3, 4), (1, 1, 4)), ((0, 3), (3,)),
                   ((5, 0), (0,)), ((4000, 33), (33,)), ((2, 90000), (90000,))],
    (ROW, WHOLE): [((5,), (3, 5)), ((1, 64), (9, 64))],
    (WHOLE, COLUMN): [((3, 5), (3, 1)), ((2, 3, 17), (2, 1, 1)), ((2, 3, 4), (2, 3, 1)),
                      ((4, 0), (4, 1)), ((3, 40000), (3, 1))],
}


@pytest.mark.parametrize("op, dtype", [("pow", "f4"), ("lt", "i8")])
def test_two_operands(op: str, dtype: str) -> None:
    flat = [(broadcasts, pair) for broadcasts, pairs in OVER.items() for pair in pairs]
    cases = [tuple(abs(_drawn(s, np.dtype(dtype), k)) for k, s in enumerate(pair))
             for _, pair in flat]
    wanted = _certain(op, cases, {})
    runs: dict[Any, Executable] = {}
    for (broadcasts, pair), case, want in zip(flat, cases, wanted, strict=True):
        found = shape_polymorphic.broadcasts(pair)
        assert found == broadcasts or want.size <= 1, pair
        if broadcasts not in runs:
            runs[broadcasts] = _any(op, case, {})
            assert runs[broadcasts].program.broadcasts == broadcasts
        _equal(runs[broadcasts].entry(*case), want)
        _equal(runs[broadcasts].call(case)[0], want)


def test_three_operands() -> None:
    shapes: list[tuple[tuple[int, ...], ...]] = [
        ((3, 5), (5,), ()), ((3, 5), (5,), (1,)), ((7, 33), (33,), ())]
    cases = [(_drawn(c, np.bool_), _drawn(x), _drawn(y)) for c, x, y in shapes]
    run = _any("where", cases[0], {})
    for case in cases:
        _equal(run.entry(*case), np.where(*case))


def test_ways() -> None:
    assert shape_polymorphic.broadcasts([(4, 1), (1, 5)]) is None  # neither has the result's shape
    assert shape_polymorphic.broadcasts([(2, 3, 4), (3, 1)]) is None  # neither rows nor columns
    # Rows are cut in two ways.
    assert shape_polymorphic.broadcasts([(2, 3, 4), (4,), (2, 1, 1)]) is None
    assert shape_polymorphic.broadcasts([(2, 3), (4,)]) is None
    assert shape_polymorphic.broadcasts([]) is None
    assert shape_polymorphic.measure((WHOLE, ROW), [(2, 3), (3,)]) == ((2, 3), 2, 3)
    assert shape_polymorphic.measure((WHOLE, ROW), [(3,), (2, 3)]) is None
    assert shape_polymorphic.measure((ONE,), [()]) is None


def test_what_does_not_lie_so_is_refused() -> None:
    """By native code, which leaves it to Python, and by Python with what is wrong."""
    run = _any("add", (_drawn((3, 5)), _drawn((5,))), {})
    shapes = [(), (1,), (5,), (3, 1), (3, 5), (2, 3, 5), (1, 5), (0, 5), (3, 0)]
    for one, other in itertools.product(shapes, shapes):
        x, y = _drawn(one), _drawn(other)
        if shape_polymorphic.measure((WHOLE, ROW), [one, other]) is not None:
            _equal(run.entry(x, y), x + y)
            continue
        with pytest.raises(ValueError, match="shapes"):
            run.entry(x, y)
    with pytest.raises(TypeError, match="float32"):
        run.entry(_drawn((3, 5), np.float64), _drawn((5,)))
    with pytest.raises(TypeError, match="takes 2 arguments"):
        run.entry(_drawn((3, 5)))


def test_unusual_arrays() -> None:
    run = _any("add", (_drawn((3, 5)), _drawn((5,))), {})
    x, y = _drawn((10, 6))[::2, 1:], _drawn((5,)).astype(">f4")
    _equal(run.entry(x, y), (x + y).astype(F32))


def test_a_damaged_program_is_refused() -> None:
    program = _any("add", (_drawn((3, 5)), _drawn((5,))), {}).program
    for change in (
        {"broadcasts": (WHOLE, WHOLE)}, {"broadcasts": (WHOLE,)}, {"broadcasts": (WHOLE, 4)},
        {"constants": program.constants[:8]}, {"constants": bytes(16)}, {"arena_bytes": 64},
    ):
        with pytest.raises(ArtifactError, match=r"any sizes|do not lie over the result"):
            replace(program, **change)


NEW_SHAPES = """
import numpy as np
import cellc as ms
from cellc import ops
from cellc.core import dispatch
from cellc_compiler import driver

ms.set_context(mode=ms.PYNATIVE_MODE)
rng = np.random.default_rng(0)

def drawn(*shape):
    return (3 * rng.standard_normal(shape)).astype(np.float32)

def no(*args, **kwargs):
    raise AssertionError("compiled again")

x, b = ms.Tensor(drawn(4, 6)), ms.Tensor(drawn(6))
for _ in range(20):  # a kind of call that came a few times before is learnt at the 17th
    [ops.exp(x), x + x, x * b, x > 0.5, x.astype(ms.float64)]
driver.compile_program = driver.compile_shape_polymorphic = no
if dispatch.routed():
    dispatch._engine[:] = []
for n in range(7, 40, 3):
    x, b = ms.Tensor(drawn(3, n)), ms.Tensor(drawn(n))
    a, c = x.asnumpy(), b.asnumpy()
    got = [x + x, x * b, x > 0.5, x.astype(ms.float64)]
    for t, want in zip(got, [a + a, a * c, a > 0.5, a.astype(np.float64)], strict=True):
        assert t.asnumpy().dtype == want.dtype
        assert t.asnumpy().tobytes() == want.tobytes()
    assert ops.exp(x).shape == x.shape
print("right")
"""


def test_new_shapes_need_no_compiler() -> None:
    """Nor, where there are native sites, the engine. In a process of its own: one that has run many
    tests may have learnt all the cases that a function keeps."""
    done = subprocess.run([sys.executable, "-c", NEW_SHAPES], capture_output=True, text=True)
    assert done.stdout == "right\n", done.stderr


def test_gradients_of_new_shapes() -> None:
    """A recording follows what a native site answers for a shape that it has not seen."""
    both = ms.value_and_grad(lambda x, y: (x * y).sum(), (0, 1))
    for n in (3, 4, 9):
        x, y = ms.Tensor(_drawn((n,))), ms.Tensor(_drawn((n,), seed=5))
        _, (dx, dy) = both(x, y)
        _equal(dx.asnumpy(), y.asnumpy())
        _equal(dy.asnumpy(), x.asnumpy())


def test_errors_show_the_shapes_that_came() -> None:
    with pytest.raises((ValueError, TypeError), match=r"3.*4"):
        ms.Tensor(_drawn((2, 3))) + ms.Tensor(_drawn((2, 4)))


def test_large_results_have_programs_of_their_own() -> None:
    n = shape_polymorphic.LIMIT
    run = _any("neg", (_drawn((3,), np.int8),), {})
    x = np.ones(n, np.int8)
    _equal(run.entry(x[: n - 1]), -x[: n - 1])
    _equal(run.entry(x), -x)  # by the slow way; PyNative compiles it for its size
    engine = dispatch._engine[0]
    ms.Tensor(x) + ms.Tensor(x)
    key = next(k for k in engine.entries if k[0] == "add" and (n,) in [s for s, _ in k[2]])
    assert not engine.entries[key].executable.program.broadcasts


def test_from_several_threads() -> None:
    """Sizes belong to the call."""
    run = _any("exp", (_drawn((3,)),), {})
    failed: list[int] = []

    def work(seed: int) -> None:
        for n in range(1, 4000, 97):
            x = np.full(n * seed, seed, F32)
            if np.any(run.entry(x) != run.entry(x[:1])[0]):
                failed.append(n)

    threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


def test_every_elementwise_op_says_so_truly() -> None:
    """An op that is called elementwise gives the broadcast shape of its operands."""
    for op in all_ops():
        if not op.elementwise:
            continue
        for sample in op.samples():
            shapes = [o.shape for o in sample.operands]
            dtype = dtypes.float32 if dtypes.float32 in op.dtypes else op.dtypes[0]
            types = [TensorType(o.shape, dtypes.from_numpy(o.dtype) if isinstance(o, np.ndarray)
                                else o.dtype or dtype) for o in sample.operands]
            out = op.infer(*types, **op.complete(sample.attrs))
            assert isinstance(out, TensorType) and out.shape == np.broadcast_shapes(*shapes), op
