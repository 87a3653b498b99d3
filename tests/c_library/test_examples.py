"""The examples in C, C++ and Rust, built and run; the header as compilers see it."""

from __future__ import annotations

import ctypes
import json
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import ops
from cellc_compiler.c_library.abi import ABI, DTYPES, MEANINGS, STRUCTURES, Code
from cellc_compiler.c_library.header import interface
from cellc_runtime import checkpoint

from ..samples.networks import load
from .library import PUBLIC, structure

SAMPLES = Path(__file__).parents[2] / "samples" / "c_library"
CC, CXX, RUSTC, VALGRIND, QEMU, ARM_CC, ARM_QEMU = map(shutil.which, (
    "cc", "c++", "rustc", "valgrind", "qemu-x86_64", "aarch64-linux-gnu-gcc", "qemu-aarch64"))
IMAGE = np.random.default_rng(0).standard_normal((1, 1, 32, 32)).astype(np.float32)
NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")
lenet = load("lenet")


def network() -> ms.nn.Cell:
    """LeNet with weights of a seed."""
    ms.set_seed(5)
    return lenet.LeNet5().set_train(False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """LeNet as all kinds of files, for AVX2, which valgrind knows."""
    out, net = tmp_path_factory.mktemp("lenet"), network()
    step = lenet.train_step(net)
    entries = {"infer": (net, "float32[1,1,32,32]")}
    target = "x86_64-avx2" if platform.machine() == "x86_64" else None
    for name in ("liblenet.so", "liblenet.a", "lenet.o"):
        ms.compile_artifact(out / name, entries, targets=target)
    label = "int32[16]"
    ms.compile_artifact(out / "libtrainer.so", {
        "infer": (net, "float32[N,1,32,32]"), "train": (step, "float32[16,1,32,32]", label)},
        targets=target)
    return out


def run(*command: object, given: bytes = b"") -> str:
    """The output of a program."""
    done = subprocess.run(list(map(str, command)), input=given, capture_output=True, timeout=300,
                          check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def scores(text: str) -> list[float]:
    """The ten lines of numbers in an output."""
    return [float(line) for line in text.splitlines() if NUMBER.fullmatch(line)]


def expected() -> list[float]:
    """The scores of the Cell."""
    return [float(s) for s in network()(ms.Tensor(IMAGE)).asnumpy()[0]]


@pytest.mark.skipif(CC is None, reason="no C compiler")
@pytest.mark.parametrize("file", ["liblenet.so", "liblenet.a", "lenet.o"])
def test_c(folder: Path, file: str) -> None:
    program = folder / f"infer_{file}"
    run(CC, "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{folder}",
        SAMPLES / "infer.c", folder / file, f"-Wl,-rpath,{folder}", "-o", program)
    text = run(program, given=IMAGE.tobytes())
    got = np.array(scores(text), np.float32)
    np.testing.assert_array_equal(got, np.array(expected(), np.float32))
    assert "infer(x: float32[1, 1, 32, 32])" in text
    assert "For 'infer', 'x' must be float32[1, 1, 32, 32], but got float32[2, 1, 32, 32]." in text


@pytest.mark.skipif(RUSTC is None, reason="no Rust compiler")
def test_rust(folder: Path) -> None:
    program = folder / "infer_rust"
    run(RUSTC, "--edition", "2021", "-O", SAMPLES / "infer.rs", "-L", folder, "-l", "dylib=lenet",
        "-C", f"link-arg=-Wl,-rpath,{folder}", "-o", program)
    text = run(program, given=IMAGE.tobytes())
    got = np.array(scores(text)[:10], np.float32)
    np.testing.assert_array_equal(got, np.array(expected(), np.float32))
    assert "For 'infer', 'x' must be float32[1, 1, 32, 32], but got float32[2, 1, 32, 32]." in text


@pytest.mark.skipif(CXX is None, reason="no C++ compiler")
def test_cpp_trains(folder: Path) -> None:
    program, saved = folder / "train", folder / "trained.safetensors"
    run(CXX, "-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread", f"-I{folder}",
        SAMPLES / "train.cpp", folder / "libtrainer.so", f"-Wl,-rpath,{folder}", "-o", program)
    x = np.random.default_rng(2).standard_normal((16, 1, 32, 32)).astype(np.float32)
    text = run(program, saved, given=x.tobytes())
    net = network()
    step = lenet.train_step(net)
    label = ms.Tensor(np.arange(16, dtype=np.int32) % 10)
    losses = [step(ms.Tensor(x), label).asnumpy() for _ in range(10)]
    told = [np.float32(line.split()[1]) for line in text.splitlines() if line.startswith("loss")]
    assert told == losses and losses[-1] < losses[0]
    weights = checkpoint.load(saved)
    for p in net.get_parameters():
        np.testing.assert_array_equal(weights[p.name], p.asnumpy())
    want = net.set_train(False)(ms.Tensor(x[:1])).asnumpy()[0]
    np.testing.assert_array_equal(np.array(scores(text), np.float32), want)
    assert "the scores have changed: yes" in text
    assert "error 3: For 'infer', 'x' must be float32[N, 1, 32, 32], but got float32[1, 32, 32]." \
        in text


@pytest.mark.skipif(CC is None or VALGRIND is None, reason="no C compiler, or no valgrind")
def test_valgrind_finds_nothing(folder: Path) -> None:
    program = folder / "infer_checked"
    run(CC, "-g", f"-I{folder}", SAMPLES / "infer.c", folder / "liblenet.so",
        f"-Wl,-rpath,{folder}", "-o", program)
    text = run(VALGRIND, "-q", "--error-exitcode=9", "--leak-check=full",
               "--errors-for-leak-kinds=all", program, given=IMAGE.tobytes())
    assert len(scores(text)) == 10


@pytest.mark.skipif(CC is None, reason="no C compiler")
def test_the_header_has_the_layouts_of_the_compiler(tmp_path: Path) -> None:
    """Sizes, offsets, codes and element types, as a C compiler sees them."""
    want, lines = [], []
    for name in PUBLIC:
        kind = structure(name)
        want.append(ctypes.sizeof(kind))
        lines.append(f"sizeof(cellc_{name})")
        for field, _ in STRUCTURES[name]:
            want.append(getattr(kind, field).offset)
            lines.append(f"offsetof(cellc_{name}, {field})")
    for code in Code:
        want.append(code.value)
        lines.append("CELLC_ABI_VERSION" if code is Code.ABI else f"CELLC_{code.name}")
    for number, dtype in enumerate(DTYPES):
        want.append(number)
        lines.append(f"CELLC_{'ANY' if dtype is None else dtype.name.rstrip('_').upper()}")
    prints = "\n".join(f'printf("%ld\\n", (long)({line}));' for line in lines)
    (tmp_path / "cellc.h").write_text(interface())
    (tmp_path / "abi.c").write_text(
        f'#include <stdio.h>\n#include "cellc.h"\nint main(void) {{ {prints} return 0; }}\n')
    run(CC, "-std=c99", "-pedantic", "-Werror", tmp_path / "abi.c", "-o", tmp_path / "abi")
    assert list(map(int, run(tmp_path / "abi").split())) == want


def test_header_and_page_explain_all_codes() -> None:
    page = (SAMPLES.parents[1] / "docs" / "c-library.md").read_text()
    for code, meaning in MEANINGS.items():
        name = "CELLC_ABI_VERSION" if code is Code.ABI else f"CELLC_{code.name}"
        assert code is Code.OK or f"| `{name}` | {meaning} |" in page
        assert re.search(rf"{name} = {code.value},? /\* {re.escape(meaning)} \*/", interface())


@pytest.mark.skipif(CC is None, reason="no C compiler")
def test_two_networks_in_one_program(tmp_path: Path) -> None:
    target = "x86_64-avx2" if platform.machine() == "x86_64" else None
    for name, factor in (("one", 2.0), ("two", 3.0)):
        def scaled(x: ms.Tensor, factor: float = factor) -> ms.Tensor:
            return x * factor

        ms.compile_artifact(tmp_path / f"lib{name}.a", (scaled, "float32[3]"), targets=target)
    (tmp_path / "both.c").write_text("""
#include <stdio.h>
#include "one.h"
#include "two.h"
static void call(const cellc_library *net) {
    float x[3] = {1, 2, 3}, y[3];
    cellc_session *s;
    cellc_tensor in = {x, sizeof x, CELLC_FLOAT32, 1, {3}}, out = {y, sizeof y, 0, 0, {0}};
    if (!net->create(net, NULL, &s, NULL) && !net->run(s, ONE_INFER, &in, 1, &out, 1, NULL))
        printf("%s %g %g %g\\n", net->name, y[0], y[1], y[2]);
    net->destroy(s);
}
int main(void) {
    call(one_library(CELLC_ABI, NULL));
    call(two_library(CELLC_ABI, NULL));
    return 0;
}
""")
    run(CC, f"-I{tmp_path}", tmp_path / "both.c", tmp_path / "libone.a", tmp_path / "libtwo.a",
        "-o", tmp_path / "both")
    assert run(tmp_path / "both").splitlines() == ["one 2 4 6", "two 3 6 9"]


@pytest.mark.skipif(CC is None or QEMU is None or platform.machine() != "x86_64",
                    reason="no C compiler, or no emulator of x86-64")
def test_an_old_processor_gets_an_error(folder: Path) -> None:
    program = folder / "infer_old"
    run(CC, f"-I{folder}", SAMPLES / "infer.c", folder / "liblenet.so", f"-Wl,-rpath,{folder}",
        "-o", program)
    done = subprocess.run([str(QEMU), "-cpu", "Nehalem", str(program)], input=IMAGE.tobytes(),
                          capture_output=True, timeout=100, check=False)
    assert done.returncode == 1
    assert done.stderr.decode() == (
        "error 7: The library 'lenet' is compiled for x86_64-avx2, whose instructions this "
        "processor does not have.\n")


@pytest.mark.skipif(ARM_CC is None or ARM_QEMU is None, reason="no compiler or emulator of aarch64")
@pytest.mark.parametrize("file", ["liblenet.so", "liblenet.a"])
def test_aarch64(tmp_path: Path, file: str) -> None:
    ms.compile_artifact(tmp_path / file, (network(), "float32[1,1,32,32]"), targets="aarch64-neon")
    header = (tmp_path / "lenet.h").read_text()
    source = (SAMPLES / "infer.c").read_text()
    (tmp_path / "infer.c").write_text(source)
    assert "for aarch64-neon" in header
    run(ARM_CC, f"-I{tmp_path}", tmp_path / "infer.c", tmp_path / file,
        f"-Wl,-rpath,{tmp_path}", "-o", tmp_path / "infer")
    text = run(ARM_QEMU, "-L", "/usr/aarch64-linux-gnu", tmp_path / "infer", given=IMAGE.tobytes())
    got = np.array(scores(text), np.float32)
    np.testing.assert_array_equal(got, np.array(expected(), np.float32))


def test_the_size_of_lenet(folder: Path) -> None:
    """At most 200 KB besides the weights, as a file of each kind."""
    weights = sum(p.asnumpy().nbytes for p in network().get_parameters())
    for name in ("liblenet.so", "liblenet.a", "lenet.o"):
        assert (folder / name).stat().st_size - weights < 200_000, name


LOADS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>
#include "lenet.h"
static float image[32 * 32], scores[10];
int main(int count, char **words) {
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    cellc_get_library_function get = (cellc_get_library_function)dlsym(
        dlopen(words[count - 1], RTLD_NOW), CELLC_GET_LIBRARY);
    if (!get) return 2;
    const cellc_library *net = get(CELLC_ABI, NULL);
    cellc_session *session;
    cellc_tensor x = {image, sizeof image, CELLC_FLOAT32, 4, {1, 1, 32, 32}};
    cellc_tensor y = {scores, sizeof scores, CELLC_FLOAT32, 0, {0}};
    if (net->create(net, NULL, &session, NULL)
        || net->run(session, LENET_INFER, &x, 1, &y, 1, NULL)) return 3;
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.9f\\n", (double)(end.tv_sec - start.tv_sec) + 1e-9 * (end.tv_nsec - start.tv_nsec));
    return 0;
}
"""


@pytest.mark.skipif(CC is None, reason="no C compiler")
def test_the_first_result_of_lenet_is_there_in_5_ms(folder: Path) -> None:
    """From `dlopen` on; of ten processes the fastest, for others use this machine too."""
    (folder / "loads.c").write_text(LOADS)
    run(CC, "-std=c11", f"-I{folder}", folder / "loads.c", "-ldl", "-o", folder / "loads")
    assert min(float(run(folder / "loads", folder / "liblenet.so")) for _ in range(10)) < 5e-3


@pytest.mark.parametrize("machine", ["native", "aarch64"])
def test_a_decoder_generates_token_by_token(tmp_path: Path, machine: str) -> None:
    compiler, emulator, target = (CC, [], None) if machine == "native" else (
        ARM_CC, [ARM_QEMU, "-L", "/usr/aarch64-linux-gnu"], "aarch64-neon")
    if compiler is None or None in emulator:
        pytest.skip("no compiler or emulator")
    llama = load("llama")
    ms.set_seed(3)
    net = llama.Llama(llama.Config(vocabulary=80, context=24, tied=True)).set_train(False)
    rest = ("float32[]", "int32[]", "float32[]", "float32[]")
    ms.compile_artifact(tmp_path / "libllama.so", {
        "prompt": (net.choose, "int32[1,T]", "int32[S]", *rest),
        "decode": (net.choose, "int32[1,1]", "int32[S]", *rest)}, targets=target)
    run(compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{tmp_path}",
        SAMPLES / "generate.c", tmp_path / "libllama.so", f"-Wl,-rpath,{tmp_path}",
        "-o", tmp_path / "generate")
    prompt: list[int] = [7, 11, 3, 42]
    for temperature in (0.0, 1.5):
        want, tokens, state = [], prompt, 2463534242
        for place in range(4, 19):
            state ^= state << 13 & 0xFFFFFFFF
            state ^= state >> 17
            state ^= state << 5 & 0xFFFFFFFF
            out = net.choose(
                ms.Tensor([tokens], ms.int32), ops.arange(place).astype(ms.int32),
                ms.Tensor(temperature, ms.float32), ms.Tensor(40, ms.int32),
                ms.Tensor(0.95, ms.float32), ms.Tensor((state >> 8) / 2**24, ms.float32))
            tokens = [int(out.asnumpy()[0])]
            want += tokens
        text = run(*emulator, tmp_path / "generate", len(want), temperature, *prompt)
        assert list(map(int, text.split())) == want
        assert temperature == 0 or len(set(want)) > 3


def interface_now() -> dict[str, Any]:
    """The structures, codes and element types of the interface."""
    return {
        "structures": {name: [list(f) for f in STRUCTURES[name]] for name in PUBLIC},
        "codes": {code.name: code.value for code in Code},
        "dtypes": [None if t is None else t.name for t in DTYPES],
    }


def test_the_interface_of_a_version_stays() -> None:
    """A program that was compiled for a version runs with every later library of it: structures
    are as recorded, and the table of functions only grows. Another one is another `ABI`, with a
    record of its own (the output of `python -m tests.c_library.test_examples`)."""
    recorded = json.loads(Path(__file__).with_name(f"abi_{ABI}.json").read_text())
    now = interface_now()
    functions = recorded["structures"].pop("library")
    assert now["structures"].pop("library")[: len(functions)] == functions
    assert now == recorded


if __name__ == "__main__":
    print(json.dumps(interface_now(), indent=1))
