"""Libraries that several tests call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops

from ..campaigns.emulated.conftest import emulated as emulated
from .library import CLibrary


class Model(nn.Cell):
    """A cache that two entries share, a lookup that can fail, and open sizes."""

    def __init__(self) -> None:
        super().__init__()
        table = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
        self.w = ms.Parameter(table, name="w")
        self.cache = ms.Parameter(np.zeros((8, 16), np.float32), name="cache", requires_grad=False)
        self.dense = nn.Dense(16, 300, weight_init=ms.Tensor(np.tile(table, (19, 1))[:300]))

    def prefill(self, x: Any) -> Any:
        """Fill the cache."""
        ops.assign(self.cache, ops.matmul(x, self.w))
        return self.cache.sum(0)

    def decode(self, x: Any, p: Any) -> Any:
        """Write a row of the cache."""
        here = (ops.arange(8) == p).astype(ms.float32).reshape(8, 1)
        ops.assign(self.cache, self.cache * (1 - here) + ops.matmul(x, self.w) * here)
        return self.cache.sum(0)

    def pick(self, x: Any, i: Any) -> Any:
        """A row that may be missing."""
        return ops.gather(x, i, 0) * 2

    def attend(self, q: Any, k: Any) -> Any:
        """Attention with two open sizes."""
        scores = ops.softmax(ops.matmul(q, k.swapaxes(-1, -2)) / k.shape[-2] ** 0.5, -1)
        return ops.matmul(scores, k), scores.sum(-1)

    def construct(self, x: Any) -> Any:
        """A large result."""
        return ops.relu(self.dense(x))


ENTRIES = {
    "infer": "float32[N,16]", "prefill": "float32[8,16]", "decode": ("float32[1,16]", "int32[]"),
    "pick": ("float32[4,3]", "int32[2]"), "attend": ("float32[Q,16]", "float32[K,16]"),
}


def entries(net: Model, names: Any = ENTRIES) -> dict[str, Any]:
    """The entries of a model for `compile_artifact`."""
    found = {}
    for name in names:
        types = ENTRIES[name]
        fn = net if name == "infer" else getattr(net, name)
        found[name] = (fn, *([types] if isinstance(types, str) else types))
    return found


@pytest.fixture(scope="session")
def model() -> Model:
    """The network."""
    return Model().set_train(False)


@pytest.fixture(scope="session")
def path(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of all entries, for this machine."""
    made = tmp_path_factory.mktemp("library") / "libmodel.so"
    ms.compile_artifact(made, entries(model))
    return made


@pytest.fixture(scope="session")
def library(path: Path) -> CLibrary:
    """The same, loaded."""
    return CLibrary(path)
