"""The cases in torch, eager or through torch.compile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from cases import GPT_SIZES, LSTM_SIZES, RESNET_DEPTHS, Data
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


class Basic(nn.Module):
    """A block of ResNet-18."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.shortcut = nn.Identity() if inputs == width else nn.Sequential(
            nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Any) -> Any:
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(out + self.shortcut(x))


def resnet18() -> Any:
    """As samples/resnet.py."""
    def layers() -> Iterator[nn.Module]:
        yield from (nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
                    nn.MaxPool2d(3, 2, 1))
        inputs = 64
        for stage, depth in enumerate(RESNET_DEPTHS):
            for block in range(depth):
                yield Basic(inputs, 64 << stage, 2 if stage > 0 and block == 0 else 1)
                inputs = 64 << stage
        yield from (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))

    return nn.Sequential(*layers())


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

    def __init__(self, vocabulary: int, context: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.zeros(context, width))
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width, 1e-7)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Any) -> Any:
        x = self.tokens(tokens) + self.positions[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).flatten(0, 1)


class Sequence(nn.Module):
    """As samples/lstm.py."""

    def __init__(self, features: int, hidden: int, classes: int, layers: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: Any) -> Any:
        return self.head(self.lstm(x)[0][:, -1])


class Chain(nn.Module):
    """The elementwise case."""

    def forward(self, x: Any) -> Any:
        return torch.tanh(x) * torch.sigmoid(x) + torch.erf(x)


class Product(nn.Module):
    """The matrix product."""

    def forward(self, a: Any, b: Any) -> Any:
        return a @ b


NETWORKS: dict[str, Callable[[], Any]] = {
    "lenet": LeNet5, "mlp": mlp, "chain": Chain, "gemm": Product, "resnet": resnet18,
    "conv": lambda: nn.Conv2d(64, 64, 3, padding=1, bias=False),
    "tiny": lambda: nn.Sequential(nn.Linear(8, 8), nn.ReLU()),
    "gpt": lambda: GPT(**GPT_SIZES), "lstm": lambda: Sequence(**LSTM_SIZES),
}


def build(mode: str, case: str, train: bool, data: Data) -> Callable[[], Any]:
    """One call of a case."""
    torch.set_num_threads(2)
    net = NETWORKS[case]()
    with torch.no_grad():
        for parameter, array in zip(net.parameters(), data.weights, strict=True):
            parameter.copy_(torch.from_numpy(array))
    inputs = [torch.from_numpy(a) for a in data.inputs]
    if train:
        return _step(net, mode, inputs)
    net.eval()
    call = torch.compile(net) if mode == "compile" else net

    def run() -> Any:
        with torch.inference_mode():
            return call(*inputs)

    return run


def _step(net: Any, mode: str, inputs: list[Any]) -> Callable[[], Any]:
    *given, labels = inputs
    labels = labels.long().flatten()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)

    def loss_of(*x: Any) -> Any:
        return F.cross_entropy(net(*x), labels)

    update: Callable[[], Any] = optimizer.step
    if mode == "compile":
        loss_of, update = torch.compile(loss_of), torch.compile(update)

    def run() -> Any:
        optimizer.zero_grad()
        loss = loss_of(*given)
        loss.backward()
        update()
        return loss.item()

    return run
