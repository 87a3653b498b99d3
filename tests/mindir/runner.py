"""Runs MindIR files under MindSpore: `python runner.py FOLDER` reads each NAME.mindir with its
NAME.npz (inputs `arr_0`..., before them those of a pair `pair_0`, (`pair_1`, `pair_2`); wanted
`out_0`... or `moments`) and prints by name what differs, as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

try:
    import mindspore as ms
    from mindspore import nn
except ImportError:  # (only its path is asked for)
    pass
import numpy as np


def tensors(value):
    """The tensors of nested results."""
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in tensors(v)]
    return [value]


def fault(path):
    """What is wrong with a file; empty if nothing is."""
    held = np.load(path.with_suffix(".npz"))
    given = [ms.Tensor(held[k]) for k in held.files if k.startswith("arr_")]
    if "pair_0" in held.files:
        first, *second = (ms.Tensor(held[f"pair_{i}"]) for i in range(3))
        given = [ms.mutable((first, tuple(second))), *given]
    wanted = [held[k] for k in held.files if k.startswith("out_")]
    try:
        found = [t.asnumpy() for t in tensors(nn.GraphCell(ms.load(str(path)))(*given))]
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    if "moments" in held.files:
        return "".join(f"mean {a.mean()} and deviation {a.std()} instead of {m} and {d}; "
                       for a, (m, d) in zip(found, held["moments"], strict=True)
                       if abs(a.mean() - m) > 0.1 * (m + d) or abs(a.std() - d) > 0.1 * d)
    if [(a.shape, a.dtype) for a in found] != [(a.shape, a.dtype) for a in wanted]:
        return f"{[(a.shape, str(a.dtype)) for a in found]} instead of " \
            f"{[(a.shape, str(a.dtype)) for a in wanted]}"
    for a, b in zip(found, wanted, strict=True):
        if a.dtype == bool:
            a, b = a.astype(int), b.astype(int)
        if not np.allclose(a, b, 1e-4, 1e-4, equal_nan=True):
            apart = np.abs(np.asarray(a, complex) - b)
            return f"differs by {np.nanmax(apart)}"
    return ""


if __name__ == "__main__":
    ms.set_context(mode=ms.GRAPH_MODE)
    print(json.dumps({p.stem: fault(p) for p in sorted(Path(sys.argv[1]).glob("*.mindir"))}))
