"""Runs artifacts and writes the bits of what they give: `python player.py FOLDER OUT THREADS...`.

It is run on the machine at hand and on an emulated one, which has `cellc_runtime`, numpy and
ml_dtypes alone. FOLDER has artifacts with `inputs.npz`, the bytes of each entry's inputs. OUT gets
the bytes of results (NaNs made alike, for they have no sign or payload that counts).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import cellc_runtime
from cellc_runtime import artifact, dtypes, fastcall
from cellc_runtime.target import host_targets

Array = np.ndarray[Any, Any]
CALLS = 3
"""Of an entry that updates weights: training steps."""


def bits(a: Array) -> Array:
    """The bytes of an array; every NaN alike."""
    a = np.ascontiguousarray(a)
    if a.dtype.kind in "fc" or a.dtype == ml_dtypes.bfloat16:
        parts = a.reshape(-1).view(a.real.dtype) if a.dtype.kind == "c" else a
        a = np.where(np.isnan(parts), np.asarray(np.nan, parts.dtype), parts)
    return np.frombuffer(a.tobytes(), np.uint8)


def inputs(opened: artifact.Artifact, entry: str, given: Mapping[str, Array]) -> list[Array]:
    """An entry's inputs from their bytes."""
    return [
        np.frombuffer(given[f"{entry}/{i}"].tobytes(), dtypes.by_name(dtype).numpy)
        .reshape(shape)
        for i, (_, dtype, shape) in enumerate(opened.signature(entry).inputs)]


def play(file: Path, given: Mapping[str, Array], threads: int) -> Iterator[tuple[str, Array]]:
    """What the entries of an artifact give: `entry/call/output`, and weights afterwards."""
    cellc_runtime.set_num_threads(threads)
    opened = artifact.load(file, trust_native_code=True)
    before = {name: bits(a) for name, a in opened.weights.items()}
    for entry in opened.entries:
        arrays = inputs(opened, entry, given)
        for call in range(CALLS):
            out = opened.call(entry, *arrays)
            for k, a in enumerate(out if isinstance(out, tuple) else (out,)):
                yield f"{entry}/{call}/{k}", bits(a)
    for name, a in opened.weights.items():
        if not np.array_equal(bits(a), before[name]):
            yield f"weights/{name}", bits(a)


def main(folder: Path, out: Path, counts: list[int]) -> None:
    """Play all, and say on what machine."""
    found: dict[str, Array] = {}
    for file in sorted(folder.glob("*.cellc")):
        with np.load(file.with_suffix(".npz")) as given:
            for threads in counts:
                found |= {f"{file.stem}|{threads}|{name}": a
                          for name, a in play(file, given, threads)}
    np.savez(out, **found)
    print(json.dumps({"target": host_targets()[0].name, "native": fastcall.supported(),
                      "results": len(found)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), [int(n) for n in sys.argv[3:]])
