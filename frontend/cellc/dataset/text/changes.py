"""Transforms of strings and of sequences of tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import checks
from ..transforms import Transform, numpy_type
from .base import Mapped, TextTransform
from .tokenizers import NormalizeForm, compiled, folded, normalized


class CaseFold(Mapped):
    """Lower case, by the folding of Unicode. Source: `mindspore.dataset.text.CaseFold`."""

    def _made(self, text: str) -> str:
        return folded(text)


class NormalizeUTF8(Mapped):
    """A form of Unicode.

    Args:
        normalize_form: a `NormalizeForm`.

    Source: `mindspore.dataset.text.NormalizeUTF8`.
    """

    def __init__(self, normalize_form: NormalizeForm = NormalizeForm.NFKC) -> None:
        self.normalize_form = checks.of_type("normalize_form", normalize_form, NormalizeForm)

    def _made(self, text: str) -> str:
        return normalized(text, self.normalize_form)


class RegexReplace(Mapped):
    r"""Matches of a regular expression replaced.

    Args:
        pattern: the expression, of Python's `re`.
        replace: what is put instead; `$1` or `\1` mean groups.
        replace_all: whether all matches are; else the first.

    Source: `mindspore.dataset.text.RegexReplace`.
    """

    def __init__(self, pattern: str, replace: str, replace_all: bool = True) -> None:
        self._pattern = compiled("pattern", pattern)
        self._replace = re.sub(r"\$(\d+)", r"\\g<\1>", checks.of_type("replace", replace, str))
        self._count = 0 if checks.of_type("replace_all", replace_all, bool) else 1

    def _made(self, text: str) -> str:
        return self._pattern.sub(self._replace, text, self._count)


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


class ToNumber(TextTransform):
    """Numbers of strings.

    Args:
        data_type: of the numbers.

    Raises:
        RuntimeError: (when called) a string is no number, or too large.

    Source: `mindspore.dataset.text.ToNumber`.
    """

    def __init__(self, data_type: Any) -> None:
        self.data_type = numpy_type("data_type", data_type)
        if self.data_type.kind not in "iuf":
            raise TypeError(f"data_type: {data_type!r} is not numeric data type.")

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


class Ngram(TextTransform):
    """Runs of n tokens, joined.

    Args:
        n: how many tokens, or a list of that.
        left_pad, right_pad: a token and how often it is put before and after at most; there are
            never more than n - 1.
        separator: what is between the tokens of a run.

    Source: `mindspore.dataset.text.Ngram`.
    """

    def __init__(
        self, n: Any, left_pad: tuple[str, int] = ("", 0), right_pad: tuple[str, int] = ("", 0),
        separator: str = " ",
    ) -> None:
        many = n if isinstance(n, list) else [n]
        if not many:
            raise ValueError("n needs to be a non-empty list of positive integers.")
        self.ngrams = [checks.integer(f"gram[{i}]", each, 1) for i, each in enumerate(many)]
        for name, pad in (("left_pad", left_pad), ("right_pad", right_pad)):
            if not (isinstance(pad, tuple) and len(pad) == 2 and isinstance(pad[0], str)
                    and isinstance(pad[1], int)):
                raise ValueError(f"{name} needs to be a tuple of (str, int) str is pad token and "
                                 "int is pad_width.")
            checks.integer(f"{name}[1]", pad[1], 0)
        self.left_pad, self.right_pad = left_pad, right_pad
        self.separator = checks.of_type("separator", separator, str)

    def _apply(self, *args: Any) -> Any:
        tokens = self._text(args[0], [1]).tolist()
        return np.array([gram for n in self.ngrams for gram in self._grams(tokens, n)])

    def _grams(self, tokens: list[str], n: int) -> list[str]:
        (before, left), (after, right) = self.left_pad, self.right_pad
        full = [before] * min(left, n - 1) + tokens + [after] * min(right, n - 1)
        found = [self.separator.join(full[i : i + n]) for i in range(len(full) - n + 1)]
        return found or [""]


class SlidingWindow(Transform):
    """Runs of `width` elements, as rows.

    Args:
        width: how many.
        axis: along which; the array has one.

    Source: `mindspore.dataset.text.SlidingWindow`.
    """

    def __init__(self, width: int, axis: int = 0) -> None:
        self.width = checks.integer("width", width, 1)
        self.axis = checks.integer("axis", axis, -1, 0)

    def _apply(self, *args: Any) -> Any:
        (values,) = args
        if values.ndim != 1:
            raise self._refused(f"one axis is wanted, but the shape is {values.shape}.")
        if len(values) < self.width:
            return values[:0]
        return np.lib.stride_tricks.sliding_window_view(values, self.width).copy()


class Truncate(Transform):
    """At most `max_seq_len` elements of the last axis.

    Args:
        max_seq_len: how many.

    Source: `mindspore.dataset.text.Truncate`.
    """

    def __init__(self, max_seq_len: int) -> None:
        self.max_seq_len = checks.integer("max_seq_len", max_seq_len, 0)

    def _apply(self, *args: Any) -> Any:
        (values,) = args
        if values.ndim not in (1, 2):
            raise self._refused(f"1 or 2 axes are wanted, but the shape is {values.shape}.")
        return values[..., : self.max_seq_len].copy()


class TruncateSequencePair(Transform):
    """Two sequences with at most `max_length` elements in all: the longer one is cut.

    Args:
        max_length: how many.

    Source: `mindspore.dataset.text.TruncateSequencePair`.
    """

    def __init__(self, max_length: int) -> None:
        self.max_length = checks.integer("max_length", max_length, 0)

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
    """A token at the beginning or the end.

    Args:
        token: the token.
        begin: whether at the beginning.

    Source: `mindspore.dataset.text.AddToken`.
    """

    def __init__(self, token: str, begin: bool = True) -> None:
        self.token = checks.of_type("token", token, str)
        self.begin = checks.of_type("begin", begin, bool)

    def _apply(self, *args: Any) -> Any:
        tokens = self._text(args[0], [1, 2])
        own = np.full((*tokens.shape[:-1], 1), self.token)
        parts: Sequence[Any] = (own, tokens) if self.begin else (tokens, own)
        return np.concatenate(parts, -1)


def to_str(array: Any, encoding: str = "utf8") -> Any:
    """An array of strings of one of bytes.

    Source: `mindspore.dataset.text.to_str`.
    """
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "SU":
        raise TypeError(f"input should be a NumPy array of bytes or strings, but got {array!r}.")
    return array if array.dtype.kind == "U" else np.char.decode(array, encoding)


def to_bytes(array: Any, encoding: str = "utf8") -> Any:
    """An array of bytes of one of strings.

    Source: `mindspore.dataset.text.to_bytes`.
    """
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "SU":
        raise TypeError(f"input should be a NumPy array of strings or bytes, but got {array!r}.")
    return array if array.dtype.kind == "S" else np.char.encode(array, encoding)
