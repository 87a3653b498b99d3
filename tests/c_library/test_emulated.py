"""Libraries for processors that this machine does not have, run there (`.ci/emulators`): the bits
of the network, and the same errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import cellc as ms
from cellc import nn, ops

from ..campaigns.emulated.machine import Machine
from ..samples.networks import load
from .conftest import Model, entries

lenet = load("lenet")
THERE = """
import sys
import numpy as np
from tests.c_library.library import CLibrary, Failed
folder = sys.argv[1]
given, out = np.load(folder + "/given.npz"), {}
library = CLibrary(folder + "/libmodel.so")
with library.session(threads=2) as s, s.clone() as other:
    for n in (1, 2, 7):
        out[f"infer{n}"], = s.run("infer", given["x"][:n])
    out["filled"], = s.run("prefill", given["x"][:8])
    assert not other.weight("cache").any()
    out["cache"] = s.weight("cache")
    s.save(folder + "/saved")
    for entry, arrays in (("infer", (given["x"][0],)), ("pick", (given["x"][:4, :3].copy(),
                          np.array([1, 9], np.int32)))):
        try:
            s.run(entry, *arrays, out=[np.empty((2, 3), np.float32)])
        except Failed as error:
            out[f"text of {entry}"] = np.array(f"{error.code} {error}")
with library.session() as s:
    s.save(folder + "/first")
with CLibrary(folder + "/libimages.so").session() as s:
    out["image"], = s.run("small", given["image"])
    losses = [s.run("train", given["images"], given["label"])[0] for _ in range(3)]
    out["losses"] = np.array(losses)
np.savez(folder + "/there.npz", target=np.array(__import__("ctypes").string_at(
    library.table.target).decode()), **out)
"""


class Small(nn.Cell):
    """Convolutions by weights of few bits."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 24, 3, 2, has_bias=True), nn.Conv2d(24, 32, 3)
        self.deep = nn.Conv2d(32, 32, 3, group=32)

    def construct(self, x: Any) -> Any:
        """A few features."""
        return ops.mean(self.deep(ops.relu(self.second(ops.relu(self.first(x))))), (2, 3))


def test_libraries_run_there(emulated: Machine, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((9, 16)).astype(np.float32)
    image = rng.standard_normal((1, 3, 32, 32)).astype(np.float32)
    images = rng.standard_normal((16, 1, 32, 32)).astype(np.float32)
    label = np.arange(16, dtype=np.int32) % 10
    np.savez(tmp_path / "given.npz", x=x, image=image, images=images, label=label)
    model = Model().set_train(False)
    ms.set_seed(6)
    small = ms.quantize(Small().set_train(False), "int4", group_size=32)
    step = lenet.train_step(lenet.LeNet5())
    ms.compile_artifact(tmp_path / "libmodel.so", entries(model), targets=emulated.target)
    ms.compile_artifact(tmp_path / "libimages.so", {
        "small": (small, image), "train": (step, images, label)}, targets=emulated.target)
    done = emulated.run(["-c", THERE, str(tmp_path)], 500)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "there.npz") as there:
        assert str(there["target"]) == emulated.target
        for n in (1, 2, 7):
            assert there[f"infer{n}"].tobytes() == model(ms.Tensor(x[:n])).asnumpy().tobytes()
        assert there["filled"].tobytes() == model.prefill(ms.Tensor(x[:8])).asnumpy().tobytes()
        assert there["cache"].tobytes() == model.cache.asnumpy().tobytes()
        assert "'x' must be float32[N, 16], but got float32[16]" in str(there["text of infer"])
        assert "IndexError" in str(there["text of pick"])
        assert there["image"].tobytes() == small(ms.Tensor(image)).asnumpy().tobytes()
        losses = [step(ms.Tensor(images), ms.Tensor(label)).asnumpy() for _ in range(3)]
        assert there["losses"].tobytes() == np.array(losses).tobytes()
    saved, first = (tmp_path / name for name in ("saved", "first"))
    assert saved.stat().st_size == first.stat().st_size and saved.read_bytes() != first.read_bytes()
