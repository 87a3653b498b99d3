"""Libraries with code for several processors of a kind, and processors that have none."""

from __future__ import annotations

import ctypes
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc_compiler.c_library import tables
from cellc_compiler.c_library.abi import ABI, Code
from cellc_runtime.target import host_targets

from .conftest import Model, entries
from .library import CLibrary, Error, Failed

X = np.random.default_rng(1).standard_normal((20, 16)).astype(np.float32)
AVX2, AVX512 = "x86_64-avx2", "x86_64-avx512"
CC, QEMU = map(shutil.which, ("cc", "qemu-x86_64"))
HERE = [t.name for t in host_targets()]
pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="for x86-64")
ON = {name: pytest.param(name, marks=pytest.mark.skipif(
    name not in HERE, reason=f"no {name}")) for name in (AVX2, AVX512)}


@pytest.fixture(autouse=True)
def _free_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CELLC_TARGET", raising=False)


@pytest.fixture(scope="module")
def both(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library for two processors."""
    made = tmp_path_factory.mktemp("both") / "libmodel.so"
    ms.compile_artifact(made, entries(model), targets=[AVX2, AVX512])
    return made


@pytest.fixture
def fresh(both: Path, tmp_path: Path) -> Iterator[Path]:
    """The same, which nobody has loaded: the choice is made once."""
    yield Path(shutil.copy(both, tmp_path / "libfresh.so"))


def taken(library: CLibrary) -> str:
    """The target whose code runs."""
    return ctypes.string_at(library.table.target).decode()


def refusal(path: Path) -> tuple[Code, str]:
    """The error with which a library is not given."""
    error, get = Error(), ctypes.CDLL(str(path)).cellc_get_library
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.c_int32, ctypes.c_void_p)
    assert get(ABI, None) is None and get(ABI, ctypes.addressof(error)) is None
    return Code(error.code), error.text.decode()


def check_results(library: CLibrary, model: Model) -> None:
    """All entries give the bits of the Cell."""
    with library.session() as session, session.clone() as other:
        for n in (1, 20):
            want = model(ms.Tensor(X[:n])).asnumpy()
            assert session.run("infer", X[:n])[0].tobytes() == want.tobytes()
        q, k = X[:3], X[:5]
        for got, whole in zip(session.run("attend", q, k),
                              model.attend(ms.Tensor(q), ms.Tensor(k)), strict=True):
            assert got.tobytes() == whole.asnumpy().tobytes()
        first = session.run("prefill", X[:8])[0]
        assert (other.weight("cache") == 0).all()
        assert other.run("prefill", X[:8])[0].tobytes() == first.tobytes()


@pytest.mark.parametrize("name", ON.values())
def test_a_forced_choice(
    fresh: Path, model: Model, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELLC_TARGET", name)
    library = CLibrary(fresh)
    assert taken(library) == name
    check_results(library, model)
    monkeypatch.setenv("CELLC_TARGET", "other")  # it is made once
    assert CLibrary(fresh).address == library.address


def test_the_best_is_taken(fresh: Path, model: Model) -> None:
    library = CLibrary(fresh)
    assert taken(library) == HERE[0]
    check_results(library, model)


def test_what_the_header_says(both: Path) -> None:
    text = both.with_name("model.h").read_text()
    assert text.startswith(f"/* The network 'model' for {AVX512} or {AVX2}, compiled by cellc.")


def lacking(*features: str) -> dict[str, tuple[int, int, int, int]]:
    """CPUID's bits, of which some are one that no processor has."""
    return {**tables.FEATURES, **dict.fromkeys(features, (7, 1, 22, 0))}


def test_the_next_best_is_taken(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "FEATURES", lacking("avx512f"))
    path = tmp_path / "libm.so"
    ms.compile_artifact(path, entries(model, ["infer", "prefill", "attend"]),
                        targets=[AVX512, AVX2])
    shutil.copy(path, tmp_path / "libforced.so")
    library = CLibrary(path)
    assert taken(library) == AVX2
    check_results(library, model)
    monkeypatch.setenv("CELLC_TARGET", AVX512)
    assert refusal(tmp_path / "libforced.so") == (
        Code.PROCESSOR, "CELLC_TARGET is x86_64-avx512, whose instructions this processor does not "
                        "have.")
    monkeypatch.delenv("CELLC_TARGET")  # nothing was chosen
    assert taken(CLibrary(tmp_path / "libforced.so")) == AVX2


@pytest.mark.parametrize("targets", [[AVX2], [AVX2, AVX512]])
def test_no_code_for_this_processor(
    model: Model, tmp_path: Path, targets: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "FEATURES", lacking("fma"))
    ms.compile_artifact(tmp_path / "libm.so", entries(model, ["infer"]), targets=targets)
    library = CLibrary(tmp_path / "libm.so")
    names = " or ".join(targets[::-1])
    with pytest.raises(Failed, match=re.escape(
            f"The library 'm' is compiled for {names}, whose instructions this processor does not "
            "have.")) as e:
        library.session()
    assert e.value.code is Code.PROCESSOR


def test_a_target_that_a_library_has_not(
    fresh: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELLC_TARGET", "aarch64-neon")
    assert refusal(fresh) == (
        Code.PROCESSOR, "CELLC_TARGET is aarch64-neon, but the library 'model' is compiled for "
                        "x86_64-avx512 or x86_64-avx2.")
    CLibrary(path).session().close()  # one target: there is no choice


def test_weights_are_held_once(model: Model, both: Path, tmp_path: Path) -> None:
    found = {}
    for target in (AVX2, AVX512):
        ms.compile_artifact(tmp_path / f"lib{target[7:]}.so", entries(model), targets=target)
        found[target] = (tmp_path / f"lib{target[7:]}.so").read_bytes()
    held = model.dense.weight.asnumpy().tobytes()
    whole = both.read_bytes()
    assert whole.count(held) == 1 and all(one.count(held) == 1 for one in found.values())
    assert len(whole) < sum(map(len, found.values())) - len(held)


def test_weights_in_a_file_serve_each(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "w.safetensors"
    ms.compile_artifact(tmp_path / "libm.so", entries(model, ["infer"]), weights=file,
                        targets=[AVX2, AVX512])
    for name in HERE:
        monkeypatch.setenv("CELLC_TARGET", name)
        library = CLibrary(Path(shutil.copy(tmp_path / "libm.so", tmp_path / f"{name}.so")))
        assert taken(library) == name and not library.table.embedded
        with library.session(file) as session:
            want = model(ms.Tensor(X)).asnumpy()
            assert session.run("infer", X)[0].tobytes() == want.tobytes()


PROGRAM = """
#include <stdio.h>
#include "net.h"
int main(void) {
    float x[16] = {1, 2, 3}, y[300];
    cellc_error error = {0};
    cellc_session *session;
    cellc_tensor in = {x, sizeof x, CELLC_FLOAT32, 2, {1, 16}}, out = {y, sizeof y, 0, 0, {0}};
    const cellc_library *net = net_library(CELLC_ABI, &error);
    if (!net || net->create(net, NULL, &session, &error)) {
        printf("error %d: %s\\n", error.code, error.text);
        return 0;
    }
    if (net->run(session, NET_INFER, &in, 1, &out, 1, &error)) return 1;
    printf("%s %a\\n", net->target, y[0] + y[1]);
    net->destroy(session);
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with an archive for two processors."""
    folder = tmp_path_factory.mktemp("program")
    ms.compile_artifact(folder / "libnet.a", entries(model, ["infer"]), targets=[AVX512, AVX2])
    (folder / "main.c").write_text(PROGRAM)
    subprocess.run([str(CC), folder / "main.c", folder / "libnet.a", "-o", folder / "main"],
                   check=True)
    return folder / "main"


def printed(program: Any, **environment: str) -> str:
    done = subprocess.run(program, env=environment, check=True, capture_output=True, timeout=100)
    return done.stdout.decode().strip()


@pytest.mark.skipif(CC is None, reason="no C compiler")
def test_an_archive(program: Path, model: Model) -> None:
    x = np.zeros((1, 16), np.float32)
    x[0, :3] = 1, 2, 3
    y = model(ms.Tensor(x)).asnumpy()[0]
    for name in HERE:
        target, value = printed([program], CELLC_TARGET=name).split()
        assert target == name and float.fromhex(value) == float(y[0] + y[1])
    assert printed([program]).split()[0] == HERE[0]


@pytest.mark.skipif(CC is None or QEMU is None, reason="no C compiler, or no emulator of x86-64")
@pytest.mark.parametrize(("cpu", "environment", "text"), [
    ("Haswell", {}, r"x86_64-avx2 \S+"),
    ("Haswell", {"CELLC_TARGET": AVX512}, "error 7: CELLC_TARGET is x86_64-avx512, whose "),
    ("Nehalem", {}, "error 7: The library 'net' is compiled for x86_64-avx512 or x86_64-avx2, "
                    "whose instructions this processor does not have."),
])
def test_emulated_processors(
    program: Path, cpu: str, environment: dict[str, str], text: str
) -> None:
    assert re.match(text, printed([str(QEMU), "-cpu", cpu, program], **environment))
