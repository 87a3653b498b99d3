"""Hints for common errors, the same in both modes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from . import other_names
from .module_names import plain

_TO_INT = "convert it: x.astype(ms.int32)"
_MAKE = "make one before the call: ms.Tensor(value)"
_ADVICE: tuple[tuple[type[Exception], str, str], ...] = (
    (TypeError, r"got NoneType|'NoneType' (and|object is not)|and 'NoneType'",
     "it is None: does a function end without return?"),
    (AttributeError, r"'NoneType' object", "it is None: does a function end without return?"),
    (ValueError, r"cannot be broadcast|cannot be written to a part",
     "make the lengths equal, or 1, by reshape, expand_dims or a slice"),
    (ValueError, r"For '(matmul|bmm|dense)'",
     "transpose or reshape one of them (x.T, swapaxes), or mend the size of the layer"),
    (ValueError, r"For 'conv\w*', ('input'|the input) must have",
     "give the input its batch axis: x[None]"),
    (ValueError, r"input channels", "the first argument of the layer is the number of channels"),
    (ValueError, r"concat along axis", "slice, pad or reshape them, or join along another axis"),
    (ValueError, r"stack needs tensors", "ops.cat joins tensors of different lengths"),
    (ValueError, r"is invalid for input of size",
     "give a shape of as many elements; one length may be -1"),
    (ValueError, r"only one dimension can be inferred", "write -1 once"),
    (ValueError, r"'dims' must (be distinct|name all)", "name each axis once, as in (1, 0)"),
    (ValueError, r"'(axis|dim|dims)' must be in", "axes count from 0, or from -1 at the end"),
    (ValueError, r"shape .* of a mask", "a mask has the lengths of the first axes"),
    (ValueError, r"values? to unpack", "write as many names on the left, or *rest"),
    (ValueError, r"cannot assign .* to the parameter",
     "a Parameter keeps its shape and dtype: reshape or cast the value"),
    (TypeError, r"unsupported operand type\(s\) for .*Tensor'",
     "only tensors and numbers take part in arithmetic"),
    (TypeError, r"must be (a tensor of )?ints( or bools)?, but got", _TO_INT),
    (TypeError, r"must be a Tensor( or a number)?, but got", _MAKE),
    (TypeError, r"must be a list or tuple of Tensors, but got Tensor", "write a tuple: ((a, b))"),
    (TypeError, r"all elements of the argument 'parameters'|'weights' must be a Parameter",
     "pass net.trainable_params()"),
    (TypeError, r"of int, but got|must be an int, but got", "write ints: 2, not 2.0 or '2'"),
    (TypeError, r"element type|dtype must", "element types are ms.float32, ms.int32 and so on"),
    (TypeError, r"cannot be called", "only functions, methods and Cells can be called"),
    (TypeError, r"object is not iterable",
     "a number has no elements: range(n) counts, (n,) holds one"),
    (TypeError, r"0-d tensor", "a scalar has no rows: use it as it is"),
    (TypeError, r"can only concatenate str", "convert with str(), or write an f-string"),
    (TypeError, r"no len\(\)", "a number has no length"),
    (IndexError, r"valid indices", "convert a float index by int(), a tensor by astype(ms.int32)"),
    (IndexError, r"too many indices", "x.ndim is the number of axes"),
    (ZeroDivisionError, r"", "the divisor is 0 while compiling: choose by 'if' before dividing"),
)


def advise(error: Exception) -> str:
    """Return the hint for a common error, by its text; "" if there is none."""
    message = str(error)
    for kind, pattern, hint in _ADVICE:
        if isinstance(error, kind) and re.search(pattern, message):
            return hint
    return ""


def closest(name: str, known: Iterable[str]) -> str:
    """The name most like one that is not known, or ""."""
    names = [n for n in known if not n.startswith("_") or name.startswith("_")]
    same = [n for n in names if n.lower() == name.lower() or sorted(n) == sorted(name)]
    found = same or get_close_matches(name, names, 1, 0.76)
    return found[0] if found else ""


_ARGUMENTS = re.compile(
    r"\(\) (missing|is missing|takes|got an unexpected keyword|got multiple values|got two values)"
)


def for_call(message: str, callee: Any) -> tuple[str, str]:
    """A note with the signature of what was called with wrong arguments, and a hint."""
    if callee is None or not _ARGUMENTS.search(message):
        return "", ""
    name = message.partition("()")[0].rpartition(".")[2]
    fn = plain(callee, "construct", callee)
    if plain(fn, "__name__") != name:
        return "", ""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return "", ""
    bare = signature.replace(
        parameters=[p.replace(annotation=p.empty) for p in signature.parameters.values()],
        return_annotation=signature.empty)
    wrong = re.search(r"keyword argument '(\w+)'", message)
    own = other_names.ARGUMENTS.get(wrong.group(1), "") if wrong else ""
    like = own if own in signature.parameters else \
        closest(wrong.group(1), signature.parameters) if wrong else ""
    return f"it is {name}{bare}", f"did you mean '{like}'?" if like else ""
