"""PyTorch's names that are called otherwise here: notes of errors and hints of the compiler."""

from __future__ import annotations

import inspect
import re
from typing import Any

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
             "num_embeddings": "vocab_size"}
"""Arguments of layers and optimizers."""


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
