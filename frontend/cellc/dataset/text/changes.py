"""Transforms of strings and of sequences of tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, get_args

import numpy as np

from ...core.declared import Flag, NonNegative, Positive, Rule, integer, is_int
from ..declared import Fields, argument
from ..transforms import NumpyType, Transform
from .base import Mapped, TextTransform
from .tokenizers import NormalizeForm, Pattern, folded, normalized


class CaseFold(Mapped):
    """Lower case, by the folding of Unicode."""

    def _made(self, text: str) -> str:
        return folded(text)


class NormalizeUTF8(Mapped):
    """A form of Unicode."""

    normalize_form: NormalizeForm = NormalizeForm.NFKC

    def _made(self, text: str) -> str:
        return normalized(text, self.normalize_form)


class RegexReplace(Mapped):
    """Matches of a regular expression replaced."""

    pattern: Pattern = argument(text="the expression, of Python's `re`.")
    replace: str = argument(text=r"what is put instead; `$1` or `\1` mean groups.")
    replace_all: Flag = argument(default=True, text="whether all matches are; else the first.")

    def _prepare(self) -> None:
        self._replace = re.sub(r"\$(\d+)", r"\\g<\1>", self.replace)

    def _made(self, text: str) -> str:
        return str(self.pattern.sub(self._replace, text, 0 if self.replace_all else 1))


_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class FilterWikipediaXML(Mapped):
    """The words of a line of Wikipedia's XML: lower-case letters, digits spelled out.

    Source: `mindspore.dataset.text.FilterWikipediaXML`; Mahoney, "About the test data", 2006.
    """

    def _made(self, text: str) -> str:
        if re.search("#redirect", text, re.IGNORECASE):
            return ""
        text = re.sub("&[^;]*;", " ", re.sub("<.*>", "", text))
        text = re.sub("[A-Z]", lambda letter: letter.group().lower(), text)
        text = re.sub(r"[0-9]", lambda digit: f" {_DIGITS[int(digit.group())]} ", text)
        return re.sub("[^a-z]+", " ", text).strip()


_TYPE = get_args(NumpyType)[1]


class ToNumber(TextTransform):
    """Numbers of strings.

    Raises:
        RuntimeError: (when called) a string is no number, or too large.
    """

    data_type: Annotated[Any, Rule(
        "a dtype of numbers", lambda value: _TYPE.fits(value) and
        _TYPE.normal(value).kind in "iuf", normal=_TYPE.normal)] = argument(text="of the numbers.")

    def _apply(self, *args: Any) -> Any:
        texts = self._text(args[0])
        found = [self._number(t) for t in texts.ravel().tolist()]
        return np.array(found, self.data_type).reshape(texts.shape)

    def _number(self, text: str) -> Any:
        whole = self.data_type.kind in "iu"
        try:
            number = int(text) if whole else float(text)
        except ValueError as error:
            raise self._refused(f"{text!r} is no number of {self.data_type}.") from error
        bounds = np.iinfo(self.data_type) if whole else np.finfo(self.data_type)
        if not bounds.min <= number <= bounds.max and abs(number) != float("inf") \
                and number == number:
            raise self._refused(f"{text} is out of the range of {self.data_type}: "
                                f"{bounds.min} to {bounds.max}.")
        return number


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


Pad = Annotated[Any, Rule(
    "a tuple (token, non-negative int)", lambda value: True,
    lambda value: isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)
    and is_int(value[1]) and value[1] >= 0)]


class Ngram(TextTransform):
    """Runs of n tokens, joined."""

    n: Annotated[Any, Rule(
        "a positive int or a list of them", lambda value: all(map(is_int, _listed(value))),
        lambda value: bool(_listed(value)) and min(_listed(value)) > 0, _listed)] = argument(
            text="how many tokens, or a list of that.")
    left_pad: Pad = argument(
        default=("", 0), text="a token and how often it is put before at most; there are never "
                              "more than n - 1.")
    right_pad: Pad = argument(default=("", 0), text="the same, after.")
    separator: str = argument(default=" ", text="what is between the tokens of a run.")

    def _apply(self, *args: Any) -> Any:
        tokens = self._text(args[0], [1]).tolist()
        return np.array([gram for n in self.n for gram in self._grams(tokens, n)])

    def _grams(self, tokens: list[str], n: int) -> list[str]:
        (before, left), (after, right) = self.left_pad, self.right_pad
        full = [before] * min(left, n - 1) + tokens + [after] * min(right, n - 1)
        found = [self.separator.join(full[i : i + n]) for i in range(len(full) - n + 1)]
        return found or [""]


class SlidingWindow(Fields, Transform):
    """Runs of `width` elements, as rows."""

    width: Positive = argument(text="how many.")
    axis: Annotated[int, integer(-1, 0)] = argument(
        default=0, text="along which; the array has one.")

    def _apply(self, *args: Any) -> Any:
        (values,) = args
        if values.ndim != 1:
            raise self._refused(f"one axis is wanted, but the shape is {values.shape}.")
        if len(values) < self.width:
            return values[:0]
        return np.lib.stride_tricks.sliding_window_view(values, self.width).copy()


class Truncate(Fields, Transform):
    """At most `max_seq_len` elements of the last axis."""

    max_seq_len: NonNegative = argument(text="how many.")

    def _apply(self, *args: Any) -> Any:
        (values,) = args
        if values.ndim not in (1, 2):
            raise self._refused(f"1 or 2 axes are wanted, but the shape is {values.shape}.")
        return values[..., : self.max_seq_len].copy()


class TruncateSequencePair(Fields, Transform):
    """Two sequences with at most `max_length` elements in all: the longer one is cut."""

    max_length: NonNegative = argument(text="how many.")

    def _apply(self, *args: Any) -> Any:
        if len(args) != 2 or any(a.ndim != 1 for a in args):
            raise self._refused("two sequences of one axis are wanted, but got shapes "
                                f"{[a.shape for a in args]}.")
        first, second = map(len, args)
        surplus = max(0, first + second - self.max_length)
        # The longer one first, down to the other; what is then too much in turn, the second first.
        more = min(surplus, abs(first - second))
        first, second = (first - more, second) if first > second else (first, second - more)
        rest = surplus - more
        first, second = first - rest // 2, second - (rest - rest // 2)
        return args[0][:first].copy(), args[1][:second].copy()


class AddToken(TextTransform):
    """A token at the beginning or the end."""

    token: str = argument(text="the token.")
    begin: Flag = argument(default=True, text="whether at the beginning.")

    def _apply(self, *args: Any) -> Any:
        tokens = self._text(args[0], [1, 2])
        own = np.full((*tokens.shape[:-1], 1), self.token)
        parts: Sequence[Any] = (own, tokens) if self.begin else (tokens, own)
        return np.concatenate(parts, -1)


def to_str(array: Any, encoding: str = "utf8") -> Any:
    """An array of strings of one of bytes."""
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "SU":
        raise TypeError(f"input should be a NumPy array of bytes or strings, but got {array!r}.")
    return array if array.dtype.kind == "U" else np.char.decode(array, encoding)


def to_bytes(array: Any, encoding: str = "utf8") -> Any:
    """An array of bytes of one of strings."""
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "SU":
        raise TypeError(f"input should be a NumPy array of strings or bytes, but got {array!r}.")
    return array if array.dtype.kind == "S" else np.char.encode(array, encoding)
