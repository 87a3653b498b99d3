"""Errors that leave a function of the library say which function, and what it was given wrongly.

Where a public function, primitive or layer is entered, an exception passes `told`: one that names
nothing gets the function's name before its text, one about another function, which it calls, gets
the outer one's arguments, and one that Python or numpy raised within the library, over an argument
that nobody had checked, becomes a TypeError or ValueError that says which argument does not fit.
Constructors of the library's classes pass `told_of_made`. A call that succeeds costs an entry of
the interpreter's exception table. Errors of a user's function that is called back, and those with a
place in a network of their own (of compilation, of a run), pass as they are.
"""

from __future__ import annotations

import dis
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, NoReturn

_RAISE = dis.opmap["RAISE_VARARGS"]
_LIBRARY = ("cellc", "cellc_compiler", "cellc_runtime")
_NUMERICAL = ("numpy", "ml_dtypes", "scipy", "networkx")
_PLAIN = frozenset({TypeError, ValueError, IndexError, RuntimeError, KeyError})
"""The classes that the library raises where it has none of its own."""
_OF_TYPE = (TypeError, AttributeError, AssertionError)
_KINDS: Mapping[str, tuple[type, ...]] = {
    "int": (int,), "float": (int, float), "bool": (bool,), "str": (str,), "tuple": (tuple,),
    "dict": (dict,), "list": (list,),
}
"""The types of an annotation, where it is plain."""
_OTHER = re.compile(r"For '?(?P<name>[^',]+)'?(?:,|:)? (?P<said>.*)", re.DOTALL)
_LISTED = re.compile(r"For '[^']*', these arguments do not fit: .*?(?<![=,])(?<!shape) "
                     r"\((?P<said>.*)\)\.$", re.DOTALL)
"""Of a message: what it says of another function or class."""


