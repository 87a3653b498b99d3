"""Attention of any length runs as one kernel, with the bits of a known length. Long ones have their
blocks of scores in memory."""

from __future__ import annotations

from typing import Any

import pytest

import cellc as ms
from cellc import ops
from cellc_compiler.backends.attention import AttentionPattern
from cellc_compiler.backends.cpu.kernels import attention

from .test_open_pictures import floats
from .test_open_programs import Served

LENGTHS = [(2, 2), (3, 5), (2, 24), (2, 25), (3, 77), (2, 129), (2, 700), (2, 2100)]


def heads(x: Any, d: int, h: int = 2) -> list[Any]:
    b, s, _ = x.shape
    return [t.reshape(b, s, h, d).transpose(0, 2, 1, 3) for t in ops.split(x, h * d, -1)]


def plain(x: Any) -> Any:
    q, k, v = heads(x, 64)
    return ops.matmul(ops.softmax(ops.matmul(q, k.swapaxes(2, 3)) / 8, -1), v)


def causal(x: Any, d: int = 16) -> Any:
    q, k, v = heads(x, d, 128 // d)
    later = ops.triu(ops.ones((x.shape[1], x.shape[1]), ms.bool_), 1)
    scores = ops.masked_fill(ops.matmul(q, k.swapaxes(2, 3)) / d**0.5, later, -1e9)
    return ops.matmul(ops.softmax(scores, -1), v)


def gradient(x: Any) -> Any:
    return ms.grad(lambda y: ops.square(causal(y)).sum())(x)


CASES = {"plain": plain, "causal": causal, "gradient": gradient,
         "float64": lambda x: plain(x.astype(ms.float64))}


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Says how often attention was found while code was made in the test."""
    found: list[str] = []
    emit = AttentionPattern.emit
    monkeypatch.setattr(AttentionPattern, "emit", lambda self, block, match, cluster: (
        found.append(match.mix.op), emit(self, block, match, cluster))[1])
    monkeypatch.setenv("CELLC_CACHE_SIZE", "0")
    return found


@pytest.mark.parametrize("name", CASES)
def test_one_kernel(name: str, fused: list[str]) -> None:
    made = Served(CASES[name], [floats(2, 40, 384)], {0: (None, None, 384)})
    assert fused
    for b, s in LENGTHS:
        assert made.same([floats(b, s, 384)]), (b, s)


def test_lengths_of_queries_and_keys_that_differ(fused: list[str]) -> None:
    """A key-value cache: the keys are those of before and those of now."""
    def attend(q: Any, past: Any, k: Any) -> Any:
        keys = ops.concat((past, k), 1)
        return ops.matmul(ops.softmax(ops.matmul(q, keys.swapaxes(1, 2)), -1), keys)

    def arrays(past: int, now: int) -> list[Any]:
        return [floats(2, now, 32), floats(2, past, 32), floats(2, now, 32)]

    made = Served(attend, arrays(9, 5), dict.fromkeys(range(3), (2, None, 32)))
    assert fused
    for past, now in [(2, 2), (30, 3), (1000, 24), (5, 200)]:
        assert made.same(arrays(past, now)), (past, now)


def test_a_last_block_that_is_missing_is_found(
    fused: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = attention.ceil_div
    monkeypatch.setattr(attention, "ceil_div", lambda a, b: a // b)
    broken = Served(plain, [floats(2, 41, 384)], {0: (2, None, 384)})
    monkeypatch.setattr(attention, "ceil_div", right)
    assert fused and not broken.same([floats(2, 100, 384)])
