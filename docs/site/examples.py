"""Short examples of the API reference: calls that are run while the page is made.

A row of calls/*.txt is a name and its call (rows.py says how it is written). The file is named
after the first parts of the name, and calls/cellc.txt has the names of `cellc` itself.

Without a row, the example follows from that of another name (`derived`), or functions and Primitive
classes that take tensors only are called with small ones, if they accept these and the result is
short.
"""

from __future__ import annotations

import inspect
import io
import re
import textwrap
import warnings
from collections.abc import Collection, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from itertools import chain
from typing import Any

import derived
from rows import CALLS, MOST_COLUMNS, MOST_LINES, NAMESPACE, as_text, row_of, show

import cellc as ms
from cellc import nn

X, Y = "ms.Tensor([[1.0, -2.0], [0.5, 3.0]])", "ms.Tensor([[2.0, 1.0], [-1.0, 0.5]])"
UNIT = "ms.Tensor([[0.1, 0.9], [0.5, 0.3]])"
INTS, MORE_INTS = "ms.Tensor([[1, 2], [3, 4]])", "ms.Tensor([[5, 3], [2, 1]])"
BOOLS, MORE_BOOLS = "ms.Tensor([True, False])", "ms.Tensor([True, True])"
TRIED = ((X, Y), (UNIT, UNIT), (INTS, MORE_INTS), (BOOLS, MORE_BOOLS))
"""The operands that are tried, in order."""
PLACES = {"ops": "ops", "mint": "mint", "numpy": "mnp", "mint.nn.functional": "mint.nn.functional",
          "mint.special": "mint.special", "nn": "nn", "mint.nn": "mint.nn", "mint.linalg":
          "mint.linalg", "mint.distributed": "mint.distributed", "Tensor": "Tensor"}
"""How a call names the places whose examples follow from others or are tried."""
NOT_TRIED = ("mint.distributed",)
LEFT_OUT = re.compile(
    r".*(rand|dropout|normal|uniform|bernoulli|multinomial|gamma|poisson|laplace|shuffle|empty"
    r"|distributed|gather_into|all_reduce|barrier|broadcast_gradient|print|load|save|dump|summary"
    r"|register|regop|stop_gradient|depend|py_func|seed|generator|rrelu|hinge|margin|focal"
    r"|gradreducer|lbeta).*|.*_", re.I)
"""Draws (other numbers each time), names with effects, changes in place, labels of one kind."""
OF_PROBABILITIES = re.compile(r"BCELoss|KLDiv|.*Dice")
SHAPES = {"0": "2", "1": "2, 8", "2": "2, 8, 8", "3": "2, 8, 8, 8"}
"""Shapes of inputs by the number in a layer's name."""


def example(place: str, name: str, value: Any) -> str:
    """The call of a name and its result; "" if there is none."""
    key = f"{place}.{name}" if place else name
    row = row_of(key, value)
    if row is not None:
        try:
            return show(row)
        except ValueError as error:
            raise ValueError(f"the example of {key} does not run: {row}: {error}") from error
    call, shown = find(place, name, value)
    lines = "\n".join(f">>> {line}" for line in call.removeprefix("!").split("; ") if line)
    return lines + (f"\n{shown}" if shown != "None" and lines else "")


def find(place: str, name: str, value: Any) -> tuple[str, str]:
    """The call that shows a name, and its result: its row, one that follows from another row, or
    a tried one."""
    key = f"{place}.{name}" if place else name
    if row := CALLS.get(key):
        shown = run(row, True)
        if shown is None:
            raise ValueError(f"the example of {key} does not run: {row}")
        return row, shown
    found = ((call, shown) for call in _derived(place, name, value)
             if (shown := run(call, True)) is not None)
    plain = ((call, shown) for call in _tried(place, name, value)
             if (shown := run(call)) is not None and "None" not in shown)
    return next(chain(found, plain), ("", ""))


