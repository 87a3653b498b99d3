"""What PyNative keeps compiled is bounded: shapes that change without end fill no memory."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc.core import dispatch
from cellc.core.lru import LRU
from cellc.eager import folding

Array = np.ndarray[Any, Any]


def test_what_was_used_last_stays() -> None:
    rng = np.random.default_rng(0)
    kept: LRU[int, str] = LRU(5)
    order: list[int] = []
    for n in rng.integers(0, 12, 2000).tolist():
        assert (kept.get(n) == str(n)) if n in order[-5:] else (kept.get(n) in (None, str(n)))
        kept[n] = str(n)
        order = [*(o for o in order if o != n), n]
        assert all(o in kept for o in order[-5:])
        assert 1 <= len(kept) <= 10 and set(kept) <= set(order)


def test_it_reads_as_a_dict() -> None:
    kept: LRU[str, int | None] = LRU(2)
    kept["a"] = None
    assert kept.get("a", 3) is None and kept["a"] is None and "a" in kept
    assert kept.get("b") is None and kept.get("b", 3) == 3
    assert kept.setdefault("b", 4) == 4 == kept.setdefault("b", 5)
    for name in "cd":
        kept[name] = 1
    assert kept["a"] is None  # found in the elder generation, and young again
    kept["e"] = 1
    assert "a" in kept
    with pytest.raises(KeyError, match="'f'"):
        kept["f"]
    kept.clear()
    assert len(kept) == 0 and list(kept) == []
    with pytest.raises(ValueError, match="at least 1 entry, got 0"):
        LRU(0)


def test_threads_find_what_they_put() -> None:
    kept: LRU[int, int] = LRU(64)
    wrong: list[Any] = []

    def use(first: int) -> None:
        for n in range(first, first + 20_000):
            if kept.setdefault(n % 100, n % 100) != n % 100:
                wrong.append(n)
            if kept.get(n % 100, n % 100) != n % 100:
                wrong.append(n)

    many = [threading.Thread(target=use, args=(7 * i,)) for i in range(4)]
    for t in many:
        t.start()
    for t in many:
        t.join()
    assert not wrong and len(kept) <= 128


class Deaf:
    """A native site that learns nothing."""

    def learn(self, *args: Any) -> None:
        """Do nothing."""


def test_programs_of_ops_go_and_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    engine = dispatch._engine[0]
    ops.exp(ms.Tensor([1.0]))  # the first op of a process puts native sites before all others
    monkeypatch.setattr(engine, "entries", LRU(3))
    monkeypatch.setattr(engine, "site", Deaf())  # the native one would keep what it answers
    seen = []
    for n in (3, 4, 5, 6, 7, 8, 9, 10, 11, 3, 4):
        x = np.arange(n, dtype=np.float32)
        out = engine.run("cumsum", (ms.Tensor(x),), {"axis": 0, "exclusive": False,
                                                     "reverse": False})
        np.testing.assert_array_equal(out.asnumpy(), np.cumsum(x))
        assert len(engine.entries) <= 6
        seen.append(weakref.ref(engine.entries[list(engine.entries)[-1]].executable))
    gc.collect()
    living = {id(r()) for r in seen if r() is not None}
    assert 0 < len(living) <= 6 and any(r() is None for r in seen)  # unmapped, memory given back


class Block(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.w = ms.Parameter(np.full((2, 2), 0.5, np.float32), name="w")

    def construct(self, x: ms.Tensor) -> Any:
        return ops.tanh(ops.matmul(x, self.w)) + x


def _gradient(marked: bool, x: Array) -> Array:
    net = Block()
    if marked:
        net.recompute()
    seen = ms.grad(lambda v: net(v).sum(), None, net.trainable_params())(ms.Tensor(x))
    found: Array = seen[0].asnumpy()
    return found


def test_recomputed_stretches_of_many_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    monkeypatch.setattr(folding, "_graphs", LRU(2))
    monkeypatch.setattr(folding, "_plans", LRU(2))
    for n in (1, 2, 3, 4, 5, 6, 1):
        x = np.linspace(-1, 1, 2 * n, dtype=np.float32).reshape(n, 2)
        np.testing.assert_array_equal(_gradient(True, x), _gradient(False, x))
        assert len(folding._graphs) <= 4 and len(folding._plans) <= 4
    assert len(folding._graphs) > 0


def test_pop_and_values() -> None:
    kept: LRU[int, int] = LRU(2)
    for k in range(3):
        kept[k] = k * 10
    assert sorted(kept.values()) == [0, 10, 20]
    assert kept.pop(0) == 0
    assert kept.pop(0) is None
    assert kept.pop(7, 1) == 1
    assert dict(kept.items()) == {1: 10, 2: 20}
