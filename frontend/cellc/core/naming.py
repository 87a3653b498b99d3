"""Errors that leave a function of the library say which function, and what it was given wrongly.

An exception that leaves a public function, primitive, layer or constructor of the library is
reworded here. A sentence about the function, or about one of its arguments, names the function. Any
other error, of a function that it calls or of Python, comes after the arguments that cause it: the
one that its annotation excludes, or all that were given. A call that succeeds costs an entry of the
interpreter's exception table. Errors of a user's function that is called back, and those with a
place in a network of their own (of compilation, of a run), pass as they are.
"""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, NoReturn

from .advice import advise, closest, for_call
from .module_names import module_of, plain

_OURS = ("cellc", "cellc_compiler", "cellc_runtime", "numpy", "ml_dtypes", "scipy", "networkx")
_PLAIN = frozenset({TypeError, ValueError, IndexError, RuntimeError, KeyError})
"""The classes that the library raises where it has none of its own."""
_PYTHONS = (TypeError, ValueError, LookupError, ArithmeticError)
"""The classes that Python raises over an argument that nobody has checked."""
_KINDS: Mapping[str, tuple[type, ...]] = {
    "int": (int,), "float": (int, float), "bool": (bool,), "str": (str,), "tuple": (tuple,),
    "dict": (dict,), "list": (list,),
}
"""The types of an annotation, where it is plain."""
_ABOUT = re.compile(r"For '?(?P<name>[^',]+)'?(?:,|:)? (?P<said>.*)", re.DOTALL)
_LISTED = re.compile(r"For '[^']*', these arguments do not fit: .*?(?<![=,])(?<!shape) "
                     r"\((?P<said>.*)\)\.$", re.DOTALL)
"""Of a message: what it says of another function or class."""
_SUBJECT = re.compile(r"^(?:the )?(?:init )?(?:argument )?['`]?(\w+)", re.IGNORECASE)
_QUOTED = re.compile(r"['`](\w+)['`]")  # The words of a sentence that may name an argument


