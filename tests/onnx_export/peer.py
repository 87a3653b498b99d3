"""ONNX Runtime in a process of its own: runs models on arrays.

Its interpreter is the one that `CELLC_PEERS_PYTHON` names, or this one if it has onnxruntime.

As a script, it reads lines `MODEL INPUTS.npz OUTPUTS.npz` and answers each with a line: `ok`, or
what ONNX Runtime said.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
PYTHON = os.environ.get("CELLC_PEERS_PYTHON", "") or (
    sys.executable if importlib.util.find_spec("onnxruntime") else "")


class NotRun(Exception):
    """ONNX Runtime refused a model, or failed on it."""


class Peer:
    """The other interpreter, started when it is first used."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        self.process: subprocess.Popen[str] | None = None

    def run(self, model: Path, inputs: Sequence[Array]) -> list[Array]:
        """The results of a model.

        Raises:
            NotRun: what ONNX Runtime said.
        """
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                [PYTHON, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                stderr=subprocess.DEVNULL, env={"PATH": os.environ.get("PATH", "")})
        self.count += 1
        given, got = (self.folder / f"{self.count}.{k}.npz" for k in ("in", "out"))
        np.savez(given, *inputs)
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{model}\t{given}\t{got}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if answer != "ok":
            raise NotRun(answer or "ONNX Runtime died")
        with np.load(got) as archive:
            return [archive[k] for k in archive.files]

    def close(self) -> None:
        """End the other interpreter."""
        if self.process is not None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait(30)
            assert self.process.stdout is not None
            self.process.stdout.close()


def _serve() -> None:
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    for line in sys.stdin:
        model, given, got = line.rstrip("\n").split("\t")
        try:
            session = onnxruntime.InferenceSession(model, options,
                                                   providers=["CPUExecutionProvider"])
            with np.load(given) as archive:
                arrays = [archive[k] for k in archive.files]
            names = [i.name for i in session.get_inputs()]
            out = session.run(None, dict(zip(names, arrays, strict=True)))
            np.savez(got, *out)
            print("ok", flush=True)
        except Exception as e:
            print(" ".join(f"{type(e).__name__}: {e}".split())[:400], flush=True)


if __name__ == "__main__":
    _serve()
