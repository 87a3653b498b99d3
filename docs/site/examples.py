"""Short examples of the API reference: calls that are run while the page is made.

A row of calls/*.txt is a name and its call; statements before the call end with "; ". The file is
named after the first part of the name, and calls/cellc.txt has the names of `cellc` itself.
Functions and Primitive classes that take tensors only are called with small ones, if they accept
these and the result is short.
"""

from __future__ import annotations

import inspect
import io
import re
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

import cellc as ms
from cellc import mint, nn, ops
from cellc import numpy as mnp

MOST_LINES, MOST_COLUMNS = 8, 84
X, Y = "ms.Tensor([[1.0, -2.0], [0.5, 3.0]])", "ms.Tensor([[2.0, 1.0], [-1.0, 0.5]])"
UNIT = "ms.Tensor([[0.1, 0.9], [0.5, 0.3]])"
INTS, MORE_INTS = "ms.Tensor([[1, 2], [3, 4]])", "ms.Tensor([[5, 3], [2, 1]])"
BOOLS, MORE_BOOLS = "ms.Tensor([True, False])", "ms.Tensor([True, True])"
TRIED = ((X, Y), (UNIT, UNIT), (INTS, MORE_INTS), (BOOLS, MORE_BOOLS))
"""The operands that are tried, in order."""
PLACES = {"ops": "ops", "mint": "mint", "numpy": "mnp", "mint.nn.functional": "mint.nn.functional",
          "mint.special": "mint.special", "nn": "nn", "mint.nn": "mint.nn", "mint.linalg":
          "mint.linalg"}
LEFT_OUT = re.compile(
    r".*(rand|dropout|normal|uniform|bernoulli|multinomial|gamma|poisson|laplace|shuffle|empty"
    r"|distributed|gather_into|all_reduce|barrier|broadcast_gradient|print|load|save|dump|summary"
    r"|register|regop|stop_gradient|depend|py_func|seed|generator|rrelu|hinge|margin|focal"
    r"|gradreducer|lbeta).*|.*_", re.I)
"""Draws (other numbers each time), names with effects, changes in place, labels of one kind."""
OF_PROBABILITIES = re.compile(r"BCELoss|KLDiv|.*Dice")
SHAPES = {"0": "2", "1": "2, 8", "2": "2, 8, 8", "3": "2, 8, 8, 8"}
"""Shapes of inputs by the number in a layer's name."""

CALLS = dict(row.split(": ", 1) for path in sorted(Path(__file__).with_name("calls").glob("*.txt"))
             for row in path.read_text(encoding="utf-8").splitlines())
"""The call of a name, by place and name."""

NAMESPACE: dict[str, Any] = {"ms": ms, "nn": nn, "ops": ops, "mint": mint, "mnp": mnp, "np": np}


def example(place: str, name: str, value: Any) -> str:
    """The call of a name and what it gives; "" if there is none."""
    call = CALLS.get(f"{place}.{name}" if place else name)
    if call is not None:
        shown = _run(call)
        if shown is None:
            raise ValueError(f"the example of {place}.{name} does not run: {call}")
        lines = "\n".join(f">>> {line}" for line in call.split("; "))
        return lines + (f"\n{shown}" if shown != "None" else "")
    method = place == "Tensor"
    if (place not in PLACES and not method) or LEFT_OUT.fullmatch(name):
        return ""
    made = name if method else f"{PLACES[place]}.{name}"
    count = _operands(value)
    if isinstance(value, type):
        if _required(value) != 0:
            return _layer(made) if issubclass(value, nn.Cell) else ""
        made += "()"
        if issubclass(value, nn.Cell):  # a loss takes two
            given = TRIED[1] if OF_PROBABILITIES.match(name) else TRIED[0]
            found = (f"{made}({', '.join(given[:n])})" for n in (1, 2))
            return next((f">>> {call}\n{text}" for call in found if (text := _run(call))), "")
    for operands in TRIED:
        if 1 <= count <= 2:
            call = f"{operands[0]}.{made}({operands[1] if count == 2 else ''})" if method else \
                f"{made}({', '.join(operands[:count])})"
            shown = _run(call)
            if shown is not None and "None" not in shown:
                return f">>> {call}\n{shown}"
    return ""


def _layer(made: str) -> str:
    """The shape that a layer gives for channels, lengths or windows of two or three."""
    sizes = re.search(r"([123])d(Ext)?$", made)
    for given in ("2", "2, 3", "2, 3, 3", "(2,)", "2, 2", "(1, 2)"):
        for shape in ([SHAPES[sizes[1]]] if sizes else SHAPES.values()):
            call = f"{made}({given})(ops.ones((1, {shape}))).shape"
            shown = _run(call)
            if shown is not None:
                return f">>> {call}\n{shown}"
    return ""


def _required(value: Any) -> int:
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return -1
    return sum(p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
               for p in parameters if p.name != "self")


def _operands(value: Any) -> int:
    """How many operands a call has to give."""
    if not isinstance(value, type):
        return _required(value)
    function = value.__dict__.get("function")
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None:
        return 0
    return int(code.co_argcount) - len(function.__func__.__defaults__ or ())


def _run(call: str) -> str | None:
    """What a call gives, as text; None if it fails or says too much."""
    said = io.StringIO()
    try:
        with warnings.catch_warnings(), redirect_stdout(said), redirect_stderr(said):
            warnings.simplefilter("error")
            *first, last = call.split("; ")
            names = {**NAMESPACE, "__source__": call}
            for line in first:
                exec(line, names)
            result = eval(last, names)
            text = _shown(result)
    except Exception:  # it takes something else: other operands are tried
        return None
    lines = text.splitlines()
    fits = len(lines) <= MOST_LINES and all(len(line) <= MOST_COLUMNS for line in lines)
    wrong = re.search(r" at 0x|\bnan\b|\binf\b", text) or said.getvalue()
    return text if fits and not wrong else None


def _shown(result: Any) -> str:
    if isinstance(result, (tuple, list)) and any(isinstance(r, ms.Tensor) for r in result):
        return "\n".join(map(_shown, result))
    return str(result)
