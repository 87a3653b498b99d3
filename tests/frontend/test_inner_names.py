"""Names of MindSpore's inner modules: what they compute, check and keep."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cellc._c_expression import MSContext, ParamInfo
from cellc.ops._grad_experimental.grad_base import bprop_getters, get_bprop_fn

import cellc as ms
from cellc import Tensor, ops
from cellc.common import np_dtype
from cellc.nn.probability.distribution import _utils as of_distributions
from cellc.numpy import utils, utils_const
from cellc.ops import signature
from cellc.train.serialization import _exec_save, _parse_ckpt_proto

X = Tensor([0.5, 1.0])


@pytest.mark.parametrize(("found", "expected"), [
    (lambda: of_distributions.cast_to_tensor([1, 2]), np.float32([1, 2])),
    (lambda: of_distributions.cast_to_tensor(3, ms.int32), np.int32(3)),
    (lambda: of_distributions.cast_to_tensor(Tensor([1])), np.float32([1])),
    (lambda: of_distributions.clamp_probs(Tensor([0.0, 1.0])),
     np.float32([2.0 ** -23, 1 - 2.0 ** -23])),
    (lambda: of_distributions.logits_to_probs(Tensor([0.0, 0.0])), np.float32([0.5, 0.5])),
    (lambda: of_distributions.logits_to_probs(Tensor([0.0]), True), np.float32([0.5])),
    (lambda: of_distributions.probs_to_logits(Tensor([0.5]), True), np.float32([0])),
    (lambda: of_distributions.broadcast_to(Tensor([1.0]), X), np.float32([1, 1])),
    (lambda: utils._to_tensor(1), np.int32(1)),
    (lambda: utils._to_tensor([1.0, 2]), np.float32([1, 2])),
    (lambda: utils._to_tensor(1, 2.0)[1], np.float32(2)),
    (lambda: utils._convert_64_to_32(Tensor([1], ms.int64)), np.int32([1])),
    (lambda: utils._expand(Tensor([1, 2]), 3), np.int64([[[1, 2]]])),
    (lambda: utils._broadcast_to(Tensor([1, 2]), (2,), (2, 2), 2), np.int64([[1, 2], [1, 2]])),
    (lambda: utils._isnan(Tensor([1.0, float("nan")])), np.array([False, True])),
])
def test_tensors(found: Callable[[], Tensor], expected: Any) -> None:
    got = found().asnumpy()
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, atol=1e-7)


@pytest.mark.parametrize(("found", "expected"), [
    (lambda: utils_const._infer_out_shape((2, 1), (3,)), (2, 3)),
    (lambda: utils_const._check_axis_valid((0, -1), 3), (0, 2)),
    (lambda: utils_const._check_axis_valid(None, 2), (0, 1)),
    (lambda: utils_const._tile_size((1, 3), (2, 3), 2), (2, 1)),
    (lambda: utils_const._expanded_shape(3, 2, 1), (1, 2, 1)),
    (lambda: utils_const._add_unit_axes((2, 3), 4), (1, 1, 2, 3)),
    (lambda: utils_const._promote(ms.int32, ms.float16), ms.float16),
    (lambda: utils_const._seq_prod((1, 2), (3, 4)), (3, 8)),
    (lambda: utils_const._cumprod((2, 3)), (2, 6)),
    (lambda: utils._get_size(Tensor([[1, 2]])), 2),
    (lambda: utils._deep_list((1, (2, 3))), [1, [2, 3]]),
    (lambda: utils._check_input_tensor(X), True),
    (lambda: of_distributions.set_param_type({"a": Tensor([1.0], ms.float16), "b": 2}, ms.float32),
     ms.float16),
    (lambda: of_distributions.check_prob(Tensor([0.5])), None),
    (lambda: of_distributions.CheckTuple()((1,), "x"), (1,)),
])
def test_values(found: Callable[[], Any], expected: Any) -> None:
    assert found() == expected


@pytest.mark.parametrize(("call", "kind", "text"), [
    (lambda: of_distributions.cast_to_tensor(None), ValueError, "cannot be None"),
    (lambda: of_distributions.cast_to_tensor(True), TypeError, "cannot be Type Bool"),
    (lambda: of_distributions.cast_to_tensor("a"), TypeError, "Unable to convert"),
    (lambda: of_distributions.check_greater_zero(Tensor([0.0]), "sd"), ValueError,
     "sd must be greater than zero"),
    (lambda: of_distributions.check_greater(X, X, "a", "b"), ValueError, "a must be less than b"),
    (lambda: of_distributions.check_sum_equal_one(X), ValueError, "should sum to one"),
    (lambda: of_distributions.check_distribution_name("a", "b"), ValueError, "input is b, but"),
    (lambda: of_distributions.CheckTensor()(1.0, "x"), TypeError, "must be a Tensor or Parameter"),
    (lambda: utils_const._raise_value_error("a ", 3), ValueError, "a 3"),
    (lambda: utils_const._raise_type_error("a ", 3), TypeError, "a <class 'int'>"),
    (lambda: utils_const._infer_out_shape((2,), (3,)), ValueError, "could not be broadcast"),
    (lambda: utils_const._check_axis_valid((0, 0), 2), ValueError, "duplicate value"),
    (lambda: utils._check_input_tensor(1), TypeError, "expect Tensor, but got"),
])
def test_errors(call: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call()


def test_entries_of_checkpoints(tmp_path: Path) -> None:
    file = str(tmp_path / "a.ckpt")
    _exec_save(file, {
        "w": [[2, 3], "Float32", np.arange(6, dtype=np.float32)], "i": [[1], "Int64", Tensor([1])],
        "b": [[2], "BFloat16", Tensor([1.0, 2.0], ms.bfloat16)], "t": [[0], "str", "hi"]})
    loaded = ms.load_checkpoint(file)
    assert loaded["w"].asnumpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert np.array([1], np_dtype.bfloat16).dtype == np_dtype.bfloat16
    assert loaded["b"].asnumpy().dtype == np_dtype.bfloat16
    assert (loaded["i"].item(), loaded["b"].dtype, loaded["t"]) == (1, ms.bfloat16, "hi")
    entries = {v.tag: v.tensor for v in _parse_ckpt_proto(file, None, "AES-GCM", False).value}
    assert [(t.dims, t.tensor_type) for t in entries.values()] == [
        ([2, 3], "Float32"), ([1], "Int64"), ([2], "BFloat16"), ([0], "str")]
    assert entries["i"].tensor_content == np.int64([1]).tobytes()
    assert entries["t"].tensor_content.decode("utf-32-le") == "hi"
    with pytest.raises(ValueError, match="checkpoints are not supported: leave 'dec_key' out"):
        _parse_ckpt_proto(file, b"0123456789abcdef", "AES-GCM", False)
    with pytest.raises(ValueError, match="'map_param_inc' must be False"):
        _exec_save(file, {}, map_param_inc=True)


def test_registered_gradients_and_signatures() -> None:
    @bprop_getters.register("OfTheUser")
    def getter(prim: Any) -> Any:
        return lambda x, out, dout: (dout * 2,)

    assert get_bprop_fn("OfTheUser")(1, 2, 3) == (6,)
    assert get_bprop_fn(ops.Primitive("OfTheUser"))(1, 2, 3) == (6,)
    assert get_bprop_fn(ops.ReLU()) is None
    made = signature.make_sig("x", signature.sig_rw.RW_WRITE, dtype=signature.sig_dtype.T1)
    assert (made.name, made.rw.name, made.dtype.name) == ("x", "RW_WRITE", "T1")
    assert made.kind is signature.sig_kind.KIND_POSITIONAL_KEYWORD


def test_data_of_parameters_and_of_the_context() -> None:
    info = ParamInfo(name="a", quant_shape=[2])
    copy = info.clone()
    copy.quant_shape.append(3)
    assert (copy.name, info.quant_shape, info.is_quant_int4) == ("a", [2], False)
    assert MSContext.get_instance().enable_dump_ir() is True
    assert MSContext.get_instance().ascend_soc_supports_feature("any") is False
