"""What is measured: the workloads, small parts of them, and networks that nobody tunes for."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import spec
from spec import Case, Spec

Sizes = dict[str, Any]


def data(name: str) -> spec.Data:
    """The arrays of a case, the same in every process."""
    return spec.data(CASES[name].spec())


def _lenet(s: Spec, z: Sizes) -> None:
    s.image(64, 1, 32, 32)
    s.integers(10, 64)
    s.conv(1, 6, 5, 64 * 28 * 28, first=True)
    s.conv(6, 16, 5, 64 * 10 * 10)
    s.dense(400, 120, 84, 10, rows=64)


def _mlp(s: Spec, z: Sizes) -> None:
    s.image(128, 784)
    s.integers(10, 128)
    s.dense(784, 1024, 1024, 10, rows=128, first=True)


def _resnet(s: Spec, z: Sizes) -> None:
    n, side = z["batch"], z["side"]
    s.image(n, 3, side, side)
    if s.kind == "train":
        s.integers(1000, n)
    pixels = n * (side // 2) ** 2
    s.conv(3, 64, 7, pixels, first=True)
    s.norm(64)
    pixels //= 4
    channels = 64
    for stage, depth in enumerate(z["depths"]):
        for block in range(depth):
            down = stage > 0 and block == 0
            channels, pixels = _block(s, channels, 64 << stage, pixels, down, z["bottleneck"])
    s.dense(channels, 1000, rows=n)
    s.outputs = n * 1000


def _block(s: Spec, inputs: int, width: int, pixels: int, down: bool,
           bottleneck: bool) -> tuple[int, int]:
    after = pixels // 4 if down else pixels
    outputs = 4 * width if bottleneck else width
    if bottleneck:
        layers = ((inputs, width, 1, pixels), (width, width, 3, after), (width, outputs, 1, after))
    else:
        layers = ((inputs, width, 3, after), (width, width, 3, after))
    for a, b, size, count in layers:
        s.conv(a, b, size, count)
        s.norm(b)
    if down or inputs != outputs:
        s.conv(inputs, outputs, 1, after)
        s.norm(outputs)
    return outputs, after


MOBILE = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
          (6, 160, 3, 2), (6, 320, 1, 1))


def _mobilenet(s: Spec, z: Sizes) -> None:
    n, side = z["batch"], z["side"]
    s.image(n, 3, side, side)
    if s.kind == "train":
        s.integers(1000, n)
    pixels, channels = n * (side // 2) ** 2, 32
    s.conv(3, 32, 3, pixels, first=True)
    s.norm(32)
    for expansion, width, blocks, stride in MOBILE:
        for i in range(blocks):
            wide = channels * expansion
            if expansion != 1:
                s.conv(channels, wide, 1, pixels)
                s.norm(wide)
            pixels //= (stride if i == 0 else 1) ** 2
            s.conv(wide, wide, 3, pixels, groups=wide)
            s.norm(wide)
            s.conv(wide, width, 1, pixels)
            s.norm(width)
            channels = width
    s.conv(320, 1280, 1, pixels)
    s.norm(1280)
    s.dense(1280, 1000, rows=n)
    s.outputs = n * 1000


def _gpt(s: Spec, z: Sizes) -> None:
    n, t, v, w = z["batch"], z["context"], z["vocabulary"], z["width"]
    s.integers(v, n, t)
    if s.kind == "train":
        s.integers(v, n, t)
    s.weight("matrix", t, w)
    s.weight("matrix", v, w)
    for _ in range(z["depth"]):
        s.norm(w)
        s.dense(w, 3 * w, rows=n * t)
        s.product(n * t * t * w)  # scores and mixing, of which the causal mask needs half
        s.dense(w, w, rows=n * t)
        s.norm(w)
        s.dense(w, 4 * w, w, rows=n * t)
    s.norm(w)
    if z["tied"]:
        s.product(n * t * w * v)
    else:
        s.dense(w, v, rows=n * t, bias=False)
    s.outputs = n * t * v if s.kind == "infer" else 0


def _lstm(s: Spec, z: Sizes) -> None:
    n, t, h = z["batch"], z["steps"], z["hidden"]
    s.image(n, t, z["features"])
    if s.kind == "train":
        s.integers(z["classes"], n)
    s.recurrent(z["features"], h, z["layers"], n * t, z["gates"])
    s.dense(h, z["classes"], rows=n)


def _unet(s: Spec, z: Sizes) -> None:
    n, side, depth = z["batch"], z["side"], z["depth"]
    s.image(n, 3, side, side)
    if s.kind == "train":
        s.integers(2, n, side, side)
    widths = [z["width"] << i for i in range(depth + 1)]

    def double(inputs: int, outputs: int, pixels: int, first: bool = False) -> None:
        s.conv(inputs, outputs, 3, pixels, first=first)
        s.norm(outputs)
        s.conv(outputs, outputs, 3, pixels)
        s.norm(outputs)

    def pixels(level: int) -> int:
        return n * (side >> level) ** 2

    double(3, widths[0], pixels(0), first=True)
    for i, (a, b) in enumerate(pairwise(widths)):
        double(a, b, pixels(i + 1))
    pairs = list(pairwise(widths[::-1]))
    for i, (a, b) in enumerate(pairs):
        s.weight("matrix", a, b, 2, 2)
        s.product(pixels(depth - i) * a * b * 4)
    for i, (a, b) in enumerate(pairs):
        double(a, b, pixels(depth - i - 1))
    s.conv(widths[0], 2, 1, pixels(0))
    s.outputs = 2 * pixels(0)


def _chain(s: Spec, z: Sizes) -> None:
    rows, columns = 4096, z["columns"]
    s.image(rows, columns)
    if s.kind == "grad":
        s.magnitudes(rows, columns)
    s.each(rows * columns, 5 + (5 if z["softmax"] else 0), 15)
    s.outputs = rows * columns


def _layernorm(s: Spec, z: Sizes) -> None:
    rows, columns = 8192, 1024
    s.image(rows, columns)
    s.image(rows, columns)
    if s.kind == "grad":
        s.magnitudes(rows, columns)
    s.norm(columns)
    s.each(rows * columns, 8, 12)
    s.outputs = rows * columns


def _tiny(s: Spec, z: Sizes) -> None:
    s.image(1, 8)
    s.dense(8, 8, rows=1)
    s.outputs = 8


def _gemm(s: Spec, z: Sizes) -> None:
    s.image(512, 512)
    s.image(512, 512)
    s.product(512**3)
    s.outputs = 512 * 512


def _conv(s: Spec, z: Sizes) -> None:
    s.image(1, 64, 56, 56)
    s.conv(64, 64, 3, 56 * 56)
    s.outputs = 64 * 56 * 56


def _vgg(s: Spec, z: Sizes) -> None:
    n, side, channels = 2, 112, 3
    s.image(n, 3, side, side)
    for widths in z["plan"]:
        for width in widths:
            s.conv(channels, width, 3, n * side * side, bias=True, first=channels == 3)
            channels = width
        side //= 2
    s.dense(channels * side * side, 1024, 1000, rows=n)
    s.outputs = n * 1000


def _convnext(s: Spec, z: Sizes) -> None:
    n, side = 2, 160
    s.image(n, 3, side, side)
    side //= 4
    widths = z["widths"]
    s.conv(3, widths[0], 4, n * side * side, bias=True, first=True)
    s.norm(widths[0])
    for stage, (width, depth) in enumerate(zip(widths, z["depths"], strict=True)):
        if stage:
            side //= 2
            s.norm(widths[stage - 1])
            s.conv(widths[stage - 1], width, 2, n * side * side, bias=True)
        for _ in range(depth):
            s.weight("gain", width)
            s.conv(width, width, 7, n * side * side, groups=width, bias=True)
            s.norm(width)
            s.dense(width, 4 * width, width, rows=n * side * side)
    s.norm(widths[-1])
    s.dense(widths[-1], 1000, rows=n)
    s.outputs = n * 1000


def _mixer(s: Spec, z: Sizes) -> None:
    n, w, side, patch = 4, z["width"], 112, z["patch"]
    t = (side // patch) ** 2
    s.image(n, 3, side, side)
    s.integers(100, n)
    s.conv(3, w, patch, n * t, bias=True, first=True)
    for _ in range(z["depth"]):
        s.norm(w)
        s.dense(t, z["tokens"], t, rows=n * w)
        s.norm(w)
        s.dense(w, 4 * w, w, rows=n * t)
    s.norm(w)
    s.dense(w, 100, rows=n)


def _bert(s: Spec, z: Sizes) -> None:
    n, t, w = z["batch"], z["context"], z["width"]
    s.integers(z["vocabulary"], n, t)
    s.weight("matrix", t, w)
    s.weight("matrix", z["vocabulary"], w)
    s.norm(w)
    for _ in range(z["depth"]):
        for _ in range(3):
            s.dense(w, w, rows=n * t)
        s.product(2 * n * t * t * w)
        s.dense(w, w, rows=n * t)
        s.norm(w)
        s.dense(w, 3 * w, w, rows=n * t)
        s.norm(w)
    s.outputs = n * t * w


_R18 = {"depths": (2, 2, 2, 2), "bottleneck": False}
_R50 = {"depths": (3, 4, 6, 3), "bottleneck": True}
_ONE, _BATCH = {"batch": 1, "side": 224}, {"batch": 8, "side": 64}
_UNET = {"width": 32, "depth": 4}
_GPT2 = {"batch": 1, "context": 128, "vocabulary": 50257, "width": 768, "depth": 12, "heads": 12,
         "tied": True}
_GPT = {"batch": 8, "context": 128, "vocabulary": 1024, "width": 256, "depth": 4, "heads": 8,
        "tied": False}
_LSTM = {"batch": 16, "steps": 64, "features": 128, "hidden": 256, "classes": 10, "layers": 2,
         "gates": 4}
_GRU = {"batch": 6, "steps": 50, "features": 40, "hidden": 192, "classes": 12, "layers": 2,
        "gates": 3}
_WIDE = {"columns": 4096, "softmax": True}
_BERT = {"batch": 4, "context": 96, "vocabulary": 5000, "width": 384, "depth": 4, "heads": 6}

CASES: dict[str, Case] = {
    "mlp": Case("MLP 784-1024-1024-10, batch 128, training", _mlp, "train"),
    "lenet": Case("LeNet-5, batch 64, training", _lenet, "train"),
    "resnet18": Case("ResNet-18, 1 x 224 x 224", _resnet, sizes={**_R18, **_ONE}),
    "resnet50": Case("ResNet-50, 1 x 224 x 224", _resnet, sizes={**_R50, **_ONE}),
    "resnet18_train": Case("ResNet-18, 8 x 64 x 64, training (Adam)", _resnet, "train",
                           optimizer="adam", sizes={**_R18, **_BATCH}),
    "mobilenet": Case("MobileNetV2, 1 x 224 x 224", _mobilenet, sizes=_ONE),
    "gpt_decoder": Case("GPT-2 small, 12 x 768, 128 tokens", _gpt, sizes=_GPT2),
    "gpt_train": Case("GPT 4 x 256, 8 x 128 tokens, training (Adam)", _gpt, "train",
                      optimizer="adam", sizes=_GPT),
    "lstm_infer": Case("LSTM 2 x 256, 16 x 64 steps", _lstm, sizes=_LSTM),
    "lstm_train": Case("LSTM 2 x 256, 16 x 64 steps, training (Adam)", _lstm, "train",
                       optimizer="adam", sizes=_LSTM),
    "unet": Case("U-Net, 128 x 128", _unet, sizes={**_UNET, "batch": 1, "side": 128}),
    "chain": Case("softmax(tanh(x) * sigmoid(x) + erf(x)), 4096 x 4096", _chain, sizes=_WIDE),
    "chain_grad": Case("the same with its gradient", _chain, "grad", sizes=_WIDE),
    "layernorm": Case("layernorm(x + r), 8192 x 1024", _layernorm),
    "layernorm_grad": Case("the same with its gradients", _layernorm, "grad"),
    "tiny": Case("call of a tiny net (relu of a dense layer of 8)", _tiny),
    "vgg": Case("VGG-like with biases, 2 x 112 x 112", _vgg, group="aside",
                sizes={"plan": ((48,), (96,), (192, 192), (384, 384), (384, 384))}),
    "convnext": Case("ConvNeXt-like, 2 x 160 x 160", _convnext, group="aside",
                     sizes={"widths": (56, 112, 224), "depths": (2, 2, 4)}),
    "mixer_train": Case("MLP-Mixer, 4 x 112 x 112, training (Adam)", _mixer, "train", "aside",
                        "adam", {"width": 192, "patch": 14, "depth": 4, "tokens": 96}),
    "resnet50_train": Case("ResNet-50, 8 x 64 x 64, training (Adam)", _resnet, "train", "aside",
                           "adam", {**_R50, **_BATCH}, steps=1),
    "mobilenet_train": Case("MobileNetV2, 8 x 64 x 64, training (Adam)", _mobilenet, "train",
                            "aside", "adam", _BATCH, steps=2),
    "unet_train": Case("U-Net, 8 x 64 x 64, training (Adam)", _unet, "train", "aside", "adam",
                       {**_UNET, **_BATCH}),
    "gru": Case("GRU 2 x 192, 6 x 50 steps", _lstm, group="aside", sizes=_GRU),
    "bert": Case("BERT-like encoder 4 x 384, 4 x 96 tokens", _bert, group="aside", sizes=_BERT),
    "elementwise": Case("tanh(x) * sigmoid(x) + erf(x), 4096 x 1024", _chain, group="micro",
                        sizes={"columns": 1024, "softmax": False}),
    "gemm": Case("SGEMM 512", _gemm, group="micro"),
    "conv": Case("conv 3x3, 64 channels, 56 x 56", _conv, group="micro"),
}


def _half(name: str, dtype: str) -> Case:
    case = CASES[name]
    return replace(case, title=f"{case.title}, {dtype}", group="half", dtype=dtype, network=name)


CASES |= {f"{name}_{short}": _half(name, dtype) for dtype, short, names in (
    ("bfloat16", "bf16", ("mlp", "resnet18", "resnet50", "gpt_decoder", "gpt_train", "chain")),
    ("float16", "f16", ("resnet50", "gpt_decoder", "chain"))) for name in names}
