"""PyTorch's names that are called otherwise here: notes of errors and hints of the compiler, and
names that another module of cellc has."""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any

from cellc_runtime.lazy import imported, no_attribute

ATTRIBUTES = {
    "cuda": "ms.set_context(device_target=...)", "cpu": "x.asnumpy()",
    "detach": "ops.stop_gradient(x)", "requires_grad": "Parameter(..., requires_grad=...)",
    "requires_grad_": "p.requires_grad = False for each p in get_parameters()",
    "backward": "ms.grad or ms.value_and_grad", "forward": "construct",
    "eval": "set_train(False)", "train": "set_train()", "modules": "cells()",
    "parameters": "trainable_params() or get_parameters()",
    "named_parameters": "parameters_and_names()", "step": "optimizer(gradients)",
    "zero_grad": "remove the call: gradients are results of ms.value_and_grad, and do not add up",
}
"""Attributes of tensors, layers and optimizers, and what to write."""
ARGUMENTS = {"bias": "has_bias", "lr": "learning_rate", "groups": "group",
             "in_features": "in_channels", "out_features": "out_channels", "betas": "beta1",
             "input_size": "in_channels", "embedding_dim": "embedding_size",
             "num_embeddings": "vocab_size", "dim": "axis"}
"""Arguments of layers and optimizers."""
_PLAIN = ("the code without it: gradients are recorded only where ms.grad or ms.value_and_grad ask "
          "for them")
_ITERATE = "GeneratorDataset or NumpySlicesDataset of cellc.dataset, and .batch(size)"
NAMES = {
    "Module": "nn.Cell", "ModuleList": "nn.CellList", "ModuleDict": "nn.CellDict",
    "Sequential": "nn.SequentialCell", "Parameter": "ms.Parameter",
    "functional": "cellc.ops or cellc.mint.nn.functional", "optim": "cellc.nn or cellc.mint.optim",
    **dict.fromkeys(("no_grad", "enable_grad", "set_grad_enabled", "inference_mode"), _PLAIN),
    **dict.fromkeys(("DataLoader", "TensorDataset"), _ITERATE),
    "autograd": "ms.grad or ms.value_and_grad", "autocast": "ms.amp.auto_mixed_precision",
    "GradScaler": "ms.amp.DynamicLossScaler", "cuda": "ms.set_context(device_target='GPU')",
    "device": "ms.set_context(device_target=...)", "compile": "ms.jit, or ms.compile_artifact for "
    "a file", "save": "ms.save_checkpoint",
}
"""Names of PyTorch's modules that no module here has, and what to use."""
_PLACES = {"cellc.nn": "nn", "cellc.ops": "ops", "cellc": "ms", "cellc.mint": "cellc.mint",
           **{m: m for m in ("cellc.mint.nn", "cellc.mint.nn.functional", "cellc.mint.optim",
                             "cellc.dataset", "cellc.amp", "cellc.train")}}
"""The modules whose names are looked for, in this order, and how a hint writes them."""


def missing_name(module: str, name: str) -> AttributeError:
    """The error for a name that a public module has not: what to use, or where the name is.

    It loads no module: see `refuse_import`.
    """
    instead = NAMES.get(name, "")
    place = "" if instead or name.startswith("_") else next(
        (f"{shown}.{name}" for path, shown in _PLACES.items()
         if path != module and name in getattr(sys.modules.get(path), "__all__", ())), "")
    return no_attribute(module, name, instead, place)


def refuse_import(path: str) -> None:
    """Fail where `from package import name` will, if there is a hint: Python's own error has none.

    Args:
        path: the package and the name, which is no module that can be found.

    Raises:
        ModuleNotFoundError: the message of `missing_name`. (`from package import name` raises an
            ImportError, `import package.name` a ModuleNotFoundError, which is one too.)
    """
    package, _, name = path.rpartition(".")
    if package not in _PLACES or name.startswith("_"):
        return
    for place in _PLACES:
        imported(place)
    module = sys.modules[package]
    if name in dir(module):
        return
    hint = str(missing_name(package, name)).partition(f" has no attribute {name!r}")[2]
    if hint:
        raise ModuleNotFoundError(f"cannot import name {name!r} from {package!r}{hint}",
                                  name=package, path=module.__file__)


def missing(owner: Any, name: str, text: str) -> AttributeError:
    """The error for an attribute that an object has not, with a note on what to write."""
    error = AttributeError(text)
    error.name, error.obj = name, owner
    if name in ATTRIBUTES:
        error.obj = None  # so that Python does not suggest a similar name beside the hint
        error.add_note(f"hint: {advice(name)}")
    return error


def advice(name: str) -> str:
    """The hint for an attribute of PyTorch."""
    own = ATTRIBUTES[name]
    return own if own.startswith("remove ") else f"write {own}"


def note_argument(error: Exception, made: type) -> None:
    """Note on an error of a constructor how an unknown argument is called here."""
    wrong = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    own = ARGUMENTS.get(wrong.group(1)) if wrong is not None else None
    if own is not None and own in inspect.signature(made).parameters:
        error.add_note(f"hint: here it is {own!r}")
