"""Calls that make no sense, from C: a code and a text, nothing half-written, no crash; under
valgrind and a sanitizer where they are there."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops

SOURCE = Path(__file__).with_name("attacks.c")
CC, VALGRIND = map(shutil.which, ("cc", "valgrind"))
pytestmark = pytest.mark.skipif(CC is None, reason="no C compiler")


class Attacked(nn.Cell):
    """A product with large results, and an entry that changes a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(16, 24)
        self.cache = ms.Parameter(np.zeros((8, 16), np.float32), name="cache", requires_grad=False)

    def construct(self, x: Any) -> Any:
        """Any number of rows."""
        return ops.tanh(self.dense(x))

    def fill(self, x: Any) -> Any:
        """Fill the cache."""
        ops.assign(self.cache, x * 2)
        return self.dense(x)


def write(folder: Path, name: str, seed: int) -> None:
    ms.set_seed(seed)
    net = Attacked().set_train(False)
    # (AVX2, which valgrind knows)
    target = "x86_64-avx2" if platform.machine() == "x86_64" else None
    ms.compile_artifact(folder / f"lib{name}.so", {
        "infer": (net, "float32[N,16]"), "fill": (net.fill, "float32[8,16]")}, targets=target)


@pytest.fixture
def folder(tmp_path: Path, made: Path) -> Path:
    """Libraries and files of weights, in a folder of its own."""
    out = tmp_path / "attacked"
    shutil.copytree(made, out, symlinks=True)
    os.mkfifo(out / "pipe")
    return out


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two libraries, and files of weights of all kinds."""
    from .library import CLibrary

    out = tmp_path_factory.mktemp("made")
    write(out, "attacked", 1)
    write(out, "other", 2)
    for name, file in (("attacked", "good"), ("other", "others")):
        with CLibrary(out / f"lib{name}.so").session() as session:
            session.save(out / file)
    good = (out / "good").read_bytes()
    (out / "empty").write_bytes(b"")
    (out / "short").write_bytes(good[:-1])
    (out / "long").write_bytes(good + b"\0")
    (out / "mutated").write_bytes(good[:60] + bytes([good[60] ^ 1]) + good[61:])
    (out / "kept").write_bytes(good)
    (out / "kept").chmod(0o600)
    (out / "linked").write_bytes(good)
    for link, to in (("link", "linked"), ("dangling", "nowhere"), ("loop", "loop")):
        (out / link).symlink_to(to)
    return out


def build(folder: Path, *options: str) -> Path:
    program = folder.parent / "attacks"
    subprocess.run([str(CC), "-std=c11", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", *options,
                    f"-I{folder}", SOURCE, "-ldl", "-o", program], check=True)
    return program


def check(folder: Path, *command: object) -> None:
    """Run the program; all it tries must come out right, and no file may be left."""
    before = {p.name for p in folder.iterdir()}
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True,
                          timeout=500, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    found = re.search(r"(\d+) tried, 0 bad", done.stdout)
    assert found is not None and int(found[1]) > 140
    assert {p.name for p in folder.iterdir()} == before


def test_attacks(folder: Path) -> None:
    check(folder, build(folder), "freed")


@pytest.mark.skipif(VALGRIND is None, reason="no valgrind")
def test_attacks_under_valgrind(folder: Path) -> None:
    check(folder, VALGRIND, "-q", "--error-exitcode=9", "--leak-check=full",
          "--errors-for-leak-kinds=definite", "--fair-sched=yes", build(folder))


def test_attacks_under_a_sanitizer(folder: Path) -> None:
    flags = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
    try:
        program = build(folder, *flags)
    except subprocess.CalledProcessError:
        pytest.skip("no sanitizer")
    check(folder, program)
