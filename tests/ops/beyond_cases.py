"""Calls of ops beyond the usual ones, run here and by MindSpore.

    CELLC_ORACLE_PYTHON=... python -m tests.ops.beyond_cases      # asks MindSpore and records it

`beyond_recorded.json` holds, of each result that MindSpore 2.10 gave on a CPU, type, shape, sum and
up to 8 elements spread over it; of each gradient (of the sum of cosines of all results) likewise.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

RECORDED = Path(__file__).with_name("beyond_recorded.json")


class Calls:
    """The calls by name: function, arrays, and which of these gradients are taken of."""

    def __init__(self, ms: Any) -> None:
        self.ms, self.ops = ms, ms.ops
        self.found: dict[str, tuple[Any, tuple[Any, ...], tuple[int, ...]]] = {}
        self.random = np.random.default_rng(3)

    def add(self, name: str, fn: Any, *arrays: Any, grad: tuple[int, ...] = ()) -> None:
        """One more call."""
        self.found[name] = fn, arrays, grad

    def floats(self, *shape: int, low: float = -2, high: float = 2) -> Any:
        """Uniform float32 numbers."""
        return self.random.uniform(low, high, shape).astype(np.float32)


def boxes(c: Calls) -> None:
    """Offsets, overlaps, crops."""
    ops, f, tensor, ms = c.ops, c.floats, c.ms.Tensor, c.ms
    corner, far = f(12, 2, low=0, high=20), f(12, 2, low=20, high=60)
    box = np.concatenate([corner, far], 1)
    means, stds = (0.1, 0.2, 0.0, 0.0), (0.5, 1.0, 1.0, 2.0)
    c.add("BoundingBoxEncode", lambda a, b: ops.BoundingBoxEncode(means, stds)(a, b), box,
          box + f(12, 4))
    c.add("BoundingBoxDecode", lambda a, b: ops.BoundingBoxDecode((40, 50), means, stds)(a, b),
          box, f(12, 4))
    c.add("CheckValid", lambda a, b: ops.CheckValid()(a, b), box,
          np.array([50, 40, 1.0], np.float32))
    scores = c.random.permutation(12)[:, None].astype(np.float32)
    c.add("NMSWithMask", lambda a: ops.NMSWithMask(0.3)(a), np.concatenate([box, scores], 1))
    features = f(2, 3, 9, 11)
    regions = np.array([[0, 1.5, 2, 6, 7], [1, 0, 0, 9, 8], [1, -3, -2, 30, 20], [0, 2, 2, 2, 2]],
                       np.float32)
    for mode in (0, 1):
        for samples in (2, 3):
            c.add(f"ROIAlign {mode} {samples}",
                  lambda a, b, m=mode, s=samples: ops.ROIAlign(3, 2, 0.5, s, m)(a, b), features,
                  regions, grad=(0,) if mode else ())
    images = f(2, 7, 9, 3, low=0, high=1)
    parts = np.array([[0.1, 0.2, 0.8, 0.9], [0.9, 0.1, 0.2, 0.6], [-0.2, 0, 1.2, 1]], np.float32)
    which = np.array([0, 1, 1], np.int32)
    for way in ("bilinear", "nearest", "bilinear_v2"):
        given = np.clip(parts[[0, 0, 2]], 0, 1) if way == "bilinear_v2" else parts
        c.add(f"crop_and_resize {way}", lambda a, b, w, way=way: ops.crop_and_resize(
            a, b, w, (4, 5), way, 0.5), images, given, which,
            grad=(0,) if way == "bilinear" else ())
    pairs = np.abs(f(6, 6))
    c.add("NonMaxSuppressionWithOverlaps", lambda a, b: ops.NonMaxSuppressionWithOverlaps()(
        a, b, tensor(4, ms.int32), tensor(0.8), tensor(0.1)), (pairs + pairs.T) / 2,
        f(6, low=0, high=1))
    for name, given, q in (("", (False, True), 1), (" padded", (True, False), 3)):
        c.add(f"CombinedNonMaxSuppression{name}", lambda a, b, g=given:
              ops.CombinedNonMaxSuppression(*g)(a, b, tensor(2, ms.int32), tensor(5, ms.int32),
                                                tensor(0.4), tensor(0.1)),
              f(2, 8, q, 4, low=0, high=1), f(2, 8, 3, low=0, high=1))


def pictures(c: Calls) -> None:
    """Colours, sizes, windows."""
    ops, f, tensor, ms = c.ops, c.floats, c.ms.Tensor, c.ms
    images, features = f(2, 7, 9, 3, low=0, high=1), f(2, 3, 9, 11)
    c.add("RGBToHSV", lambda a: ops.RGBToHSV()(a), images)
    c.add("HSVToRGB", lambda a: ops.HSVToRGB()(a), images)
    c.add("AdjustHue", lambda a: ops.AdjustHue()(a, tensor(0.3)), images)
    c.add("AdjustSaturation", lambda a: ops.AdjustSaturation()(a, tensor(1.7)), images)
    for align in (False, True):
        for size in ((3, 4), (10, 20)):
            c.add(f"ResizeArea {align} {size}", lambda a, n=align, s=size: ops.ResizeArea(n)(
                a, tensor(list(s), ms.int32)), images)
    for kernel in ("lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle",
                   "keyscubic", "mitchellcubic"):
        for soft in (True, False):
            c.add(f"ScaleAndTranslate {kernel} {soft}",
                  lambda a, k=kernel, s=soft: ops.ScaleAndTranslate(k, s)(
                      a, tensor([5, 6], ms.int32), tensor([0.7, 1.3]), tensor([0.4, -1.2])),
                  images)
    for flag, low, high in ((True, -1, 1), (False, 1, 6)):
        c.add(f"ExtractGlimpse {flag}",
              lambda a, b, g=flag: ops.ExtractGlimpse(g, g, False, "zero")(
                  a, tensor([3, 4], ms.int32), b), images, f(2, 2, low=low, high=high))
    c.add("ExtractVolumePatches", lambda a: ops.ExtractVolumePatches(
        (1, 1, 2, 2, 2), (1, 1, 1, 2, 1), "SAME")(a), f(1, 2, 3, 5, 4))
    c.add("FractionalMaxPoolWithFixedKsize", lambda a, b: ops.FractionalMaxPoolWithFixedKsize(
        2, (3, 4))(a, b), features, f(2, 3, 2, low=0, high=1))
    c.add("FractionalMaxPool3DWithFixedKsize", lambda a, b: ops.FractionalMaxPool3DWithFixedKsize(
        (1, 1, 2), (2, 3, 2))(a, b), f(1, 2, 4, 5, 6), f(1, 2, 3, low=0, high=1))
    c.add("MaxPoolWithArgmax", lambda a: ops.MaxPoolWithArgmax(2, 2, "same")(a), features)
    c.add("Conv2DBackpropInput", lambda a, b: ops.Conv2DBackpropInput(4, 3, "same", stride=2)(
        a, b, (2, 3, 9, 11)), f(2, 4, 5, 6), f(4, 3, 3, 3))
    c.add("deformable_conv2d", lambda a, w, o: ops.deformable_conv2d(
        a, w, o, (3, 3), (1, 1, 2, 1), (1, 1, 0, 1), dilations=(1, 1, 1, 2)), features,
        f(4, 3, 3, 3), f(2, 27, 5, 8), grad=(0, 1, 2))
    c.add("DeformableOffsets", lambda a, o: ops.DeformableOffsets(
        (1, 1, 1, 1), (1, 0, 1, 0), (2, 2), deformable_groups=3)(a, o), features, f(2, 36, 9, 11))


def special(c: Calls) -> None:
    """Bessel, zeta, beta functions; Fourier transforms."""
    ops, f, tensor, ms = c.ops, c.floats, c.ms.Tensor, c.ms
    for name in ("i0", "i0e", "i1", "i1e", "j0", "j1", "k0", "k0e", "k1", "k1e", "y0", "y1"):
        c.add(f"bessel_{name}", lambda a, n=name: getattr(ops, f"bessel_{n}")(a),
              f(40, low=0.1, high=4), grad=(0,))
    c.add("zeta", lambda a, b: ops.zeta(a, b), f(20, low=1.1, high=8), f(20, low=0.1, high=12))
    for n in (0, 1, 2, 3, 5):
        low = f(9, low=-2.8, high=-2.2) if n < 2 else f(9, low=1, high=2)
        c.add(f"polygamma {n}", lambda a, n=n: ops.polygamma(tensor(n, ms.int64), a),
              np.concatenate([low, f(9, low=1.5, high=9)]), grad=(0,))
    c.add("Betainc", lambda a, b, x: ops.Betainc()(a, b, x), f(30, low=0.2, high=9),
          f(30, low=0.2, high=9), f(30, low=0, high=1), grad=(2,))
    taper = np.hanning(12).astype(np.float32)
    c.add("stft", lambda a: ops.stft(a, 16, 4, 12, tensor(taper), True, "REFLECT", True),
          f(2, 100))
    c.add("STFT", lambda a: ops.STFT(16, 4, 12, False, False, True)(a, tensor(taper)), f(2, 100))
    wave = (f(2, 4, 6) + 1j * f(2, 4, 6)).astype(np.complex64)
    for rank in (1, 2, 3):
        for inverse in (False, True):
            c.add(f"FFTWithSize {rank} {inverse}", lambda a, r=rank, i=inverse: ops.FFTWithSize(
                r, i, False, "ortho")(a), wave)
    c.add("FFTWithSize real", lambda a: ops.FFTWithSize(2, False, True)(a), f(2, 4, 6))
    c.add("FFTWithSize two-sided", lambda a: ops.FFTWithSize(2, False, True, onesided=False)(a),
          f(2, 4, 6))


def sequences(c: Calls) -> None:
    """Labels, words, recurrence."""
    ops, f, tensor, ms = c.ops, c.floats, c.ms.Tensor, c.ms
    scores = f(7, 3, 5)
    labels, reach, sizes = [[1, 2, 2], [3, 1, 4], [4, 4, 1]], [7, 5, 7], [3, 2, 3]

    def told(a: Any) -> Any:
        return ops.CTCLossV2(0)(ops.log_softmax(a, 2), *(
            tensor(v, ms.int32) for v in (labels, reach, sizes)))

    c.add("CTCLossV2", told, scores)
    c.add("CTCLossV2 gradient", lambda a: told(a)[0], scores, grad=(0,))
    c.add("ctc_loss", lambda a: ops.ctc_loss(a, *(
        tensor(v, ms.int32) for v in (labels, reach, sizes)))[0], scores - 2)
    places = [[0, 0], [0, 1], [1, 0], [2, 0], [2, 1], [2, 2]]
    c.add("CTCLoss", lambda a: ops.CTCLoss()(
        a, tensor(places, ms.int64), tensor([0, 1, 3, 2, 2, 1], ms.int32),
        tensor(reach, ms.int32))[0], scores)
    c.add("LSTM", lambda x, h, s, w: ops.LSTM(3, 4, 1, False, False, 0.0)(x, h, s, w)[:3],
          f(5, 2, 3), f(1, 2, 4), f(1, 2, 4), f(112, 1, 1))
    left, right = [[0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1]], [
        [0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    for scaled in (False, True):
        c.add(f"EditDistance {scaled}", lambda a, b, s=scaled: ops.EditDistance(s)(
            tensor(left, ms.int64), a, tensor([2, 4], ms.int64), tensor(right, ms.int64), b,
            tensor([2, 3], ms.int64)), np.array([1, 2, 3, 4, 5, 6], np.int32),
            np.array([2, 4, 4, 5, 1, 6], np.int32))
    c.add("NoRepeatNGram", lambda a, b: ops.NoRepeatNGram(3)(a, b),
          c.random.integers(0, 3, (2, 2, 9)).astype(np.int32), f(2, 2, 4))


def sets(c: Calls) -> None:
    """Segments, places, bits."""
    ops, f, tensor, ms = c.ops, c.floats, c.ms.Tensor, c.ms
    holes = f(3, 4, 5)
    holes[holes > 1] = np.nan
    for axis in (0, 1, -1):
        c.add(f"nanmedian {axis}", lambda x, a=axis: ops.nanmedian(x, a)[0], holes)
    for kind in (np.int32, np.int64):
        c.add(f"UniqueWithPad {kind.__name__}", lambda a: ops.UniqueWithPad()(
            a, tensor(9, a.dtype)), c.random.integers(0, 6, 20).astype(kind))
    c.add("sparse_segment_mean", lambda a: ops.sparse_segment_mean(
        a, tensor([0, 2, 1, 1], ms.int32), tensor([0, 0, 2, 2], ms.int32)), f(3, 4))
    for kind in ("Max", "Mean", "Min", "Prod", "Sum"):
        c.add(f"Segment{kind}", lambda a, k=kind: getattr(ops, f"Segment{k}")()(
            a, tensor([0, 0, 2, 2, 5], ms.int64)), f(5, 3))
    c.add("ListDiff", lambda a, b: ops.ListDiff()(a, b), np.array([1, 2, 3, 4, 5, 2], np.int32),
          np.array([2, 4], np.int32))
    c.add("NthElement", lambda a: ops.NthElement(True)(a, tensor(1, ms.int32)), f(3, 5))
    c.add("CompareAndBitpack", lambda a: ops.CompareAndBitpack()(a, tensor(0.5)), f(2, 16))
    c.add("UnravelIndex", lambda a: ops.UnravelIndex()(a, tensor([3, 4, 5])),
          np.array([0, 7, 59]))
    c.add("TridiagonalMatMul", lambda *a: ops.TridiagonalMatMul()(*a), f(2, 1, 4), f(2, 1, 4),
          f(2, 1, 4), f(2, 4, 3))
    c.add("Bincount", lambda a, w: ops.Bincount()(a, tensor(5, ms.int32), w),
          c.random.integers(0, 8, 20).astype(np.int32), f(20))
    c.add("Gcd", lambda a, b: (ops.Gcd()(a, b), ops.Lcm()(a, b)), np.array([12, 7, 0, 9]),
          np.array([8, 21, 5, 0]))
    c.add("DataFormatDimMap", lambda a: ops.DataFormatDimMap()(a),
          np.array([0, 1, -2, 3], np.int32))
    c.add("DataFormatVecPermute", lambda a: ops.DataFormatVecPermute()(a),
          np.array([1, 2, 3, 4], np.int32))
    c.add("SubAndFilter", lambda a: ops.SubAndFilter()(a, 10, 5),
          np.array([1, 3, 5, 8, 9, 16], np.int32))


def steps(c: Calls) -> None:
    """Optimizers' steps of some rows of a parameter."""
    ops, f, ms = c.ops, c.floats, c.ms
    state, grad = [f(5, 3), f(5, 3, low=0.1, high=1), f(5, 3, low=0.1, high=1)], f(2, 3)
    rows = ms.Tensor([0, 3], ms.int32)
    one = [ms.Tensor([v], ms.float32) for v in (0.9, 0.999, 0.001, 0.9, 0.999, 1e-8)]

    def add(name: str, make: Any, count: int, *middle: Any, at: Any = rows) -> None:
        def run(g: Any) -> Any:
            kept = [ms.Parameter(ms.Tensor(s), name=f"p{i}") for i, s in enumerate(state[:count])]
            make()(*kept, *middle, g, at)
            return tuple(ms.Tensor(p.asnumpy()) for p in kept)

        c.add(name, run, grad)

    add("SparseApplyAdagrad", lambda: ops.SparseApplyAdagrad(0.1), 2)
    add("SparseApplyAdagradV2", lambda: ops.SparseApplyAdagradV2(0.1, 1e-6), 2)
    add("SparseApplyFtrl", lambda: ops.SparseApplyFtrl(0.01, 0.1, 0.2, -0.5), 3)
    add("FusedSparseFtrl", lambda: ops.FusedSparseFtrl(0.01, 0.1, 0.2, -0.5), 3)
    add("FusedSparseAdam", lambda: ops.FusedSparseAdam(), 3, *one)
    add("FusedSparseLazyAdam", lambda: ops.FusedSparseLazyAdam(), 3, *one)
    add("FusedSparseLazyAdam nesterov", lambda: ops.FusedSparseLazyAdam(use_nesterov=True), 3,
        *one)
    add("FusedSparseLazyAdam twice", lambda: ops.FusedSparseLazyAdam(), 3, *one,
        at=ms.Tensor([3, 3], ms.int32))


