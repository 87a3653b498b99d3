"""Memory of large results: dead blocks are used again, never twice at once, and within limits."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

import cellc as ms
from cellc import ops
from cellc_compiler.driver import compile_program
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.types import TensorType
from cellc_runtime import dtypes, loader
from cellc_runtime.executable import Executable
from cellc_runtime.knobs import DEFAULT_KEPT_MEMORY

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    gc.collect()
    loader._POOL.limit(0)
    loader._POOL.limit(DEFAULT_KEPT_MEMORY)
    yield
    loader._POOL.limit(DEFAULT_KEPT_MEMORY)


def zeros(*shape: int) -> ms.Tensor:
    return ms.Tensor(np.zeros(shape, np.float32))


def place(t: ms.Tensor) -> int:
    return int(t.asnumpy().ctypes.data)


def test_a_dead_result_serves_the_next() -> None:
    x = zeros(512, 512)
    first = ops.exp(x)
    at, (live, _) = place(first), loader._POOL.block_bytes()
    del first
    assert loader._POOL.block_bytes() == (live - MIB, MIB)
    again = ops.exp(x)
    assert place(again) == at
    assert loader._POOL.block_bytes() == (live, 0)
    other = ops.exp(x)
    assert place(other) != at


def test_results_that_live_are_never_shared() -> None:
    x = zeros(300, 300)
    held = [x + float(i) for i in range(40)]
    for i in range(0, 40, 3):
        held[i] = x + float(100 + i)
    spans = sorted(place(t) for t in held)
    assert all(b - a >= 300 * 300 * 4 for a, b in pairwise(spans))
    assert all(at % 64 == 0 for at in spans)
    for i, t in enumerate(held):
        assert (t.asnumpy() == (100 + i if i % 3 == 0 else i)).all()


def test_an_array_outlives_its_tensor_and_a_view_keeps_it() -> None:
    view = ops.exp(zeros(512, 512)).asnumpy()[3:5]
    others = [ops.exp(zeros(512, 512)) for _ in range(3)]
    assert all(o.asnumpy().ctypes.data != view.base.ctypes.data for o in others)
    assert (view == 1).all()


def test_a_block_much_too_large_is_left_alone() -> None:
    big = ops.exp(zeros(1024, 1024))
    at = place(big)
    del big
    assert place(ops.exp(zeros(512, 512))) != at


def test_limits() -> None:
    live = loader._POOL.block_bytes()[0]
    loader._POOL.limit(3 * MIB)
    held = [ops.exp(zeros(512, 512)) for _ in range(8)]
    del held
    assert loader._POOL.block_bytes() == (live, 3 * MIB)
    loader._POOL.limit(0)
    assert loader._POOL.block_bytes() == (live, 0)
    ops.exp(zeros(512, 512))
    assert loader._POOL.block_bytes() == (live, 0)


def test_arrays_can_be_resized_and_numpy_keeps_its_own_allocator() -> None:
    array = ops.exp(zeros(512, 512)).asnumpy()
    live, kept = loader._POOL.block_bytes()
    plain = np.empty((512, 512), np.float32)
    assert loader._POOL.block_bytes() == (live, kept)
    del plain
    array.flags.writeable = True
    array.resize((1024, 512), refcheck=False)
    assert (array[:512] == 1).all()
    assert loader._POOL.block_bytes()[0] == live + MIB


def test_small_results_stay_with_numpy() -> None:
    before = loader._POOL.block_bytes()
    held = ops.exp(zeros(10, 10))
    assert loader._POOL.block_bytes() == before
    del held


def test_at_the_end_of_the_process() -> None:
    """Arrays that die after every module."""
    code = ("import sys, numpy as np, cellc as ms; from cellc import ops;"
            "sys.kept = ops.exp(ms.Tensor(np.zeros((999, 99), np.float32))).asnumpy()")
    env = os.environ | {"CELLC_KEPT_MEMORY": "1M"}
    done = subprocess.run([sys.executable, "-c", code], env=env, check=False)
    assert done.returncode == 0


def test_outputs_past_the_caches_through_both_ways_of_calling() -> None:
    """Streamed stores need aligned memory, whoever allocates it; odd rows are not streamed."""
    for shape in ((2048, 4096), (2049, 4099)):
        x = np.linspace(-1, 1, shape[0] * shape[1], dtype=np.float32).reshape(shape)
        held = [np.asarray(f(a)) for f in (_twice(shape),) for a in (x, x[:, ::-1], x.T.copy().T)]
        np.testing.assert_array_equal(held[0], x + x)
        np.testing.assert_array_equal(held[1], (x + x)[:, ::-1])
        np.testing.assert_array_equal(held[2], x + x)


def _twice(shape: tuple[int, int]) -> Executable:
    graph = Graph("twice")
    x = graph.add_input(TensorType(shape, dtypes.float32), "x")
    b = Builder(graph)
    graph.outputs.append(b.add(x, x))
    return Executable(compile_program(graph))


def test_the_memory_of_a_call_is_known_before_it() -> None:
    program = _twice((64, 100)).program
    assert program.memory() == {
        "inputs": 25600, "parameters": 0, "outputs": 25600, "temporaries": program.arena_bytes,
        "kept": 0, "constants": 0, "code": program.image.size,
    }
