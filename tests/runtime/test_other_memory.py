"""Reading the memory of another process of this machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from cellc_runtime import platform

OTHER = """
import ctypes, sys
from cellc_runtime import platform
platform.let_read_memory()
held = ctypes.create_string_buffer(bytes(range(256)) * 5000, 1280000)
print(ctypes.addressof(held), flush=True)
sys.stdin.readline()
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone can")


@pytest.fixture
def other() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process, and where it has 1,280,000 bytes."""
    process = subprocess.Popen([sys.executable, "-c", OTHER], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield process, int(process.stdout.readline())
    process.communicate("")


def test_what_is_read_is_what_is_there(other: tuple[subprocess.Popen[str], int]) -> None:
    """And where nothing is, or nobody, that is said."""
    process, address = other
    out = np.zeros(1_000_003, np.uint8)
    platform.read_memory(process.pid, address + 7, out)
    assert np.array_equal(out, (np.arange(out.size) + 7).astype(np.uint8))
    with pytest.raises(OSError, match=f"reading the memory of process {process.pid}: Bad address"):
        platform.read_memory(process.pid, 8, out)
    process.communicate("")
    with pytest.raises(OSError, match="No such process"):
        platform.read_memory(process.pid, address, out)