def calls(ms: Any) -> Calls:
    """All of them, for a module that is MindSpore or cellc."""
    c = Calls(ms)
    for family in (boxes, pictures, special, sequences, sets, steps):
        family(c)
    return c


def flat(value: Any) -> list[Any]:
    """The tensors of a result."""
    return [t for v in value for t in flat(v)] if isinstance(value, (tuple, list)) else [value]


def gradients(ms: Any, function: Any, arrays: Any, wanted: Any) -> list[Any]:
    """Of the sum of cosines of all results."""
    def total(*given: Any) -> Any:
        return sum(ms.ops.cos(t).sum() for t in flat(function(*given)))

    return [ms.grad(total, i)(*map(ms.Tensor, arrays)).asnumpy() for i in wanted]


def digest(array: Any) -> dict[str, Any]:
    """What is recorded of an array."""
    line = np.ascontiguousarray(array).reshape(-1)
    line = line.view(line.real.dtype) if line.dtype.kind == "c" else line
    line = line.astype(np.float64)
    picked = line[np.linspace(0, line.size - 1, min(line.size, 8)).astype(int)]
    finite = line[np.isfinite(line) & (np.abs(line) < 1e30)]
    return {"dtype": str(array.dtype), "shape": list(array.shape), "sum": float(finite.sum()),
            "size": float(np.abs(finite).sum()), "some": picked.tolist()}


def record(ms: Any) -> dict[str, Any]:
    """Digests of all results and gradients."""
    return {name: {"out": [digest(t.asnumpy()) for t in flat(fn(*map(ms.Tensor, arrays)))],
                   "grad": [digest(g) for g in gradients(ms, fn, arrays, wanted)]}
            for name, (fn, arrays, wanted) in calls(ms).found.items()}


if __name__ == "__main__":
    if len(sys.argv) > 1:  # within MindSpore's interpreter
        print(json.dumps(record(importlib.import_module("mindspore"))))
    else:
        from ..others import ORACLE, answer, run
        found = answer(run(ORACLE, Path(__file__), ["asked"]))
        rows = ",\n".join(f"{json.dumps(n)}: {json.dumps(v)}" for n, v in found.items())
        RECORDED.write_text("{" + rows + "}\n", encoding="utf-8")
