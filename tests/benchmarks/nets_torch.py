"""The networks in torch, layers registered in the order in which the Cells register them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from cases import CASES, MOBILE
from torch import nn


class LeNet5(nn.Module):
    """As samples/lenet.py."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, bias=False)
        self.conv2 = nn.Conv2d(6, 16, 5, bias=False)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x: Any) -> Any:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


def mlp() -> Any:
    """As samples/mlp.py."""
    return nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
                         nn.Linear(1024, 10))


def conv_bn(inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> Any:
    """A convolution without bias, and batch normalisation."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs))


class Basic(nn.Module):
    """A block of ResNet-18."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.one, self.two = conv_bn(inputs, width, 3, stride), conv_bn(width, width, 3)
        same = stride == 1 and inputs == width
        self.shortcut = nn.Identity() if same else conv_bn(inputs, width, 1, stride)

    def forward(self, x: Any) -> Any:
        return F.relu(self.two(F.relu(self.one(x))) + self.shortcut(x))


class Bottleneck(nn.Module):
    """A block of ResNet-50."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.one, self.two = conv_bn(inputs, width, 1), conv_bn(width, width, 3, stride)
        self.three = conv_bn(width, 4 * width, 1)
        same = stride == 1 and inputs == 4 * width
        self.shortcut = nn.Identity() if same else conv_bn(inputs, 4 * width, 1, stride)

    def forward(self, x: Any) -> Any:
        y = self.three(F.relu(self.two(F.relu(self.one(x)))))
        return F.relu(y + self.shortcut(x))


def resnet(depths: tuple[int, ...], bottleneck: bool, **_: Any) -> Any:
    """As samples/resnet.py."""
    block, expansion = (Bottleneck, 4) if bottleneck else (Basic, 1)

    def layers() -> Iterator[nn.Module]:
        yield from (*conv_bn(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        inputs = 64
        for stage, depth in enumerate(depths):
            for i in range(depth):
                yield block(inputs, 64 << stage, 2 if stage > 0 and i == 0 else 1)
                inputs = (64 << stage) * expansion
        yield from (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))

    return nn.Sequential(*layers())


class Inverted(nn.Module):
    """A block of MobileNetV2."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        self.residual = stride == 1 and inputs == outputs
        layers = [conv_bn(inputs, wide, 1), nn.ReLU6()] if expansion != 1 else []
        self.layers = nn.Sequential(*layers, conv_bn(wide, wide, 3, stride, wide), nn.ReLU6(),
                                    conv_bn(wide, outputs, 1))

    def forward(self, x: Any) -> Any:
        return x + self.layers(x) if self.residual else self.layers(x)


def mobilenet(**_: Any) -> Any:
    """As samples/mobilenet.py."""
    layers, channels = [conv_bn(3, 32, 3, 2), nn.ReLU6()], 32
    for expansion, width, blocks, stride in MOBILE:
        for i in range(blocks):
            layers.append(Inverted(channels, width, stride if i == 0 else 1, expansion))
            channels = width
    return nn.Sequential(*layers, conv_bn(320, 1280, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(1280, 1000))


class Attention(nn.Module):
    """As in samples/gpt.py, through torch's fused attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        n, t, w = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(out.transpose(1, 2).reshape(n, t, w))


class Block(nn.Module):
    """As in samples/gpt.py."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width, 1e-7), Attention(width, heads)
        self.norm2 = nn.LayerNorm(width, 1e-7)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"),
                                 nn.Linear(4 * width, width))

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """As samples/gpt.py."""

    def __init__(self, vocabulary: int, context: int, width: int, depth: int, heads: int,
                 tied: bool, **_: Any) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.zeros(context, width))
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width, 1e-7)
        self.head = nn.Linear(width, vocabulary, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, tokens: Any) -> Any:
        x = self.tokens(tokens) + self.positions[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Sequence(nn.Module):
    """As samples/lstm.py, and with a GRU."""

    def __init__(self, features: int, hidden: int, classes: int, layers: int, gates: int,
                 **_: Any) -> None:
        super().__init__()
        kind = nn.LSTM if gates == 4 else nn.GRU
        self.layers = kind(features, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: Any) -> Any:
        return self.head(self.layers(x)[0][:, -1])


def double(inputs: int, outputs: int) -> Any:
    """Two layers of samples/unet.py."""
    return nn.Sequential(conv_bn(inputs, outputs, 3), nn.ReLU(), conv_bn(outputs, outputs, 3),
                         nn.ReLU())


class UNet(nn.Module):
    """As samples/unet.py."""

    def __init__(self, width: int, depth: int, **_: Any) -> None:
        super().__init__()
        widths = [width << i for i in range(depth + 1)]
        self.enter = double(3, width)
        self.down = nn.ModuleList([double(a, b) for a, b in pairwise(widths)])
        pairs = list(pairwise(widths[::-1]))
        self.up = nn.ModuleList([nn.ConvTranspose2d(a, b, 2, 2, bias=False) for a, b in pairs])
        self.merge = nn.ModuleList([double(a, b) for a, b in pairs])
        self.leave = nn.Conv2d(width, 2, 1, bias=False)

    def forward(self, x: Any) -> Any:
        x = self.enter(x)
        levels = [x]
        for down in self.down:
            x = down(F.max_pool2d(x, 2))
            levels.append(x)
        levels.pop()
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat((levels.pop(), up(x)), 1))
        return self.leave(x)


