"""Philox4x32-10 against the paper's known answers and an independent numpy version."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cellc_compiler.backends.llvm.philox import philox_bits, philox_block
from cellc_compiler.backends.llvm.text import Function, V, module, vector
from cellc_compiler.build.abi import PLACEHOLDER
from cellc_runtime.target import host_target

from .jit import compile_text

# Salmon et al., Random123 distribution, file kat_vectors: counter, key, result.
KNOWN = (
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
)


def reference_block(counter: tuple[int, ...], key: tuple[int, ...]) -> tuple[int, ...]:
    """Philox4x32-10 in Python integers."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    mask = 0xFFFFFFFF
    for _ in range(10):
        p, q = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (q >> 32) ^ c1 ^ k0, q & mask, (p >> 32) ^ c3 ^ k1, p & mask
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    return c0, c1, c2, c3


def reference(index: int, seed: int, offset: int) -> int:
    """The bits of one element."""
    block, mask = index // 4, 0xFFFFFFFF
    words = reference_block((block & mask, block >> 32, offset & mask, offset >> 32),
                            (seed & mask, seed >> 32))
    return words[index % 4]


def draw(start: int, count: int, lanes: int, seed: int, offset: int) -> np.ndarray[Any, Any]:
    """Bits of `count` elements from `start` on, `lanes` at a time."""
    f = Function(PLACEHOLDER, [("ptr", "bufs"), ("i64", "lo"), ("i64", "hi")], host_target())
    args, out = f.load("ptr", f.arg("bufs")), f.load("ptr", f.gep(f.arg("bufs"), 8))
    s, o, base = (f.load("i64", f.gep(args, 8 * i)) for i in range(3))

    def body(iv: V, _: list[V]) -> None:
        at = f.mul(iv, f.i64(lanes))
        first = f.add(base, at)
        ty = vector("i64", lanes)
        index = f.add(f.splat(first, lanes), f.iota(ty)) if lanes > 1 else first
        f.store(philox_bits(f, index, s, o), f.gep(out, at, "i32"))

    f.loop(f.arg("lo"), f.arg("hi"), 1, [], body)
    f.ret_()
    result = np.zeros(count, np.uint32)
    words = np.array([seed, offset, start], np.uint64)
    compile_text(module([f]))([words, result], 0, count // lanes)
    return result


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_known_answers(counter: tuple[int, ...], key: tuple[int, ...],
                       expected: tuple[int, ...]) -> None:
    assert reference_block(counter, key) == expected
    f = Function(PLACEHOLDER, [("ptr", "bufs"), ("i64", "lo"), ("i64", "hi")], host_target())
    args, out = f.load("ptr", f.arg("bufs")), f.load("ptr", f.gep(f.arg("bufs"), 8))
    block, offset, seed = (f.load("i64", f.gep(args, 8 * i)) for i in range(3))
    for i, word in enumerate(philox_block(f, block, seed, offset)):
        f.store(word, f.gep(out, 4 * i))
    f.ret_()
    result = np.zeros(4, np.uint32)
    words = np.array([*counter, *key], np.uint32)
    compile_text(module([f]))([words, result], 0, 1)
    assert tuple(int(x) for x in result) == expected


@pytest.mark.parametrize("start", [0, 4096, 2**36 + 8])
@pytest.mark.parametrize("lanes", [1, 3, 4, 8, 16, 32])
def test_elements(start: int, lanes: int) -> None:
    seed, offset = 0x123456789ABCDEF0, 0xFEDCBA9876543210
    got = draw(start, 96, lanes, seed, offset)
    assert [int(x) for x in got] == [reference(start + i, seed, offset) for i in range(96)]
