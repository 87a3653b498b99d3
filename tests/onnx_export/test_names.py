"""`onnx.export`: names of inputs, results and open sizes."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import cellc as ms
from cellc import Tensor, nn
from cellc.train.onnx_names import export


class Two(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(3, 2)

    def construct(self, x: Tensor, pair: Any) -> Any:
        y = self.dense(x) + pair[0]
        if x.sum() > 0:
            y = y + x.sum()
        return y, pair[1] * 2


A = np.arange(6, dtype=np.float32).reshape(2, 3) / 4
B, C = np.ones((2, 2), np.float32), np.array([3.0], np.float32)
GIVEN = Tensor(A), (Tensor(B), Tensor(C))


def test_inputs_results_and_sizes_have_their_names(tmp_path: Path) -> None:
    net, path = Two(), str(tmp_path / "net")
    axes = {"rows": {0: "batch"}, "more": {0: "batch"}}
    export(net, *GIVEN, file_name=path, input_names=["rows", "more"], output_names=["sums"],
           dynamic_axes=axes)
    model = onnx.load(path + ".onnx")
    onnx.checker.check_model(model, full_check=True)
    assert [i.name for i in model.graph.input][:2] == ["rows", "more"]
    assert model.graph.output[0].name == "sums"
    for info in (*model.graph.input[:2], model.graph.output[0]):
        sizes = info.type.tensor_type.shape.dim
        assert sizes[0].dim_param == "batch" and sizes[1].dim_value
    last = model.graph.input[2].name
    for rows in (2, 5):
        a, b = np.resize(A, (rows, 3)), np.resize(B, (rows, 2))
        got = ReferenceEvaluator(model).run(None, {"rows": a, "more": b, last: C})
        want = net(Tensor(a), (Tensor(b), Tensor(C)))
        for x, y in zip(got, want, strict=True):
            np.testing.assert_allclose(x, y.asnumpy(), 1e-5, 1e-5)


def test_names_are_optional(tmp_path: Path) -> None:
    assert import_module("cellc.onnx").export is export
    export(nn.ReLU(), GIVEN[0], file_name=str(tmp_path / "relu.onnx"))
    ms.export(nn.ReLU(), GIVEN[0], file_name=str(tmp_path / "same.onnx"), file_format="ONNX")
    assert (tmp_path / "relu.onnx").read_bytes() == (tmp_path / "same.onnx").read_bytes()


@pytest.mark.parametrize(("options", "told"), [
    ({"input_names": "rows"}, r"'input_names' must be a list of different strings, but got rows"),
    ({"output_names": ["a", "a"]}, r"'output_names' must be a list of different strings"),
    ({"input_names": ["a", "b", "c", "d"]}, r"'input_names' must have at most 3 names"),
    ({"input_names": ["dense.weight"]}, r"names that no other value of the model has"),
    ({"input_names": ["a"], "output_names": ["a"]}, r"names that no other value of the model has"),
    ({"dynamic_axes": []}, r"'dynamic_axes' must be a dict"),
    ({"dynamic_axes": {"a": {0: "n"}}}, r"'dynamic_axes' must have names of 'input_names'"),
    ({"input_names": ["a"], "dynamic_axes": {"a": {2: "n"}}}, r"names of axes from 0 to 1"),
    ({"input_names": ["a"], "dynamic_axes": {"a": [0]}}, r"names of axes from 0 to 1"),
    ({"export_params": False}, r"'export_params' must be True"),
    ({"keep_initializers_as_inputs": True}, r"'keep_initializers_as_inputs' False"),
])
def test_refused(options: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=told):
        export(Two(), *GIVEN, file_name=str(tmp_path / "net"), **options)
    assert list(tmp_path.iterdir()) == []


def test_only_cells_are_exported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"For 'onnx.export', 'net' must be a Cell"):
        export(abs, GIVEN[0], file_name=str(tmp_path / "net"))  # type: ignore[arg-type]
