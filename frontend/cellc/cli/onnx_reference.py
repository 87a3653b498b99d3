"""`cellc verify model.onnx`: the network against ONNX's own reference implementation."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from cellc_runtime.errors import counted
from cellc_runtime.lazy import lazy_imports

from ..nn.graph_cell import GraphCell
from ..tensors.tensor import Tensor
from ..verification import Finding, Report

with lazy_imports(__name__):  # the library onnx, which only this needs
    from onnx import reference

_TOLERANCE = {2: 2.0**-6, 4: 1e-4, 8: 1e-9}
"""The largest difference by the size of an element, in parts of the largest number."""


def compare(path: str, net: GraphCell, inputs: Sequence[Tensor], report: Report) -> None:
    """Add to a report where the network differs from ONNX's reference implementation."""
    if find_spec("onnx") is None:
        report.not_compared["ONNX's reference: the library onnx is not installed"] += 1
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runner: Any = reference.ReferenceEvaluator(path)
            wanted = runner.run(None, dict(zip(
                runner.input_names, (t.asnumpy() for t in inputs), strict=True)))
    except Exception as e:  # it lacks operators, and raises what numpy does
        line = str(e).partition("\n")[0]
        report.not_compared[f"ONNX's reference does not run the model: {line[:100]}"] += 1
        return
    found = net(*inputs)
    outputs = found if isinstance(found, tuple) else (found,)
    worst = 0.0
    for i, (a, b) in enumerate(zip(outputs, wanted, strict=True)):
        fault, part = _difference(a.asnumpy(), np.asarray(b))
        worst = max(worst, part)
        if fault:
            report.findings.append(Finding("output", f"output {i}", f"ONNX's reference: {fault}"))
    report.notes.append(f"ONNX's reference: {counted(len(outputs), 'output')}, largest difference "
                        f"{worst:.1e} of the largest number")


def _difference(found: Any, wanted: Any) -> tuple[str, float]:
    """The fault, if there is one, and the largest difference in parts of the largest number."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return (f"{found.dtype}{list(found.shape)} instead of {wanted.dtype}{list(wanted.shape)}",
                0.0)
    if found.dtype.kind in "biu":
        wrong = int((found != wanted).sum())
        return (f"{wrong} elements differ" if wrong else "", 0.0)
    a, b = (v.astype(np.float64) for v in (found, wanted))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    apart = np.where(same, 0.0, np.abs(a - b))
    finite = np.abs(b[np.isfinite(b)])
    part = float(apart.max(initial=0.0) / max(float(finite.max(initial=0.0)), 1e-30))
    limit = _TOLERANCE[min(found.dtype.itemsize, 8)]
    return (f"elements differ by {part:.1e} of the largest number" if not part <= limit else "",
            part)