class PixelClasses(UNet):
    """A U-Net whose classes come last, as the loss takes them."""

    def forward(self, x: Any) -> Any:
        return super().forward(x).permute(0, 2, 3, 1)


class Chain(nn.Module):
    """As in cells.py."""

    def __init__(self, softmax: bool, **_: Any) -> None:
        super().__init__()
        self.softmax = softmax

    def forward(self, x: Any) -> Any:
        y = torch.tanh(x) * torch.sigmoid(x) + torch.erf(x)
        return torch.softmax(y, -1) if self.softmax else y


class ResidualNorm(nn.Module):
    """As in cells.py."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(1024, 1e-7)

    def forward(self, x: Any, r: Any) -> Any:
        return self.norm(x + r)


class Product(nn.Module):
    """The matrix product."""

    def forward(self, a: Any, b: Any) -> Any:
        return a @ b


def vgg(plan: tuple[tuple[int, ...], ...]) -> Any:
    """As in cells.py."""
    layers: list[nn.Module] = []
    channels, side = 3, 112
    for widths in plan:
        for width in widths:
            layers += [nn.Conv2d(channels, width, 3, 1, 1), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2, 2))
        side //= 2
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * side * side, 1024),
                         nn.ReLU(), nn.Linear(1024, 1000))


class ConvNextBlock(nn.Module):
    """As in cells.py."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.depthwise = nn.Conv2d(width, width, 7, 1, 3, groups=width)
        self.norm = nn.LayerNorm(width, 1e-7)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.narrow(F.gelu(self.wide(y), approximate="tanh")) * self.scale
        return x + y.permute(0, 3, 1, 2)


