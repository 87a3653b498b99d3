"""ONNX Runtime and OpenVINO: inference of the ONNX file that torch exported."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spec import Data


def build(library: str, path: Path, cache: Path, given: Data) -> Callable[[], Any]:
    """One call of a case."""
    if library == "onnxruntime":
        return _runtime(path, given)
    return _openvino(path, cache, given)


def _runtime(path: Path, given: Data) -> Callable[[], Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options,
                                           providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    feed = dict(zip(names, given.inputs, strict=True))
    return lambda: session.run(None, feed)[0]


def _openvino(path: Path, cache: Path, given: Data) -> Callable[[], Any]:
    import openvino

    core = openvino.Core()
    compiled = core.compile_model(str(path), "CPU", {
        "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": int(os.environ["OMP_NUM_THREADS"]),
        "PERFORMANCE_HINT": "LATENCY", "CACHE_DIR": str(cache)})
    request = compiled.create_infer_request()
    inputs = [openvino.Tensor(a, shared_memory=True) for a in given.inputs]

    def run() -> Any:
        request.infer(inputs)
        return request.get_output_tensor(0).data

    return run
