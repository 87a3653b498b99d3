"""What tensors print, as digests: run by MindSpore's Python too, so it imports neither at the top.

    python printed.py mindspore|cellc      prints the digests
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
from typing import Any

import numpy as np

TYPES = ("bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
         "float16", "bfloat16", "float32", "float64", "complex64", "complex128")
SHAPES: tuple[tuple[int, ...], ...] = (
    (), (1,), (3,), (12,), (13,), (24,), (25,), (30,), (100,), (1000,), (1001,), (2000,), (0,),
    (0, 3), (3, 0), (1, 1), (2, 3), (6, 6), (7, 7), (3, 8), (8, 3), (100, 2), (2, 100), (40, 40),
    (2, 2, 2), (1, 1, 1), (7, 2, 8), (2, 1, 7, 3), (2, 0, 3), (1, 1, 1, 1), (2, 2, 2, 2, 2),
    (500, 3), (3, 1000), (2, 1001))
VALUES: tuple[list[Any], ...] = (
    [1.0, np.nan, 2.0], [np.inf, -np.inf, 0.0], [1e10, 1e-10, 1.0], [1e-30, 3e-38, 1e-45],
    [123456789.0, 0.001, -2.5], [1 / 3, 2 / 3, 100 / 3], [-0.0, 0.0, 1.0], [1e5], [1e16, 1.0],
    [np.nan], [3e38, -3e38], [1.5e-5, 2.0], [0.1, 1000000.0], [[1.0, 2e8], [3e-9, np.nan]],
    np.linspace(0, 1, 13).tolist())


def tensors(ms: Any, name: str) -> list[Any]:
    """Tensors of a type in many shapes; of the floats also with special values."""
    dtype, out = getattr(ms, name), []
    for shape in SHAPES:
        n = int(np.prod(shape))
        whole = (np.arange(n) % 7 - 3).reshape(shape)
        part = (np.arange(n) % 11 / 4 - 1).reshape(shape)
        if name.startswith("complex"):
            data: Any = (part + 1j * whole).astype(name)
        elif name == "bool_":
            data = whole > 0
        elif "int" in name:
            data = whole + 3 * name.startswith("u")
        else:
            data = part.astype(np.float32)
        out.append(ms.Tensor(data).astype(dtype))
    if "float" in name:
        for value in VALUES:
            data = np.array(value)
            out += [ms.Tensor(data).astype(dtype), ms.Tensor(data.ravel()[0]).astype(dtype)]
    return out


def digests(ms: Any) -> dict[str, str]:
    """For each type, of what `repr` and `str` of its tensors and of itself give."""
    found = {}
    with np.errstate(all="ignore"):
        for name in TYPES:
            texts = [f"{t!r}\n{t!s}" for t in tensors(ms, name)]
            texts.append(f"{getattr(ms, name)!r} {getattr(ms, name)!s}")
            found[name] = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
    return found


if __name__ == "__main__":
    os.environ |= {"GLOG_v": "4"}
    print(json.dumps(digests(importlib.import_module(sys.argv[1]))))
