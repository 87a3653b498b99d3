"""Copies by several threads move the bytes that a copy by one would."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from cellc_runtime import parallel_copy
from cellc_runtime.parallel_copy import LARGE, copy_array

Array = np.ndarray[Any, Any]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The threads that are started from now on, of three that may be used."""
    found: list[threading.Thread] = []
    start = threading.Thread.start

    def note(thread: threading.Thread) -> None:
        found.append(thread)
        start(thread)

    monkeypatch.setattr(parallel_copy, "num_threads", lambda: 3)
    monkeypatch.setattr(threading.Thread, "start", note)
    return found


def given(shape: tuple[int, ...], dtype: Any = np.uint8) -> Array:
    raw = np.random.default_rng(1).integers(0, 256, int(np.prod(shape)), np.uint8)
    return raw.astype(dtype).reshape(shape)


@pytest.mark.parametrize("shape", [(3 * LARGE + 5,), (7, LARGE), (2 * LARGE - 1, 1)])
def test_every_byte_arrives(shape: tuple[int, ...], started: list[threading.Thread]) -> None:
    source = given(shape)
    to = np.zeros(shape, np.uint8)
    copy_array(to, source)
    np.testing.assert_array_equal(to, source)
    assert len(started) == min(3, to.nbytes // LARGE) - 1
    assert not any(t.is_alive() for t in started)


def test_what_is_no_plain_copy_is_one_threads(started: list[threading.Thread]) -> None:
    """Conversions, strides, memory in common, little of it."""
    wide = given((2 * LARGE,), np.float64)
    narrow = np.zeros(2 * LARGE, np.float32)
    copy_array(narrow, wide)
    np.testing.assert_array_equal(narrow, wide.astype(np.float32))
    square = given((2048, 2048))
    to = np.zeros((2048, 2048), np.uint8)
    copy_array(to, square.T)
    np.testing.assert_array_equal(to, square.T)
    block = given((3 * LARGE,))
    before = block.copy()
    copy_array(block[1:], block[:-1])
    np.testing.assert_array_equal(block[1:], before[:-1])
    small = np.zeros(2, np.uint8)
    copy_array(small, np.array([1, 2], np.uint8))
    np.testing.assert_array_equal(small, [1, 2])
    copy_array(np.zeros((0, 3)), np.zeros((0, 3)))
    assert not started


def test_threads_that_cannot_start_are_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_copy, "num_threads", lambda: 3)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    source = given((3 * LARGE,))
    to = np.zeros_like(source)
    copy_array(to, source)
    np.testing.assert_array_equal(to, source)
