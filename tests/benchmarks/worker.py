"""One peer and one case in a process of its own; asked over stdin, answers on stdout, in JSON.

`run.py` and `bench_unseen.py` start it. A case is one of `cases.py`, or an ONNX file that has its
input beside it (`input.npy`). It imports the library (timed), builds the case (timed, less the
making of weights), makes the first call (timed), says so, then for every line `{"seconds": s}`
measures for that long; an empty line ends it.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from typing import Any, TextIO

import memory

PEERS = ("cellc graph", "cellc pynative", "torch eager", "torch compile", "mindspore graph",
         "mindspore pynative", "jax", "onnxruntime", "openvino", "numpy")
SAMPLES = 16  # elements of a result that are compared
BLOCK = 1 << 16  # elements summed up at once, so that it takes no memory
BATCHES = 15  # of calls in a measurement, of whose times the median counts
BATCH = 2e-4  # seconds a batch lasts at least


def imported(peer: str) -> float:
    """Import the peer's library with what makes a tensor of it, and numpy; seconds."""
    start = time.perf_counter()
    library = __import__(peer.split()[0])
    __import__("numpy")  # everybody needs it, though not everybody imports it at once
    if library.__name__ == "cellc":
        assert library.Tensor  # names load when they are first asked for
    return time.perf_counter() - start


def build(peer: str, case: str, folder: Path) -> tuple[Callable[[], Any], float]:
    """One call of a case with a peer, and the seconds to build it."""
    import cases  # numpy must not be loaded before the import is timed

    library, _, mode = peer.partition(" ")
    given = onnx_data(case) if is_file(case) else cases.data(case)
    start = time.perf_counter()
    if library == "torch":
        import peer_torch  # each peer's environment has one library

        call = peer_torch.build(mode, case, given)
    elif library == "jax":
        import peer_jax

        call = peer_jax.build(case, given)
    elif library in ("onnxruntime", "openvino"):
        import peer_onnx

        path = Path(case) if is_file(case) else folder / "onnx" / "model.onnx"
        call = peer_onnx.build(library, path, folder / "openvino", given)
    elif library == "numpy":
        call = _numpy(given.inputs)
    else:
        import peer_cell

        if is_file(case):
            call = peer_cell.build_file(mode, Path(case), folder, given)
        else:
            call = peer_cell.build(library, mode, case, given)
    return call, time.perf_counter() - start - given.weights.seconds


def is_file(case: str) -> bool:
    """Whether a case is an ONNX file rather than one of `cases.py`."""
    return case.endswith(".onnx")


def onnx_data(case: str) -> Any:
    """The inputs that lie beside an ONNX file, which has the weights."""
    import numpy as np  # as above
    import spec

    path = Path(case)
    if (several := path.with_name("inputs.npz")).exists():
        return spec.Data(tuple(np.load(several).values()), spec.Weights([]))
    return spec.Data((np.load(path.with_name("input.npy")),), spec.Weights([]))


def _numpy(inputs: tuple[Any, ...]) -> Callable[[], Any]:
    """numpy's BLAS; only the matrix product asks for it."""
    a, b = inputs
    return lambda: a @ b


def measure(call: Callable[[], Any], seconds: float) -> float:
    """Seconds per call: the median over batches of as many calls as fit; slow calls run once."""
    start = time.perf_counter()
    call()
    first = time.perf_counter() - start
    if first > seconds:
        return first
    count = max(1, int(max(seconds / BATCHES, BATCH) / max(first, 1e-7)))
    times = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in repeat(None, count):
            call()
        times.append((time.perf_counter() - start) / count)
    return statistics.median(times)


def peak_memory() -> float | None:
    """Peak resident memory of this process in MiB; None where the platform does not say."""
    if (found := memory.highest(os.getpid())) is not None:
        return found
    try:
        import resource  # not on Windows
    except ImportError:
        return None
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def compared(result: Any, kind: str, call: Callable[[], Any]) -> list[float]:
    """Numbers that show whether peers computed the same.

    Of an output its root mean square and some elements; of gradients the root mean square of each;
    of training the losses of the first three steps.
    """
    import numpy as np  # as above

    def array(value: Any) -> Any:
        if str(getattr(value, "dtype", "")).lower().endswith("bfloat16"):
            value = value.float()  # numpy has no such type
        return np.asarray(value.asnumpy() if hasattr(value, "asnumpy") else value)

    def size(value: Any) -> float:
        flat = array(value).reshape(-1)
        blocks = (flat[i:i + BLOCK].astype(np.float64) for i in range(0, flat.size, BLOCK))
        return float(np.sqrt(sum(float(b @ b) for b in blocks) / flat.size))

    if kind == "train":
        return [float(array(result)), *(float(array(call())) for _ in range(2))]
    if kind == "grad":
        return [size(leaf) for leaf in _leaves(result[1])]
    flat = array(result).reshape(-1)
    chosen = flat[np.linspace(0, flat.size - 1, SAMPLES).astype(np.int64)]
    return [size(result), *(float(v) for v in chosen)]


def _leaves(tree: Any) -> list[Any]:
    if isinstance(tree, (tuple, list)):
        return [leaf for branch in tree for leaf in _leaves(branch)]
    return [tree]


def main(peer: str, case: str, folder: Path, out: TextIO) -> None:
    """Serve until told to end."""
    def say(**answer: Any) -> None:
        out.write(json.dumps(answer) + "\n")
        out.flush()

    seconds = imported(peer)
    call, built = build(peer, case, folder)
    start = time.perf_counter()
    result = call()
    first = time.perf_counter() - start
    import cases

    values = compared(result, "infer" if is_file(case) else cases.CASES[case].kind, call)
    del result
    say(imported=seconds, built=built, first=first, values=values)
    for line in sys.stdin:
        if not line.strip():
            break
        say(seconds=measure(call, json.loads(line)["seconds"]))
    say(memory=peak_memory())


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not get between the answers
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), answers)
