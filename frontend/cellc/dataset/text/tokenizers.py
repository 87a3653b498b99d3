"""Tokenizers: texts become words, characters or pieces of words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from itertools import groupby
from typing import Annotated, Any

import numpy as np

from ...core.declared import Flag, Function, NonNegative, Rule
from ..declared import argument
from .base import Piece, TextTransform, Tokenizer
from .scripts import scripts_of
from .vocab import Vocab


class NormalizeForm(IntEnum):
    """Forms of Unicode."""

    NONE = 0
    NFC = 1
    NFKC = 2
    NFD = 3
    NFKD = 4


_FORMS: dict[NormalizeForm, Callable[[str], str]] = {
    NormalizeForm.NONE: str, NormalizeForm.NFC: partial(unicodedata.normalize, "NFC"),
    NormalizeForm.NFKC: partial(unicodedata.normalize, "NFKC"),
    NormalizeForm.NFD: partial(unicodedata.normalize, "NFD"),
    NormalizeForm.NFKD: partial(unicodedata.normalize, "NFKD"),
}


def normalized(text: str, form: NormalizeForm) -> str:
    """A text in one of the forms."""
    return _FORMS[form](text)


def folded(text: str) -> str:
    """A text without differences of case and compatibility, and without invisible characters."""
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(c for c in plain if unicodedata.category(c) != "Cf")


class WhitespaceTokenizer(Tokenizer):
    """Words between white space."""

    with_offsets: Flag = False

    def _pieces(self, text: str) -> list[Piece]:
        return [(m.group(), *m.span()) for m in re.finditer(r"\S+", text)]


class UnicodeCharTokenizer(Tokenizer):
    """Characters."""

    with_offsets: Flag = False

    def _pieces(self, text: str) -> list[Piece]:
        return [(c, i, i + 1) for i, c in enumerate(text)]


_WHITE = frozenset("\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007"
                   "\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000")
"""Unicode's white space."""


class UnicodeScriptTokenizer(Tokenizer):
    """Runs of characters of one script: words, runs of signs and digits, white space."""

    keep_whitespace: Flag = argument(
        default=False, text="whether runs of white space are tokens too.")
    with_offsets: Flag = False

    def _pieces(self, text: str) -> list[Piece]:
        kinds = zip(scripts_of(text).tolist(), (c in _WHITE for c in text), strict=True)
        found, end = [], 0
        for (_, white), run in groupby(kinds):
            start, end = end, end + sum(1 for _ in run)
            if self.keep_whitespace or not white:
                found.append((text[start:end], start, end))
        return found


class PythonTokenizer(TextTransform):
    """The tokens that a function makes of a text."""

    tokenizer: Function = argument(text="called with a string; gives a list of them.")

    def _apply(self, *args: Any) -> Any:
        return np.array(self.tokenizer(self._one(args[0])) or [""])


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression of Python's: {error}. Classes such "
                         "as \\p{L} are not among these.") from error


Pattern = Annotated[Any, Rule("a regular expression", lambda value: isinstance(value, str),
                              normal=_compiled)]


def pieces_between(
    text: str, delimiter: re.Pattern[str], kept: Callable[[str], Any]
) -> list[Piece]:
    """Return the pieces between delimiters, and the delimiters that are kept."""
    found, start = [], 0
    for match in delimiter.finditer(text):
        begin, end = match.span()
        if begin == end:
            continue
        if start < begin:
            found.append((text[start:begin], start, begin))
        if kept(match.group()):
            found.append((match.group(), begin, end))
        start = end
    return [*found, (text[start:], start, len(text))] if start < len(text) else found


class RegexTokenizer(Tokenizer):
    """The pieces between matches of a regular expression."""

    delim_pattern: Pattern = argument(text="the expression, of Python's `re`.")
    keep_delim_pattern: Pattern = argument(
        default="", text='matches that are such, too, are tokens; "": none is.')
    with_offsets: Flag = False

    def _pieces(self, text: str) -> list[Piece]:
        return pieces_between(text, self.delim_pattern, self.keep_delim_pattern.fullmatch)


_SPECIAL = r"\[(?:CLS|SEP|UNK|PAD|MASK|unused\d+)\]"
_CHINESE = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
            (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))


def _alone(character: str) -> bool:
    """Whether a character is a token by itself: punctuation and Chinese characters."""
    code = ord(character)
    if code < 128:
        return not character.isalnum() and 32 < code < 127
    return unicodedata.category(character)[0] == "P" or any(
        low <= code <= high for low, high in _CHINESE)


class _Ways:
    """The attributes of tokenizers that cut words; they declare them last."""

    lower_case: bool
    keep_whitespace: bool
    normalization_form: NormalizeForm
    preserve_unused_token: bool


