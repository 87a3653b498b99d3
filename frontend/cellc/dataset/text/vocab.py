"""`Vocab`: words and their numbers, and `Lookup`, which gives the numbers of a text's words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import numpy as np

from ...core.declared import Flag, Positive, Rule, checks_arguments, is_int
from ...core.native import names_itself
from ...tensors import dtype as dtypes
from ..declared import argument, state
from ..pipeline import Dataset
from ..rows import Run, places_of
from ..rules import LABELS, Names
from ..transforms import NumpyType
from .base import TextTransform

_MANY = (list, tuple, np.ndarray)
WORDS = Rule("a list of words", lambda value: isinstance(value, _MANY) and all(
    isinstance(each, str) for each in value), normal=lambda value: list(map(str, value)))
IDS = Rule(
    "a non-negative int or a list of them",
    lambda value: is_int(value) or (isinstance(value, _MANY) and all(map(is_int, value))),
    lambda value: value >= 0 if is_int(value) else all(each >= 0 for each in value))
Words = Annotated[Any, WORDS]
Frequencies = Annotated[Any, Rule(
    "a tuple (least, most) of non-negative ints or None",
    lambda value: isinstance(value, tuple) and all(v is None or is_int(v) for v in value),
    lambda value: len(value) == 2 and all(v is None or v >= 0 for v in value) and (
        None in value or value[0] <= value[1]))]


@names_itself
class Vocab:
    """Words and their numbers: made by one of the methods `from_...`."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._words: dict[int, str] = {}

    @classmethod
    def _of(cls, ids: Mapping[str, int]) -> Vocab:
        made = cls()
        made._ids = dict(ids)
        made._words = {number: word for word, number in made._ids.items()}
        return made

    @classmethod
    @checks_arguments
    def from_list(
        cls, word_list: Words, special_tokens: Words | None = None, special_first: Flag = True
    ) -> Vocab:
        """The words of a list, numbered from 0.

        Args:
            word_list: the words.
            special_tokens: further words, such as "<pad>".
            special_first: whether these come first; else last.

        Raises:
            ValueError: a word is given twice.
        """
        words, special = word_list, special_tokens or []
        for what, many in (("word_list", words), ("special_tokens", special)):
            twice = [word for word, count in Counter(many).items() if count > 1]
            if twice:
                raise ValueError(f"{what} contains duplicate word: {twice[0]}.")
        both = set(words) & set(special)
        if both:
            raise ValueError(f"special_tokens and word_list contain duplicate word: {both}.")
        order = [*special, *words] if special_first else [*words, *special]
        return cls._of({word: i for i, word in enumerate(order)})

    @classmethod
    @checks_arguments
    def from_dict(cls, word_dict: Annotated[Any, LABELS]) -> Vocab:
        """The words of a dict, with the numbers it has for them."""
        return cls._of(word_dict or {})

    @classmethod
    @checks_arguments
    def from_file(
        cls, file_path: str, delimiter: str = "", vocab_size: Positive | None = None,
        special_tokens: Words | None = None, special_first: Flag = True,
    ) -> Vocab:
        """The words of a file, one in each line.

        Args:
            file_path: of the file, in UTF-8.
            delimiter: what a word ends with; "" for the line.
            vocab_size: how many lines are read; None for all.
            special_tokens, special_first: see `from_list`.

        Raises:
            ValueError: a word is there twice.
            RuntimeError: the file cannot be read.
        """
        try:
            with open(file_path, encoding="utf-8") as stream:
                lines = stream.read().split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise RuntimeError(f"from_file: {file_path} cannot be read as UTF-8: {error}") \
                from error
        if not lines[-1]:
            del lines[-1]
        words = [line.split(delimiter)[0] if delimiter else line for line in lines[:vocab_size]]
        try:
            return cls.from_list(words, special_tokens, special_first)
        except ValueError as error:
            raise ValueError(f"from_file: {file_path}: {error}") from None

    @classmethod
    @checks_arguments
    def from_dataset(
        cls, dataset: Dataset, columns: Names | None = None, freq_range: Frequencies | None = None,
        top_k: Positive | None = None, special_tokens: Words | None = None,
        special_first: Flag = True,
    ) -> Vocab:
        """The words of a dataset, the most frequent first; of equally frequent ones by the letter.

        Args:
            dataset: has columns of strings.
            columns: which of them; None for all.
            freq_range: (least, most): how often a word is there; None on either side for any.
            top_k: how many words at most; None for all.
            special_tokens, special_first: see `from_list`.

        Raises:
            RuntimeError: there is no such column, or one without strings.
        """
        low, high = freq_range or (None, None)
        low, high = low or 0, float("inf") if high is None else high
        found = dataset.get_col_names()
        names = found if columns is None else columns
        counts: Counter[str] = Counter()
        places = places_of(names, found, "Vocab.from_dataset")
        for row in dataset.rows(Run()):
            for name, place in zip(names, places, strict=True):
                counts.update(_strings(row[place], name))
        kept = [(word, count) for word, count in counts.items() if low <= count <= high]
        kept.sort(key=lambda each: (-each[1], each[0]))
        return cls.from_list([word for word, _ in kept[:top_k]], special_tokens, special_first)

    def vocab(self) -> dict[str, int]:
        """The numbers by word."""
        return dict(self._ids)

    def tokens_to_ids(self, tokens: Any) -> Any:
        """The number of a word, or of each of several; -1 for one that is not there."""
        if isinstance(tokens, str):
            return self._ids.get(tokens, -1)
        return [self._ids.get(t, -1) for t in WORDS(tokens, "Vocab.tokens_to_ids", "tokens")]

    @checks_arguments
    def ids_to_tokens(self, ids: Annotated[Any, IDS]) -> Any:
        """The word of a number, or of each of several; "" for one that is not there."""
        if is_int(ids):
            return self._words.get(int(ids), "")
        return [self._words.get(int(i), "") for i in ids]


def _strings(value: Any, column: str) -> Iterable[str]:
    if isinstance(value, dict) or value.dtype.kind != "U":
        raise RuntimeError(f"Vocab.from_dataset: column {column!r} has no strings, but "
                           f"{'dicts' if isinstance(value, dict) else value.dtype}.")
    found: list[str] = value.ravel().tolist()
    return found


class Lookup(TextTransform):
    """The numbers of words.

    Raises:
        RuntimeError: (when called) a word is not there.
    """

    vocab: Vocab = argument(text="says them.")
    unknown_token: str | None = argument(
        default=None, text="whose number words have that are not there; None: that is an error.")
    data_type: NumpyType = argument(default=dtypes.int32, text="of the numbers.")
    _unknown: int | None = state(default=None)

    def _prepare(self) -> None:
        if self.unknown_token is not None:
            self._unknown = self.vocab.tokens_to_ids(self.unknown_token)
            if self._unknown == -1:
                raise ValueError(f"unknown_token: {self.unknown_token!r} does not exist in vocab.")

    def _apply(self, *args: Any) -> Any:
        words = self._text(args[0])
        numbers = [self._number(word) for word in words.ravel().tolist()]
        return np.array(numbers, self.data_type).reshape(words.shape)

    def _number(self, word: str) -> int:
        found: int = self.vocab.tokens_to_ids(word)
        if found >= 0:
            return found
        if self._unknown is None:
            raise self._refused(f"token: {word!r} doesn't exist in vocab and no unknown token is "
                                "specified.")
        return self._unknown
