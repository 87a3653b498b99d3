"""Packed weights of GPTQ and AWQ, against what their formats say by hand; ONNX's are in
`tests/onnx_import`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn
from cellc.quantization import SmallDense, load_quantized
from cellc_runtime import checkpoint

Array = np.ndarray[Any, Any]
N, K, GROUP = 40, 128, 32


def word(parts: list[int], bits: int) -> int:
    """Ints in a signed word, the first in the low bits."""
    total = sum(int(q) << (i * bits) for i, q in enumerate(parts))
    return total - (1 << 32) if total >> 31 else total


def packed(ints: Array, bits: int) -> Array:
    """Rows of ints in words, along the last axis."""
    each = 32 // bits
    return np.array([[word(row[i : i + each], bits) for i in range(0, len(row), each)]
                     for row in ints.tolist()], np.int32)


def layer(kind: str, bits: int = 4, ordered: bool = False) -> tuple[dict[str, Array], Array]:
    """The arrays of a layer, and the matrix that they stand for, element by element."""
    rng = np.random.default_rng(bits)
    q = rng.integers(0, 1 << bits, (K, N))
    zeros = rng.integers(1, 1 << bits, (K // GROUP, N))
    scales = rng.uniform(0.01, 0.1, (K // GROUP, N)).astype(np.float16)
    index = np.arange(K, dtype=np.int32) // GROUP
    if ordered:
        index = rng.permutation(index)
    weight = np.array([[(q[k, n] - zeros[index[k], n]) * np.float32(scales[index[k], n])
                        for k in range(K)] for n in range(N)], np.float32)
    arrays = {"scales": scales}
    if kind == "awq":
        places = [8 * c + i for c in range(N // 8) for i in (0, 2, 4, 6, 1, 3, 5, 7)]
        arrays |= {"qweight": packed(q[:, places], 4), "qzeros": packed(zeros[:, places], 4)}
    else:
        stored = zeros - (kind == "gptq")
        arrays |= {"qweight": packed(q.T, bits).T.copy(), "qzeros": packed(stored, bits),
                   "g_idx": index}
    return arrays, weight


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm((K,))
        self.up = nn.Dense(K, N, activation="relu")

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        return self.up(self.norm(x))


X = np.random.default_rng(1).standard_normal((3, K)).astype(np.float32)


@pytest.mark.parametrize("kind, bits, ordered", [
    ("gptq", 4, False), ("gptq", 8, False), ("gptq", 4, True), ("gptq_v2", 8, True),
    ("awq", 4, False)])
def test_layers_of_files(tmp_path: Path, kind: str, bits: int, ordered: bool) -> None:
    arrays, weight = layer(kind, bits, ordered)
    bias = np.linspace(-1, 1, N).astype(np.float16)
    path = tmp_path / "model.safetensors"
    checkpoint.save(path, {**{f"model.up.{n}": a for n, a in arrays.items()},
                           "model.up.bias": bias, "model.norm.weight": np.ones(K, np.float32)})
    net: Any = Net().set_train(False)
    normed = net.norm(ms.Tensor(X)).asnumpy()
    left = load_quantized(net, path, names=lambda name: f"model.{name}",
                          format="gptq_v2" if kind == "gptq_v2" else "auto")
    assert left == ["model.norm.weight"] and isinstance(net.up, SmallDense)
    np.testing.assert_array_equal(net.up.weight.asnumpy(), weight)
    want = np.maximum(normed @ weight.T.astype(np.float64) + bias, 0)
    got = []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        got.append(net(ms.Tensor(X)).asnumpy())
    ms.set_context(mode=ms.PYNATIVE_MODE)
    assert got[0].tobytes() == got[1].tobytes()
    np.testing.assert_allclose(got[0], want, atol=1e-4)


def test_symmetric_zeros_are_not_stored() -> None:
    arrays, _ = layer("gptq")
    arrays["qzeros"] = packed(np.full((K // GROUP, N), 7), 4)
    net: Any = nn.SequentialCell(nn.Dense(K, N, has_bias=False))
    load_quantized(net, {f"0.{n}": a for n, a in arrays.items()})
    assert net[0].zeros is None


def wrong(change: Any) -> dict[str, Array]:
    arrays = layer("gptq")[0]
    change(arrays)
    return {f"0.{n}": a for n, a in arrays.items()}


BAD = [
    (lambda a: a.update(qweight=a["qweight"][:, 1:]), "'0.qweight' must be 128 x 40 (inputs x "
     "outputs) of 4 or 8 bits in 32-bit words, but got int32 (16, 39)."),
    (lambda a: a.update(qweight=a["qweight"][:15]), "'0.qweight' must be 128 x 40 (inputs x "
     "outputs) of 4 or 8 bits in 32-bit words, but got int32 (15, 40)."),
    (lambda a: a.update(scales=a["scales"][:, 1:]), "'0.scales' must be (groups, 40), but got "
     "(4, 39)."),
    (lambda a: a.update(scales=np.tile(a["scales"], (2, 1))), "'0.qzeros' must be 8 groups of 40, "
     "as scales are, but got (4, 40)."),
    (lambda a: a.update(scales=np.tile(a["scales"], (2, 1)), qzeros=np.tile(a["qzeros"], (2, 1))),
     "'0.scales' must be of groups of a multiple of 32 inputs, but got 8 groups of 128 inputs."),
    (lambda a: a.update(scales=a["scales"] * np.float16(np.nan)), "'0.scales' must be finite, but "
     "got NaN or infinity."),
    (lambda a: a.update(g_idx=a["g_idx"] * 0), "'0.g_idx' must be 4 groups of 32 inputs each, but "
     "got other groups of (128,)."),
    (lambda a: a.pop("qzeros"), "'0.qzeros' must be there, beside its qweight, but got no such "
     "array."),
    (lambda a: a.update(bias=np.ones(N, np.float16)), "'0.bias' must be left out, as the layer has "
     "none, but got (40,)."),
]


@pytest.mark.parametrize("case", range(len(BAD)))
def test_layers_that_contradict_the_network(case: int) -> None:
    change, text = BAD[case]
    net = nn.SequentialCell(nn.Dense(K, N, has_bias=False))
    with pytest.raises(ValueError, match=re.escape(f"For 'load_quantized', {text}")):
        load_quantized(net, wrong(change))
    assert type(net[0]) is nn.Dense


def test_layers_of_other_names() -> None:
    net = nn.SequentialCell(nn.Dense(K, N, has_bias=False))
    arrays = {f"up.{n}": a for n, a in layer("gptq")[0].items()}
    with pytest.raises(ValueError, match=r"or that which 'names' gives, but got up\.qweight\."):
        load_quantized(net, arrays)
    with pytest.raises(ValueError, match="but got no such layer"):
        load_quantized(net, {"0.weight": np.ones((N, K), np.float32)})
