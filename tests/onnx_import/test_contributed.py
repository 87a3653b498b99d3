"""Operators of `com.microsoft` and quantised ones against ONNX Runtime, node by node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .test_models import N, loaded, model, outputs_of, value

runtime = pytest.importorskip("onnxruntime")

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(8)
CODES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7}


def f(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def u(*shape: int) -> Array:
    return RNG.integers(0, 255, shape).astype(np.uint8)


def one(number: float, kind: Any = np.float32) -> Array:
    return np.array(number, kind)


S, Z = one(0.05), one(120, np.uint8)
I8 = RNG.integers(-128, 127, (6, 4)).astype(np.int8)
QADD = [u(2, 3), S, Z, u(2, 3), one(0.1), one(7, np.uint8), one(0.2), one(9, np.uint8)]
LINES = [f(2, 3, 8), f(2, 3, 8), f(8), f(8)]
POSITIONS = np.array([[0, 1, 2], [3, 0, 5]])
CASES: dict[str, tuple[str, list[Array | None], dict[str, Any], int]] = {
    "Gelu": ("Gelu", [f(3, 4)], {}, 1),
    "FastGelu": ("FastGelu", [f(3, 4), f(4)], {}, 1),
    "BiasGelu": ("BiasGelu", [f(3, 4), f(4)], {}, 1),
    "QuickGelu": ("QuickGelu", [f(3, 4)], {"alpha": 1.5}, 1),
    "FusedMatMul": ("FusedMatMul", [f(2, 5, 3), f(2, 4, 5)],
                    {"transA": 1, "transB": 1, "alpha": 0.5}, 1),
    "SkipLayerNormalization": ("SkipLayerNormalization", LINES, {"epsilon": 1e-5}, 1),
    "SkipLayerNormalization with bias": ("SkipLayerNormalization", [*LINES, f(8)], {}, 1),
    "SkipSimplifiedLayerNormalization": ("SkipSimplifiedLayerNormalization", LINES[:3], {}, 1),
    "MatMulIntegerToFloat": ("MatMulIntegerToFloat", [
        u(3, 6), I8, S, one(0.02), Z, one(3, np.int8), f(4)], {}, 1),
    "DynamicQuantizeMatMul": ("DynamicQuantizeMatMul", [f(3, 6), I8, one(0.02), one(3, np.int8)],
                              {}, 1),
    "MatMulNBits": ("MatMulNBits", [f(2, 32), u(3, 2, 8), f(6), u(3, 1)],
                    {"K": 32, "N": 3, "bits": 4, "block_size": 16}, 1),
    "QLinearAdd": ("QLinearAdd", QADD, {}, 1),
    "QLinearMul": ("QLinearMul", QADD, {}, 1),
    "QLinearSigmoid": ("QLinearSigmoid", [u(2, 3), S, Z, one(1 / 256), one(0, np.uint8)], {}, 1),
    "QLinearLeakyRelu": ("QLinearLeakyRelu", [u(2, 3), S, Z, S, Z], {"alpha": 0.1}, 1),
    "QLinearGlobalAveragePool": ("QLinearGlobalAveragePool", [u(2, 3, 4, 4), S, Z, S, Z], {}, 1),
    "QLinearAveragePool": ("QLinearAveragePool", [u(2, 3, 5, 6), S, Z, one(0.02), Z], {
        "kernel_shape": [2, 3], "strides": [2, 1], "pads": [0, 1, 1, 1]}, 1),
    "GatherBlockQuantized": ("GatherBlockQuantized", [
        np.array([[3, 0], [4, 4]]), u(5, 20), f(5, 3), u(5, 2)], {"block_size": 16}, 1),
    "GatherBlockQuantized without zeros": ("GatherBlockQuantized", [
        np.array([3, 0]), u(5, 40), f(5, 3)], {"block_size": 16, "bits": 8}, 1),
    "QLinearConcat": ("QLinearConcat", [S, Z, u(2, 3), S, Z, u(2, 2), one(0.1), Z], {"axis": 1},
                      1),
    "QGemm": ("QGemm", [u(3, 6), S, Z, I8, one(0.02), one(3, np.int8),
                        RNG.integers(-900, 900, 4).astype(np.int32), one(0.5), Z], {}, 1),
    "RotaryEmbedding": ("RotaryEmbedding", [f(2, 3, 16), POSITIONS, f(6, 4), f(6, 4)],
                        {"num_heads": 2}, 1),
    "QLinearConv": ("", [u(1, 2, 5, 5), S, Z, u(3, 2, 3, 3), one(0.01), one(99, np.uint8),
                         one(0.3), Z, np.array([5, -700, 60], np.int32)],
                    {"op": "QLinearConv", "pads": [1, 1, 1, 1]}, 1),
    "DynamicQuantizeLinear": ("", [f(4, 5)], {"op": "DynamicQuantizeLinear"}, 3),
}


@pytest.mark.parametrize("name", CASES)
def test_as_onnx_runtime(name: str, tmp_path: Path) -> None:
    """Floats to 2e-5 of the largest number, ints to one step of the quantised scale."""
    op, given, attrs, count = CASES[name]
    attrs = dict(attrs)
    op, domain = (op, "com.microsoft") if op else (attrs.pop("op"), "")
    names = [f"i{k}" for k in range(len(given))]
    # The argument is the first that is given; the table of a gather comes before it.
    read = [names[1], names[0], *names[2:]] if op == "GatherBlockQuantized" else names
    inputs = {n: a for n, a in zip(names, given, strict=True) if a is not None}
    fixed = {n: a for n, a in inputs.items() if n != "i0" and op != "SkipLayerNormalization"}
    proto = model([N(op, read, [f"y{k}" for k in range(count)], domain=domain, **attrs)],
                  [value(n, a.shape, CODES[a.dtype.name]) for n, a in inputs.items()
                   if n not in fixed], [f"y{k}" for k in range(count)], fixed)
    calls = {n: a for n, a in inputs.items() if n not in fixed}
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(proto.SerializeToString(), options)
    for found, wanted in zip(outputs_of(loaded(proto, tmp_path), *calls.values()),
                             session.run(None, calls), strict=True):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        apart = np.abs(found.astype(np.float64) - wanted.astype(np.float64)).max()
        limit = 1 if found.dtype.kind in "iu" else 2e-5 * np.abs(wanted).max()
        assert apart <= limit, apart


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_a_quantised_lstm(kind: type[np.integer[Any]], tmp_path: Path) -> None:
    """ONNX Runtime rounds inputs and states to 8 bits as well: equal to 2 % of the largest."""
    low = int(np.iinfo(kind).min)
    proto = model([N("DynamicQuantizeLSTM", ["x", "w", "r", "b", "", "", "", "", *(
        "ws", "wz", "rs", "rz")], ["y", "h", "c"], domain="com.microsoft", hidden_size=6,
        direction="bidirectional")], [value("x", [4, 2, 5])], ["y", "h", "c"], {
            "w": RNG.integers(low, low + 255, (2, 5, 24)).astype(kind), "ws": f(2, 24) * 0.005,
            "r": RNG.integers(low, low + 255, (2, 6, 24)).astype(kind), "rs": f(2, 24) * 0.005,
            "b": f(2, 48), "wz": np.zeros((2, 24), kind), "rz": np.zeros((2, 24), kind)})
    x = f(4, 2, 5)
    session = runtime.InferenceSession(proto.SerializeToString())
    for found, wanted in zip(outputs_of(loaded(proto, tmp_path), x), session.run(None, {"x": x}),
                             strict=True):
        np.testing.assert_allclose(found, wanted, 0, 0.02 * np.abs(wanted).max())


QKV = [f(2, 5, 8), f(2, 5, 8), f(2, 5, 8)]
CACHE = [f(2, 2, 3, 4), f(2, 2, 3, 4)]
MORE = [f(2, 2, 3, 16), f(2, 2, 3, 16)]
ANGLES = [np.cos(f(9, 8)), np.sin(f(9, 8))]
KEPT = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], np.int32)
ATTENTION: dict[str, tuple[str, list[Array | None], dict[str, Any], int]] = {
    "heads": ("MultiHeadAttention", QKV, {"num_heads": 2}, 1),
    "heads with a bias": ("MultiHeadAttention", [*QKV, f(24)], {"num_heads": 2, "scale": 0.3}, 1),
    "heads of padded keys": ("MultiHeadAttention", [*QKV, None, KEPT], {"num_heads": 2}, 1),
    "heads of lengths": ("MultiHeadAttention", [*QKV, None, np.array([3, 5], np.int32)],
                         {"num_heads": 2}, 1),
    "heads with a mask": ("MultiHeadAttention", [*QKV, None, None, f(1, 2, 5, 5)],
                          {"num_heads": 2, "unidirectional": 1}, 1),
    "heads with a cache": ("MultiHeadAttention", [*QKV, None, None, None, *CACHE],
                           {"num_heads": 2}, 3),
    "groups": ("GroupQueryAttention", [
        f(2, 5, 32), f(2, 5, 16), f(2, 5, 16), None, None, np.array([4, 4], np.int32),
        np.array(5, np.int32)], {"num_heads": 4, "kv_num_heads": 2}, 3),
    "groups packed, turned": ("GroupQueryAttention", [
        f(2, 5, 128), None, None, None, None, np.array([4, 4], np.int32), np.array(5, np.int32),
        *ANGLES], {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}, 3),
    "groups with a cache": ("GroupQueryAttention", [
        f(2, 1, 64), f(2, 1, 32), f(2, 1, 32), *MORE, np.array([3, 3], np.int32),
        np.array(4, np.int32), *ANGLES],
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "rotary_interleaved": 1}, 3),
    "groups in a window": ("GroupQueryAttention", [
        f(2, 5, 32), f(2, 5, 16), f(2, 5, 16), None, None, np.array([4, 4], np.int32),
        np.array(5, np.int32)],
        {"num_heads": 4, "kv_num_heads": 2, "local_window_size": 2, "softcap": 1.5}, 3),
    "groups of unlike lengths": ("GroupQueryAttention", [
        f(2, 1, 64), f(2, 1, 32), f(2, 1, 32), *MORE, np.array([3, 1], np.int32),
        np.array(4, np.int32), *ANGLES],
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}, 3),
    "groups of several new": ("GroupQueryAttention", [
        f(1, 2, 64), f(1, 2, 32), f(1, 2, 32), *(m[:1] for m in MORE), np.array([4], np.int32),
        np.array(5, np.int32), *ANGLES],
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "scale": 0.2}, 3),
    "fused": ("FusedConv", [f(1, 3, 6, 6), f(4, 3, 3, 3), f(4)],
              {"activation": "LeakyRelu", "activation_params": [0.2], "pads": [1] * 4}, 1),
    "fused with a sum": ("FusedConv", [f(1, 3, 6, 6), f(4, 3, 3, 3), f(4), f(1, 4, 4, 4)],
                         {"activation": "Relu"}, 1),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_as_onnx_runtime(name: str, tmp_path: Path) -> None:
    """All inputs are arguments, but lengths, masks of keys and the number of keys."""
    op, given, attrs, count = ATTENTION[name]
    names = [f"i{k}" if a is not None else "" for k, a in enumerate(given)]
    inputs = {f"i{k}": a for k, a in enumerate(given) if a is not None}
    fixed = {n: a for n, a in inputs.items() if a.dtype == np.int32}
    outputs = [f"y{k}" for k in range(count)]
    calls = {n: a for n, a in inputs.items() if n not in fixed}
    proto = model([N(op, names, outputs, domain="com.microsoft", **attrs)],
                  [value(n, a.shape) for n, a in calls.items()], outputs, fixed)
    session = runtime.InferenceSession(proto.SerializeToString())
    pairs = zip(outputs_of(loaded(proto, tmp_path), *calls.values()), session.run(None, calls),
                strict=True)
    # What a cache holds after the last key of a sample is not defined.
    for found, wanted in [*pairs][: 1 if "unlike" in name else count]:
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(found, wanted, 0, 2e-5 * np.abs(wanted).max())


def test_a_training_normalisation_of_old(tmp_path: Path) -> None:
    """Before op set 14 the number of outputs says that statistics are those of the batch."""
    x, facts = f(3, 4, 5), {"s": f(4), "b": f(4), "m": f(4), "v": np.abs(f(4))}
    proto = model([N("BatchNormalization", ["x", *facts], ["y", "m2", "v2", "sm", "sv"],
                     momentum=0.9)], [value("x", x.shape)], ["y", "m2", "sv"], facts, opset=9)
    y, mean, spread = outputs_of(loaded(proto, tmp_path), x)
    now, wanted = x.mean((0, 2)), x.var((0, 2))
    scaled = (x - now[:, None]) / np.sqrt(wanted + 1e-5)[:, None] * facts["s"][:, None]
    np.testing.assert_allclose(y, scaled + facts["b"][:, None], 1e-5, 1e-5)
    np.testing.assert_allclose(mean, 0.9 * facts["m"] + 0.1 * now, 1e-5, 1e-6)
    np.testing.assert_allclose(spread, wanted, 1e-5, 1e-6)


def test_a_projected_state(tmp_path: Path) -> None:
    """What torch's exporter makes of an LSTM with `proj_size` is no LSTM of ONNX."""
    proto = model([N("LSTM", ["x", "w", "r"], ["y"], hidden_size=6)], [value("x", [4, 2, 5])],
                  ["y"], {"w": f(1, 24, 5), "r": f(1, 24, 3)})
    with pytest.raises(RuntimeError, match=r"\(LSTM\): .* projections of states are not part of"):
        loaded(proto, tmp_path)


@pytest.mark.parametrize(("heads", "said"), [
    (0, "'num_heads' must be positive, but is 0"), (-2, "'num_heads' must be positive, but is -2"),
    ("2", "'num_heads' must be of the kind int"), (2.5, "'num_heads' must be of the kind int"),
    (3, "cannot reshape")])
def test_wrong_numbers_of_heads(tmp_path: Path, heads: Any, said: str) -> None:
    proto = model([N("MultiHeadAttention", ["q", "q", "q"], ["y"], domain="com.microsoft",
                     num_heads=heads)], [value("q", [1, 2, 8])], ["y"])
    with pytest.raises(RuntimeError, match=rf"\(com\.microsoft::MultiHeadAttention\): .*{said}"):
        loaded(proto, tmp_path)
