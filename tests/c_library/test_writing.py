"""What is written, and refused: options, files, networks with Python in them, batches, donation."""

from __future__ import annotations

import math
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc.cli import main
from cellc_compiler.c_library.abi import Code, NotInC
from cellc_compiler.c_library.numbers import Code as Numbers
from cellc_compiler.c_library.write import library_name
from cellc_runtime.open_sizes import divisor, evaluate

from .library import Argument, CLibrary, Failed, Size, Tensor

NETWORK = '''
import numpy as np
import cellc as ms
from cellc import nn, ops


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(4, 3)

    def construct(self, x):
        return ops.relu(self.dense(x))


class Prints(nn.Cell):
    def construct(self, x):
        print("here", x)
        return x * 2


class Calls(nn.Cell):
    def construct(self, x):
        return ops.py_func(lambda a: a, [x], [x.dtype], [x.shape]) if False else hooked(x)


hook = ops.HookBackward(lambda g: g)


def hooked(x):
    return ms.grad(lambda a: (hook(a) * 2).sum())(x)


def step(net):
    loss = nn.WithLossCell(net, nn.MSELoss())
    return nn.TrainOneStepCell(loss, nn.SGD(net.trainable_params(), 0.1)).set_train()
'''


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of networks."""
    made = tmp_path_factory.mktemp("nets") / "c_nets.py"
    made.write_text(NETWORK)
    return made


def compile_(file: Path, name: str, *options: object) -> int:
    """The exit status of `cellc compile`."""
    return main(["compile", f"{file}:{name}", "--input", "x=float32[2,4]", *map(str, options)])


@pytest.mark.parametrize(("name", "option"), [
    ("libnet.so", "--shared"), ("libnet.a", "--static"), ("net.o", "--object"),
    ("net.so", "--output")])
def test_the_command_line_writes_libraries(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, option: str
) -> None:
    assert compile_(file, "Net", option, tmp_path / name) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([name, "net.h", "cellc.hpp"])
    out = capsys.readouterr().out
    assert f"wrote {tmp_path / name} (" in out and f"{tmp_path / 'net.h'} (" in out
    header = (tmp_path / "net.h").read_text()
    assert "infer(x: float32[2, 4]) -> out0: float32[2, 3]" in header
    assert "NET_INFER = 0" in header and "net_library(int32_t abi" in header


@pytest.mark.parametrize(("options", "text"), [
    (["--shared", "a.so", "--static", "a.a"],
     "one of --output, --shared, --static, --object is expected, but got --shared and --static"),
    ([], "one of --output, --shared, --static, --object is expected, but got none"),
    (["--shared", "a.a"], "--shared a.a: expected a name that ends in .so"),
    (["-o", "a.cellc", "--weights", "w"],
     "file of weights goes with --shared, --static or --object"),
    (["--shared", "a-b.so"], "a-b.so: 'a-b' must be a name in C"),
    (["--shared", "no/a.so"], "no/a.so: "),
    (["--shared", "a.so", "--weights", "no/w"], "no/w: "),
    (["--shared", "a.so", "--target", "sparc"], "unknown target 'sparc'"),
    (["--shared", "a.so", "--target", "cuda-sm_80"],
     "a C library is for the vector units of a processor, not for cuda-sm_80"),
    (["--shared", "a.so", "--target", "x86_64-amx"], "not for x86_64-amx"),
    (["--shared", "a.so", "--target", "x86_64-avx2", "--target", "aarch64-neon"],
     "a C library is for processors of one kind, but x86_64-avx2, aarch64-neon are of 2: compile a "
     "library for each kind"),
])
def test_bad_options(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], text: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert compile_(file, "Net", *options) == 2
    assert text in capsys.readouterr().err
    assert not [p for p in tmp_path.iterdir() if p.suffix in (".so", ".a")]


@pytest.mark.parametrize(("name", "line"), [("Prints", 'print("here", x)'), ("Calls", "hook(a)")])
def test_networks_with_python_are_refused_with_the_line(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, line: str
) -> None:
    assert compile_(file, name, "--shared", tmp_path / "libx.so") == 2
    number = next(i for i, text in enumerate(NETWORK.splitlines(), 1) if line in text)
    error = capsys.readouterr().err
    assert f"{file}:{number}: the network calls" in error and error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_names_of_libraries() -> None:
    assert [library_name(n) for n in ("out/liba.so", "b.a", "libc.o")] == ["a", "b", "libc"]
    with pytest.raises(NotInC, match=r"x\.dll: the name of a C library must end in \.so, \.a, \.o"):
        library_name("x.dll")


def test_any_batch_in_windows(tmp_path: Path) -> None:
    """With one size listed, programs of a few batch sizes serve all; large rows, any address."""
    net = nn.SequentialCell(nn.Dense(5, 33), nn.ReLU()).set_train(False)

    def both(x: Any, y: Any, s: Any) -> Any:
        return net(x) * s, (x + y).sum(-1)

    ms.compile_artifact(tmp_path / "libw.so", {
        "both": (both, "float32[N,S,5]", "float32[N,S,5]", "float32[]")}, sizes={"S": [2, 3]})
    library = CLibrary(tmp_path / "libw.so")
    (entry,) = library.entries()
    sizes = (Size * 2).from_address(entry.sizes)
    assert [(s.least, s.most) for s in sizes] == [(1, -1), (2, 3)]
    rng = np.random.default_rng(0)
    scale = np.array(1.5, np.float32)
    with library.session() as session:
        for n in (0, 1, 2, 3, 7, 17, 63, 400):
            x, y = (rng.standard_normal((n, 3, 5)).astype(np.float32) for _ in range(2))
            got = session.run("both", x, y, scale)
            assert got[0].shape == (n, 3, 33) and got[1].shape == (n, 3)
            for a, b in zip(got, both(*map(ms.Tensor, (x, y, scale))) if n else (), strict=n > 0):
                np.testing.assert_array_equal(a, b.asnumpy())
        with pytest.raises(Failed, match=r"must be N any and S 2, 3, but got N = 4, S = 5\.") as e:
            session.types("both", *[np.zeros((4, 5, 5), np.float32)] * 2, scale)
        assert e.value.code is Code.SIZES


def test_donated_inputs_are_written(tmp_path: Path) -> None:
    def grow(cache: Any, x: Any) -> Any:
        return cache + x, (cache * x).sum()

    ms.compile_artifact(tmp_path / "libd.so", {"grow": (grow, "float32[8]", "float32[8]")},
                        donate={"grow": ["cache"]})
    library = CLibrary(tmp_path / "libd.so")
    (entry,) = library.entries()
    arguments = (Argument * 2).from_address(entry.inputs)
    assert [a.written for a in arguments] == [1, 0] and entry.noutputs == 1
    cache, x = np.arange(8, dtype=np.float32), np.full(8, 2, np.float32)
    with library.session() as session:
        (total,) = session.run("grow", cache, x)
        np.testing.assert_array_equal(cache, np.arange(8) + 2)
        assert total == 56
        with pytest.raises(Failed, match=r"'cache' must be .* in memory of its own"):
            session.run("grow", cache, cache)


def test_messages_show_values(tmp_path: Path) -> None:
    def check(x: Any, n: Any, h: Any) -> Any:
        if n > 3:
            raise ValueError(f"n is {n}, x is {x}, h is {h}")
        return x * 2

    ms.compile_artifact(tmp_path / "libm.so",
                        {"check": (check, "float32[3]", "int64[]", "float16[2]")})
    x = np.array([0.1, -2.5e-8, np.inf], np.float32)
    h = np.array([0.333, 6e-8], np.float16)
    with CLibrary(tmp_path / "libm.so").session() as session:
        assert session.run("check", x, np.array(3), h)[0].shape == (3,)
        with pytest.raises(Failed, match="For 'check', ValueError: n is ") as e:
            session.run("check", x, np.array(-(1 << 63) + 5 + (1 << 63)), h)
        assert e.value.code is Code.RUN
        assert "n is 5, x is [0.1 -2.5e-08 inf], h is [0.333" in str(e.value)


def test_a_portable_file_becomes_a_library(file: Path, tmp_path: Path) -> None:
    portable = tmp_path / "net.mindir"
    assert main(["export", f"{file}:Net", "--input", "x=float32[2,4]", "-o", str(portable)]) == 0
    assert main(["compile", str(portable), "--shared", str(tmp_path / "libnet.so")]) == 0
    x = np.ones((2, 4), np.float32)
    with CLibrary(tmp_path / "libnet.so").session() as session:
        (got,) = session.run("infer", x)
    net = nn.GraphCell(ms.load(str(portable)))
    np.testing.assert_array_equal(got, net(ms.Tensor(x)).asnumpy())


COUNTS = """
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include "m.h"
static int allocations;
int posix_memalign(void **out, size_t align, size_t size) {
    allocations++;
    *out = memalign(align, size);
    return *out == NULL;
}
int main(void) {
    static float x[4096], y[4096];
    cellc_session *s;
    const cellc_library *net = m_library(CELLC_ABI, NULL);
    if (net->create(net, NULL, &s, NULL)) return 1;
    for (int round = 0; round < 3; round++)
        for (int n = 1; n <= 64; n *= 4) {
            int before = allocations;
            cellc_tensor in = {x, sizeof x, CELLC_FLOAT32, 2, {n, 16}};
            cellc_tensor out = {y, sizeof y, 0, 0, {0}};
            if (net->run(s, 0, &in, 1, &out, 1, NULL)) return 2;
            printf("%d %d\\n", round, allocations - before);
        }
    net->destroy(s);
    return 0;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_no_memory_is_taken_after_the_first_call_of_a_size(tmp_path: Path) -> None:
    net = nn.SequentialCell(nn.Dense(16, 40), nn.Softmax(), nn.Dense(40, 8)).set_train(False)
    ms.compile_artifact(tmp_path / "libm.so", (net, "float32[N,16]"))
    (tmp_path / "count.c").write_text(COUNTS)
    subprocess.run(["cc", f"-I{tmp_path}", tmp_path / "count.c", tmp_path / "libm.so",
                    f"-Wl,-rpath,{tmp_path}", "-o", tmp_path / "count"], check=True)
    lines = subprocess.run([tmp_path / "count"], check=True, capture_output=True).stdout.split()
    rounds = [(int(a), int(b)) for a, b in zip(lines[::2], lines[1::2], strict=True)]
    assert sum(n for r, n in rounds if r == 0) >= 2 and not any(n for r, n in rounds if r)


def machine(words: list[int], variables: list[int]) -> Any:
    """A program of numbers, run as the library does."""
    stack: list[Any] = []
    def as_float(bits: int) -> float:
        return float(struct.unpack("<d", struct.pack("<q", bits))[0])

    def bits(x: float) -> int:
        return int(struct.unpack("<q", struct.pack("<d", x))[0])

    two = {3: lambda a, b: a * b, 4: lambda a, b: a + b, 5: lambda a, b: a // b, 6: min, 7: max,
           9: lambda a, b: a - b, 17: divisor}
    floats = {11: lambda a, b: a + b, 12: lambda a, b: a - b, 13: lambda a, b: a * b,
              14: lambda a, b: a / b, 15: pow}
    for op, word in zip(words[::2], words[1::2], strict=True):
        if op == 0:
            return stack.pop()
        if op == 1:
            stack.append(word)
        elif op == 2:
            stack.append(variables[word])
        elif op == 8:
            x, least, a, b = stack[-4:]
            stack[-4:] = [a if x >= least else b]
        elif op == 10:
            stack[-1 - word] = bits(float(stack[-1 - word]))
        elif op == 16:
            stack[-1] = int(as_float(stack[-1]))
        elif op in (18, 19):
            x = as_float(stack[-1])
            stack[-1] = bits(math.sqrt(x)) if op == 18 else math.floor(x)
        else:
            b, a = stack.pop(), stack.pop()
            stack.append(two[op](a, b) if op in two else bits(floats[op](as_float(a), as_float(b))))
    raise AssertionError("no end")


@pytest.mark.parametrize("x", [
    7, ("sum", (2, "N"), (3,)), ("sum", (1, "N", "S"), (-4, ("//", ("sum", (1, "S"), (1,)), 3))),
    ("sum", (1, ("min", ("sum", (1, "N")), 5, ("sum", (1, "S")))), (2, ("max", 1, 9, 4))),
    ("sum", (1, ("choose", ("sum", (1, "N")), 4, ("sum", (1, "S")), 2))),
    ("sum", (1, ("divisor", ("sum", (6, "S")), ("sum", (1, "N"))))),
    ("/", 1, ("sum", (1, "S"))), ("**", ("sum", (1, "N")), -0.5), ("*", ("+", 1, 2), 0.25),
    ("-", ("sum", (1, "N")), 3), ("sum", (1, ("//", ("sum", (-1, "N")), 3))),
    ("/", 1, ("sqrt", ("sum", (1, "S")))),
    ("sum", (3, "N", ("trunc", ("*", ("sum", (1, "S")), 0.3)))),
    ("sum", (1, ("floor", ("-", 0.5, ("sqrt", ("sum", (1, "S")))))))])
@pytest.mark.parametrize("sizes", [(2, 3), (7, 40)])
def test_programs_of_numbers(x: Any, sizes: tuple[int, int]) -> None:
    """Their results are those of the runtime (which the library's own are compared with above)."""
    code = Numbers({"N": 0, "S": 1})
    code.add(x)
    want = evaluate(x, dict(zip("NS", sizes, strict=True)))
    got = machine(code.words, list(sizes))
    assert (struct.unpack("<d", struct.pack("<q", got))[0] if code.floats[0] else got) == want
    assert code.floats[0] == isinstance(want, float)


def test_numbers_in_a_library(tmp_path: Path) -> None:
    """Powers, quotients and products of open sizes."""
    def fn(x: Any) -> Any:
        n, s = x.shape
        return x * n ** -0.5 + s / n, ops.concat([x, x * n], 0).reshape(-1)

    ms.compile_artifact(tmp_path / "libn.so", {"fn": (fn, "float32[N,S]")})
    with CLibrary(tmp_path / "libn.so").session() as session:
        for n, s in ((2, 2), (3, 7), (9, 4), (3, 7)):
            x = np.random.default_rng(n).standard_normal((n, s)).astype(np.float32)
            for a, b in zip(session.run("fn", x), fn(ms.Tensor(x)), strict=True):
                np.testing.assert_array_equal(a, b.asnumpy())


def test_functions_of_sizes_in_a_library(tmp_path: Path) -> None:
    """Square roots of open sizes, and parts of them as sizes."""
    def fn(x: Any) -> Any:
        n, s = x.shape
        kept = int(s * 0.7) + 1
        return x / math.sqrt(s) + math.floor(math.sqrt(n) - 4), x[:, :kept] * ms.Tensor(n / s)

    ms.compile_artifact(tmp_path / "libf.so", {"fn": (fn, "float32[N,S]")})
    with CLibrary(tmp_path / "libf.so").session() as session:
        for n, s in ((2, 2), (3, 7), (9, 1009), (64, 31), (3, 7)):
            x = np.random.default_rng(n).standard_normal((n, s)).astype(np.float32)
            for a, b in zip(session.run("fn", x), fn(ms.Tensor(x)), strict=True):
                np.testing.assert_array_equal(a, b.asnumpy())


def test_functions_of_sizes_that_a_library_has_not(tmp_path: Path) -> None:
    with pytest.raises((ValueError, TypeError), match=r"'log' of a number that follows from sizes"):
        ms.compile_artifact(tmp_path / "libf.so", {
            "fn": (lambda x: x * math.log(x.shape[0]), "float32[N,2]")})


def test_sums_of_open_length_in_a_library(tmp_path: Path) -> None:
    """The number of their parts is the largest divisor that leaves each enough."""
    def fn(x: Any) -> Any:
        return x.sum(), ops.square(x).mean()

    ms.compile_artifact(tmp_path / "libs.so", {"fn": (fn, "float32[N,S]")})
    with CLibrary(tmp_path / "libs.so").session() as session:
        for n, s in ((2, 50), (100, 1000), (7, 65537), (512, 512)):
            x = np.random.default_rng(n).standard_normal((n, s)).astype(np.float32)
            for a, b in zip(session.run("fn", x), fn(ms.Tensor(x)), strict=True):
                np.testing.assert_array_equal(a, b.asnumpy())


def test_sizes_that_no_process_has(tmp_path: Path) -> None:
    w = ms.Parameter(np.ones((2, 24), np.float32), name="w")

    def fn(x: Any) -> Any:
        return ops.matmul(ops.relu(ops.matmul(x, w)), w.swapaxes(0, 1))

    ms.compile_artifact(tmp_path / "libn.so", {"fn": (fn, "float32[N,2]")})
    with CLibrary(tmp_path / "libn.so").session() as session:
        for n in (1 << 45, 1 << 59, 1 << 60, 1 << 61):
            given, out = (Tensor * 1)(Tensor(0, 0, 12, 2)), (Tensor * 1)()
            given[0].shape[0], given[0].shape[1] = n, 2
            with pytest.raises(Failed, match=r"do not fit into the memory|less than 2") as e:
                session.raw("measure", 0, given, out)
            assert e.value.code is Code.SIZES, n
        x = np.ones((3, 2), np.float32)
        np.testing.assert_array_equal(session.run("fn", x)[0], fn(ms.Tensor(x)).asnumpy())


FAILS = """
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include "m.h"
static int left;
int posix_memalign(void **out, size_t align, size_t size) {
    if (left-- == 0) return 12;
    *out = memalign(align, size);
    return *out == NULL;
}
int main(void) {
    static float x[4096], y[4096];
    cellc_error error;
    const cellc_library *net = m_library(CELLC_ABI, NULL);
    setvbuf(stdout, NULL, _IONBF, 0);
    free(memalign(64, 64));
    for (int fail = 0;; fail++) {
        size_t before = mallinfo2().uordblks;
        cellc_session *s, *other = NULL;
        cellc_tensor in = {x, sizeof x, CELLC_FLOAT32, 2, {8, 16}};
        cellc_tensor out = {y, sizeof y, 0, 0, {0}};
        left = fail;
        int code = net->create(net, NULL, &s, &error);
        if (!code) code = net->clone(s, &other, &error);
        if (!code) code = net->run(other, 0, &in, 1, &out, 1, &error);
        if (code) printf("%d %s\\n", code, error.text);
        if (code && s && net->run(s, 0, &in, 1, &out, 1, &error)) return 3;  /* there is again */
        net->destroy(other);
        net->destroy(s);
        if (mallinfo2().uordblks != before) return 4;
        if (!code) return 0;
    }
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_memory_that_is_refused(tmp_path: Path) -> None:
    """Each allocation fails once: a code, nothing leaks, and the session goes on."""
    net = nn.SequentialCell(nn.Dense(16, 40), nn.Softmax(), nn.Dense(40, 8)).set_train(False)
    ms.compile_artifact(tmp_path / "libm.so", (net, "float32[N,16]"))
    (tmp_path / "fail.c").write_text(FAILS)
    subprocess.run(["cc", f"-I{tmp_path}", tmp_path / "fail.c", tmp_path / "libm.so",
                    f"-Wl,-rpath,{tmp_path}", "-o", tmp_path / "fail"], check=True)
    uncached = {**os.environ, "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
    done = subprocess.run([tmp_path / "fail"], check=True, capture_output=True, env=uncached)
    lines = done.stdout.decode().splitlines()
    assert len(lines) >= 4 and set(lines) == {"6 The system gives no memory."}
