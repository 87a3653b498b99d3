"""Short examples of the API reference: calls that are run while the page is made.

A row of `CALLS` and of calls.txt is the call of a name; statements before it end with "; ".
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

CALLS: dict[str, str] = {
    "nn.Dense": "nn.Dense(2, 3, weight_init='ones', bias_init='zeros')(ms.Tensor([[1.0, 2.0]]))",
    "nn.Conv2d": "nn.Conv2d(3, 8, 3)(ops.ones((1, 3, 32, 32))).shape",
    "nn.Conv1d": "nn.Conv1d(3, 8, 3)(ops.ones((1, 3, 32))).shape",
    "nn.Conv3d": "nn.Conv3d(3, 8, 3)(ops.ones((1, 3, 8, 8, 8))).shape",
    "nn.Conv2dTranspose": "nn.Conv2dTranspose(8, 3, 2, 2)(ops.ones((1, 8, 16, 16))).shape",
    "nn.BatchNorm2d": "nn.BatchNorm2d(3)(ops.ones((1, 3, 2, 2)))[0, 0]",
    "nn.LayerNorm": "nn.LayerNorm((2,))(ms.Tensor([[1.0, 3.0]]))",
    "nn.GroupNorm": "nn.GroupNorm(2, 4)(ops.ones((1, 4, 8, 8))).shape",
    "nn.Embedding": "nn.Embedding(10, 4)(ms.Tensor([[1, 2, 3]])).shape",
    "nn.LSTM": "nn.LSTM(8, 16)(ops.ones((5, 2, 8)))[0].shape",
    "nn.GRU": "nn.GRU(8, 16)(ops.ones((5, 2, 8)))[0].shape",
    "nn.RNN": "nn.RNN(8, 16)(ops.ones((5, 2, 8)))[0].shape",
    "nn.MaxPool2d": "nn.MaxPool2d(2, 2)(ops.ones((1, 3, 8, 8))).shape",
    "nn.AvgPool1d": "nn.AvgPool1d(2, 2)(ops.ones((1, 3, 8))).shape",
    "nn.MaxPool1d": "nn.MaxPool1d(2, 2)(ops.ones((1, 3, 8))).shape",
    "nn.AvgPool2d": "nn.AvgPool2d(2, 2)(ops.ones((1, 3, 8, 8))).shape",
    "nn.MultiheadAttention":
        "nn.MultiheadAttention(8, 2)(*[ops.ones((4, 1, 8))] * 3)[0].shape",
    "nn.SequentialCell": "nn.SequentialCell(nn.Dense(4, 8), nn.ReLU())(ops.ones((2, 4))).shape",
    "nn.SoftmaxCrossEntropyWithLogits":
        "nn.SoftmaxCrossEntropyWithLogits(sparse=True)(ms.Tensor([[2.0, 1.0]]), "
        "ms.Tensor([0], ms.int32))",
    "nn.CrossEntropyLoss":
        "nn.CrossEntropyLoss()(ms.Tensor([[2.0, 1.0]]), ms.Tensor([0], ms.int32))",
    "ops.conv2d": "ops.conv2d(ops.ones((1, 1, 4, 4)), ops.ones((1, 1, 3, 3)))[0, 0]",
    "ops.one_hot": "ops.one_hot(ms.Tensor([0, 2]), 3, ms.Tensor(1.0), ms.Tensor(0.0))",
    "ops.topk": "ops.topk(ms.Tensor([3.0, 1.0, 2.0]), 2)",
    "ops.reshape": "ops.reshape(ops.arange(6), (2, 3))",
    "ops.transpose": "ops.transpose(ms.Tensor([[1, 2], [3, 4]]), (1, 0))",
    "ops.concat": "ops.concat((ms.Tensor([1, 2]), ms.Tensor([3])))",
    "ops.stack": "ops.stack((ms.Tensor([1, 2]), ms.Tensor([3, 4])))",
    "ops.gather": "ops.gather(ms.Tensor([10, 20, 30]), ms.Tensor([2, 0]), 0)",
    "ops.scan": "ops.scan(lambda s, x: (s + x, s * x), ms.Tensor(0.0), ms.Tensor([1.0, 2.0]))",
    "ops.where": "ops.where(ms.Tensor([True, False]), ms.Tensor([1, 2]), ms.Tensor([8, 9]))",
    "grad": "ms.grad(lambda x: (x ** 2).sum())(ms.Tensor([1.0, 3.0]))",
    "value_and_grad": "ms.value_and_grad(lambda x: (x ** 2).sum())(ms.Tensor([1.0, 3.0]))",
    "vmap": "ms.vmap(lambda x: x.sum())(ms.Tensor([[1.0, 2.0], [3.0, 4.0]]))",
    "jacrev": "ms.jacrev(lambda x: x ** 2)(ms.Tensor([1.0, 3.0]))",
    "jacfwd": "ms.jacfwd(lambda x: x ** 2)(ms.Tensor([1.0, 3.0]))",
    "Tensor": "ms.Tensor([[1, 2], [3, 4]], ms.float32)",
    "set_seed": "ms.set_seed(1)",
}
"""The call of a name, by place and name."""
CALLS |= dict(line.split(": ", 1) for line in Path(__file__).with_name("calls.txt").read_text(
    encoding="utf-8").splitlines())

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
