"""Runs a compiled network where only `cellc_runtime` and numpy are: no compiler, no LLVM.

    python samples/serve.py out/digits.cellc out/images.npy out/logits.npy
"""

from __future__ import annotations

import sys

import numpy as np

import cellc_runtime


def main(artifact: str, inputs: str, outputs: str) -> None:
    """Write the outputs of an artifact for the input in a file."""
    network = cellc_runtime.load(artifact, trust_native_code=True)
    np.save(outputs, network(np.load(inputs)))
    others = {"cellc", "cellc_compiler", "llvmlite"} & set(sys.modules)
    print(f"ran {network.name} for {network.targets()[0]}; compiler modules loaded: "
          f"{', '.join(sorted(others)) or 'none'}")


if __name__ == "__main__":
    main(*sys.argv[1:])