def _derived(place: str, name: str, value: Any) -> Iterator[str]:
    """The calls that follow from rows."""
    if place == "ops":
        yield from derived.of_absent(name, value)
        if isinstance(value, type):
            yield from (call for call, like in derived.of_primitive(name, value, CALLS)
                        if run(call, True) == run(like, True))
    if place in PLACES:
        yield from derived.of_other_places(place, name, CALLS, PLACES)


def _tried(place: str, name: str, value: Any) -> Iterator[str]:
    """Calls with small operands."""
    method = place == "Tensor"
    if method and name.endswith("_"):
        yield from _tried_in_place(name)
    if place not in PLACES or place in NOT_TRIED or LEFT_OUT.fullmatch(name):
        return
    if place == "ops":
        yield from derived.of_sparse(name)
    made = name if method else f"{PLACES[place]}.{name}"
    count = _operands(value) + (method and "self" in _parameters(value))
    if isinstance(value, type):
        if _required(value) != 0:
            yield from _layers(made) if issubclass(value, nn.Cell) else ()
            return
        made += "()"
        if issubclass(value, nn.Cell):  # a loss takes two
            given = TRIED[1] if OF_PROBABILITIES.match(name) else TRIED[0]
            yield from (f"{made}({', '.join(given[:n])})" for n in (1, 2))
            return
    for operands in TRIED if 1 <= count <= 2 else ():
        yield f"{operands[0]}.{made}({operands[1] if count == 2 else ''})" if method else \
            f"{made}({', '.join(operands[:count])})"


def _tried_in_place(name: str) -> Iterator[str]:
    """Calls of a method that changes its tensor, by those of the method that does not."""
    plain = getattr(ms.Tensor, name[:-1], None)
    call = find("Tensor", name[:-1], plain)[0] if plain is not None else ""
    if call:
        yield from derived.in_place(name, call)


def _parameters(value: Any) -> Collection[str]:
    try:
        return inspect.signature(value).parameters
    except (TypeError, ValueError):
        return ()


def _layers(made: str) -> Iterator[str]:
    """Calls of a layer for channels, lengths or windows of two or three: the shape."""
    sizes = re.search(r"([123])d(Ext)?$", made)
    for given in ("2", "2, 3", "2, 3, 3", "(2,)", "2, 2", "(1, 2)"):
        for shape in ([SHAPES[sizes[1]]] if sizes else SHAPES.values()):
            yield f"{made}({given})(ops.ones((1, {shape}))).shape"


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


@cache
def run(call: str, written: bool = False) -> str | None:
    """The result of a call as text; None if it fails or is too long.

    Args:
        call: statements and an expression; one that begins with "!" must raise an error, which is
            the result.
        written: somebody wrote it, or a call that it follows from: it may print, warn and give
            what is no number.
    """
    said = io.StringIO()
    try:
        with warnings.catch_warnings(), redirect_stdout(said), redirect_stderr(said):
            warnings.simplefilter("ignore" if written else "error")
            text = _raised(call[1:]) if call[0] == "!" else as_text(_evaluated(call))
    except Exception:  # it takes something else: other operands are tried
        return None
    if written:
        text = said.getvalue() + text
    lines = text.splitlines()
    fits = len(lines) <= MOST_LINES and all(len(line) <= MOST_COLUMNS for line in lines)
    wrong = re.search(r" at 0x", text) or (not written and (
        re.search(r"\bnan\b|\binf\b", text) or said.getvalue()))
    return text if fits and not wrong else None


def _evaluated(call: str) -> Any:
    *first, last = call.split("; ")
    names = {**NAMESPACE, "__source__": call}
    for line in first:
        exec(line, names)
    return eval(last, names)


def _raised(call: str) -> str:
    """The last line of the traceback of a call."""
    try:
        _evaluated(call)
    except Exception as error:
        line = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
        return textwrap.fill(line, MOST_COLUMNS, break_long_words=False)
    raise AssertionError(f"{call} raises nothing")