def told(
    error: Exception, name: str, function: Callable[..., Any], args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Exception:
    """Return the exception to raise instead of one that left a function: itself, with the name in
    its text if that was missing, or another one.

    Args:
        error: was raised by the call.
        name: what the function is called by users.
        function: whose signature says how its arguments are called.
        args, kwargs: what it was called with.
    """
    if type(error).__module__ not in ("builtins", "numpy.exceptions", "numpy._core._exceptions"):
        return error
    frames = _frames(error)
    if not frames or not all(_is_ours(f) for f, _ in frames):
        return error
    if _in_words_of_ours(frames):
        return _with_name(error, name, function, args, kwargs)
    if _fits_no_signature(error, function, args, kwargs):
        return error
    if isinstance(error, (RecursionError, MemoryError, NameError, OSError, ImportError)):
        return error
    return _of_arguments(error, name, function, args, kwargs)


def told_of_made(
    error: Exception, name: str, function: Callable[..., Any], args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Exception:
    """As `told`, for the constructor of a class, which makes other objects from its arguments: an
    error about one of those, or about no argument, names the constructor's arguments.

    Args:
        error: was raised by the constructor.
        name: the class's.
        function: the constructor, without what it makes.
        args, kwargs: what it was called with.
    """
    text = _words(error)
    if not text or is_about(text, name):
        return told(error, name, function, args, kwargs)
    frames = _frames(error)
    if _fits_no_signature(error, function, args, kwargs):
        error.args = (re.sub(r"^\w+(?=\.__init__\(\))|^(?=missing|got|too many)",
                             lambda base: name if base[0] else f"For '{name}', ", text),)
    elif not all(_is_ours(f) for f, _ in frames) or not _in_words_of_ours(frames):
        return told(error, name, function, args, kwargs)
    else:
        error.args = (_said_of_made(text, name, function, args, kwargs),)
    return error


def _said_of_made(
    text: str, name: str, function: Callable[..., Any], args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> str:
    """An error about something else in the words of the constructor: of the argument that it names,
    if the constructor has one of that name, or of all."""
    listed, other = _LISTED.match(text), _OTHER.match(text)
    if listed is None:
        said = other["said"] if other else text
        if any(_has_word(said, key) for key, _, _ in _given(function, args, kwargs, bool(other))):
            return _for(name, said)
    return _said_of_all(text, name, function, args, kwargs)


def _said_of_all(
    text: str, name: str, function: Callable[..., Any], args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> str:
    """Return an error about something else, after the arguments that cause it."""
    listed = _LISTED.match(text)
    reason = TypeError(listed["said"] if listed else text)
    return str(_of_arguments(reason, name, function, args, kwargs))


def is_about(text: str, name: str) -> bool:
    """Whether a message is about a class or function, and not about one that it calls."""
    other, short = _OTHER.match(text), _letters(name.rpartition(".")[2])
    if other is None:
        return short in _letters(text)
    return _letters(other["name"].rpartition(".")[2]) == short


def _has_word(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None


def is_raised(error: Exception) -> bool:
    """Whether a `raise` raised an error, and no operation of Python."""
    frames = _frames(error)
    return bool(frames) and _is_raise(*frames[-1])


def _is_raise(frame: FrameType, at: int) -> bool:
    return frame.f_code.co_code[at] == _RAISE


def _in_words_of_ours(frames: Sequence[tuple[FrameType, int]]) -> bool:
    """Whether the library has raised an error on purpose; an object that has no such attribute says
    so on Python's behalf."""
    frame, _ = frames[-1]
    return _is_raise(*frames[-1]) and _package(frame) in _LIBRARY \
        and frame.f_code.co_name != "__getattr__"


def _frames(error: Exception) -> list[tuple[FrameType, int]]:
    """The frames below the one that caught it, and where they were, from the outermost in."""
    trace, out = error.__traceback__, []
    while trace is not None:
        out.append((trace.tb_frame, trace.tb_lasti))
        trace = trace.tb_next
    return out


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _is_ours(frame: FrameType) -> bool:
    package = _package(frame)
    return package in _LIBRARY or package in _NUMERICAL or (
        package in sys.stdlib_module_names and package != "__main__")


def _with_name(
    error: Exception, name: str, function: Callable[..., Any], args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Exception:
    text = _words(error)
    if text:
        own = _of_parameters(text, function)
        if not is_about(own, name):
            own = _of_own_arguments(own, name, function, args, kwargs)
        error.args = (own,)
    return error


def _of_own_arguments(
    text: str, name: str, function: Callable[..., Any], args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> str:
    """A message that does not name a function, or another one which that calls. An argument of the
    same name is what the function was given; else it says which do not fit."""
    other = _OTHER.match(text)
    if other is None:
        return _for(name, text)
    about = re.findall(r"'(\w+)'", other["said"])[:1]
    if any([key] == about for key, _, _ in _given(function, args, kwargs)):
        return _for(name, other["said"])
    return _said_of_all(text, name, function, args, kwargs)


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


def _words(error: Exception) -> str:
    """The sentence of an error of the library; "" if it is none, like the key of a KeyError."""
    text = error.args[0] if len(error.args) == 1 else None
    return text if type(error) in _PLAIN and isinstance(text, str) and " " in text else ""


def _for(name: str, text: str) -> str:
    """Return a sentence that names its subject first."""
    return f"For '{name}', {text}"


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


def _of_arguments(
    error: Exception, name: str, function: Callable[..., Any], args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Exception:
    given = _given(function, args, kwargs)
    wrong = next((f"'{key}' must be {_in_words(wanted)}, but got {described(value)}"
                  for key, value, wanted in given if not _fits(value, wanted)), "")
    if wrong:
        return TypeError(f"For '{name}', {wrong}.")
    shown = ", ".join(f"{key} = {described(value)}" for key, value, _ in given)
    said = re.sub(r"\bGraphTensor\b", "Tensor", str(error)) or type(error).__name__
    kind = TypeError if isinstance(error, _OF_TYPE) else ValueError
    return kind(f"For '{name}', these arguments do not fit: {shown} ({said.rstrip('.')}).")


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
        return f"a {value.dtype} tensor of shape {value.shape}"
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
    """Raise the result of `told`; where that is the error itself, as it came."""
    _raise(told(error, name, function, args, kwargs), error)


def raise_told_of_made(
    error: Exception, name: str, function: Callable[..., Any], args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> NoReturn:
    """Raise what `told_of_made` gives; where that is the error itself, as it came."""
    _raise(told_of_made(error, name, function, args, kwargs), error)


def _raise(found: Exception, error: Exception) -> NoReturn:
    if found is error:
        raise
    raise found from error

