"""`mindspore` provided by cellc: existing scripts run unchanged.

A finder at the front of `sys.meta_path` answers imports of `mindspore` and its submodules with
the modules of cellc of the same path. A submodule that cellc has not is an ImportError that
says so.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

_PREFIX = "mindspore"
_ELSEWHERE = {
    "dataset.core.config": "dataset.config", "dataset.engine": "dataset",
    "dataset.engine.datasets": "dataset", "dataset.engine.samplers": "dataset.samplers",
    "dataset.transforms.transforms": "dataset.transforms",
    "dataset.vision.transforms": "dataset.vision", "dataset.vision.utils": "dataset.vision",
    "nn.layer.channel_shuffle": "nn.layer.basic", "nn.layer.dense": "nn.layer.basic",
    "nn.layer.rnn_cells": "nn.layer.rnn", "nn.layer.rnns": "nn.layer.rnn",
    "nn.metrics": "train.metrics",
    "nn.optim.ada_grad": "nn.optim.adagrad", "nn.optim.adadelta": "nn.optim.adagrad",
    "nn.optim.adamax": "nn.optim.adam", "nn.optim.asgd": "nn.optim.rprop",
    "nn.optim.ftrl": "nn.optim.adagrad", "nn.optim.lamb": "nn.optim.adam",
    "nn.optim.lazyadam": "nn.optim.adam", "nn.optim.momentum": "nn.optim.sgd",
    "nn.optim.proximal_ada_grad": "nn.optim.adagrad", "nn.optim.rmsprop": "nn.optim.adagrad",
    "nn.utils.init": "nn.utils",
    "nn.wrap.cell_wrapper": "nn.wrap", "nn.wrap.grad_reducer": "nn.micro_batch",
    "nn.wrap.loss_scale": "nn.loss_scale",
}
"""Modules of MindSpore whose contents have another home here."""


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Answer for `mindspore` and what is below it."""
        if fullname != _PREFIX and not fullname.startswith(_PREFIX + "."):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """The module of cellc that stands for it."""
        path = spec.name[len(_PREFIX) + 1 :]
        path = _ELSEWHERE.get(path, path)
        name = f"cellc.{path}" if path else "cellc"
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as e:
            raise ModuleNotFoundError(
                f"cellc provides no {spec.name!r} (it stands for mindspore here)", name=spec.name
            ) from e

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: the module has run under its own name."""


def install() -> None:
    """Provide `mindspore` from now on, in this process."""
    if not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
