"""Calling programs: the native entry and the Python path, wrong arguments, bound parameters."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from helpers import (
    add_program,
    callback_program,
    error_program,
    update_program,
)

from cellc_runtime import fastcall
from cellc_runtime.errors import RunError, RunIndexError
from cellc_runtime.executable import Executable


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


A, B = np.arange(8, dtype=np.float32), np.full(8, 2, np.float32)


@pytest.fixture(scope="module")
def add() -> Executable:
    return Executable(add_program())


def test_native_entry_is_used_and_equals_the_python_path(add: Executable) -> None:
    assert fastcall.supported()
    assert type(add.entry).__name__ == "builtin_function_or_method"
    np.testing.assert_array_equal(add.entry(A, B), A + B)
    np.testing.assert_array_equal(add.call([A, B])[0], A + B)
    assert add.entry(A, B).flags.owndata


@pytest.mark.parametrize(
    "odd",
    [np.arange(16, dtype=np.float32)[::2], np.arange(8, dtype=">f4"),
     np.frombuffer(b"\0" + np.arange(8, dtype="f4").tobytes(), "f4", offset=1),
     np.arange(8, dtype="f4").view(np.matrix).A1],
    ids=["strided", "foreign-endian", "unaligned", "subclass-derived"],
)  # fmt: skip
def test_unusual_layouts_are_copied(add: Executable, odd: np.ndarray) -> None:
    np.testing.assert_array_equal(add.entry(odd, B), odd.astype("f4") + B)


@pytest.mark.parametrize(
    ("args", "kind", "text"),
    [((A,), TypeError, "takes 2 arguments"),
     ((A, B, B), TypeError, "takes 2 arguments"),
     ((A, [1.0] * 8), TypeError, r"argument 2 \('b'\).*expected a numpy array.*got list"),
     ((A.astype("f8"), B), TypeError, r"argument 1.*expected float32\[8\], got float64\[8\]"),
     ((A, B[:7]), ValueError, r"argument 2.*expected float32\[8\], got float32\[7\]"),
     ((A, B.reshape(2, 4)), ValueError, r"float32\[2, 4\]"),
     ((A, np.array(["x"] * 8)), TypeError, "argument 2")],
)  # fmt: skip
def test_wrong_arguments(add: Executable, args: tuple, kind: type, text: str) -> None:
    for call in (add.entry, lambda *a: add.call(a)):
        with pytest.raises(kind, match=text):
            call(*args)


def test_keywords_are_refused(add: Executable) -> None:
    with pytest.raises(TypeError, match="takes no keyword arguments"):
        add.entry(A, b=B)


@pytest.mark.parametrize("way", ["entry", "call"])
def test_error_codes(way: str) -> None:
    exe = Executable(error_program())
    run = exe.entry if way == "entry" else lambda x: exe.call([x])[0]
    assert run(np.array(0, np.int32)) == 0
    with pytest.raises(IndexError, match=r"^index 7 is out of range") as caught:
        run(np.array(1, np.int32))
    assert isinstance(caught.value, RunIndexError) and caught.value.line == 12
    assert caught.value.__notes__ == ["  at net.py:12"]
    with pytest.raises(ValueError, match="bad value"):
        run(np.array(2, np.int32))
    with pytest.raises(RunError, match="unknown error 9"):
        run(np.array(9, np.int32))


def test_errors_keep_nothing_alive() -> None:
    exe = Executable(error_program())
    one = np.array(1, np.int32)
    before = sys.getrefcount(np.dtype(np.int32))
    for _ in range(200):
        with pytest.raises(IndexError, match="index 7 is out of range"):
            exe.entry(one)
    assert abs(sys.getrefcount(np.dtype(np.int32)) - before) < 20
    assert sys.getrefcount(one) <= 3


def test_calls_keep_nothing_alive(add: Executable) -> None:
    before = sys.getrefcount(A), sys.getrefcount(A.dtype)
    for _ in range(500):
        add.entry(A, B)
    assert sys.getrefcount(A) == before[0]
    assert abs(sys.getrefcount(A.dtype) - before[1]) < 20
    assert sys.getrefcount(add.entry(A, B)) <= 2


def test_parameters_are_bound() -> None:
    exe = Executable(add_program(kind="param"))
    with pytest.raises(RuntimeError, match="bind the 1 parameter"):
        exe.entry(A)
    exe.bind([B])
    np.testing.assert_array_equal(exe.entry(A), A + B)
    assert exe.params[0] is B
    exe.bind([B * 3])
    np.testing.assert_array_equal(exe.entry(A), A + 3 * B)
    exe.bind([np.arange(16, dtype=np.float32)[::2]])
    np.testing.assert_array_equal(exe.entry(A), 3 * A)
    with pytest.raises(TypeError, match="1 parameter, got 2"):
        exe.bind([A, B])
    with pytest.raises(ValueError, match="parameter 'b': expected"):
        exe.bind([A[:4]])
    np.testing.assert_array_equal(exe.entry(A), 3 * A)


def test_a_strided_parameter_is_copied_anew_at_each_bind() -> None:
    exe = Executable(add_program(kind="param"))
    base = np.zeros(16, np.float32)
    view = base[::2]
    exe.bind([view])
    base += 5
    exe.bind([view])
    np.testing.assert_array_equal(exe.entry(A), A + 5)


def test_updates_are_written_in_place() -> None:
    exe = Executable(update_program())
    w = floats(1, 2, 3, 4)
    exe.bind([w])
    assert exe.entry(floats(1, 1, 1, 1)) == ()
    assert exe.call([floats(1, 1, 1, 1)]) == []
    np.testing.assert_array_equal(w, [3, 4, 5, 6])
    exe.entry(w)  # an input that is the parameter itself is read as it was
    np.testing.assert_array_equal(w, [6, 8, 10, 12])
    base = np.arange(5, dtype=np.float32)
    exe.bind([base[1:]])
    exe.entry(base[:4])  # shifted: each element would be written before it is read
    np.testing.assert_array_equal(base, [0, 1, 3, 5, 7])


def test_updates_need_memory_they_can_write() -> None:
    exe = Executable(update_program())
    frozen = floats(1, 2, 3, 4)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        exe.bind([frozen])
    with pytest.raises(ValueError, match="contiguous"):
        exe.bind([np.zeros(8, np.float32)[::2]])


def test_an_input_updated_in_place() -> None:
    exe = Executable(update_program(kind="input"))
    x, w = floats(1, 1, 1, 1), floats(1, 2, 3, 4)
    exe.entry(x, w)
    np.testing.assert_array_equal(w, [2, 3, 4, 5])
    w.flags.writeable = False
    with pytest.raises(ValueError, match=r"argument 2 \('w'\).*read-only"):
        exe.entry(x, w)
    both = np.arange(5, dtype=np.float32)
    want = both[:4] + both[1:]
    exe.entry(both[:4], both[1:])
    np.testing.assert_array_equal(both[1:], want)


def test_state_is_kept_from_call_to_call() -> None:
    exe = Executable(update_program(kind="state"))
    for _ in range(3):
        exe.entry(floats(1, 2, 3, 4))
    np.testing.assert_array_equal(exe.states["w"], [3, 6, 9, 12])


def test_callbacks_compute_and_raise() -> None:
    seen = []

    def host(x: np.ndarray, y: np.ndarray) -> None:
        seen.append(x.copy())
        assert not x.flags.writeable
        y[:] = x * 10

    exe = Executable(callback_program(), {"host": host})
    x = floats(1, 2, 3, 4)
    np.testing.assert_array_equal(exe.entry(x), x * 10)
    np.testing.assert_array_equal(exe.call([x])[0], x * 10)
    assert len(seen) == 2

    def bad(x: np.ndarray, y: np.ndarray) -> None:
        raise LookupError("from the host")

    exe = Executable(callback_program(), {"host": bad})
    for call in (exe.entry, lambda x: exe.call([x])):
        with pytest.raises(LookupError, match="from the host"):
            call(x)
    with pytest.raises(ValueError, match="calls back 'host'"):
        Executable(callback_program())


def test_a_callback_may_call_the_program_again() -> None:
    depth = []

    def host(x: np.ndarray, y: np.ndarray) -> None:
        depth.append(1)
        y[:] = x if len(depth) > 3 else exe.entry(x + 1)

    exe = Executable(callback_program(), {"host": host})
    np.testing.assert_array_equal(exe.entry(floats(0, 0, 0, 0)), [3, 3, 3, 3])


def test_threads_call_at_once() -> None:
    exe = Executable(add_program(4096, kind="param", cost=1e9))
    x = np.arange(4096, dtype=np.float32)
    exe.bind([x])
    wrong = []

    def run(k: int) -> None:
        mine = np.full(4096, k, np.float32)
        for i in range(200):
            if i % 50 == 0:
                exe.bind([x.copy()])
            if not (exe.entry(mine) == x + k).all():
                wrong.append(k)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_the_entry_outlives_the_executable_and_then_all_goes() -> None:
    exe = Executable(add_program())
    entry, core = exe.entry, weakref.ref(exe._core)
    del exe
    gc.collect()
    np.testing.assert_array_equal(entry(A, B), A + B)
    assert core() is not None
    del entry
    gc.collect()
    assert core() is None


def test_empty_arrays() -> None:
    exe = Executable(add_program(0))
    empty = np.empty(0, np.float32)
    assert exe.entry(empty, empty).shape == (0,)


def test_another_machines_program_is_refused() -> None:
    from cellc_compiler.backends.cpu.image import build_image
    from cellc_runtime.program import Program
    from cellc_runtime.target import NEON, host_targets

    if NEON in host_targets():
        pytest.skip("this is such a machine")
    text = "define hidden i32 @cellc_main(ptr %s, ptr %a, ptr %c) { ret i32 0 }"
    with pytest.raises(ValueError, match="compiled for aarch64-neon"):
        Executable(Program("p", NEON.name, (), build_image(text, [], NEON)))
