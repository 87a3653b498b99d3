"""Draws for whole parameters: in the array's own precision, block by block, on all processors.

Each block has a stream of its own, keyed by one draw of the generator and the block's number, so
the numbers follow from the generator and the shape alone, not from the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cellc_runtime.platform import usable_cpus

Array = np.ndarray[Any, Any]
_BLOCK = 1 << 18
"""Elements of a block: what is drawn is scaled while it is in the cache."""


def fill_normal(random: np.random.Generator, arr: Array, mean: float, sigma: float) -> None:
    """Fill an array from a normal distribution."""

    def block(stream: np.random.Generator, out: Array) -> None:
        _standard_normal(stream, out)
        out *= sigma
        if mean:
            out += mean

    _fill(random, arr, block)


def fill_uniform(random: np.random.Generator, arr: Array, low: float, high: float) -> None:
    """Fill an array from the uniform distribution on [low, high)."""

    def block(stream: np.random.Generator, out: Array) -> None:
        stream.random(out=out, dtype=out.dtype)
        out *= high - low
        out += low

    _fill(random, arr, block)


def _standard_normal(stream: np.random.Generator, out: Array) -> None:
    """Box and Muller (1958): numpy's vector functions make it twice as fast as its ziggurat."""
    if out.dtype != np.float32:
        stream.standard_normal(out=out)
        return
    half = out.size // 2
    angle = stream.random(out.size - half, dtype=np.float32)
    angle *= np.float32(2 * math.pi)
    radius = stream.random(out.size - half, dtype=np.float32)
    np.subtract(1, radius, out=radius)  # in (0, 1]: the logarithm is finite
    np.log(radius, out=radius)
    radius *= np.float32(-2)
    np.sqrt(radius, out=radius)
    np.sin(angle, out=out[half:])
    out[half:] *= radius
    np.cos(angle[:half], out=out[:half])
    out[:half] *= radius[:half]


def _fill(
    random: np.random.Generator, arr: Array, draw: Callable[[np.random.Generator, Array], None]
) -> None:
    direct = arr.flags.c_contiguous and arr.dtype in (np.float32, np.float64)
    out = arr if direct else np.empty(arr.shape, np.float64)
    flat = out.reshape(-1)
    key = int(random.integers(1 << 63))

    def work(number: int) -> None:
        stream = np.random.Generator(np.random.SFC64((key, number)))
        draw(stream, flat[number * _BLOCK : (number + 1) * _BLOCK])

    blocks = range(-(-flat.size // _BLOCK))
    # (One block needs no thread, and asking the system for its processors takes 2 ms.)
    threads = min(usable_cpus()[0], len(blocks)) if len(blocks) > 1 else 1
    if threads > 1:
        # The import takes as long as a block, and small networks have no use for it.
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, blocks))
    else:
        for number in blocks:
            work(number)
    if not direct:
        arr[...] = out
