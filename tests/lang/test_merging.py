"""What a variable holds behind a condition of the run whose sides leave different things in it, or
nothing: as in Python, or the error that is recorded in `merging.json` (written anew by `python -m
tests.lang.test_merging`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor

from ..bad_input.recorded import Answers, answered, check, write

_UNPLACED = re.compile(r" at line \d+")
GOLDEN = Path(__file__).with_name("merging.json")


def tensor(x: Any) -> Any:
    return x + 1


def wide(x: Any) -> Any:
    return x.reshape(2, 1)


def whole(x: Any) -> Any:
    return x.astype(ms.int32)


def text(x: Any) -> Any:
    return "one"


def nothing(x: Any) -> Any:
    return None


def pair(x: Any) -> Any:
    return x, 2.0


def other_pair(x: Any) -> Any:
    return x * 2, 3.0


def listed(x: Any) -> Any:
    return [x, x * 3]


def table(x: Any) -> Any:
    return {"a": x, "b": {"c": x, "d": 1.0}}


def other_table(x: Any) -> Any:
    return {"a": x * 2, "b": {"c": x, "d": x}}


def third_table(x: Any) -> Any:
    return {"a": x * 2, "b": {"c": x * 5, "e": 1.0}}


def fourth_table(x: Any) -> Any:
    return {"a": (x, x), "b": {"c": x * 5, "d": 1.0}}


PAIRS = [(table, table), (table, other_table), (table, third_table), (table, fourth_table),
         (pair, other_pair), (pair, listed), (tensor, wide), (tensor, whole), (tensor, nothing)]
FEW = [(table, third_table), (tensor, text), (tensor, tensor)]


def either(a: Any, b: Any) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        if x[0] > 0:
            s = a(x)
        else:
            s = b(x)
        return s

    return function


def one_side(a: Any, b: Any) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        if x[0] > 0:
            s = a(x)
        if x[1] > 0:
            s = b(x)
        return s

    return function


def until(a: Any, b: Any) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        s = a(x)
        for v in x:
            if v > 0:
                s = b(v)
                t = v
                break
        else:
            t = x[0] * 2
        return s, t

    return function


def left(a: Any, b: Any) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        for v in x:
            if v > 0:
                t = a(v)
                continue
            t = b(v)
            if v < -1:
                return t
        return t

    return function


def shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{value.dtype}{value.shape}{value.asnumpy().tolist()}"
    if isinstance(value, dict):
        return str({k: shown(v) for k, v in value.items()})
    if isinstance(value, tuple | list):
        return f"{type(value).__name__}{[shown(v) for v in value]}"
    return repr(value)


INPUTS = [Tensor(np.float32(v)) for v in ([1, -2], [-1, 2], [-1, -2], [1, 2])]
FORMS = {"either": either, "one side": one_side, "until": until, "left": left}


def questions(form: str) -> Answers:
    """Of some pairs of kinds; where both ways give results, they are the same."""
    ms.set_context(mode=ms.GRAPH_MODE)
    for a, b in PAIRS if form == "either" else FEW:
        function = FORMS[form](a, b)
        compiled = ms.jit(function)
        for x in INPUTS[: 2 if form == "either" else 4]:
            plain = answered(partial(_shown_result, function, x))
            found = answered(partial(_shown_result, compiled, x))
            asked = f"{form} {a.__name__} {b.__name__} of {x.asnumpy().tolist()}"
            if "Error" in found.partition(":")[0]:
                yield asked, f"{_UNPLACED.sub('', found.splitlines()[0])} (Python: {plain})"
                break  # (one that is not compiled is told so for every input)
            assert found == plain, (asked, found, plain)
            yield asked, found


def _shown_result(function: Callable[[Any], Any], x: Tensor) -> str:
    return shown(function(x))


@pytest.mark.parametrize("form", FORMS)
def test_as_python_or_as_recorded(form: str) -> None:
    check(GOLDEN, form, questions(form))


if __name__ == "__main__":
    write(GOLDEN, {form: questions(form) for form in FORMS})
