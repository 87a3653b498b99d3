"""Initial values after `set_seed`: run under MindSpore, and under cellc.

`python initial_values.py mindspore` (in MindSpore's interpreter) prints what `initial_values.json`
holds.
"""

import importlib
import json
import sys
from typing import Any

import numpy as np


def arrays(ms: Any, initializers: Any) -> dict[str, Any]:
    """The cases: functions that give an array."""
    nn, init = ms.nn, initializers

    def filled(kind: Any, shape: tuple[int, ...] = (4, 5), dtype: Any = ms.float32) -> Any:
        return lambda: init.initializer(kind, shape, dtype).init_data().asnumpy()

    def second() -> Any:
        init.initializer("normal", (3,), ms.float32).init_data()
        np.random.rand(5)
        return filled(init.Uniform())()

    return {
        "Normal": filled(init.Normal(0.3, 1.5)), "normal": filled("normal", (3, 3, 3)),
        "Uniform": filled(init.Uniform(0.2)), "HeUniform": filled(init.HeUniform()),
        "HeNormal": filled(init.HeNormal(0.1, "fan_out"), (4, 3, 2, 2)),
        "XavierUniform": filled(init.XavierUniform(2)), "XavierNormal": filled("XavierNormal"),
        "TruncatedNormal": filled(init.TruncatedNormal(0.5, 0.1, -0.4, 1.2)),
        "float16": filled(init.Uniform(), (7,), ms.float16),
        "one": filled(init.Normal(), (1,)),
        "Orthogonal": filled(init.Orthogonal(), (3, 5)), "tall": filled(init.Orthogonal(), (5, 3)),
        "Sparse": filled(init.Sparse(0.4, 2.0), (5, 4)),
        "long": lambda: filled(init.Normal(1.0), (300_001,))()[::7919],
        "long uniform": lambda: filled(init.Uniform(1.0), (300_001,))()[::7919],
        "after others": second,
        "Dense": lambda: nn.Dense(3, 2).weight.asnumpy(),
        "Dense bias": lambda: nn.Dense(3, 2).bias.asnumpy(),
        "Conv2d": lambda: nn.Conv2d(2, 3, 2, has_bias=True).weight.asnumpy(),
        "Embedding": lambda: nn.Embedding(4, 3).embedding_table.asnumpy(),
        "layers": lambda: nn.SequentialCell(
            nn.Dense(2, 3), nn.Conv1d(3, 2, 2), nn.Dense(2, 2))[2].weight.asnumpy(),
    }


def run(library: str) -> dict[str, Any]:
    """What each case gives for two seeds."""
    ms = importlib.import_module(library)
    cases = arrays(ms, importlib.import_module(f"{library}.common.initializer"))
    found = {}
    for name, make in cases.items():
        for seed in (1, 987654321):
            ms.set_seed(seed)
            found[f"{name}, seed {seed}"] = np.asarray(make(), np.float32).ravel().tolist()
    return found


if __name__ == "__main__":
    json.dump(run(sys.argv[1]), sys.stdout, separators=(",", ":"))
