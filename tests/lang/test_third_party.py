"""Third-party functions in compiled functions: run on known values; on tensors refused where the
network is compiled without being called."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops
from cellc.compiled.entries import EntryTable
from cellc.lang.hints import _SAME_IN_OPS


@pytest.fixture(autouse=True)
def _graph_mode() -> Iterator[None]:
    ms.set_context(mode=ms.GRAPH_MODE)
    yield


class Known(nn.Cell):
    """Everything here is known when the network is compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.table = np.linspace(0.0, 1.0, 4)
        self.text = '{"k": [1, 2, 3]}'

    def construct(self, x: Tensor) -> Any:
        scale = float(np.exp(1.0)) + math.sqrt(4) + np.arange(3).sum()
        loaded = json.loads(self.text)
        mean = statistics.mean(loaded["k"])
        kernel = Tensor(np.outer(self.table, self.table).astype(np.float32))
        names = sorted(map(str.upper, loaded))
        return x * scale + mean + kernel.sum() + len(names), np.median(loaded["k"])


def test_on_known_values_they_run() -> None:
    x = Tensor(np.array([1.0, 2.0], np.float32))
    found = []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        out, median = Known()(x)
        found.append((out.asnumpy().tobytes(), float(median)))
    assert found[0] == found[1]


REFUSED: dict[str, tuple[Callable[[Tensor], Any], str, str]] = {
    "exp": (lambda a: np.exp(a), "numpy.exp()", "use ops.exp, or ops.py_func(numpy.exp, ...)"),
    "keyword": (lambda a: np.sum(a, axis=0), "numpy.sum()", "use ops.sum"),
    "another name": (lambda a: np.concatenate([a, a]), "numpy.concatenate()", "use ops.cat"),
    "multiply": (lambda a: np.multiply(a, 2), "numpy.multiply()", "use ops.mul"),
    "submodule": (lambda a: np.linalg.norm(a), "numpy.linalg.norm()", "use ops.norm"),
    "method": (lambda a: np.ones(2).dot(a), "numpy.ndarray.dot()", "use ops.dot"),
    "array": (lambda a: np.array(a), "numpy.array()", "it is a Tensor already"),
    "asarray": (lambda a: np.asarray(a, np.float32), "numpy.asarray()", "x.astype"),
    "no op": (lambda a: random.choice([a, a]), "random.choice()",
              "use functions of cellc.ops, or ops.py_func(random.choice, ...)"),
    "json": (lambda a: json.dumps({"k": [a]}), "json.dumps()", "use functions of cellc.ops"),
    "statistics": (lambda a: statistics.mean(a), "statistics.mean()", "use ops.mean"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_on_tensors_they_are_refused_without_a_call(name: str) -> None:
    """A call runs them by Python: see test_python_in_graphs.py."""
    fn, call, hint = REFUSED[name]
    with pytest.raises(TypeError, match="CE301") as caught:
        EntryTable().prepare(fn, (Tensor([1.0, 2.0]),), {})
    text = str(caught.value)
    assert text.startswith(f"{call} is called on a tensor, whose elements are not known")
    assert hint in text.split("hint: ")[1]
    assert "test_third_party.py" in text


def test_the_hint_with_py_func_works() -> None:
    @ms.jit
    def fn(a: Tensor) -> Any:
        return ops.py_func(np.exp, a, out_shape=a.shape, out_dtype=a.dtype)

    x = Tensor(np.array([1.0, 2.0], np.float32))
    assert fn(x).asnumpy().tolist() == np.exp(x.asnumpy()).tolist()


def test_the_offered_functions_exist() -> None:
    assert [n for n in _SAME_IN_OPS.values() if not callable(getattr(ops, n, None))] == []
