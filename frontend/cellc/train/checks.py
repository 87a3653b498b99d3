"""Checks that `cellc.train` shares: of the kinds of arguments, and of what metrics are given."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


def of_kind(value: T, kinds: Any, text: str, error: type[Exception] = TypeError, **more: Any) -> T:
    """A value, which must be of one of some kinds.

    Args:
        value: the value.
        kinds: a class or a tuple of them; a bool is none but of `bool`.
        text: of the error, where `{kind}` stands for the value's class, `{value}` for the value.
        error: its class.
        more: what else the text names.
    """
    many = kinds if isinstance(kinds, tuple) else (kinds,)
    if isinstance(value, many) and (bool in many or not isinstance(value, bool)):
        return value
    raise error(text.format(value=value, kind=type(value), **more))


def counted(who: str, inputs: tuple[Any, ...], count: int, what: str) -> tuple[Any, ...]:
    """The inputs of an `update`."""
    if len(inputs) != count:
        raise ValueError(
            f"For '{who}.update', it needs {count} inputs ({what}), but got {len(inputs)}.")
    return inputs


def check_fit(good: bool, who: str, rule: str, first: Any, second: Any) -> None:
    """Raise unless the shapes of two inputs of an `update` fit."""
    if not good:
        raise ValueError(f"For '{who}.update', {rule} {first.shape} and {second.shape}.")


def updated(who: str, seen: T | None, samples: bool = True) -> T:
    """Return the state that `update` has set."""
    if seen is None:
        none = "there are no samples: " if samples else ""
        raise RuntimeError(f"For '{who}.eval', {none}call 'update' first.")
    return seen
