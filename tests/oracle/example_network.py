"""The network and the data that MindSpore's examples of training speak of without defining them.

Their text refers to a file on the web for `LeNet5` and `create_dataset`. These are a network of
that name and a small data set of the same shape, for either provider of `mindspore`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from mindspore import nn, ops
from mindspore.common.initializer import Normal


class LeNet5(nn.Cell):
    """Two convolutions and three dense layers for images of 32 x 32."""

    def __init__(self, num_class: int = 10, num_channel: int = 1, include_top: bool = True):
        super().__init__()
        self.conv1 = nn.Conv2d(num_channel, 6, 5, pad_mode="valid")
        self.conv2 = nn.Conv2d(6, 16, 5, pad_mode="valid")
        self.relu = nn.ReLU()
        self.max_pool2d = nn.MaxPool2d(kernel_size=2, stride=2)
        self.flatten = nn.Flatten()
        self.fc1 = nn.Dense(16 * 5 * 5, 120, weight_init=Normal(0.02))
        self.fc2 = nn.Dense(120, 84, weight_init=Normal(0.02))
        self.fc3 = nn.Dense(84, num_class, weight_init=Normal(0.02))

    def construct(self, x):
        x = self.max_pool2d(self.relu(self.conv1(x)))
        x = self.max_pool2d(self.relu(self.conv2(x)))
        x = self.relu(self.fc1(self.flatten(x)))
        return self.fc3(self.relu(self.fc2(x)))


class Net(nn.Cell):
    """What examples call `Net` where they define none: a dense layer."""

    def __init__(self, in_features: int = 64, out_features: int = 10):
        super().__init__()
        self.dense = nn.Dense(in_features, out_features)
        self.relu = ops.ReLU()

    def construct(self, x):
        return self.relu(self.dense(x))


class _Rows:
    """Batches as MindSpore's data sets give them, for a provider without `mindspore.dataset`."""

    def __init__(self, batches: list[tuple[Any, ...]]):
        self._batches = batches

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._batches)

    def get_dataset_size(self) -> int:
        return len(self._batches)

    def get_batch_size(self) -> int:
        return len(self._batches[0][0])

    def create_tuple_iterator(self, num_epochs: int = -1, output_numpy: bool = False) -> Any:
        from mindspore import Tensor

        return ((tuple(Tensor(a) for a in b)) for b in self._batches)

    def create_dict_iterator(self, num_epochs: int = -1, output_numpy: bool = False) -> Any:
        rows = self.create_tuple_iterator()
        return ({"image": image, "label": label} for image, label in rows)


def create_dataset(*args: Any, **kwargs: Any) -> Any:
    """Four batches of eight images of 32 x 32 with labels."""
    r = np.random.RandomState(0)
    images = r.randn(32, 1, 32, 32).astype(np.float32)
    labels = r.randint(0, 10, 32).astype(np.int32)
    try:
        ds = importlib.import_module("mindspore.dataset")
    except ImportError:
        return _Rows([(images[i:i + 8], labels[i:i + 8]) for i in range(0, 32, 8)])
    rows = ds.NumpySlicesDataset((images, labels), ["image", "label"], shuffle=False)
    return rows.batch(8)
