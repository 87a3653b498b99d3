"""Interpreters that cellc does not run in, and free-threaded Python with its lock.

`CELLC_FREE_THREADED_PYTHON` names a free-threaded Python that has numpy, ml_dtypes and llvmlite.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NETWORK = """
import sys, threading
import numpy as np
import cellc as ms
from cellc import nn, ops

assert sys._is_gil_enabled()

def step(net, x):
    return ms.value_and_grad(lambda x: net(x).sum(), 0, net.trainable_params())(x)

fast, found = ms.jit(step), {}
def work(number):
    dense = nn.Dense(8, 16, weight_init="ones", bias_init="ones")
    net = nn.SequentialCell(dense, nn.ReLU(), nn.LayerNorm((16,)))
    x = ms.Tensor(np.arange(32).reshape(4, 8), ms.float32)
    out = []
    for _ in range(5):
        value, (dx, dw) = fast(net, x)
        out += [a.asnumpy().tobytes() for a in (value, dx, step(net, x)[0])]
    found[number] = out

threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
for t in threads: t.start()
for t in threads: t.join()
assert len(found) == 6 and all(f == found[0] for f in found.values())
assert found[0][0] == found[0][2]
print("right")
"""


def _run(python: str, code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python, "-c", code], capture_output=True, text=True, env={
        **os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / p) for p in (
            "frontend", "compiler", "runtime")), **env}, timeout=300)


@pytest.mark.parametrize("name", ["cellc", "cellc_runtime"])
def test_without_the_lock_it_is_refused(name: str) -> None:
    """It would be used without what guards its tables."""
    done = _run(sys.executable, "import sys; sys._is_gil_enabled = lambda: False\n"
                                f"import {name}")
    assert done.returncode == 1
    assert "ImportError: cellc needs Python's global lock" in done.stderr
    assert "-X gil=1 or PYTHON_GIL=1" in done.stderr


@pytest.fixture
def free_threaded() -> str:
    python = os.environ.get("CELLC_FREE_THREADED_PYTHON", "")
    if not python:
        pytest.skip("CELLC_FREE_THREADED_PYTHON names no free-threaded Python")
    return python


def test_a_free_threaded_python(free_threaded: str) -> None:
    """It is refused; with its lock threads compile and compute what they do elsewhere."""
    done = _run(free_threaded, "import cellc", PYTHON_GIL="0")
    assert done.returncode == 1 and "cellc needs Python's global lock" in done.stderr
    done = _run(free_threaded, NETWORK, PYTHON_GIL="1")
    assert done.stdout == "right\n", done.stderr
