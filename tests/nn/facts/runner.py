"""Runs the facts of a subject and writes what they give as JSON can hold it."""

from __future__ import annotations

import importlib
import inspect
import json
import math
import re
import sys
import types
from typing import Any

from .target import Parameter, Tensor, attempt, ms

MODES = {"graph": ms.GRAPH_MODE, "pynative": ms.PYNATIVE_MODE}


def describe(value: Any) -> Any:
    """A value as JSON can hold it: tuples and lists are told apart, dicts keep their order."""
    match value:
        case None | bool() | int():
            return value
        case float():
            return float(f"{value:.5g}") if math.isfinite(value) else str(value)
        case str():
            text = value.replace("mindspore", "cellc")
            return re.sub(r"0x[0-9a-f]+", "0x", text)
        case tuple():
            return ["tuple", *map(describe, value)]
        case list():
            return ["list", *map(describe, value)]
        case dict():
            return {"dict": [[describe(k), describe(v)] for k, v in value.items()]}
        case _ if isinstance(value, Parameter):
            return {"Parameter": [value.name, str(value.dtype), list(value.shape),
                                  _rounded(value.asnumpy().tolist()), value.requires_grad]}
        case _ if isinstance(value, Tensor):
            wide = value.astype(ms.float32) if value.dtype == ms.bfloat16 else value
            elements: Any = wide.asnumpy().tolist()
            return {"Tensor": [str(value.dtype), list(value.shape), _rounded(elements)]}
        case type():
            return f"<class {value.__name__}>"
    if type(value).__module__.endswith("typing") or isinstance(value, type(ms.float32)):
        return str(value)
    return f"<{type(value).__name__}>"


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(v) for v in value]
    return describe(value) if isinstance(value, (float, int)) else str(value)


def cases(subject: str) -> dict[str, types.FunctionType]:
    """The facts of a subject, in the order of their file."""
    module = importlib.import_module(f"{__package__}.{subject}")
    return {
        name: f for name, f in vars(module).items()
        if inspect.isfunction(f) and f.__module__ == module.__name__ and not name.startswith("_")
    }


def run(case: types.FunctionType, mode: str) -> Any:
    """What a fact gives in a mode."""
    before = ms.get_context("mode")
    ms.set_context(mode=MODES[mode])
    try:
        return json.loads(json.dumps(describe(attempt(case))))
    finally:
        ms.set_context(mode=before)


def main(subject: str, *only: str) -> None:
    """Print one line of JSON for each fact: its name and what it gives in each mode.

    Args:
        only: names of facts; `-name` leaves one out.
    """
    for name, case in cases(subject).items():
        if f"-{name}" in only or (only and name not in only and not only[0].startswith("-")):
            continue
        print(f"START {name}", flush=True)
        found = {mode: run(case, mode) for mode in MODES}
        print("FACT " + json.dumps([name, found]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
