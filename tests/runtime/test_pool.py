"""The thread pool: every task once, any number of threads, nested, concurrent, after a fork."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from helpers import mark_kernel, parallel_main, parallel_program

import cellc_runtime
from cellc_compiler.backends.cpu.image import build_image
from cellc_compiler.backends.llvm.text import Function, V, module
from cellc_runtime import dtypes
from cellc_runtime.executable import Executable
from cellc_runtime.program import Program, Slot
from cellc_runtime.target import host_target


def expected(n: int, regions: int = 1) -> np.ndarray:
    return regions * np.arange(1, n + 1)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize(("ntasks", "grain"), [(1, 1), (7, 1), (1000, 3), (64, 64), (65, 64)])
def test_each_task_runs_once(threads: int, ntasks: int, grain: int) -> None:
    cellc_runtime.set_num_threads(threads)
    out = Executable(parallel_program(ntasks, grain, 5)).entry()
    np.testing.assert_array_equal(out, expected(ntasks, 5))


def test_many_regions_with_changing_threads() -> None:
    exe = Executable(parallel_program(257, 4, 300))
    for threads in (2, 4, 1, 3, 2, 5, 2):
        cellc_runtime.set_num_threads(threads)
        for _ in range(10):
            np.testing.assert_array_equal(exe.entry(), expected(257, 300))


def test_workers_really_help() -> None:
    cellc_runtime.set_num_threads(3)
    Executable(parallel_program(1000, 1, 1000)).entry()
    assert len(os.listdir("/proc/self/task")) > 1


def test_two_images_share_one_pool() -> None:
    cellc_runtime.set_num_threads(2)
    Executable(parallel_program(100, 1, 3)).entry()
    before = len(os.listdir("/proc/self/task"))
    for n in (101, 102, 103):
        np.testing.assert_array_equal(
            Executable(parallel_program(n, 1, 3)).entry(), expected(n, 3)
        )
    assert len(os.listdir("/proc/self/task")) == before


def test_concurrent_callers() -> None:
    cellc_runtime.set_num_threads(3)
    exe = Executable(parallel_program(500, 1, 200))
    wrong: list[int] = []

    def run() -> None:
        for _ in range(20):
            if not (exe.entry() == expected(500, 200)).all():
                wrong.append(1)

    callers = [threading.Thread(target=run) for _ in range(4)]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert not wrong


def test_a_region_inside_a_region_runs_inline() -> None:
    target = host_target()
    outer = Function("KERNEL", [("ptr", "bufs"), ("i64", "lo"), ("i64", "hi")], target)
    outer.declares |= {"declare hidden void @mark(ptr, i64, i64)",
                       "declare hidden void @cellc_parallel_for(ptr, ptr, i64, i64)"}  # fmt: skip
    data = outer.load("ptr", outer.arg("bufs"))
    inner = outer.alloca(8)

    def body(i: V, _: list[V]) -> None:
        outer.store(outer.gep(data, outer.mul(i, outer.i64(10)), "i64"), inner)
        outer.line(f"call void @cellc_parallel_for(ptr @mark, {inner}, i64 10, i64 1)")

    outer.loop(outer.arg("lo"), outer.arg("hi"), 1, [], body)
    outer.ret_()
    main = parallel_main(500, 1, target).replace("ptr @mark", "ptr @outer")
    main = main.replace("i64 500, i64 1)", "i64 50, i64 1)").replace("@mark(", "@outer(")
    image = build_image(
        main, [("outer", module([outer])), ("mark", mark_kernel(target))], target
    )
    program = Program("nested", target.name, (Slot("o", dtypes.int64, (500,), "output"),), image)
    cellc_runtime.set_num_threads(3)
    exe = Executable(program)
    for _ in range(50):
        np.testing.assert_array_equal(exe.entry(), np.tile(np.arange(1, 11), 50))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_gets_its_own_pool() -> None:
    cellc_runtime.set_num_threads(3)
    exe = Executable(parallel_program(500, 1, 50))
    exe.entry()
    child = os.fork()
    if child == 0:
        good = all((exe.entry() == expected(500, 50)).all() for _ in range(5))
        cellc_runtime.set_num_threads(2)
        good = good and (exe.entry() == expected(500, 50)).all()
        os._exit(0 if good and len(os.listdir("/proc/self/task")) > 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(exe.entry(), expected(500, 50))


@pytest.mark.parametrize("count", [0, -1, 5000])
def test_impossible_numbers_of_threads(count: int) -> None:
    with pytest.raises(ValueError, match="between 1 and 1024"):
        cellc_runtime.set_num_threads(count)


@pytest.mark.parametrize("count", [1.5, "2", None, True])
def test_numbers_of_threads_are_ints(count: Any) -> None:
    with pytest.raises(TypeError, match="must be an int, got"):
        cellc_runtime.set_num_threads(count)