class Reduce(nn.Module):
    """As in cells.py."""

    def __init__(self, inputs: int, outputs: int, size: int, before: bool) -> None:
        super().__init__()
        if before:
            self.norm = nn.LayerNorm(inputs, 1e-7)
        self.conv = nn.Conv2d(inputs, outputs, size, size)
        if not before:
            self.norm = nn.LayerNorm(outputs, 1e-7)
        self.before = before

    def forward(self, x: Any) -> Any:
        if self.before:
            return self.conv(self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))
        return self.norm(self.conv(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    """As in cells.py."""

    def __init__(self, widths: tuple[int, ...], depths: tuple[int, ...]) -> None:
        super().__init__()
        layers: list[nn.Module] = [Reduce(3, widths[0], 4, False)]
        for i, (width, depth) in enumerate(zip(widths, depths, strict=True)):
            if i:
                layers.append(Reduce(widths[i - 1], width, 2, True))
            layers += [ConvNextBlock(width) for _ in range(depth)]
        self.layers = nn.Sequential(*layers)
        self.norm, self.head = nn.LayerNorm(widths[-1], 1e-7), nn.Linear(widths[-1], 1000)

    def forward(self, x: Any) -> Any:
        return self.head(self.norm(self.layers(x).mean((2, 3))))


class MixerBlock(nn.Module):
    """As in cells.py."""

    def __init__(self, count: int, tokens: int, width: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, 1e-7)
        self.across = nn.Sequential(nn.Linear(count, tokens), nn.GELU("tanh"),
                                    nn.Linear(tokens, count))
        self.norm2 = nn.LayerNorm(width, 1e-7)
        self.along = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"),
                                   nn.Linear(4 * width, width))

    def forward(self, x: Any) -> Any:
        x = x + self.across(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.along(self.norm2(x))


class Mixer(nn.Module):
    """As in cells.py."""

    def __init__(self, width: int, patch: int, depth: int, tokens: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, patch, patch)
        count = (112 // patch) ** 2
        self.blocks = nn.Sequential(*[MixerBlock(count, tokens, width) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width, 1e-7), nn.Linear(width, 100)

    def forward(self, x: Any) -> Any:
        return self.head(self.norm(self.blocks(self.stem(x).flatten(2).transpose(1, 2))).mean(1))


class EncoderLayer(nn.Module):
    """As in cells.py, through torch's fused attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.norm1 = nn.LayerNorm(width, 1e-7)
        self.wide, self.narrow = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)
        self.norm2 = nn.LayerNorm(width, 1e-7)

    def forward(self, x: Any) -> Any:
        n, t, w = x.shape
        q, k, v = (f(x).view(n, t, self.heads, -1).transpose(1, 2)
                   for f in (self.query, self.key, self.value))
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, t, w)
        x = self.norm1(x + self.out(mixed))
        return self.norm2(x + self.narrow(F.gelu(self.wide(x))))


class Encoder(nn.Module):
    """As in cells.py."""

    def __init__(self, vocabulary: int, context: int, width: int, depth: int, heads: int,
                 **_: Any) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.zeros(context, width))
        self.tokens = nn.Embedding(vocabulary, width)
        self.norm = nn.LayerNorm(width, 1e-7)
        self.layers = nn.Sequential(*[EncoderLayer(width, heads) for _ in range(depth)])

    def forward(self, tokens: Any) -> Any:
        x = self.tokens(tokens) + self.positions[: tokens.shape[1]]
        return self.layers(self.norm(x))


NETWORKS: dict[str, Callable[..., Any]] = {
    "lenet": LeNet5, "mlp": mlp, "resnet18": resnet, "resnet50": resnet, "resnet18_train": resnet,
    "resnet50_train": resnet, "mobilenet": mobilenet, "mobilenet_train": mobilenet,
    "gpt_decoder": GPT, "gpt_train": GPT, "lstm_infer": Sequence, "lstm_train": Sequence,
    "gru": Sequence, "unet": UNet, "unet_train": PixelClasses, "chain": Chain, "chain_grad": Chain,
    "elementwise": Chain, "layernorm": ResidualNorm, "layernorm_grad": ResidualNorm, "vgg": vgg,
    "convnext": ConvNext, "mixer_train": Mixer, "bert": Encoder, "gemm": Product,
    "conv": lambda: nn.Conv2d(64, 64, 3, padding=1, bias=False),
    "tiny": lambda: nn.Sequential(nn.Linear(8, 8), nn.ReLU()),
}


def network(name: str, weights: Any) -> Any:
    """The network of a case with its weights."""
    case = CASES[name]
    net = NETWORKS[case.network or name](**case.sizes)
    with torch.no_grad():
        for parameter, array in zip(net.parameters(), weights, strict=True):
            if tuple(parameter.shape) != array.shape:
                raise ValueError(f"{tuple(parameter.shape)} is not {array.shape}")
            parameter.copy_(torch.from_numpy(array))
    return net if case.kind == "train" else net.to(getattr(torch, case.dtype))
