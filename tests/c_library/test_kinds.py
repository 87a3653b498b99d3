"""Element types, shapes, control flow, random numbers, and arguments that make no sense."""

from __future__ import annotations

import ctypes
import random
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc_runtime import load

from .library import CLibrary, Error, Tensor, tensor

RNG = np.random.default_rng(4)
TYPES = ("bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
         "float16", "bfloat16", "float32", "float64", "complex64", "complex128")


def test_all_element_types(tmp_path: Path) -> None:
    def twice(x: Any) -> Any:
        return ops.concat([x, x], 0)

    dtypes = [np.dtype({"bool_": np.bool_, "bfloat16": ml_dtypes.bfloat16}.get(t, t))
              for t in TYPES]
    arrays = [RNG.integers(0, 2, (3, 2)).astype(t) for t in dtypes]
    ms.compile_artifact(tmp_path / "libt.so", {
        t: (twice, ms.Tensor(x)) for t, x in zip(TYPES, arrays, strict=True)})
    with CLibrary(tmp_path / "libt.so").session() as session:
        for t, x in zip(TYPES, arrays, strict=True):
            (got,) = session.run(t, x)
            assert got.dtype == x.dtype
            np.testing.assert_array_equal(got.view(np.uint8), np.tile(x, (2, 1)).view(np.uint8))


def test_ranks_from_none_to_eight(tmp_path: Path) -> None:
    def shapes(a: Any, b: Any, c: Any) -> Any:
        return a + 1, b * 2, c.reshape(-1)

    eight = np.arange(256, dtype=np.float32).reshape((2,) * 8)
    given = (np.float32(3), np.zeros((0, 5), np.float32), eight)
    arrays = [np.array(a) for a in given]
    ms.compile_artifact(tmp_path / "libs.so", {"f": (shapes, *map(ms.Tensor, arrays))})
    with CLibrary(tmp_path / "libs.so").session() as session:
        a, b, c = session.run("f", *arrays)
        assert a.shape == () and a == 4 and b.shape == (0, 5) and c.shape == (256,)
        np.testing.assert_array_equal(c, np.arange(256))
    nine = ms.Tensor(np.zeros((1,) * 9, np.float32))
    with pytest.raises(ValueError, match=r"'x', float32.*, has more than 8 axes"):
        ms.compile_artifact(tmp_path / "libs.so", {"f": (lambda x: x * 2, nine)})


class Noisy(nn.Cell):
    """Random numbers, a branch and a loop of the run, and a moving average."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(p=0.5)
        self.norm = nn.BatchNorm1d(6)

    def construct(self, x: Any, n: Any) -> Any:
        y = self.norm(self.drop(x))
        if x.sum() > 0:
            y = y * 2
        i = ops.zeros((), ms.int32)
        while i < n:
            y = y + 1
            i = i + 1
        return y, ops.standard_normal((4,))


def test_random_numbers_branches_and_moving_averages(tmp_path: Path) -> None:
    ms.set_seed(11)
    net = Noisy().set_train()
    x = RNG.standard_normal((8, 6)).astype(np.float32)
    n = np.array(3, np.int32)
    ms.compile_artifact(tmp_path / "libn.so", {"f": (net, ms.Tensor(x), ms.Tensor(n))})
    ms.compile_artifact(tmp_path / "n.cellc", {"f": (net, ms.Tensor(x), ms.Tensor(n))})
    artifact = load(tmp_path / "n.cellc", trust_native_code=True)
    with CLibrary(tmp_path / "libn.so").session() as session:
        seen = []
        for sign in (1, -1, 1):
            got = session.run("f", x * sign, n)
            seen.append(got[0])
            for a, b in zip(got, artifact.call("f", x * sign, n), strict=True):
                np.testing.assert_array_equal(a, b)
        assert not np.array_equal(seen[0], seen[2])
        for name, array in artifact.weights.items():
            np.testing.assert_array_equal(session.weight(name), array)
        session.reset()
        np.testing.assert_array_equal(session.run("f", x, n)[0], seen[0])


@pytest.mark.parametrize("seed", range(4))
def test_arguments_that_make_no_sense(library: CLibrary, seed: int) -> None:
    """Whatever the fields say, a call is refused or right; nothing outside of the buffer is
    written."""
    chance = random.Random(seed)
    session, error = library.session(), Error()
    x = RNG.standard_normal((8, 16)).astype(np.float32)
    want = session.run("infer", x)[0]
    raw = np.full(want.nbytes + 256, 7, np.uint8)
    at = -raw.ctypes.data % 64 + 64
    out = raw[at : at + want.nbytes].view(np.float32).reshape(want.shape)
    odd = [0, 1, -1, 2, 3, 8, 9, 16, 1 << 31, 1 << 40, -(1 << 62), 300]
    run, refused, done = library.function("run"), 0, 0
    for _ in range(3000):
        inputs, outputs = (Tensor * 1)(tensor(x)), (Tensor * 1)(tensor(out))
        numbers = {"entry": session.number("infer"), "inputs": 1, "outputs": 1}
        for _ in range(chance.randint(1, 3)):
            which = chance.choice((inputs[0], inputs[0], outputs[0], None))
            if which is None:
                numbers[chance.choice(list(numbers))] = chance.choice([0, 1, -1, 300])
            else:
                field = chance.choice(("nbytes", "dtype", "ndim", "shape"))
                if field == "shape":
                    which.shape[chance.randrange(8)] = chance.choice(odd)
                elif field == "nbytes":  # (no more than there is)
                    which.nbytes = chance.choice([n for n in odd if n <= 300])
                else:
                    setattr(which, field, chance.choice(odd) & 0x7FFFFFFF)
        if numbers["inputs"] > 1 or numbers["outputs"] > 1 or numbers["entry"] == 1:
            continue  # the caller says that there are more, or it is another call
        raw[:] = 7
        code = run(session.handle, numbers["entry"], ctypes.addressof(inputs), numbers["inputs"],
                   ctypes.addressof(outputs), numbers["outputs"], ctypes.addressof(error))
        assert code == error.code and (code == 0) == (error.length == 0)
        rows = int(outputs[0].shape[0]) if code == 0 else 0
        assert rows <= 8
        done, refused = done + (code == 0), refused + (code != 0)
        np.testing.assert_array_equal(out[:rows], want[:rows])
        assert (raw[:at] == 7).all() and (raw[at + rows * 1200 :] == 7).all(), error.text
    assert refused > 500 and done > 10
    session.close()
