"""The sample networks at sizes that compile and run quickly."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import cellc as ms

SAMPLES = Path(__file__).parents[2] / "samples"
Array = np.ndarray[Any, Any]

_GPT = {"vocabulary": 40, "context": 12, "width": 32, "depth": 2, "heads": 2}
_TOKENS = {"n": 2, "steps": 10, "vocabulary": 40}
_SEQUENCE = {"n": 3, "steps": 7, "features": 6}
_PLAN = ((1, 8, 1, 1), (3, 12, 2, 2), (3, 16, 1, 2))


@dataclass(frozen=True)
class Sample:
    """A network of `samples/` with small arguments.

    Attributes:
        file, name: where the class is and what it is called.
        size: arguments of the class.
        given: arguments of the file's `make_input` and `make_batch`.
        classes: argument of `make_batch` alone, if it takes it.
    """

    file: str
    name: str
    size: dict[str, Any] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)
    classes: int | None = None

    @property
    def module(self) -> ModuleType:
        """The file, loaded once."""
        return load(self.file)

    def make(self, seed: int = 3) -> Any:
        """The network with weights of a seed."""
        ms.set_seed(seed)
        return getattr(self.module, self.name)(**self.size)

    def input(self) -> tuple[ms.Tensor, ...]:
        """Inputs of the network."""
        return tuple(self.module.make_input(**self.given))

    def batch(self) -> tuple[ms.Tensor, ...]:
        """Inputs of the training step."""
        extra = {} if self.classes is None else {"classes": self.classes}
        return tuple(self.module.make_batch(**self.given, **extra))

    @property
    def train_step(self) -> Callable[[Any], Any]:
        """The file's `train_step`."""
        found: Callable[[Any], Any] = self.module.train_step
        return found


def load(file: str) -> ModuleType:
    """A sample file as a module."""
    name = f"sample_{file}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, SAMPLES / f"{file}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


NETWORKS = {
    "lenet": Sample("lenet", "LeNet5", {}, {"n": 4}),
    "mlp": Sample("mlp", "MLP", {"sizes": (20, 32, 24, 5), "dropout": 0.3},
                  {"n": 6, "features": 20}, 5),
    "resnet18": Sample("resnet", "ResNet18", {"classes": 6, "width": 8}, {"n": 2, "size": 32}, 6),
    "resnet50": Sample("resnet", "ResNet50", {"classes": 6, "width": 8}, {"n": 2, "size": 32}, 6),
    "lstm": Sample("lstm", "LSTMClassifier",
                   {"features": 6, "hidden": 10, "classes": 4, "dropout": 0.3}, _SEQUENCE, 4),
    "gpt": Sample("gpt", "GPT", _GPT | {"dropout": 0.2}, _TOKENS),
    "unet": Sample("unet", "UNet", {"width": 4, "depth": 2}, {"n": 2, "size": 16}, 2),
    "mobilenet": Sample("mobilenet", "MobileNetV2",
                        {"classes": 6, "plan": _PLAN, "last": 24, "dropout": 0.2},
                        {"n": 2, "size": 32}, 6),
}