def told(
    error: Exception, name: str, function: Callable[..., Any], args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Exception:
    """Return the exception to raise instead of one that left a function: itself, in words about
    the function, or a TypeError or ValueError about its arguments.

    Args:
        error: was raised by the call.
        name: what the function or class is called by users.
        function: whose signature says how its arguments are called.
        args, kwargs: what it was called with.
    """
    if getattr(error, "names_place", False):  # it names the node of a file
        return error
    text = _words(error)
    if not (text or _is_pythons(error)) or not _is_of_library(error):
        return error
    if _fits_no_signature(error, function, args, kwargs):
        said = re.sub(r"^[\w.<>]+(?=\.(?:__init__|construct)\(\))|^(?=missing|got|too many)",
                      lambda base: name if base[0] else f"For '{name}', ", text)
    else:
        given = _given(function, args, kwargs)
        said = _said_of_own(text, name, function, given)
        if not said:
            said = _said_of_given(text or str(error) or type(error).__name__, name, given)
            if not _ABOUT.match(text):
                kind = TypeError if isinstance(error, (AttributeError, AssertionError)) else \
                    type(error) if text else ValueError
                return kind(said)
    error.args = (said,)
    return error


def is_about(text: str, name: str) -> bool:
    """Whether a message is about a class or function, and not about one that it calls."""
    other, short = _ABOUT.match(text), _letters(name.rpartition(".")[2])
    if other is None:
        return re.search(rf"\b{re.escape(short)}\b", _letters(text)) is not None
    return _letters(other["name"].rpartition(".")[2]) == short


def _said_of_own(
    text: str, name: str, function: Callable[..., Any], given: Sequence[tuple[str, Any, str]]
) -> str:
    """A sentence about a function, or about something that has the name of one of its arguments,
    in the function's words; "" if it is about neither."""
    own = _of_parameters(text, function)
    if text and is_about(own, name):
        return own
    other = _ABOUT.match(own)
    said = other["said"] if other else own
    words = {word.casefold() for pattern in (_SUBJECT, _QUOTED) for word in pattern.findall(said)}
    named = any(key.casefold() in words for key, _, _ in given)
    return f"For '{name}', {said}" if named and not _LISTED.match(text) else ""


def _said_of_given(text: str, name: str, given: Sequence[tuple[str, Any, str]]) -> str:
    """An error about something else, after the arguments that cause it."""
    for key, value, wanted in given:
        if not _fits(value, wanted):
            return f"For '{name}', '{key}' must be {_in_words(wanted)}, but got {described(value)}."
    shown = ", ".join(f"{key} = {described(value)}" for key, value, _ in given)
    listed = _LISTED.match(text)
    reason = re.sub(r"\bGraphTensor\b", "Tensor", listed["said"] if listed else text).rstrip(".")
    return f"For '{name}', these arguments do not fit: {shown} ({reason})."


def _words(error: Exception) -> str:
    """The sentence of an error; "" if it is none, like the key of a KeyError."""
    text = error.args[0] if len(error.args) == 1 else None
    return text if type(error) in _PLAIN and isinstance(text, str) and " " in text else ""


def _is_pythons(error: Exception) -> bool:
    """Whether Python or numpy raise such an error over an argument that nobody has checked."""
    if type(error).__module__ not in ("builtins", "numpy.exceptions", "numpy._core._exceptions"):
        return False
    return isinstance(error, _PYTHONS) or (
        isinstance(error, AttributeError) and "object has no attribute" in str(error)) or (
        isinstance(error, AssertionError) and not error.args)


def _is_of_library(error: Exception) -> bool:
    """Whether only the library ran below the frame that caught an error."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and all(map(_is_ours, frames))


def _is_ours(frame: FrameType) -> bool:
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return package in _OURS or (package in sys.stdlib_module_names and package != "__main__")


def _of_parameters(text: str, function: Callable[..., Any]) -> str:
    """A message with the function's own names of parameters: `keepdims` may be its `keepdim`."""
    if "'" not in text:
        return text
    try:
        own = {_stem(key): key for key in inspect.signature(function).parameters}
    except (TypeError, ValueError):
        return text
    return re.sub(
        r"(?<!For )'(\w+)'",
        lambda word: f"'{own.get(_stem(word[1]), word[1])}'"
        if word[1] not in own.values() else word[0], text)


def _stem(parameter: str) -> str:
    return parameter.replace("_", "").rstrip("s")


def _letters(text: str) -> str:
    return text.replace("_", "").casefold()


def _fits_no_signature(
    error: Exception, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> bool:
    """Whether Python refused the call itself: it says in words which argument is wanted."""
    if not isinstance(error, TypeError):
        return False
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return True
    except ValueError:
        pass
    return False


def _given(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any],
    changed: bool = True,
) -> list[tuple[str, Any, str]]:
    """The arguments of a call: their names, values and annotations.

    Args:
        function, args, kwargs: what is called.
        changed: those alone that are not as they are by default, unless all are.
    """
    try:
        signature = inspect.signature(function)
        bound = signature.bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return [*((f"argument {i}", v, "") for i, v in enumerate(args, 1)),
                *((k, v, "") for k, v in kwargs.items())]
    out: list[tuple[str, Any, str]] = []
    for key, value in bound.items():
        parameter = signature.parameters[key]
        wanted = parameter.annotation
        text = wanted if isinstance(wanted, str) else getattr(wanted, "__name__", "")
        if parameter.kind is parameter.VAR_POSITIONAL:
            out += [(f"{key}[{i}]", v, text) for i, v in enumerate(value)]
        elif parameter.kind is parameter.VAR_KEYWORD:
            out += [(k, v, text) for k, v in value.items()]
        elif value is not parameter.default or not changed:
            out.append((key, value, text))
    return out or _given(function, args, kwargs, False) if changed else out


def _fits(value: Any, wanted: str) -> bool:
    """Whether a value is what a plain annotation asks for (True for others)."""
    parts = [p.strip() for p in wanted.split("|")]
    if value is None and "None" in parts:
        return True
    parts = [p for p in parts if p != "None"]
    if not all(p == "Tensor" or p in _KINDS for p in parts) or not parts:
        return True
    return any(_is_a(value, p) for p in parts)


def _in_words(wanted: str) -> str:
    parts = [p.strip() for p in wanted.split("|")]
    shown = [p if p == "None" else f"{'an' if p == 'int' else 'a'} {p}" for p in parts]
    return ", ".join(shown[:-1]) + " or " * (len(shown) > 1) + shown[-1]


def _is_a(value: Any, wanted: str) -> bool:
    if wanted == "Tensor":
        return is_tensor(value)
    if is_tensor(value):
        return value.size == 1 and wanted in ("int", "float", "bool")  # they stand for a number
    if wanted in ("int", "float") and hasattr(type(value), "__index__"):
        return not isinstance(value, bool)
    return isinstance(value, _KINDS[wanted])


def is_tensor(value: Any) -> bool:
    """Whether something is a Tensor, a class that this module does not know."""
    return any(c.__name__ == "Tensor" and c.__module__.startswith("cellc.")
               for c in type(value).__mro__)


def check_operands(op: str, operands: Sequence[Any]) -> None:
    """Whether an op was given Tensors."""
    for i, value in enumerate(operands):
        if not is_tensor(value):
            which = f"input {i + 1}" if len(operands) > 1 else "input"
            raise TypeError(f"For '{op}', the {which} must be a Tensor, but got "
                            f"{described(value)}.")


def described(value: Any) -> str:
    """An argument, in a message: short, and the same in both modes."""
    if is_tensor(value):
        article = "an" if str(value.dtype).startswith("Int") else "a"
        return f"{article} {value.dtype} tensor of shape {value.shape}"
    if isinstance(value, (int, float, str, type(None))):
        text = repr(value)
        return text if len(text) <= 40 else f"{text[:36]}..."
    if isinstance(value, (list, tuple)) and len(value) <= 4:
        inner = ", ".join(map(described, value))
        return f"[{inner}]" if isinstance(value, list) else \
            f"({inner}{',' if len(value) == 1 else ''})"
    kind = type(value).__name__
    return f"an {kind}" if kind[0] in "aeiouAEIOU" else f"a {kind}"


def raise_told(
    error: Exception, name: str, function: Callable[..., Any], args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> NoReturn:
    """Raise the reworded error; where nothing is reworded, the error itself, as it came."""
    found = told(error, name, function, args, kwargs)
    _note_hint(error, found)
    if found is error:
        raise
    raise found from error


def raise_told_of_cell(
    error: Exception, cell: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> NoReturn:
    """As `raise_told`, for the call of a layer; a Cell of the user fails as it does."""
    found = error
    if module_of(type(cell).construct).startswith("cellc."):
        found = told(error, cell.cls_name, cell.construct, args, kwargs)
    _note_hint(error, found)
    _note_call(error, found, cell)
    _note_cell(error, found, cell)
    if found is error:
        raise
    raise found from error


def _note_hint(error: Exception, found: Exception) -> None:
    """Note on an error that the library raised what to write instead, as compiled code says it.

    Args:
        error: that left a function or Cell.
        found: the error to raise.
    """
    own = plain(found, "__dict__")
    if found is not error and "__notes__" in plain(error, "__dict__"):
        own["__notes__"] = list(error.__notes__)
    if "__notes__" in own or "_raised_in" in own or not _is_raised_by_library(error):
        return
    hint = advise(found)
    if hint:
        own["__notes__"] = [f"hint: {hint}"]


def _note_call(error: Exception, found: Exception, cell: Any) -> None:
    """Note on an error of a Cell's call, or of a call or an attribute in its `construct`, how the
    arguments are called, or which name is like the one that is not known."""
    own = plain(found, "__dict__")
    if "__notes__" in own or "_raised_in" in own:
        return
    if isinstance(error, AttributeError):
        own_names = [*(plain(cell, "_cells") or ()), *(plain(cell, "_params") or ())]
        like = closest(error.name, own_names) if error.obj is cell and error.name else ""
        notes = [f"hint: did you mean '{like}'?"] if like else []
    elif isinstance(error, TypeError):
        text = str(error)
        ops = sys.modules.get("cellc.ops")
        note, hint = for_call(text, cell.construct) if text.startswith(
            f"{type(cell).__name__}.construct()") else ("", "")
        called = text.partition("()")[0]
        if not note and ops is not None and called in ops.__all__:
            note, hint = for_call(text, getattr(ops, called))
        notes = [f"{head}: {said}" for head, said in (("note", note), ("hint", hint)) if said]
    else:
        return
    if notes:
        own["__notes__"] = notes


def _is_raised_by_library(error: Exception) -> bool:
    """Whether the frame that raised an error is one of the library, whoever called it."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and _is_ours(frames[-1])


def _note_cell(error: Exception, found: Exception, cell: Any) -> None:
    """Note on an error which Cell below this one raised it, as compiled code says it.

    Args:
        error: that left the Cell below, or this one's own.
        found: the error to raise.
    """
    # (A class of the user's may have a `__setattr__` or `__getattr__`, which must not run here.)
    own = plain(found, "__dict__")
    inner = own["_raised_in"] = plain(error, "__dict__").get("_raised_in", cell)
    if inner is cell or isinstance(error, RecursionError):
        return
    path = next((name for name, below in cell.cells_and_names() if below is inner), "")
    start = f"note: raised in {type(inner).__name__}.construct"
    notes = [note for note in own.get("__notes__", ()) if not note.startswith(start)]
    own["__notes__"] = [f"{start} (cell {path})", *notes] if path else notes
