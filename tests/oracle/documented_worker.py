"""Reads the examples of `mindspore.mint` with what its text says they print, or runs them.

    ORACLE-PYTHON documented_worker.py extract EXAMPLES.json
    python documented_worker.py run EXAMPLES.json RESULTS.json      (with cellc)

Most of `mint` does not run on MindSpore's CPU, so its text is what there is to compare with.
Standard library only at the top, since it runs in both installations.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import inspect
import io
import json
import re
import sys
from typing import Any

SCOPES = ("mint", "mint.nn", "mint.nn.functional", "mint.optim", "mint.special", "mint.linalg")
# The examples call functions and layers by inner names; those of `mint` are meant.
INNER = re.compile(
    r"(?<![\w.])(?:mindspore\.|ms\.)?ops\.(?:function\.\w+\.|auto_generate\.|extend\.|"
    r"functional_overload\.|nn\.functional\.)?(\w+)(?=\()")
LAYER = re.compile(r"(?<![\w.])(?:mindspore\.|ms\.)?(?:mint\.)?nn\.(?:layer\.\w+\.)?(\w+)(?=\()")


def extract() -> dict[str, list[tuple[str, str]]]:
    """Source and output of each statement, by the name of `mint` that documents it."""
    found: dict[str, list[tuple[str, str]]] = {}
    for scope in SCOPES:
        module = importlib.import_module("mindspore." + scope)
        for name in sorted(set(getattr(module, "__all__", ()))):
            value = getattr(module, name, None)
            if value is None or inspect.ismodule(value):
                continue
            try:
                examples = doctest.DocTestParser().get_examples(value.__doc__ or "")
            except ValueError:  # a malformed docstring
                continue
            rows = [(e.source, e.want) for e in examples]
            if rows and rows not in found.values():
                found[f"{scope}.{name}"] = rows
    return found


def by_outer_name(source: str, name: str) -> str:
    """A statement with the documented name where an inner one of it is called."""
    short = name.split(".")[-1]

    def function(m: re.Match[str]) -> str:
        inner = m.group(1)
        base = re.sub(r"(_ext_view|_ext|_view)$", "", inner)
        own = short in (base, inner) or inner in (f"linalg_{short}", f"inplace_{short[:-1]}")
        return "mindspore." + name if own else m.group(0)

    def layer(m: re.Match[str]) -> str:
        own = m.group(1).removesuffix("Ext") == short and "functional" not in name
        return "mindspore." + name if own else m.group(0)

    return LAYER.sub(layer, INNER.sub(function, source))


def run(examples: dict[str, list[list[str]]]) -> dict[str, list[Any]]:
    """[output and text's output of each statement that has one], then the error that ended it."""
    import numpy as np

    importlib.import_module("cellc.shim").install()
    ms: Any = importlib.import_module("mindspore")
    results: dict[str, list[Any]] = {}
    for name, rows in examples.items():
        ms.set_context(mode=ms.PYNATIVE_MODE)
        ms.set_seed(1)
        np.random.seed(0)
        space = {"__name__": "__main__", "mindspore": ms, "np": np, "mint": ms.mint,
                 "Tensor": ms.Tensor, "ops": ms.ops}
        shown, error = [], ""
        for source, want in rows:
            out = io.StringIO()
            try:
                tree = ast.Interactive(ast.parse(by_outer_name(source, name)).body)
                with contextlib.redirect_stdout(out):
                    exec(compile(tree, "<example>", "single"), space)
            except Exception as e:
                error = f"{type(e).__name__}: {e}"
                break
            if want.strip():
                shown.append([want, out.getvalue()])
        results[name] = [shown, error]
    return results


if __name__ == "__main__":
    if sys.argv[1] == "extract":
        with open(sys.argv[2], "w", encoding="utf-8") as f:
            json.dump(extract(), f)
    else:
        with open(sys.argv[2], encoding="utf-8") as f:
            given = json.load(f)
        with open(sys.argv[3], "w", encoding="utf-8") as f:
            json.dump(run(given), f)
