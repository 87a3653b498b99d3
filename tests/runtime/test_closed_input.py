"""Standard streams that are closed: a pipe to a worker must not take their place."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os
for stream in {closed}:
    os.close(stream)
from cellc_compiler.build import workers
first, second = workers.pair()
assert first.begins() and second.begins()
ends = [s.fileno() for w in (first, second) for s in (w.process.stdin, w.process.stdout)]
first.end(), second.end()
os._exit(0 if min(ends[2:]) > 2 else 7)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.parametrize("closed", [(0,), (0, 1), (0, 1, 2)])
def test_workers_begin_without_standard_streams(closed):
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(closed=closed)],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
