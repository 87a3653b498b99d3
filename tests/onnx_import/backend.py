"""ONNX's own backend tests as cases: a model, inputs, and the outputs that are wanted."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

Array = np.ndarray[Any, Any]
_TYPES = {8: "strings"}
_TYPES |= dict.fromkeys((17, 18, 19, 20, 23, 24, 27, 28), "floats of 8 bits or less")
_TYPES |= dict.fromkeys((21, 22, 25, 26), "ints of less than 8 bits")
NEWEST = 25
"""The op set up to which the tests are counted."""


@dataclass(frozen=True, slots=True)
class Case:
    """One test.

    Attributes:
        sets: inputs and wanted outputs.
        rtol, atol: what ONNX's runner allows.
    """

    name: str
    model: onnx.ModelProto
    sets: Sequence[tuple[Sequence[Any], Sequence[Any]]]
    rtol: float
    atol: float

    @property
    def outside(self) -> str:
        """Why a tensor on a CPU cannot be in it; empty if it can."""
        for v in [*self.model.graph.input, *self.model.graph.output]:
            kind = v.type.WhichOneof("value")
            if kind != "tensor_type":
                return f"{kind.removesuffix('_type')}s"
            found = _TYPES.get(v.type.tensor_type.elem_type)
            if found:
                return found
        versions = {o.domain: o.version for o in self.model.opset_import}
        if versions.get("", 0) > NEWEST:
            return f"op sets after {NEWEST}"
        domain = next((d for d in versions if d.startswith("ai.onnx.p") or d == "ai.onnx.ml"), "")
        return f"the domain {domain}" if domain else ""

    def tolerance(self, dtype: np.dtype[Any]) -> tuple[float, float]:
        """What is allowed: ONNX's, and for 16-bit floats two units in the last place of 1."""
        if dtype.itemsize == 2 and dtype.kind in "fV":
            unit = 2.0**-10 if dtype == np.float16 else 2.0**-7
            return 2 * unit, 2 * unit
        return self.rtol, max(self.atol, 1e-6)


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _read(path: Path) -> Any:
    proto = onnx.TensorProto()
    proto.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(proto)


def _stored(kind: str) -> Iterator[Case]:
    """The tests that ONNX keeps as files."""
    from onnx.backend.test.loader import load_model_tests

    for c in load_model_tests(kind=kind):
        folder = Path(c.model_dir)
        model = onnx.load(folder / "model.onnx")
        case = Case(c.name, model, [], c.rtol, max(c.atol, 1e-5))
        sets = [] if case.outside in ("strings", "sequences", "optionals") else [
            tuple([_read(p) for p in sorted(d.glob(f"{side}_*.pb"), key=lambda p: int(
                p.stem.rpartition("_")[2]))] for side in ("input", "output"))
            for d in sorted(folder.glob("test_data_set_*"))]
        yield Case(c.name, model, sets, c.rtol, max(c.atol, 1e-5))


@cache
def cases() -> dict[str, Case]:
    """All tests of nodes and of small models, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case import model as models
        from onnx.backend.test.case import node as nodes

        made = [c for c in [*nodes.collect_testcases(None), *models.collect_testcases()]
                if c.model is not None]
        found = [Case(c.name, c.model, [tuple([_array(v) for v in side] for side in s)
                                        for s in c.data_sets], c.rtol, c.atol) for c in made]
        for kind in ("simple", "pytorch-converted", "pytorch-operator"):
            found += _stored(kind)
    return {c.name: c for c in found}
