"""The memory plan against the plain form of its rule."""

from __future__ import annotations

import random

import pytest

from cellc_compiler.lower.memory import Buffer, plan


def _by_the_rule(buffers: list[Buffer]) -> tuple[list[int], int]:
    """The largest first, each at the lowest offset where nothing lies that lives meanwhile."""
    placed: list[tuple[int, Buffer]] = []
    for b in sorted(buffers, key=lambda b: (-b.size, b.first)):
        at = 0
        for offset, other in sorted(placed, key=lambda p: p[0]):
            if other.first <= b.last and b.first <= other.last:
                if offset - at >= b.size:
                    break
                at = max(at, offset + other.size)
        placed.append((at, b))
    offsets = {id(b): at for at, b in placed}
    return [offsets[id(b)] for b in buffers], max((at + b.size for at, b in placed), default=0)


def _mixed(rng: random.Random, count: int) -> list[Buffer]:
    """Buffers of few and of many sizes, that live short, long, and through one another."""
    out = []
    for i in range(count):
        nbytes = rng.choice((1, 64, 256, 256, 4096, rng.randrange(1, 5000)))
        first = rng.randrange(3 * count)
        last = first + rng.choice((0, 1, 5, 40, 2 * (3 * count - first)))
        out.append(Buffer(nbytes, first, last, name=str(i)))
    return out


@pytest.mark.parametrize("count", [0, 1, 2, 7, 60, 300])
def test_offsets_are_the_lowest_that_are_free(count: int) -> None:
    for seed in range(12):
        buffers = _mixed(random.Random(seed), count)
        offsets, total = _by_the_rule(buffers)
        assert plan(buffers) == total
        assert [b.offset for b in buffers] == offsets


def test_activations_that_wait_for_their_gradients_are_beside_one_another() -> None:
    layers = 50
    buffers = [Buffer(128, i, 2 * layers - i) for i in range(layers)]
    assert plan(buffers) == 128 * layers
    assert sorted(b.offset for b in buffers) == [128 * i for i in range(layers)]