class _Basic(_Ways, Tokenizer):
    """Base of tokenizers that cut words, punctuation marks and Chinese characters apart."""

    _texts = {
        "lower_case": "whether to fold the case and drop accents first.",
        "keep_whitespace": "whether runs of white space are tokens.",
        "normalization_form": "in which the text is put first; not with `lower_case`.",
        "preserve_unused_token": "whether [CLS], [SEP], [UNK], [PAD], [MASK] and [unused0] and so "
                                 "on stay as they are.",
        "with_offsets": "see `Tokenizer`; of the text as it is after lowering and normalizing."}

    def _prepare(self) -> None:
        self._special = re.compile(_SPECIAL if self.preserve_unused_token else r"(?!)")

    def _apply(self, *args: Any) -> Any:
        text = self._prepared(self._one(args[0]))
        return self._given(self._pieces(text), text)

    def _prepared(self, text: str) -> str:
        """The text as it is cut."""
        parts = [part if kept else self._changed(part) for part, kept in self._parts(text)]
        return "".join(parts)

    def _changed(self, text: str) -> str:
        if self.lower_case:
            text = unicodedata.normalize("NFD", folded(text))
            text = "".join(c for c in text if unicodedata.category(c) != "Mn")
        else:
            text = normalized(text, self.normalization_form)
        return "".join(" " if unicodedata.category(c) in ("Cc", "Cf") else c for c in text)

    def _parts(self, text: str) -> list[tuple[str, bool]]:
        """The text cut at the special tokens, and which parts are these."""
        pieces = pieces_between(text, self._special, bool)
        return [(p, self._special.fullmatch(p) is not None) for p, _, _ in pieces]

    def _pieces(self, text: str) -> list[Piece]:
        found: list[Piece] = []
        start = 0
        for part, special in self._parts(text):
            own = [(part, 0, len(part))] if special else self._words(part)
            found += [(t, start + begin, start + end) for t, begin, end in own]
            start += len(part)
        return found

    def _words(self, text: str) -> list[Piece]:
        found = []
        for run in re.finditer(r"\s+|\S+", text):
            if run.group().isspace():
                found += [(run.group(), *run.span())] if self.keep_whitespace else []
                continue
            start = run.start()
            for i in range(*run.span()):
                if _alone(text[i]):
                    found += [(text[start:i], start, i)] if start < i else []
                    found.append((text[i], i, i + 1))
                    start = i + 1
            found += [(text[start : run.end()], start, run.end())] if start < run.end() else []
        return found


class BasicTokenizer(_Basic):
    """Words, punctuation marks and Chinese characters (Devlin et al., 2018)."""

    lower_case: Flag = False
    keep_whitespace: Flag = False
    normalization_form: NormalizeForm = NormalizeForm.NONE
    preserve_unused_token: Flag = True
    with_offsets: Flag = False


class WordpieceTokenizer(Tokenizer):
    """Words cut into the longest pieces that a vocabulary has (Wu et al., 2016)."""

    vocab: Vocab = argument(text="has the pieces.")
    suffix_indicator: str = argument(
        default="##", text="what pieces begin with that do not begin a word.")
    max_bytes_per_token: NonNegative = argument(default=100, text="longer words are unknown.")
    unknown_token: str = argument(
        default="[UNK]", text='stands for unknown words; "": they stay as they are.')
    with_offsets: Flag = argument(default=False, text="see `Tokenizer`; within each word.")

    def _prepare(self) -> None:
        self._ids = self.vocab.vocab()

    def _apply(self, *args: Any) -> Any:
        words = self._text(args[0], [0, 1]).ravel().tolist()
        made = [self._given(self._pieces(word), word) for word in words]
        if not self.with_offsets:
            return np.concatenate(made) if made else np.zeros(0, "U1")
        return tuple(np.concatenate(each) for each in zip(*made, strict=True))

    def _pieces(self, word: str) -> list[Piece]:
        whole = [(self.unknown_token or word, 0, len(word))]
        if len(word.encode()) > self.max_bytes_per_token:
            return whole
        found: list[Piece] = []
        start = 0
        while start < len(word):
            piece = self._longest(word, start)
            if piece is None:
                return whole
            found.append(piece)
            start = piece[2]
        return found

    def _longest(self, word: str, start: int) -> Piece | None:
        for end in range(len(word), start, -1):
            piece = (self.suffix_indicator if start else "") + word[start:end]
            if piece in self._ids:
                return piece, start, end
        return None


class BertTokenizer(_Basic):
    """The tokens of `BasicTokenizer`, cut by `WordpieceTokenizer`."""

    vocab: Vocab = argument(text="see `WordpieceTokenizer`.")
    suffix_indicator: str = argument(default="##", text="see `WordpieceTokenizer`.")
    max_bytes_per_token: NonNegative = argument(default=100, text="see `WordpieceTokenizer`.")
    unknown_token: str = argument(default="[UNK]", text="see `WordpieceTokenizer`.")
    lower_case: Flag = False
    keep_whitespace: Flag = False
    normalization_form: NormalizeForm = NormalizeForm.NONE
    preserve_unused_token: Flag = True
    with_offsets: Flag = False

    def _prepare(self) -> None:
        super()._prepare()
        self._cutter = WordpieceTokenizer(
            self.vocab, self.suffix_indicator, self.max_bytes_per_token, self.unknown_token)

    def _pieces(self, text: str) -> list[Piece]:
        return [(token, start + begin, start + end)
                for word, start, _ in super()._pieces(text)
                for token, begin, end in self._cutter._pieces(word)]
