"""One peer and one case in a process of its own; asked over stdin, answers on stdout, in JSON.

`run.py` starts it. It imports the library (timed), builds the case, makes the first call (timed),
says so, then for every line `{"seconds": s}` measures for that long; an empty line ends it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from itertools import repeat
from typing import Any, TextIO

PEERS = ("cellc graph", "cellc pynative", "torch eager", "torch compile", "mindspore graph",
         "mindspore pynative", "jax", "numpy")


def imported(peer: str) -> float:
    """Import the peer's library; seconds."""
    start = time.perf_counter()
    __import__(peer.split()[0])
    return time.perf_counter() - start


def build(peer: str, case: str) -> Callable[[], Any]:
    """One call of a case with a peer."""
    import cases  # numpy must not be loaded before the import is timed

    library, _, mode = peer.partition(" ")
    given, train = cases.data(case), cases.CASES[case].train
    if library == "torch":
        import peer_torch  # each peer's environment has one library

        return peer_torch.build(mode, case, train, given)
    if library == "jax":
        import peer_jax

        return peer_jax.build(case, train, given)
    if library == "numpy":
        return _numpy(given.inputs)
    import peer_cell

    return peer_cell.build(library, mode, case, given)


def _numpy(inputs: tuple[Any, ...]) -> Callable[[], Any]:
    """numpy's BLAS; only the matrix product asks for it."""
    a, b = inputs
    return lambda: a @ b


def measure(call: Callable[[], Any], seconds: float) -> float:
    """Seconds per call, of as many calls as fit."""
    start = time.perf_counter()
    call()
    count = max(1, int(seconds / max(time.perf_counter() - start, 1e-7)))
    start = time.perf_counter()
    for _ in repeat(None, count):
        call()
    return (time.perf_counter() - start) / count


def peak_memory() -> float | None:
    """Peak resident memory of this process in MiB; None where the platform does not say."""
    try:
        import resource  # not on Windows
    except ImportError:
        return None
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def summary(result: Any) -> float:
    """A number that shows whether peers computed the same."""
    import numpy as np  # as above

    value = np.asarray(result.asnumpy() if hasattr(result, "asnumpy") else result)
    return float(np.sqrt(np.mean(np.square(value, dtype=np.float64))))


def main(peer: str, case: str, out: TextIO) -> None:
    """Serve until told to end."""
    def say(**answer: Any) -> None:
        out.write(json.dumps(answer) + "\n")
        out.flush()

    seconds = imported(peer)
    call = build(peer, case)
    start = time.perf_counter()
    result = call()
    first = time.perf_counter() - start
    say(imported=seconds, first=first, value=summary(result))
    for line in sys.stdin:
        if not line.strip():
            break
        say(seconds=measure(call, json.loads(line)["seconds"]))
    say(memory=peak_memory())


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not get between the answers
    main(sys.argv[1], sys.argv[2], answers)
