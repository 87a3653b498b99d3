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
        session = runtime_session(path)
        feed = dict(zip([i.name for i in session.get_inputs()], given.inputs, strict=True))
        return lambda: session.run(None, feed)[0]
    import openvino

    request = openvino_request(path, cache)
    inputs = [openvino.Tensor(a, shared_memory=True) for a in given.inputs]

    def run() -> Any:
        request.infer(inputs)
        return request.get_output_tensor(0).data

    return run


def runtime_session(path: Path) -> Any:
    """ONNX Runtime's session of a file."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def openvino_request(path: Path, cache: Path) -> Any:
    """OpenVINO's request of a file."""
    import openvino

    compiled = openvino.Core().compile_model(str(path), "CPU", {
        "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": int(os.environ["OMP_NUM_THREADS"]),
        "PERFORMANCE_HINT": "LATENCY", "CACHE_DIR": str(cache)})
    return compiled.create_infer_request()
