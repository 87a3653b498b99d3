"""torch's values and gradients for `make_accuracy.py`; it runs in an interpreter that has torch.

Reads from standard input, as JSON, a folder, the name of an element type and rows of (label,
expression, which operand's gradient or -1). In the folder are `x.npy` and `y.npy` (bits of 16-bit
numbers), and there go `LABEL.npy`, one for each row. Prints the labels of those that torch has.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16,
         "float32": torch.float32, "float64": torch.float64}


def load(file: Path, kind: Any) -> Any:
    """A tensor from a file of numbers or of the bits of 16-bit ones."""
    x = np.load(file)
    return torch.from_numpy(x.view(np.int16)).view(kind) if x.itemsize == 2 else torch.from_numpy(x)


def result(expression: str, operands: list[Any], of: int) -> Any:
    """A value, or the gradient of one operand for a cotangent of ones."""
    given = [x.detach().clone().requires_grad_(i == of) for i, x in enumerate(operands)]
    names = dict(zip("xy", given, strict=False))
    value = eval(expression, {"torch": torch, "F": F}, names)
    if of < 0:
        return value
    value.backward(torch.ones_like(value))
    return given[of].grad


def main() -> None:
    """Compute all rows."""
    torch.set_num_threads(1)
    asked = json.load(sys.stdin)
    folder, kind = Path(asked["folder"]), TYPES[asked["dtype"]]
    operands = [load(folder / f"{n}.npy", kind) for n in "xy" if (folder / f"{n}.npy").exists()]
    done = []
    for label, expression, of in asked["rows"]:
        try:
            got = result(expression, operands, of)
        except (RuntimeError, NotImplementedError, TypeError):
            continue  # torch has it not for this type, or without a gradient
        if got is None or got.dtype != kind:
            continue
        bits = got.view(torch.int16) if kind.itemsize == 2 else got
        np.save(folder / f"{label}.npy", bits.detach().numpy())
        done.append(label)
    print(json.dumps(done))


if __name__ == "__main__":
    main()
