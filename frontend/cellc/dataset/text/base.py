"""The common part of text transforms: strings as arrays, and tokens with their places in a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..declared import Fields
from ..transforms import Transform

Piece = tuple[str, int, int]  # A token, and where it begins and ends in its text, in characters


class TextTransform(Fields, Transform):
    """Base of transforms of strings."""

    def _text(self, value: Any, axes: Sequence[int] | None = None) -> np.ndarray[Any, Any]:
        """An array of strings. `axes`: how many axes it may have; None for any number."""
        if value.dtype.kind == "S":
            value = np.char.decode(value, "utf-8")
        if value.dtype.kind != "U":
            raise self._refused(f"strings are wanted, but got {value.dtype}.")
        if axes is not None and value.ndim not in axes:
            raise self._refused(f"the input should have {' or '.join(map(str, axes))} axes, but "
                                f"has the shape {value.shape}.")
        return np.asarray(value)

    def _one(self, value: Any) -> str:
        """A single string."""
        return str(self._text(value, [0]))


TextTensorOperation = TextTransform  # MindSpore's inner name


class Mapped(TextTransform):
    """Base of transforms that make one string of each."""

    def _apply(self, *args: Any) -> Any:
        texts = self._text(args[0])
        return np.array([self._made(t) for t in texts.ravel().tolist()],
                        "U" if not texts.size else None).reshape(texts.shape)

    def _made(self, text: str) -> str:
        """The work, for a subclass to do."""
        raise TypeError(f"{type(self).__name__} is no transform by itself.")


class _Placed:
    """The attribute of tokenizers; they declare it last among their arguments."""

    with_offsets: bool


class Tokenizer(_Placed, TextTransform):
    """Base of transforms that make tokens of a text."""

    _texts = {
        "with_offsets": "whether to give, besides the tokens, where each begins and ends: two "
                        "arrays of uint32, in bytes of UTF-8."}

    def _apply(self, *args: Any) -> Any:
        text = self._one(args[0])
        return self._given(self._pieces(text), text)

    def _pieces(self, text: str) -> list[Piece]:
        """The work, for a subclass to do."""
        raise TypeError(f"{type(self).__name__} is no transform by itself.")

    def _given(self, pieces: list[Piece], text: str) -> Any:
        """The tokens, of a text without any an empty one; and where they are, if that is wanted."""
        pieces = pieces or [("", 0, 0)]
        tokens = np.array([token for token, _, _ in pieces])
        if not self.with_offsets:
            return tokens
        ends = np.cumsum([0, *(len(c.encode()) for c in text)])
        begin, end = ([ends[piece[i]] for piece in pieces] for i in (1, 2))
        return tokens, np.array(begin, np.uint32), np.array(end, np.uint32)
