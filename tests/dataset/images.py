"""Transforms of images whose bits are MindSpore's: run under MindSpore, and under cellc.

`python images.py mindspore` (in MindSpore's interpreter) prints the checksum of each result.
"""

from __future__ import annotations

import importlib
import json
import sys
import zlib

import numpy as np

CASES = {
    "resize": [("Resize", (size, way)) for way in ("BILINEAR", "BICUBIC", "AREA", "NEAREST")
               for size in ((20, 9), (7, 5), (14, 10), 11)],
    "rotate": [("Rotate", (angle, way, expand)) for way in ("BILINEAR", "NEAREST")
               for angle in (30, -45, 12.3) for expand in (False, True)],
    "perspective": [("Perspective", ([[0, 0], [8, 0], [8, 8], [0, 8]],
                                     [[1, 2], [7, 1], [6, 7], [0, 5]], "BILINEAR"))],
    "affine": [("Affine", (15, (0.2, -0.1), 1.1, (10, 5), "NEAREST"))],
    "blur": [("GaussianBlur", (5, 1.5)), ("GaussianBlur", ((3, 5), None))],
    "sharp": [("AdjustSharpness", (1.7,))], "equal": [("Equalize", ())],
    "colours": [("AdjustContrast", (1.7,)), ("AdjustSaturation", (0.3,))],
}
FLOATS = ("resize", "rotate", "perspective")
"""Cases whose floats have MindSpore's bits."""


def checksums(package: str) -> dict[str, int]:
    """Checksums of the cases' results under `cellc` or `mindspore`."""
    vision = importlib.import_module(f"{package}.dataset.vision")
    random = np.random.RandomState(3)
    found = {}
    for shape in ((33, 35, 3), (28, 20, 1)):
        image = random.randint(0, 256, shape).astype(np.uint8)
        for kind, calls in CASES.items():
            if kind == "colours" and shape[2] == 1:
                continue
            for number, (name, given) in enumerate(calls):
                given = [vision.Inter[v] if isinstance(v, str) else v for v in given]
                for dtype in ("uint8", "int16", "float32", "float64"):
                    if dtype == "uint8" or (kind in FLOATS):
                        made = getattr(vision, name)(*given)(image.astype(dtype))
                        found[f"{kind} {number} {shape[2]} {dtype}"] = zlib.crc32(made.tobytes())
    return found


if __name__ == "__main__":
    print(json.dumps(checksums(sys.argv[1])))
